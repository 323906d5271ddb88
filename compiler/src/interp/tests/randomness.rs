//! Draws: the same whatever is around them, and given from outside.

use super::super::RunOptions;
use super::*;
use crate::ir::{Direction, Graph, Noise, Op, Scan};

fn draw_alone(clock: Clock) -> Vec<f64> {
    let mut d = Draft::new();
    let [a, b] = [("a", 3), ("b", 4)].map(|(name, size)| d.axis(name, size));
    let x = d.random("plan.noise", Noise::Gaussian, &[a, b]);
    run(&d.finish(&[x]), &[], &BTreeMap::new(), clock).unwrap().remove(0).data
}

#[test]
fn other_draws_change_nothing() {
    let clock = Clock { seed: 5, step: 9 };
    let mut d = Draft::new();
    let [a, b] = [("a", 3), ("b", 4)].map(|(name, size)| d.axis(name, size));
    let before = d.random("before", Noise::Uniform, &[a]);
    let x = d.random("plan.noise", Noise::Gaussian, &[a, b]);
    let after = d.random("after", Noise::Subset { of: 9 }, &[a, b]);
    let found = run::<f64>(&d.finish(&[after, x, before]), &[], &BTreeMap::new(), clock).unwrap();
    assert_eq!(found[1].data, draw_alone(clock));
    assert_ne!(draw_alone(clock), draw_alone(Clock { seed: 6, step: 9 }));
    assert_ne!(draw_alone(clock), draw_alone(Clock { seed: 5, step: 10 }));
}

/// The same draw in a scan is the draw over the scan's axis, whichever way the scan runs.
#[test]
fn a_draw_in_a_scan_counts_its_steps() {
    let clock = Clock { seed: 1, step: 2 };
    for (noise, direction) in [
        (Noise::Gaussian, Direction::Forward),
        (Noise::Uniform, Direction::Backward),
        (Noise::Subset { of: 5 }, Direction::Backward),
    ] {
        let mut d = Draft::new();
        let [t, s, n] = [("t", 3), ("s", 2), ("n", 4)].map(|(name, size)| d.axis(name, size));
        let draw = d.draw("noise");
        let whole = d.graph.push(Op::Random { draw, noise }, vec![t, s, n], NOWHERE);
        let mut inner = Graph::default();
        let step = inner.push(Op::Random { draw, noise }, vec![n], NOWHERE);
        inner.results = vec![step];
        let mut outer = Graph::default();
        let scan = Scan { axis: s, direction, init: vec![], xs: vec![], consts: vec![], body: inner };
        let scan = outer.push(Op::Scan(Box::new(scan)), vec![], NOWHERE);
        let step = outer.out(scan, 0, vec![s, n], NOWHERE);
        outer.results = vec![step];
        let scan = d.scan(Scan { axis: t, direction, init: vec![], xs: vec![], consts: vec![], body: outer });
        let steps = d.graph.out(scan, 0, vec![t, s, n], NOWHERE);
        let program = d.finish(&[whole, steps]);
        let found = run::<f64>(&program, &[], &BTreeMap::new(), clock).unwrap();
        assert_eq!(found[0].data, found[1].data);

        // Given from outside, in another order of the axes.
        let data: Vec<f64> = (0..24).map(f64::from).collect();
        let given = Array { axes: vec![t, s, n], data: data.clone() }.arranged(&program, &[n, t, s], "noise").unwrap();
        let found = run(&program, &[], &BTreeMap::from([("noise".to_string(), given)]), clock).unwrap();
        assert_eq!([&found[0].data, &found[1].data], [&data, &data]);
    }
}

#[test]
fn single_precision_draws_are_rounded_double_precision_draws() {
    for noise in [Noise::Gaussian, Noise::Uniform, Noise::Subset { of: 700 }] {
        let mut d = Draft::new();
        let n = d.axis("n", 500);
        let x = d.random("noise", noise, &[n]);
        let program = d.finish(&[x]);
        let double = run::<f64>(&program, &[], &BTreeMap::new(), Clock::default()).unwrap();
        let single = run::<f32>(&program, &[], &BTreeMap::new(), Clock::default()).unwrap();
        assert_eq!(single[0], double[0].cast());
    }
}

#[test]
fn subsets_are_rows_of_distinct_places() {
    let mut d = Draft::new();
    let [rows, k] = [("rows", 50), ("k", 3)].map(|(name, size)| d.axis(name, size));
    let x = d.random("pick", Noise::Subset { of: 4 }, &[rows, k]);
    let found = run::<f64>(&d.finish(&[x]), &[], &BTreeMap::new(), Clock::default()).unwrap();
    for row in found[0].data.chunks(3) {
        assert!(row.iter().all(|p| (0.0..4.0).contains(p)) && row[0] != row[1] && row[1] != row[2] && row[0] != row[2]);
    }
    assert!(found[0].data.chunks(3).any(|row| row != &found[0].data[..3]));
}

#[test]
fn given_draws_must_fit() {
    let mut d = Draft::new();
    let [a, b] = [("a", 2), ("b", 2)].map(|(name, size)| d.axis(name, size));
    let x = d.random("noise", Noise::Gaussian, &[a]);
    let program = d.finish(&[x]);
    let with = |name: &str, array: Array<f64>| {
        let draws = BTreeMap::from([(name.to_string(), array)]);
        super::super::run_with(&program, &[], &draws, Clock::default(), RunOptions { check: true }).unwrap_err().to_string()
    };
    let array = |axis, data: &[f64]| Array { axes: vec![axis], data: data.to_vec() };
    assert_eq!(with("nois", array(a, &[1.0, 2.0])), "`draft` has no random draw `nois`: it has `noise`");
    assert_eq!(with("noise", array(b, &[1.0, 2.0])), "`noise` has the axes [b 2], but [a 2] are needed");
    assert_eq!(with("noise", array(a, &[1.0])), "`noise` has 1 numbers, but 2 are needed: [a 2]");
    assert_eq!(with("noise", array(a, &[1.0, f64::NAN])), "`noise` is not finite: the number at place 1 is NaN");
}
