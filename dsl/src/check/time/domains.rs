//! Ranges of index variables and domains of families.
//!
//! An index without `for` ranges over all points from zero on where everything it reads exists; a family exists from
//! the first point that an equation gives to the last. Both are said here as rules over the ends of ranges, and solved
//! by [`super::ends`]. A subscript with several variables, `a[i+k]`, restricts the innermost variable without a range,
//! for all values of the others.
//!
//! An index starts at the larger of zero and what its reads allow: with x on 0..8, the t of `d[t] = x[t+1]` is 0..7,
//! not -1..7. Only a `for` of its own takes it below zero. An index that reads nothing follows the other equations of
//! its family, as `i` in `n[i, -1] = 0`, wherever they go.
//!
//! A base case (`with x[-1] = ..`) is there for those who look back or ahead: an index that reads a family at its own
//! point, as `t` in `y[t] = f(x[t])`, does not take it in. Where a family has nothing but base cases, it does.
//!
//! Nothing is judged here: a range may come out empty or endless, and a read may lie outside; [`super::faults`] looks
//! at that.

use super::View;
use super::ends::{self, End, Of, Part, Rule, Term};
use super::interval::{FAR, Interval, add, multiply};
use super::reads::{Item, Origin, Read, Target};
use crate::hir::{FamilyId, Index, Lhs, System, VarId};

/// What follows from the reads, before any judgement.
#[derive(Debug)]
pub(super) struct Domains {
    /// By variable.
    pub(super) ranges: Vec<Interval>,
    /// By family and subscript.
    pub(super) families: Vec<Vec<Interval>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Lower,
    Upper,
}

const SIDES: [Side; 2] = [Side::Lower, Side::Upper];

impl Side {
    /// The side that `factor * x` has where x has this one.
    fn times(self, factor: i64) -> Side {
        match (self, factor > 0) {
            (side, true) => side,
            (Side::Lower, false) => Side::Upper,
            (Side::Upper, false) => Side::Lower,
        }
    }

    /// A number as an end of this side: larger is further out.
    fn end(self, number: i64) -> i64 {
        match self {
            Side::Lower => -number.max(-FAR),
            Side::Upper => number.max(-FAR),
        }
    }

    fn of(self, interval: Interval) -> i64 {
        match self {
            Side::Lower => -interval.lo,
            Side::Upper => interval.hi,
        }
    }
}

pub(super) fn infer(view: &View<'_>, items: &[Item<'_>]) -> Domains {
    let ends = Ends::new(view);
    let values = ends::solve(&ends.rules(view, items));
    let interval =
        |end: &dyn Fn(Side) -> End| Interval { lo: -values[end(Side::Lower) as usize], hi: values[end(Side::Upper) as usize] };
    Domains {
        ranges: (0..view.vars.len()).map(|var| interval(&|side| ends.var(VarId(var as u32), side))).collect(),
        families: (view.system.families.iter().enumerate())
            .map(|(family, f)| {
                (0..f.arity).map(|p| interval(&|side| ends.family(FamilyId(family as u32), p, false, side))).collect()
            })
            .collect(),
    }
}

impl Domains {
    pub(super) fn range(&self, var: VarId) -> Interval {
        self.ranges[var.0 as usize]
    }

    /// Where the target of a read exists along its subscript `position`; none where there is no such subscript.
    pub(super) fn domain(&self, view: &View<'_>, target: Target, position: usize) -> Option<Interval> {
        match target {
            Target::Family(family) => self.families[family.0 as usize].get(position).copied(),
            _ => known_domain(view, target, position),
        }
    }

    /// The points that a read touches: for each subscript, its values. None where a variable has no values.
    pub(super) fn touched(&self, read: &Read<'_>) -> Option<Vec<Interval>> {
        read.index.iter().map(|index| Interval::of(index, |var| self.range(var))).collect()
    }

    /// The points that an equation gives.
    pub(super) fn given(&self, lhs: &[Lhs]) -> Vec<Interval> {
        lhs.iter()
            .map(|lhs| match *lhs {
                Lhs::At(at) => Interval::point(at),
                Lhs::Var { var, offset } => self.range(var).shift(offset),
            })
            .collect()
    }
}

/// The domain of a family outside the system.
fn known_domain(view: &View<'_>, target: Target, position: usize) -> Option<Interval> {
    let along = |system: &System, family: FamilyId| system.families.get(family.0 as usize)?.domain.get(position).copied();
    let pair = match target {
        Target::Input(input) if position == 0 => view.inputs.get(input).map(|(_, domain)| *domain),
        Target::Outer(family) => view.outer.and_then(|outer| along(outer, family)),
        Target::Input(_) | Target::Family(_) => None,
    };
    pair.map(Interval::half_open)
}

/// The variable that a subscript restricts: the innermost one without a range of its own.
pub(super) fn restricted(view: &View<'_>, item: &Item<'_>, index: &Index) -> Option<VarId> {
    let depth = |var: VarId| item.vars.iter().position(|v| *v == var).unwrap_or(usize::MAX);
    index.terms.iter().map(|(var, _)| *var).filter(|var| !view.is_explicit(*var)).max_by_key(|var| (depth(*var), *var))
}

/// Numbers for the ends: two for each variable, then four for each subscript of each family: of all its equations, and
/// of those that are no base cases.
struct Ends {
    /// Where the subscripts of a family begin.
    first: Vec<u32>,
    count: usize,
}

impl Ends {
    fn new(view: &View<'_>) -> Ends {
        let mut next = 2 * view.vars.len() as u32;
        let mut first = Vec::with_capacity(view.system.families.len());
        for family in &view.system.families {
            first.push(next);
            next += 4 * family.arity as u32;
        }
        Ends { first, count: next as usize }
    }

