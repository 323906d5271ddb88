//! Expressions of a checked model as operations.

use super::{Binding, Lower, Result};
use crate::ir::{AxisId, Composite, Role, ValueId};
use dsl::hir::{ExprId, Op as Hir, VarId};
use dsl::source::Span;

impl Lower<'_> {
    /// The value of an expression in the graph at hand.
    pub(super) fn expr(&mut self, e: ExprId) -> Result<ValueId> {
        let depth = self.depth();
        if let Some(v) = self.frames[depth].memo.get(&(self.which, e)) {
            return Ok(*v);
        }
        let mut value = stacker::maybe_grow(128 << 10, 4 << 20, || self.fresh(e))?;
        if self.variables.contains(&e) {
            value = self.variable(e, value)?;
        }
        self.frames[depth].memo.insert((self.which, e), value);
        Ok(value)
    }

    fn fresh(&mut self, e: ExprId) -> Result<ValueId> {
        let node = self.model.node(e);
        let span = node.span;
        if self.depth() > 0 && self.is_outside(e) {
            return self.outside(|cx| cx.expr(e));
        }
        match &node.op {
            Hir::Const(c) => Ok(self.graph().constant(c.0, span)),
            Hir::Size(size) => {
                let n = self.size_of(size)?;
                Ok(self.graph().constant(n as f64, span))
            }
            Hir::Index(index) => self.index_value(&index.clone(), span),
            Hir::Progress => Ok(self.input("progress".to_string(), Role::Clock, Vec::new(), span)),
            Hir::Training => {
                let training = f64::from(u8::from(self.trains()));
                Ok(self.graph().constant(training, span))
            }
            Hir::Iota(axis) => {
                let axis = self.axis(*axis)?;
                Ok(self.graph().iota(axis, span))
            }
            Hir::Input { input, index } => self.data(*input, index, span),
            Hir::Param(p) => self.param(*p, Role::Param, span),
            Hir::Slow(p) => self.param(*p, Role::Slow, span),
            Hir::Schedule(i) => {
                let name = format!("schedule.{}", self.model.schedules[*i].name);
                Ok(self.input(name, Role::Schedule, Vec::new(), span))
            }
            Hir::Running(i) => self.running(*i, span),
            Hir::Carry(c) => self.carry(*c, span),
            Hir::Read { family, leaf, index } => self.read_family(*family, *leaf, index, span),
            Hir::Outer { family, leaf, index } => self.read_now(*family, *leaf, index, span),
            Hir::Draw(d) => self.draw(*d, span),
            Hir::Weight | Hir::Gradient | Hir::TotalNorm | Hir::Count | Hir::Scale | Hir::Slot(_) => {
                self.rule_value(&node.op, span)
            }
            Hir::Hole(_) => self.unsupported("a stand-in is no part of a finished model", span),
            Hir::Unary(op, a) => {
                let a = self.expr(*a)?;
                Ok(self.unary(*op, a, span))
            }
            Hir::Binary(op, a, b) => {
                let (x, y) = (self.expr(*a)?, self.expr(*b)?);
                Ok(self.binary(*op, x, y, span))
            }
            Hir::Select(c, a, b) if matches!(self.model.node(*c).op, Hir::Training) => {
                let v = self.expr(if self.trains() { *a } else { *b })?;
                let axes = self.axes(&node.axes)?;
                Ok(self.ensure(v, &axes, span))
            }
            Hir::Select(c, a, b) => {
                let (c, a, b) = (self.expr(*c)?, self.expr(*a)?, self.expr(*b)?);
                Ok(self.graph().select(c, a, b, span))
            }
            Hir::Broadcast(a) => {
                let v = self.expr(*a)?;
                let axes = self.rule_axes(&node.axes)?;
                Ok(self.ensure(v, &axes, span))
            }
            Hir::Reduce { op, of, over } => {
                let v = self.expr(*of)?;
                let over = self.rule_axes(over)?;
                Ok(self.reduce(*op, v, &over, span))
            }
            Hir::Softmax { of, over, log } => {
                let v = self.expr(*of)?;
                let axis = self.axis(*over)?;
                let v = self.ensure(v, &[axis], span);
                let op = if *log { Composite::LogSoftmax(axis) } else { Composite::Softmax(axis) };
                Ok(self.graph().composite(op, v, span))
            }
            Hir::Dot { a, b, over } => {
                let (x, y) = (self.expr(*a)?, self.expr(*b)?);
                let over = self.axes(over)?;
                let (x, y) = (self.ensure(x, &over, span), self.ensure(y, &over, span));
                Ok(self.graph().dot(x, y, &over, span))
            }
            Hir::Rename { of, from, to } => {
                let v = self.expr(*of)?;
                let (from, to) = (self.axis(*from)?, self.axis(*to)?);
                Ok(self.graph().rename(v, from, to, span))
            }
            Hir::Split { of, axis, into } => {
                let v = self.expr(*of)?;
                let (axis, into) = (self.axis(*axis)?, self.axes(into)?);
                let v = self.ensure(v, &[axis], span);
                Ok(self.graph().split(v, axis, &into, span))
            }
            Hir::Join { of, axes, into } => {
                let v = self.expr(*of)?;
                let (axes, into) = (self.axes(axes)?, self.axis(*into)?);
                let v = self.ensure(v, &axes, span);
                Ok(self.graph().join(v, &axes, into, span))
            }
            Hir::Concat { parts, along, into } => self.concat(parts, along, *into, span),
            Hir::Slice { of, axis, start, into } => {
                let v = self.expr(*of)?;
                let (axis, into, start) = (self.axis(*axis)?, self.axis(*into)?, self.size_of(start)?);
                let v = self.ensure(v, &[axis], span);
                Ok(self.graph().slice(v, axis, start, into, span))
            }
            Hir::At { of, axis, index } => {
                let v = self.expr(*of)?;
                let axis = self.axis(*axis)?;
                self.at(v, axis, &index.clone(), span)
            }
            Hir::Take { of, axis, at } => {
                let (v, at) = (self.expr(*of)?, self.expr(*at)?);
                let axis = self.axis(*axis)?;
                let v = self.ensure(v, &[axis], span);
                if !self.graph().axes(at).contains(&axis) {
                    return Ok(self.pick(v, axis, at, span));
                }
                // Places along the very axis that they pick from: what is picked from gets another.
                let size = self.program.size(axis);
                let from = self.program.new_axis("from", size);
                let v = self.graph().rename(v, axis, from, span);
                Ok(self.graph().gather(v, from, at, span))
            }
            Hir::Sort { of, axis } => {
                let v = self.expr(*of)?;
                let axis = self.axis(*axis)?;
                let v = self.ensure(v, &[axis], span);
                Ok(self.sort(v, axis, span))
            }
            Hir::Top { of, axis, into } => {
                let v = self.expr(*of)?;
                let (axis, into) = (self.axis(*axis)?, self.axis(*into)?);
                let places = self.descending(v, axis, span);
                Ok(self.graph().slice(places, axis, 0, into, span))
            }
            Hir::ArgMax { of, axis } => {
                let v = self.expr(*of)?;
                let axis = self.axis(*axis)?;
                let places = self.descending(v, axis, span);
                Ok(self.first(places, axis, 0, span))
            }
            Hir::Each { var, into, body } => {
                let (from, _) = self.bind_var(*var);
                let v = self.expr(*body)?;
                let into = self.axis(*into)?;
                let v = self.ensure(v, &[from], span);
                Ok(self.graph().rename(v, from, into, span))
            }
            Hir::Fold { op, vars, batch, body } => {
                let mut over: Vec<AxisId> = vars.iter().map(|v| self.bind_var(*v).0).collect();
                self.outside_of_loops(vars, "a reduction", span)?;
                if *batch {
                    over.extend(self.batch);
                }
                let v = self.expr(*body)?;
                Ok(self.reduce(*op, v, &over, span))
            }
            Hir::Collect { vars, batch, body, into } => {
                self.outside_of_loops(vars, "a collection", span)?;
                let mut over: Vec<AxisId> = Vec::new();
                if *batch {
                    over.extend(self.batch);
                }
                over.extend(vars.iter().map(|v| self.bind_var(*v).0).collect::<Vec<_>>());
                let v = self.expr(*body)?;
                let v = self.ensure(v, &over, span);
                let total = self.program.len(&over);
                // The model's axis counts the batch it declares; the caller may have chosen another.
                let known = self.axis_of.get(into).copied().filter(|axis| self.program.size(*axis) == total);
                let axis = known.unwrap_or_else(|| self.program.new_axis("all", total));
                self.axis_of.insert(*into, axis);
                Ok(self.graph().join(v, &over, axis, span))
            }
            Hir::Stop(a) => {
                let v = self.expr(*a)?;
                Ok(self.graph().stop(v, span))
            }
            Hir::Alias(a, _) => {
                let v = self.expr(*a)?;
                self.variable(e, v)
            }
            Hir::Grad { of, wrt } => self.gradient(*of, *wrt, span),
        }
    }

    /// Leaves of a body come from the graph around it, and so do entries of arrays that the loop does not change.
    fn is_outside(&self, e: ExprId) -> bool {
        match &self.model.node(e).op {
            Hir::Progress
            | Hir::Input { .. }
            | Hir::Param(_)
            | Hir::Slow(_)
            | Hir::Schedule(_)
            | Hir::Running(_)
            | Hir::Carry(_)
            | Hir::Outer { .. }
            | Hir::Draw(_) => true,
            Hir::Index(index) => index.terms.iter().any(|(v, _)| self.in_loop(*v)),
            Hir::At { index, .. } => index.terms.iter().any(|(v, _)| self.in_loop(*v)) && self.is_free(e),
            _ => false,
        }
    }

    /// What runs over an index is not computed step by step along it.
    fn outside_of_loops(&self, vars: &[VarId], what: &str, span: Span) -> Result<()> {
        match vars.iter().find(|v| self.in_loop(**v)) {
            Some(looped) => {
                let name = &self.model.var(*looped).name;
                self.unsupported(format!("{what} over `{name}` inside the recurrence that runs over it"), span)
            }
            None => Ok(()),
        }
    }

    pub(super) fn in_loop(&self, var: VarId) -> bool {
        matches!(self.bindings.get(&var), Some(Binding::Axis { scan: Some(d), .. }) if *d <= self.depth())
    }

    /// Whether an expression reads nothing that the innermost loop computes, and no gradient is taken by a part of it.
    fn is_free(&self, e: ExprId) -> bool {
        let depth = self.depth();
        let Some(scan) = &self.frames[depth].scan else { return true };
        let mut seen = std::collections::HashSet::new();
        let mut open = vec![e];
        while let Some(e) = open.pop() {
            if !seen.insert(e) {
                continue;
            }
            if self.variables.contains(&e) {
                return false;
            }
            match &self.model.node(e).op {
                Hir::Read { family, .. } if scan.which == self.which && scan.members.iter().any(|m| m.family == *family) => {
                    return false;
                }
                Hir::Alias(..) => return false,
                op => op.operands(|x| open.push(x)),
            }
        }
        true
    }
}
