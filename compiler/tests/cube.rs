//! Emitted CUDA, executed: kernels of random programs and of whole models run by the emulator (`tests/emulate`) agree with the
//! interpreter in double precision.

#![cfg(feature = "emit")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dsl::hir::Model;
use emulate::{Build, Kernel, Options as How};
use nvrtc::{ARCHS, Text};
use support::{made_up, models, project};
use wmc_compiler::backend::cube::{
    self, Emitted, EmittedKernel, Limits, Numerics, Precision, Resident, Sums, Target, emit, notes,
};
use wmc_compiler::interp::{self, Clock, RunOptions};
use wmc_compiler::ir;
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::{self, Program, Step, text};
use wmc_compiler::lower::{Entry, LowerError, Options, lower};
use wmc_compiler::run::{Call, Tensors, arrays};
use wmc_compiler::simplify::simplify;
use wmc_compiler::testing::{kernel_inputs, random_kernels};

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

/// Of the largest number of an output.
const TOLERANCE: f64 = 1e-4;

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
            cubes: 1 << 16,
            plane: if seed % 2 == 0 { 32 } else { 1 },
            precision: Precision::F32,
            sums: if seed % 5 == 1 { Sums::Atomic } else { Sums::Ordered },
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

fn largest(list: &[f64]) -> f64 {
    list.iter().fold(0.0f64, |m, x| m.max(x.abs()))
}

/// Largest difference.
fn apart<'a>(pairs: impl Iterator<Item = (&'a f32, &'a f64)>) -> f64 {
    pairs.map(|(x, y)| (f64::from(*x) - y).abs()).fold(0.0f64, |m, d| if m.is_nan() || d <= m { m } else { d })
}

/// Outputs, as they are and as they should be.
struct Compared<'a> {
    outputs: BTreeMap<&'a str, (&'a [f32], &'a [f64])>,
    /// What outputs update, before.
    before: BTreeMap<&'a str, &'a [f64]>,
    /// The largest of all gradients: one that is as small as its rounding is none.
    steepest: f64,
}

impl<'a> Compared<'a> {
    fn new(
        program: &'a ir::Program,
        inputs: &'a [interp::Array<f64>],
        found: &'a [Vec<f32>],
        expected: &'a [interp::Array<f64>],
    ) -> Self {
        let pairs = found.iter().zip(expected).map(|(a, b)| (&a[..], &b.data[..]));
        let outputs: BTreeMap<_, _> = program.outputs.iter().map(|o| &o.name[..]).zip(pairs).collect();
        let before = program.inputs.iter().map(|i| &i.name[..]).zip(inputs.iter().map(|i| &i.data[..])).collect();
        let gradients = outputs.iter().filter(|(name, _)| name.starts_with("grad."));
        let steepest = gradients.map(|(_, (_, g))| largest(g)).fold(0.0, f64::max);
        Compared { outputs, before, steepest }
    }

    /// How far an output is from what it should be, relative to its largest entry.
    fn distance(&self, name: &str) -> f64 {
        let (found, expected) = self.outputs[name];
        let scale = match name.starts_with("grad.") {
            true => largest(expected).max(1e-6 * self.steepest),
            false => largest(expected),
        };
        let pairs = found.iter().zip(expected);
        let Some((gradient, moved)) = self.stepped(name) else {
            let apart = apart(pairs);
            return if scale < 1e-9 { 0.0 } else { apart / scale };
        };
        // An optimiser divides each gradient by its own size: one that is nothing but rounding may move a parameter either way,
        // as far as its steps are long. All others move it as they should.
        let unclear = self.unclear(gradient);
        let (clear, rest): (Vec<_>, Vec<_>) = pairs.zip(gradient).partition(|(_, g)| g.abs() > unclear);
        let [clear, rest] = [clear, rest].map(|list| apart(list.into_iter().map(|(pair, _)| pair)));
        let far = if rest > 2.1 * moved + TOLERANCE * scale { f64::INFINITY } else { 0.0 };
        far.max(if scale < 1e-9 { 0.0 } else { clear / scale })
    }

