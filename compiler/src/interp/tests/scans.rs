//! Loops: both directions, several carries, no steps at all, scans in scans.

use super::*;
use crate::ir::{AxisId, Direction, Graph, Op, Scan};

/// A scan over `x` with a running sum as its carry; gives out the sum before and the sum after each step.
fn running_sum(axis: AxisId, direction: Direction, init: ValueId, x: ValueId) -> Scan {
    let mut body = Graph::default();
    let sum = body.push(Op::Param(0), vec![], NOWHERE);
    let step = body.push(Op::Param(1), vec![], NOWHERE);
    let new = body.add(sum, step, NOWHERE);
    body.results = vec![new, sum, new];
    Scan { axis, direction, init: vec![init], xs: vec![x], consts: vec![], body }
}

fn sums(steps: usize, direction: Direction) -> Vec<Vec<f64>> {
    let mut d = Draft::new();
    let t = d.axis("t", steps);
    let x = d.input("x", &[t]);
    let init = d.graph.constant(100.0, NOWHERE);
    let scan = d.scan(running_sum(t, direction, init, x));
    let outs = [vec![], vec![t], vec![t]].into_iter().enumerate();
    let outs: Vec<ValueId> = outs.map(|(i, axes)| d.graph.out(scan, i, axes, NOWHERE)).collect();
    let data: Vec<f64> = (1..=steps).map(|i| i as f64).collect();
    let input = d.array(&[t], &data);
    results(&d.finish(&outs), &[input]).unwrap().into_iter().map(|a| a.data).collect()
}

#[test]
fn forward_and_backward() {
    assert_eq!(sums(3, Direction::Forward), [vec![106.0], vec![100.0, 101.0, 103.0], vec![101.0, 103.0, 106.0]]);
    assert_eq!(sums(3, Direction::Backward), [vec![106.0], vec![105.0, 103.0, 100.0], vec![106.0, 105.0, 103.0]]);
}

#[test]
fn no_steps_leave_the_carries() {
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(sums(0, direction), [vec![100.0], vec![], vec![]]);
    }
}

/// The axis may lie anywhere in what is stepped through, and carries, steps and outputs may be stored in any order.
#[test]
fn storage_orders_do_not_matter() {
    let mut d = Draft::new();
    let [t, a, b] = [("t", 2), ("a", 2), ("b", 3)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[a, t, b]);
    let start = d.input("start", &[b, a]);
    let mut body = Graph::default();
    let carry = body.push(Op::Param(0), vec![a, b], NOWHERE);
    let step = body.push(Op::Param(1), vec![b, a], NOWHERE);
    let new = body.push(Op::Add(carry, step), vec![b, a], NOWHERE);
    let given = body.push(Op::Add(new, step), vec![a, b], NOWHERE);
    body.results = vec![new, given];
    let scan = Scan { axis: t, direction: Direction::Forward, init: vec![start], xs: vec![x], consts: vec![], body };
    let scan = d.scan(scan);
    let last = d.graph.out(scan, 0, vec![a, b], NOWHERE);
    let all = d.graph.out(scan, 1, vec![b, t, a], NOWHERE);
    let inputs = [d.array(&[a, t, b], &(0..12).map(f64::from).collect::<Vec<_>>()), d.array(&[b, a], &[0.0; 6])];
    let found = results(&d.finish(&[last, all]), &inputs).unwrap();
    assert_eq!(found[0].data, [3.0, 5.0, 7.0, 15.0, 17.0, 19.0]);
    // x + x, then x0 + x1 + x1.
    assert_eq!(found[1].data, [0.0, 12.0, 6.0, 24.0, 2.0, 14.0, 9.0, 27.0, 4.0, 16.0, 12.0, 30.0]);
}

/// Powers by repeated multiplication: an inner scan that multiplies, an outer one that collects.
#[test]
fn scans_in_scans() {
    let mut d = Draft::new();
    let [t, s] = [("t", 4), ("s", 3)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[t]);
    let mut inner = Graph::default();
    let product = inner.push(Op::Param(0), vec![], NOWHERE);
    let count = inner.push(Op::Param(1), vec![], NOWHERE);
    let factor = inner.push(Op::Param(2), vec![], NOWHERE);
    let new = inner.mul(product, factor, NOWHERE);
    let counted = inner.add(new, count, NOWHERE);
    inner.results = vec![new, counted];
    let mut outer = Graph::default();
    let step = outer.push(Op::Param(0), vec![], NOWHERE);
    let one = outer.constant(1.0, NOWHERE);
    let iota = outer.iota(s, NOWHERE);
    let scan = Scan { axis: s, direction: Direction::Backward, init: vec![one], xs: vec![iota], consts: vec![step], body: inner };
    let scan = outer.push(Op::Scan(Box::new(scan)), vec![], NOWHERE);
    let cube = outer.out(scan, 0, vec![], NOWHERE);
    let steps = outer.out(scan, 1, vec![s], NOWHERE);
    outer.results = vec![cube, steps];
    let scan = d.scan(Scan { axis: t, direction: Direction::Forward, init: vec![], xs: vec![x], consts: vec![], body: outer });
    let cubes = d.graph.out(scan, 0, vec![t], NOWHERE);
    let steps = d.graph.out(scan, 1, vec![t, s], NOWHERE);
    let input = d.array(&[t], &[1.0, 2.0, 3.0, -1.0]);
    let found = results(&d.finish(&[cubes, steps]), &[input]).unwrap();
    assert_eq!(found[0].data, [1.0, 8.0, 27.0, -1.0]);
    assert_eq!(found[1].data, [1.0, 2.0, 3.0, 8.0, 5.0, 4.0, 27.0, 10.0, 5.0, -1.0, 2.0, 1.0]);
}
