//! Which equations give which points of a family.
//!
//! An equation gives a box: an interval for each subscript. A read touches a box too; the boxes of a family's
//! equations that overlap it are what it depends on, and the rest of it is missing.

use super::View;
use super::domains::Domains;
use super::interval::Interval;
use crate::hir::DefId;

/// A box of points: an interval for each subscript.
type Points = Vec<Interval>;

/// The boxes of one family's equations, sorted along one subscript.
#[derive(Debug)]
pub(super) struct Cover {
    /// The subscript along which the equations differ most.
    position: usize,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    def: DefId,
    given: Points,
    /// The furthest end of this entry and all before it.
    furthest: i64,
}

impl Cover {
    /// The cover of every family.
    pub(super) fn all(view: &View<'_>, domains: &Domains) -> Vec<Cover> {
        let mut entries: Vec<Vec<Entry>> = view.system.families.iter().map(|_| Vec::new()).collect();
        for (id, def) in view.system.defs.iter().enumerate() {
            let entry = Entry { def: DefId(id as u32), given: domains.given(&def.lhs), furthest: 0 };
            if entry.given.len() == view.system.family(def.family).arity {
                entries[def.family.0 as usize].push(entry);
            }
        }
        view.system.families.iter().zip(entries).map(|(family, entries)| Cover::new(view, family.arity, entries)).collect()
    }

    fn new(view: &View<'_>, arity: usize, mut entries: Vec<Entry>) -> Cover {
        let starts = |position: usize| {
            let mut starts: Vec<i64> = entries.iter().map(|entry| entry.given[position].lo).collect();
            starts.sort_unstable();
            starts.dedup();
            starts.len()
        };
        let position = (0..arity).rev().max_by_key(|position| starts(*position)).unwrap_or(0);
        entries.sort_by_key(|entry| (along(&entry.given, position).lo, view.system.def(entry.def).span, entry.def));
        let mut furthest = i64::MIN;
        for entry in &mut entries {
            furthest = furthest.max(along(&entry.given, position).hi);
            entry.furthest = furthest;
        }
        Cover { position, entries }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The equations that give a part of a box.
    pub(super) fn overlapping<'c>(&'c self, touched: &'c [Interval]) -> impl Iterator<Item = DefId> + 'c {
        self.entries_over(touched).map(|entry| entry.def)
    }

    /// A point of the box that no equation gives.
    pub(super) fn missing(&self, touched: &[Interval]) -> Option<Vec<i64>> {
        let mut left = vec![touched.to_vec()];
        for entry in self.entries_over(touched) {
            left = left.into_iter().flat_map(|piece| without(piece, &entry.given)).collect();
        }
        left.iter().map(|piece| piece.iter().map(|interval| interval.lo).collect()).min()
    }

    /// Two equations that give the same point, and the point; every equation at most once as the second.
    pub(super) fn conflicts(&self) -> Vec<(DefId, DefId, Vec<i64>)> {
        let mut found = Vec::new();
        for (number, entry) in self.entries.iter().enumerate() {
            let from = along(&entry.given, self.position).lo;
            let mut before = self.entries[..number].iter().rev().take_while(|other| other.furthest >= from);
            if let Some(other) = before.find(|other| overlap(&other.given, &entry.given)) {
                let shared = other.given.iter().zip(&entry.given).map(|(a, b)| a.lo.max(b.lo)).collect();
                found.push((other.def, entry.def, shared));
            }
        }
        found
    }

    fn entries_over<'c>(&'c self, touched: &'c [Interval]) -> impl Iterator<Item = &'c Entry> + 'c {
        let reach = along(touched, self.position);
        let end = self.entries.partition_point(|entry| along(&entry.given, self.position).lo <= reach.hi);
        let near = self.entries[..end].iter().rev().take_while(move |entry| entry.furthest >= reach.lo);
        near.filter(|entry| overlap(&entry.given, touched))
    }
}

/// A family without subscripts has one point.
fn along(given: &[Interval], position: usize) -> Interval {
    given.get(position).copied().unwrap_or(Interval::point(0))
}

fn overlap(a: &[Interval], b: &[Interval]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| !a.meet(*b).is_empty())
}

/// The rest of a box after a cut, in pieces.
fn without(mut piece: Points, hole: &[Interval]) -> Vec<Points> {
    if !overlap(&piece, hole) {
        return vec![piece];
    }
    let mut left = Vec::new();
    for (position, hole) in hole.iter().enumerate() {
        let whole = piece[position];
        let below = Interval { lo: whole.lo, hi: hole.lo.saturating_sub(1) };
        let above = Interval { lo: hole.hi.saturating_add(1), hi: whole.hi };
        for outside in [below.meet(whole), above.meet(whole)] {
            if !outside.is_empty() {
                let mut rest = piece.clone();
                rest[position] = outside;
                left.push(rest);
            }
        }
        piece[position] = whole.meet(*hole);
    }
    left
}
