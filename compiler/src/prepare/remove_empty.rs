//! Removal of the empty: what has no entries is not computed: values along an axis of size zero, sums over one, loops of no steps. Kernels see none of
//! it.

use crate::ir::{Axis, AxisId, Graph, Op, Program, Reduction, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "remove_empty",
    about: "Removes arrays without entries, sums over none and loops of no steps.",
    run: |program, _| remove_empty(program),
};

/// Replaces what has no entries, and what is made of nothing.
pub(crate) fn remove_empty(program: &mut Program) {
    change(program, |axes, graph| empty_graph(axes, graph));
}

fn empty_graph(axes: &[Axis], old: Graph) -> Graph {
    let none = |list: &[AxisId]| list.iter().any(|a| axes[a.0 as usize].size == 0);
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    for node in old.nodes {
        let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
        if let Op::Scan(scan) = &mut op {
            scan.body = empty_graph(axes, std::mem::take(&mut scan.body));
        }
        // What is given stays as it is given.
        let given = matches!(op, Op::Input(_) | Op::Param(_) | Op::Random { .. } | Op::Scan(_));
        let number = match &op {
            _ if given => None,
            _ if none(&node.axes) => Some(0.0),
            Op::Reduce { op: Reduction::Max, over, .. } if none(over) => Some(f64::NEG_INFINITY),
            Op::Reduce { over, .. } | Op::Dot { over, .. } if none(over) => Some(0.0),
            Op::Pad { of, .. } | Op::Scatter { of, .. } if none(graph.axes(*of)) => Some(0.0),
            _ => None,
        };
        let new = match (number, &op) {
            (Some(number), _) => {
                let number = graph.constant(number, node.span);
                graph.expand(number, &node.axes, node.span)
            }
            // The steps of a loop without any end where they begin.
            (None, Op::Out { scan, index }) => match &graph.node(*scan).op {
                Op::Scan(scan) if none(&[scan.axis]) => graph.expand(scan.init[*index as usize], &node.axes, node.span),
                _ => graph.push(op, node.axes, node.span),
            },
            (None, _) => graph.push(op, node.axes, node.span),
        };
        new_of.push(new);
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}
