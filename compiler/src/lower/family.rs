//! Values of equations: arrays over boxes of subscripts.
//!
//! A family's values lie in pieces, one for each equation. A read asks for a box; it is cut out of the piece that holds
//! it, or out of several, end to end.

use std::collections::{HashMap, HashSet};

use dsl::hir::{DefId, FamilyId, Index};
use dsl::source::Span;

use super::{Binding, Lower, Result, Which};
use crate::ir::{AxisId, Op, ValueId};

/// All pieces computed so far.
#[derive(Debug, Default)]
pub(crate) struct Families {
    pieces: HashMap<(Which, FamilyId), Vec<Piece>>,
    /// By system and family: whether samples differ.
    pub(crate) varies: HashMap<Which, Vec<bool>>,
    /// By system: the families that gradients are taken by.
    pub(crate) targets: HashMap<Which, HashSet<FamilyId>>,
    /// Their values at the present step of an acting agent, by system, family, leaf and value.
    pub(crate) now: HashMap<(Which, FamilyId, usize, ValueId), ValueId>,
}

/// An equation's values in the frame at `depth`.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) def: DefId,
    pub(crate) depth: usize,
    pub(crate) leaves: Vec<ValueId>,
    /// For each subscript.
    pub(crate) spans: Vec<Span1>,
}

/// What a piece holds along one subscript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span1 {
    /// The one value `at`.
    At(i64),
    /// Values from `lo` on, along an axis.
    Along { axis: AxisId, lo: i64, size: i64 },
    /// The present value of the loop of this depth.
    Loop { depth: usize },
}

/// What a read wants along one subscript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    At(i64),
    /// Values from `lo` on, along this axis of the result.
    Along {
        axis: AxisId,
        lo: i64,
        size: i64,
    },
    /// The loop's present iteration plus `shift`.
    Loop {
        depth: usize,
        shift: i64,
    },
}

impl Families {
    pub(crate) fn add(&mut self, which: Which, family: FamilyId, piece: Piece) {
        self.pieces.entry((which, family)).or_default().push(piece);
    }

    /// Files a piece in place of all others of its equation at its depth.
    pub(crate) fn replace(&mut self, which: Which, family: FamilyId, piece: Piece) {
        let pieces = self.pieces.entry((which, family)).or_default();
        pieces.retain(|p| p.def != piece.def || p.depth != piece.depth);
        pieces.push(piece);
    }

    pub(crate) fn of(&self, which: Which, family: FamilyId) -> &[Piece] {
        self.pieces.get(&(which, family)).map_or(&[], Vec::as_slice)
    }

    /// Pieces of bodies that have been left are of no more use.
    pub(crate) fn leave(&mut self, depth: usize) {
        for pieces in self.pieces.values_mut() {
            pieces.retain(|p| p.depth < depth);
        }
    }
}

