//! HaM-World against the goldens: every intermediate, all losses, every gradient, one step, the planner, the scores of
//! fixed candidates (`tests/golden/hamworld_s6`).

mod support;

use std::path::PathBuf;

use dsl::hir::Model;
use serde_json::Value;
use support::{difference, load, model, project};
use wmc_compiler::backend::Device;
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::lower::Entry;
use wmc_compiler::run::{Call, Kernels, Tensor, Tensors, call};

const SIZES: [(&str, u64); 2] = [("O", 17), ("A", 6)];

struct Golden {
    names: Value,
    inputs: Tensors,
    outputs: Tensors,
    gradients: Tensors,
    step: Tensors,
}

fn folder() -> PathBuf {
    project("tests/golden/hamworld_s6")
}

fn golden() -> Golden {
    let names = std::fs::read_to_string(folder().join("names.json")).expect("names.json");
    let file = |name: &str| load(&folder().join(name));
    Golden {
        names: serde_json::from_str(&names).expect("names.json"),
        inputs: file("inputs_f32.safetensors"),
        outputs: file("outputs_f64.safetensors"),
        gradients: file("grads_f64.safetensors"),
        step: file("step1_f64.safetensors"),
    }
}

/// The tensor that an entry of the name map means.
fn tensor(files: &[&Tensors], prefix: &str, place: &Value) -> Option<Tensor> {
    let name = place.as_str().or_else(|| place["tensor"].as_str()).expect("a name");
    let found = files.iter().find_map(|f| f.get(&format!("{prefix}{name}")))?;
    let range = |key: &str| {
        place.get(key).map(|r| (r[0].as_u64().expect("a number") as usize, r[1].as_u64().expect("a number") as usize))
    };
    let mut out = found.clone();
    for (key, axis) in [("rows", 0), ("cols", 1), ("last", found.shape.len().saturating_sub(1))] {
        if let Some((from, to)) = range(key) {
            let (n, inner) = (out.shape[axis], out.shape[axis + 1..].iter().product::<usize>());
            out.data = out.data.chunks(n * inner).flat_map(|block| block[from * inner..to * inner].to_vec()).collect();
            out.shape[axis] = to - from;
        }
    }
    Some(out)
}

impl Golden {
    /// Parameters, slow copies and the batch, under our names.
    fn given(&self) -> Tensors {
        let mut given = Tensors::new();
        for (path, place) in self.names["params"].as_object().expect("params") {
            given.insert(format!("param.{path}"), tensor(&[&self.inputs], "", place).expect("a parameter"));
            if let Some(slow) = tensor(&[&self.inputs], "ema.", place) {
                given.insert(format!("slow.{path}"), slow);
            }
        }
        for (name, place) in self.names["others"].as_object().expect("others") {
            if name.starts_with("data.") {
                given.insert(name.clone(), tensor(&[&self.inputs], "", place).expect("data"));
            }
        }
        given.insert("data.first".into(), Tensor { shape: vec![4, 8], data: vec![0.0; 32] });
        given
    }

    /// Parameters alone, and the planner's start.
    fn plan(&self) -> Tensors {
        let mut given = self.given();
        given.retain(|name, _| !name.starts_with("data."));
        for (name, t) in load(&folder().join("plan.safetensors")) {
            given.insert(name.replace("planner.", "value."), t);
        }
        given.insert("data.first".into(), Tensor { shape: vec![1], data: vec![0.0] });
        given
    }
}

fn hamworld() -> Model {
    model(&project("models/hamworld_s6.wm"), &SIZES)
}

fn close(name: &str, have: &Tensor, want: &Tensor, bound: f64) {
    // Zero by construction: only differences and gradients of the energy are used.
    if name == "grad.energy.2.bias" {
        assert!(have.data[0].abs() < 1e-12, "{name} is {}", have.data[0]);
        return;
    }
    let apart = difference(have, want);
    assert!(apart <= bound, "{name} is off by {apart:.1e}, allowed is {bound:.0e}");
}

