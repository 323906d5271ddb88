//! Recurrences whose equations hold over different ranges.
//!
//! `x[1] = ..`, `x[t] = f(y[t-1], x[t-2]) for t in 2..T`, `y[t] = g(x[t], y[t-1]) for t in 1..T`: at iteration 1 only `y` has an
//! equation with a variable. The iterations are cut where an equation begins or ends. Each segment is a loop of its own
//! over the equations that hold there (or plain code, if it is a single iteration) and starts from what the segments
//! before it computed. In the end each equation's parts are laid end to end, so that the rest of the program sees one
//! array, as of any other loop.

use std::collections::HashMap;

use dsl::hir::{DefId, Lhs, Stage, VarId};
use dsl::source::Span;

use super::align::{Alignment, Edge};
use super::family::{Piece, Span1};
use super::frame::Member;
use super::stage::Plan;
use super::trim::collect;
use super::{Binding, Lower, Result};
use crate::ir::{AxisId, ValueId};

/// A recurrence, cut into segments in the order in which they are computed.
pub(super) struct Segments {
    position: usize,
    backward: bool,
    members: Vec<(Member, (i64, i64))>,
    /// Iterations `lo..hi`.
    cuts: Vec<(i64, i64)>,
    body: Vec<Stage>,
    depth: usize,
}

impl Lower<'_> {
    pub(super) fn plan_segments(
        &mut self,
        defs: &[DefId],
        position: usize,
        backward: bool,
        edges: &[Edge],
        body: &[Stage],
        depth: usize,
    ) -> Result<Plan> {
        let ways = self.alignments(defs, position);
        let Some(Alignment { ranges, shifts }) = ways.into_iter().find(|a| self.runs(defs, a, position, backward, edges, body))
        else {
            let def = self.system().def(defs[0]);
            let name = self.system().family(def.family).name.clone();
            return self.unsupported(format!("the equations of the recurrence of `{name}` cannot be put in order"), def.span);
        };
        let mut borders: Vec<i64> = ranges.iter().flat_map(|(lo, hi)| [*lo, *hi]).collect();
        borders.sort_unstable();
        borders.dedup();
        let mut cuts: Vec<(i64, i64)> = borders.windows(2).map(|w| (w[0], w[1])).collect();
        cuts.retain(|(lo, _)| ranges.iter().any(|r| (r.0..r.1).contains(lo)));
        if backward {
            cuts.reverse();
        }
        // To the rest of the program each variable has its whole range.
        for def in defs {
            self.bind_def(*def);
        }
        let member = |(def, shift): (&DefId, &i64)| Member { def: *def, family: self.system().def(*def).family, shift: *shift };
        let members = defs.iter().zip(&shifts).map(member).zip(ranges).collect();
        Ok(Plan::Segments(Segments { position, backward, members, cuts, body: body.to_vec(), depth }))
    }

    pub(super) fn lower_segments(&mut self, plan: Segments) -> Result<()> {
        // Inside a segment a variable has a part of its range, so what is computed there means nothing elsewhere.
        let bindings = self.bindings.clone();
        let trimmed = self.trimmed.clone();
        let memos: Vec<_> = self.frames.iter().map(|f| f.memo.clone()).collect();
        let mut parts: HashMap<DefId, Vec<Piece>> = HashMap::new();
        for (lo, hi) in &plan.cuts {
            self.bindings.clone_from(&bindings);
            self.trimmed.clone_from(&trimmed);
            self.segment(&plan, *lo, *hi)?;
            for (frame, memo) in self.frames.iter_mut().zip(&memos) {
                frame.memo.clone_from(memo);
            }
            for (m, _) in plan.members.iter().filter(|(_, r)| r.0 <= *lo && hi <= &r.1) {
                parts
                    .entry(m.def)
                    .or_default()
                    .extend(self.families.of(self.which, m.family).iter().rev().find(|p| p.def == m.def).cloned());
            }
        }
        self.bindings = bindings;
        self.trimmed = trimmed;
        for (m, _) in &plan.members {
            let mut parts = parts.remove(&m.def).unwrap_or_default();
            if plan.backward {
                parts.reverse();
            }
            self.merge(m, plan.position, parts);
        }
        Ok(())
    }

    /// The equations that hold at the iterations `lo..hi`.
    fn segment(&mut self, plan: &Segments, lo: i64, hi: i64) -> Result<()> {
        let holds = |(_, range): &&(Member, (i64, i64))| range.0 <= lo && hi <= range.1;
        let members: Vec<Member> = plan.members.iter().filter(holds).map(|(m, _)| m.clone()).collect();
        let body: Vec<Stage> = plan.body.iter().filter_map(|s| only(s, &members)).collect();
        for (var, range) in self.variables(&members, plan.position, lo, hi) {
            self.trimmed.insert(var, range);
            self.bindings.remove(&var);
        }
        if hi - lo > 1 {
            let scan = self.plan_loop(plan.position, plan.backward, (lo, hi), members, &body, plan.depth)?;
            return self.lower_scan(scan);
        }
        for plan in self.plan_body(plan.position, &members, &body, plan.depth)? {
            self.lower_plan(plan)?;
        }
        Ok(())
    }

    /// The variables of a segment's equations, and their values in it.
    fn variables(&self, members: &[Member], position: usize, lo: i64, hi: i64) -> Vec<(VarId, (i64, i64))> {
        let of = |m: &Member| match self.system().def(m.def).lhs[position] {
            Lhs::Var { var, offset } => Some((var, (lo + m.shift - offset, hi + m.shift - offset))),
            Lhs::At(_) => None,
        };
        members.iter().filter_map(of).collect()
    }

    /// Puts an equation's parts end to end.
    fn merge(&mut self, member: &Member, position: usize, parts: Vec<Piece>) {
        let Lhs::Var { var, .. } = self.system().def(member.def).lhs[position] else { return };
        let Some(Binding::Axis { axis: whole, .. }) = self.bindings.get(&var).copied() else { return };
        let span = self.system().def(member.def).span;
        let depth = self.depth();
        let along = |p: &Piece| match p.spans[position] {
            Span1::Along { axis, .. } => Some(axis),
            Span1::At(_) | Span1::Loop { .. } => None,
        };
        let axes: Vec<AxisId> = parts.iter().filter_map(along).collect();
        let Some(first) = parts.first() else { return };
        let spans = self.def_spans(member.def, member.family, depth);
        let mut leaves: Vec<ValueId> = Vec::new();
        for leaf in 0..first.leaves.len() {
            let values: Vec<ValueId> = parts.iter().map(|p| self.along_axes_of(p, leaf, &spans, position, span)).collect();
            leaves.push(self.end_to_end(&values, &axes, whole, span));
        }
        self.families.replace(self.which, member.family, Piece { def: member.def, depth, leaves, spans });
    }
}