impl Lower<'_> {
    /// What a subscript asks for, in the frame at hand. Sums of several variables are gathered.
    pub(crate) fn want(&self, index: &Index) -> Option<Want> {
        match index.terms.as_slice() {
            [] => Some(Want::At(index.offset)),
            [(var, 1)] => match self.bindings.get(var)? {
                Binding::Axis { axis, lo, size, scan } => Some(match scan {
                    Some(depth) if *depth <= self.depth() => {
                        let first = self.frames[*depth].scan.as_ref().map_or(0, |s| s.lo);
                        Want::Loop { depth: *depth, shift: lo - first + index.offset }
                    }
                    _ => Want::Along { axis: *axis, lo: lo + index.offset, size: *size },
                }),
                Binding::Now => None,
            },
            _ => None,
        }
    }

    /// A leaf of a family of the present system at subscripts.
    pub(crate) fn read(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        let wants: Option<Vec<Want>> = index.iter().map(|i| self.want(i)).collect();
        match wants {
            Some(wants) => self.read_box(family, leaf, &wants, span),
            None => self.read_gathered(family, leaf, index, span),
        }
    }

    /// A read whose subscripts mix variables: `z[i+k]`. The whole family along that subscript, then a gather.
    fn read_gathered(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        if self.depth() > 0 {
            // Nothing in a loop of its own may be read this way, so it comes from outside.
            let index = index.to_vec();
            return self.outside(|cx| cx.read(family, leaf, &index, span));
        }
        let mut wants = Vec::new();
        let mut mixed = Vec::new();
        for i in index {
            match self.want(i) {
                Some(w) => wants.push(w),
                None => {
                    let (lo, hi) = self.range_of(i);
                    let axis = self.program.new_axis("at", (hi - lo) as usize);
                    wants.push(Want::Along { axis, lo, size: hi - lo });
                    mixed.push((axis, lo, i.clone()));
                }
            }
        }
        let mut value = self.read_box(family, leaf, &wants, span)?;
        for (axis, lo, i) in mixed {
            let places = self.index_value(&i, span)?;
            let first = self.graph().constant(-lo as f64, span);
            let places = self.graph().add(places, first, span);
            value = self.graph().gather(value, axis, places, span);
        }
        Ok(value)
    }

    /// The values that a subscript takes, `lo..hi`.
    pub(crate) fn range_of(&self, index: &Index) -> (i64, i64) {
        let (mut lo, mut hi) = (index.offset, index.offset);
        for (var, factor) in &index.terms {
            let (first, last) = match self.bindings.get(var) {
                Some(Binding::Axis { lo, size, .. }) => (*lo, lo + size - 1),
                _ => (0, 0),
            };
            let ends = (first * factor, last * factor);
            lo += ends.0.min(ends.1);
            hi += ends.0.max(ends.1);
        }
        (lo, hi + 1)
    }

    pub(crate) fn read_box(&mut self, family: FamilyId, leaf: usize, wants: &[Want], span: Span) -> Result<ValueId> {
        let depth = self.depth();
        if depth > 0 {
            if let Some(value) = self.read_in_loop(family, leaf, wants, span)? {
                return Ok(value);
            }
            // Not of this loop: the value around it, along the loop's axis.
            let around = self.around(wants);
            return self.outside(|cx| cx.read_box(family, leaf, &around, span));
        }
        let pieces: Vec<Piece> = self.families.of(self.which, family).to_vec();
        if let Some(piece) = pieces.iter().find(|p| covers(p, wants)) {
            // Where a segment has a past, its steps before the first are no base cases, but for those who name the step.
            if let ([Span1::At(at)], [Want::Along { .. }]) = (&piece.spans[..], wants)
                && let Some(value) = self.past(family, leaf, *at, span)?
            {
                let piece = Piece { leaves: vec![value], ..piece.clone() };
                return Ok(self.cut(&piece, 0, wants, span));
            }
            return Ok(self.cut(piece, leaf, wants, span));
        }
        self.read_split(family, leaf, wants, &pieces, span)
    }

    /// The wants of a read as the graph around the present body sees them.
    fn around(&self, wants: &[Want]) -> Vec<Want> {
        let depth = self.depth();
        wants
            .iter()
            .map(|w| match (*w, &self.frames[depth].scan) {
                (Want::Loop { depth: d, shift }, Some(s)) if d == depth => {
                    Want::Along { axis: s.axis, lo: s.lo + shift, size: s.hi - s.lo }
                }
                (w, _) => w,
            })
            .collect()
    }

    /// A read of a value that the present loop computes: this iteration's, or a carried one.
    fn read_in_loop(&mut self, family: FamilyId, leaf: usize, wants: &[Want], span: Span) -> Result<Option<ValueId>> {
        let depth = self.depth();
        let Some(scan) = &self.frames[depth].scan else { return Ok(None) };
        if scan.which != self.which {
            return Ok(None);
        }
        let members: Vec<(DefId, i64)> = scan.members.iter().filter(|m| m.family == family).map(|m| (m.def, m.shift)).collect();
        let position = scan.position;
        let backward = scan.backward;
        let Some(Want::Loop { depth: d, shift }) = wants.get(position).copied() else { return Ok(None) };
        if members.is_empty() || d != depth {
            return Ok(None);
        }
        let mut pieces = Vec::new();
        for (def, own) in members {
            // In the loops around this one, only their present iteration is at hand.
            let elsewhere = wants.iter().enumerate().any(|(q, w)| match w {
                Want::Loop { depth: d, shift } if q != position => {
                    let around = self.frames.get(*d).and_then(|f| f.scan.as_ref());
                    around.is_none_or(|s| !s.members.iter().any(|m| m.def == def && m.shift == *shift))
                }
                _ => false,
            });
            if elsewhere {
                continue;
            }
            let distance = shift - own;
            let lag = if backward { distance } else { -distance };
            if lag == 0 {
                pieces.extend(self.families.of(self.which, family).iter().filter(|p| p.depth == depth && p.def == def).cloned());
            } else if lag > 0 {
                pieces.extend(self.slot_piece(def, family, leaf, lag));
            }
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut wants = wants.to_vec();
        wants[position] = Want::Loop { depth, shift: 0 };
        if let Some(piece) = pieces.iter().find(|p| covers(p, &wants)) {
            let leaf = if piece.leaves.len() == 1 { 0 } else { leaf };
            return Ok(Some(self.cut(piece, leaf, &wants, span)));
        }
        if !pieces.iter().any(|p| meets(p, &wants)) {
            return Ok(None);
        }
        // Part of it lies outside the loop: those parts are read on their own.
        wants[position] = Want::Loop { depth, shift };
        self.read_split(family, leaf, &wants, &pieces, span).map(Some)
    }

    fn slot_piece(&self, def: DefId, family: FamilyId, leaf: usize, lag: i64) -> Option<Piece> {
        let depth = self.depth();
        let scan = self.frames[depth].scan.as_ref()?;
        let slot = scan.slots.iter().find(|s| s.def == def && s.leaf == leaf && s.lag == lag)?;
        let spans = self.def_spans(def, family, depth);
        Some(Piece { def, depth, leaves: vec![slot.param], spans })
    }

    /// Cuts the box at the first border of a piece inside it, reads both parts and puts them together.
    fn read_split(&mut self, family: FamilyId, leaf: usize, wants: &[Want], pieces: &[Piece], span: Span) -> Result<ValueId> {
        for (p, want) in wants.iter().enumerate() {
            let Want::Along { axis, lo, size } = *want else { continue };
            let mut borders: Vec<i64> = Vec::new();
            let all: Vec<Piece> = pieces.iter().chain(self.families.of(self.which, family)).cloned().collect();
            for piece in &all {
                match piece.spans.get(p) {
                    Some(Span1::At(at)) => borders.extend([*at, at + 1]),
                    Some(Span1::Along { lo, size, .. }) => borders.extend([*lo, lo + size]),
                    _ => {}
                }
            }
            borders.retain(|b| *b > lo && *b < lo + size);
            let Some(border) = borders.iter().min().copied() else { continue };
            let (first, second) = (border - lo, lo + size - border);
            let a = self.program.new_axis("first", first as usize);
            let b = self.program.new_axis("rest", second as usize);
            let mut left = wants.to_vec();
            left[p] = Want::Along { axis: a, lo, size: first };
            let mut right = wants.to_vec();
            right[p] = Want::Along { axis: b, lo: border, size: second };
            let x = self.read_box(family, leaf, &left, span)?;
            let y = self.read_box(family, leaf, &right, span)?;
            return Ok(self.end_to_end(&[x, y], &[a, b], axis, span));
        }
        let name = self.system().family(family).name.clone();
        self.unsupported(format!("a value of `{name}` is read that no equation before it gives"), span)
    }

    /// Arrays end to end; each may lack axes that others have.
    pub(super) fn end_to_end(&mut self, parts: &[ValueId], along: &[AxisId], into: AxisId, span: Span) -> ValueId {
        let mut others: Vec<AxisId> = Vec::new();
        for (part, own) in parts.iter().zip(along) {
            let axes = self.graph().axes(*part).to_vec();
            let new: Vec<AxisId> = axes.into_iter().filter(|a| a != own && !others.contains(a)).collect();
            others.extend(new);
        }
        let mut values = Vec::new();
        for (part, own) in parts.iter().zip(along) {
            let axes: Vec<AxisId> = [*own].into_iter().chain(others.iter().copied()).collect();
            values.push(self.graph().expand(*part, &axes, span));
        }
        self.graph().concat(values, along.to_vec(), into, span)
    }

    /// A box out of a piece that holds it.
    pub(super) fn cut(&mut self, piece: &Piece, leaf: usize, wants: &[Want], span: Span) -> ValueId {
        let mut value = piece.leaves[leaf.min(piece.leaves.len() - 1)];
        for (have, want) in piece.spans.iter().zip(wants) {
            let Span1::Along { axis, lo, size } = *have else {
                // One value, wanted along an axis of one: it is there without the axis.
                continue;
            };
            match *want {
                Want::At(at) => {
                    if self.graph().axes(value).contains(&axis) {
                        let one = self.program.new_axis("one", 1);
                        value = self.graph().slice(value, axis, (at - lo) as usize, one, span);
                        value = self.graph().sum(value, &[one], span);
                    }
                }
                Want::Along { axis: to, lo: from, size: n } => {
                    if !self.graph().axes(value).contains(&axis) {
                        continue;
                    }
                    value = if from == lo && n == size {
                        self.graph().rename(value, axis, to, span)
                    } else {
                        self.graph().slice(value, axis, (from - lo) as usize, to, span)
                    };
                }
                Want::Loop { .. } => {}
            }
        }
        // A single value along an axis that was asked for: spread over it, so that parts fit together.
        for (have, want) in piece.spans.iter().zip(wants) {
            if let (Span1::At(_), Want::Along { axis, .. }) = (have, want)
                && !self.graph().axes(value).contains(axis)
            {
                let mut axes = vec![*axis];
                axes.extend(self.graph().axes(value));
                value = self.graph().push(Op::Expand(value), axes, span);
            }
        }
        value
    }

    /// Where an equation's values lie, in the frame at `depth`.
    pub(crate) fn def_spans(&self, def: DefId, _family: FamilyId, depth: usize) -> Vec<Span1> {
        let def = self.system().def(def);
        def.lhs
            .iter()
            .map(|lhs| match lhs {
                dsl::hir::Lhs::At(at) => Span1::At(*at),
                dsl::hir::Lhs::Var { var, offset } => match self.bindings.get(var) {
                    Some(Binding::Axis { scan: Some(d), .. }) if *d <= depth => Span1::Loop { depth: *d },
                    Some(Binding::Axis { axis, lo, size, .. }) => Span1::Along { axis: *axis, lo: lo + offset, size: *size },
                    _ => Span1::At(0),
                },
            })
            .collect()
    }
}

