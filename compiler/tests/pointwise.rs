//! `grad(e, x)` is pointwise: at each sample and each value of each index, the derivative of `e` there by `x` there. The
//! models of `tests/pointwise` hold pairs of equations, `x` and `x_want`: a gradient, and what it must be, by hand.

mod support;

use std::time::{Duration, Instant};

use dsl::hir::Model;
use support::orders::{DOUBLE, error, given, run};
use support::{difference, made_up, models, of_text_in, project};
use wmc_compiler::backend::{Device, cpu};
use wmc_compiler::kernel::fuse::{Level, fuse};
use wmc_compiler::kernel::verify::verify;
use wmc_compiler::lower::{Entry, Options, lower};
use wmc_compiler::run::{Call, Kernels, Tensor, Tensors, call, initial};
use wmc_compiler::simplify::simplify;

/// Compares all pairs of all models of a file, and says how many there were.
fn pairs(file: &str) -> usize {
    let mut count = 0;
    for model in models(&project("compiler/tests/pointwise").join(file), &[("O", 2), ("A", 1)]) {
        count += agreeing(&model, &run(&model, &given(&model)));
    }
    count
}

/// Compares the pairs of a model's values.
fn agreeing(model: &Model, found: &Tensors) -> usize {
    let mut count = 0;
    for (name, want) in found.iter().filter(|(name, _)| name.ends_with("_want")) {
        let have = &found[name.trim_end_matches("_want")];
        assert_eq!(have.shape, want.shape, "{} {name}", model.name);
        let apart = difference(have, want);
        assert!(want.data.iter().any(|x| x.abs() > 1e-6), "{name} is zero");
        assert!(apart < 1e-12, "{} {name}: {apart:.1e}\n{:?}\n{:?}", model.name, have.data, want.data);
        count += 1;
    }
    count
}

#[test]
fn copies() {
    assert_eq!(pairs("copies.wm"), 5);
}

#[test]
fn constants_and_parameters() {
    assert_eq!(pairs("constants.wm"), 9);
}

#[test]
fn a_gradient_behind_an_equation() {
    assert_eq!(pairs("through.wm"), 5);
}

#[test]
fn ways() {
    assert_eq!(pairs("ways.wm"), 40);
}

#[test]
fn acting() {
    let model = support::model(&project("compiler/tests/pointwise/acting.wm"), &[("O", 2), ("A", 1)]);
    for (entry, batch) in [(Entry::Act, 1), (Entry::Plan, 2)] {
        let call_ = Call { entry, batch: Some(batch), ..DOUBLE };
        let mut given = made_up(&model, &call_);
        given.extend(
            initial(&model, DOUBLE.seed).unwrap_or_else(|e| panic!("{e}")).into_iter().filter(|(n, _)| n.starts_with("param.")),
        );
        assert_eq!(agreeing(&model, &call(&model, &call_, &given).unwrap_or_else(|e| panic!("{e}"))), 4);
    }
}

#[test]
fn rollouts() {
    let model = support::model(&project("compiler/tests/pointwise/rollout.wm"), &[("O", 2), ("A", 1)]);
    for (entry, count) in [(Entry::TrainStep, 3), (Entry::Record, 2)] {
        let call_ = Call { entry, ..DOUBLE };
        let mut given = made_up(&model, &call_);
        let initial = initial(&model, DOUBLE.seed).unwrap_or_else(|e| panic!("{e}"));
        given.extend(initial.into_iter().filter(|(name, _)| name.starts_with("param.")));
        let found = call(&model, &call_, &given).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(agreeing(&model, &found), count, "{:?}", found.keys());
    }
}

#[test]
fn by_index() {
    assert_eq!(pairs("index.wm"), 17);
}

/// One row of everything that is given per environment.
fn environment(given: &Tensors, row: usize) -> Tensors {
    let cut = |t: &Tensor| {
        let n = t.data.len() / 2;
        let shape = [1].into_iter().chain(t.shape[1..].iter().copied()).collect();
        Tensor { shape, data: t.data[row * n..(row + 1) * n].to_vec() }
    };
    given.iter().map(|(name, t)| (name.clone(), if name.starts_with("param.") { t.clone() } else { cut(t) })).collect()
}

