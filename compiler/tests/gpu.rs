//! Emitted CUDA as text: the same each time, with no barrier too many, and fine with NVIDIA's compiler.

#![cfg(feature = "emit")]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use dsl::hir::Model;
use emulate::{Build, Finding, Kernel, Kind, Options as How};
use nvrtc::{ARCHS, Arch, Figures, Text};
use support::{made_up, models, project};
use wmc_compiler::backend::cube::{Action, CUDA, Emitted, Limits, Numerics, Resident, Target, WGSL, emit};
use wmc_compiler::interp::Clock;
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::lower::{Entry, LowerError, Options, lower};
use wmc_compiler::run::{Call, arrays};
use wmc_compiler::simplify::simplify;
use wmc_compiler::stage::Simplified;

const FILES: [&str; 9] =
    ["hamworld_s6", "hamworld_literal", "hamworld_light", "hamworld_mamba2", "ablations", "tdmpc2", "dreamerv3", "sac", "ppo"];

fn model(file: &str) -> Model {
    models(&project("models").join(format!("{file}.wm")), &[("O", 17), ("A", 6)]).remove(0)
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("gpu").join(name)
}

/// The graph program of an entry point, where the model has it; one environment decides, and batches are the model's own.
fn graph(model: &Model, entry: Entry) -> Option<Simplified> {
    match lower(model, entry, Options::default()) {
        Ok(program) => Some(simplify(program)),
        Err(LowerError::NoEntry { .. }) => None,
        Err(e) => panic!("{} {}: {e}", model.name, entry.name()),
    }
}

fn emitted(program: &Simplified, target: Target, limits: &Limits) -> Emitted {
    let made_for = if target == Target::Wgsl { WGSL } else { CUDA };
    let kernels = fuse(program, &made_for, Level::Mega).unwrap_or_else(|e| panic!("{e}"));
    let resident = Resident { inputs: (0..program.inputs.len()).collect(), ..Resident::default() };
    emit(&kernels, target, limits, &resident).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn the_text_is_the_same_each_time() {
    let program = graph(&model("hamworld_s6"), Entry::Plan).expect("a planner");
    for (target, limits) in [(Target::Cuda { arch: 86 }, Limits::cuda(86)), (Target::Wgsl, Limits::wgsl())] {
        let first = emitted(&program, target, &limits);
        for _ in 1..20 {
            assert!(emitted(&program, target, &limits) == first, "{target:?} differs from run to run");
        }
    }
}

/// The kernel with the most barriers, which is the rollout, and everything up to its first launch.
fn up_to_rollout(mut emitted: Emitted) -> (Emitted, usize) {
    let barriers = |i: &usize| emitted.kernels[*i].source.matches("__syncthreads();").count();
    let rollout = (0..emitted.kernels.len()).max_by_key(barriers).expect("a kernel");
    fn cut(actions: &[Action], rollout: usize, list: &mut Vec<Action>) -> bool {
        for action in actions {
            match action {
                Action::Loop { id, reverse, body, .. } => {
                    let mut inner = Vec::new();
                    let found = cut(body, rollout, &mut inner);
                    list.push(Action::Loop { id: *id, count: 1, reverse: *reverse, body: inner });
                    if found {
                        return true;
                    }
                }
                other => {
                    list.push(other.clone());
                    if *other == Action::Launch(rollout) {
                        return true;
                    }
                }
            }
        }
        false
    }
    let mut steps = Vec::new();
    assert!(cut(&emitted.steps, rollout, &mut steps), "the rollout is launched");
    emitted.steps = steps;
    (emitted, rollout)
}

/// Leaves out every barrier of a model's rollout in turn, and gives those that nobody misses, by number, of how many.
fn unneeded_barriers(model: &Model) -> (Vec<usize>, usize) {
    let call = Call { entry: Entry::Plan, batch: Some(1), double: true, ..Call::default() };
    let program = graph(model, Entry::Plan).expect("a planner");
    let (inputs, _) = arrays::<f64>(model, &call, &program, &made_up(model, &call)).unwrap_or_else(|e| panic!("{e}"));
    let inputs: Vec<Vec<f32>> = inputs.iter().map(|a| a.data.iter().map(|x| *x as f32).collect()).collect();
    let (emitted, rollout) = up_to_rollout(emitted(&program, Target::Cuda { arch: 86 }, &Limits::cuda(86)));
    let mut kernels: Vec<Kernel> =
        emitted.kernels.iter().map(|k| Kernel { name: k.name.clone(), source: k.source.clone() }).collect();
    let (changed, count) = kernels[rollout].mutable();
    kernels[rollout] = changed;
    let folder = folder(&format!("barriers-{}", model.name));
    let built = emulate::build(&kernels, &emitted.host(), &Build { folder: folder.clone(), watched: true });
    let host = built.unwrap_or_else(|e| panic!("{e}"));
    std::fs::write(folder.join("in"), emitted.host_input(&inputs, &[], Clock { seed: 0, step: 0 })).expect("a file");
    let races = |without: Option<usize>, cubes: u32| -> Vec<Finding> {
        let how = How { without, poison: true, cubes: Some(cubes), ..How::default() };
        let outcome = host.run(&how, &["in", "out"]).unwrap_or_else(|e| panic!("{e}"));
        outcome.findings.into_iter().filter(|f| f.kind == Kind::Race).collect()
    };
    assert_eq!(races(None, 4), [], "{} with all its barriers", model.name);
    // The first cube shows what almost all do.
    let unneeded = |n: &usize| races(Some(*n), 1).is_empty() && races(Some(*n), 4).is_empty();
    ((0..count).filter(unneeded).collect(), count)
}

fn every_barrier_is_needed(file: &str) {
    let start = Instant::now();
    let model = model(file);
    let (unneeded, count) = unneeded_barriers(&model);
    eprintln!("{}: {count} barriers, {:.1} s", model.name, start.elapsed().as_secs_f64());
    assert!(count > 0);
    assert_eq!(unneeded, Vec::<usize>::new(), "{}: barriers, of {count}, that order nothing", model.name);
}

#[test]
fn every_barrier_of_the_rollout_is_needed() {
    every_barrier_is_needed("hamworld_s6");
}

#[test]
#[ignore = "takes minutes"]
fn every_barrier_of_a_baseline_is_needed() {
    every_barrier_is_needed("tdmpc2");
}

/// Of a model's entry point on an architecture.
struct Compiled {
    launches: usize,
    texts: Vec<Text>,
    figures: Vec<Figures>,
    cubes: Vec<u32>,
    /// Seconds of the processor to fuse and to emit the text.
    emission: f64,
}

/// What this thread has had of the processor, in seconds; others on the machine do not count. Since an unknown moment.
fn processor_seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds: Option<f64> = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.unwrap_or(f64::NAN) / 1e9
}

