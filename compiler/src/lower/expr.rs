//! Expressions of a checked model as operations.

use dsl::hir::{self, BinaryOp, ExprId, Index, Op as Hir, ReduceOp, UnaryOp, VarId};
use dsl::source::Span;

use super::family::{Piece, Span1};
use super::{Binding, Lower, Result};
use crate::grad;
use crate::ir::{AxisId, Composite, Noise, Op, Reduction, Role, Unary, ValueId};

impl Lower<'_> {
    /// The value of an expression in the graph at hand.
    pub(super) fn expr(&mut self, e: ExprId) -> Result<ValueId> {
        let depth = self.depth();
        if let Some(v) = self.frames[depth].memo.get(&(self.which, e)) {
            return Ok(*v);
        }
        let value = stacker::maybe_grow(128 << 10, 4 << 20, || self.fresh(e))?;
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
                    return Ok(self.graph().gather(v, axis, at, span));
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
                if let Some(looped) = vars.iter().find(|v| self.in_loop(**v)) {
                    let name = self.model.var(*looped).name.clone();
                    return self.unsupported(format!("a reduction over `{name}` inside the recurrence that runs over it"), span);
                }
                if *batch {
                    over.extend(self.batch);
                }
                let v = self.expr(*body)?;
                Ok(self.reduce(*op, v, &over, span))
            }
            Hir::SortAll { vars, batch, body, into } => {
                let mut over: Vec<AxisId> = Vec::new();
                if *batch {
                    over.extend(self.batch);
                }
                over.extend(vars.iter().map(|v| self.bind_var(*v).0).collect::<Vec<_>>());
                let v = self.expr(*body)?;
                let v = self.ensure(v, &over, span);
                let total = self.program.len(&over);
                // The model's axis counts the batch it declares; the caller may have chosen another.
                let axis = match self.axis_of.get(into) {
                    Some(axis) => *axis,
                    None => {
                        let axis = self.program.new_axis("sorted", total);
                        self.axis_of.insert(*into, axis);
                        axis
                    }
                };
                let v = self.graph().join(v, &over, axis, span);
                Ok(self.sort(v, axis, span))
            }
            Hir::Stop(a) => {
                let v = self.expr(*a)?;
                Ok(self.graph().stop(v, span))
            }
            Hir::Alias(a, _) => {
                let v = self.expr(*a)?;
                Ok(self.graph().id(v, span))
            }
            Hir::Grad { of, wrt } => {
                let (of, wrt) = (self.expr(*of)?, self.expr(*wrt)?);
                self.gradient(of, wrt, span)
            }
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

    fn in_loop(&self, var: VarId) -> bool {
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

    // ---- leaves

    /// The value of a subscript, as a number over the axes of its variables.
    pub(super) fn index_value(&mut self, index: &Index, span: Span) -> Result<ValueId> {
        let mut total = self.graph().constant(index.offset as f64, span);
        for (var, factor) in &index.terms {
            let (axis, _) = self.bind_var(*var);
            let lo = match self.bindings.get(var) {
                Some(Binding::Axis { lo, .. }) => *lo,
                _ => 0,
            };
            let iota = self.graph().iota(axis, span);
            let first = self.graph().constant(lo as f64, span);
            let value = self.graph().add(iota, first, span);
            let value = self.graph().scale(value, *factor as f64, span);
            total = self.graph().add(total, value, span);
        }
        Ok(total)
    }

    fn data(&mut self, input: usize, index: &Index, span: Span) -> Result<ValueId> {
        let info = &self.model.inputs[input];
        let own = self.axes(&info.axes)?;
        let name = format!("data.{}", info.name);
        // The step of an acting agent.
        if let Some((var, 1)) = index.terms.first()
            && self.bindings.get(var) == Some(&Binding::Now)
        {
            return self.data_now(input, index.offset, own, span);
        }
        let (lo, hi) = match self.rows {
            Some(rows) => (0, rows),
            None => self.system().inputs.get(input).copied().unwrap_or((0, 0)),
        };
        let value = match self.inputs.get(&name) {
            Some(v) => *v,
            None => {
                let time = self.program.new_axis("T", (hi - lo) as usize);
                let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
                axes.push(time);
                axes.extend(&own);
                self.input(name, Role::Data, axes, span)
            }
        };
        let position = usize::from(self.batch.is_some());
        let time = self.frames[0].graph.axes(value)[position];
        let piece = Piece {
            def: hir::DefId(u32::MAX),
            depth: 0,
            leaves: vec![value],
            spans: vec![Span1::Along { axis: time, lo, size: hi - lo }],
        };
        self.read_piece(&piece, index, span)
    }

    pub(super) fn param(&mut self, p: hir::ParamId, role: Role, span: Span) -> Result<ValueId> {
        let param = &self.model.params[p.0 as usize];
        let prefix = if role == Role::Slow { "slow" } else { "param" };
        let name = format!("{prefix}.{}", param.path);
        let axes = self.axes(&param.axes)?;
        Ok(self.input(name, role, axes, param.span.to(span)))
    }

    fn carry(&mut self, c: usize, span: Span) -> Result<ValueId> {
        let carry = &self.model.carries[c];
        let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
        axes.extend(self.axes(&carry.axes)?);
        Ok(self.input(format!("carry.{}", carry.path), Role::Carry, axes, span))
    }

    /// A draw has the range that the model gives its indices, whatever part of it is read.
    fn draw(&mut self, d: usize, span: Span) -> Result<ValueId> {
        // Acting draws for the present step alone.
        let now = |cx: &Self, var: &VarId| cx.bindings.get(var) == Some(&Binding::Now);
        let vars: Vec<VarId> = self.model.draws[d].vars.iter().copied().filter(|v| !now(self, v)).collect();
        if !vars.iter().any(|v| self.trimmed.contains_key(v)) {
            let along = vars.iter().map(|v| self.bind_var(*v).0).collect();
            return self.drawn(d, along, span);
        }
        let mut value = match self.whole_draws.get(&d) {
            Some(value) => *value,
            None => {
                let along = vars.iter().map(|v| self.model.var(*v)).map(|v| self.program.new_axis(&v.name, v.len() as usize));
                let along = along.collect();
                let value = self.drawn(d, along, span)?;
                self.whole_draws.insert(d, value);
                value
            }
        };
        let skip = usize::from(self.model.draws[d].per_sample && self.batch.is_some());
        let along: Vec<AxisId> = self.graph().axes(value)[skip..skip + vars.len()].to_vec();
        for (var, whole) in vars.into_iter().zip(along) {
            let (axis, size) = self.bind_var(var);
            let start = self.var_range(var).0 - self.model.var(var).lo;
            value = if size == self.model.var(var).len() {
                self.graph().rename(value, whole, axis, span)
            } else {
                self.graph().slice(value, whole, start as usize, axis, span)
            };
        }
        Ok(value)
    }

    /// A draw's numbers, with the axes of its indices.
    fn drawn(&mut self, d: usize, along: Vec<AxisId>, span: Span) -> Result<ValueId> {
        let draw = &self.model.draws[d];
        let mut axes: Vec<AxisId> = Vec::new();
        if draw.per_sample {
            axes.extend(self.batch);
        }
        axes.extend(along);
        axes.extend(self.axes(&draw.axes)?);
        let noise = match draw.noise {
            hir::Noise::Gaussian => Noise::Gaussian,
            hir::Noise::Uniform => Noise::Uniform,
            hir::Noise::Subset { of } => Noise::Subset { of },
        };
        let number = match self.program.draws.iter().position(|n| *n == draw.name) {
            Some(n) => n,
            None => {
                self.program.draws.push(draw.name.clone());
                self.program.draws.len() - 1
            }
        };
        Ok(self.graph().push(Op::Random { draw: number as u32, noise }, axes, span))
    }

    // ---- elementwise

    fn unary(&mut self, op: UnaryOp, a: ValueId, span: Span) -> ValueId {
        let g = self.graph();
        match op {
            UnaryOp::Neg => g.neg(a, span),
            UnaryOp::Not => g.not(a, span),
            UnaryOp::Exp => g.unary(Unary::Exp, a, span),
            UnaryOp::Log => g.unary(Unary::Log, a, span),
            UnaryOp::Sin => g.unary(Unary::Sin, a, span),
            UnaryOp::Cos => {
                let quarter = g.constant(std::f64::consts::FRAC_PI_2, span);
                let shifted = g.add(a, quarter, span);
                g.unary(Unary::Sin, shifted, span)
            }
            UnaryOp::Sqrt => g.unary(Unary::Sqrt, a, span),
            UnaryOp::Floor => g.unary(Unary::Floor, a, span),
            UnaryOp::Abs => g.composite(Composite::Abs, a, span),
            UnaryOp::Sign => g.composite(Composite::Sign, a, span),
            UnaryOp::Tanh => g.composite(Composite::Tanh, a, span),
            UnaryOp::Sigmoid => g.composite(Composite::Sigmoid, a, span),
            UnaryOp::Softplus => g.composite(Composite::Softplus, a, span),
        }
    }

    fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let g = self.graph();
        match op {
            BinaryOp::Add => g.add(a, b, span),
            BinaryOp::Sub => g.sub(a, b, span),
            BinaryOp::Mul | BinaryOp::And => g.mul(a, b, span),
            BinaryOp::Div => g.div(a, b, span),
            BinaryOp::Pow => self.power(a, b, span),
            BinaryOp::Max | BinaryOp::Or => g.max(a, b, span),
            BinaryOp::Min => {
                let (a, b) = (g.neg(a, span), g.neg(b, span));
                let m = g.max(a, b, span);
                g.neg(m, span)
            }
            BinaryOp::Rem => {
                let ratio = g.div(a, b, span);
                let whole = g.unary(Unary::Floor, ratio, span);
                let part = g.mul(whole, b, span);
                g.sub(a, part, span)
            }
            BinaryOp::Lt => g.less(a, b, span),
            BinaryOp::Gt => g.less(b, a, span),
            BinaryOp::Le => {
                let c = g.less(b, a, span);
                g.not(c, span)
            }
            BinaryOp::Ge => {
                let c = g.less(a, b, span);
                g.not(c, span)
            }
            BinaryOp::Eq | BinaryOp::Ne => {
                let (below, above) = (g.less(a, b, span), g.less(b, a, span));
                let apart = g.max(below, above, span);
                if op == BinaryOp::Ne { apart } else { g.not(apart, span) }
            }
        }
    }

    /// Whole powers as products, powers of a constant by its logarithm, the rest as `exp(b log a)`.
    fn power(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let g = self.graph();
        if let Some(n) = g.as_const(b) {
            if n == 0.5 {
                return g.unary(Unary::Sqrt, a, span);
            }
            if n.fract() == 0.0 && n.abs() <= 16.0 {
                let mut result = None;
                let mut square = a;
                let mut left = n.abs() as u32;
                while left > 0 {
                    if left % 2 == 1 {
                        result = Some(match result {
                            Some(r) => g.mul(r, square, span),
                            None => square,
                        });
                    }
                    left /= 2;
                    if left > 0 {
                        square = g.mul(square, square, span);
                    }
                }
                return match result {
                    None => g.constant(1.0, span),
                    Some(r) if n < 0.0 => g.recip(r, span),
                    Some(r) => r,
                };
            }
        }
        match g.as_const(a) {
            Some(0.0) => {
                let zero = g.constant(0.0, span);
                let apart = g.less(zero, b, span);
                g.not(apart, span)
            }
            // Whole powers alternate: (-c)^n = c^n (1 - 2 (n mod 2)).
            Some(base) if base < 0.0 => {
                let size = g.constant(-base, span);
                let size = self.power(size, b, span);
                let (one, two) = (self.graph().constant(1.0, span), self.graph().constant(2.0, span));
                let odd = self.binary(BinaryOp::Rem, b, two, span);
                let odd = self.graph().scale(odd, 2.0, span);
                let sign = self.graph().sub(one, odd, span);
                self.graph().mul(size, sign, span)
            }
            Some(base) => {
                let exponent = g.scale(b, base.ln(), span);
                g.unary(Unary::Exp, exponent, span)
            }
            None => {
                let log = g.unary(Unary::Log, a, span);
                let exponent = g.mul(b, log, span);
                g.unary(Unary::Exp, exponent, span)
            }
        }
    }

    // ---- axes

    /// The value with at least these axes.
    pub(super) fn ensure(&mut self, v: ValueId, axes: &[AxisId], span: Span) -> ValueId {
        let own = self.graph().axes(v).to_vec();
        let mut all: Vec<AxisId> = own.clone();
        all.extend(axes.iter().copied().filter(|a| !own.contains(a)));
        self.graph().expand(v, &all, span)
    }

    fn reduce(&mut self, op: ReduceOp, v: ValueId, over: &[AxisId], span: Span) -> ValueId {
        let have: Vec<AxisId> = over.iter().copied().filter(|a| self.graph().axes(v).contains(a)).collect();
        let missing: Vec<AxisId> = over.iter().copied().filter(|a| !have.contains(a)).collect();
        let (n_have, n_missing) = (self.program.len(&have) as f64, self.program.len(&missing) as f64);
        match op {
            ReduceOp::Sum => {
                let s = self.graph().sum(v, &have, span);
                self.graph().scale(s, n_missing, span)
            }
            ReduceOp::Mean => {
                let s = self.graph().sum(v, &have, span);
                self.graph().scale(s, 1.0 / n_have, span)
            }
            ReduceOp::Max => self.graph().reduce(Reduction::Max, v, &have, span),
            ReduceOp::Min => {
                let n = self.graph().neg(v, span);
                let m = self.graph().reduce(Reduction::Max, n, &have, span);
                self.graph().neg(m, span)
            }
            ReduceOp::LogSumExp => {
                let mut v = v;
                for axis in have {
                    v = self.graph().composite(Composite::LogSumExp(axis), v, span);
                }
                if n_missing != 1.0 {
                    let more = self.graph().constant(n_missing.ln(), span);
                    v = self.graph().add(v, more, span);
                }
                v
            }
            ReduceOp::Prod => {
                let mut v = v;
                for axis in have {
                    let n = self.program.size(axis);
                    let mut product = self.graph().constant(1.0, span);
                    for i in 0..n {
                        let part = self.first(v, axis, i, span);
                        product = self.graph().mul(product, part, span);
                    }
                    v = product;
                }
                let once = v;
                for _ in 1..(n_missing as usize) {
                    v = self.graph().mul(v, once, span);
                }
                v
            }
        }
    }

    fn concat(&mut self, parts: &[ExprId], along: &[Vec<hir::AxisId>], into: hir::AxisId, span: Span) -> Result<ValueId> {
        let into = self.axis(into)?;
        let mut flat: Vec<(ValueId, AxisId)> = Vec::new();
        for (part, axes) in parts.iter().zip(along) {
            let v = self.expr(*part)?;
            let axes = self.axes(axes)?;
            let v = self.ensure(v, &axes, span);
            let size = self.program.len(&axes);
            let one = self.program.new_axis("part", size);
            let v = if axes.is_empty() {
                let mut all = vec![one];
                all.extend(self.graph().axes(v));
                self.graph().push(Op::Expand(v), all, span)
            } else {
                self.graph().join(v, &axes, one, span)
            };
            flat.push((v, one));
        }
        let mut others: Vec<AxisId> = Vec::new();
        for (v, own) in &flat {
            for a in self.graph().axes(*v).to_vec() {
                if a != *own && !others.contains(&a) {
                    others.push(a);
                }
            }
        }
        let mut values = Vec::new();
        for (v, own) in &flat {
            let mut axes = others.clone();
            axes.push(*own);
            values.push(self.graph().expand(*v, &axes, span));
        }
        let along = flat.iter().map(|(_, own)| *own).collect();
        Ok(self.graph().concat(values, along, into, span))
    }

    /// The entry of an axis at a fixed place; the axis goes.
    pub(super) fn first(&mut self, v: ValueId, axis: AxisId, place: usize, span: Span) -> ValueId {
        if !self.graph().axes(v).contains(&axis) {
            return v;
        }
        let one = self.program.new_axis("one", 1);
        let v = self.graph().slice(v, axis, place, one, span);
        self.graph().sum(v, &[one], span)
    }

    /// The entry of an axis at a subscript.
    fn at(&mut self, v: ValueId, axis: AxisId, index: &Index, span: Span) -> Result<ValueId> {
        if !self.graph().axes(v).contains(&axis) {
            return Ok(v);
        }
        if let Some(n) = index.constant() {
            return Ok(self.first(v, axis, n.max(0) as usize, span));
        }
        if let Some((var, offset)) = index.shifted()
            && !self.in_loop(var)
        {
            let (to, size) = self.bind_var(var);
            let lo = match self.bindings.get(&var) {
                Some(Binding::Axis { lo, .. }) => *lo + offset,
                _ => offset,
            };
            // The whole axis, or a part of it, along the variable's own; unless the value varies with it already.
            if !self.graph().axes(v).contains(&to) {
                let whole = lo == 0 && size as usize == self.program.size(axis);
                return Ok(if whole {
                    self.graph().rename(v, axis, to, span)
                } else {
                    self.graph().slice(v, axis, lo.max(0) as usize, to, span)
                });
            }
        }
        let index = index.clone();
        let places = if self.depth() > 0 && index.terms.iter().any(|(v, _)| self.in_loop(*v)) {
            self.outside(|cx| cx.index_value_outside(&index, span))?
        } else {
            self.index_value(&index, span)?
        };
        Ok(self.graph().gather(v, axis, places, span))
    }

    /// A subscript's value in the nearest graph where none of its variables is a loop's present value.
    fn index_value_outside(&mut self, index: &Index, span: Span) -> Result<ValueId> {
        if self.depth() > 0 && index.terms.iter().any(|(v, _)| self.in_loop(*v)) {
            let index = index.clone();
            return self.outside(|cx| cx.index_value_outside(&index, span));
        }
        self.index_value(index, span)
    }

    /// Places along an axis from the largest entry down.
    fn descending(&mut self, v: ValueId, axis: AxisId, span: Span) -> ValueId {
        let v = self.ensure(v, &[axis], span);
        let n = self.graph().neg(v, span);
        self.graph().argsort(n, axis, span)
    }

    fn sort(&mut self, v: ValueId, axis: AxisId, span: Span) -> ValueId {
        let places = self.graph().argsort(v, axis, span);
        let size = self.program.size(axis);
        let rank = self.program.new_axis("rank", size);
        let places = self.graph().rename(places, axis, rank, span);
        let sorted = self.graph().gather(v, axis, places, span);
        self.graph().rename(sorted, rank, axis, span)
    }

    // ---- gradients

    /// The derivative of `of` by `wrt`, both in the graph at hand.
    fn gradient(&mut self, of: ValueId, wrt: ValueId, span: Span) -> Result<ValueId> {
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
        let graph = &mut self.frames[depth].graph;
        let mut d = grad::gradients(&mut self.program.axes, graph, of, &[root])[0];
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
