//! Losses, gradients, values and one step of the baselines, and of models that are none, against independent PyTorch code (`tests/reference`).

mod support;

use support::{difference, load, model, project};
use wmc_compiler::lower::Entry;
use wmc_compiler::run::{Call, Tensors, call};

/// Runs an entry point on the oracle's inputs and compares everything it states.
fn agrees(name: &str, file: &str, entry: Entry, double: bool, bound: f64) {
    let root = std::env::var("ORACLE").map(std::path::PathBuf::from).unwrap_or_else(|_| project("tests/reference"));
    let model = model(&root.join(format!("{name}.wm")), &[("O", 5), ("A", 2)]);
    let given = load(&root.join(format!("data/{file}.in.safetensors")));
    let want = load(&root.join(format!("data/{file}.out.safetensors")));
    let observe = true;
    let have =
        call(&model, &Call { entry, observe, double, ..Call::default() }, &given).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut wrong: Vec<String> = Vec::new();
    let mut compared = 0;
    for (name, want) in want.iter().filter(|(name, _)| given_out(entry, name)) {
        let Some(have) = lookup(&have, entry, name) else {
            wrong.push(format!("{name} is not given out"));
            continue;
        };
        compared += 1;
        let apart = difference(have, want);
        // A gradient that is zero by construction is rounding errors in both.
        let tiny = if double { 1e-12 } else { 1e-6 };
        let zero = want.data.iter().all(|x| x.abs() < 1e-12) && have.data.iter().all(|x| x.abs() < tiny);
        if (apart.is_nan() || apart > bound) && !zero {
            wrong.push(format!("{name} is off by {apart:.1e} (shape {:?}, wanted {:?})", have.shape, want.shape));
        }
    }
    println!("{file}: {compared} tensors compared, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{file}:\n{}", wrong.join("\n"));
}

/// The oracle of a decision states both actions, of which a program gives its own, and the planner's answer, which is no
/// equation of the model's.
fn given_out(entry: Entry, name: &str) -> bool {
    match name {
        "act.train" => entry == Entry::Act,
        "act.eval" => entry == Entry::Plan,
        _ => !name.starts_with("value.found."),
    }
}

fn lookup<'a>(have: &'a Tensors, entry: Entry, name: &str) -> Option<&'a wmc_compiler::run::Tensor> {
    match (entry, name) {
        (Entry::Act, "act.train") | (Entry::Plan, "act.eval") => have.get("action"),
        _ => have.get(name),
    }
}

#[test]
fn sac() {
    agrees("models/sac_small", "sac", Entry::TrainStep, true, 1e-9);
    agrees("models/sac_small", "sac", Entry::TrainStep, false, 1e-4);
}

#[test]
fn tdmpc2() {
    agrees("models/tdmpc2_small", "tdmpc2", Entry::TrainStep, true, 1e-9);
    agrees("models/tdmpc2_small", "tdmpc2", Entry::TrainStep, false, 1e-4);
    agrees("models/tdmpc2_small", "tdmpc2_evaluate", Entry::Evaluate, true, 1e-9);
}

#[test]
fn tdmpc2_decides() {
    for entry in [Entry::Act, Entry::Plan] {
        agrees("models/tdmpc2_small", "tdmpc2_act", entry, true, 1e-9);
        agrees("models/tdmpc2_small", "tdmpc2_act", entry, false, 1e-4);
    }
}

#[test]
fn dreamerv3() {
    agrees("models/dreamerv3_small", "dreamerv3", Entry::TrainStep, true, 1e-9);
    agrees("models/dreamerv3_small", "dreamerv3", Entry::TrainStep, false, 1e-4);
    agrees("models/dreamerv3_small", "dreamerv3_evaluate", Entry::Evaluate, true, 1e-9);
}

#[test]
fn ppo() {
    agrees("models/ppo_small", "ppo", Entry::TrainStep, true, 1e-9);
    agrees("models/ppo_small", "ppo", Entry::TrainStep, false, 1e-4);
    agrees("models/ppo_small", "ppo_record", Entry::Record, true, 1e-9);
}

/// Models made of things that go wrong easily.
#[test]
fn variants() {
    for name in ["leapfrog", "rssm", "ensembles", "ranges", "orders", "mass", "contrast", "mambas"] {
        let (model, file) = (format!("variants/{name}"), format!("variant_{name}"));
        agrees(&model, &file, Entry::TrainStep, true, 1e-9);
        agrees(&model, &file, Entry::TrainStep, false, 1e-4);
    }
    agrees("variants/ensembles", "variant_ensembles_act", Entry::Act, true, 1e-9);
}
