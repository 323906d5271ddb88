//! One case for each primitive and composite: first, second and third order.

use wmc_compiler::interp::Array;
use wmc_compiler::ir::{AxisId, Composite, Noise, Program, Reduction, Role, Unary, ValueId};
use wmc_compiler::testing::{Draft, NOWHERE, Rng};

use super::check_orders;

/// Two inputs to work on: `x` over [a, b] and `y` over [b, c], with numbers between 0.4 and 1.6.
struct Case {
    draft: Draft,
    inputs: Vec<Array<f64>>,
    a: AxisId,
    b: AxisId,
    c: AxisId,
    x: ValueId,
    y: ValueId,
}

impl Case {
    fn new() -> Case {
        let mut draft = Draft::new();
        let [a, b, c] = [("a", 2), ("b", 3), ("c", 1)].map(|(name, size)| draft.axis(name, size));
        let (x, y) = (draft.input("x", &[a, b]), draft.input("y", &[b, c]));
        let mut rng = Rng::new(5);
        let mut numbers = |n: usize| (0..n).map(|_| rng.between(0.4, 1.6)).collect::<Vec<f64>>();
        let inputs = vec![draft.array(&[a, b], &numbers(6)), draft.array(&[b, c], &numbers(3))];
        Case { draft, inputs, a, b, c, x, y }
    }

    /// Whole numbers to gather at.
    fn places(&mut self, axes: &[AxisId], numbers: &[f64]) -> ValueId {
        self.inputs.push(self.draft.array(axes, numbers));
        self.draft.given(&format!("at{}", self.inputs.len()), Role::Data, axes)
    }

    /// The sum of a function of the value that has no derivative of zero: `sin(v) + v y`.
    fn finish(mut self, value: ValueId) -> (Program, Vec<Array<f64>>) {
        let g = &mut self.draft.graph;
        let sin = g.unary(Unary::Sin, value, NOWHERE);
        let scale = g.sum(self.y, &[self.b, self.c], NOWHERE);
        let scaled = g.mul(value, scale, NOWHERE);
        let both = g.add(sin, scaled, NOWHERE);
        let axes = g.axes(both).to_vec();
        let total = g.sum(both, &axes, NOWHERE);
        (self.draft.finish(&[total]), self.inputs)
    }
}

#[track_caller]
fn agrees(make: impl FnOnce(&mut Case) -> ValueId) {
    let mut case = Case::new();
    let value = make(&mut case);
    let (program, inputs) = case.finish(value);
    if let Err(error) = check_orders(&program, &inputs, 3, 1e-7) {
        panic!("{error}");
    }
}

#[test]
fn unary() {
    for f in [Unary::Exp, Unary::Log, Unary::Sin, Unary::Sqrt, Unary::Recip, Unary::Floor] {
        agrees(|case| case.draft.graph.unary(f, case.x, NOWHERE));
    }
}

#[test]
fn add() {
    agrees(|case| case.draft.graph.add(case.x, case.y, NOWHERE));
    agrees(|case| case.draft.graph.add(case.x, case.x, NOWHERE));
}

#[test]
fn mul() {
    agrees(|case| case.draft.graph.mul(case.x, case.y, NOWHERE));
    agrees(|case| case.draft.graph.mul(case.x, case.x, NOWHERE));
}

#[test]
fn max() {
    agrees(|case| case.draft.graph.max(case.x, case.y, NOWHERE));
}

#[test]
fn less_and_where() {
    agrees(|case| {
        let less = case.draft.graph.less(case.x, case.y, NOWHERE);
        case.draft.graph.select(less, case.x, case.y, NOWHERE)
    });
    agrees(|case| {
        let less = case.draft.graph.less(case.x, case.y, NOWHERE);
        case.draft.graph.mul(less, case.x, NOWHERE)
    });
}

#[test]
fn elementwise_composites() {
    for f in [Composite::Tanh, Composite::Sigmoid, Composite::Softplus, Composite::Abs, Composite::Sign] {
        agrees(|case| {
            // Of both signs.
            let one = case.draft.graph.constant(1.0, NOWHERE);
            let moved = case.draft.graph.sub(case.x, one, NOWHERE);
            case.draft.graph.composite(f, moved, NOWHERE)
        });
    }
}

#[test]
fn composites_of_rows() {
    for f in [Composite::Softmax, Composite::LogSoftmax, Composite::LogSumExp] {
        agrees(|case| case.draft.graph.composite(f(case.b), case.x, NOWHERE));
        agrees(|case| case.draft.graph.composite(f(case.a), case.x, NOWHERE));
    }
}

/// What flows back through a named function is what flows back through its body.
#[test]
fn bodies_of_composites() {
    for f in [Composite::Tanh, Composite::Sigmoid, Composite::Softplus, Composite::Abs, Composite::Sign] {
        agrees(|case| {
            let one = case.draft.graph.constant(1.0, NOWHERE);
            let moved = case.draft.graph.sub(case.x, one, NOWHERE);
            wmc_compiler::composite::body(f, &mut case.draft.graph, moved, NOWHERE)
        });
    }
    for f in [Composite::Softmax, Composite::LogSoftmax, Composite::LogSumExp] {
        agrees(|case| wmc_compiler::composite::body(f(case.b), &mut case.draft.graph, case.x, NOWHERE));
    }
}

#[test]
fn expand() {
    agrees(|case| case.draft.graph.expand(case.x, &[case.c, case.b, case.a], NOWHERE));
}

