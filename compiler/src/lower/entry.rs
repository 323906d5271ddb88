//! The programs of a model.

use dsl::hir::{self, ExprId, FamilyId, Index, Op as Hir, ParamId, StateValue, VarId};
use dsl::source::Span;

use super::family::{Piece, Span1, Want};
use super::{Binding, Entry, Lower, LowerError, Result, Which};
use crate::grad;
use crate::ir::{AxisId, Op, Role, Unary, ValueId};

/// What the names of an update rule mean for one parameter.
#[derive(Debug, Clone)]
pub(crate) struct RuleValues {
    entries: hir::AxisId,
    axes: Vec<AxisId>,
    weight: ValueId,
    gradient: ValueId,
    total_norm: ValueId,
    count: ValueId,
    scale: f64,
    slots: Vec<ValueId>,
}

impl Lower<'_> {
    pub(super) fn run(&mut self, entry: Entry) -> Result<()> {
        match entry {
            Entry::TrainStep => self.train_step(),
            Entry::Evaluate => self.evaluate(),
            Entry::Act => self.act(true),
            Entry::Plan => self.act(false),
            Entry::Record => self.record(),
            Entry::Schedules => self.schedules(),
            Entry::Init => self.init(),
        }
    }

    fn no_entry<T>(&self, why: &'static str) -> Result<T> {
        Err(LowerError::NoEntry { model: self.model.name.clone(), entry: self.entry.name(), why })
    }

    // ---- reads that depend on the program

    /// A read of a family of the present system.
    pub(super) fn read_family(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        if self.which == Which::Train && matches!(self.entry, Entry::Act | Entry::Plan) {
            return self.read_now(family, leaf, index, span);
        }
        // Outside the program that computes them, recorded values are data.
        if self.which != Which::Act && self.entry != Entry::Record && self.is_record(family) {
            if self.depth() > 0 {
                let index = index.to_vec();
                return self.outside(|cx| cx.read_family(family, leaf, &index, span));
            }
            return self.recorded(family, leaf, index, span);
        }
        self.read(family, leaf, index, span)
    }

    pub(super) fn is_record(&self, family: FamilyId) -> bool {
        let name = &self.system().family(family).name;
        self.model.records.iter().any(|r| self.model.train.family(*r).name == *name)
    }

    pub(super) fn leaf_name(&self, family: FamilyId, leaf: usize) -> String {
        let f = self.system().family(family);
        match f.leaves[leaf].path.as_str() {
            "" => f.name.clone(),
            path => format!("{}.{path}", f.name),
        }
    }

    fn recorded(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        let name = format!("record.{}", self.leaf_name(family, leaf));
        let rows = self.rows.unwrap_or(0);
        let value = match self.inputs.get(&name) {
            Some(v) => *v,
            None => {
                let own = self.system().family(family).leaves[leaf].axes.clone();
                let mut axes = vec![self.program.new_axis("T", rows as usize)];
                axes.extend(self.axes(&own)?);
                self.input(name, Role::Record, axes, span)
            }
        };
        let axis = self.frames[0].graph.axes(value)[0];
        let piece = Piece {
            def: hir::DefId(u32::MAX),
            depth: 0,
            leaves: vec![value],
            spans: vec![Span1::Along { axis, lo: 0, size: rows }],
        };
        match index {
            [index] => self.read_piece(&piece, index, span),
            _ => self.unsupported("a recorded value has one subscript", span),
        }
    }

    /// A read of one array along time.
    pub(super) fn read_piece(&mut self, piece: &Piece, index: &Index, span: Span) -> Result<ValueId> {
        let want = match self.want(index) {
            Some(w @ (Want::At(_) | Want::Along { .. })) => w,
            _ => {
                // Several variables in one subscript: gathered.
                let Some(Span1::Along { axis, lo, .. }) = piece.spans.first().copied() else {
                    return self.unsupported("a read of data at this subscript", span);
                };
                let places = self.index_value(index, span)?;
                let first = self.graph().constant(-lo as f64, span);
                let places = self.graph().add(places, first, span);
                return Ok(self.graph().gather(piece.leaves[0], axis, places, span));
            }
        };
        Ok(self.cut(piece, 0, &[want], span))
    }

    /// A value of the training system at the present step of an agent: computed, or remembered from an earlier one.
    pub(super) fn read_now(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        let [index] = index else { return self.unsupported("acting reads values of a single step", span) };
        let which = std::mem::replace(&mut self.which, Which::Train);
        let value = self.value_now(family, leaf, index, span);
        self.which = which;
        value
    }

    fn value_now(&mut self, family: FamilyId, leaf: usize, index: &Index, span: Span) -> Result<ValueId> {
        if self.depth() > 0 {
            let index = index.clone();
            return self.outside(|cx| cx.value_now(family, leaf, &index, span));
        }
        if let Some(at) = index.constant() {
            // A base case at a fixed step.
            let system = self.system();
            let base =
                system.family(family).defs.iter().map(|d| system.def(*d)).find(|d| d.lhs.first() == Some(&hir::Lhs::At(at)));
            return match base.map(|d| d.values[leaf]) {
                Some(e) => self.expr(e),
                None => self.unsupported("acting reads a value at a fixed step", span),
            };
        }
        let lag = -index.offset;
        if lag > 0 {
            return self.remembered(StateValue::Family { family, leaf }, lag, span);
        }
        let system = self.system();
        let def = system
            .family(family)
            .defs
            .iter()
            .map(|d| system.def(*d))
            .find(|d| matches!(d.lhs.first(), Some(hir::Lhs::Var { .. })));
        let Some(def) = def else { return self.unsupported("acting reads a value that no equation gives", span) };
        let (var, offset, e) = match def.lhs.first() {
            Some(hir::Lhs::Var { var, offset }) => (*var, *offset, def.values[leaf]),
            _ => return self.unsupported("acting reads a value that no equation gives", span),
        };
        if offset != 0 {
            let name = system.family(family).name.clone();
            return self.unsupported(format!("acting reads `{name}`, which is defined a step ahead"), span);
        }
        self.bindings.insert(var, Binding::Now);
        self.expr(e)
    }

    fn state_name(&self, value: StateValue, lag: i64) -> String {
        let name = match value {
            StateValue::Input(i) => self.model.inputs[i].name.clone(),
            StateValue::Family { family, leaf } => {
                let f = self.model.train.family(family);
                // A memory's carry has the name of the carry itself.
                match f.leaves[leaf].path.as_str() {
                    "" => f.name.clone(),
                    path => format!("{}.{}", f.name, path.strip_prefix("carry.").unwrap_or(path)),
                }
            }
        };
        if lag == 1 { format!("carry.{name}") } else { format!("carry.{name}@{lag}") }
    }

    fn state_axes(&mut self, value: StateValue) -> Result<Vec<AxisId>> {
        let own = match value {
            StateValue::Input(i) => self.model.inputs[i].axes.clone(),
            StateValue::Family { family, leaf } => self.model.train.family(family).leaves[leaf].axes.clone(),
        };
        let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
        axes.extend(self.axes(&own)?);
        Ok(axes)
    }

    fn remembered(&mut self, value: StateValue, lag: i64, span: Span) -> Result<ValueId> {
        let axes = self.state_axes(value)?;
        Ok(self.input(self.state_name(value, lag), Role::Carry, axes, span))
    }

    /// A field of the data at the present step of an agent.
    pub(super) fn data_now(&mut self, input: usize, offset: i64, own: Vec<AxisId>, span: Span) -> Result<ValueId> {
        if offset < 0 {
            return self.remembered(StateValue::Input(input), -offset, span);
        }
        if input == self.model.action.input
            && let Some(action) = self.action
        {
            return Ok(action);
        }
        let name = format!("data.{}", self.model.inputs[input].name);
        let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
        axes.extend(own);
        Ok(self.input(name, Role::Data, axes, span))
    }

    /// A running statistic: the updated value without a gradient; the old one inside its own definition.
    pub(super) fn running(&mut self, i: usize, span: Span) -> Result<ValueId> {
        let running = &self.model.running[i];
        let old = self.input(format!("running.{}", running.name), Role::Running, Vec::new(), span);
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

    // ---- training

    fn train_step(&mut self) -> Result<()> {
        self.lower_system()?;
        let progress = || "progress".to_string();
        let mut terms: Vec<(Option<usize>, ValueId)> = Vec::new();
        for loss in &self.model.losses {
            let mut total: Option<ValueId> = None;
            for part in &loss.parts {
                let mean = self.mean(part.value, part.condition, &part.vars, &[], loss.span)?;
                self.output(format!("loss.{}", part.name), mean, None);
                total = Some(match total {
                    Some(t) => self.graph().add(t, mean, loss.span),
                    None => mean,
                });
            }
            let Some(mut value) = total else { continue };
            if loss.parts.len() > 1 {
                self.output(format!("loss.{}", loss.name), value, None);
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
        for (o, optimizer) in self.model.optimizers.iter().enumerate() {
            let span = optimizer.span;
            let mut objective = self.graph().constant(0.0, span);
            for (_, term) in terms.iter().filter(|(only, _)| only.is_none_or(|x| x == o)) {
                objective = self.graph().add(objective, *term, span);
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
    fn mean(&mut self, value: ExprId, condition: Option<ExprId>, vars: &[VarId], keep: &[VarId], span: Span) -> Result<ValueId> {
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

    /// The optimiser's rule for each of its parameters.
    fn apply_rule(&mut self, o: usize, weights: &[ValueId], gradients: &[ValueId]) -> Result<Vec<(ParamId, ValueId)>> {
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
        let mut updated = Vec::new();
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
            self.rule = None;
            let name = format!("param.{path}");
            self.output(format!("next.{name}"), v, Some(name));
            updated.push((*p, v));
        }
        Ok(updated)
    }

    pub(super) fn rule_value(&mut self, op: &Hir, span: Span) -> Result<ValueId> {
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

    /// Gives out every equation of a system: its values over the subscripts of its own equations, base cases left out.
    fn observe(&mut self, which: Which) -> Result<()> {
        self.which = which;
        let system = self.system();
        for (i, family) in system.families.iter().enumerate() {
            let id = FamilyId(i as u32);
            let mut ranges: Vec<Option<(i64, i64)>> = vec![None; family.arity];
            for def in family.defs.iter().map(|d| system.def(*d)).filter(|d| !d.base) {
                for (range, lhs) in ranges.iter_mut().zip(&def.lhs) {
                    let (lo, hi) = match lhs {
                        hir::Lhs::At(at) => (*at, at + 1),
                        hir::Lhs::Var { var, offset } => {
                            let (lo, hi) = self.var_range(*var);
                            (lo + offset, hi + offset)
                        }
                    };
                    *range = Some(range.map_or((lo, hi), |(a, b)| (a.min(lo), b.max(hi))));
                }
            }
            let Some(ranges) = ranges.into_iter().collect::<Option<Vec<_>>>() else { continue };
            for leaf in 0..family.leaves.len() {
                let mut axes: Vec<AxisId> = Vec::new();
                let wants: Vec<Want> = ranges
                    .iter()
                    .map(|(lo, hi)| {
                        let axis = self.program.new_axis("at", (hi - lo) as usize);
                        axes.push(axis);
                        Want::Along { axis, lo: *lo, size: hi - lo }
                    })
                    .collect();
                let span = Span::default();
                // Families that this program does not compute (recorded ones) are left out.
                let Ok(value) = self.read_box(id, leaf, &wants, span) else { continue };
                let own = self.axes(&family.leaves[leaf].axes.clone())?;
                let batch: Vec<AxisId> = self.batch.into_iter().filter(|b| self.graph().axes(value).contains(b)).collect();
                let order: Vec<AxisId> = batch.into_iter().chain(axes).chain(own).collect();
                let value = self.ensure(value, &order, span);
                let value = self.ordered(value, &order, span);
                self.output(format!("value.{}", self.leaf_name(id, leaf)), value, None);
            }
        }
        Ok(())
    }

    /// The same value with its axes in a given order.
    fn ordered(&mut self, v: ValueId, order: &[AxisId], span: Span) -> ValueId {
        if self.graph().axes(v) == order {
            return v;
        }
        self.graph().push(Op::Id(v), order.to_vec(), span)
    }

    // ---- evaluation

    fn evaluate(&mut self) -> Result<()> {
        if self.model.metrics.is_empty() && self.model.diagnose.is_empty() {
            return self.no_entry("it has no metrics and no `diagnose`");
        }
        self.metrics()?;
        if self.options.observe {
            self.observe(Which::Evaluate)?;
        }
        Ok(())
    }

    fn metrics(&mut self) -> Result<()> {
        let outer = std::mem::replace(&mut self.which, Which::Evaluate);
        self.lower_system()?;
        for metric in &self.model.metrics {
            let mean = self.mean(metric.value, metric.condition, &metric.vars, &metric.kept, metric.span)?;
            self.output(format!("metric.{}", metric.name), mean, None);
        }
        for d in &self.model.diagnose {
            for var in &d.vars {
                self.bind_var(*var);
            }
            let v = self.expr(d.value)?;
            let mut order: Vec<AxisId> = self.batch.into_iter().filter(|b| self.graph().axes(v).contains(b)).collect();
            order.extend(d.vars.iter().map(|var| self.bind_var(*var).0).collect::<Vec<_>>());
            order.extend(self.axes(&self.model.node(d.value).axes.clone())?);
            let span = self.model.node(d.value).span;
            let v = self.ensure(v, &order, span);
            let v = self.ordered(v, &order, span);
            self.output(format!("diagnose.{}", d.name), v, None);
        }
        self.which = outer;
        Ok(())
    }

    // ---- on-policy data

    fn record(&mut self) -> Result<()> {
        if self.model.records.is_empty() {
            return self.no_entry("it records nothing");
        }
        self.lower_system()?;
        for id in &self.model.records {
            let family = self.model.train.family(*id);
            let (lo, hi) = family.domain.first().copied().unwrap_or((0, 0));
            for leaf in 0..family.leaves.len() {
                let axis = self.program.new_axis("T", (hi - lo) as usize);
                let value = self.read_box(*id, leaf, &[Want::Along { axis, lo, size: hi - lo }], Span::default())?;
                let mut order = vec![axis];
                order.extend(self.axes(&family.leaves[leaf].axes.clone())?);
                let value = self.ensure(value, &order, Span::default());
                let value = self.ordered(value, &order, Span::default());
                self.output(format!("record.{}", self.leaf_name(*id, leaf)), value, None);
            }
        }
        Ok(())
    }

    // ---- acting

    fn act(&mut self, training: bool) -> Result<()> {
        let Some(act) = &self.model.act else { return self.no_entry("it does not act") };
        self.bindings.insert(act.now, Binding::Now);
        self.which = Which::Act;
        self.lower_system()?;
        let chosen = self.expr(if training { act.train } else { act.eval })?;
        let span = self.model.node(act.eval).span;
        let input = &self.model.inputs[self.model.action.input];
        let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
        axes.extend(self.axes(&input.axes.clone())?);
        let action = self.ensure(chosen, &axes, span);
        let action = self.ordered(action, &axes, span);
        self.output("action", action, None);
        if self.options.observe {
            let other = if training { "eval" } else { "train" };
            for (name, e) in act.values.iter().filter(|(name, _)| name != other) {
                let value = self.expr(*e)?;
                let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
                axes.extend(self.axes(&self.model.node(*e).axes.clone())?);
                let value = self.ensure(value, &axes, span);
                let value = self.ordered(value, &axes, span);
                self.output(format!("value.{name}"), value, None);
            }
            self.observe(Which::Act)?;
        }
        for (carry, e) in &act.next {
            self.which = Which::Act;
            let value = self.expr(*e)?;
            let name = format!("carry.{}", self.model.carries[*carry].path);
            let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
            axes.extend(self.axes(&self.model.carries[*carry].axes.clone())?);
            let value = self.ensure(value, &axes, span);
            let value = self.ordered(value, &axes, span);
            self.output(format!("next.{name}"), value, Some(name));
        }
        // The step is over: what the next one remembers follows from the action that was taken.
        self.action = Some(action);
        self.which = Which::Train;
        let memo = std::mem::take(&mut self.frames[0].memo);
        for state in &act.state {
            let axes = self.state_axes(state.value)?;
            let value = if state.lag > 1 {
                self.remembered(state.value, state.lag - 1, span)?
            } else {
                match state.value {
                    StateValue::Input(i) => self.data_now(i, 0, axes[usize::from(self.batch.is_some())..].to_vec(), span)?,
                    StateValue::Family { family, leaf } => {
                        self.value_now(family, leaf, &Index { terms: vec![(act.now, 1)], offset: 0 }, span)?
                    }
                }
            };
            let value = self.ensure(value, &axes, span);
            let value = self.ordered(value, &axes, span);
            let name = self.state_name(state.value, state.lag);
            // The old value is an input even where nothing reads it.
            self.input(name.clone(), Role::Carry, axes, span);
            self.output(format!("next.{name}"), value, Some(name));
        }
        self.frames[0].memo = memo;
        Ok(())
    }

    // ---- schedules and initial values

    fn schedules(&mut self) -> Result<()> {
        for s in &self.model.schedules {
            let value = self.expr(s.value)?;
            self.output(format!("schedule.{}", s.name), value, None);
        }
        Ok(())
    }

    fn init(&mut self) -> Result<()> {
        self.batch = None;
        for p in &self.model.params {
            let value = self.expr(p.init)?;
            let axes = self.axes(&p.axes)?;
            let value = self.ensure(value, &axes, p.span);
            let value = self.ordered(value, &axes, p.span);
            self.output(format!("param.{}", p.path), value, None);
        }
        for c in &self.model.carries {
            let value = self.expr(c.init)?;
            let axes = self.axes(&c.axes)?;
            let span = self.model.node(c.init).span;
            let value = self.ensure(value, &axes, span);
            let value = self.ordered(value, &axes, span);
            self.output(format!("carry.{}", c.path), value, None);
        }
        for r in &self.model.running {
            let value = self.expr(r.init)?;
            self.output(format!("running.{}", r.name), value, None);
        }
        Ok(())
    }
}
