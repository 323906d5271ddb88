//! Gradients inside a step: a Hamiltonian system, whose step is made of derivatives of an energy.

use std::collections::BTreeMap;

use wmc_compiler::grad::gradients;
use wmc_compiler::interp::{Array, Clock, run};
use wmc_compiler::ir::{Axis, AxisId, Composite, Direction, Graph, Op, Program, Scan, Unary, ValueId};
use wmc_compiler::testing::{Draft, NOWHERE, Rng};

use super::{check_orders, differentiated, moving};

/// `H(q, p) = sum_i p_i^2 / 2 + sum_m tanh((W q)_m)`.
fn energy(g: &mut Graph, n: AxisId, m: AxisId, w: ValueId, q: ValueId, p: ValueId) -> ValueId {
    let square = g.mul(p, p, NOWHERE);
    let half = g.scale(square, 0.5, NOWHERE);
    let kinetic = g.sum(half, &[n], NOWHERE);
    let hidden = g.dot(w, q, &[n], NOWHERE);
    let bent = g.composite(Composite::Tanh, hidden, NOWHERE);
    let potential = g.sum(bent, &[m], NOWHERE);
    g.add(kinetic, potential, NOWHERE)
}

/// How a step gets the force, `dH/dq`.
#[derive(Clone, Copy, PartialEq)]
enum Force {
    /// By `gradients`.
    Derived,
    /// By a formula: `sum_m W_mi (1 - tanh^2)`.
    Written,
    /// Derived, then treated as a constant: wrong to train by.
    Stopped,
}

fn force(axes: &mut Vec<Axis>, g: &mut Graph, [n, m]: [AxisId; 2], [w, q, p]: [ValueId; 3], force: Force) -> ValueId {
    match force {
        Force::Written => {
            let hidden = g.dot(w, q, &[n], NOWHERE);
            let bent = g.composite(Composite::Tanh, hidden, NOWHERE);
            let square = g.mul(bent, bent, NOWHERE);
            let slope = g.not(square, NOWHERE);
            g.dot(w, slope, &[m], NOWHERE)
        }
        Force::Derived | Force::Stopped => {
            // The derivative is taken by values with an identity of their own.
            let (q, p) = (g.id(q, NOWHERE), g.id(p, NOWHERE));
            let h = energy(g, n, m, w, q, p);
            let found = gradients(axes, g, h, &[q])[0];
            if force == Force::Stopped { g.stop(found, NOWHERE) } else { found }
        }
    }
}

/// Leapfrog steps in a scan; the loss looks at where it goes. The weights and the start move.
fn leapfrog(kind: Force) -> (Program, Vec<Array<f64>>) {
    let mut d = Draft::new();
    let [t, n, m] = [("t", 4), ("n", 2), ("m", 3)].map(|(name, size)| d.axis(name, size));
    let w = d.input("w", &[m, n]);
    let q0 = d.input("q", &[n]);
    let p0 = d.input("p", &[n]);
    let push = d.input("push", &[t, n]);

    let mut body = Graph::default();
    let q = body.push(Op::Param(0), vec![n], NOWHERE);
    let p = body.push(Op::Param(1), vec![n], NOWHERE);
    let push_t = body.push(Op::Param(2), vec![n], NOWHERE);
    let w_in = body.push(Op::Param(3), vec![m, n], NOWHERE);
    let half_step = |axes: &mut Vec<Axis>, body: &mut Graph, q: ValueId, p: ValueId| {
        let f = force(axes, body, [n, m], [w_in, q, p], kind);
        let kick = body.scale(f, -0.15, NOWHERE);
        body.add(p, kick, NOWHERE)
    };
    let p = half_step(&mut d.program.axes, &mut body, q, p);
    let drift = body.scale(p, 0.3, NOWHERE);
    let q = body.add(q, drift, NOWHERE);
    let p = half_step(&mut d.program.axes, &mut body, q, p);
    let p = body.add(p, push_t, NOWHERE);
    body.results = vec![q, p, q];
    let scan = Scan { axis: t, direction: Direction::Forward, init: vec![q0, p0], xs: vec![push], consts: vec![w], body };
    let scan = d.scan(scan);
    let last = d.graph.out(scan, 1, vec![n], NOWHERE);
    let path = d.graph.out(scan, 2, vec![t, n], NOWHERE);
    let sin = d.graph.unary(Unary::Sin, path, NOWHERE);
    let square = d.graph.mul(last, last, NOWHERE);
    let both = d.graph.add(sin, square, NOWHERE);
    let result = d.graph.sum(both, &[t, n], NOWHERE);

    let mut rng = Rng::new(4);
    let mut numbers = |count: usize| (0..count).map(|_| rng.between(-1.0, 1.0)).collect::<Vec<f64>>();
    let inputs = vec![
        d.array(&[m, n], &numbers(6)),
        d.array(&[n], &numbers(2)),
        d.array(&[n], &numbers(2)),
        d.array(&[t, n], &numbers(8)),
    ];
    (d.finish(&[result]), inputs)
}

fn value_and_gradients(kind: Force) -> Vec<Vec<f64>> {
    let (program, inputs) = leapfrog(kind);
    let with = differentiated(&program, &moving(&program));
    run(&with, &inputs, &BTreeMap::new(), Clock::default()).unwrap().into_iter().map(|a| a.data).collect()
}

#[test]
fn a_gradient_inside_a_scan_inside_a_gradient() {
    let (program, inputs) = leapfrog(Force::Derived);
    check_orders(&program, &inputs, 3, 1e-7).unwrap();
}

#[test]
fn a_derived_force_is_the_written_force() {
    for (derived, written) in value_and_gradients(Force::Derived).iter().zip(value_and_gradients(Force::Written)) {
        for (a, b) in derived.iter().zip(&written) {
            assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a} {b}");
        }
    }
}

/// Fails if the inner gradient is treated as a constant: same value, other gradient.
#[test]
fn the_gradient_of_a_gradient_is_second_order() {
    let (derived, stopped) = (value_and_gradients(Force::Derived), value_and_gradients(Force::Stopped));
    assert_eq!(derived[0], stopped[0]);
    for (a, b) in derived[1..3].iter().zip(&stopped[1..3]) {
        let difference: f64 = a.iter().zip(b).map(|(x, y)| (x - y).abs()).sum();
        assert!(difference > 1e-2, "{a:?} {b:?}");
    }
    let (program, inputs) = leapfrog(Force::Stopped);
    assert!(check_orders(&program, &inputs, 1, 1e-3).is_err());
}
