//! Acting: the present step, and what the next one remembers.

use super::{Binding, Entry, Lower, Result, Which};
use crate::ir::{AxisId, Role, ValueId};
use dsl::hir::{self, FamilyId, Index, StateValue};
use dsl::source::Span;

/// The input that says where an episode begins.
pub const FIRST: &str = "data.first";

impl Lower<'_> {
    /// A value of the training system at the present step of an agent: computed, or remembered from an earlier one.
    pub(super) fn read_now(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        let now = |cx: &Self, i: &Index| i.terms.iter().any(|(v, _)| cx.bindings.get(v) == Some(&Binding::Now));
        let timeless = self.model.act.as_ref().is_some_and(|act| act.timeless.contains(&family));
        if timeless && !index.iter().any(|i| now(self, i)) {
            let which = std::mem::replace(&mut self.which, Which::Train);
            let value = self.read(family, leaf, index, span);
            self.which = which;
            return value;
        }
        let [index] = index else { return self.unsupported("acting reads values of a single step", span) };
        let which = std::mem::replace(&mut self.which, Which::Train);
        let value = self.value_now(family, leaf, index, span);
        self.which = which;
        value
    }

    pub(super) fn value_now(&mut self, family: FamilyId, leaf: usize, index: &Index, span: Span) -> Result<ValueId> {
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
                Some(e) => {
                    let value = self.expr(e)?;
                    self.target_now(family, leaf, value, span)
                }
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
        let value = self.expr(e)?;
        self.target_now(family, leaf, value, span)
    }

    pub(super) fn state_name(&self, value: StateValue, lag: i64) -> String {
        let name = match value {
            StateValue::Input(i) => self.model.inputs[i].name.clone(),
            StateValue::Family { family, leaf } => {
                let f = self.system().family(family);
                // A memory's carry has the name of the carry itself.
                match f.leaves[leaf].path.as_str() {
                    "" => f.name.clone(),
                    path => format!("{}.{}", f.name, path.strip_prefix("carry.").unwrap_or(path)),
                }
            }
        };
        if lag == 1 { format!("carry.{name}") } else { format!("carry.{name}@{lag}") }
    }

    pub(super) fn state_axes(&mut self, value: StateValue) -> Result<Vec<AxisId>> {
        let own = match value {
            StateValue::Input(i) => self.model.inputs[i].axes.clone(),
            StateValue::Family { family, leaf } => self.system().family(family).leaves[leaf].axes.clone(),
        };
        let mut axes: Vec<AxisId> = self.batch.into_iter().collect();
        axes.extend(self.axes(&own)?);
        Ok(axes)
    }

    pub(super) fn remembered(&mut self, value: StateValue, lag: i64, span: Span) -> Result<ValueId> {
        if !self.remembers.contains(&(value, lag)) {
            self.remembers.push((value, lag));
        }
        let axes = self.state_axes(value)?;
        let name = self.state_name(value, lag);
        let given = self.input(name.clone(), Role::Carry, axes, span);
        self.begun(name, given, span, |cx| cx.base_case(value, lag, span))
    }

    /// What an agent remembers, or its start where `first` says that an episode begins now. Acting has this input whether or
    /// not the model reads the field.
    pub(super) fn begun(
        &mut self,
        name: String,
        given: ValueId,
        span: Span,
        start: impl FnOnce(&mut Self) -> Result<ValueId>,
    ) -> Result<ValueId> {
        let acting = matches!(self.entry, Entry::Act | Entry::Plan);
        // A model may use the name for something else.
        let flag =
            |(i, field): (usize, &hir::Input)| field.name != "first" || field.axes.is_empty() && i != self.model.action.input;
        if !acting || !self.model.inputs.iter().enumerate().all(flag) {
            return Ok(given);
        }
        if let Some(v) = self.begun.get(&name) {
            return Ok(*v);
        }
        let batch = self.batch.into_iter().collect();
        let first = self.input(FIRST.to_string(), Role::Data, batch, span);
        let start = start(self)?;
        let axes = self.graph().axes(given).to_vec();
        let start = self.ensure(start, &axes, span);
        let value = self.graph().select(first, start, given, span);
        let value = self.ordered(value, &axes, span);
        self.begun.insert(name, value);
        Ok(value)
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

    pub(super) fn act(&mut self, training: bool) -> Result<()> {
        let Some(act) = &self.model.act else { return self.no_entry("it does not act") };
        self.bindings.insert(act.now, Binding::Now);
        self.lower_timeless()?;
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
}
