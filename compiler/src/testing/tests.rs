use std::collections::BTreeMap;

use super::*;
use crate::interp::{Clock, run};
use crate::ir::{Graph, Op, Role};

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
    println!("{counts:?}\n{sizes:?} {nested}");
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
