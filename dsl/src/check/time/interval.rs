//! Intervals of whole numbers, and subscripts evaluated over them.

use crate::hir::{Index, VarId};

/// Further than any subscript: an end that nothing bounds. `-FAR` is the same in the other direction.
pub(super) const FAR: i64 = i64::MAX;

/// The numbers `lo..=hi`; empty where `lo > hi`. An end may be [`FAR`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Interval {
    pub(super) lo: i64,
    pub(super) hi: i64,
}

impl Interval {
    pub(super) const ALL: Interval = Interval { lo: -FAR, hi: FAR };

    pub(super) fn point(at: i64) -> Interval {
        let at = at.max(-FAR);
        Interval { lo: at, hi: at }
    }

    /// From the half-open pair that the checked model stores.
    pub(super) fn half_open((lo, hi): (i64, i64)) -> Interval {
        Interval { lo: lo.max(-FAR), hi: hi.saturating_sub(1).max(-FAR) }
    }

    /// Back to the half-open pair.
    pub(super) fn to_half_open(self) -> (i64, i64) {
        (self.lo, self.hi.saturating_add(1))
    }

    pub(super) fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    pub(super) fn is_bounded(self) -> bool {
        self.lo.saturating_abs() < FAR && self.hi.saturating_abs() < FAR
    }

    pub(super) fn contains(self, other: Interval) -> bool {
        self.lo <= other.lo && other.hi <= self.hi
    }

    pub(super) fn meet(self, other: Interval) -> Interval {
        Interval { lo: self.lo.max(other.lo), hi: self.hi.min(other.hi) }
    }

    pub(super) fn hull(self, other: Interval) -> Interval {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Interval { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) },
        }
    }

    pub(super) fn shift(self, by: i64) -> Interval {
        Interval { lo: add(self.lo, by), hi: add(self.hi, by) }
    }

    /// The smallest interval around `by * x` for all x of this one.
    fn scale(self, by: i64) -> Interval {
        let (a, b) = (multiply(self.lo, by), multiply(self.hi, by));
        Interval { lo: a.min(b), hi: a.max(b) }
    }

    /// The values of a subscript for variables in the given ranges; none where a range is empty.
    pub(super) fn of(index: &Index, range: impl Fn(VarId) -> Interval) -> Option<Interval> {
        let mut sum = Interval::point(index.offset);
        for &(var, factor) in &index.terms {
            let over = range(var);
            if over.is_empty() {
                return None;
            }
            let part = over.scale(factor);
            sum = Interval { lo: add(sum.lo, part.lo), hi: add(sum.hi, part.hi) };
        }
        Some(sum)
    }

    /// The values of `var` for which the subscript stays inside, whatever the other variables are.
    pub(super) fn allowed(self, index: &Index, var: VarId, range: impl Fn(VarId) -> Interval) -> Interval {
        let Some(&(_, factor)) = index.terms.iter().find(|(v, _)| *v == var) else {
            return Interval::ALL;
        };
        let rest = Index { terms: index.terms.iter().copied().filter(|(v, _)| *v != var).collect(), offset: index.offset };
        let Some(rest) = Interval::of(&rest, range) else {
            return Interval::ALL;
        };
        if !rest.is_bounded() {
            return Interval::ALL;
        }
        let upper = divide(add(self.hi, -rest.hi), factor.saturating_abs());
        let lower = divide(add(-self.lo, rest.lo), factor.saturating_abs());
        if factor > 0 { Interval { lo: -lower, hi: upper } } else { Interval { lo: -upper, hi: lower } }
    }
}

/// A sum in which [`FAR`] stays far.
pub(super) fn add(a: i64, b: i64) -> i64 {
    match (a.saturating_abs() == FAR, b.saturating_abs() == FAR) {
        (true, _) => a,
        (_, true) => b,
        _ => a.saturating_add(b).max(-FAR),
    }
}

/// A product in which [`FAR`] stays far.
pub(super) fn multiply(a: i64, by: i64) -> i64 {
    a.saturating_mul(by).max(-FAR)
}

/// Division by a positive number, rounded down, in which [`FAR`] stays far.
pub(super) fn divide(a: i64, by: i64) -> i64 {
    if a.saturating_abs() == FAR || by <= 0 { a } else { a.div_euclid(by) }
}
