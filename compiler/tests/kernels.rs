//! Kernel programs of whole models: they hold their invariants, and compute what the graph program computes.

mod support;

use std::collections::BTreeMap;

use dsl::hir::Model;
use support::{made_up, models, project};
use wmc_compiler::backend::cpu::{self, Instance};
use wmc_compiler::interp::{self, Clock, RunOptions};
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::{self, verify::verify};
use wmc_compiler::lower::{Entry, LowerError, Options, lower};
use wmc_compiler::run::{Call, Tensors, arrays};
use wmc_compiler::simplify::simplify;

const FILES: [&str; 10] = [
    "hamworld",
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

/// Largest difference, relative to the largest number.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let largest = b.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let apart = a.iter().zip(b).fold(0.0f64, |m, (x, y)| if (x - y).abs() <= m { m } else { (x - y).abs() });
    if largest == 0.0 { apart } else { apart / largest }
}

/// Runs a program as kernels, in the slow interpreter of kernels or on the CPU, and compares it with the graph program.
/// Gives the outputs that differ.
fn differing(model: &Model, entry: Entry, batch: usize, level: Level, on_cpu: bool, observe: bool) -> Vec<String> {
    let what = format!("{} {} {}", model.name, entry.name(), level.name());
    let call = Call { entry, batch: Some(batch), observe, double: true, ..Call::default() };
    let program = match lower(model, entry, Options { batch: Some(batch), observe, ..Options::default() }) {
        Ok(program) => program,
        Err(LowerError::NoEntry { .. }) => return Vec::new(),
        Err(e) => panic!("{what}: {e}"),
    };
    let program = simplify(program);
    let kernels = fuse(&program, &cpu::TARGET, level).unwrap_or_else(|e| panic!("{what}: {e}"));
    verify(&kernels).unwrap_or_else(|e| panic!("{what}: {e}"));
    let given: Tensors = made_up(model, &call);
    let (inputs, _) = arrays::<f64>(model, &call, &program, &given).unwrap_or_else(|e| panic!("{what}: {e}"));
    let clock = Clock { seed: 0, step: 0 };
    let expected = interp::run_with(&program, &inputs, &BTreeMap::new(), clock, RunOptions { check: false })
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let plain: Vec<Vec<f64>> = inputs.into_iter().map(|a| a.data).collect();
    let (found, tolerance) = match on_cpu {
        true => (cpu(&what, &kernels, &plain), 1e-3),
        // Constants are single precision in kernels.
        false => (kernel::interp::run(&kernels, &plain, &BTreeMap::new(), clock).unwrap_or_else(|e| panic!("{what}: {e}")), 1e-6),
    };
    let outputs = program.outputs.iter().zip(&found).zip(&expected);
    outputs
        .filter_map(|((output, a), b)| {
            let d = distance(a, &b.data);
            let zero = b.data.iter().all(|x| x.abs() < 1e-9);
            // What an optimiser divides by its own size magnifies rounding.
            let tolerance = if output.name.starts_with("next.") { 30.0 * tolerance } else { tolerance };
            (d > tolerance && !zero).then(|| format!("{what}: {} differs by {d:e}", output.name))
        })
        .collect()
}

fn cpu(what: &str, kernels: &kernel::Program, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut instance = Instance::new(kernels, 2).unwrap_or_else(|e| panic!("{what}: {e}"));
    for (i, data) in inputs.iter().enumerate() {
        instance.input_mut(i).iter_mut().zip(data).for_each(|(x, y)| *x = *y as f32);
    }
    instance.prepare();
    instance.run(0, 0);
    (0..kernels.outputs.len()).map(|i| instance.output(i).iter().map(|x| f64::from(*x)).collect()).collect()
}

#[test]
fn a_training_step_as_kernels() {
    for model in models(&project("models/hamworld_s6.wm"), &[("O", 5), ("A", 1)]) {
        for entry in [Entry::TrainStep, Entry::Evaluate] {
            assert_eq!(differing(&model, entry, 2, Level::Mega, false, true), Vec::<String>::new());
        }
    }
}

