//! Emitted CUDA, executed: kernels of random programs and of whole models run by the emulator (`tests/emulate`) agree with the
//! interpreter in double precision.

#![cfg(feature = "emit")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use compiler::backend::cube::{Emitted, Limits, Resident, Target, emit};
use compiler::interp::{self, Clock, RunOptions};
use compiler::kernel::fuse::{Level, fuse};
use compiler::kernel::{self, Program, Step, text};
use compiler::lower::{Entry, LowerError, Options, lower};
use compiler::run::{Call, Tensors, arrays};
use compiler::simplify::simplify;
use compiler::testing::{kernel_inputs, random_kernels};
use dsl::hir::Model;
use emulate::{Build, Kernel, Options as How};
use support::{made_up, models, project};

const CUDA: Target = Target::Cuda { arch: 86 };

fn cuda(program: &Program, limits: &Limits) -> Emitted {
    emit(program, CUDA, limits, &resident(program)).unwrap_or_else(|e| panic!("{e}"))
}

/// Every other input stays on the device.
fn resident(program: &Program) -> Resident {
    Resident { inputs: (0..program.inputs.len()).step_by(2).collect(), updates: Vec::new() }
}

/// Runs what was emitted, once, and gives the outputs and what the emulator found.
fn run(name: &str, emitted: &Emitted, inputs: &[Vec<f32>], clock: Clock, watched: bool) -> (Vec<Vec<f32>>, Vec<String>) {
    run_times(name, emitted, inputs, clock, watched, 1)
}

fn run_times(
    name: &str,
    emitted: &Emitted,
    inputs: &[Vec<f32>],
    clock: Clock,
    watched: bool,
    times: usize,
) -> (Vec<Vec<f32>>, Vec<String>) {
    let kernels: Vec<Kernel> =
        emitted.kernels.iter().map(|k| Kernel { name: k.name.clone(), source: k.source.clone() }).collect();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cube").join(name);
    let program =
        emulate::build(&kernels, &emitted.host(), &Build { folder: folder.clone(), watched }).unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(folder.join("in"), emitted.host_input(inputs, &[], clock)).expect("a file");
    let how = How { poison: true, order: 7, uninitialised: watched, ..How::default() };
    let outcome = program.run(&how, &["in", "out", &times.to_string()]).unwrap_or_else(|e| panic!("{name}: {e}"));
    let outputs = emitted.host_output(&std::fs::read(folder.join("out")).expect("a file"));
    (outputs, outcome.findings.into_iter().map(|f| f.text).collect())
}

/// Of the largest number of an output. Products in a row add up errors of single precision.
const TOLERANCE: f64 = 3e-4;

/// `SEEDS=0..400 WATCHED=1` for others than the few of the suite.
#[test]
fn random_programs() {
    let seeds = std::env::var("SEEDS").unwrap_or("0..6".into());
    let (from, to) = seeds.split_once("..").expect("a range");
    let watched = std::env::var("WATCHED").is_ok();
    for seed in from.parse().expect("a number")..to.parse().expect("a number") {
        let program = random_kernels(seed);
        let inputs = kernel_inputs(&program, seed);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let clock = Clock { seed, step: 1 };
        let expected = kernel::interp::run(&program, &wide, &BTreeMap::new(), clock).unwrap();
        // Few processors: cubes of several rows.
        let limits = Limits {
            processors: 1 + seed as usize % 40,
            shared_bytes: if seed % 3 == 0 { 9 << 10 } else { 48 << 10 },
            units: 64,
        };
        let emitted = cuda(&program, &limits);
        let (found, findings) = run(&format!("random-{}", seed % 4), &emitted, &inputs, clock, watched);
        assert!(findings.is_empty(), "seed {seed}: {}\n{}", findings.join("\n"), text::print(&program));
        for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let scale = expected.iter().fold(1.0, |largest: f64, x| largest.max(x.abs()));
            for (place, (x, y)) in found.iter().zip(expected).enumerate() {
                let close = (f64::from(*x) - y).abs() <= TOLERANCE * scale;
                assert!(close, "seed {seed}, output {output} at {place}: {x} for {y}\n{}", text::print(&program));
            }
        }
    }
}

