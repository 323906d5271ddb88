//! Expansion of composites: named functions over an axis become their bodies, for those who compute rows and not arrays.

use crate::composite;
use crate::ir::{Composite, Graph, Op, Program, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "expand_composites",
    about: "Writes out `softmax`, `log_softmax` and `logsumexp` for kernels that compute rows.",
    run: |program, _| expand_composites(program),
};

/// Replaces `softmax`, `log_softmax` and `logsumexp` by what they mean.
pub(crate) fn expand_composites(program: &mut Program) {
    change(program, |_, graph| expand(graph));
}

fn expand(old: Graph) -> Graph {
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    for node in old.nodes {
        let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
        if let Op::Scan(scan) = &mut op {
            scan.body = expand(std::mem::take(&mut scan.body));
        }
        new_of.push(match op {
            Op::Composite(c @ (Composite::Softmax(_) | Composite::LogSoftmax(_) | Composite::LogSumExp(_)), x) => {
                composite::body(c, &mut graph, x, node.span)
            }
            op => graph.push(op, node.axes, node.span),
        });
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}
