//! Kernel programs of whole models: they hold their invariants, and compute what the graph program computes.

mod support;

use std::collections::BTreeMap;

use compiler::interp::{self, Clock, RunOptions};
use compiler::kernel::fuse::{Level, fuse};
use compiler::kernel::{self, verify::verify};
use compiler::lower::{Entry, LowerError, Options, lower};
use compiler::run::{Call, Tensors, arrays};
use compiler::simplify::simplify;
use dsl::hir::Model;
use support::{made_up, models, project};

const FILES: [&str; 9] =
    ["hamworld", "hamworld_literal", "hamworld_light", "hamworld_mamba2", "ablations", "tdmpc2", "dreamerv3", "sac", "ppo"];

/// Largest difference, relative to the largest number.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let largest = b.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let apart = a.iter().zip(b).fold(0.0f64, |m, (x, y)| if (x - y).abs() <= m { m } else { (x - y).abs() });
    if largest == 0.0 { apart } else { apart / largest }
}

fn check(model: &Model, entry: Entry, batch: usize, level: Level) {
    let what = format!("{} {} {}", model.name, entry.name(), level.name());
    let call = Call { entry, batch: Some(batch), observe: true, double: true, ..Call::default() };
    let mut program = match lower(model, entry, Options { batch: Some(batch), observe: true, ..Options::default() }) {
        Ok(program) => program,
        Err(LowerError::NoEntry { .. }) => return,
        Err(e) => panic!("{what}: {e}"),
    };
    simplify(&mut program);
    let start = std::time::Instant::now();
    let kernels = fuse(&program, level).unwrap_or_else(|e| panic!("{what}: {e}"));
    let took = start.elapsed();
    if let Ok(path) = std::env::var("PRINT") {
        std::fs::write(path, kernel::text::print(&kernels)).expect("writes");
    }
    verify(&kernels).unwrap_or_else(|e| panic!("{what}: {e}"));
    let given: Tensors = made_up(model, &call);
    let (inputs, _) = arrays::<f64>(model, &call, &program, &given).unwrap_or_else(|e| panic!("{what}: {e}"));
    let clock = Clock { seed: 0, step: 0 };
    let expected = interp::run_with(&program, &inputs, &BTreeMap::new(), clock, RunOptions { check: false })
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let plain: Vec<Vec<f64>> = inputs.into_iter().map(|a| a.data).collect();
    if std::env::var("SLOW").is_err() {
        return on_cpu(&what, &program, &kernels, &plain, &expected);
    }
    let found = kernel::interp::run(&kernels, &plain, &BTreeMap::new(), clock).unwrap_or_else(|e| panic!("{what}: {e}"));
    for ((output, a), b) in program.outputs.iter().zip(&found).zip(&expected) {
        let d = distance(a, &b.data);
        if std::env::var("SHOW").is_ok() && d >= 1e-6 {
            eprintln!("{what}: {} differs by {d:e}", output.name);
            continue;
        }
        assert!(d < 1e-6, "{what}: {} differs by {d:e}", output.name);
    }
    eprintln!("{what}: {} outputs agree; fused in {took:?}", program.outputs.len());
}

fn on_cpu(
    what: &str,
    program: &compiler::ir::Program,
    kernels: &kernel::Program,
    plain: &[Vec<f64>],
    expected: &[interp::Array<f64>],
) {
    let mut instance = compiler::backend::cpu::Instance::new(&kernels, 2).unwrap_or_else(|e| panic!("{what}: {e}"));
    for (i, data) in plain.iter().enumerate() {
        instance.input_mut(i).iter_mut().zip(data).for_each(|(x, y)| *x = *y as f32);
    }
    instance.prepare();
    instance.run(0, 0);
    for (i, (output, b)) in program.outputs.iter().zip(&expected).enumerate() {
        let a: Vec<f64> = instance.output(i).iter().map(|x| f64::from(*x)).collect();
        let d = distance(&a, &b.data);
        if d > 1e-4 {
            eprintln!("{what}: cpu: {} differs by {d:e}", output.name);
        }
    }
    eprintln!("{what}: cpu done");
}

#[test]
#[ignore]
fn probe() {
    let file = std::env::var("MODEL").unwrap_or("hamworld".into());
    let entry = std::env::var("ENTRY").unwrap_or("plan".into());
    let level = std::env::var("LEVEL").unwrap_or("mega".into());
    let batch = std::env::var("BATCH").map_or(2, |b| b.parse().expect("a number"));
    let level = Level::ALL.into_iter().find(|l| l.name() == level).expect("a level");
    for f in FILES.iter().filter(|f| file == "all" || **f == file) {
        for model in models(&project("models").join(format!("{f}.wm")), &[("O", 17), ("A", 6)]) {
            for e in Entry::ALL.into_iter().filter(|e| entry == "all" || e.name() == entry) {
                check(&model, e, batch, level);
            }
        }
    }
}