/// Largest difference, relative to the largest number.
fn distance(a: &[f32], b: &[f64]) -> f64 {
    let largest = b.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let apart = a.iter().zip(b).map(|(x, y)| (f64::from(*x) - y).abs()).fold(0.0f64, |m, d| if d <= m { m } else { d });
    if largest == 0.0 { apart } else { apart / largest }
}

/// Outputs of a model's entry point that differ from the interpreter's.
fn differing(model: &Model, entry: Entry, batch: usize, observe: bool, watched: bool) -> Vec<String> {
    let what = format!("{} {}", model.name, entry.name());
    let call = Call { entry, batch: Some(batch), observe, double: true, ..Call::default() };
    let mut program = match lower(model, entry, Options { batch: Some(batch), observe, ..Options::default() }) {
        Ok(program) => program,
        Err(LowerError::NoEntry { .. }) => return Vec::new(),
        Err(e) => panic!("{what}: {e}"),
    };
    simplify(&mut program);
    let kernels = fuse(&program, Level::Mega).unwrap_or_else(|e| panic!("{what}: {e}"));
    let given: Tensors = made_up(model, &call);
    let (inputs, _) = arrays::<f64>(model, &call, &program, &given).unwrap_or_else(|e| panic!("{what}: {e}"));
    let clock = Clock { seed: 0, step: 0 };
    let expected = interp::run_with(&program, &inputs, &BTreeMap::new(), clock, RunOptions { check: false })
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let single: Vec<Vec<f32>> = inputs.iter().map(|a| a.data.iter().map(|x| *x as f32).collect()).collect();
    let start = std::time::Instant::now();
    let emitted = cuda(&kernels, &Limits::cuda(86));
    let lines: usize = emitted.kernels.iter().map(|k| k.source.lines().count()).sum();
    let (launches, prepared) = (Emitted::launches(&emitted.steps), Emitted::launches(&emitted.prepare));
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{what}: {launches} launches ({prepared} to prepare), {lines} lines in {seconds:.2} s");
    emitted.notes.iter().for_each(|note| eprintln!("  {}: {}", note.kernel, note.text));
    let start = std::time::Instant::now();
    let (found, findings) = run(&format!("{}-{}", model.name, entry.name()), &emitted, &single, clock, watched);
    eprintln!("  emulated in {:.1} s", start.elapsed().as_secs_f64());
    let outputs = program.outputs.iter().zip(&found).zip(&expected);
    let mut wrong: Vec<String> = findings.iter().map(|f| format!("{what}: {f}")).collect();
    let mut worst = 0.0f64;
    wrong.extend(outputs.filter_map(|((output, a), b)| {
        let d = distance(a, &b.data);
        let zero = b.data.iter().all(|x| x.abs() < 1e-9);
        // What an optimiser divides by its own size magnifies rounding.
        if !zero && !output.name.starts_with("next.") {
            worst = worst.max(d);
        }
        let tolerance = if output.name.starts_with("next.") { 3e-2 } else { 1e-3 };
        ((d.is_nan() || d > tolerance) && !zero).then(|| format!("{what}: {} differs by {d:e}", output.name))
    }));
    eprintln!("  worst difference {worst:.1e}");
    wrong.iter().for_each(|line| eprintln!("  {line}"));
    wrong
}

/// The kernels of an entry point.
fn kernels(model: &Model, entry: Entry, batch: usize) -> Program {
    let options = Options { batch: Some(batch), ..Options::default() };
    let mut program = lower(model, entry, options).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    simplify(&mut program);
    fuse(&program, Level::Mega).unwrap_or_else(|e| panic!("{}: {e}", model.name))
}

