//! Whether ranges that were left open are as large as they can be.

use std::collections::BTreeMap;

use super::fixture::Solved;
use crate::hir::{ExprId, FamilyId, Index, Lhs, Op, VarId};

/// A subscript that is read, with the domain that it must lie in.
type Subscript<'s> = (&'s Index, (i64, i64));

/// Checks that one step more, at either end of any range, goes below zero or reads something that does not exist; or,
/// at its own point, a base case.
pub(super) fn largest(solved: &Solved) {
    let defs = solved.system.defs.iter().map(|def| (&def.vars, &def.values, def.lhs.as_slice()));
    let sites = solved.sites.iter().map(|site| (&site.vars, &site.values, [].as_slice()));
    let mut reads_at: BTreeMap<VarId, Vec<Subscript<'_>>> = BTreeMap::new();
    for (vars, values, lhs) in defs.chain(sites) {
        for var in vars.iter().filter(|var| solved.inferred[var.0 as usize]) {
            let at = reads_at.entry(*var).or_default();
            at.extend(reads(solved, values, lhs).into_iter().filter(|(index, _)| index.terms.iter().any(|(v, _)| v == var)));
        }
    }
    // A variable that nothing is read at follows the other equations of its family.
    reads_at.retain(|_, reads| !reads.is_empty());
    for (var, reads) in reads_at {
        let (lo, hi) = solved.vars[var.0 as usize].range.unwrap();
        for at in [lo - 1, hi].into_iter().filter(|at| *at >= 0) {
            let outside = reads.iter().any(|(index, (first, end))| {
                let (lo, hi) = extremes(solved, index, (var, at));
                lo < *first || hi >= *end
            });
            let name = &solved.vars[var.0 as usize].name;
            assert!(outside, "{name} could be {at}\n{}", solved.text);
        }
    }
}

/// Every subscript that is read by an equation with this left side, or by a site, which has none.
fn reads<'s>(solved: &'s Solved, values: &[ExprId], lhs: &[Lhs]) -> Vec<Subscript<'s>> {
    let here = |index: &Index| {
        index.shifted().is_some_and(|(var, offset)| {
            let left = lhs.iter().find_map(|lhs| match *lhs {
                Lhs::Var { var: v, offset } if v == var => Some(offset),
                _ => None,
            });
            offset == left.unwrap_or(0)
        })
    };
    let mut found = Vec::new();
    for value in values {
        let Op::Concat { parts, .. } = &solved.exprs[value.0 as usize].op else {
            continue;
        };
        for part in parts {
            match &solved.exprs[part.0 as usize].op {
                Op::Input { input, index } => found.push((index, solved.inputs[*input].1)),
                Op::Read { family, index, .. } => {
                    found.extend(index.iter().enumerate().map(|(position, index)| {
                        let all = solved.system.family(*family).domain[position];
                        (index, if here(index) { without_base(solved, *family, position).unwrap_or(all) } else { all })
                    }));
                }
                // The fixture does not keep the system around it: nothing can be said.
                _ => found.extend(op_index(&solved.exprs[part.0 as usize].op).iter().map(|index| (index, (0, 0)))),
            }
        }
    }
    found
}

/// From the first point to the last that a family has by equations that are no base cases; none if there are none.
fn without_base(solved: &Solved, family: FamilyId, position: usize) -> Option<(i64, i64)> {
    let defs = solved.system.defs.iter().filter(|def| def.family == family && !def.base);
    let given = defs.map(|def| match def.lhs[position] {
        Lhs::At(at) => (at, at + 1),
        Lhs::Var { var, offset } => {
            let (lo, hi) = solved.vars[var.0 as usize].range.unwrap();
            (lo + offset, hi + offset)
        }
    });
    given.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn op_index(op: &Op) -> &[Index] {
    if let Op::Outer { index, .. } = op { index } else { &[] }
}

/// Smallest and largest value of a subscript, with one variable held.
fn extremes(solved: &Solved, index: &Index, (held, at): (VarId, i64)) -> (i64, i64) {
    index.terms.iter().fold((index.offset, index.offset), |(lo, hi), (var, factor)| {
        let (first, end) = if *var == held { (at, at + 1) } else { solved.vars[var.0 as usize].range.unwrap() };
        let ends = [first * factor, (end - 1) * factor];
        (lo + ends[0].min(ends[1]), hi + ends[0].max(ends[1]))
    })
}
