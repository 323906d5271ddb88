//! Rules for reads while acting: values of one step, and values that do not depend on data.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

use super::{Ctx, TRAIN};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{ExprId, FamilyId, Index, Lhs, Op, Stage, StateValue, System, VarId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// Families of the training that parameters, running values and schedules alone determine.
    pub(super) fn timeless(&self) -> BTreeSet<FamilyId> {
        let count = self.systems[TRAIN].families.len() as u32;
        let mut found: BTreeSet<FamilyId> = (0..count).map(FamilyId).collect();
        // A family that reads one with data in it has data in it.
        loop {
            let before = found.len();
            let kept = found.iter().copied().filter(|f| self.free_of_data(*f, &found)).collect();
            found = kept;
            if found.len() == before {
                return found;
            }
        }
    }

    fn free_of_data(&self, family: FamilyId, others: &BTreeSet<FamilyId>) -> bool {
        self.parts_of(family).all(|e| match self.draft.table.op(e) {
            Op::Input { .. } | Op::Carry(_) | Op::Draw(_) | Op::Outer { .. } | Op::Training | Op::Hole(_) => false,
            Op::Fold { batch, .. } | Op::Collect { batch, .. } => !batch,
            Op::Read { family, .. } => others.contains(family),
            _ => true,
        })
    }

    /// Some families with all that they read.
    pub(super) fn closure(&self, families: BTreeSet<FamilyId>) -> Vec<FamilyId> {
        let mut found = families.clone();
        let mut open: Vec<FamilyId> = families.into_iter().collect();
        while let Some(family) = open.pop() {
            for e in self.parts_of(family) {
                if let Op::Read { family, .. } = self.draft.table.op(e)
                    && found.insert(*family)
                {
                    open.push(*family);
                }
            }
        }
        found.into_iter().collect()
    }

    /// Every expression in a family's equations.
    fn parts_of(&self, family: FamilyId) -> impl Iterator<Item = ExprId> {
        let build = &self.systems[TRAIN];
        let defs = build.families[family.0 as usize].defs.iter().map(|d| &build.defs[d.0 as usize]);
        let mut open: Vec<ExprId> = defs.flat_map(|d| d.values.iter().copied()).collect();
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        while let Some(e) = open.pop() {
            if seen.insert(e) {
                found.push(e);
                self.draft.table.op(e).operands(|x| open.push(x));
            }
        }
        found.into_iter()
    }

    /// Where a family is, or is computed from, a statistic of the batch or of the steps of a segment.
    pub(super) fn statistic_of(&self, family: FamilyId) -> Option<Span> {
        let found = self.closure(BTreeSet::from([family]));
        found.into_iter().find_map(|family| {
            let home = self.systems[TRAIN].families[family.0 as usize].span;
            let mut folded: HashMap<VarId, Span> = HashMap::new();
            for e in self.parts_of(family) {
                let span = self.shown(self.draft.table.nodes[e.0 as usize].span, home);
                let index = match self.draft.table.op(e) {
                    Op::Fold { batch: true, .. } | Op::Collect { batch: true, .. } => return Some(span),
                    Op::Fold { vars, .. } | Op::Collect { vars, .. } => {
                        folded.extend(vars.iter().map(|v| (*v, span)));
                        continue;
                    }
                    Op::Input { index, .. } => std::slice::from_ref(index),
                    Op::Read { index, .. } => index.as_slice(),
                    _ => continue,
                };
                let mut places = index.iter().flat_map(|i| &i.terms).map(|(v, _)| folded.get(v).copied());
                if let Some(Some(place)) = places.next()
                    && places.all(|p| p.is_some())
                {
                    return Some(place);
                }
            }
            None
        })
    }

    /// A place of the user's text: the prelude's own lines help nobody.
    pub(super) fn shown(&self, span: Span, otherwise: Span) -> Span {
        if crate::prelude::holds(span.file) { otherwise } else { span }
    }

    /// What an equation says about a value at a fixed step before a segment.
    pub(super) fn start_at(&self, value: StateValue, index: &[Index]) -> Option<ExprId> {
        let (StateValue::Family { family, leaf }, [index]) = (value, index) else { return None };
        let at = index.constant().filter(|at| *at < 0)?;
        let build = &self.systems[TRAIN];
        let mut defs = build.families[family.0 as usize].defs.iter().map(|d| &build.defs[d.0 as usize]);
        defs.find(|d| d.lhs == [Lhs::At(at)]).and_then(|d| d.values.get(leaf).copied())
    }

    /// A recurrence computes one step after another: a statistic over all of them needs an equation of its own.
    pub(super) fn statistics_in_loops(&mut self, system: &System, stages: &[Stage], along: &[usize]) {
        for stage in stages {
            let def = match stage {
                Stage::Scan { position, body, .. } => {
                    let along: Vec<usize> = along.iter().copied().chain([*position]).collect();
                    self.statistics_in_loops(system, body, &along);
                    continue;
                }
                Stage::Map(def) => system.def(*def),
            };
            let looped = |v: &VarId| along.iter().any(|p| matches!(def.lhs.get(*p), Some(Lhs::Var { var, .. }) if var == v));
            let home = def.span;
            let mut open = def.values.clone();
            let mut seen = HashSet::new();
            while let Some(e) = open.pop() {
                if !seen.insert(e) {
                    continue;
                }
                let op = self.draft.table.op(e);
                op.operands(|x| open.push(x));
                if let Op::Fold { vars, .. } | Op::Collect { vars, .. } = op
                    && let Some(var) = vars.iter().find(|v| looped(v))
                {
                    let name = self.draft.vars[var.0 as usize].name.clone();
                    let span = self.shown(self.draft.table.nodes[e.0 as usize].span, home);
                    self.report(
                        Diagnostic::new(
                            Code::SelfReference,
                            span,
                            format!("a recurrence computes one `{name}` after another, and this needs all of them at once"),
                        )
                        .help(format!("give the statistic an equation of its own, `level[{name}] = ..`, and read that")),
                    );
                }
            }
        }
    }

    /// Only a rollout source collects data that something can be recorded with.
    pub(super) fn records_fit(&mut self) {
        if self.is_rollout() {
            return;
        }
        for record in self.names.members.records.clone() {
            let name = &record.place.name;
            self.report(
                Diagnostic::new(
                    Code::RecordReplay,
                    name.span,
                    format!("a replay source records nothing, and `{}` is a record", name.text),
                )
                .help("write an equation, which every update computes anew; `record` belongs to `source rollout(..)`"),
            );
        }
    }
}
