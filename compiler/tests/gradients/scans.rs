//! Scans: a small recurrent network in both directions, with resets; several carries; scans in scans; no steps.

use wmc_compiler::interp::Array;
use wmc_compiler::ir::{Composite, Direction, Graph, Op, Program, Role, Scan, Unary};
use wmc_compiler::testing::{Draft, NOWHERE, Rng};

use super::{check, check_orders};

/// `h' = tanh(W where(reset, 0, h) + x)` with a second carry that adds up `h' s`; the loss looks at every step, at both
/// final carries, and both starts, the steps, and the weights move.
fn network(steps: usize, direction: Direction) -> (Program, Vec<Array<f64>>) {
    let mut d = Draft::new();
    let [t, b, n, m] = [("t", steps), ("b", 2), ("n", 3), ("m", 3)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[b, t, n]);
    let reset = d.given("reset", Role::Data, &[t, b]);
    let start = d.input("start", &[b, n]);
    let sum = d.input("sum", &[b]);
    let weight = d.input("weight", &[m, n]);
    let scale = d.input("scale", &[n]);

    let mut body = Graph::default();
    let h = body.push(Op::Param(0), vec![b, n], NOWHERE);
    let s = body.push(Op::Param(1), vec![b], NOWHERE);
    let x_t = body.push(Op::Param(2), vec![b, n], NOWHERE);
    let reset_t = body.push(Op::Param(3), vec![b], NOWHERE);
    let w = body.push(Op::Param(4), vec![m, n], NOWHERE);
    let scale_in = body.push(Op::Param(5), vec![n], NOWHERE);
    let zero = body.constant(0.0, NOWHERE);
    let h = body.select(reset_t, zero, h, NOWHERE);
    let product = body.dot(h, w, &[n], NOWHERE);
    let product = body.rename(product, m, n, NOWHERE);
    let pre = body.add(product, x_t, NOWHERE);
    let new = body.composite(Composite::Tanh, pre, NOWHERE);
    let weighted = body.mul(new, scale_in, NOWHERE);
    let part = body.sum(weighted, &[n], NOWHERE);
    let new_sum = body.add(s, part, NOWHERE);
    let sin = body.unary(Unary::Sin, pre, NOWHERE);
    body.results = vec![new, new_sum, new, sin];
    let scan = Scan { axis: t, direction, init: vec![start, sum], xs: vec![x, reset], consts: vec![weight, scale], body };
    let scan = d.scan(scan);
    let shapes = [vec![b, n], vec![b], vec![t, b, n], vec![t, b, n]];
    let mut total = d.graph.constant(0.0, NOWHERE);
    for (index, axes) in shapes.into_iter().enumerate() {
        let out = d.graph.out(scan, index, axes.clone(), NOWHERE);
        let square = d.graph.mul(out, out, NOWHERE);
        let sum = d.graph.sum(square, &axes, NOWHERE);
        total = d.graph.add(total, sum, NOWHERE);
    }
    let mut rng = Rng::new(3);
    let sizes = d.program.inputs.clone();
    let inputs = sizes
        .iter()
        .map(|input| {
            let data = (0..d.program.len(&input.axes)).map(|_| match input.role {
                Role::Data => f64::from(rng.one_in(3)),
                _ => rng.between(-1.0, 1.0),
            });
            Array { axes: input.axes.clone(), data: data.collect() }
        })
        .collect();
    (d.finish(&[total]), inputs)
}

#[test]
fn a_recurrent_network_in_both_directions() {
    for direction in [Direction::Forward, Direction::Backward] {
        let (program, inputs) = network(5, direction);
        check_orders(&program, &inputs, 3, 1e-7).unwrap();
    }
}

#[test]
fn few_steps_and_none() {
    for direction in [Direction::Forward, Direction::Backward] {
        for steps in [0, 1] {
            let (program, inputs) = network(steps, direction);
            check_orders(&program, &inputs, 2, 1e-7).unwrap();
        }
    }
}

