//! Random programs: see `wmc_compiler::testing::random_program`.

use wmc_compiler::testing::random_scalar_program;

use super::{check, check_orders};

fn all_agree(seeds: std::ops::Range<u64>, check: impl Fn(u64) -> Result<(), String>) {
    let failed: Vec<String> = seeds.filter_map(|seed| check(seed).err().map(|e| format!("seed {seed}: {e}"))).collect();
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed[..failed.len().min(20)].join("\n"));
}

#[test]
fn first_order() {
    all_agree(0..2_000, |seed| {
        let (program, inputs) = random_scalar_program(seed);
        check(&program, &inputs, 1e-6)
    });
}

#[test]
fn second_order() {
    all_agree(10_000..10_200, |seed| {
        let (program, inputs) = random_scalar_program(seed);
        check_orders(&program, &inputs, 2, 1e-5)
    });
}

#[test]
fn third_order() {
    all_agree(20_000..20_030, |seed| {
        let (program, inputs) = random_scalar_program(seed);
        check_orders(&program, &inputs, 3, 1e-4)
    });
}

/// `cargo xtask verify gradients`
#[test]
#[ignore = "minutes: ten times as many programs"]
fn many_programs() {
    all_agree(100_000..120_000, |seed| {
        let (program, inputs) = random_scalar_program(seed);
        check(&program, &inputs, 1e-6)
    });
}
