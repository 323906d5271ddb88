//! Every entry point of every model: it lowers, holds the invariants, has the structure it should, and runs.

mod support;

use dsl::hir::Model;
use support::{made_up, models, project};
use wmc_compiler::ir::verify::verify;
use wmc_compiler::lower::{Entry, LowerError, Options, lower};
use wmc_compiler::run::{Call, call};
use wmc_compiler::simplify::simplify;

/// The models that the project is about: file, names.
const FILES: [(&str, &[&str]); 11] = [
    ("hamworld.wm", &["HamWorld"]),
    ("hamworld_cartpole.wm", &["HamWorldCartpole"]),
    ("hamworld_s6.wm", &["HamWorldS6"]),
    ("hamworld_literal.wm", &["HamWorldLiteral"]),
    ("hamworld_light.wm", &["HamWorldLight"]),
    ("hamworld_mamba2.wm", &["HamWorldMamba2"]),
    ("ablations.wm", &["HamWorldA1", "HamWorldA2", "HamWorldA3"]),
    ("tdmpc2.wm", &["TdMpc2"]),
    ("dreamerv3.wm", &["DreamerV3"]),
    ("sac.wm", &["Sac"]),
    ("ppo.wm", &["Ppo"]),
];

/// Sizes of observation and action of the four tasks.
const TASKS: [(u64, u64); 4] = [(5, 1), (6, 2), (9, 2), (17, 6)];

fn of(file: &str, (o, a): (u64, u64)) -> Vec<Model> {
    let names = FILES.iter().find(|f| f.0 == file).expect("a file of the list").1;
    let models = models(&project("models").join(file), &[("O", o), ("A", a)]);
    let own: Vec<Model> = models.into_iter().filter(|m| names.contains(&m.name.as_str())).collect();
    assert_eq!(own.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(), names, "{file}");
    own
}

fn all(sizes: (u64, u64)) -> Vec<Model> {
    FILES.iter().flat_map(|(file, _)| of(file, sizes)).collect()
}

/// Only PPO is on-policy and records values; none of them starts segments with a past; SAC has no model of the world to measure, and some test models measure
/// nothing. All else every model can do.
fn expected(model: &Model, entry: Entry) -> bool {
    match entry {
        Entry::Record => model.name == "Ppo",
        Entry::Context => model.has_context(),
        Entry::Evaluate => !model.metrics.is_empty() || !model.diagnose.is_empty(),
        _ => true,
    }
}

#[test]
fn every_entry_lowers_and_holds_the_invariants() {
    let mut folder: Vec<Model> = all((17, 6));
    assert_eq!(folder.len(), 13);
    let small = std::fs::read_dir(project("dsl/tests/wm")).expect("a folder").map(|f| f.expect("a file").path());
    folder.extend(small.filter(|f| f.extension().is_some_and(|e| e == "wm")).flat_map(|f| models(&f, &[("O", 17), ("A", 6)])));
    for (model, entry) in folder.iter().flat_map(|m| Entry::ALL.map(|e| (m, e))) {
        let what = format!("{} {}", model.name, entry.name());
        for observe in [false, true] {
            let program = match lower(model, entry, Options { observe, ..Options::default() }) {
                Ok(program) => program,
                Err(LowerError::NoEntry { .. }) if !expected(model, entry) => continue,
                Err(error) => panic!("{what}: {error}"),
            };
            assert!(expected(model, entry), "{what} should not be there");
            verify(&program).unwrap_or_else(|e| panic!("{what}: {e}"));
            let program = simplify(program);
            verify(&program).unwrap_or_else(|e| panic!("{what}, simplified: {e}"));
        }
    }
}

/// Loops and products as lowered, and after simplification. To accept new counts:
/// `INSTA_UPDATE=always cargo test -p wmc-compiler --test models structure`.
#[test]
fn structure() {
    let mut table = String::new();
    for model in all((17, 6)) {
        for entry in [Entry::TrainStep, Entry::Plan, Entry::Evaluate].into_iter().filter(|e| expected(&model, *e)) {
            let program = lower(&model, entry, Options::default()).unwrap_or_else(|e| panic!("{e}"));
            let before = program.counts();
            let program = simplify(program);
            let after = program.counts();
            let count = |what: &str| {
                format!("{what} {:>4} -> {:<4}", before.get(what).copied().unwrap_or(0), after.get(what).copied().unwrap_or(0))
            };
            let row = format!("{:16} {:10}  {}  {}", model.name, entry.name(), count("scan"), count("dot"));
            table.push_str(row.trim_end());
            table.push('\n');
        }
    }
    insta::assert_snapshot!("structure", table);
}

/// Runs entry points of a file's models in single precision with made-up data. Numbers that are not finite are errors of
/// the run itself.
fn runs_at(file: &str, sizes: (u64, u64), entries: &[Entry]) {
    for (model, entry) in of(file, sizes).iter().flat_map(|m| entries.iter().map(move |e| (m, *e))) {
        if !expected(model, entry) {
            continue;
        }
        let what = format!("{} {}", model.name, entry.name());
        let call_ = Call { entry, batch: Some(2), progress: 0.5, ..Call::default() };
        let have = call(model, &call_, &made_up(model, &call_)).unwrap_or_else(|e| panic!("{what}: {e}"));
        for (name, tensor) in &have {
            assert!(tensor.data.iter().all(|x| x.is_finite()), "{what}: {name} is not finite");
        }
        // A normal policy's action is stored as drawn; the task clips it.
        if matches!(entry, Entry::Act | Entry::Plan) && !["Ppo", "DreamerV3"].contains(&model.name.as_str()) {
            assert!(have["action"].data.iter().all(|x| x.abs() <= 1.0 + 1e-6), "{what}: {:?}", have["action"]);
        }
    }
}

/// All entry points at one task, the planner's thousands of steps at the smallest.
fn runs(file: &str) {
    runs_at(file, TASKS[3], &[Entry::TrainStep, Entry::Evaluate, Entry::Record, Entry::Schedules, Entry::Init]);
    runs_at(file, TASKS[0], &[Entry::Act, Entry::Plan]);
}

/// `cargo xtask verify decisions`
#[test]
#[ignore = "minutes: the planners of all models at all tasks"]
fn every_entry_at_every_task() {
    for (file, _) in FILES {
        for sizes in TASKS {
            let start = std::time::Instant::now();
            runs_at(file, sizes, &Entry::ALL);
            eprintln!("      {file} at {sizes:?}: {:.1} s", start.elapsed().as_secs_f64());
        }
    }
}

#[test]
fn hamworld_runs() {
    runs("hamworld.wm");
}

#[test]
fn hamworld_s6_runs() {
    runs("hamworld_s6.wm");
}

#[test]
fn hamworld_literal_runs() {
    runs("hamworld_literal.wm");
}

#[test]
fn hamworld_light_runs() {
    runs("hamworld_light.wm");
}

#[test]
fn hamworld_mamba2_runs() {
    runs("hamworld_mamba2.wm");
}

#[test]
fn ablations_run() {
    runs("ablations.wm");
}

#[test]
fn tdmpc2_runs() {
    runs("tdmpc2.wm");
}

#[test]
fn dreamerv3_runs() {
    runs("dreamerv3.wm");
}

#[test]
fn sac_runs() {
    runs("sac.wm");
}

#[test]
fn ppo_runs() {
    runs("ppo.wm");
}