/// Those of all models, on the CPU; `any_model_on_the_cpu` does all entry points and levels.
#[test]
fn training_steps_on_the_cpu() {
    let mut wrong = Vec::new();
    for file in FILES {
        for model in models(&project("models").join(format!("{file}.wm")), &[("O", 5), ("A", 1)]) {
            // An optimiser's first step divides each gradient by its own size: one that is zero but for rounding may have
            // either sign after it. Gradients themselves and all values are compared.
            let found = differing(&model, Entry::TrainStep, 2, Level::Mega, true, true);
            wrong.extend(found.into_iter().filter(|w| !w.contains(": next.")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Losses of an on-policy source that read the observation alone, which has one step more than there are transitions; an
/// equation that a record reads at the last one; and a fold as long as the rollout.
#[test]
fn on_policy_losses_on_the_cpu() {
    let text = "use ppo::Ppo
        model Mine extends Ppo {
          y[t] = vf(obs[t])
          record w[t] = y[t+1]
          loss wide 0.1 = (y[t] - w[t])^2
          loss long 0.1 = sum i in 0..1024 { vf(obs[t]) * i }
        }";
    let sizes = &[("O", 5), ("A", 1)];
    let mut found = vec![support::of_text(text, sizes)];
    found.extend(["ppo_obs", "ppo_ent"].iter().flat_map(|f| models(&project(&format!("dsl/tests/refused/{f}.wm")), sizes)));
    for (model, batch) in found.iter().flat_map(|m| [(m, 1), (m, 5)]) {
        for entry in [Entry::TrainStep, Entry::Record] {
            assert_eq!(differing(model, entry, batch, Level::Mega, true, false), Vec::<String>::new());
        }
    }
    // The fold is over 0..1024, not over the rows of the minibatch.
    let call = Call { batch: Some(5), double: true, ..Call::default() };
    let have = wmc_compiler::run::call(&found[0], &call, &made_up(&found[0], &call)).expect("it runs");
    let value = wmc_compiler::run::call(&found[0], &Call { observe: true, ..call }, &made_up(&found[0], &call)).expect("it runs");
    let mean = value["value.y"].data.iter().sum::<f64>() / 5.0;
    assert!((have["loss.long"].data[0] - mean * 1023.0 * 512.0).abs() < 1e-6 * mean.abs() * 1023.0 * 512.0);
}

/// Rows that fill no vector, one step, one action; at all levels.
#[test]
fn odd_sizes_on_the_cpu() {
    let mut wrong = Vec::new();
    let mut check = |file: &str, sizes: &[(&str, u64)], batches: &[usize]| {
        for model in models(&project(file), sizes) {
            for (batch, level) in batches.iter().flat_map(|batch| Level::ALL.map(|level| (*batch, level))) {
                for entry in [Entry::TrainStep, Entry::Evaluate] {
                    let found = differing(&model, entry, batch, level, true, true);
                    wrong.extend(found.into_iter().filter(|w| !w.contains(": next.")).map(|w| format!("batch {batch}: {w}")));
                }
            }
        }
    };
    for steps in [1, 3] {
        check("benches/scan.wm", &[("T", steps), ("D", 9), ("N", 5)], &[1, 7, 161]);
    }
    check("benches/hgrad.wm", &[("Q", 3)], &[1, 7, 161]);
    check("models/hamworld_small.wm", &[("O", 5), ("A", 1)], &[1, 7]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// So many steps that what a loop reads is made step by step.
#[test]
fn long_loops_on_the_cpu() {
    for model in models(&project("benches/scan.wm"), &[("T", 70), ("D", 64), ("N", 3)]) {
        // States grow beyond single precision on these numbers; of their squares nothing would be left to compare.
        for (entry, batch, on_cpu) in [(Entry::TrainStep, 7, false), (Entry::Evaluate, 17, false), (Entry::Evaluate, 17, true)] {
            assert_eq!(differing(&model, entry, batch, Level::Mega, on_cpu, false), Vec::<String>::new());
        }
    }
}

/// `MODEL=tdmpc2 ENTRY=act LEVEL=fused BATCH=3 cargo test -p wmc-compiler --test kernels -- --ignored --nocapture`: any model,
/// entry point and level (`all` for all), on the CPU.
#[test]
#[ignore = "takes minutes for all models"]
fn any_model_on_the_cpu() {
    let wanted = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.into());
    let (file, entry, level) = (wanted("MODEL", "all"), wanted("ENTRY", "all"), wanted("LEVEL", "all"));
    let batch = wanted("BATCH", "3").parse().expect("a number");
    let mut wrong = Vec::new();
    for f in FILES.iter().filter(|f| file == "all" || **f == file) {
        for model in models(&project("models").join(format!("{f}.wm")), &[("O", 17), ("A", 6)]) {
            for e in Entry::ALL.into_iter().filter(|e| entry == "all" || e.name() == entry) {
                for l in Level::ALL.into_iter().filter(|l| level == "all" || l.name() == level) {
                    eprintln!("{} {} {}", model.name, e.name(), l.name());
                    for observe in [false, true] {
                        wrong.extend(differing(&model, e, batch, l, true, observe));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