fn compiled(model: &Model, entry: Entry, arch: &Arch, numerics: Numerics) -> Option<Compiled> {
    let program = graph(model, entry)?;
    let number = arch.name.trim_start_matches("sm_").parse().expect("a capability");
    let start = processor_seconds();
    let emitted = emitted(&program, Target::Cuda { arch: number }, &Limits::cuda(number).with(numerics));
    let emission = processor_seconds() - start;
    let text = |k: &wmc_compiler::backend::cube::EmittedKernel| Text {
        name: format!("{}.cu", k.name),
        source: k.source.clone(),
        threads: k.cube_dim as usize,
        shared: k.shared_bytes,
    };
    let texts: Vec<Text> = emitted.kernels.iter().map(text).collect();
    let place = folder(&format!("{}-{}-{}", model.name, entry.name(), arch.name));
    let figures = match texts.is_empty() {
        true => Vec::new(),
        false => nvrtc::compile(&texts, &[*arch], &place).unwrap_or_else(|e| panic!("{} {}: {e}", model.name, entry.name())),
    };
    let cubes = emitted.kernels.iter().map(|k| k.cube_count).collect();
    Some(Compiled { launches: Emitted::launches(&emitted.steps), texts, figures, cubes, emission })
}

impl Compiled {
    fn over_budget(&self, arch: &Arch) -> Vec<String> {
        let each = self.texts.iter().zip(&self.figures);
        each.flat_map(|(t, f)| nvrtc::over_budget(t, f, arch).into_iter().map(move |why| format!("{}: {why}", t.name))).collect()
    }

    /// Of the processor, for all texts.
    fn seconds(&self) -> f64 {
        self.figures.iter().map(|f| f.ms).sum::<u64>() as f64 / 1e3
    }

