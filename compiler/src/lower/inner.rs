//! Gradients inside a model.
//!
//! `grad(e, x)` is pointwise: at each sample and each value of each index, the derivative of `e` there by `x` there. So a
//! target has a value of its own at every point. An equation that a gradient is taken by is laid out along samples and
//! all of its subscripts, even if all its values are the same ([`Lower::target_leaf`]). Where `e` varies along more than
//! that, `x` is spread along it ([`grad::pointwise`]).

use std::collections::HashSet;

use super::family::Span1;
use super::frame::Frame;
use super::{Lower, Result, Which};
use crate::grad;
use crate::ir::{AxisId, Op, Reduction, ValueId};
use dsl::hir::{DefId, ExprId, FamilyId, Op as Hir};
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
                Op::Rename { of: inner, .. } | Op::Slice { of: inner, .. } | Op::Reduce { op: Reduction::Sum, of: inner, .. } => {
                    cuts.push(node);
                    root = inner;
                }
                Op::Id(inner) => root = inner,
                // The checker has seen that it depends; a zero in its place would be silent.
                _ => return self.unsupported("a gradient by a value that is computed elsewhere", span),
            }
        }
        let along = self.points(of, wrt, root);
        let depth = self.depth();
        let Frame { graph, shared, .. } = &mut self.frames[depth];
        let start = graph.nodes.len();
        let d = grad::pointwise(&mut self.program.axes, graph, of, root, along);
        let mut d = shared.merge(graph, start, d);
        while let Some(node) = cuts.pop() {
            d = match node.op {
                Op::Rename { from, to, .. } => graph.rename(d, from, to, node.span),
                Op::Slice { axis, start, into, .. } => graph.slice(d, axis, start, into, node.span),
                Op::Reduce { ref over, .. } => graph.sum(d, over, node.span),
                _ => d,
            };
        }
        Ok(d)
    }

    /// The axes of points that `of` varies along and `wrt` does not; samples also where `of` is one number of all of them.
    fn points(&self, of: ValueId, wrt: ValueId, root: ValueId) -> Vec<AxisId> {
        let graph = &self.frames[self.depth()].graph;
        let mut along = graph.axes(of).to_vec();
        if let Some(batch) = self.batch.filter(|batch| !along.contains(batch)) {
            let active = grad::active(graph, &[root], of.0 as usize + 1);
            along.extend((0..active.len()).any(|v| active[v] && graph.nodes[v].axes.contains(&batch)).then_some(batch));
        }
        along.retain(|axis| !graph.axes(wrt).contains(axis));
        along
    }

    /// An equation's value as a target of gradients: an array of its own, along samples and the equation's subscripts.
    pub(super) fn target_leaf(&mut self, def: DefId, family: FamilyId, value: ValueId) -> ValueId {
        if !self.is_target(family) {
            return value;
        }
        let span = self.system().def(def).span;
        let points: Vec<AxisId> = self
            .def_spans(def, family, self.depth())
            .into_iter()
            .filter_map(|s| if let Span1::Along { axis, .. } = s { Some(axis) } else { None })
            .chain(self.batch)
            .collect();
        let value = self.ensure(value, &points, span);
        self.graph().id(value, span)
    }

    /// Whether a gradient is taken by a family of the present system.
    pub(super) fn is_target(&mut self, family: FamilyId) -> bool {
        let which = self.which;
        if !self.families.targets.contains_key(&which) {
            let found = targets(self, which);
            self.families.targets.insert(which, found);
        }
        self.families.targets[&which].contains(&family)
    }
}

/// The families of the present system that gradients are taken by.
pub(super) fn targets(cx: &Lower<'_>, which: Which) -> HashSet<FamilyId> {
    let model = cx.model;
    let mut found = HashSet::new();
    let mut seen = HashSet::new();
    let mut open: Vec<ExprId> = cx.roots(which);
    while let Some(e) = open.pop() {
        if !seen.insert(e) {
            continue;
        }
        let op = &model.node(e).op;
        op.operands(|x| open.push(x));
        let Hir::Grad { wrt, .. } = op else { continue };
        let mut target = *wrt;
        while let Hir::Alias(inner, _) = model.node(target).op {
            target = inner;
        }
        if let Hir::Read { family, .. } = model.node(target).op {
            found.insert(family);
        }
    }
    found
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
