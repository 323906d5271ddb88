//! Kernels on a Vulkan device, launched as a user launches them: random programs and small models agree with the interpreter.
//! Mesa's driver in software will do (`.ci/vulkan`). Where there is no driver the tests say that they were skipped;
//! `REQUIRE_VULKAN=1` makes that a failure.

#![cfg(feature = "vulkan")]

mod support;

use std::collections::BTreeMap;

use support::{made_up, models, project};
use wmc_compiler::backend::cube::instance::Instance;
use wmc_compiler::backend::cube::{WGSL, device, vulkan};
use wmc_compiler::backend::{DeviceError, Executable, Resident};
use wmc_compiler::interp::{self, Clock, RunOptions};
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::{self, Program, text};
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::run::{Call, arrays};
use wmc_compiler::simplify::simplify;
use wmc_compiler::testing::{kernel_inputs, random_kernels};

/// The first device that computes on the processor, else the first there is.
fn device() -> Option<usize> {
    let devices = vulkan::devices();
    let found = devices.iter().position(|d| d.software).or(if devices.is_empty() { None } else { Some(0) });
    if found.is_none() {
        assert!(std::env::var("REQUIRE_VULKAN").is_err(), "there is no Vulkan device; .ci/vulkan installs one in software");
        eprintln!("SKIPPED: there is no Vulkan device; .ci/vulkan installs one in software");
    }
    found
}

fn run(program: &Program, inputs: &[Vec<f32>], device: usize, clock: Clock) -> Result<Vec<Vec<f32>>, DeviceError> {
    let resident = Resident { inputs: (0..inputs.len()).step_by(2).collect(), updates: Vec::new() };
    let mut instance = Instance::new(vulkan::open(device)?, program, &resident)?;
    for (i, numbers) in inputs.iter().enumerate() {
        instance.input_mut(i)?.copy_from_slice(numbers);
    }
    instance.prepare()?;
    instance.run(clock.seed, clock.step)?;
    instance.outputs(&(0..program.outputs.len()).collect::<Vec<_>>())
}

/// Largest difference, relative to the largest number.
fn distance(a: &[f32], b: &[f64]) -> f64 {
    let largest = b.iter().fold(1e-9f64, |m, x| m.max(x.abs()));
    a.iter().zip(b).map(|(x, y)| (f64::from(*x) - y).abs()).fold(0.0f64, |m, d| if m.is_nan() || d <= m { m } else { d })
        / largest
}

#[test]
fn random_programs() {
    let Some(device) = device() else { return };
    let seeds = std::env::var("SEEDS").unwrap_or("0..12".into());
    let (from, to) = seeds.split_once("..").expect("a range");
    for seed in from.parse().expect("a number")..to.parse().expect("a number") {
        let program = random_kernels(seed);
        let inputs = kernel_inputs(&program, seed);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let clock = Clock { seed, step: 1 };
        let expected = kernel::interp::run(&program, &wide, &BTreeMap::new(), clock).unwrap();
        let found = run(&program, &inputs, device, clock).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let scale = expected.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
            for (place, (x, y)) in found.iter().zip(expected).enumerate() {
                let close = (f64::from(*x) - y).abs() <= 1e-3 * scale;
                assert!(close, "seed {seed}, output {output} at {place}: {x} for {y}\n{}", text::print(&program));
            }
        }
    }
}

/// A model's entry point, with so many samples or environments: outputs that differ from the interpreter's.
fn differing(file: &str, entry: Entry, batch: usize, device: usize) -> Vec<String> {
    let model = models(&project("models").join(format!("{file}.wm")), &[("O", 5), ("A", 1)]).remove(0);
    let what = format!("{} {} with {batch}", model.name, entry.name());
    let call = Call { entry, batch: Some(batch), observe: true, double: true, ..Call::default() };
    let options = Options { batch: Some(batch), observe: true, ..Options::default() };
    let Ok(program) = lower(&model, entry, options) else { return Vec::new() };
    let program = simplify(program);
    let kernels = fuse(&program, &WGSL, Level::Mega).unwrap_or_else(|e| panic!("{e}"));
    let (inputs, _) = arrays::<f64>(&model, &call, &program, &made_up(&model, &call)).unwrap_or_else(|e| panic!("{e}"));
    let clock = Clock { seed: 0, step: 0 };
    let expected = interp::run_with(&program, &inputs, &BTreeMap::new(), clock, RunOptions { check: false })
        .unwrap_or_else(|e| panic!("{e}"));
    let single: Vec<Vec<f32>> = inputs.iter().map(|a| a.data.iter().map(|x| *x as f32).collect()).collect();
    let start = std::time::Instant::now();
    let found = run(&kernels, &single, device, clock).unwrap_or_else(|e| panic!("{what}: {e}"));
    eprintln!("{what}: {:.1} s", start.elapsed().as_secs_f64());
    let mut wrong = Vec::new();
    for ((output, a), b) in program.outputs.iter().zip(&found).zip(&expected) {
        let d = distance(a, &b.data);
        let tolerance = if output.name.starts_with("next.") { 3e-2 } else { 1e-3 };
        if d.is_nan() || d > tolerance {
            wrong.push(format!("{what}: {} differs by {d:e}", output.name));
        }
    }
    wrong
}

/// One decision, and those of several environments at once. `MODEL=tdmpc2 ENTRY=act BATCH=3` for others than those of the suite.
#[test]
fn small_models() {
    let Some(device) = device() else { return };
    let wanted = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.into());
    let mut wrong = Vec::new();
    for file in wanted("MODEL", "hamworld_small,sac").split(',') {
        for entry in wanted("ENTRY", "act").split(',') {
            let entry = Entry::ALL.into_iter().find(|e| e.name() == entry).expect("an entry point");
            // The planner's rollout is long to compile.
            for batch in wanted("BATCH", if file == "sac" { "1,3" } else { "3" }).split(',') {
                wrong.extend(differing(file, entry, batch.parse().expect("a number"), device));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_device_that_is_not_there() {
    let error = vulkan::open(1000).err();
    assert!(matches!(error, Some(device::DeviceError::NoDevice { index: 1000, .. })), "{error:?}");
}
