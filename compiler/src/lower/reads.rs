//! Reads that depend on the program: recorded values, and data.

use super::family::{Piece, Span1, Want};
use super::{Entry, Lower, Result, Which};
use crate::ir::{Role, ValueId};
use dsl::hir::{self, FamilyId, Index};
use dsl::source::Span;

impl Lower<'_> {
    /// A read of a family of the present system.
    pub(super) fn read_family(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        if self.which == Which::Train && matches!(self.entry, Entry::Act | Entry::Plan) {
            return self.read_now(family, leaf, index, span);
        }
        if self.entry == Entry::Context {
            let [index] = index else { return self.unsupported("what is remembered is of a single step", span) };
            return self.value_now(family, leaf, index, span);
        }
        // Outside the program that computes them, recorded values are data.
        if self.which != Which::Act && self.entry != Entry::Record && self.is_record(family) {
            if self.depth() > 0 {
                let index = index.to_vec();
                return self.outside(|cx| cx.read_family(family, leaf, &index, span));
            }
            return self.recorded(family, leaf, index, span);
        }
        self.read(family, leaf, index, span)
    }

    pub(super) fn is_record(&self, family: FamilyId) -> bool {
        let name = &self.system().family(family).name;
        self.model.records.iter().any(|r| self.model.train.family(*r).name == *name)
    }

    pub(super) fn leaf_name(&self, family: FamilyId, leaf: usize) -> String {
        let f = self.system().family(family);
        match f.leaves[leaf].path.as_str() {
            "" => f.name.clone(),
            path => format!("{}.{path}", f.name),
        }
    }

    fn recorded(&mut self, family: FamilyId, leaf: usize, index: &[Index], span: Span) -> Result<ValueId> {
        let name = format!("record.{}", self.leaf_name(family, leaf));
        let rows = self.rows.unwrap_or(0);
        let value = match self.inputs.get(&name) {
            Some(v) => *v,
            None => {
                let own = self.system().family(family).leaves[leaf].axes.clone();
                let mut axes = vec![self.program.new_axis("T", rows as usize)];
                axes.extend(self.axes(&own)?);
                self.input(name, Role::Record, axes, span)
            }
        };
        let axis = self.frames[0].graph.axes(value)[0];
        let piece = Piece {
            def: hir::DefId(u32::MAX),
            depth: 0,
            leaves: vec![value],
            spans: vec![Span1::Along { axis, lo: 0, size: rows }],
        };
        match index {
            [index] => self.read_piece(&piece, index, span),
            _ => self.unsupported("a recorded value has one subscript", span),
        }
    }

    /// A read of one array along time.
    pub(super) fn read_piece(&mut self, piece: &Piece, index: &Index, span: Span) -> Result<ValueId> {
        let want = match self.want(index) {
            Some(w @ (Want::At(_) | Want::Along { .. })) => w,
            _ => {
                // Several variables in one subscript: gathered.
                let Some(Span1::Along { axis, lo, .. }) = piece.spans.first().copied() else {
                    return self.unsupported("a read of data at this subscript", span);
                };
                let places = self.index_value(index, span)?;
                let first = self.graph().constant(-lo as f64, span);
                let places = self.graph().add(places, first, span);
                return Ok(self.graph().gather(piece.leaves[0], axis, places, span));
            }
        };
        Ok(self.cut(piece, 0, &[want], span))
    }
}