    fn var(&self, var: VarId, side: Side) -> End {
        2 * var.0 + side as u32
    }

    fn family(&self, family: FamilyId, position: usize, own: bool, side: Side) -> End {
        self.first[family.0 as usize] + 4 * position as u32 + 2 * u32::from(own) + side as u32
    }

    fn rules(&self, view: &View<'_>, items: &[Item<'_>]) -> Vec<Rule> {
        let mut terms: Vec<Vec<Term>> = (0..self.count).map(|_| Vec::new()).collect();
        let mut parts: Vec<Vec<Part>> = (0..self.count).map(|_| Vec::new()).collect();
        let mut homes: Vec<Vec<(End, i64)>> = vec![Vec::new(); self.count];
        for item in items {
            for read in &item.reads {
                self.restrict(view, item, read, &mut terms);
            }
            let Origin::Def(id) = item.origin else {
                continue;
            };
            let def = view.system.def(id);
            // A family of nothing but base cases is all its own.
            let own = !def.base || view.system.family(def.family).defs.iter().all(|d| view.system.def(*d).base);
            for (position, lhs) in def.lhs.iter().enumerate().take(view.system.family(def.family).arity) {
                for side in SIDES {
                    let family = self.family(def.family, position, false, side);
                    let part = match *lhs {
                        Lhs::At(at) => Part { of: Of::Known(side.end(at)), plus: 0 },
                        Lhs::Var { var, offset } => {
                            let var = self.var(var, side);
                            // Alone in its bracket it would only repeat the points of the others.
                            if def.lhs.len() > 1 {
                                homes[var as usize].push((family, side.end(offset)));
                            }
                            Part { of: Of::End(var), plus: side.end(offset) }
                        }
                    };
                    parts[family as usize].push(part);
                    if own {
                        parts[self.family(def.family, position, true, side) as usize].push(part);
                    }
                }
            }
        }

        // An index that no value reads is bounded by what was read on the way to it.
        let mut fallback: Vec<Vec<Term>> = (0..self.count).map(|_| Vec::new()).collect();
        for item in items {
            for read in &item.touched {
                self.restrict(view, item, read, &mut fallback);
            }
        }
        for (own, other) in terms.iter_mut().zip(fallback).take(2 * view.vars.len()) {
            if own.is_empty() {
                *own = other;
            }
        }

        for &(var, range) in view.within {
            for side in SIDES {
                let terms = &mut terms[self.var(var, side) as usize];
                if !terms.is_empty() {
                    let of = Of::Known(side.of(Interval::half_open(range)));
                    terms.push(Term { of, minus: 0, others: Vec::new(), by: 1 });
                }
            }
        }

        let mut rules = Vec::with_capacity(self.count);
        for (end, (terms, (parts, homes))) in terms.into_iter().zip(parts.into_iter().zip(homes)).enumerate() {
            let side = SIDES[end % 2];
            rules.push(match view.vars.get(end / 2) {
                None => Rule::Most(parts),
                Some(decl) => match decl.range {
                    Some(range) => Rule::Known(side.of(Interval::half_open(range))),
                    None if terms.is_empty() && !homes.is_empty() => Rule::Free(homes),
                    None => {
                        let mut terms = terms;
                        // Time starts at zero: who means an earlier step says so with `for`.
                        if side == Side::Lower && !terms.is_empty() {
                            terms.push(Term { of: Of::Known(0), minus: 0, others: Vec::new(), by: 1 });
                        }
                        Rule::Least(terms)
                    }
                },
            });
        }
        rules
    }

    /// The bound of a read on the variable that it restricts.
    fn restrict(&self, view: &View<'_>, item: &Item<'_>, read: &Read<'_>, terms: &mut [Vec<Term>]) {
        let explicit = |var: VarId| view.vars[var.0 as usize].range.map(Interval::half_open);
        let variables = || read.index.iter().flat_map(|index| &index.terms);
        if variables().any(|(var, _)| explicit(*var).is_some_and(Interval::is_empty)) {
            return;
        }
        for (position, index) in read.index.iter().enumerate() {
            let Some(inner) = restricted(view, item, index) else {
                continue;
            };
            let Some(&(_, inner_factor)) = index.terms.iter().find(|(var, _)| *var == inner) else {
                continue;
            };
            let here = index.offset == offset_of(view, item, inner) && index.terms.len() == 1 && inner_factor == 1;
            for side in SIDES {
                let of = match read.target {
                    Target::Family(family) if position < view.system.family(family).arity => {
                        Of::End(self.family(family, position, here, side))
                    }
                    target => match known_domain(view, target, position) {
                        Some(domain) => Of::Known(side.of(domain)),
                        None => continue,
                    },
                };
                let mut term = Term { of, minus: side.end(index.offset), others: Vec::new(), by: inner_factor.saturating_abs() };
                for &(var, factor) in index.terms.iter().filter(|(var, _)| *var != inner) {
                    let (side, factor) = (side.times(factor), factor.saturating_abs());
                    match explicit(var) {
                        Some(range) => term.minus = add(term.minus, multiply(side.of(range), factor)),
                        None => term.others.push((self.var(var, side), factor)),
                    }
                }
                terms[self.var(inner, side.times(inner_factor)) as usize].push(term);
            }
        }
    }
}

/// The offset at which an equation's left side has a variable: its own point.
fn offset_of(view: &View<'_>, item: &Item<'_>, var: VarId) -> i64 {
    let Origin::Def(id) = item.origin else { return 0 };
    let own = view.system.def(id).lhs.iter().find_map(|lhs| match *lhs {
        Lhs::Var { var: v, offset } if v == var => Some(offset),
        _ => None,
    });
    own.unwrap_or(0)
}