    /// Gradients up to this size may have either sign in single precision.
    fn unclear(&self, gradient: &[f64]) -> f64 {
        (TOLERANCE * largest(gradient)).max(1e-6 * self.steepest)
    }

    /// Says which parameters rounding has moved another way, and how small the gradients of those entries are.
    fn rounding(&self) {
        for (name, (found, expected)) in self.outputs.iter().filter(|(name, _)| name.starts_with("next.param.")) {
            let Some((gradient, _)) = self.stepped(name) else { continue };
            let far = TOLERANCE * largest(expected);
            let off = |x: &f32, y: &f64| (f64::from(*x) - y).abs() > far;
            let moved = found.iter().zip(*expected).zip(gradient).filter(|((x, y), _)| off(x, y)).map(|(_, g)| g.abs());
            let (count, steep) = moved.fold((0, 0.0), |(n, m), g| (n + 1, f64::max(m, g)));
            if count > 0 {
                let (all, own) = (expected.len(), largest(gradient));
                eprintln!(
                    "  {name}: {count} of {all} entries off, gradients up to {steep:.1e} of {own:.1e}, {:.1e} among all",
                    self.steepest
                );
            }
        }
    }

    /// The gradient that a parameter or a record of an optimiser has been moved by, and how far its entries have moved at most.
    fn stepped(&self, name: &str) -> Option<(&'a [f64], f64)> {
        let of = name.strip_prefix("next.")?;
        let path = match of.split_once('.')? {
            ("param" | "slow", path) => path,
            ("slot", rest) => rest.splitn(3, '.').nth(2)?,
            _ => return None,
        };
        let gradient = self.outputs.get(&format!("grad.{path}")[..])?.1;
        let moved = self.outputs[name].1.iter().zip(self.before[of]).map(|(y, x)| (y - x).abs()).fold(0.0, f64::max);
        Some((gradient, moved))
    }
}

/// Outputs of a model's entry point that differ from the interpreter's.
fn differing(model: &Model, entry: Entry, batch: usize, numerics: Numerics, watched: bool) -> Vec<String> {
    let precision = numerics.precision;
    // Gradients are outputs where values are observed.
    let observe = entry == Entry::TrainStep;
    let what = format!("{} {}", model.name, entry.name());
    let call = Call { entry, batch: Some(batch), observe, double: true, ..Call::default() };
    let program = match lower(model, entry, Options { batch: Some(batch), observe, ..Options::default() }) {
        Ok(program) => program,
        Err(LowerError::NoEntry { .. }) => return Vec::new(),
        Err(e) => panic!("{what}: {e}"),
    };
    let program = simplify(program);
    let kernels = fuse(&program, &cube::CUDA, Level::Mega).unwrap_or_else(|e| panic!("{what}: {e}"));
    let given: Tensors = made_up(model, &call);
    let (inputs, _) = arrays::<f64>(model, &call, &program, &given).unwrap_or_else(|e| panic!("{what}: {e}"));
    let clock = Clock { seed: 0, step: 0 };
    let expected = interp::run_with(&program, &inputs, &BTreeMap::new(), clock, RunOptions { check: false })
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let single: Vec<Vec<f32>> = inputs.iter().map(|a| a.data.iter().map(|x| *x as f32).collect()).collect();
    let start = std::time::Instant::now();
    let emitted = cuda(&kernels, &Limits::cuda(86).with(numerics));
    let lines: usize = emitted.kernels.iter().map(|k| k.source.lines().count()).sum();
    let (launches, prepared) = (Emitted::launches(&emitted.steps), Emitted::launches(&emitted.prepare));
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("{what}: {launches} launches ({prepared} to prepare), {lines} lines in {seconds:.2} s");
    emitted.notes.iter().for_each(|note| eprintln!("  {}: {}", note.kernel, note.text));
    let start = std::time::Instant::now();
    let (found, findings) = run(&format!("{}-{}", model.name, entry.name()), &emitted, &single, clock, watched);
    eprintln!("  emulated in {:.1} s", start.elapsed().as_secs_f64());
    let mut wrong: Vec<String> = findings.iter().map(|f| format!("{what}: {f}")).collect();
    let compared = Compared::new(&program, &inputs, &found, &expected);
    let mut worst = (0.0f64, "");
    for output in &program.outputs {
        // An optimiser divides by what rounding has changed.
        if precision != Precision::F32 && output.name.starts_with("next.") && observe {
            continue;
        }
        let d = compared.distance(&output.name);
        if d.is_nan() || d > worst.0 {
            worst = (d, &output.name);
        }
        if d.is_nan() || d > rounding(precision) {
            wrong.push(format!("{what}: {} differs by {d:e}", output.name));
        }
    }
    if precision == Precision::F32 {
        compared.rounding();
    }
    eprintln!("  worst difference {:.1e} ({})", worst.0, worst.1);
    wrong.iter().for_each(|line| eprintln!("  {line}"));
    wrong
}