    /// `| 14 | 9 | 128 | 0 | 96.2 | 0.4 | 3.1 |`
    fn row(&self) -> String {
        let most = |f: &dyn Fn(&Figures) -> usize| self.figures.iter().map(f).max().unwrap_or(0);
        let spills: usize = self.figures.iter().map(|f| f.spills).sum();
        let shared = self.texts.iter().map(|t| t.shared).max().unwrap_or(0);
        format!(
            "| {} | {} | {} | {spills} | {:.1} | {:.2} | {:.1} |",
            self.launches,
            self.texts.len(),
            most(&|f| f.registers),
            shared as f64 / 1024.0,
            self.emission,
            self.seconds(),
        )
    }
}

#[test]
fn nvrtc_takes_decisions() {
    if !nvrtc::available().unwrap_or_else(|e| panic!("{e}")) {
        return;
    }
    let arch = &ARCHS[1];
    for file in ["hamworld_s6", "tdmpc2"] {
        let model = model(file);
        let compiled = compiled(&model, Entry::Plan, arch, Numerics::default()).expect("a planner");
        eprintln!("{} {}", model.name, compiled.row());
        assert_eq!(compiled.over_budget(arch), Vec::<String>::new(), "{}", model.name);
    }
}

/// How a decision would lie on a device, kernel by kernel, for the estimates of docs/measurements/gpu.md.
#[test]
#[ignore = "prints a table"]
fn occupancy_of_a_decision() {
    let model = model("hamworld_s6");
    println!(
        "| kernel | arch | cubes | threads | registers | shared KB | cubes a processor | lines |\n|---|---|---|---|---|---|---|---|"
    );
    for arch in [&ARCHS[1], &ARCHS[2]] {
        let compiled = compiled(&model, Entry::Plan, arch, Numerics::default()).expect("a planner");
        for ((text, figures), cubes) in compiled.texts.iter().zip(&compiled.figures).zip(&compiled.cubes) {
            let resident = nvrtc::resident(text, figures, arch);
            let (name, kb, lines) = (text.name.trim_end_matches(".cu"), text.shared as f64 / 1024.0, text.source.lines().count());
            println!(
                "| {name} | {} | {cubes} | {} | {} | {kb:.1} | {resident} | {lines} |",
                arch.name, text.threads, figures.registers
            );
        }
    }
}

/// The table of docs/measurements/gpu.md: `cargo xtask verify nvrtc`. `MODEL=hamworld_s6 ENTRY=plan ARCH=sm_86 PRECISION=tf32:atomic` for a part of it.
#[test]
#[ignore = "takes an hour for all models"]
fn nvrtc_takes_all_models() {
    assert!(nvrtc::available().unwrap_or_else(|e| panic!("{e}")), "there is no NVRTC");
    let wanted = |name: &str, is: &str| std::env::var(name).map_or(true, |w| w == is);
    let numerics = std::env::var("PRECISION").map_or(Numerics::default(), |p| Numerics::named(&p).expect("a precision"));
    let mut seen: BTreeMap<String, ()> = BTreeMap::new();
    let mut wrong = Vec::new();
    println!(
        "| model | entry | arch | launches | kernels | registers | spills | shared KB | emitted s | NVRTC s |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for file in FILES.iter().filter(|f| wanted("MODEL", f)) {
        for model in models(&project("models").join(format!("{file}.wm")), &[("O", 17), ("A", 6)]) {
            if seen.insert(model.name.clone(), ()).is_some() {
                continue;
            }
            for arch in ARCHS.iter().filter(|a| wanted("ARCH", a.name)) {
                let (mut emission, mut seconds) = (0.0, 0.0);
                for entry in Entry::ALL.into_iter().filter(|e| wanted("ENTRY", e.name())) {
                    let Some(compiled) = compiled(&model, entry, arch, numerics) else { continue };
                    println!("| {} | {} | {} {}", model.name, entry.name(), arch.name, compiled.row());
                    emission += compiled.emission;
                    seconds += compiled.seconds();
                    let what = format!("{} {} {}", model.name, entry.name(), arch.name);
                    wrong.extend(compiled.over_budget(arch).into_iter().map(|why| format!("{what}: {why}")));
                }
                println!("| {} | all | {} | | | | | | {emission:.2} | {seconds:.1} |", model.name, arch.name);
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
