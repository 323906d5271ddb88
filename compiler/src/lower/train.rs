//! The training step: losses, gradients, slow copies, running statistics.
//!
//! Losses are lowered once, with the parameters that come in. For an optimiser that steps after another, `again` makes a
//! copy of what depends on the changed parameters.

use super::again::Again;
use super::{Entry, Lower, Result, Which};
use crate::grad;
use crate::ir::{AxisId, Role, ValueId};
use dsl::hir::{ExprId, ParamId, VarId};
use dsl::source::Span;

impl Lower<'_> {
    /// A running statistic: the updated value without a gradient; the old one inside its own definition.
    pub(super) fn running(&mut self, i: usize, span: Span) -> Result<ValueId> {
        let running = &self.model.running[i];
        let axes = self.axes(&running.axes)?;
        let old = self.input(format!("running.{}", running.name), Role::Running, axes.clone(), span);
        let updates = self.entry == Entry::TrainStep && self.which == Which::Train && self.updating != Some(i);
        if !updates {
            return Ok(old);
        }
        if let Some(v) = self.updated.get(&i) {
            return Ok(*v);
        }
        let outer = self.updating.replace(i);
        for var in running.vars.clone() {
            self.bind_var(var);
        }
        let value = self.fresh_expr(running.value)?;
        self.updating = outer;
        let value = self.ensure(value, &axes, span);
        let value = self.ordered(value, &axes, span);
        let value = self.graph().stop(value, span);
        self.updated.insert(i, value);
        Ok(value)
    }

    /// An expression with names that mean something else inside it: nothing of it is remembered.
    fn fresh_expr(&mut self, e: ExprId) -> Result<ValueId> {
        let depth = self.depth();
        let memo = std::mem::take(&mut self.frames[depth].memo);
        let value = self.expr(e);
        self.frames[depth].memo = memo;
        value
    }

    pub(super) fn train_step(&mut self) -> Result<()> {
        self.lower_system()?;
        let progress = || "progress".to_string();
        let order = self.model.optimizers_in_order();
        let mut terms: Vec<(Option<usize>, ValueId)> = Vec::new();
        let sequential = self.model.optimizers.iter().any(|o| !o.sees.is_empty());
        // Where optimisers step one after the other, losses are given out as the first one sees them that they are for.
        let mut later: Vec<(usize, String, ValueId)> = Vec::new();
        for loss in &self.model.losses {
            let mut total: Option<ValueId> = None;
            let mut values: Vec<(String, ValueId)> = Vec::new();
            for part in &loss.parts {
                let mean = self.mean(part.value, part.condition, &part.vars, &[], loss.span)?;
                values.push((format!("loss.{}", part.name), mean));
                total = Some(match total {
                    Some(t) => self.graph().add(t, mean, loss.span),
                    None => mean,
                });
            }
            let Some(mut value) = total else { continue };
            if loss.parts.len() > 1 {
                values.push((format!("loss.{}", loss.name), value));
            }
            for (name, value) in values {
                match loss.optimizer.or(order.first().copied()).filter(|_| sequential) {
                    Some(o) => later.push((o, name, value)),
                    None => self.output(name, value, None),
                }
            }
            let weight = self.expr(loss.weight)?;
            value = self.graph().mul(value, weight, loss.span);
            if let Some((from, to)) = loss.warmup {
                let now = self.input(progress(), Role::Clock, Vec::new(), loss.span);
                let factor = self.ramp(now, from, to, loss.span);
                value = self.graph().mul(value, factor, loss.span);
            }
            terms.push((loss.optimizer, value));
        }
        if self.rows.is_some() {
            self.metrics()?;
        }
        // The names of equations and metrics stay; what follows changes parameters.
        let mut updated: Vec<(ParamId, ValueId)> = Vec::new();
        let mut again = Again::default();
        for o in order {
            let optimizer = &self.model.optimizers[o];
            let span = optimizer.span;
            let own: Vec<ValueId> = terms.iter().filter(|(only, _)| only.is_none_or(|x| x == o)).map(|(_, term)| *term).collect();
            if sequential {
                self.see(&mut again, o, &updated)?;
                for (_, name, value) in later.iter().filter(|(of, ..)| *of == o) {
                    let value = again.value(&mut self.frames[0].graph, *value);
                    self.output(name.clone(), value, None);
                }
            }
            let mut objective = self.graph().constant(0.0, span);
            for term in &own {
                let term = again.value(&mut self.frames[0].graph, *term);
                objective = self.graph().add(objective, term, span);
            }
            if sequential {
                self.settle(&mut again, &own);
            }
            self.output(format!("objective.{}", optimizer.name), objective, None);
            let mut weights = Vec::new();
            for (p, _) in &optimizer.params {
                weights.push(self.param(*p, Role::Param, span)?);
            }
            let gradients = {
                let graph = &mut self.frames[0].graph;
                grad::gradients(&mut self.program.axes, graph, objective, &weights)
            };
            if self.options.observe {
                for (((p, _), weight), g) in optimizer.params.iter().zip(&weights).zip(&gradients) {
                    let axes = self.graph().axes(*weight).to_vec();
                    let g = self.ordered(*g, &axes, span);
                    self.output(format!("grad.{}", self.model.params[p.0 as usize].path), g, None);
                }
            }
            updated.extend(self.apply_rule(o, &weights, &gradients)?);
        }
        self.slow_copies(&updated)?;
        for i in 0..self.model.running.len() {
            let span = self.model.running[i].span;
            let value = self.running(i, span)?;
            let value = again.settled(value);
            let name = format!("running.{}", self.model.running[i].name);
            self.output(format!("next.{name}"), value, Some(name));
        }
        if self.options.observe {
            self.observe(Which::Train)?;
        }
        Ok(())
    }

    /// 0 before `from`, 1 after `to`, a straight line between.
    fn ramp(&mut self, now: ValueId, from: f64, to: f64, span: Span) -> ValueId {
        let g = self.graph();
        let start = g.constant(-from, span);
        let since = g.add(now, start, span);
        let part = g.scale(since, 1.0 / (to - from), span);
        let (zero, one) = (g.constant(0.0, span), g.constant(-1.0, span));
        let part = g.max(part, zero, span);
        let flipped = g.neg(part, span);
        let capped = g.max(flipped, one, span);
        g.neg(capped, span)
    }

    /// The mean over the batch and some index variables, of all entries or of those where a condition holds.
    pub(super) fn mean(
        &mut self,
        value: ExprId,
        condition: Option<ExprId>,
        vars: &[VarId],
        keep: &[VarId],
        span: Span,
    ) -> Result<ValueId> {
        let mut over: Vec<AxisId> = self.batch.into_iter().collect();
        for var in vars {
            let (axis, _) = self.bind_var(*var);
            if !keep.contains(var) {
                over.push(axis);
            }
        }
        let v = self.expr(value)?;
        let Some(condition) = condition else {
            let over: Vec<AxisId> = over.into_iter().filter(|a| self.graph().axes(v).contains(a)).collect();
            let count = self.program.len(&over) as f64;
            let sum = self.graph().sum(v, &over, span);
            return Ok(self.graph().scale(sum, 1.0 / count, span));
        };
        let c = self.expr(condition)?;
        let zero = self.graph().constant(0.0, span);
        let picked = self.graph().select(c, v, zero, span);
        let all = self.graph().axes(picked).to_vec();
        let c = self.ensure(c, &all, span);
        let (sum, count) = (self.graph().sum(picked, &over, span), self.graph().sum(c, &over, span));
        let one = self.graph().constant(1.0, span);
        let count = self.graph().max(count, one, span);
        Ok(self.graph().div(sum, count, span))
    }

    fn slow_copies(&mut self, updated: &[(ParamId, ValueId)]) -> Result<()> {
        for module in &self.model.modules {
            let Some(slow) = module.slow else { continue };
            for p in &module.params {
                let Some((_, fast)) = updated.iter().find(|(q, _)| q == p) else { continue };
                let old = self.param(*p, Role::Slow, module.span)?;
                let step = self.graph().sub(*fast, old, module.span);
                let step = self.graph().scale(step, slow.tau, module.span);
                let new = self.graph().add(old, step, module.span);
                let name = format!("slow.{}", self.model.params[p.0 as usize].path);
                self.output(format!("next.{name}"), new, Some(name));
            }
        }
        Ok(())
    }
}