/// A scan in each step of a scan, with a weight that reaches the inner one through both, and a start that depends on
/// the outer carry.
#[test]
fn scans_in_scans() {
    for directions in [[Direction::Forward, Direction::Backward], [Direction::Backward, Direction::Backward]] {
        let mut d = Draft::new();
        let [t, s] = [("t", 3), ("s", 4)].map(|(name, size)| d.axis(name, size));
        let x = d.input("x", &[t, s]);
        let weight = d.input("weight", &[]);
        let start = d.input("start", &[]);

        let mut inner = Graph::default();
        let [carry, step, w] = [0, 1, 2].map(|i| inner.push(Op::Param(i), vec![], NOWHERE));
        let product = inner.mul(carry, w, NOWHERE);
        let pre = inner.add(product, step, NOWHERE);
        let new = inner.composite(Composite::Tanh, pre, NOWHERE);
        let given = inner.mul(new, product, NOWHERE);
        inner.results = vec![new, given];

        let mut outer = Graph::default();
        let carry = outer.push(Op::Param(0), vec![], NOWHERE);
        let row = outer.push(Op::Param(1), vec![s], NOWHERE);
        let w = outer.push(Op::Param(2), vec![], NOWHERE);
        let scan = Scan { axis: s, direction: directions[0], init: vec![carry], xs: vec![row], consts: vec![w], body: inner };
        let scan = outer.push(Op::Scan(Box::new(scan)), vec![], NOWHERE);
        let last = outer.out(scan, 0, vec![], NOWHERE);
        let all = outer.out(scan, 1, vec![s], NOWHERE);
        let total = outer.sum(all, &[s], NOWHERE);
        let new = outer.add(last, carry, NOWHERE);
        outer.results = vec![new, total];
        let scan =
            d.scan(Scan { axis: t, direction: directions[1], init: vec![start], xs: vec![x], consts: vec![weight], body: outer });
        let last = d.graph.out(scan, 0, vec![], NOWHERE);
        let all = d.graph.out(scan, 1, vec![t], NOWHERE);
        let sum = d.graph.sum(all, &[t], NOWHERE);
        let result = d.graph.mul(sum, last, NOWHERE);
        let mut rng = Rng::new(8);
        let numbers: Vec<f64> = (0..12).map(|_| rng.between(-1.0, 1.0)).collect();
        let inputs = [d.array(&[t, s], &numbers), Array::scalar(0.7), Array::scalar(0.4)];
        check_orders(&d.finish(&[result]), &inputs, 3, 1e-7).unwrap();
    }
}

/// A carry that nothing moves at first, but that a moving value flows into; a carry and an output that nobody reads.
#[test]
fn carries_become_active_on_the_way() {
    let mut d = Draft::new();
    let t = d.axis("t", 4);
    let x = d.input("x", &[t]);
    let zero = d.graph.constant(0.0, NOWHERE);
    let mut body = Graph::default();
    let [a, b, unread, step] = [0, 1, 2, 3].map(|i| body.push(Op::Param(i), vec![], NOWHERE));
    // a takes in x, b takes in a: two steps from x to b.
    let new_a = body.mul(step, step, NOWHERE);
    let new_b = body.add(a, b, NOWHERE);
    let new_unread = body.add(unread, new_b, NOWHERE);
    body.results = vec![new_a, new_b, new_unread, new_unread];
    let scan = Scan { axis: t, direction: Direction::Forward, init: vec![zero; 3], xs: vec![x], consts: vec![], body };
    let scan = d.scan(scan);
    let b = d.graph.out(scan, 1, vec![], NOWHERE);
    let result = d.graph.mul(b, b, NOWHERE);
    let input = d.array(&[t], &[0.5, -0.7, 0.9, 0.3]);
    check(&d.finish(&[result]), &[input], 1e-8).unwrap();
}
