//! Context: what a segment remembers of the steps before it.
//!
//! A segment's recurrences start from their base cases: `m[-1]`. Where the source says `context = n`, they start from what the
//! same equations give at the steps before the segment. The program `context` computes one of these steps: from the data of the
//! step and what was remembered before it, what the next one remembers. Whoever runs it does so step by step and hands the
//! outcome to the programs of the segment, which read it in place of their base cases. So nothing is differentiated through it.

use super::{Entry, Lower, Result, Which};
use crate::ir::{Role, ValueId};
use dsl::hir::{FamilyId, Index, Lhs, Op as Hir, StateValue};
use dsl::source::Span;

impl Lower<'_> {
    /// The value of a family at a step before the segment, where segments have a past.
    pub(super) fn past(&mut self, family: FamilyId, leaf: usize, at: i64, span: Span) -> Result<Option<ValueId>> {
        let reads = matches!(self.entry, Entry::TrainStep | Entry::Evaluate) && self.which != Which::Act;
        if !reads || !self.model.has_context() || at >= 0 || !self.goes_on(family) {
            return Ok(None);
        }
        self.remembered(StateValue::Family { family, leaf }, -at, span).map(Some)
    }

    /// Whether a family of one subscript has more than base cases.
    fn goes_on(&self, family: FamilyId) -> bool {
        let system = self.system();
        let along = |lhs: &[Lhs]| matches!(lhs, [Lhs::Var { offset: 0, .. }]);
        system.family(family).defs.iter().any(|d| along(&system.def(*d).lhs))
    }

    /// `begins` is true for samples of which the next step is the first that there is: it remembers the base cases.
    pub(super) fn context(&mut self) -> Result<()> {
        if !self.model.has_context() {
            return self.no_entry("its source has no `context`");
        }
        let span = Span::default();
        let batch: Vec<_> = self.batch.into_iter().collect();
        let begins = self.input("begins".into(), Role::Data, batch, span);
        // The evaluation may read equations that the training does not have.
        for which in [Which::Train, Which::Evaluate] {
            self.which = which;
            self.remembers = self.starts();
            // What is computed for one may need more of them.
            let mut next = 0;
            while let Some((value, lag)) = self.remembers.get(next).copied() {
                next += 1;
                self.step_of(value, lag, begins, span)?;
            }
        }
        if self.program.outputs.is_empty() {
            return self.no_entry("no equation reaches back beyond a segment's start");
        }
        Ok(())
    }

    /// What the present system reads before a segment's first step.
    fn starts(&self) -> Vec<(StateValue, i64)> {
        let system = self.system();
        let mut found = Vec::new();
        for def in system.defs.iter().filter(|d| self.goes_on(d.family)) {
            if let [Lhs::At(at)] = def.lhs[..]
                && at < 0
            {
                found.extend((0..def.values.len()).map(|leaf| (StateValue::Family { family: def.family, leaf }, -at)));
            }
        }
        found
    }

    /// What is remembered of a value after the step.
    fn step_of(&mut self, value: StateValue, lag: i64, begins: ValueId, span: Span) -> Result<()> {
        let name = self.state_name(value, lag);
        if self.program.outputs.iter().any(|o| o.name == format!("next.{name}")) {
            return Ok(());
        }
        let axes = self.state_axes(value)?;
        let now = if lag > 1 { self.remembered(value, lag - 1, span)? } else { self.state_now(value, span)? };
        let start = self.base_case(value, lag, span)?;
        let (now, start) = (self.ensure(now, &axes, span), self.ensure(start, &axes, span));
        let chosen = self.graph().select(begins, start, now, span);
        let chosen = self.ordered(chosen, &axes, span);
        self.input(name.clone(), Role::Carry, axes, span);
        self.output(format!("next.{name}"), chosen, Some(name));
        Ok(())
    }

    fn state_now(&mut self, value: StateValue, span: Span) -> Result<ValueId> {
        match value {
            StateValue::Input(input) => {
                let own = self.axes(&self.model.inputs[input].axes.clone())?;
                self.data_now(input, 0, own, span)
            }
            StateValue::Family { family, leaf } => {
                let system = self.system();
                let vars = system.family(family).defs.iter().filter_map(|d| match system.def(*d).lhs[..] {
                    [Lhs::Var { var, .. }] => Some(var),
                    _ => None,
                });
                match vars.into_iter().next() {
                    Some(var) => self.value_now(family, leaf, &Index { terms: vec![(var, 1)], offset: 0 }, span),
                    None => self.unsupported("a value is remembered that no equation gives", span),
                }
            }
        }
    }

    /// What a value is said to be before the first step, zero if nothing is said.
    pub(super) fn base_case(&mut self, value: StateValue, lag: i64, span: Span) -> Result<ValueId> {
        let system = self.system();
        let said = match value {
            StateValue::Input(_) => None,
            StateValue::Family { family, leaf } => {
                let defs = system.family(family).defs.iter().map(|d| system.def(*d));
                defs.filter(|d| d.lhs[..] == [Lhs::At(-lag)]).map(|d| d.values[leaf]).next()
            }
        };
        let Some(e) = said else { return Ok(self.graph().constant(0.0, span)) };
        // A memory starts from what its block says.
        match self.model.node(e).op {
            Hir::Carry(c) => self.expr(self.model.carries[c].init),
            _ => self.expr(e),
        }
    }
}