#[test]
fn rename() {
    agrees(|case| {
        let other = case.draft.axis("other", 3);
        let renamed = case.draft.graph.rename(case.x, case.b, other, NOWHERE);
        case.draft.graph.mul(renamed, case.x, NOWHERE)
    });
}

#[test]
fn reduce() {
    for op in [Reduction::Sum, Reduction::Max] {
        agrees(|case| case.draft.graph.reduce(op, case.x, &[case.b], NOWHERE));
        agrees(|case| case.draft.graph.reduce(op, case.x, &[case.b, case.a], NOWHERE));
    }
}

#[test]
fn dot() {
    agrees(|case| case.draft.graph.dot(case.x, case.y, &[case.b], NOWHERE));
    // A batched product: both have `a`, which stays.
    agrees(|case| {
        let square = case.draft.graph.mul(case.x, case.y, NOWHERE);
        case.draft.graph.dot(case.x, square, &[case.b], NOWHERE)
    });
    agrees(|case| case.draft.graph.dot(case.x, case.x, &[case.a, case.b], NOWHERE));
}

#[test]
fn split_and_join() {
    agrees(|case| {
        let whole = case.draft.axis("whole", 6);
        let joined = case.draft.graph.join(case.x, &[case.b, case.a], whole, NOWHERE);
        let parts = [("p", 2), ("q", 1), ("r", 3)].map(|(name, size)| case.draft.axis(name, size));
        let split = case.draft.graph.split(joined, whole, &parts, NOWHERE);
        let back = case.draft.graph.rename(split, parts[2], case.b, NOWHERE);
        case.draft.graph.mul(back, case.y, NOWHERE)
    });
}

#[test]
fn slice_and_pad() {
    agrees(|case| {
        let two = case.draft.axis("two", 2);
        let slice = case.draft.graph.slice(case.x, case.b, 1, two, NOWHERE);
        let five = case.draft.axis("five", 5);
        case.draft.graph.pad(slice, two, 2, five, NOWHERE)
    });
}

#[test]
fn concat() {
    agrees(|case| {
        let summed = case.draft.graph.sum(case.y, &[case.c], NOWHERE);
        let expanded = case.draft.graph.expand(summed, &[case.b, case.a], NOWHERE);
        let other = case.draft.axis("other", 3);
        let renamed = case.draft.graph.rename(expanded, case.b, other, NOWHERE);
        let whole = case.draft.axis("whole", 9);
        case.draft.graph.concat(vec![case.x, renamed, case.x], vec![case.b, other, case.b], whole, NOWHERE)
    });
}

#[test]
fn gather() {
    // Twice the same place, a place that nobody reads; an axis that lines up.
    agrees(|case| {
        let k = case.draft.axis("k", 4);
        let at = case.places(&[k], &[2.0, 0.0, 2.0, 2.0]);
        case.draft.graph.gather(case.x, case.b, at, NOWHERE)
    });
    agrees(|case| {
        let k = case.draft.axis("k", 2);
        let at = case.places(&[k, case.a], &[0.0, 1.0, 2.0, 1.0]);
        case.draft.graph.gather(case.x, case.b, at, NOWHERE)
    });
    agrees(|case| {
        let at = case.places(&[], &[1.0]);
        case.draft.graph.gather(case.x, case.b, at, NOWHERE)
    });
}

#[test]
fn scatter() {
    agrees(|case| {
        let n = case.draft.axis("n", 4);
        let at = case.places(&[case.b], &[3.0, 0.0, 3.0]);
        case.draft.graph.scatter(case.x, at, &[case.b], n, NOWHERE)
    });
    // Places for every row, of which the rows stay; values repeated along an axis of the places.
    agrees(|case| {
        let n = case.draft.axis("n", 2);
        let at = case.places(&[case.a, case.b], &[0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        case.draft.graph.scatter(case.x, at, &[case.b], n, NOWHERE)
    });
    agrees(|case| {
        let [n, k] = [("n", 2), ("k", 2)].map(|(name, size)| case.draft.axis(name, size));
        let at = case.places(&[k, case.b], &[0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        case.draft.graph.scatter(case.x, at, &[k], n, NOWHERE)
    });
    agrees(|case| {
        let n = case.draft.axis("n", 2);
        let at = case.places(&[], &[1.0]);
        case.draft.graph.scatter(case.x, at, &[], n, NOWHERE)
    });
}

#[test]
fn argsort() {
    agrees(|case| {
        let order = case.draft.graph.argsort(case.x, case.b, NOWHERE);
        let rank = case.draft.axis("rank", 3);
        let at = case.draft.graph.rename(order, case.b, rank, NOWHERE);
        let sorted = case.draft.graph.gather(case.x, case.b, at, NOWHERE);
        let weights = case.draft.graph.iota(rank, NOWHERE);
        case.draft.graph.mul(sorted, weights, NOWHERE)
    });
}

#[test]
fn random_and_iota_and_id() {
    agrees(|case| {
        let noise = case.draft.random("noise", Noise::Gaussian, &[case.b]);
        let id = case.draft.graph.id(case.x, NOWHERE);
        let iota = case.draft.graph.iota(case.a, NOWHERE);
        let product = case.draft.graph.mul(id, noise, NOWHERE);
        case.draft.graph.add(product, iota, NOWHERE)
    });
}

/// What does not depend on what moves may be stopped.
#[test]
fn stop_of_what_is_constant() {
    agrees(|case| {
        let floor = case.draft.graph.unary(Unary::Floor, case.x, NOWHERE);
        let stopped = case.draft.graph.stop(floor, NOWHERE);
        case.draft.graph.mul(stopped, case.x, NOWHERE)
    });
}
