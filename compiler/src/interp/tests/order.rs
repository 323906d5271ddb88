//! The same bits, whatever order the nodes stand in.

use super::*;
use crate::ir::{Graph, Op};
use crate::testing::{Rng, random_program};

/// The same graph with its nodes in another order in which operands come before their users, bodies included.
fn reordered(graph: &Graph, rng: &mut Rng) -> Graph {
    let mut new_of: Vec<Option<ValueId>> = vec![None; graph.nodes.len()];
    let mut nodes = Vec::new();
    while nodes.len() < graph.nodes.len() {
        let is_ready = |id: &usize| {
            let mut ready = new_of[*id].is_none();
            graph.nodes[*id].op.operands(|v| ready &= new_of[v.0 as usize].is_some());
            ready
        };
        let ready: Vec<usize> = (0..graph.nodes.len()).filter(is_ready).collect();
        let id = rng.pick(&ready);
        let mut node = graph.nodes[id].clone();
        node.op = node.op.map_operands(|v| new_of[v.0 as usize].unwrap());
        if let Op::Scan(scan) = &mut node.op {
            scan.body = reordered(&scan.body, rng);
        }
        new_of[id] = Some(ValueId(nodes.len() as u32));
        nodes.push(node);
    }
    Graph { nodes, results: graph.results.iter().map(|r| new_of[r.0 as usize].unwrap()).collect() }
}

#[test]
fn the_order_of_nodes_changes_no_bit() {
    let mut rng = Rng::new(0);
    let bits = |found: Vec<Array<f64>>| -> Vec<Vec<u64>> {
        found.into_iter().map(|a| a.data.into_iter().map(f64::to_bits).collect()).collect()
    };
    let clock = Clock { seed: 3, step: 1 };
    for seed in 0..150 {
        let (program, inputs) = random_program(seed);
        let other = Program { graph: reordered(&program.graph, &mut rng), ..program.clone() };
        let [a, b] = [&program, &other].map(|p| run(p, &inputs, &BTreeMap::new(), clock).map(bits));
        assert_eq!(a, b, "seed {seed}");
    }
}