/// What is emitted depends on the program and on nothing else, and a launch is a launch.
#[test]
fn the_same_text_each_time() {
    fn launches(steps: &[Step]) -> usize {
        let of = |step: &Step| match step {
            Step::Launch(_) => 1,
            Step::Loop { count, body, .. } => count * launches(body),
            Step::Swap(..) => 0,
        };
        steps.iter().map(of).sum()
    }
    for model in models(&project("models/hamworld_small.wm"), &[("O", 5), ("A", 1)]) {
        let program = kernels(&model, Entry::Plan, 1);
        for target in [CUDA, Target::Wgsl] {
            let once = || emit(&program, target, &Limits::wgsl(), &resident(&program)).unwrap_or_else(|e| panic!("{e}"));
            let first = once();
            (1..20).for_each(|i| assert!(once() == first, "{target:?}: emission {i} differs"));
            assert_eq!(Emitted::launches(&first.steps), launches(&program.steps));
        }
    }
}

/// Outputs that update inputs are there in the next run: two runs in a row are one run after another.
#[test]
fn outputs_become_inputs() {
    let text = "program p
        buffer %0 x: input 5
        buffer %1 y: output 5
        buffer %2 z: output 5
        input %0
        output %1, %2
        steps {
          launch {
            tile a rows [5] arena 0 {
              map [] {
                r0 = load %0[]
                r1 = const 2
                r2 = mul r0, r1
                store %1[] = r2
                store %2[] = r0
              }
            }
          }
        }";
    let program = text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let resident = Resident { inputs: vec![0], updates: vec![(0, 0)] };
    let emitted = emit(&program, CUDA, &Limits::cuda(86), &resident).unwrap_or_else(|e| panic!("{e}"));
    let x = vec![1.0, -2.0, 3.0, 0.5, 7.0];
    let outputs = run_times("advance", &emitted, std::slice::from_ref(&x), Clock::default(), false, 3).0;
    assert_eq!(outputs[0], x.iter().map(|x| 8.0 * x).collect::<Vec<_>>());
    assert_eq!(outputs[1], x.iter().map(|x| 4.0 * x).collect::<Vec<_>>());
}

#[test]
fn what_does_not_fit_is_said() {
    let program = random_kernels(4);
    let small = Limits { processors: 4, shared_bytes: 8 << 10, units: 64 };
    let large = Limits { shared_bytes: 48 << 10, ..small };
    assert!(cuda(&program, &large).notes.is_empty());
    for note in cuda(&program, &small).notes {
        assert!(note.text.contains("are in the workspace"), "{note:?}");
    }
}

#[test]
fn a_decision_as_cuda() {
    for model in models(&project("models/hamworld.wm"), &[("O", 17), ("A", 6)]) {
        assert_eq!(differing(&model, Entry::Plan, 1, false, false), Vec::<String>::new());
    }
}

/// `MODEL=tdmpc2 ENTRY=act BATCH=3 cargo test -p wmc-compiler --features emit --test cube -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes for all models"]
fn any_model_as_cuda() {
    let wanted = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.into());
    let (file, entry) = (wanted("MODEL", "all"), wanted("ENTRY", "all"));
    let batch = wanted("BATCH", "2").parse().expect("a number");
    let (o, a) = (wanted("O", "5").parse().expect("a number"), wanted("A", "1").parse().expect("a number"));
    let files =
        ["hamworld", "hamworld_literal", "hamworld_light", "hamworld_mamba2", "ablations", "tdmpc2", "dreamerv3", "sac", "ppo"];
    let mut wrong = Vec::new();
    for f in files.iter().filter(|f| file == "all" || **f == file) {
        for model in models(&project("models").join(format!("{f}.wm")), &[("O", o), ("A", a)]) {
            for e in Entry::ALL.into_iter().filter(|e| entry == "all" || e.name() == entry) {
                // An optimiser's first step divides each gradient by its own size: one that is zero but for rounding may have
                // either sign after it. Gradients themselves and all values are compared.
                let found = differing(&model, e, batch, true, !wanted("WATCHED", "").is_empty());
                wrong.extend(found.into_iter().filter(|w| !w.contains(": next.")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
