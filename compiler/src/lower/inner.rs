//! Gradients inside a model.

use super::frame::Frame;
use super::{Lower, Result};
use crate::grad;
use crate::ir::{Op, ValueId};
use dsl::source::Span;

impl Lower<'_> {
    /// The derivative of `of` by `wrt`, both in the graph at hand.
    pub(super) fn gradient(&mut self, of: ValueId, wrt: ValueId, span: Span) -> Result<ValueId> {
        // A value read from an equation is a cut of its array: where `of` was computed from the array, the derivative by
        // the array is cut the same way.
        let mut cuts = Vec::new();
        let mut root = wrt;
        let depends = |cx: &Self, on: ValueId| reaches(&cx.frames[cx.depth()].graph, of, on);
        while !depends(self, root) {
            let node = self.graph().node(root).clone();
            match node.op {
                Op::Rename { of: inner, .. } | Op::Slice { of: inner, .. } => {
                    cuts.push(node);
                    root = inner;
                }
                Op::Id(inner) => root = inner,
                // The checker has seen that it depends; a zero in its place would be silent.
                _ => return self.unsupported("a gradient by a value that is computed elsewhere", span),
            }
        }
        let depth = self.depth();
        let Frame { graph, shared, .. } = &mut self.frames[depth];
        let start = graph.nodes.len();
        let d = grad::gradients(&mut self.program.axes, graph, of, &[root])[0];
        let mut d = shared.merge(graph, start, d);
        while let Some(node) = cuts.pop() {
            d = match node.op {
                Op::Rename { from, to, .. } => graph.rename(d, from, to, node.span),
                Op::Slice { axis, start, into, .. } => graph.slice(d, axis, start, into, node.span),
                _ => d,
            };
        }
        Ok(d)
    }
}

/// Whether a value is computed from another.
fn reaches(graph: &crate::ir::Graph, of: ValueId, on: ValueId) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![of];
    while let Some(v) = open.pop() {
        if v == on {
            return true;
        }
        if v > on && seen.insert(v) {
            graph.node(v).op.operands(|x| open.push(x));
        }
    }
    false
}
