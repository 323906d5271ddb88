//! Gradients of small models against central differences in double precision.

use dsl::hir::Model;
use wmc_compiler::run::{Call, Tensor, Tensors, call, initial};

use super::made_up;

/// A training step in double precision that gives out all equations and gradients.
pub(crate) const DOUBLE: Call = Call {
    entry: wmc_compiler::lower::Entry::TrainStep,
    observe: true,
    double: true,
    seed: 3,
    step: 0,
    progress: 0.0,
    batch: None,
    check: true,
    simplify: true,
    kernels: None,
};

/// Initial parameters and made-up data, with an episode that starts inside the first segment.
pub(crate) fn given(model: &Model) -> Tensors {
    let mut given = made_up(model, &DOUBLE);
    if let Some(first) = given.get_mut("data.first") {
        first.data = vec![0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    }
    let initial = initial(model, DOUBLE.seed).unwrap_or_else(|e| panic!("{e}"));
    given.extend(initial.into_iter().filter(|(name, _)| name.starts_with("param.")));
    given
}

pub(crate) fn run(model: &Model, given: &Tensors) -> Tensors {
    call(model, &DOUBLE, given).unwrap_or_else(|e| panic!("{e}"))
}

fn gradients(model: &Model) -> Tensors {
    run(model, &given(model)).into_iter().filter(|(name, _)| name.starts_with("grad.")).collect()
}

/// The derivative of one output's only entry by every entry of one input, as the program is before simplification.
pub(crate) fn differences(model: &Model, given: &Tensors, of: &str, by: &str) -> Tensor {
    let step = 1e-5;
    let plain = Call { observe: false, simplify: false, ..DOUBLE };
    let at = |i: usize, by_how_much: f64| {
        let mut moved = given.clone();
        moved.get_mut(by).expect("an input").data[i] += by_how_much;
        call(model, &plain, &moved).unwrap_or_else(|e| panic!("{e}"))[of].data[0]
    };
    let data = (0..given[by].data.len()).map(|i| (at(i, step) - at(i, -step)) / (2.0 * step)).collect();
    Tensor { shape: given[by].shape.clone(), data }
}

/// The largest difference between gradients, relative to the largest entry of all of them: one bias that nothing depends
/// on has nothing to be relative to.
fn apart(a: &Tensors, b: &Tensors) -> f64 {
    let entries = |t: &Tensors| t.values().flat_map(|t| t.data.clone()).collect::<Vec<f64>>();
    let (a, b) = (entries(a), entries(b));
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(0f64, |m, x| m.max(x.abs()));
    assert!(scale > 1e-6, "the gradient is zero");
    a.iter().zip(&b).fold(0f64, |m, (x, y)| m.max((x - y).abs())) / scale
}

/// How far the training gradient is from central differences of the objective.
pub(crate) fn error(model: &Model) -> f64 {
    let given = given(model);
    let have = gradients(model);
    let want = have
        .keys()
        .map(|name| (name.clone(), differences(model, &given, "objective.main", &name.replacen("grad.", "param.", 1))))
        .collect();
    apart(&have, &want)
}