/// Values, losses, gradients and the step, in one precision.
fn train_step(double: bool, simplify: bool, kernels: Option<Kernels>, bound: f64) {
    let golden = golden();
    let call_ = Call { entry: Entry::TrainStep, observe: true, double, simplify, kernels, progress: 0.65, ..Call::default() };
    let have = call(&hamworld(), &call_, &golden.given()).unwrap_or_else(|e| panic!("{e}"));
    let mut compared = 0;
    for (name, place) in golden.names["others"].as_object().expect("others") {
        if name.starts_with("data.") || name.starts_with("value.plan.") || name.starts_with("act.") {
            continue;
        }
        let want = tensor(&[&golden.outputs], "", place).expect("an output");
        let mut mine = have.get(name).unwrap_or_else(|| panic!("{name} is not given out")).clone();
        if let Some(t) = place.get("at").and_then(|a| a["t"].as_u64()) {
            mine = step_of(&mine, t as usize);
        }
        close(name, &mine, &want, bound);
        compared += 1;
    }
    assert_eq!(compared, 33, "values and losses compared");
    for (path, place) in golden.names["params"].as_object().expect("params") {
        let want = tensor(&[&golden.gradients], "grad.", place).expect("a gradient");
        close(&format!("grad.{path}"), &have[&format!("grad.{path}")], &want, bound);
        for (name, prefix) in [("next.param", "step1."), ("next.slow", "step1.ema.")] {
            if let Some(want) = tensor(&[&golden.step], prefix, place) {
                // Adam divides by the root of a square: an entry whose gradient is nearly zero moves by rounding alone.
                close(&format!("{name}.{path}"), &have[&format!("{name}.{path}")], &want, bound);
            }
        }
    }
}

/// Entry t of the second axis.
fn step_of(t: &Tensor, at: usize) -> Tensor {
    let inner: usize = t.shape[2..].iter().product();
    let data = t.data.chunks(t.shape[1] * inner).flat_map(|b| b[at * inner..(at + 1) * inner].to_vec()).collect();
    let mut shape = t.shape.clone();
    shape.remove(1);
    Tensor { shape, data }
}

#[test]
fn a_training_step_in_double_precision() {
    train_step(true, true, None, 1e-9);
}

#[test]
fn a_training_step_in_single_precision() {
    train_step(false, true, None, 1e-4);
}

#[test]
fn a_training_step_before_simplification() {
    train_step(true, false, None, 1e-9);
}

/// All levels, on one, two and three threads.
fn kernels() -> impl Iterator<Item = Option<Kernels>> {
    Level::ALL.into_iter().flat_map(|level| (1..=3).map(move |threads| Some(Kernels { level, threads, device: Device::Cpu })))
}

#[test]
fn a_training_step_by_kernels() {
    kernels().for_each(|kernels| train_step(false, true, kernels, 1e-4));
}

/// The planner's action, and each iteration's mean, deviation and scores.
fn decision(double: bool, kernels: Option<Kernels>, bound: f64) {
    let golden = golden();
    let call_ = Call { entry: Entry::Plan, observe: true, double, kernels, progress: 0.65, ..Call::default() };
    let have = call(&hamworld(), &call_, &golden.plan()).unwrap_or_else(|e| panic!("{e}"));
    close("action", &flat(&have["action"]), &golden.outputs["plan.action"], bound);
    for (name, theirs, first) in [("mean", "plan.mu", 1), ("std", "plan.std", 1), ("score", "plan.score", 0)] {
        let mine = &have[&format!("value.plan.{name}")];
        let inner: usize = mine.shape[2..].iter().product();
        let iterations = Tensor { shape: golden.outputs[theirs].shape.clone(), data: mine.data[first * inner..].to_vec() };
        close(name, &iterations, &golden.outputs[theirs], bound);
    }
}

#[test]
fn a_decision() {
    decision(true, None, 1e-9);
    decision(false, None, 1e-4);
}

#[test]
fn a_decision_by_kernels() {
    kernels().for_each(|kernels| decision(false, kernels, 1e-4));
}

fn scores(double: bool, kernels: Option<Kernels>, bound: f64) {
    let golden = golden();
    let model = model(&folder().join("candidates.wm"), &SIZES);
    let mut given = golden.plan();
    given.remove("value.plan.mean");
    let actions = &golden.inputs["cand.actions"];
    given.insert("draw.plan.noise".into(), Tensor { shape: vec![1, 1, 16, 6, 6], data: actions.data.clone() });
    let call_ = Call { entry: Entry::Plan, observe: true, double, kernels, progress: 0.65, ..Call::default() };
    let have = call(&model, &call_, &given).unwrap_or_else(|e| panic!("{e}"));
    close("score", &flat(&have["value.plan.score"]), &golden.outputs["cand.score"], bound);
}

#[test]
fn scores_of_fixed_candidates() {
    scores(true, None, 1e-9);
    kernels().for_each(|kernels| scores(false, kernels, 1e-4));
}

fn flat(t: &Tensor) -> Tensor {
    Tensor { shape: vec![t.data.len()], data: t.data.clone() }
}
