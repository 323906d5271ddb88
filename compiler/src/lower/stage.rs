//! Equations in the order of computation; recurrences become scans.
//!
//! A recurrence says `x[k+1] = f(x[k], y[k])`, `y[k] = g(x[k], y[k-1])`. The loop runs over the variable `k` where all its
//! equations have the same range of it (one iteration then gives `y[k]` and `x[k+1]`), over the subscript otherwise. What
//! an iteration reads of earlier ones is carried, as far back as it is read; before the first iteration the carries are
//! what other equations say about those subscripts.

use std::collections::{HashMap, HashSet};

use dsl::hir::{DefId, Direction, ExprId, FamilyId, Index, Lhs, Op as Hir, Stage, VarId};
use dsl::source::Span;

use super::family::{Piece, Span1, Want};
use super::frame::{Frame, Loop, Member, Slot};
use super::segments::Segments;
use super::{Binding, Lower, LowerError, Result, Which};
use crate::ir::{self, AxisId, Op, Scan, ValueId};

/// A stage with its loops laid out and its variables bound.
pub(super) enum Plan {
    Map(DefId),
    Scan(ScanPlan),
    /// A recurrence whose equations hold over different ranges.
    Segments(Segments),
}

pub(super) struct ScanPlan {
    axis: AxisId,
    position: usize,
    backward: bool,
    lo: i64,
    hi: i64,
    members: Vec<Member>,
    body: Vec<Plan>,
    span: Span,
}

/// How the iterations of a loop relate to the subscripts of its equations.
pub(super) struct Alignment {
    /// For each equation the iterations at which it holds, `lo..hi`.
    pub(super) ranges: Vec<(i64, i64)>,
    /// For each equation the subscript that iteration j gives, less j.
    pub(super) shifts: Vec<i64>,
}

/// A read of a family inside a recurrence.
pub(super) struct Edge {
    reader: DefId,
    family: FamilyId,
    leaf: usize,
    index: Vec<Index>,
}

