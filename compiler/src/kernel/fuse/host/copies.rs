//! Where values are outside of kernels, and kernels that copy them to where they are wanted.

use super::super::partition::row_axes;
use super::super::shape::Kind;
use super::super::spot::{self, Affine, At, Spot};
use super::super::tile::lanes;
use super::super::{Fuser, Result, Rows};
use super::{Host, padded, side_by_side, sizes, view};
use crate::ir::{AxisId, Op, ValueId};
use crate::kernel::{Base, BufferKind, Copy, Kernel, Lanes, Notes, Stmt, Tile, View, Work};

impl Host<'_> {
    /// Where a value is, seen from outside of kernels.
    pub(super) fn spot(&mut self, fuser: &mut Fuser<'_>, v: ValueId, before: &mut Vec<Kernel>) -> Result<Spot> {
        match self.shape.kinds[v.0 as usize].clone() {
            Kind::Free(a) => Ok(Spot::Affine(a)),
            Kind::View(of) => {
                let from = self.spot(fuser, of, before)?;
                let op = &self.graph.node(v).op;
                let places: Option<Affine> = match op {
                    Op::Gather { at, .. } => match &self.shape.kinds[at.0 as usize] {
                        Kind::Free(a) => Some(a.clone()),
                        _ => None,
                    },
                    _ => None,
                };
                if let Some(spot) = spot::view(fuser.program, op, &from, places.as_ref()) {
                    return Ok(spot);
                }
                let Op::Join { axes, into, .. } = op else { return Err(format!("`{}` is not a view here", op.name())) };
                let all = self.graph.axes(v).to_vec();
                let id = fuser.buffer("joined", fuser.program.len(&all), BufferKind::Temp, self.origin(v));
                let to = At::dense(Base::Buffer(id), fuser.program, &all, 1);
                let split = Op::Split { of, axis: *into, into: axes.clone() };
                let Some(Spot::At(apart)) = spot::view(fuser.program, &split, &Spot::At(to.clone()), None) else {
                    return Err("an axis does not split".to_string());
                };
                before.push(self.copy(fuser, of, &from, &apart, "joined axes"));
                Ok(Spot::At(to))
            }
            Kind::Source | Kind::Work => {
                let root = self.shape.roots[v.0 as usize].ok_or("a value without a root")?;
                self.places.get(&root).cloned().ok_or_else(|| "a value is used before it is computed".to_string())
            }
        }
    }

    /// A value with these rows side by side, copied if they are not.
    pub(super) fn rowed(
        &mut self,
        fuser: &mut Fuser<'_>,
        v: ValueId,
        of: &Rows,
        rows: &[Option<AxisId>],
        sizes: &[usize],
        before: &mut Vec<Kernel>,
    ) -> Result<At> {
        let from = self.spot(fuser, v, before)?;
        if let Spot::At(at) = &from
            && lanes(at, rows, sizes) == Lanes::Unit
        {
            return Ok(at.clone());
        }
        let features: Vec<AxisId> = self.graph.axes(v).iter().copied().filter(|a| !rows.contains(&Some(*a))).collect();
        let id = fuser.buffer("rows", fuser.program.len(&features) * padded(fuser, sizes), BufferKind::Temp, self.origin(v));
        let to = side_by_side(fuser, Base::Buffer(id), &features, rows, sizes);
        before.push(self.copy_rows(fuser, v, &from, &to, of, "rows are laid side by side"));
        Ok(to)
    }

    /// A kernel that copies a value.
    pub(super) fn copy(&self, fuser: &mut Fuser<'_>, v: ValueId, from: &Spot, to: &At, reason: &str) -> Kernel {
        let (rows, _) = fuser.dims.rows(self.graph, self.id, v);
        let rows = if rows.is_empty() { Rows::Axes(self.graph.axes(v).to_vec()) } else { Rows::Classes(rows) };
        self.copy_rows(fuser, v, from, to, &rows, reason)
    }

    pub(super) fn copy_rows(&self, fuser: &mut Fuser<'_>, v: ValueId, from: &Spot, to: &At, rows: &Rows, reason: &str) -> Kernel {
        let sizes = sizes(fuser, rows);
        let axes = row_axes(rows, &fuser.dims, self.graph, self.id, v);
        let features: Vec<AxisId> = self.graph.axes(v).iter().copied().filter(|a| !axes.contains(&Some(*a))).collect();
        let from = match from {
            Spot::At(at) => at.clone(),
            Spot::Affine(a) => fuser.numbers(a),
        };
        let seen = |at: &At| {
            let strides = axes.iter().map(|a| a.map_or(0, |a| at.stride(a))).collect();
            View { lanes: Lanes::Strided(strides), ..view(at, &features) }
        };
        let dims = features.iter().map(|a| fuser.program.size(*a)).collect();
        let copy = Stmt::Copy(Copy { dims, from: seen(&from), to: seen(to) });
        let tile = Tile { rows: sizes, locals: Vec::new(), arena: 0, body: vec![copy] };
        let notes = Notes { ops: Vec::new(), reason: reason.to_string() };
        Kernel { name: "copy".to_string(), work: Work::Tile(tile), notes }
    }
}
