//! What finite differences cannot say: ties, kinks, stopped gradients, values that do not matter.

use std::collections::BTreeMap;

use wmc_compiler::grad::gradients;
use wmc_compiler::interp::{Clock, run};
use wmc_compiler::ir::{Composite, Reduction, ValueId};
use wmc_compiler::testing::{Draft, NOWHERE};

/// The derivative of the sum of a value by an input that is a list of numbers.
fn derivative(numbers: &[f64], make: impl FnOnce(&mut Draft, ValueId) -> ValueId) -> Vec<f64> {
    let mut draft = Draft::new();
    let n = draft.axis("n", numbers.len());
    let x = draft.input("x", &[n]);
    let value = make(&mut draft, x);
    let found = gradients(&mut draft.program.axes, &mut draft.graph, value, &[x]);
    let input = draft.array(&[n], numbers);
    run(&draft.finish(&found), &[input], &BTreeMap::new(), Clock::default()).unwrap().remove(0).data
}

#[test]
fn ties_of_a_maximum_go_to_the_first_and_of_a_reduction_are_shared() {
    let to_first = derivative(&[1.0, 2.0], |d, x| {
        let double = d.graph.scale(x, 2.0, NOWHERE);
        let half = d.graph.scale(double, 0.5, NOWHERE);
        let three = d.graph.scale(half, 3.0, NOWHERE);
        // Equal to x, with three times its derivative.
        let minus = d.graph.scale(x, -2.0, NOWHERE);
        let minus = d.graph.stop(minus, NOWHERE);
        let same = d.graph.add(three, minus, NOWHERE);
        d.graph.max(x, same, NOWHERE)
    });
    assert_eq!(to_first, [1.0, 1.0]);
    let shared = derivative(&[2.0, 1.0, 2.0], |d, x| {
        let n = d.graph.axes(x)[0];
        d.graph.reduce(Reduction::Max, x, &[n], NOWHERE)
    });
    assert_eq!(shared, [0.5, 0.0, 0.5]);
}

/// The rule of each composite at zero is that of its body.
#[test]
fn composites_at_zero() {
    let composites = [
        (Composite::Tanh, 1.0),
        (Composite::Sigmoid, 0.25),
        (Composite::Softplus, 0.5),
        (Composite::Abs, 0.0),
        (Composite::Sign, 0.0),
    ];
    for (f, slope) in composites {
        assert_eq!(derivative(&[0.0, -0.0], |d, x| d.graph.composite(f, x, NOWHERE)), [slope, slope], "{}", f.name());
        let body = derivative(&[0.0, -0.0], |d, x| wmc_compiler::composite::body(f, &mut d.graph, x, NOWHERE));
        assert_eq!(body, [slope, slope], "body of {}", f.name());
    }
}

/// Where a function is flat the derivative is zero, not 0 times infinity.
#[test]
fn composites_far_out() {
    for f in [Composite::Tanh, Composite::Sigmoid, Composite::Softplus] {
        let far = [-1e4, -800.0, 800.0, 1e4];
        let expected = if f == Composite::Softplus { [0.0, 0.0, 1.0, 1.0] } else { [0.0; 4] };
        assert_eq!(derivative(&far, |d, x| d.graph.composite(f, x, NOWHERE)), expected, "{}", f.name());
        let body = derivative(&far, |d, x| wmc_compiler::composite::body(f, &mut d.graph, x, NOWHERE));
        assert_eq!(body, expected, "body of {}", f.name());
    }
}

#[test]
fn stop_is_a_constant() {
    let with = derivative(&[3.0], |d, x| {
        let stopped = d.graph.stop(x, NOWHERE);
        d.graph.mul(stopped, x, NOWHERE)
    });
    assert_eq!(with, [3.0]);
    assert_eq!(derivative(&[3.0], |d, x| d.graph.stop(x, NOWHERE)), [0.0]);
}

#[test]
fn what_does_not_matter_gets_zeros() {
    let none = derivative(&[3.0, 4.0], |d, _| d.graph.constant(1.0, NOWHERE));
    assert_eq!(none, [0.0, 0.0]);
    let empty = derivative(&[], |d, x| d.graph.mul(x, x, NOWHERE));
    assert_eq!(empty, [0.0; 0]);
}
