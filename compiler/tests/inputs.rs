//! What goes in: what is wrong with it is named, and small sizes are sizes like any other.

mod support;

use dsl::hir::Model;
use support::{inline, made_up, models, project};
use wmc_compiler::interp::RunError;
use wmc_compiler::lower::{Entry, LowerError, Options};
use wmc_compiler::run::{Call, CallError, Tensor, Tensors, call, initial};

fn leapfrog() -> Model {
    models(&project("dsl/tests/wm/leapfrog.wm"), &[("O", 5), ("A", 1)]).pop().expect("a model")
}

/// A whole checkpoint and a batch.
fn complete(model: &Model) -> Tensors {
    let mut given = made_up(model, &Call::default());
    given.extend(initial(model, 0).expect("runs").into_iter().filter(|(name, _)| name.starts_with("param.")));
    given
}

#[test]
fn one_error_names_everything_that_does_not_fit() {
    let model = leapfrog();
    let mut given = complete(&model);
    given.remove("param.energy.0.weight");
    given.remove("param.control.1.bias");
    given.remove("data.r");
    given.insert("param.enregy.0.weight".to_string(), Tensor::default());
    given.insert("nonsense".to_string(), Tensor::default());
    given.insert("param.energy.1.weight".to_string(), Tensor { shape: vec![32, 31], data: vec![0.0; 32 * 31] });
    given.insert("data.a".to_string(), Tensor { shape: vec![8, 6, 1], data: vec![0.0; 48] });
    let error = call(&model, &Call::default(), &given).expect_err("tensors that do not fit");
    let CallError::Misfit(misfit) = &error else { panic!("{error}") };
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    assert_eq!(sorted(&misfit.missing), ["data.r", "param.control.1.bias", "param.energy.0.weight"]);
    assert_eq!(sorted(&misfit.unknown), ["nonsense", "param.enregy.0.weight"]);
    let mut shapes = misfit.misshapen.clone();
    shapes.sort();
    assert_eq!(
        shapes,
        [("data.a".to_string(), vec![8, 5, 1], vec![8, 6, 1]), ("param.energy.1.weight".to_string(), vec![32, 32], vec![32, 31])]
    );
    let text = error.to_string();
    for line in [
        "missing: data.r",
        "unknown: param.enregy.0.weight",
        "misshapen: param.energy.1.weight has the shape [32, 31] and should have [32, 32]",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
}

/// A shape whose product is right is still wrong, and so is a shape that its numbers do not fill.
#[test]
fn shapes_count_and_not_just_sizes() {
    let model = leapfrog();
    for (shape, count) in [(vec![5, 32], 160), (vec![160], 160), (vec![32, 5], 159)] {
        let mut given = complete(&model);
        given.insert("param.encoder.0.weight".to_string(), Tensor { shape: shape.clone(), data: vec![0.0; count] });
        let error = call(&model, &Call::default(), &given).expect_err("a shape that does not fit");
        assert!(error.to_string().contains("param.encoder.0.weight"), "{shape:?}: {error}");
    }
}

#[test]
fn a_draw_of_another_shape_is_named() {
    let model = leapfrog();
    let call_ = Call { entry: Entry::Plan, ..Call::default() };
    let mut given = made_up(&model, &call_);
    given.insert("draw.plan.noise".to_string(), Tensor { shape: vec![3], data: vec![0.0; 3] });
    let error = call(&model, &call_, &given).expect_err("a draw that does not fit");
    let CallError::Misfit(misfit) = &error else { panic!("{error}") };
    assert_eq!(misfit.misshapen.len(), 1);
    assert_eq!(misfit.misshapen[0].0, "draw.plan.noise");
}

#[test]
fn numbers_that_are_not_finite_are_reported_where_they_come_in() {
    let model = leapfrog();
    for (name, place, value) in [("data.obs", 7, f64::NAN), ("param.energy.0.weight", 0, f64::INFINITY), ("data.r", 1, f64::NAN)]
    {
        let mut given = complete(&model);
        given.get_mut(name).expect("an input").data[place] = value;
        let error = call(&model, &Call::default(), &given).expect_err("a number that is not finite");
        let CallError::Run(RunError::GivenNotFinite { name: told, place: at, .. }) = &error else { panic!("{error}") };
        assert_eq!((told.as_str(), *at), (name, place));
        // Who wants them all the same can have them.
        let go_on = Call { check: false, ..Call::default() };
        let have = call(&model, &go_on, &given).expect("runs");
        assert!(have["objective.main"].data[0].is_nan(), "{name}");
    }
}

/// A model that takes a logarithm of what may be negative.
const SHAKY: &str = "
model Shaky {
  input  obs: [O], r: []
  action a: [A] in -1..1
  net f(obs) -> [] = mlp([4], silu)
  source replay(capacity = 100) over [B = 2, T = 3]
  x[t] = f(obs[t])
  loss level 1.0 = log(x[t] - 100)
  act { train = zeros([A])  eval = zeros([A]) }
  optimizer main = adam(lr = 1e-3) on all
  train { steps = 100, seed_steps = 10, every = 1, updates = 1, eval_every = 100, eval_episodes = 1, seeds = [1] }
}
";

#[test]
fn numbers_that_stop_being_finite_are_reported_with_their_place_in_the_text() {
    let model = inline(SHAKY, &[("O", 2), ("A", 1)]);
    let given = made_up(&model, &Call::default());
    for double in [false, true] {
        let error = call(&model, &Call { double, ..Call::default() }, &given).expect_err("a logarithm of a negative number");
        let CallError::Run(run) = &error else { panic!("{error}") };
        let RunError::NotFinite { op, .. } = run else { panic!("{error}") };
        assert_eq!(*op, "log");
        let span = run.span().expect("a place");
        assert_eq!(&SHAKY[span.lo as usize..span.hi as usize], "log(x[t] - 100)");
    }
}

/// A logarithm of a negative number in the branch that is not taken, and its gradient.
#[test]
fn what_a_condition_leaves_out_does_no_harm() {
    let text = SHAKY.replace("log(x[t] - 100)", "select(x[t] > 1_000, log(x[t] - 100), x[t]^2)");
    let model = inline(&text, &[("O", 2), ("A", 1)]);
    let have = call(&model, &Call { observe: true, ..Call::default() }, &made_up(&model, &Call::default())).expect("runs");
    assert!(have["grad.f.0.weight"].data.iter().all(|x| x.is_finite()));
}

fn finite(model: &Model, batch: usize) {
    for entry in Entry::ALL {
        let call_ = Call { entry, batch: Some(batch), observe: true, ..Call::default() };
        if matches!(entry, Entry::Record | Entry::Context) {
            continue;
        }
        let have =
            call(model, &call_, &made_up(model, &call_)).unwrap_or_else(|e| panic!("{} {}: {e}", model.name, entry.name()));
        assert!(have.values().all(|t| t.data.iter().all(|x| x.is_finite())), "{} {}", model.name, entry.name());
    }
}

/// A memory of size zero: the axis is there and holds nothing.
#[test]
fn axes_of_size_zero() {
    let models = models(&project("models/ablations.wm"), &[("O", 5), ("A", 1)]);
    let without_memory = models.iter().find(|m| m.name == "HamWorldA2").expect("the ablation without a memory");
    finite(without_memory, 1);
    finite(without_memory, 3);
}

#[test]
fn a_batch_of_one_and_short_segments() {
    let text = std::fs::read_to_string(project("dsl/tests/wm/leapfrog.wm")).expect("a file");
    for (t, k) in [(2, 1), (3, 1), (3, 2)] {
        let text = text.replace("T = 6", &format!("T = {t}")).replace("K = 3", &format!("K = {k}"));
        let text = text.replace("for k in [1, 3]", "for k in [1]");
        let model = inline(&text, &[("O", 1), ("A", 1)]);
        finite(&model, 1);
        finite(&model, 2);
    }
}

/// Segments of one step: no transition, no recurrence that goes anywhere.
#[test]
fn a_segment_of_one_step() {
    let text = SHAKY.replace("T = 3", "T = 1").replace("log(x[t] - 100)", "(h[t] + back[t])^2").replace(
        "  loss",
        "  h[t] = 0.5 * h[t-1] + x[t]   with h[-1] = 1\n  back[t] = x[t] + 0.5 * back[t+1]   with back[T] = 2\n  loss",
    );
    let model = inline(&text, &[("O", 1), ("A", 1)]);
    for (batch, double) in [(1, true), (3, false)] {
        let call_ = Call { batch: Some(batch), observe: true, double, ..Call::default() };
        let have = call(&model, &call_, &made_up(&model, &call_)).unwrap_or_else(|e| panic!("{e}"));
        for i in 0..batch {
            let x = have["value.x"].data[i];
            assert!((have["value.h"].data[i] - (0.5 + x)).abs() < 1e-6);
            assert!((have["value.back"].data[i] - (1.0 + x)).abs() < 1e-6);
        }
    }
}

/// The batch comes from the data, where there is some.
#[test]
fn the_batch_is_that_of_the_data() {
    let model = leapfrog();
    let given = made_up(&model, &Call { batch: Some(3), ..Call::default() });
    let have = call(&model, &Call { observe: true, ..Call::default() }, &given).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(have["value.z.q"].shape, [3, 6, 4]);
}

/// A batch that lacks a sample which the model names is refused at any entry point that reads it, and says what to do.
#[test]
fn a_batch_without_the_sample_that_is_named() {
    let text = std::fs::read_to_string(project("compiler/tests/differ/found/collect_smaller_batch.wm")).expect("the file");
    let model = inline(&text, &[("O", 2), ("A", 1)]);
    let lowered =
        |batch| wmc_compiler::lower::lower(&model, Entry::TrainStep, Options { batch: Some(batch), ..Options::default() });
    for batch in [1, 2] {
        let error = lowered(batch).expect_err("refused");
        assert!(matches!(error, LowerError::Batch { declared: 3, given, .. } if given == batch), "{error:?}");
        assert!(error.to_string().contains(&format!("`--dim B={batch}`")), "{error}");
    }
    for batch in [3, 5] {
        lowered(batch).unwrap_or_else(|e| panic!("{e}"));
    }
}