impl Lower<'_> {
    /// A part's value along the axes of the whole: a loop inside a segment has an axis of its own in every segment.
    fn along_axes_of(&mut self, part: &Piece, leaf: usize, whole: &[Span1], position: usize, span: Span) -> ValueId {
        let mut value = part.leaves[leaf];
        for (q, (own, whole)) in part.spans.iter().zip(whole).enumerate() {
            if let (Span1::Along { axis: from, .. }, Span1::Along { axis: to, .. }) = (*own, *whole)
                && q != position
                && from != to
                && self.graph().axes(value).contains(&from)
            {
                value = self.graph().rename(value, from, to, span);
            }
        }
        value
    }
}

/// A stage with the equations of some members alone.
fn only(stage: &Stage, members: &[Member]) -> Option<Stage> {
    match stage {
        Stage::Map(def) => members.iter().any(|m| m.def == *def).then(|| stage.clone()),
        Stage::Scan { position, direction, lo, hi, reach, body } => {
            let body: Vec<Stage> = body.iter().filter_map(|s| only(s, members)).collect();
            let mut defs = Vec::new();
            collect(&body, &mut defs);
            let scan = Stage::Scan { position: *position, direction: *direction, lo: *lo, hi: *hi, reach: *reach, body };
            (!defs.is_empty()).then_some(scan)
        }
    }
}
