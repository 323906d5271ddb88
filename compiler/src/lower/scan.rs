//! A loop as a scan: its carries, its body, what it starts from.

use super::align::Edge;
use super::family::{Piece, Span1, Want};
use super::frame::{Frame, Loop, Member, Slot};
use super::stage::ScanPlan;
use super::{Lower, LowerError, Result};
use crate::ir::{self, AxisId, Op, Scan, ValueId};
use dsl::hir::{DefId, FamilyId, Index, Lhs, Op as Hir};
use dsl::source::Span;
use std::collections::{HashMap, HashSet};

impl Lower<'_> {
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
    pub(super) fn carry_axes(&mut self, def: DefId, leaf: usize, depth: usize) -> Result<Vec<AxisId>> {
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
        if let [Want::At(at)] = wants[..]
            && let Some(value) = self.past(member.family, slot.leaf, at, span)?
        {
            return Ok(self.graph().expand(value, &axes, span));
        }
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
            let found = per_sample(self);
            self.families.varies.insert(which, found);
        }
        self.families.varies[&which][family.0 as usize]
    }
}

pub(super) fn per_sample(cx: &Lower<'_>) -> Vec<bool> {
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
                    Hir::Fold { batch: true, .. } | Hir::Collect { batch: true, .. } => {}
                    // One for each sample, even of one number of all of them.
                    Hir::Grad { .. } => varies[f] = true,
                    op => op.operands(|x| open.push(x)),
                }
            }
            changed |= varies[f];
        }
        if !changed {
            return varies;
        }
    }
}
