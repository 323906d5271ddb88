//! The graph that rules look at and make nodes in.

use dsl::source::Span;

use super::facts::{Facts, facts};
use super::{Index, Log};
use crate::ir::{Axis, AxisId, Graph, Node, Op, Reduction, ValueId};

/// Rules whose right sides make nodes that rules apply to, and so on: so deep. Beyond, nodes stay as they are until the
/// pass runs again.
const DEPTH: usize = 32;

pub(crate) struct Cx<'p> {
    pub(super) axes: &'p mut Vec<Axis>,
    pub(super) graph: Graph,
    pub(super) span: Span,
    facts: Vec<Facts>,
    depth: usize,
    index: &'p Index,
    log: &'p mut Log,
}

impl<'p> Cx<'p> {
    pub(super) fn new(axes: &'p mut Vec<Axis>, index: &'p Index, log: &'p mut Log) -> Cx<'p> {
        Cx { axes, graph: Graph::default(), span: Span::default(), facts: Vec::new(), depth: 0, index, log }
    }

    // ---- looking

    pub(super) fn op(&self, v: ValueId) -> &Op {
        &self.graph.node(v).op
    }

    pub(super) fn axes_of(&self, v: ValueId) -> &[AxisId] {
        self.graph.axes(v)
    }

    pub(super) fn has(&self, v: ValueId, axis: AxisId) -> bool {
        self.axes_of(v).contains(&axis)
    }

    pub(super) fn size(&self, axis: AxisId) -> usize {
        self.axes[axis.0 as usize].size
    }

    /// Number of entries over these axes.
    pub(super) fn count(&self, axes: &[AxisId]) -> usize {
        axes.iter().map(|a| self.size(*a)).product()
    }

    /// The number that a value is throughout, if it is a constant.
    pub(super) fn number(&self, v: ValueId) -> Option<f64> {
        self.graph.as_const(v)
    }

    pub(super) fn is(&self, v: ValueId, c: f64) -> bool {
        self.number(v) == Some(c)
    }

    pub(super) fn facts(&self, v: ValueId) -> Facts {
        self.facts[v.0 as usize]
    }

    /// `x` and `c` of `x * c`.
    pub(super) fn scaled(&self, v: ValueId) -> Option<(ValueId, f64)> {
        match *self.op(v) {
            Op::Mul(x, c) => self.number(c).map(|c| (x, c)),
            _ => None,
        }
    }

    /// The value under an expand.
    pub(super) fn expanded(&self, v: ValueId) -> Option<ValueId> {
        match *self.op(v) {
            Op::Expand(x) => Some(x),
            _ => None,
        }
    }

    // ---- making

    /// The value of an operation: by the first rule that applies, else by a node of its own.
    pub(super) fn emit(&mut self, op: Op, axes: Vec<AxisId>) -> ValueId {
        let node = Node { op, axes, span: self.span };
        let index = self.index;
        if self.depth < DEPTH
            && let Some(rules) = index.get(node.op.name())
        {
            self.depth += 1;
            let found = rules.iter().find_map(|rule| Some((rule, (rule.apply)(self, &node)?)));
            self.depth -= 1;
            if let Some((rule, v)) = found {
                debug_assert!(
                    self.axes_of(v).len() == node.axes.len() && node.axes.iter().all(|a| self.has(v, *a)),
                    "`{}` changes the axes of {node:?}",
                    rule.equation
                );
                *self.log.entry(rule.equation).or_default() += 1;
                return v;
            }
        }
        let facts = facts(self.axes, &self.graph, &node.op, |v| self.facts(v));
        self.facts.push(facts);
        self.graph.nodes.push(node);
        ValueId(self.graph.nodes.len() as u32 - 1)
    }

    pub(super) fn constant(&mut self, c: f64) -> ValueId {
        self.emit(Op::Const(c), Vec::new())
    }

    /// A constant throughout the axes of a node.
    pub(super) fn filled(&mut self, c: f64, node: &Node) -> ValueId {
        let c = self.constant(c);
        self.expand(c, &node.axes)
    }

    /// The value along these axes, which contain its own; itself if it has them all.
    pub(super) fn expand(&mut self, v: ValueId, axes: &[AxisId]) -> ValueId {
        if self.axes_of(v).len() == axes.len() { v } else { self.emit(Op::Expand(v), axes.to_vec()) }
    }

    pub(super) fn add(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let axes = self.graph.union(&[a, b]);
        self.emit(Op::Add(a, b), axes)
    }

    pub(super) fn mul(&mut self, a: ValueId, b: ValueId) -> ValueId {
        let axes = self.graph.union(&[a, b]);
        self.emit(Op::Mul(a, b), axes)
    }

    pub(super) fn scale(&mut self, a: ValueId, c: f64) -> ValueId {
        let c = self.constant(c);
        self.mul(a, c)
    }

    pub(super) fn select(&mut self, c: ValueId, a: ValueId, b: ValueId) -> ValueId {
        let axes = self.graph.union(&[c, a, b]);
        self.emit(Op::Where(c, a, b), axes)
    }

    /// `1 - c`
    pub(super) fn not(&mut self, c: ValueId) -> ValueId {
        let minus = self.scale(c, -1.0);
        let one = self.constant(1.0);
        self.add(minus, one)
    }

    pub(super) fn rename(&mut self, of: ValueId, from: AxisId, to: AxisId) -> ValueId {
        if from == to {
            return of;
        }
        let axes = replace(self.axes_of(of), from, &[to]);
        self.emit(Op::Rename { of, from, to }, axes)
    }

    pub(super) fn reduce(&mut self, op: Reduction, of: ValueId, over: Vec<AxisId>) -> ValueId {
        if over.is_empty() {
            return of;
        }
        let axes = without(self.axes_of(of), &over);
        self.emit(Op::Reduce { op, of, over }, axes)
    }

    pub(super) fn sum(&mut self, of: ValueId, over: Vec<AxisId>) -> ValueId {
        self.reduce(Reduction::Sum, of, over)
    }

    pub(super) fn dot(&mut self, a: ValueId, b: ValueId, over: Vec<AxisId>) -> ValueId {
        let mut axes = without(self.axes_of(a), &over);
        axes.extend(self.axes_of(b).iter().filter(|x| !over.contains(x) && !self.has(a, **x)));
        self.emit(Op::Dot { a, b, over }, axes)
    }

    pub(super) fn slice(&mut self, of: ValueId, axis: AxisId, start: usize, into: AxisId) -> ValueId {
        let axes = replace(self.axes_of(of), axis, &[into]);
        self.emit(Op::Slice { of, axis, start, into }, axes)
    }

    pub(super) fn pad(&mut self, of: ValueId, axis: AxisId, start: usize, into: AxisId) -> ValueId {
        let axes = replace(self.axes_of(of), axis, &[into]);
        self.emit(Op::Pad { of, axis, start, into }, axes)
    }

    /// An axis of one entry that none of these is: the first there is, so that equal things get equal axes.
    pub(super) fn one_axis(&mut self, not: &[AxisId]) -> AxisId {
        let ids = (0..self.axes.len() as u32).map(AxisId);
        let found = ids.into_iter().find(|a| self.size(*a) == 1 && self.axes[a.0 as usize].name == "one" && !not.contains(a));
        found.unwrap_or_else(|| {
            self.axes.push(Axis { name: "one".to_string(), size: 1 });
            AxisId(self.axes.len() as u32 - 1)
        })
    }
}

pub(super) fn without(axes: &[AxisId], gone: &[AxisId]) -> Vec<AxisId> {
    axes.iter().copied().filter(|a| !gone.contains(a)).collect()
}

pub(super) fn replace(axes: &[AxisId], axis: AxisId, by: &[AxisId]) -> Vec<AxisId> {
    axes.iter().flat_map(|a| if *a == axis { by } else { std::slice::from_ref(a) }).copied().collect()
}