/// The kernels of an entry point.
fn kernels(model: &Model, entry: Entry, batch: usize) -> Program {
    let options = Options { batch: Some(batch), ..Options::default() };
    let program = lower(model, entry, options).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    let program = simplify(program);
    fuse(&program, &cube::CUDA, Level::Mega).unwrap_or_else(|e| panic!("{}: {e}", model.name))
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

/// A row of 12,000 numbers is more than the 48 KB of a small device: it is put elsewhere, with the reason, and computed all the same.
#[test]
fn what_does_not_fit_is_said() {
    let text = "program p
        buffer %0 x: input 36000
        buffer %1 y: output 36000
        input %0
        output %1
        steps {
          launch {
            tile wide rows [3] arena 12001 {
              local $0: 12000 @ 0
              local $1: 1 @ 12000
              copy [12000]: $0[1] = %0[1] rows [12000]
              map [12000] {
                r0 = load $0[1]
                sum $1[0] = r0
              }
              map [12000] {
                r0 = load $0[1]
                r1 = load $1[0]
                r2 = sub r0, r1
                store $0[1] = r2
              }
              copy [12000]: %1[1] rows [12000] = $0[1]
            }
          }
        }";
    let program = text::parse(text).unwrap_or_else(|e| panic!("{e}"));
    let small = Limits { shared_bytes: 48 << 10, ..Limits::cuda(86) };
    assert_eq!(notes(&program, &Limits::cuda(86)), []);
    let notes = notes(&program, &small);
    let [note] = &notes[..] else { panic!("one reason: {notes:?}") };
    assert_eq!(note.kernel, "wide");
    assert_eq!(
        note.text,
        "a row's locals take 48004 bytes, and a cube has 40960: 1 of 2 locals, 48000 bytes a row, are in the workspace"
    );
    let emitted = cuda(&program, &small);
    assert_eq!(emitted.notes, notes);
    let x: Vec<f32> = (0..36000).map(|i| (i % 7) as f32).collect();
    let (found, findings) = run("wide", &emitted, std::slice::from_ref(&x), Clock::default(), true);
    assert_eq!(findings, Vec::<String>::new());
    for (x, y) in x.chunks(12000).zip(found[0].chunks(12000)) {
        let sum: f32 = x.iter().sum();
        assert!(x.iter().zip(y).all(|(x, y)| *y == x - sum));
    }
}

/// What factors that are rounded may be off by, of the largest number of an output.
fn rounding(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => TOLERANCE,
        Precision::Tf32 => 2e-3,
        Precision::Bf16 => 2e-2,
    }
}

