//! Kernels of all models at all levels, as a table.

mod support;

use dsl::hir::Model;
use support::{models, of_text, project};
use wmc_compiler::backend::cpu;
use wmc_compiler::kernel::cost::totals;
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::verify::verify;
use wmc_compiler::lower::{Entry, LowerError, Options, lower};
use wmc_compiler::simplify::simplify;
use wmc_compiler::stage::Simplified;

const FILES: [&str; 11] = [
    "hamworld",
    "hamworld_cartpole",
    "hamworld_s6",
    "hamworld_literal",
    "hamworld_light",
    "hamworld_mamba2",
    "ablations",
    "tdmpc2",
    "dreamerv3",
    "sac",
    "ppo",
];

/// What a level makes of an entry point: launches of a call, kernels of a call, kernels that depend on parameters alone.
fn counts(program: &Simplified, level: Level) -> String {
    let kernels = match fuse(program, &cpu::TARGET, level) {
        Ok(kernels) => kernels,
        Err(error) => return error.to_string(),
    };
    if let Err(error) = verify(&kernels) {
        return format!("does not verify: {error}");
    }
    let (call, prepare) = (totals(&kernels, &kernels.steps), totals(&kernels, &kernels.prepare));
    format!("{:>6} {:>5} {:>4}", call.launches, call.kernels, prepare.kernels)
}

fn row(model: &Model, entry: Entry) -> Option<String> {
    // One environment decides; the batch of training is the model's own.
    let batch = matches!(entry, Entry::Act | Entry::Plan).then_some(1);
    let program = match lower(model, entry, Options { batch, ..Options::default() }) {
        Ok(program) => program,
        Err(LowerError::NoEntry { .. }) => return None,
        Err(error) => panic!("{} {}: {error}", model.name, entry.name()),
    };
    let program = simplify(program);
    let levels = Level::ALL.map(|level| counts(&program, level));
    Some(format!("{:16} {:10} | {}\n", model.name, entry.name(), levels.join(" | ")))
}

/// To accept new counts: `INSTA_UPDATE=always cargo test -p wmc-compiler --test kernel_counts`.
#[test]
fn of_all_models() {
    let head = "launches of a call, its kernels, kernels that run when parameters have changed; O = 17, A = 6\n";
    let mut table = format!("{head}\n{:16} {:10} | {:17} | {:17} | {:17}\n", "", "", "eager", "fused", "mega");
    let of = |file: &str| models(&project("models").join(format!("{file}.wm")), &[("O", 17), ("A", 6)]);
    let mut all: Vec<Model> = Vec::new();
    for model in FILES.iter().flat_map(|file| of(file)) {
        if all.iter().all(|m| m.name != model.name) {
            all.push(model);
        }
    }
    assert_eq!(all.len(), 13);
    for model in &all {
        Entry::ALL.iter().filter_map(|entry| row(model, *entry)).for_each(|row| table += &row);
    }
    let table: Vec<&str> = table.lines().map(str::trim_end).collect();
    insta::assert_snapshot!("kernels", table.join("\n"));
}

/// A loss that compares every sample with all others reads what a kernel has left; the samples stay rows of all that is computed.
#[test]
fn samples_that_are_compared_stay_rows() {
    let step = |text: &str| {
        let model = of_text(text, &[("O", 17), ("A", 6)]);
        let program = lower(&model, Entry::TrainStep, Options::default()).unwrap();
        let program = simplify(program);
        let kernels = fuse(&program, &cpu::TARGET, Level::Mega).unwrap();
        totals(&kernels, &kernels.steps)
    };
    let alone = step("use hamworld_s6::HamWorldS6\nmodel Alone extends HamWorldS6 {}");
    let compared = step(
        "use hamworld_s6::HamWorldS6
        model Compared extends HamWorldS6 {
          key[t]   = slow.project(zs[t+1])
          score[t] = collect(key[t], over = B) @ project(s[t].next)
          loss repr 1.0 = logsumexp(score[t]) - key[t] @ project(s[t].next)
        }",
    );
    // Two products of 128 x 128 scores for each of 7 steps are new; a kernel without rows has no products for a library.
    assert!(compared.cost.products > alone.cost.products, "{compared:?} {alone:?}");
    assert!(compared.launches <= alone.launches + 8, "{compared:?} {alone:?}");
}
