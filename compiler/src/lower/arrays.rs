//! Operations along axes.

use super::diagonal::Pick;
use super::{Binding, Lower, Result};
use crate::ir::{AxisId, Composite, Op, Reduction, ValueId};
use dsl::hir::{self, ExprId, Index, ReduceOp};
use dsl::source::Span;

/// Entries of an axis whose product is written out factor by factor.
const UNROLLED: usize = 32;

impl Lower<'_> {
    /// The value with at least these axes.
    pub(super) fn ensure(&mut self, v: ValueId, axes: &[AxisId], span: Span) -> ValueId {
        let own = self.graph().axes(v).to_vec();
        let mut all: Vec<AxisId> = own.clone();
        all.extend(axes.iter().copied().filter(|a| !own.contains(a)));
        self.graph().expand(v, &all, span)
    }

    pub(super) fn reduce(&mut self, op: ReduceOp, v: ValueId, over: &[AxisId], span: Span) -> ValueId {
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
                let product = have.into_iter().fold(v, |v, axis| self.product(v, axis, span));
                self.whole_power(product, self.program.len(&missing), span)
            }
        }
    }

    /// The product along an axis. A long one is halved until it is short, so that the graph grows with its logarithm.
    fn product(&mut self, mut v: ValueId, mut axis: AxisId, span: Span) -> ValueId {
        let mut product = self.graph().constant(1.0, span);
        while self.program.size(axis) > UNROLLED {
            let size = self.program.size(axis);
            if size % 2 == 1 {
                let last = self.first(v, axis, size - 1, span);
                product = self.graph().mul(product, last, span);
            }
            let half = self.program.new_axis("half", size / 2);
            let (low, high) = (self.graph().slice(v, axis, 0, half, span), self.graph().slice(v, axis, size / 2, half, span));
            (v, axis) = (self.graph().mul(low, high, span), half);
        }
        for i in 0..self.program.size(axis) {
            let part = self.first(v, axis, i, span);
            product = self.graph().mul(product, part, span);
        }
        product
    }

    /// `v` to the power of a count, by squaring.
    fn whole_power(&mut self, v: ValueId, count: usize, span: Span) -> ValueId {
        if count == 0 {
            return self.graph().constant(1.0, span);
        }
        let (mut left, mut square, mut result) = (count, v, None);
        while left > 0 {
            if left % 2 == 1 {
                result = Some(result.map_or(square, |r| self.graph().mul(r, square, span)));
            }
            left /= 2;
            if left > 0 {
                square = self.graph().mul(square, square, span);
            }
        }
        result.unwrap_or(v)
    }

    pub(super) fn concat(
        &mut self,
        parts: &[ExprId],
        along: &[Vec<hir::AxisId>],
        into: hir::AxisId,
        span: Span,
    ) -> Result<ValueId> {
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
    pub(super) fn at(&mut self, v: ValueId, axis: AxisId, index: &Index, span: Span) -> Result<ValueId> {
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
            // The whole axis, or a part of it, along the variable's own; unless the value varies with it already. Places
            // outside the axis are NaN, which a gather gives.
            let entries = self.program.size(axis) as i64;
            if lo >= 0 && lo + size <= entries && !self.graph().axes(v).contains(&to) {
                return Ok(if size == entries {
                    self.graph().rename(v, axis, to, span)
                } else {
                    self.graph().slice(v, axis, lo as usize, to, span)
                });
            }
        }
        let index = index.clone();
        let places = if self.depth() > 0 && index.terms.iter().any(|(v, _)| self.in_loop(*v)) {
            self.outside(|cx| cx.index_value_outside(&index, span))?
        } else {
            self.index_value(&index, span)?
        };
        Ok(self.pick(v, axis, places, span))
    }

    /// The entries of an axis at places: a diagonal, if no more places than entries are chosen for all
    /// samples alike and the value varies along them.
    pub(super) fn pick(&mut self, v: ValueId, axis: AxisId, at: ValueId, span: Span) -> ValueId {
        let along = self.graph().axes(at).to_vec();
        // An axis without entries: all places are outside.
        if self.program.size(axis) == 0 {
            let mut axes: Vec<AxisId> = self.graph().axes(v).iter().copied().filter(|a| *a != axis).collect();
            axes.extend(along.iter().filter(|a| !axes.contains(a)).copied().collect::<Vec<_>>());
            let nan = self.graph().constant(f64::NAN, span);
            return self.graph().expand(nan, &axes, span);
        }
        let few = self.program.len(&along) <= self.program.size(axis) && !along.iter().any(|a| self.batch == Some(*a));
        if few && !along.is_empty() && along.iter().all(|a| self.graph().axes(v).contains(a)) {
            return Pick { axis, at }.diagonal(self.graph(), v, span);
        }
        self.graph().gather(v, axis, at, span)
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
    pub(super) fn descending(&mut self, v: ValueId, axis: AxisId, span: Span) -> ValueId {
        let v = self.ensure(v, &[axis], span);
        let n = self.graph().neg(v, span);
        self.graph().argsort(n, axis, span)
    }

    pub(super) fn sort(&mut self, v: ValueId, axis: AxisId, span: Span) -> ValueId {
        let places = self.graph().argsort(v, axis, span);
        let size = self.program.size(axis);
        let rank = self.program.new_axis("rank", size);
        let places = self.graph().rename(places, axis, rank, span);
        let sorted = self.graph().gather(v, axis, places, span);
        self.graph().rename(sorted, rank, axis, span)
    }
}
