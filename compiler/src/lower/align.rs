//! How the equations of a loop run beside each other.

use super::Lower;
use super::frame::Member;
use super::trim::collect;
use dsl::hir::{DefId, ExprId, FamilyId, Index, Lhs, Op as Hir, Stage};
use std::collections::{HashMap, HashSet};

/// How the iterations of a loop relate to the subscripts of its equations.
pub(super) struct Alignment {
    /// For each equation the iterations at which it holds, `lo..hi`.
    pub(super) ranges: Vec<(i64, i64)>,
    /// For each equation the subscript that iteration j gives, less j.
    pub(super) shifts: Vec<i64>,
}

/// A read of a family inside a recurrence.
pub(super) struct Edge {
    pub reader: DefId,
    pub family: FamilyId,
    pub leaf: usize,
    pub index: Vec<Index>,
}

impl Lower<'_> {
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
    pub(super) fn align(
        &self,
        defs: &[DefId],
        position: usize,
        backward: bool,
        edges: &[Edge],
        body: &[Stage],
    ) -> Option<Alignment> {
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
    pub(super) fn body_order(&self, body: &[Stage], members: &[Member], position: usize, edges: &[Edge]) -> Vec<usize> {
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
                if !self.meets(edge, m.def, position) {
                    continue;
                }
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

    /// Whether a read may be of entries that an equation gives, by their subscripts other than the loop's.
    fn meets(&self, edge: &Edge, def: DefId, position: usize) -> bool {
        let others = edge.index.iter().zip(&self.system().def(def).lhs).enumerate().filter(|(place, _)| *place != position);
        others.into_iter().all(|(_, (index, given))| {
            let range = |var, offset| {
                let (lo, hi) = self.var_range(var);
                (lo + offset, hi + offset)
            };
            let read = match (index.constant(), index.shifted()) {
                (Some(at), _) => (at, at + 1),
                (_, Some((var, offset))) => range(var, offset),
                _ => return true,
            };
            let given = match *given {
                Lhs::At(at) => (at, at + 1),
                Lhs::Var { var, offset } => range(var, offset),
            };
            read.0 < given.1 && given.0 < read.1
        })
    }
}
