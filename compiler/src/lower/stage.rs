//! Equations in the order of computation; recurrences become scans.
//!
//! A recurrence says `x[k+1] = f(x[k], y[k])`, `y[k] = g(x[k], y[k-1])`. The loop runs over the variable `k` where all its
//! equations have the same range of it (one iteration then gives `y[k]` and `x[k+1]`), over the subscript otherwise. What
//! an iteration reads of earlier ones is carried, as far back as it is read; before the first iteration the carries are
//! what other equations say about those subscripts.

use super::align::Alignment;
use super::family::Piece;
use super::frame::Member;
use super::segments::Segments;
use super::trim::collect;
use super::{Binding, Lower, Result};
use crate::ir::{self, AxisId, ValueId};
use dsl::hir::{DefId, Direction, ExprId, FamilyId, Lhs, Op as Hir, Stage, VarId};
use dsl::source::Span;
use std::collections::{HashMap, HashSet};

/// A stage with its loops laid out and its variables bound.
pub(super) enum Plan {
    Map(DefId),
    Scan(ScanPlan),
    /// A recurrence whose equations hold over different ranges.
    Segments(Segments),
}

pub(super) struct ScanPlan {
    pub axis: AxisId,
    pub position: usize,
    pub backward: bool,
    pub lo: i64,
    pub hi: i64,
    pub members: Vec<Member>,
    pub body: Vec<Plan>,
    pub span: Span,
}

