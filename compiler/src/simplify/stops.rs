//! Markers for gradients, once all gradients are taken.

use crate::ir::{Graph, Op, Program};
use crate::pass::Pass;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "strip_stops",
    about: "Removes the markers `stop` and `id`: all gradients are taken.",
    run: |program, _| strip_stops(program),
};

/// Removes `stop` and `id`: the same value, for a program that nobody differentiates any more.
pub fn strip_stops(program: &mut Program) {
    strip(&mut program.graph);
    super::cse(program);
    super::dce(program);
}

/// Users of a marked value come to use the value itself.
fn strip(graph: &mut Graph) {
    let mut new_of = Vec::with_capacity(graph.nodes.len());
    for (v, node) in graph.ids().zip(&mut graph.nodes) {
        let op = std::mem::replace(&mut node.op, Op::Const(0.0)).map_operands(|v| new_of[v.0 as usize]);
        new_of.push(match op {
            Op::Stop(x) | Op::Id(x) => x,
            _ => v,
        });
        node.op = op;
        if let Op::Scan(scan) = &mut node.op {
            strip(&mut scan.body);
        }
    }
    // Storage order is part of a program's interface; a marker at the end may be what sets it.
    for result in &mut graph.results {
        let of = new_of[result.0 as usize];
        match graph.nodes[of.0 as usize].axes == graph.nodes[result.0 as usize].axes {
            true => *result = of,
            false => graph.nodes[result.0 as usize].op = Op::Expand(of),
        }
    }
}
