use std::collections::BTreeMap;

use super::*;
use crate::interp::{Array, Clock, run};
use crate::ir::verify::verify;
use crate::ir::{Graph, Op, Program, Role, Unary};

fn graphs<'g>(graph: &'g Graph, list: &mut Vec<&'g Graph>) {
    list.push(graph);
    for node in &graph.nodes {
        if let Op::Scan(scan) = &node.op {
            graphs(&scan.body, list);
        }
    }
}

/// The generator is worth something only if it makes everything.
#[test]
fn random_programs_cover_every_operation_and_shape() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    let (mut nested, mut moved) = (0, 0);
    for seed in 0..300 {
        let (program, inputs) = random_program(seed);
        assert_eq!(program.inputs.len(), inputs.len());
        verify(&program).unwrap();
        for (name, count) in program.counts() {
            *counts.entry(name).or_default() += count;
        }
        for axis in &program.axes {
            *sizes.entry(axis.size).or_default() += 1;
        }
        moved += program.inputs.iter().filter(|i| i.role == Role::Param).count();
        let mut all = Vec::new();
        graphs(&program.graph, &mut all);
        nested += all[1..].iter().filter(|g| g.nodes.iter().any(|n| matches!(n.op, Op::Scan(_)))).count();
    }
    let all = "input param const iota random exp log sin sqrt recip floor add mul max less where tanh sigmoid softplus abs \
               sign softmax log_softmax logsumexp expand rename sum reduce_max dot split join slice pad concat gather \
               scatter argsort scan out stop id";
    for name in all.split_whitespace() {
        assert!(counts.get(name).is_some_and(|n| *n >= 10), "{name}: {:?}", counts.get(name));
    }
    for size in [0, 1, 3, 5, 7] {
        assert!(sizes.get(&size).is_some_and(|n| *n >= 10), "axes of size {size}: {:?}", sizes.get(&size));
    }
    assert!(nested >= 10 && moved >= 300, "{nested} scans in scans, {moved} inputs");
}

#[test]
fn the_same_seed_makes_the_same_program() {
    for seed in 0..20 {
        let (program, inputs) = random_scalar_program(seed);
        assert_eq!((program.clone(), inputs.clone()), random_scalar_program(seed));
        let result = run(&program, &inputs, &BTreeMap::new(), Clock::default()).unwrap();
        assert!(result.len() == 1 && result[0].axes.is_empty() && result[0].data[0].is_finite());
    }
}

/// `sum(sin(x) y)` with its gradients.
fn sine() -> (Program, Vec<Array<f64>>, [Array<f64>; 2]) {
    let mut d = Draft::new();
    let [a, b] = [("a", 2), ("b", 5)].map(|(name, size)| d.axis(name, size));
    let (x, y) = (d.input("x", &[a, b]), d.input("y", &[a]));
    let sin = d.graph.unary(Unary::Sin, x, NOWHERE);
    let product = d.graph.mul(sin, y, NOWHERE);
    let sum = d.graph.sum(product, &[a, b], NOWHERE);
    let inputs = vec![d.array(&[a, b], &(0..10).map(f64::from).collect::<Vec<_>>()), d.array(&[a], &[2.0, -1.0])];
    let by_x = (0..10).map(|i| f64::from(i).cos() * if i < 5 { 2.0 } else { -1.0 }).collect();
    let by_y = [0, 5].map(|first| (first..first + 5).map(|i| f64::from(i).sin()).sum::<f64>());
    let gradients = [Array { axes: vec![a, b], data: by_x }, Array { axes: vec![a], data: by_y.to_vec() }];
    (d.finish(&[sum]), inputs, gradients)
}

#[test]
fn finite_differences_are_the_gradient() {
    let (program, inputs, gradients) = sine();
    let found = finite_difference(&program, &inputs, &[0, 1], Clock::default()).unwrap();
    for (found, expected) in found.iter().zip(&gradients) {
        assert_eq!(found.axes, expected.axes);
        for (a, b) in found.data.iter().zip(&expected.data) {
            assert!((a - b).abs() < 1e-10, "{a} {b}");
        }
    }
    check_gradient(&program, &inputs, &[0, 1], &gradients, Clock::default(), 1e-10).unwrap();
}

/// The comparison in any order of the axes; and it sees what is wrong.
#[test]
fn wrong_gradients_are_found() {
    let (program, inputs, gradients) = sine();
    let check = |gradients: &[Array<f64>; 2]| check_gradient(&program, &inputs, &[0, 1], gradients, Clock::default(), 1e-8);
    let mut turned = gradients.clone();
    let [b, a] = [1, 0].map(|i: usize| gradients[0].axes[i]);
    turned[0] = gradients[0].arranged(&program, &[b, a], "x").unwrap();
    assert_eq!(check(&turned), Ok(()));
    for input in 0..2 {
        for entry in 0..gradients[input].data.len() {
            for wrong in [gradients[input].data[entry] + 1e-3, f64::NAN] {
                let mut changed = gradients.clone();
                changed[input].data[entry] = wrong;
                assert!(matches!(check(&changed), Err(Mismatch::Slope { .. })), "{input} {entry} {wrong}");
            }
        }
    }
    let mut short = gradients.clone();
    short[1] = Array::scalar(1.0);
    assert!(matches!(check(&short), Err(Mismatch::Run(_))));
}

#[test]
fn kinks_are_rough() {
    let rough = |x: f64, make: fn(&mut Draft, crate::ir::ValueId) -> crate::ir::ValueId| {
        let mut d = Draft::new();
        let v = d.input("x", &[]);
        let y = make(&mut d, v);
        roughness(&d.finish(&[y]), &[Array::scalar(x)], Clock::default()).unwrap()
    };
    let floor = |d: &mut Draft, v| d.graph.unary(Unary::Floor, v, NOWHERE);
    assert_eq!(rough(0.5, floor), None);
    assert_eq!(rough(0.999, floor).unwrap(), "`floor` next to a kink");
    let log = |d: &mut Draft, v| d.graph.unary(Unary::Log, v, NOWHERE);
    assert_eq!(rough(0.01, log).unwrap(), "`log` of too little");
    let exp = |d: &mut Draft, v| d.graph.unary(Unary::Exp, v, NOWHERE);
    assert_eq!(rough(10.0, exp).unwrap(), "`exp` is large");
    let max = |d: &mut Draft, v| {
        let one = d.graph.constant(1.0, NOWHERE);
        d.graph.max(v, one, NOWHERE)
    };
    assert_eq!(rough(0.9, max), None);
    assert_eq!(rough(1.001, max).unwrap(), "`max` next to a kink");
}
