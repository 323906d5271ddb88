//! Gradients inside a model.
//!
//! `grad(e, x)` is pointwise: at each sample and each value of each index, the derivative of `e` there by `x` there. So a
//! target has a value of its own at every point. An equation that a gradient is taken by is laid out along all of its
//! subscripts, even if all its values are the same ([`Lower::target_leaf`]). Where `e` varies along more than that, `x` is
//! spread along it ([`grad::pointwise`]).

use std::collections::HashSet;

use super::family::Span1;
use super::frame::Frame;
use super::{Lower, Result, Which};
use crate::grad;
use crate::ir::{AxisId, Graph, Op, Reduction, ValueId};
use dsl::hir::{DefId, ExprId, FamilyId, Model, Node, Op as Hir};
use dsl::source::Span;

impl Lower<'_> {
    /// `grad(of, wrt)`, both in the graph at hand.
    pub(super) fn gradient(&mut self, of: ExprId, wrt: ExprId, span: Span) -> Result<ValueId> {
        let (value, by) = (self.expr(of)?, self.expr(wrt)?);
        let (arrays, spread) = match self.model.node(wrt).op {
            Hir::Read { .. } | Hir::Input { .. } => self.arrays_behind(by),
            _ => Default::default(),
        };
        let mut past = vec![by];
        for e in self.parts_beside(of, wrt) {
            past.push(self.expr(e)?);
        }
        let graph = &self.frames[self.depth()].graph;
        // Equations between may read the target's array on their own: then that is what is differentiated by.
        let around = arrays.iter().any(|array| reaches(graph, value, *array, &past));
        let (roots, spread) = if around { (arrays, spread) } else { (vec![by], Vec::new()) };
        if !roots.iter().any(|root| *root == value || reaches(graph, value, *root, &[])) {
            if self.holds_gradient(of) {
                let axes = graph.axes(by).to_vec();
                return Ok(self.zeros(&axes, span));
            }
            // The checker has seen that it depends; a zero in its place would be silent.
            return self.unsupported("a gradient by a value that is computed elsewhere", span);
        }
        let mut along = self.points(value, by, &roots);
        along.extend(spread);
        let depth = self.depth();
        let Frame { graph, shared, .. } = &mut self.frames[depth];
        let start = graph.nodes.len();
        let found = grad::pointwise(&mut self.program.axes, graph, value, &roots, &along);
        let found: Vec<ValueId> = found.into_iter().map(|d| shared.merge(graph, start, d)).collect();
        Ok(self.cut_alike(by, &roots, &found))
    }

    /// Reads of other parts of the very value that the target is a part of: they do not depend on it.
    fn parts_beside(&self, of: ExprId, wrt: ExprId) -> Vec<ExprId> {
        let Hir::Read { family, index, .. } = &self.model.node(wrt).op else { return Vec::new() };
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut open = vec![of];
        while let Some(e) = open.pop() {
            if !seen.insert(e) {
                continue;
            }
            match &self.model.node(e).op {
                Hir::Read { family: f, index: at, .. } if f == family && at == index => found.push(e),
                op => op.operands(|x| open.push(x)),
            }
        }
        found
    }

    /// Whether an expression holds a gradient. That of a linear value is a constant, so the expression may turn out not to
    /// depend on what it was written with.
    fn holds_gradient(&self, e: ExprId) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![e];
        while let Some(e) = open.pop() {
            match &self.model.node(e).op {
                Hir::Grad { .. } => return true,
                op if seen.insert(e) => op.operands(|x| open.push(x)),
                _ => {}
            }
        }
        false
    }

    /// The axes of points that `of` varies along and `wrt` does not; samples also where `of` is one number of all of them.
    fn points(&self, of: ValueId, wrt: ValueId, roots: &[ValueId]) -> Vec<AxisId> {
        let graph = &self.frames[self.depth()].graph;
        let mut along = graph.axes(of).to_vec();
        if let Some(batch) = self.batch.filter(|batch| !along.contains(batch)) {
            let active = grad::active(graph, roots, of.0 as usize + 1);
            along.extend((0..active.len()).any(|v| active[v] && graph.nodes[v].axes.contains(&batch)).then_some(batch));
        }
        along.retain(|axis| !graph.axes(wrt).contains(axis));
        along
    }

    /// The arrays that a read of an equation or of data is cut out of, and the axes that it has on top of them.
    fn arrays_behind(&self, read: ValueId) -> (Vec<ValueId>, Vec<AxisId>) {
        let graph = &self.frames[self.depth()].graph;
        let (mut found, mut more) = (Vec::new(), Vec::new());
        // The read itself is under a name of its own.
        let mut open = match graph.node(read).op {
            Op::Id(inner) => vec![inner],
            _ => vec![read],
        };
        let single = |axis: &AxisId| self.program.size(*axis) == 1;
        while let Some(v) = open.pop() {
            let node = graph.node(v);
            match &node.op {
                Op::Rename { of, .. } | Op::Slice { of, .. } => open.push(*of),
                Op::Reduce { op: Reduction::Sum, of, over } if over.iter().all(single) => open.push(*of),
                Op::Concat { parts, .. } => open.extend(parts),
                // Several points may read one place: each counts as its own.
                Op::Gather { of, at, .. } => {
                    more.extend(graph.axes(*at).iter().filter(|a| !graph.axes(*of).contains(a)));
                    open.push(*of);
                }
                Op::Expand(x) => {
                    more.extend(node.axes.iter().filter(|a| !graph.axes(*x).contains(a) && !single(a)));
                    open.push(*x);
                }
                _ if found.contains(&v) => {}
                _ => found.push(v),
            }
        }
        (found, more)
    }

    /// What `read` is to the arrays `from`, made of `to` in their place.
    fn cut_alike(&mut self, read: ValueId, from: &[ValueId], to: &[ValueId]) -> ValueId {
        if let Some(at) = from.iter().position(|v| *v == read) {
            return to[at];
        }
        let node = self.graph().node(read).clone();
        let span = node.span;
        match node.op {
            Op::Id(x) => self.cut_alike(x, from, to),
            Op::Rename { of, from: old, to: new } => {
                let d = self.cut_alike(of, from, to);
                self.graph().rename(d, old, new, span)
            }
            Op::Slice { of, axis, start, into } => {
                let d = self.cut_alike(of, from, to);
                self.graph().slice(d, axis, start, into, span)
            }
            Op::Gather { of, axis, at } => {
                let d = self.cut_alike(of, from, to);
                self.graph().gather(d, axis, at, span)
            }
            Op::Reduce { of, over, .. } => {
                let d = self.cut_alike(of, from, to);
                self.graph().sum(d, &over, span)
            }
            Op::Expand(x) => {
                let d = self.cut_alike(x, from, to);
                self.ensure(d, &node.axes, span)
            }
            Op::Concat { parts, along, into } => {
                let parts: Vec<ValueId> = parts.iter().map(|x| self.cut_alike(*x, from, to)).collect();
                self.end_to_end(&parts, &along, into, span)
            }
            _ => read,
        }
    }

    /// The value of an expression as a variable: under a name of its own, with all of its axes.
    pub(super) fn variable(&mut self, e: ExprId, value: ValueId) -> Result<ValueId> {
        let node = self.model.node(e);
        let axes = self.rule_axes(&node.axes)?;
        let value = self.ensure(value, &axes, node.span);
        Ok(self.graph().id(value, node.span))
    }

    /// An equation's value as a target of gradients: an array of its own, along all of the equation's subscripts.
    pub(super) fn target_leaf(&mut self, def: DefId, family: FamilyId, leaf: usize, value: ValueId) -> Result<ValueId> {
        if !self.is_target(family) {
            return Ok(value);
        }
        let span = self.system().def(def).span;
        let along = |s| if let Span1::Along { axis, .. } = s { Some(axis) } else { None };
        let mut axes: Vec<AxisId> = self.def_spans(def, family, self.depth()).into_iter().filter_map(along).collect();
        axes.extend(self.axes(&self.system().family(family).leaves[leaf].axes)?);
        let value = self.ensure(value, &axes, span);
        Ok(self.graph().id(value, span))
    }

    /// The same for the present step of an acting agent.
    pub(super) fn target_now(&mut self, family: FamilyId, leaf: usize, value: ValueId, span: Span) -> Result<ValueId> {
        if !self.is_target(family) {
            return Ok(value);
        }
        let key = (self.which, family, leaf, value);
        if let Some(named) = self.families.now.get(&key) {
            return Ok(*named);
        }
        let axes = self.axes(&self.system().family(family).leaves[leaf].axes)?;
        let value = self.ensure(value, &axes, span);
        let named = self.graph().id(value, span);
        self.families.now.insert(key, named);
        Ok(named)
    }

    /// Whether a gradient is taken by a family of the present system.
    fn is_target(&mut self, family: FamilyId) -> bool {
        let which = self.which;
        if !self.families.targets.contains_key(&which) {
            let found = targets(self, which);
            self.families.targets.insert(which, found);
        }
        self.families.targets[&which].contains(&family)
    }
}

/// The expressions that gradients are taken by. Each has a value of its own, apart from what it is equal to.
pub(super) fn variables(model: &Model) -> HashSet<ExprId> {
    let by = |node: &Node| if let Hir::Grad { wrt, .. } = node.op { Some(wrt) } else { None };
    model.exprs.iter().filter_map(by).filter(|e| !matches!(model.node(*e).op, Hir::Alias(..))).collect()
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

/// Whether a value is computed from another, by a way that does not pass `past`.
fn reaches(graph: &Graph, of: ValueId, on: ValueId, past: &[ValueId]) -> bool {
    let mut seen: HashSet<ValueId> = past.iter().copied().collect();
    let mut open = vec![of];
    while let Some(v) = open.pop() {
        if v < on || !seen.insert(v) {
            continue;
        }
        if v == on {
            return true;
        }
        graph.node(v).op.operands(|x| open.push(x));
    }
    false
}
