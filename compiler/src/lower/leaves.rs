//! Leaves: subscripts, data, parameters, carries, draws.

use super::family::{Piece, Span1};
use super::{Binding, Lower, Result};
use crate::ir::{AxisId, Noise, Op, Role, ValueId};
use dsl::hir::{self, Index, VarId};
use dsl::source::Span;

impl Lower<'_> {
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

    pub(super) fn data(&mut self, input: usize, index: &Index, span: Span) -> Result<ValueId> {
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

    pub(super) fn carry(&mut self, c: usize, span: Span) -> Result<ValueId> {
        let carry = &self.model.carries[c];
        let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
        axes.extend(self.axes(&carry.axes)?);
        let name = format!("carry.{}", carry.path);
        let given = self.input(name.clone(), Role::Carry, axes, span);
        self.begun(name, given, span, |cx| cx.expr(carry.init))
    }

    /// A draw has the range that the model gives its indices, whatever part of it is read.
    pub(super) fn draw(&mut self, d: usize, span: Span) -> Result<ValueId> {
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
}