impl Lower<'_> {
    /// Computes all equations of the present system.
    pub(super) fn lower_system(&mut self) -> Result<()> {
        for stage in self.stage_order() {
            // Recorded values are data, but for the program that records them.
            let families = self.families_of(stage);
            if self.entry != super::Entry::Record && families.iter().any(|f| self.is_record(*f)) {
                continue;
            }
            self.lower_stage(stage)?;
        }
        Ok(())
    }

    /// Computes the equations that acting reads as they are: parameters alone determine them.
    pub(super) fn lower_timeless(&mut self) -> Result<()> {
        let Some(act) = &self.model.act else { return Ok(()) };
        if act.timeless.is_empty() {
            return Ok(());
        }
        let which = std::mem::replace(&mut self.which, super::Which::Train);
        for stage in 0..self.system().stages.len() {
            if self.families_of(stage).iter().all(|f| act.timeless.contains(f)) {
                self.lower_stage(stage)?;
            }
        }
        self.which = which;
        Ok(())
    }

    fn lower_stage(&mut self, stage: usize) -> Result<()> {
        let plan = self.plan_stage(&self.system().stages[stage], self.depth())?;
        self.lower_plan(plan)
    }

    fn families_of(&self, stage: usize) -> Vec<FamilyId> {
        let mut defs = Vec::new();
        collect(std::slice::from_ref(&self.system().stages[stage]), &mut defs);
        defs.into_iter().map(|d| self.system().def(d).family).collect()
    }

    /// The stages in order. In an update, what a running value's rule reads comes before the equations that read the value.
    fn stage_order(&self) -> Vec<usize> {
        let count = self.system().stages.len();
        if self.model.running.is_empty() || self.entry != super::Entry::TrainStep || self.which != super::Which::Train {
            return (0..count).collect();
        }
        let mut giver: HashMap<FamilyId, Vec<usize>> = HashMap::new();
        for stage in 0..count {
            self.families_of(stage).into_iter().for_each(|f| giver.entry(f).or_default().push(stage));
        }
        let (mut order, mut placed) = (Vec::new(), vec![false; count]);
        for stage in 0..count {
            self.place_stage(stage, &giver, &mut placed, &mut order);
        }
        order
    }

    fn place_stage(&self, stage: usize, giver: &HashMap<FamilyId, Vec<usize>>, placed: &mut [bool], order: &mut Vec<usize>) {
        if std::mem::replace(&mut placed[stage], true) {
            return;
        }
        let mut defs = Vec::new();
        collect(std::slice::from_ref(&self.system().stages[stage]), &mut defs);
        let mut open: Vec<(ExprId, bool)> =
            defs.iter().flat_map(|d| self.system().def(*d).values.iter().map(|e| (*e, false))).collect();
        let mut seen = HashSet::new();
        let mut needed: Vec<usize> = Vec::new();
        while let Some((e, by_rule)) = open.pop() {
            if !seen.insert((e, by_rule)) {
                continue;
            }
            match &self.model.node(e).op {
                // The checker's order already puts the steps that an equation reads before it. Later stages of the same
                // family give other steps. A rule has no place in that order, so it needs them all.
                Hir::Read { family, .. } => {
                    let all = giver.get(family).into_iter().flatten().copied();
                    needed.extend(all.filter(|before| by_rule || *before < stage));
                }
                Hir::Running(i) => open.push((self.model.running[*i].value, true)),
                op => op.operands(|x| open.push((x, by_rule))),
            }
        }
        needed.sort_unstable();
        for before in needed {
            stacker::maybe_grow(128 << 10, 4 << 20, || self.place_stage(before, giver, placed, order));
        }
        order.push(stage);
    }

    fn plan_stage(&mut self, stage: &Stage, depth: usize) -> Result<Plan> {
        match stage {
            Stage::Map(def) => {
                self.bind_def(*def);
                Ok(Plan::Map(*def))
            }
            Stage::Scan { position, direction, body, .. } => {
                let mut defs = Vec::new();
                collect(body, &mut defs);
                let edges = self.edges(&defs);
                let backward = *direction == Direction::Backward;
                let mut aligned = self.align(&defs, *position, backward, &edges, body);
                if aligned.is_none() {
                    self.trim(&defs, *position);
                    aligned = self.align(&defs, *position, backward, &edges, body);
                }
                let Some(Alignment { ranges, shifts }) = aligned else {
                    return self.plan_segments(&defs, *position, backward, &edges, body, depth);
                };
                let members: Vec<Member> = defs
                    .iter()
                    .zip(&shifts)
                    .map(|(def, shift)| Member { def: *def, family: self.system().def(*def).family, shift: *shift })
                    .collect();
                self.plan_loop(*position, backward, ranges[0], members, body, depth).map(Plan::Scan)
            }
        }
    }

    /// A loop over iterations `lo..hi`, at each of which all its members hold.
    pub(super) fn plan_loop(
        &mut self,
        position: usize,
        backward: bool,
        (lo, hi): (i64, i64),
        members: Vec<Member>,
        body: &[Stage],
        depth: usize,
    ) -> Result<ScanPlan> {
        let first = self.system().def(members[0].def);
        let span = first.span;
        let name = match first.lhs[position] {
            Lhs::Var { var, .. } => self.model.var(var).name.clone(),
            Lhs::At(_) => "k".to_string(),
        };
        let axis = self.program.new_axis(&name, (hi - lo) as usize);
        for m in &members {
            if let Lhs::Var { var, offset } = self.system().def(m.def).lhs[position] {
                // At iteration j the variable is `j + shift - offset`.
                let first = lo + m.shift - offset;
                self.bindings.insert(var, Binding::Axis { axis, lo: first, size: hi - lo, scan: Some(depth + 1) });
            }
        }
        let body = self.plan_body(position, &members, body, depth + 1)?;
        Ok(ScanPlan { axis, position, backward, lo, hi, members, body, span })
    }

    /// The stages of one iteration in the order in which they can be computed.
    pub(super) fn plan_body(&mut self, position: usize, members: &[Member], body: &[Stage], depth: usize) -> Result<Vec<Plan>> {
        let edges = self.edges(&members.iter().map(|m| m.def).collect::<Vec<_>>());
        let mut plans = Vec::new();
        for s in body {
            plans.push(Some(self.plan_stage(s, depth)?));
        }
        let order = self.body_order(body, members, position, &edges);
        Ok(order.into_iter().filter_map(|i| plans[i].take()).collect())
    }

    /// Gives every variable of an equation an axis, unless a loop runs over it.
    pub(super) fn bind_def(&mut self, def: DefId) {
        for var in self.system().def(def).vars.clone() {
            self.bind_var(var);
        }
    }

    pub(super) fn bind_var(&mut self, var: VarId) -> (AxisId, i64) {
        if let Some(Binding::Axis { axis, size, .. }) = self.bindings.get(&var) {
            return (*axis, *size);
        }
        let (lo, hi) = self.var_range(var);
        let name = self.model.var(var).name.clone();
        let axis = self.program.new_axis(&name, (hi - lo).max(0) as usize);
        self.bindings.insert(var, Binding::Axis { axis, lo, size: hi - lo, scan: None });
        (axis, hi - lo)
    }

    /// A variable's values. In an on-policy update the steps of the rollout are the rows of a minibatch.
    pub(super) fn var_range(&self, var: VarId) -> (i64, i64) {
        if let Some(range) = self.trimmed.get(&var) {
            return *range;
        }
        let v = self.model.var(var);
        match self.rows {
            Some(rows) if self.is_step(var) => (0, rows),
            _ => (v.lo, v.hi),
        }
    }

    /// Whether a variable is the step of an on-policy equation, loss or metric: its first subscript, over all transitions.
    fn is_step(&self, var: VarId) -> bool {
        let (lo, hi) = self.system().inputs.get(self.model.action.input).copied().unwrap_or((0, 0));
        let v = self.model.var(var);
        v.lo <= lo && hi <= v.hi && self.steps.contains(&var)
    }

    pub(super) fn lower_plan(&mut self, plan: Plan) -> Result<()> {
        match plan {
            Plan::Map(def) => self.lower_def(def),
            Plan::Scan(scan) => stacker::maybe_grow(256 << 10, 4 << 20, || self.lower_scan(scan)),
            Plan::Segments(segments) => self.lower_segments(segments),
        }
    }

    fn lower_def(&mut self, id: DefId) -> Result<()> {
        let def = self.system().def(id);
        let (values, family) = (def.values.clone(), def.family);
        let depth = self.depth();
        let spans = self.def_spans(id, family, depth);
        let mut leaves = Vec::new();
        for (leaf, e) in values.into_iter().enumerate() {
            let name = self.leaf_name(family, leaf);
            // An equation that is computed in parts, or in a loop, is not given; nor are those after a family's first.
            let def = self.system().def(id);
            let whole = depth == 0 && !def.base && !def.vars.iter().any(|v| self.trimmed.contains_key(v));
            let start = self.families.of(self.which, family).is_empty();
            let given = whole && start && self.options.given.contains(&name);
            let value = if given { self.given(id, leaf, name)? } else { self.expr(e)? };
            leaves.push(self.target_leaf(id, family, leaf, value)?);
        }
        self.families.add(self.which, family, Piece { def: id, depth, leaves, spans });
        Ok(())
    }

    /// An equation's values from the caller: an array over samples, its subscripts and its own axes.
    fn given(&mut self, def: DefId, leaf: usize, name: String) -> Result<ValueId> {
        let axes = self.carry_axes(def, leaf, 0)?;
        let span = self.system().def(def).span;
        Ok(self.input(format!("value.{name}"), ir::Role::Data, axes, span))
    }
}