/// Two environments at once get what each gets alone, and the slope of each plan is that of its own score.
#[test]
fn planners() {
    for model in models(&project("compiler/tests/pointwise/planner.wm"), &[("O", 2), ("A", 1)]) {
        let plan = |given: &Tensors, batch: usize| {
            let call_ = Call { entry: Entry::Plan, batch: Some(batch), ..DOUBLE };
            call(&model, &call_, given).unwrap_or_else(|e| panic!("{}: {e}", model.name))
        };
        let mut given = made_up(&model, &Call { entry: Entry::Plan, batch: Some(2), ..DOUBLE });
        let initial = initial(&model, DOUBLE.seed).unwrap_or_else(|e| panic!("{e}"));
        given.extend(initial.into_iter().filter(|(name, _)| name.starts_with("param.")));
        let both = plan(&given, 2);
        for (row, given) in (0..2).map(|row| environment(&given, row)).enumerate() {
            let found = plan(&given, 1);
            for (name, alone) in &found {
                let n = alone.data.len();
                // What is the same for all environments is there once.
                let at = if both[name].data.len() == n { 0 } else { row * n };
                let have = Tensor { shape: alone.shape.clone(), data: both[name].data[at..at + n].to_vec() };
                assert!(alone.data.iter().all(|x| *x == 0.0) || difference(&have, alone) < 1e-12, "{} {name}", model.name);
            }
            let Some(slope) = found.get("value.plan.slope") else { continue };
            let start = &found["value.plan.start"];
            assert_eq!(start.data.len(), slope.data.len());
            let score = |at: usize, by: f64| {
                let mut start = start.clone();
                start.data[at] += by;
                let mut moved = given.clone();
                moved.insert("value.plan.start".to_string(), start);
                plan(&moved, 1)["value.plan.try.score"].data.iter().sum::<f64>()
            };
            let want = (0..slope.data.len()).map(|i| (score(i, 1e-5) - score(i, -1e-5)) / 2e-5).collect();
            let apart = difference(slope, &Tensor { shape: slope.shape.clone(), data: want });
            assert!(apart < 1e-7, "{}: {apart:.1e}", model.name);
        }
    }
}

/// The kernels of every level compute what the reference does, training included.
#[test]
fn levels() {
    for file in ["copies.wm", "constants.wm", "through.wm", "index.wm", "ways.wm"] {
        for model in models(&project("compiler/tests/pointwise").join(file), &[("O", 2), ("A", 1)]) {
            let given = given(&model);
            let want = run(&model, &given);
            let largest = |t: &Tensor| t.data.iter().fold(0f64, |m, x| m.max(x.abs()));
            let steepest =
                want.iter().filter(|(name, _)| name.starts_with("grad.")).map(|(_, t)| largest(t)).fold(0f64, f64::max);
            for level in Level::ALL {
                let kernels = Some(Kernels { level, threads: 1, device: Device::Cpu });
                let call_ = Call { double: false, kernels, ..DOUBLE };
                let have = call(&model, &call_, &given).unwrap_or_else(|e| panic!("{} {level:?}: {e}", model.name));
                for (name, want) in want.iter().filter(|(name, _)| name.starts_with("grad.") || name.starts_with("value.")) {
                    // A gradient that is zero by construction has nothing to be relative to.
                    let floor = if name.starts_with("grad.") { 1e-3 * steepest } else { 1e-3 };
                    let scale = largest(want).max(floor);
                    let apart = have[name].data.iter().zip(&want.data).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
                    assert!(apart < 1e-4 * scale, "{} {level:?} {name}: {:.1e}", model.name, apart / scale);
                }
            }
        }
    }
}

/// What training makes of these gradients, against central differences of the objective.
#[test]
fn training() {
    for file in ["copies.wm", "constants.wm", "through.wm", "index.wm", "ways.wm"] {
        for model in models(&project("compiler/tests/pointwise").join(file), &[("O", 2), ("A", 1)]) {
            let error = error(&model);
            assert!(error < 1e-7, "{}: {error:.1e}", model.name);
        }
    }
}

/// A model with Q coordinates and one loss, from text to kernels: how long it takes, and how many operations it has.
fn compiled(q: usize, loss: &str) -> (Duration, usize) {
    let text = format!(
        "use base::Base
         model Wide extends Base {{
           dim Q = {q}
           loss of 0.1 = {loss}
         }}"
    );
    let start = Instant::now();
    let model = of_text_in("compiler/tests/pointwise", &text, &[("O", 2), ("A", 1)]);
    let program = lower(&model, Entry::TrainStep, Options::default()).unwrap_or_else(|e| panic!("{e}"));
    let program = simplify(program);
    let kernels = fuse(&program, &cpu::TARGET, Level::Mega).unwrap_or_else(|e| panic!("{e}"));
    verify(&kernels).unwrap_or_else(|e| panic!("{e}"));
    (start.elapsed(), program.graph.nodes.len())
}

/// A whole Hessian is an axis of one program. It compiles in at most three times as long as one gradient.
#[test]
fn a_hessian_of_many_coordinates() {
    let gradient = "sq(grad(energy(z[t].q, z[t].p), z[t].q))";
    let hessian = "sq(each i in Q { grad(grad(energy(z[t].q, z[t].p), z[t].q)[i], z[t].q) })";
    let ((_, few), (_, many)) = (compiled(4, hessian), compiled(64, hessian));
    assert_eq!(few, many, "the coordinates are written out");
    let best = |loss: &str| (0..3).map(|_| compiled(64, loss).0).min().unwrap_or_default();
    let (one, all) = (best(gradient), best(hessian));
    assert!(all < 3 * one, "one gradient: {one:?}, the Hessian: {all:?}");
}
