//! Update rules of optimisers.

use super::{Lower, Result};
use crate::ir::{AxisId, Role, Unary, ValueId};
use dsl::hir::{self, Op as Hir, ParamId};
use dsl::source::Span;

/// What the names of an update rule mean for one parameter.
#[derive(Debug, Clone)]
pub(crate) struct RuleValues {
    entries: hir::AxisId,
    axes: Vec<AxisId>,
    weight: ValueId,
    gradient: ValueId,
    total_norm: ValueId,
    /// Whether the rule has read the norm.
    reads_norm: bool,
    count: ValueId,
    scale: f64,
    slots: Vec<ValueId>,
}

impl Lower<'_> {
    /// The optimiser's rule for each of its parameters.
    pub(super) fn apply_rule(&mut self, o: usize, weights: &[ValueId], gradients: &[ValueId]) -> Result<Vec<(ParamId, ValueId)>> {
        let optimizer = &self.model.optimizers[o];
        let span = optimizer.span;
        let mut squares = self.graph().constant(0.0, span);
        for g in gradients {
            let axes = self.graph().axes(*g).to_vec();
            let square = self.graph().mul(*g, *g, span);
            let sum = self.graph().sum(square, &axes, span);
            squares = self.graph().add(squares, sum, span);
        }
        let total_norm = self.graph().unary(Unary::Sqrt, squares, span);
        let count = self.input(format!("count.{}", optimizer.name), Role::Clock, Vec::new(), span);
        let (mut updated, mut reads_norm) = (Vec::new(), false);
        for (((p, scale), weight), gradient) in optimizer.params.iter().zip(weights).zip(gradients) {
            let path = self.model.params[p.0 as usize].path.clone();
            let axes = self.graph().axes(*weight).to_vec();
            let mut slots = Vec::new();
            for slot in &optimizer.rule.slots {
                slots.push(self.input(format!("slot.{}.{slot}.{path}", optimizer.name), Role::Slot, axes.clone(), span));
            }
            self.rule = Some(RuleValues {
                entries: optimizer.rule.entries,
                axes: axes.clone(),
                weight: *weight,
                gradient: *gradient,
                total_norm,
                reads_norm: false,
                count,
                scale: *scale,
                slots,
            });
            // The rule's expressions mean another parameter each time.
            let memo = std::mem::take(&mut self.frames[0].memo);
            for (slot, e) in optimizer.rule.slots.iter().zip(&optimizer.rule.next) {
                let v = self.expr(*e)?;
                let v = self.graph().expand(v, &axes, span);
                let name = format!("slot.{}.{slot}.{path}", optimizer.name);
                self.output(format!("next.{name}"), v, Some(name));
            }
            let v = self.expr(optimizer.rule.value)?;
            let v = self.graph().expand(v, &axes, span);
            self.frames[0].memo = memo;
            reads_norm |= self.rule.take().is_some_and(|rule| rule.reads_norm);
            let name = format!("param.{path}");
            self.output(format!("next.{name}"), v, Some(name));
            updated.push((*p, v));
        }
        // A norm that overflows clips the gradient to nothing, so the runtime watches it where it is computed anyway.
        if reads_norm {
            self.output(format!("norm.{}", optimizer.name), total_norm, None);
        }
        Ok(updated)
    }

    pub(super) fn rule_value(&mut self, op: &Hir, span: Span) -> Result<ValueId> {
        if let (Some(rule), Hir::TotalNorm) = (&mut self.rule, op) {
            rule.reads_norm = true;
        }
        let Some(rule) = self.rule.clone() else { return self.unsupported("a name of an update rule outside of one", span) };
        Ok(match op {
            Hir::Weight => rule.weight,
            Hir::Gradient => rule.gradient,
            Hir::TotalNorm => rule.total_norm,
            Hir::Count => rule.count,
            Hir::Scale => self.graph().constant(rule.scale, span),
            Hir::Slot(i) => rule.slots[*i],
            _ => return self.unsupported("not a name of an update rule", span),
        })
    }

    /// Axes of the model; in an update rule, "entries" are all axes of the parameter.
    pub(super) fn rule_axes(&mut self, axes: &[hir::AxisId]) -> Result<Vec<AxisId>> {
        let mut out = Vec::new();
        for a in axes {
            match &self.rule {
                Some(rule) if rule.entries == *a => out.extend(rule.axes.clone()),
                _ => out.push(self.axis(*a)?),
            }
        }
        Ok(out)
    }
}