/// Whether a piece holds a part of a box.
fn meets(piece: &Piece, wants: &[Want]) -> bool {
    piece.spans.iter().zip(wants).all(|(have, want)| match (*have, *want) {
        (Span1::At(a), Want::At(b)) => a == b,
        (Span1::At(a), Want::Along { lo, size, .. }) => a >= lo && a < lo + size,
        (Span1::Along { lo, size, .. }, Want::At(at)) => at >= lo && at < lo + size,
        (Span1::Along { lo, size, .. }, Want::Along { lo: from, size: n, .. }) => from < lo + size && lo < from + n,
        (Span1::Loop { depth: a }, Want::Loop { depth: b, .. }) => a == b,
        _ => false,
    })
}

fn covers(piece: &Piece, wants: &[Want]) -> bool {
    piece.spans.iter().zip(wants).all(|(have, want)| match (*have, *want) {
        (Span1::At(a), Want::At(b)) => a == b,
        (Span1::At(a), Want::Along { lo, size, .. }) => size == 1 && lo == a,
        (Span1::Along { lo, size, .. }, Want::At(at)) => at >= lo && at < lo + size,
        (Span1::Along { lo, size, .. }, Want::Along { lo: from, size: n, .. }) => from >= lo && from + n <= lo + size,
        (Span1::Loop { depth: a }, Want::Loop { depth: b, .. }) => a == b,
        _ => false,
    })
}
