//! Checks a model that was read from a file instead of being made by the checker.
//!
//! Later passes index the tables of a [`Model`] without asking. This says whether every number in it is the place of
//! something, whether expressions come in dependency order, and whether what is computed when a model starts can be
//! computed then, so that a crafted file ends in a message.

use super::{
    Action, AxisId, ExprId, FamilyId, Index, Lhs, Model, Op, ParamId, ReduceOp, Source, Stage, StateValue, System, VarId,
};

/// Sizes and ranges stay below this, so that sums and products of a few of them do not overflow.
const LARGEST: i64 = 1 << 40;

/// Factors of a product in an initial value, which is written out.
const MAX_FACTORS: usize = 1 << 16;

type Checked = Result<(), String>;

fn within(what: &str, id: usize, len: usize) -> Checked {
    if id < len { Ok(()) } else { Err(format!("the model has no {what} {id}; there are {len}")) }
}

impl Model {
    /// Whether all references are in range and in order.
    pub fn validate(&self) -> Result<(), String> {
        self.sizes()?;
        self.dims.iter().try_for_each(|dim| self.has_axis(dim.axis))?;
        self.inputs.iter().try_for_each(|input| self.has_axes(&input.axes))?;
        let Action { input, low, high } = self.action;
        within("input", input, self.inputs.len())?;
        if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) {
            return Err(format!("actions lie between {low} and {high}"));
        }
        self.latents.iter().flat_map(|latent| &latent.fields).try_for_each(|(_, axes)| self.has_axes(axes))?;
        for (i, node) in self.exprs.iter().enumerate() {
            self.has_axes(&node.axes)?;
            let mut operands = Ok(());
            node.op.operands(|ExprId(id)| {
                if id as usize >= i && operands.is_ok() {
                    operands = Err(format!("expression {i} of the model reads expression {id}, which does not come before it"));
                }
            });
            operands?;
            self.op(&node.op)?;
        }
        for module in &self.modules {
            module.params.iter().try_for_each(|param| self.has_param(*param))?;
            module.ensemble.map_or(Ok(()), |axis| self.has_axis(axis))?;
        }
        for param in &self.params {
            self.has_axes(&param.axes)?;
            self.has_expr(param.init)?;
            within("module", param.module, self.modules.len())?;
        }
        for carry in &self.carries {
            self.has_axes(&carry.axes)?;
            self.has_expr(carry.init)?;
        }
        self.schedules.iter().try_for_each(|schedule| self.has_expr(schedule.value))?;
        for running in &self.running {
            self.has_expr(running.value)?;
            self.has_expr(running.init)?;
            self.has_vars(&running.vars)?;
        }
        for draw in &self.draws {
            self.has_axes(&draw.axes)?;
            self.has_vars(&draw.vars)?;
        }
        for loss in &self.losses {
            self.has_expr(loss.weight)?;
            loss.optimizer.map_or(Ok(()), |o| within("optimiser", o, self.optimizers.len()))?;
            for part in &loss.parts {
                self.conditioned(part.value, part.condition, &part.vars)?;
            }
        }
        for metric in &self.metrics {
            self.conditioned(metric.value, metric.condition, &metric.vars)?;
            self.has_vars(&metric.kept)?;
        }
        self.diagnose.iter().try_for_each(|d| self.conditioned(d.value, None, &d.vars))?;
        for optimizer in &self.optimizers {
            optimizer.params.iter().try_for_each(|(param, _)| self.has_param(*param))?;
            self.has_axis(optimizer.rule.entries)?;
            optimizer.rule.next.iter().chain([&optimizer.rule.value]).try_for_each(|e| self.has_expr(*e))?;
            within("slot value", optimizer.rule.slots.len().saturating_sub(1), optimizer.rule.next.len().max(1))?;
            optimizer.after.iter().try_for_each(|o| within("optimiser", *o, self.optimizers.len()))?;
            optimizer.sees.iter().try_for_each(|param| self.has_param(*param))?;
        }
        let order = self.optimizers_in_order();
        if order.len() < self.optimizers.len() {
            return Err("optimisers of the model wait for each other".to_string());
        }
        for (i, o) in order.iter().enumerate() {
            let stepped: Vec<ParamId> = order[..i].iter().flat_map(|o| &self.optimizers[*o].params).map(|(p, _)| *p).collect();
            if let Some(param) = self.optimizers[*o].sees.iter().find(|p| !stepped.contains(p)) {
                return Err(format!("optimiser {o} of the model sees parameter {}, which does not change before it", param.0));
            }
        }
        match &self.source {
            Source::Replay { batch, time, .. } => [batch, time].into_iter().try_for_each(|dim| self.has_axis(dim.axis))?,
            Source::Rollout { time, .. } => self.has_axis(time.axis)?,
        }
        if self.settings.steps == 0 {
            return Err("the model's training has no steps".to_string());
        }
        self.systems()?;
        self.starts()
    }

    /// Sizes and ranges that can be counted with.
    fn sizes(&self) -> Checked {
        for axis in &self.axes {
            let fits = axis.size.value().is_none_or(|size| (0..=LARGEST).contains(&size));
            if !fits {
                return Err(format!("the axis `{}` has the size {}", axis.name, axis.size));
            }
        }
        self.vars.iter().try_for_each(|var| range(&var.name, (var.lo, var.hi)))
    }

    /// What is computed when a model starts: initial values, which read nothing, and schedules, which read the progress.
    fn starts(&self) -> Checked {
        let values = self.params.iter().map(|p| p.init).chain(self.carries.iter().map(|c| c.init));
        let values = values.chain(self.running.iter().map(|r| r.init));
        let mut needed = vec![false; self.exprs.len()];
        values.chain(self.schedules.iter().map(|s| s.value)).for_each(|e| needed[e.0 as usize] = true);
        for (i, node) in self.exprs.iter().enumerate().rev() {
            if needed[i] {
                self.start(&node.op)?;
                node.op.operands(|e| needed[e.0 as usize] = true);
            }
        }
        Ok(())
    }

    fn start(&self, op: &Op) -> Checked {
        match op {
            // Written out entry by entry.
            Op::Reduce { op: ReduceOp::Prod, over, .. } => {
                let sizes = over.iter().map(|axis| self.axis(*axis).size.value().unwrap_or(0));
                within("factor", sizes.fold(0, i64::saturating_add) as usize, MAX_FACTORS)
            }
            Op::Fold { op: ReduceOp::Prod, .. } | Op::Fold { batch: true, .. } | Op::Collect { .. } | Op::Grad { .. } => {
                Err("an initial value or a schedule reads samples or gradients".to_string())
            }
            Op::Input { .. }
            | Op::Param(_)
            | Op::Slow(_)
            | Op::Schedule(_)
            | Op::Running(_)
            | Op::Carry(_)
            | Op::Read { .. }
            | Op::Outer { .. }
            | Op::Weight
            | Op::Gradient
            | Op::TotalNorm
            | Op::Count
            | Op::Scale
            | Op::Slot(_)
            | Op::Hole(_) => Err("an initial value or a schedule reads what is not there when a model starts".to_string()),
            _ => Ok(()),
        }
    }

    fn systems(&self) -> Checked {
        self.system(&self.train)?;
        self.system(&self.evaluate)?;
        self.records.iter().try_for_each(|family| has_family(&self.train, *family))?;
        let Some(act) = &self.act else { return Ok(()) };
        self.system(&act.system)?;
        self.has_vars(&[act.now])?;
        let values = act.values.iter().map(|(_, e)| e).chain(act.next.iter().map(|(_, e)| e)).chain([&act.train, &act.eval]);
        values.into_iter().try_for_each(|e| self.has_expr(*e))?;
        act.next.iter().try_for_each(|(carry, _)| within("carry", *carry, self.carries.len()))?;
        for state in &act.state {
            range("lag", (0, state.lag))?;
            match state.value {
                StateValue::Input(input) => within("input", input, self.inputs.len())?,
                StateValue::Family { family, leaf } => {
                    has_family(&self.train, family)?;
                    within("field", leaf, self.train.family(family).leaves.len())?;
                }
            }
        }
        Ok(())
    }

    fn system(&self, system: &System) -> Checked {
        for family in &system.families {
            family.leaves.iter().try_for_each(|leaf| self.has_axes(&leaf.axes))?;
            family.defs.iter().try_for_each(|def| within("equation", def.0 as usize, system.defs.len()))?;
            family.domain.iter().try_for_each(|domain| range(&family.name, *domain))?;
            if family.domain.len() != family.arity {
                return Err(format!("`{}` has {} subscripts and {} ranges", family.name, family.arity, family.domain.len()));
            }
        }
        for def in &system.defs {
            has_family(system, def.family)?;
            let family = system.family(def.family);
            if (def.lhs.len(), def.values.len()) != (family.arity, family.leaves.len()) {
                return Err(format!("an equation of `{}` has other subscripts or fields than `{}`", family.name, family.name));
            }
            self.has_vars(&def.vars)?;
            def.values.iter().try_for_each(|e| self.has_expr(*e))?;
            for lhs in &def.lhs {
                match lhs {
                    Lhs::Var { var, offset } => {
                        self.has_vars(&[*var])?;
                        range("subscript", (0, *offset))?;
                    }
                    Lhs::At(at) => range("subscript", (0, *at))?,
                }
            }
        }
        system.inputs.iter().try_for_each(|lo_hi| range("input", *lo_hi))?;
        stages(&system.stages, system)
    }

    fn op(&self, op: &Op) -> Checked {
        match op {
            Op::Iota(axis) => self.has_axis(*axis),
            Op::Index(index) => self.has_index(index),
            Op::Input { input, index } => {
                within("input", *input, self.inputs.len())?;
                self.has_index(index)
            }
            Op::Param(param) | Op::Slow(param) => self.has_param(*param),
            Op::Schedule(i) => within("schedule", *i, self.schedules.len()),
            Op::Running(i) => within("running statistic", *i, self.running.len()),
            Op::Carry(i) => within("carry", *i, self.carries.len()),
            Op::Draw(i) => within("draw", *i, self.draws.len()),
            Op::Slot(i) => within("slot", *i, self.optimizers.iter().map(|o| o.rule.slots.len()).max().unwrap_or(0)),
            Op::Read { index, .. } | Op::Outer { index, .. } => index.iter().try_for_each(|i| self.has_index(i)),
            Op::Reduce { over, .. } | Op::Dot { over, .. } => self.has_axes(over),
            Op::Softmax { over: axis, .. } | Op::Take { axis, .. } | Op::Sort { axis, .. } | Op::ArgMax { axis, .. } => {
                self.has_axis(*axis)
            }
            Op::Rename { from, to, .. } => [from, to].into_iter().try_for_each(|axis| self.has_axis(*axis)),
            Op::Split { axis, into, .. } => {
                self.has_axis(*axis)?;
                self.has_axes(into)
            }
            Op::Join { axes, into, .. } => {
                self.has_axis(*into)?;
                self.has_axes(axes)
            }
            Op::Concat { parts, along, into } => {
                self.has_axis(*into)?;
                within("part", along.len().max(parts.len()), parts.len().min(along.len()) + 1)?;
                along.iter().try_for_each(|axes| self.has_axes(axes))
            }
            Op::Slice { axis, into, .. } | Op::Top { axis, into, .. } => {
                [axis, into].into_iter().try_for_each(|axis| self.has_axis(*axis))
            }
            Op::At { axis, index, .. } => {
                self.has_axis(*axis)?;
                self.has_index(index)
            }
            Op::Each { var, into, .. } => {
                self.has_vars(&[*var])?;
                self.has_axis(*into)
            }
            Op::Fold { vars, .. } => self.has_vars(vars),
            Op::Collect { vars, into, .. } => {
                self.has_vars(vars)?;
                self.has_axis(*into)
            }
            // Stand-ins stay in the table when a net's parameters have been found; nothing reads them.
            Op::Hole(_)
            | Op::Const(_)
            | Op::Size(_)
            | Op::Progress
            | Op::Training
            | Op::Weight
            | Op::Gradient
            | Op::TotalNorm
            | Op::Count
            | Op::Scale
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Select(..)
            | Op::Broadcast(_)
            | Op::Stop(_)
            | Op::Alias(..)
            | Op::Grad { .. } => Ok(()),
        }
    }

    fn conditioned(&self, value: ExprId, condition: Option<ExprId>, vars: &[VarId]) -> Checked {
        self.has_expr(value)?;
        condition.map_or(Ok(()), |e| self.has_expr(e))?;
        self.has_vars(vars)
    }

    fn has_axis(&self, axis: AxisId) -> Checked {
        within("axis", axis.0 as usize, self.axes.len())
    }

    /// Axes of a value: each once.
    fn has_axes(&self, axes: &[AxisId]) -> Checked {
        axes.iter().try_for_each(|axis| self.has_axis(*axis))?;
        if let Some(i) = (1..axes.len()).find(|i| axes[..*i].contains(&axes[*i])) {
            return Err(format!("a value of the model has the axis `{}` twice", self.axis(axes[i]).name));
        }
        let sizes = axes.iter().map(|axis| self.axis(*axis).size.value().unwrap_or(1).max(1));
        match sizes.into_iter().try_fold(1i64, |n, size| n.checked_mul(size).filter(|n| *n <= LARGEST)) {
            Some(_) => Ok(()),
            None => Err("a value of the model has more entries than can be counted".to_string()),
        }
    }

    fn has_expr(&self, expr: ExprId) -> Checked {
        within("expression", expr.0 as usize, self.exprs.len())
    }

    fn has_param(&self, param: ParamId) -> Checked {
        within("parameter", param.0 as usize, self.params.len())
    }

    fn has_vars(&self, vars: &[VarId]) -> Checked {
        vars.iter().try_for_each(|var| within("index variable", var.0 as usize, self.vars.len()))
    }

    fn has_index(&self, index: &Index) -> Checked {
        range("subscript", (0, index.offset))?;
        index.terms.iter().try_for_each(|(var, factor)| {
            range("subscript", (0, *factor))?;
            self.has_vars(&[*var])
        })
    }
}

fn range(name: &str, (lo, hi): (i64, i64)) -> Checked {
    let fits = |end: i64| (-LARGEST..=LARGEST).contains(&end);
    if fits(lo) && fits(hi) { Ok(()) } else { Err(format!("`{name}` ranges over {lo}..{hi}")) }
}

fn has_family(system: &System, family: FamilyId) -> Checked {
    within("equation's name", family.0 as usize, system.families.len())
}

fn stages(list: &[Stage], system: &System) -> Checked {
    list.iter().try_for_each(|stage| match stage {
        Stage::Map(def) => within("equation", def.0 as usize, system.defs.len()),
        Stage::Scan { lo, hi, reach, body, .. } => {
            range("loop", (*lo, *hi))?;
            range("loop", (0, *reach))?;
            stages(body, system)
        }
    })
}
