//! Graphs under construction: the program's own, and one for each scan body inside another.
//!
//! A body is closed. What it needs from outside is computed in the graph around it, with the loop's variable as an axis,
//! and comes in as one step of an `xs` if it has that axis, as a constant otherwise.

use std::collections::HashMap;

use dsl::hir::{DefId, ExprId, FamilyId};
use dsl::source::Span;

use super::{Lower, Which};
use crate::ir::{AxisId, Graph, Op, ValueId};
use crate::simplify::Shared;

#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) graph: Graph,
    /// Values of expressions, by the system they were read in.
    pub(crate) memo: HashMap<(Which, ExprId), ValueId>,
    pub(crate) scan: Option<Loop>,
    /// What inner gradients have in common.
    pub(crate) shared: Shared,
}

/// The loop that a frame is the body of.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) axis: AxisId,
    /// The subscript position that it runs over.
    pub(crate) position: usize,
    pub(crate) which: Which,
    pub(crate) backward: bool,
    /// First and last-plus-one value of the iteration.
    pub(crate) lo: i64,
    pub(crate) hi: i64,
    /// Equations computed in it: at iteration j each gives subscript `j + shift`.
    pub(crate) members: Vec<Member>,
    /// Values from outside, by the value there: the parameter in here.
    pub(crate) imports: HashMap<ValueId, ValueId>,
    /// In the order of their parameters.
    pub(crate) xs: Vec<ValueId>,
    pub(crate) consts: Vec<ValueId>,
    /// Placeholder parameters are numbered when the loop is closed.
    pub(crate) x_params: Vec<ValueId>,
    pub(crate) const_params: Vec<ValueId>,
    /// Carried values: of which equation's array, how many iterations ago, and the parameter.
    pub(crate) slots: Vec<Slot>,
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) def: DefId,
    pub(crate) family: FamilyId,
    pub(crate) shift: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) def: DefId,
    pub(crate) leaf: usize,
    pub(crate) lag: i64,
    pub(crate) param: ValueId,
}

impl Lower<'_> {
    pub(crate) fn depth(&self) -> usize {
        self.frames.len() - 1
    }

    pub(crate) fn graph(&mut self) -> &mut Graph {
        let top = self.frames.len() - 1;
        &mut self.frames[top].graph
    }

    /// Runs `f` in the graph around the innermost body, and brings its value in.
    pub(crate) fn outside<E>(&mut self, f: impl FnOnce(&mut Self) -> Result<ValueId, E>) -> Result<ValueId, E> {
        let frame = self.frames.pop();
        let value = f(self);
        self.frames.extend(frame);
        Ok(self.import(value?))
    }

    /// A value of the graph around the innermost body, inside it.
    pub(crate) fn import(&mut self, outer: ValueId) -> ValueId {
        let top = self.frames.len() - 1;
        let (around, inner) = self.frames.split_at_mut(top);
        let node = around[top - 1].graph.node(outer).clone();
        let frame = &mut inner[0];
        let Some(scan) = &mut frame.scan else { return outer };
        if let Some(v) = scan.imports.get(&outer) {
            return *v;
        }
        // Constants are cheaper made again than passed in.
        if let Op::Const(_) = node.op {
            let v = frame.graph.push(node.op, Vec::new(), node.span);
            scan.imports.insert(outer, v);
            return v;
        }
        let step = node.axes.contains(&scan.axis);
        let axes: Vec<AxisId> = node.axes.iter().copied().filter(|a| *a != scan.axis).collect();
        // The number is given when the loop is closed.
        let v = frame.graph.push(Op::Param(u32::MAX), axes, node.span);
        if step {
            scan.xs.push(outer);
            scan.x_params.push(v);
        } else {
            scan.consts.push(outer);
            scan.const_params.push(v);
        }
        scan.imports.insert(outer, v);
        v
    }

    pub(crate) fn zeros(&mut self, axes: &[AxisId], span: Span) -> ValueId {
        let zero = self.graph().constant(0.0, span);
        self.graph().expand(zero, axes, span)
    }
}
