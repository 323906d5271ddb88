//! Whether ranges that were left open are as large as they can be.

use std::collections::BTreeMap;

use super::fixture::Solved;
use crate::hir::{ExprId, Index, Op, VarId};

/// A subscript that is read, with the domain that it must lie in.
type Subscript<'s> = (&'s Index, (i64, i64));

/// Checks that one step more, at either end of any range, reads something that does not exist.
pub(super) fn largest(solved: &Solved) {
    let defs = solved.system.defs.iter().map(|def| (&def.vars, &def.values));
    let sites = solved.sites.iter().map(|site| (&site.vars, &site.values));
    let mut reads_at: BTreeMap<VarId, Vec<Subscript<'_>>> = BTreeMap::new();
    for (vars, values) in defs.chain(sites) {
        for var in vars.iter().filter(|var| solved.inferred[var.0 as usize]) {
            let at = reads_at.entry(*var).or_default();
            at.extend(reads(solved, values).into_iter().filter(|(index, _)| index.terms.iter().any(|(v, _)| v == var)));
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

/// Every subscript that is read.
fn reads<'s>(solved: &'s Solved, values: &[ExprId]) -> Vec<Subscript<'s>> {
    let mut found = Vec::new();
    for value in values {
        let Op::Concat { parts, .. } = &solved.exprs[value.0 as usize].op else {
            continue;
        };
        for part in parts {
            match &solved.exprs[part.0 as usize].op {
                Op::Input { input, index } => found.push((index, solved.inputs[*input].1)),
                Op::Read { family, index, .. } => {
                    found.extend(index.iter().zip(solved.system.family(*family).domain.iter().copied()));
                }
                // The fixture does not keep the system around it: nothing can be said.
                _ => found.extend(op_index(&solved.exprs[part.0 as usize].op).iter().map(|index| (index, (0, 0)))),
            }
        }
    }
    found
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