/// Two products in a row, the first with a bias and the second added to what is there, for `times` entries of each of `rows` rows.
fn products(rows: usize, times: usize, k: usize, n: usize) -> Program {
    let (x, y) = (times * k, times * n);
    let text = format!(
        "program p
        buffer %0 x: input {}
        buffer %1 w: input {}
        buffer %2 b: input {n}
        buffer %3 w.packed: kept {}
        buffer %4 v: input {}
        buffer %5 v.packed: kept {}
        buffer %6 y: output {}
        buffer %7 z: output {}
        input %0, %1, %2, %4
        output %6, %7
        prepare {{
          launch {{
            pack w n {n} k [{k}]: %3 = %1[{k}, 1] splat
            pack v n {n} k [{n}]: %5 = %4[{n}, 1] splat
          }}
        }}
        steps {{
          launch {{
            tile two rows [{rows}] arena {} {{
              local $0: {x} @ 0
              local $1: {y} @ {x}
              local $2: {y} @ {}
              copy [{x}]: $0[1] = %0[1] rows [{x}]
              gemm m [{times}] n {n} k {k}: $1[{n}, 1] = $0[{k}, 1] * %3[] splat + %2[1] splat
              copy [{y}]: $2[1] = $1[1]
              gemm m [{times}] n {n} k {n}: $2[{n}, 1] += $1[{n}, 1] * %5[] splat
              copy [{y}]: %6[1] rows [{y}] = $1[1]
              copy [{y}]: %7[1] rows [{y}] = $2[1]
            }}
          }}
        }}",
        rows * x,
        n * k,
        kernel::packed_len(n, k),
        n * n,
        kernel::packed_len(n, n),
        rows * y,
        rows * y,
        x + 2 * y,
        x + y,
    );
    text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Rows, entries and outputs that fill tiles, and that do not; blocks along rows and outputs; a last cube with fewer rows.
#[test]
fn products_on_tensor_cores() {
    let nvrtc = nvrtc::available().unwrap_or_else(|e| panic!("{e}"));
    for (i, (rows, times, k, n)) in
        [(16, 1, 16, 16), (32, 1, 40, 144), (37, 2, 23, 50), (12, 3, 64, 17), (9, 1, 30, 20)].into_iter().enumerate()
    {
        let program = products(rows, times, k, n);
        let inputs = kernel_inputs(&program, i as u64);
        let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
        let expected = kernel::interp::run(&program, &wide, &BTreeMap::new(), Clock::default()).unwrap_or_else(|e| panic!("{e}"));
        for precision in Precision::ALL {
            let limits = Limits { processors: 1, precision, ..Limits::cuda(86) };
            let emitted = cuda(&program, &limits);
            let tensor = emitted.kernels.iter().any(|k| k.source.contains("mma_sync"));
            assert_eq!(tensor, precision != Precision::F32, "{:?}", emitted.notes);
            let name = format!("tensor-{i}-{}", precision.name());
            let (found, findings) = run(&name, &emitted, &inputs, Clock::default(), true);
            assert_eq!(findings, Vec::<String>::new(), "{name}");
            for (found, expected) in found.iter().zip(&expected) {
                let distance = apart(found.iter().zip(expected)) / largest(expected);
                eprintln!("{name}: {distance:.1e}");
                assert!(distance <= rounding(precision), "{name}: {distance:e}");
                assert!(precision == Precision::F32 || distance > 1e-6, "{name}: nothing is rounded");
            }
            if nvrtc && i == 1 && precision != Precision::F32 {
                let text = |k: &EmittedKernel| Text {
                    name: format!("{name}-{}.cu", k.name),
                    source: k.source.clone(),
                    threads: k.cube_dim as usize,
                    shared: k.shared_bytes,
                };
                let texts: Vec<Text> = emitted.kernels.iter().map(text).collect();
                let place = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cube/nvrtc");
                let figures = nvrtc::compile(&texts, &ARCHS, &place).unwrap_or_else(|e| panic!("{e}"));
                let pairs = texts.iter().flat_map(|t| ARCHS.iter().map(move |a| (t, a))).zip(&figures);
                pairs.for_each(|((text, arch), f)| {
                    assert_eq!(nvrtc::over_budget(text, f, arch), Vec::<String>::new(), "{}", text.name);
                });
            }
            // The text does not depend on chance.
            assert!((0..5).all(|_| cuda(&program, &limits) == emitted), "{name} differs from run to run");
        }
    }
}

/// Long sums that several cubes have a part of: two with the same code, one with a batch and steps, one that is short enough to
/// stay as it is. The same program in order has no such part, and gives the same bits each time.
#[test]
fn sums_in_any_order() {
    let rows = 3001;
    let text = format!(
        "program p
        buffer %0 a: input {}
        buffer %1 b: input {}
        buffer %2 c: input {}
        buffer %3 ab: output 35
        buffer %4 cb: output 35
        buffer %5 both: output 6
        buffer %6 some: output 5
        input %0, %1, %2
        output %3, %4, %5, %6
        steps {{
          launch {{
            contract ab rows {rows} n [5] i [7]: %3[7, 1] splat = %0[{rows}] * %1[{rows}]
            contract cb rows {rows} n [5] i [7]: %4[7, 1] splat = %2[{rows}] * %1[{rows}]
            contract both rows {rows} batch [2] n [3] k [2]: %5[3, 1] splat = %1[{rows}, {rows}, {}]
            contract some rows 90 n [5]: %6[1] splat = %0[{rows}]
          }}
        }}",
        5 * rows,
        7 * rows,
        5 * rows,
        3 * rows
    );
    let program = text::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let inputs = kernel_inputs(&program, 0);
    let wide: Vec<Vec<f64>> = inputs.iter().map(|list| list.iter().map(|x| f64::from(*x)).collect()).collect();
    let expected = kernel::interp::run(&program, &wide, &BTreeMap::new(), Clock::default()).unwrap_or_else(|e| panic!("{e}"));
    for sums in [Sums::Ordered, Sums::Atomic] {
        let emitted = cuda(&program, &Limits { sums, ..Limits::cuda(86) });
        let adds: usize = emitted.kernels.iter().map(|k| k.source.matches("atomicAdd").count()).sum();
        let (launches, parts) = if sums == Sums::Atomic { (2, true) } else { (1, false) };
        assert_eq!((Emitted::launches(&emitted.steps), adds > 0), (launches, parts), "{sums:?}");
        // Outputs that are added to have to be cleared in the second run as well.
        let (found, findings) = run_times(&format!("sums-{sums:?}"), &emitted, &inputs, Clock::default(), true, 2);
        assert_eq!(findings, Vec::<String>::new(), "{sums:?}");
        for (found, expected) in found.iter().zip(&expected) {
            let distance = apart(found.iter().zip(expected)) / largest(expected);
            assert!(distance <= TOLERANCE, "{sums:?}: {distance:e}");
        }
    }
}

#[test]
fn a_decision_as_cuda() {
    for model in models(&project("models/hamworld_s6.wm"), &[("O", 17), ("A", 6)]) {
        assert_eq!(differing(&model, Entry::Plan, 1, Numerics::default(), false), Vec::<String>::new());
    }
}

/// NaN and infinities that `finite` replaces.
#[test]
fn replaced_numbers_as_cuda() {
    for model in models(&project("compiler/tests/finite.wm"), &[("O", 5), ("A", 1)]) {
        assert_eq!(differing(&model, Entry::TrainStep, 7, Numerics::default(), true), Vec::<String>::new());
    }
}

/// Rows that fill no cube, one step, one action, a horizon of one; watched.
#[test]
fn odd_sizes_as_cuda() {
    let mut wrong = Vec::new();
    let mut check = |file: &str, sizes: &[(&str, u64)], entries: &[Entry], batches: &[usize]| {
        for model in models(&project(file), sizes) {
            for (entry, batch) in entries.iter().flat_map(|entry| batches.iter().map(move |batch| (*entry, *batch))) {
                let found = differing(&model, entry, batch, Numerics::default(), true);
                wrong.extend(found.into_iter().map(|w| format!("{sizes:?}, batch {batch}: {w}")));
            }
        }
    };
    let both = [Entry::TrainStep, Entry::Evaluate];
    check("benches/scan.wm", &[("T", 1), ("D", 9), ("N", 5)], &both, &[1, 161]);
    check("benches/scan.wm", &[("T", 3), ("D", 9), ("N", 5)], &both, &[7]);
    // So many steps that each copies what it reads.
    check("benches/scan.wm", &[("T", 70), ("D", 64), ("N", 3)], &[Entry::Evaluate], &[17]);
    check("benches/hgrad.wm", &[("Q", 3)], &both, &[161]);
    check("models/hamworld_small.wm", &[("O", 5), ("A", 1), ("H", 1)], &[Entry::Plan], &[1]);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `MODEL=tdmpc2 ENTRY=act BATCH=3 O=17 A=6 H=1 PRECISION=tf32:atomic cargo test -p wmc-compiler --features emit --test cube -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes for all models"]
fn any_model_as_cuda() {
    let wanted = |name: &str, otherwise: &str| std::env::var(name).unwrap_or(otherwise.into());
    let (file, entry) = (wanted("MODEL", "all"), wanted("ENTRY", "all"));
    let batch = wanted("BATCH", "2").parse().expect("a number");
    let numerics = Numerics::named(&wanted("PRECISION", "f32")).expect("a precision");
    let sizes: Vec<(&str, u64)> = [("O", "5"), ("A", "1"), ("T", ""), ("H", "")]
        .into_iter()
        .filter_map(|(name, otherwise)| Some((name, wanted(name, otherwise).parse().ok()?)))
        .collect();
    let files = [
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
    let mut wrong = Vec::new();
    for f in files.iter().filter(|f| file == "all" || **f == file) {
        for model in models(&project("models").join(format!("{f}.wm")), &sizes) {
            for e in Entry::ALL.into_iter().filter(|e| entry == "all" || e.name() == entry) {
                wrong.extend(differing(&model, e, batch, numerics, !wanted("WATCHED", "").is_empty()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A gather and a scatter by the numbers of an input, which need not name entries: 3 of each in every row of `places`.
fn picked(rows: usize) -> Program {
    let text = format!(
        "program p
        buffer %0 x: input {}
        buffer %1 places: input {}
        buffer %2 y: output {}
        buffer %3 z: output {}
        input %0, %1
        output %2, %3
        steps {{
          launch {{
            tile picked rows [{rows}] arena 10 {{
              local $0: 3 @ 0
              local $1: 3 @ 3
              local $2: 4 @ 6
              copy [3]: $0[1] = %1[1] rows [3]
              gather [3] size 3 stride 2: $1[1] = %0@1[0] rows [6] at $0[1]
              map [4] {{
                r0 = const 0.5
                store $2[1] = r0
              }}
              scatter [3] size 3 stride 1: $2@1[0] += $0[1] at $0[1]
              copy [3]: %2[1] rows [3] = $1[1]
              copy [4]: %3[1] rows [4] = $2[1]
            }}
          }}
        }}",
        6 * rows,
        3 * rows,
        3 * rows,
        4 * rows,
    );
    text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The rule of `tests/indices.rs` in emitted code: an index names the nearest entry, halves upwards. One that names none
/// reads NaN, and adds nothing.
#[test]
fn indices_that_name_no_entry() {
    const PLACES: [f32; 15] =
        [0.0, 2.0, 3.0, 99.0, -1.0, -7.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.4, 1.5, -0.25, -0.75, 2.75, 1e30];
    let rows = PLACES.len() / 3;
    let program = picked(rows);
    let x: Vec<f32> = (0..6 * rows).map(|i| i as f32).collect();
    let limits = Limits { processors: 2, shared_bytes: 48 << 10, units: 64, ..Limits::cuda(86) };
    let emitted = cuda(&program, &limits);
    let (found, findings) = run("indices", &emitted, &[x.clone(), PLACES.to_vec()], Clock { seed: 0, step: 0 }, true);
    assert!(findings.is_empty(), "{findings:?}");
    let mut sums = vec![0.5; 4 * rows];
    for (i, place) in PLACES.into_iter().enumerate() {
        let nearest = (place + 0.5).floor();
        let named = (0.0..3.0).contains(&nearest).then_some(nearest as usize);
        let read = named.map_or(f32::NAN, |entry| x[6 * (i / 3) + 1 + 2 * entry]);
        let same = found[0][i] == read || found[0][i].is_nan() && read.is_nan();
        assert!(same, "place {place}: {} for {read}", found[0][i]);
        if let Some(entry) = named {
            sums[4 * (i / 3) + 1 + entry] += place;
        }
    }
    assert_eq!(found[1], sums);
}