impl Lower<'_> {
    /// Computes all equations of the present system.
    pub(super) fn lower_system(&mut self) -> Result<()> {
        let depth = self.depth();
        for stage in &self.system().stages {
            // Recorded values are data, but for the program that records them.
            let mut defs = Vec::new();
            collect(std::slice::from_ref(stage), &mut defs);
            if self.entry != super::Entry::Record && defs.iter().any(|d| self.is_record(self.system().def(*d).family)) {
                continue;
            }
            let plan = self.plan_stage(stage, depth)?;
            self.lower_plan(plan)?;
        }
        Ok(())
    }

    // ---- planning

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
            Some(rows) if (v.lo, v.hi) == self.rollout_range() => (0, rows),
            _ => (v.lo, v.hi),
        }
    }

    fn rollout_range(&self) -> (i64, i64) {
        let input = self.model.action.input;
        self.system().inputs.get(input).copied().unwrap_or((0, 0))
    }

    /// Gives a recurrence's equations one range, where they need no more than that and have it: `guess[k] = prior(x[k])` is
    /// defined wherever x is, and needed only where an action is chosen.
    fn trim(&mut self, defs: &[DefId], position: usize) {
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

    /// For each family the values of one subscript at which the system's equations, losses and metrics read it.
    fn read_ranges(&self, position: usize) -> HashMap<FamilyId, (i64, i64)> {
        let model = self.model;
        let mut roots: Vec<ExprId> = self.system().defs.iter().flat_map(|d| d.values.iter().copied()).collect();
        match self.which {
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

    /// Reads of the families of a recurrence by its own equations.
    pub(super) fn edges(&self, defs: &[DefId]) -> Vec<Edge> {
        let system = self.system();
        let families: HashSet<FamilyId> = defs.iter().map(|d| system.def(*d).family).collect();
        let mut edges = Vec::new();
        for reader in defs {
            let mut seen: HashSet<ExprId> = HashSet::new();
            let mut open: Vec<ExprId> = system.def(*reader).values.clone();
            while let Some(e) = open.pop() {
                if !seen.insert(e) {
                    continue;
                }
                match &self.model.node(e).op {
                    Hir::Read { family, leaf, index } if families.contains(family) => {
                        edges.push(Edge { reader: *reader, family: *family, leaf: *leaf, index: index.clone() });
                    }
                    op => op.operands(|x| open.push(x)),
                }
            }
        }
        edges
    }

    /// How one loop can run over all equations, each at every iteration.
    fn align(&self, defs: &[DefId], position: usize, backward: bool, edges: &[Edge], body: &[Stage]) -> Option<Alignment> {
        let fits = |a: &Alignment| a.ranges.iter().all(|r| *r == a.ranges[0]);
        let variables = defs.iter().all(|d| matches!(self.system().def(*d).lhs.get(position), Some(Lhs::Var { .. })));
        let mut ways = self.alignments(defs, position).into_iter();
        ways.find(|a| variables && fits(a) && self.runs(defs, a, position, backward, edges, body))
    }

    /// Iteration 0 is the variable 0, or the subscript 0, or for each equation the first of its own.
    pub(super) fn alignments(&self, defs: &[DefId], position: usize) -> [Alignment; 3] {
        let subscripts = |d: &DefId| match self.system().def(*d).lhs[position] {
            Lhs::At(at) => (at, at + 1, 0),
            Lhs::Var { var, offset } => {
                let (lo, hi) = self.var_range(var);
                (lo + offset, hi + offset, offset)
            }
        };
        let way = |shift: &dyn Fn(i64, i64) -> i64| {
            let (mut ranges, mut shifts) = (Vec::new(), Vec::new());
            for (lo, hi, offset) in defs.iter().map(subscripts) {
                let s = shift(lo, offset);
                ranges.push((lo - s, hi - s));
                shifts.push(s);
            }
            Alignment { ranges, shifts }
        };
        [way(&|_, offset| offset), way(&|_, _| 0), way(&|first, _| first)]
    }

    /// Whether every read of the loop looks at the present iteration or an earlier one, and those of the present one
    /// can be put in order.
    pub(super) fn runs(
        &self,
        defs: &[DefId],
        alignment: &Alignment,
        position: usize,
        backward: bool,
        edges: &[Edge],
        body: &[Stage],
    ) -> bool {
        let system = self.system();
        let Alignment { ranges, shifts } = alignment;
        for edge in edges {
            let Some(reader) = defs.iter().position(|d| *d == edge.reader) else { continue };
            let Some(index) = edge.index.get(position) else { continue };
            let (first, last) = (ranges[reader].0, ranges[reader].1 - 1);
            // The subscripts that are read at the reader's first and last iteration.
            let read = match (system.def(edge.reader).lhs[position], index.shifted(), index.constant()) {
                // At iteration j it is `j + shift - offset + off`.
                (Lhs::Var { var, offset }, Some((v, off)), _) if v == var => {
                    (first + shifts[reader] - offset + off, last + shifts[reader] - offset + off)
                }
                (_, _, Some(at)) => (at, at),
                _ => continue,
            };
            for (i, d) in defs.iter().enumerate() {
                if system.def(*d).family != edge.family {
                    continue;
                }
                // Where the equation that gives it holds.
                let (lo, hi) = (read.0.max(ranges[i].0 + shifts[i]), read.1.min(ranges[i].1 - 1 + shifts[i]));
                if lo > hi {
                    continue;
                }
                // How far ahead of the reader's iteration it is computed, at most.
                let distance = if backward { last - (read.1 - shifts[i]) } else { read.0 - shifts[i] - first };
                // An iteration reads its own values at a fixed subscript only if it is one iteration.
                if distance > 0 || distance == 0 && read.0 == read.1 && first != last {
                    return false;
                }
            }
        }
        let members: Vec<Member> =
            defs.iter().zip(shifts).map(|(d, s)| Member { def: *d, family: system.def(*d).family, shift: *s }).collect();
        self.body_order(body, &members, position, edges).len() == body.len()
    }

    /// The stages of a body so that what an iteration reads of itself is there; shorter than the body if that is not
    /// possible.
    fn body_order(&self, body: &[Stage], members: &[Member], position: usize, edges: &[Edge]) -> Vec<usize> {
        let system = self.system();
        let mut stage_of: HashMap<DefId, usize> = HashMap::new();
        for (i, s) in body.iter().enumerate() {
            let mut defs = Vec::new();
            collect(std::slice::from_ref(s), &mut defs);
            stage_of.extend(defs.into_iter().map(|d| (d, i)));
        }
        let shift = |d: DefId| members.iter().find(|m| m.def == d).map(|m| m.shift);
        let mut needs: Vec<HashSet<usize>> = vec![HashSet::new(); body.len()];
        for edge in edges {
            let (Some(reader), Some(own)) = (stage_of.get(&edge.reader), shift(edge.reader)) else { continue };
            let Some(index) = edge.index.get(position) else { continue };
            // Less the iteration, the subscript that is read.
            let read = match (system.def(edge.reader).lhs[position], index.shifted(), index.constant()) {
                (Lhs::Var { offset, .. }, Some((_, off)), _) => own - offset + off,
                (Lhs::At(given), _, Some(at)) => own - given + at,
                _ => continue,
            };
            for m in members.iter().filter(|m| m.family == edge.family && m.shift == read) {
                if let Some(stage) = stage_of.get(&m.def)
                    && stage != reader
                {
                    needs[*reader].insert(*stage);
                }
            }
        }
        let mut order: Vec<usize> = Vec::new();
        loop {
            let ready = (0..body.len()).find(|i| !order.contains(i) && needs[*i].iter().all(|n| order.contains(n)));
            match ready {
                Some(i) => order.push(i),
                None => return order,
            }
        }
    }

    // ---- lowering

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
            // An equation that is computed in parts, or in a loop, is not given.
            let def = self.system().def(id);
            let whole = depth == 0 && !def.base && !def.vars.iter().any(|v| self.trimmed.contains_key(v));
            let given = whole && self.options.given.contains(&name);
            leaves.push(if given { self.given(id, leaf, name)? } else { self.expr(e)? });
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

    pub(super) fn lower_scan(&mut self, plan: ScanPlan) -> Result<()> {
        let ScanPlan { axis, position, backward, lo, hi, members, body, span } = plan;
        let depth = self.depth() + 1;
        let edges = self.edges(&members.iter().map(|m| m.def).collect::<Vec<_>>());
        let scan = Loop {
            axis,
            position,
            which: self.which,
            backward,
            lo,
            hi,
            members: members.clone(),
            imports: HashMap::new(),
            xs: Vec::new(),
            consts: Vec::new(),
            x_params: Vec::new(),
            const_params: Vec::new(),
            slots: Vec::new(),
        };
        self.frames.push(Frame { scan: Some(scan), ..Frame::default() });
        for (def, leaf, lags) in self.carried(&members, position, backward, &edges) {
            let axes = self.carry_axes(def, leaf, depth)?;
            for lag in 1..=lags {
                let param = self.graph().push(Op::Param(u32::MAX), axes.clone(), span);
                if let Some(s) = &mut self.frames[depth].scan {
                    s.slots.push(Slot { def, leaf, lag, param });
                }
            }
        }
        for plan in body {
            self.lower_plan(plan)?;
        }
        self.close(members, span)
    }

    /// Which equations' values are read in later iterations, and how many iterations later.
    fn carried(&self, members: &[Member], position: usize, backward: bool, edges: &[Edge]) -> Vec<(DefId, usize, i64)> {
        let system = self.system();
        let mut found: Vec<(DefId, usize, i64)> = Vec::new();
        for edge in edges {
            let Some(reader) = members.iter().find(|m| m.def == edge.reader) else { continue };
            let Some((_, off)) = edge.index.get(position).and_then(Index::shifted) else { continue };
            let Some(Lhs::Var { offset, .. }) = system.def(edge.reader).lhs.get(position).copied() else { continue };
            for m in members.iter().filter(|m| m.family == edge.family) {
                let distance = reader.shift - offset + off - m.shift;
                let lag = if backward { distance } else { -distance };
                if lag <= 0 {
                    continue;
                }
                match found.iter_mut().find(|(d, l, _)| *d == m.def && *l == edge.leaf) {
                    Some((_, _, most)) => *most = (*most).max(lag),
                    None => found.push((m.def, edge.leaf, lag)),
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The axes of a carried value: samples, the equation's other subscripts, and its own.
    fn carry_axes(&mut self, def: DefId, leaf: usize, depth: usize) -> Result<Vec<AxisId>> {
        let family = self.system().def(def).family;
        let mut axes: Vec<AxisId> = Vec::new();
        if self.varies(family)
            && let Some(batch) = self.batch
        {
            axes.push(batch);
        }
        for s in self.def_spans(def, family, depth) {
            if let Span1::Along { axis, .. } = s {
                axes.push(axis);
            }
        }
        let own = self.system().family(family).leaves[leaf].axes.clone();
        axes.extend(self.axes(&own)?);
        Ok(axes)
    }

    /// Ends the body: numbers its parameters, makes the scan in the graph around it, and files its outputs.
    fn close(&mut self, members: Vec<Member>, span: Span) -> Result<()> {
        let depth = self.depth();
        let slots = self.frames[depth].scan.as_ref().map(|s| s.slots.clone()).unwrap_or_default();
        // New carries: this iteration's value, or the younger slot.
        let mut results = Vec::new();
        for slot in &slots {
            let value = if slot.lag == 1 {
                let family = self.system().def(slot.def).family;
                let piece = self.families.of(self.which, family).iter().find(|p| p.depth == depth && p.def == slot.def).cloned();
                match piece {
                    Some(p) => p.leaves[slot.leaf],
                    None => return self.unsupported("a recurrence does not compute what it carries", span),
                }
            } else {
                let younger = slots.iter().find(|s| s.def == slot.def && s.leaf == slot.leaf && s.lag == slot.lag - 1);
                younger.map_or(slot.param, |s| s.param)
            };
            let axes = self.graph().axes(slot.param).to_vec();
            results.push(self.graph().expand(value, &axes, span));
        }
        let mut outputs: Vec<(DefId, usize, ValueId)> = Vec::new();
        for m in &members {
            let piece = self.families.of(self.which, m.family).iter().find(|p| p.depth == depth && p.def == m.def).cloned();
            let Some(piece) = piece else { continue };
            for (leaf, value) in piece.leaves.iter().enumerate() {
                outputs.push((m.def, leaf, *value));
                results.push(*value);
            }
        }
        let Some(mut frame) = self.frames.pop() else { return Ok(()) };
        self.families.leave(depth);
        let Some(scan) = frame.scan.take() else { return Ok(()) };
        frame.graph.results = results;
        let order: Vec<ValueId> =
            slots.iter().map(|s| s.param).chain(scan.x_params.iter().copied()).chain(scan.const_params.iter().copied()).collect();
        for (number, param) in order.iter().enumerate() {
            frame.graph.nodes[param.0 as usize].op = Op::Param(number as u32);
        }
        let mut init = Vec::new();
        for slot in &slots {
            init.push(self.initial(slot, &scan, &frame, span)?);
        }
        let out_axes: Vec<Vec<AxisId>> = outputs
            .iter()
            .map(|(_, _, v)| {
                let mut axes = vec![scan.axis];
                axes.extend(frame.graph.axes(*v));
                axes
            })
            .collect();
        let direction = if scan.backward { ir::Direction::Backward } else { ir::Direction::Forward };
        let node = Scan { axis: scan.axis, direction, init, xs: scan.xs.clone(), consts: scan.consts.clone(), body: frame.graph };
        let node = self.graph().push(Op::Scan(Box::new(node)), Vec::new(), span);
        let carries = slots.len();
        let mut by_def: HashMap<DefId, Vec<ValueId>> = HashMap::new();
        for (i, ((def, _, _), axes)) in outputs.iter().zip(out_axes).enumerate() {
            let v = self.graph().out(node, carries + i, axes, span);
            by_def.entry(*def).or_default().push(v);
        }
        let depth = self.depth();
        for m in &members {
            if let Some(leaves) = by_def.remove(&m.def) {
                let spans = self.def_spans(m.def, m.family, depth);
                self.families.add(self.which, m.family, Piece { def: m.def, depth, leaves, spans });
            }
        }
        Ok(())
    }

    /// What a carry is before the first iteration.
    fn initial(&mut self, slot: &Slot, scan: &Loop, frame: &Frame, span: Span) -> Result<ValueId> {
        let Some(member) = scan.members.iter().find(|m| m.def == slot.def) else {
            return self.unsupported("a carry without its equation", span);
        };
        let iteration = if scan.backward { scan.hi - 1 + slot.lag } else { scan.lo - slot.lag };
        let subscript = iteration + member.shift;
        let depth = self.depth();
        let wants: Vec<Want> = self
            .def_spans(slot.def, member.family, depth)
            .into_iter()
            .enumerate()
            .map(|(p, s)| match s {
                _ if p == scan.position => Want::At(subscript),
                Span1::At(at) => Want::At(at),
                Span1::Along { axis, lo, size } => Want::Along { axis, lo, size },
                Span1::Loop { depth: d } => {
                    let around = self.frames.get(d).and_then(|f| f.scan.as_ref());
                    let shift = around.and_then(|s| s.members.iter().find(|m| m.def == slot.def)).map_or(0, |m| m.shift);
                    Want::Loop { depth: d, shift }
                }
            })
            .collect();
        let axes = frame.graph.axes(slot.param).to_vec();
        let value = match self.read_box(member.family, slot.leaf, &wants, span) {
            Ok(value) => value,
            // Nothing reads it: the equation starts where its own base cases end.
            Err(LowerError::Unsupported { .. }) => return Ok(self.zeros(&axes, span)),
            Err(error) => return Err(error),
        };
        Ok(self.graph().expand(value, &axes, span))
    }

    /// Whether a family of the present system differs between samples.
    fn varies(&mut self, family: FamilyId) -> bool {
        let which = self.which;
        if !self.families.varies.contains_key(&which) {
            let found = per_sample(self, which);
            self.families.varies.insert(which, found);
        }
        self.families.varies[&which][family.0 as usize]
    }
}

fn per_sample(cx: &Lower<'_>, which: Which) -> Vec<bool> {
    let system = cx.system();
    let mut varies = vec![false; system.families.len()];
    loop {
        let mut changed = false;
        for def in &system.defs {
            let f = def.family.0 as usize;
            if varies[f] {
                continue;
            }
            let mut seen = HashSet::new();
            let mut open = def.values.clone();
            while let Some(e) = open.pop() {
                if !seen.insert(e) {
                    continue;
                }
                match &cx.model.node(e).op {
                    Hir::Input { .. } | Hir::Carry(_) | Hir::Outer { .. } => varies[f] = true,
                    Hir::Draw(d) => varies[f] |= cx.model.draws[*d].per_sample,
                    Hir::Read { family, .. } => varies[f] |= varies[family.0 as usize],
                    Hir::Fold { batch: true, .. } | Hir::SortAll { batch: true, .. } => {}
                    op => op.operands(|x| open.push(x)),
                }
            }
            changed |= varies[f];
        }
        if !changed {
            let _ = which;
            return varies;
        }
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
