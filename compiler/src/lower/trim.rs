//! Ranges that are read: nothing else is computed.

use super::{Lower, Which};
use dsl::hir::{DefId, ExprId, FamilyId, Lhs, Op as Hir, Stage, VarId};
use std::collections::{HashMap, HashSet};

impl Lower<'_> {
    /// Gives a recurrence's equations one range, where they need no more than that and have it: `guess[k] = prior(x[k])` is
    /// defined wherever x is, and needed only where an action is chosen.
    pub(super) fn trim(&mut self, defs: &[DefId], position: usize) {
        let lhs: Vec<(VarId, i64, FamilyId)> = defs
            .iter()
            .filter_map(|d| match self.system().def(*d).lhs.get(position) {
                Some(Lhs::Var { var, offset }) => Some((*var, *offset, self.system().def(*d).family)),
                _ => None,
            })
            .collect();
        let whole: Vec<(i64, i64)> = lhs.iter().map(|(var, _, _)| self.var_range(*var)).collect();
        let before = self.trimmed.clone();
        // What is needed, where each needs only what those that are needed read.
        for _ in 0..lhs.len().max(4) {
            let reads = self.read_ranges(position);
            let mut changed = false;
            for (var, offset, family) in &lhs {
                let Some((lo, hi)) = reads.get(family).copied() else { continue };
                let (from, to) = self.var_range(*var);
                let new = (from.max(lo - offset), to.min(hi - offset));
                if new != (from, to) && new.0 < new.1 {
                    self.trimmed.insert(*var, new);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let needed: Vec<(i64, i64)> = lhs.iter().map(|(var, _, _)| self.var_range(*var)).collect();
        self.trimmed = before;
        // One range of the variable, or else one of the subscript.
        for by_variable in [true, false] {
            let shift = |i: usize| if by_variable { 0 } else { lhs[i].1 };
            let lo = needed.iter().enumerate().map(|(i, r)| r.0 + shift(i)).min().unwrap_or(0);
            let hi = needed.iter().enumerate().map(|(i, r)| r.1 + shift(i)).max().unwrap_or(0);
            if whole.iter().enumerate().all(|(i, r)| r.0 + shift(i) <= lo && hi <= r.1 + shift(i)) {
                for (i, (var, _, _)) in lhs.iter().enumerate() {
                    self.trimmed.insert(*var, (lo - shift(i), hi - shift(i)));
                }
                return;
            }
        }
    }

    /// The expressions of a system: its equations, and the losses, metrics or actions that read them.
    pub(super) fn roots(&self, which: Which) -> Vec<ExprId> {
        let model = self.model;
        let mut roots: Vec<ExprId> = self.system().defs.iter().flat_map(|d| d.values.iter().copied()).collect();
        match which {
            Which::Train => {
                roots.extend(
                    model.losses.iter().flat_map(|l| l.parts.iter().flat_map(|p| p.condition.into_iter().chain([p.value]))),
                );
                roots.extend(model.running.iter().map(|r| r.value));
            }
            Which::Evaluate => {
                roots.extend(model.metrics.iter().flat_map(|m| m.condition.into_iter().chain([m.value])));
                roots.extend(model.diagnose.iter().map(|d| d.value));
            }
            Which::Act => roots.extend(model.act.iter().flat_map(|a| a.next.iter().map(|(_, e)| *e).chain([a.train, a.eval]))),
        }
        roots
    }

    /// For each family the values of one subscript at which the system's equations, losses and metrics read it.
    fn read_ranges(&self, position: usize) -> HashMap<FamilyId, (i64, i64)> {
        let model = self.model;
        let mut roots = self.roots(self.which);
        let mut ranges: HashMap<FamilyId, (i64, i64)> = HashMap::new();
        let mut seen: HashSet<ExprId> = HashSet::new();
        while let Some(e) = roots.pop() {
            if !seen.insert(e) {
                continue;
            }
            match &model.node(e).op {
                Hir::Read { family, index, .. } => {
                    let Some(index) = index.get(position) else { continue };
                    let (mut lo, mut hi) = (index.offset, index.offset);
                    for (var, factor) in &index.terms {
                        let (first, last) = self.var_range(*var);
                        let ends = (first * factor, (last - 1) * factor);
                        lo += ends.0.min(ends.1);
                        hi += ends.0.max(ends.1);
                    }
                    let entry = ranges.entry(*family).or_insert((lo, hi + 1));
                    *entry = (entry.0.min(lo), entry.1.max(hi + 1));
                }
                op => op.operands(|x| roots.push(x)),
            }
        }
        ranges
    }
}

/// All equations of some stages.
pub(super) fn collect(stages: &[Stage], defs: &mut Vec<DefId>) {
    for s in stages {
        match s {
            Stage::Map(def) => defs.push(*def),
            Stage::Scan { body, .. } => collect(body, defs),
        }
    }
}
