//! What every equation reads.

use hashbrown::HashMap;

use super::{Site, View};
use crate::hir::{DefId, ExprId, FamilyId, Index, Node, Op, VarId};
use crate::source::Span;

/// Where a read value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// A field of the data.
    Input(usize),
    /// A family of the system at hand.
    Family(FamilyId),
    /// A family of the solved system around it.
    Outer(FamilyId),
}

/// `z[t+1]` on the right of an equation.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) target: Target,
    pub(super) index: &'a [Index],
    pub(super) span: Span,
}

/// An equation, or a site that only reads.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) origin: Origin<'a>,
    /// From the outermost variable to the innermost.
    pub(super) vars: &'a [VarId],
    pub(super) span: Span,
    /// In the order of the text, each once.
    pub(super) reads: Vec<Read<'a>>,
    /// What was read on the way and is no part of the values: it bounds an index that nothing else bounds.
    pub(super) touched: Vec<Read<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Origin<'a> {
    Def(DefId),
    Site(&'a Site),
}

/// The equations in the order of their ids, then the sites.
pub(super) fn collect<'a>(view: &View<'a>) -> Vec<Item<'a>> {
    let mut walk =
        Walk { exprs: view.exprs, written_out: view.written_out, seen: vec![0; view.exprs.len()], round: 0, stack: Vec::new() };
    let defs = view.system.defs.iter().enumerate().map(|(id, def)| {
        let reads = walk.reads(&def.values);
        let touched = walk.reads(view.touched.get(id).map_or(&[], Vec::as_slice));
        Item { origin: Origin::Def(DefId(id as u32)), vars: &def.vars, span: def.span, reads, touched }
    });
    let mut items: Vec<Item<'a>> = defs.collect();
    items.extend(view.sites.iter().map(|site| {
        let reads = walk.reads(&site.values);
        let touched = walk.reads(&site.touched);
        Item { origin: Origin::Site(site), vars: &site.vars, span: site.span, reads, touched }
    }));
    items
}

/// Visits each expression once an equation: they share parts with each other and with themselves.
struct Walk<'a> {
    exprs: &'a [Node],
    written_out: &'a HashMap<ExprId, ExprId>,
    /// The last round in which an expression was met.
    seen: Vec<u32>,
    round: u32,
    stack: Vec<ExprId>,
}

impl<'a> Walk<'a> {
    fn reads(&mut self, values: &[ExprId]) -> Vec<Read<'a>> {
        self.round += 1;
        self.stack.extend(values);
        let mut reads = Vec::new();
        while let Some(id) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[id.0 as usize], self.round) == self.round {
                continue;
            }
            let node = &self.exprs[id.0 as usize];
            match &node.op {
                Op::Input { input, index } => {
                    reads.push(Read { target: Target::Input(*input), index: std::slice::from_ref(index), span: node.span });
                }
                Op::Read { family, index, .. } => reads.push(Read { target: Target::Family(*family), index, span: node.span }),
                Op::Outer { family, index, .. } => reads.push(Read { target: Target::Outer(*family), index, span: node.span }),
                op => {
                    op.operands(|operand| self.stack.push(operand));
                    if matches!(op, Op::Grad { .. }) {
                        self.stack.extend(self.written_out.get(&id));
                    }
                }
            }
        }
        // The leaves of a record are read one by one: for time they are one read.
        reads.sort_unstable_by(|a, b| (a.target, a.index, a.span).cmp(&(b.target, b.index, b.span)));
        reads.dedup_by(|a, b| a.target == b.target && a.index == b.index);
        reads.sort_by_key(|read| read.span);
        reads
    }
}
