//! Subscripts, ranges and points as a person would write them.

use super::View;
use super::interval::Interval;
use super::reads::{Read, Target};
pub(super) use crate::check::system::short;
use crate::hir::{Def, FamilyId, Index, Lhs, VarId};

pub(super) fn var<'a>(view: &View<'a>, var: VarId) -> &'a str {
    &view.vars[var.0 as usize].name
}

/// `z`, the name of the family that is read.
pub(super) fn target<'a>(view: &View<'a>, target: Target) -> &'a str {
    let named = match target {
        Target::Input(input) => view.inputs.get(input).map(|(name, _)| name),
        Target::Family(family) => view.system.families.get(family.0 as usize).map(|f| &f.name),
        Target::Outer(family) => view.outer.and_then(|outer| outer.families.get(family.0 as usize)).map(|f| &f.name),
    };
    named.map_or("?", |name| short(name))
}

/// How many of the first subscripts are not written.
pub(super) fn hidden(view: &View<'_>, target: Target) -> usize {
    match target {
        Target::Family(FamilyId(family)) => view.hidden.get(family as usize).copied().unwrap_or(0),
        Target::Input(_) | Target::Outer(_) => 0,
    }
}

/// `z[t+1]`, as an equation with these variables reads it.
pub(super) fn read(view: &View<'_>, vars: &[VarId], read: &Read<'_>) -> String {
    let written = read.index.iter().skip(hidden(view, read.target));
    bracketed(target(view, read.target), written.map(|index| subscript(view, vars, index)))
}

/// `y[i, k+1]`, the left side of an equation.
pub(super) fn left(view: &View<'_>, def: &Def) -> String {
    let subscripts = def.lhs.iter().skip(hidden(view, Target::Family(def.family))).map(|lhs| match *lhs {
        Lhs::At(at) => at.to_string(),
        Lhs::Var { var, offset } => subscript(view, &[], &Index { terms: vec![(var, 1)], offset }),
    });
    bracketed(short(&view.system.family(def.family).name), subscripts)
}

/// `y[0, 3]`.
pub(super) fn point(view: &View<'_>, of: Target, at: &[i64]) -> String {
    bracketed(target(view, of), at.iter().skip(hidden(view, of)).map(i64::to_string))
}

pub(super) fn bracketed(name: &str, subscripts: impl Iterator<Item = String>) -> String {
    let subscripts: Vec<String> = subscripts.collect();
    if subscripts.is_empty() { name.to_owned() } else { format!("{name}[{}]", subscripts.join(", ")) }
}

/// `i+k-1`, with the variables in the order in which the equation has them.
pub(super) fn subscript(view: &View<'_>, vars: &[VarId], index: &Index) -> String {
    let mut terms = index.terms.clone();
    terms.sort_by_key(|(id, _)| vars.iter().position(|var| var == id).unwrap_or(usize::MAX));
    let mut text = String::new();
    for (id, factor) in terms {
        match (factor < 0, text.is_empty()) {
            (true, _) => text.push('-'),
            (false, false) => text.push('+'),
            (false, true) => {}
        }
        if factor.unsigned_abs() != 1 {
            text += &format!("{}*", factor.unsigned_abs());
        }
        text += var(view, id);
    }
    match index.offset {
        0 if !text.is_empty() => {}
        offset if offset < 0 || text.is_empty() => text += &offset.to_string(),
        offset => text += &format!("+{offset}"),
    }
    text
}

/// `0..=7`, or `7` alone.
pub(super) fn interval(range: Interval) -> String {
    match range {
        _ if range.is_empty() => "nowhere".to_owned(),
        Interval { lo, hi } if lo == hi => lo.to_string(),
        Interval { lo, hi } => format!("{lo}..={hi}"),
    }
}

/// The intervals of several subscripts; those of one without brackets.
pub(super) fn intervals(ranges: &[Interval]) -> String {
    match ranges {
        [range] => interval(*range),
        _ => bracketed("", ranges.iter().map(|range| interval(*range))),
    }
}

/// `t in 0..7`, or `t in 0..T-1` near the end of the segment.
pub(super) fn range(view: &View<'_>, id: VarId, range: Interval) -> String {
    let (lo, hi) = range.to_half_open();
    let hi = match view.time.map(|(name, steps)| (name, steps.saturating_sub(hi))) {
        Some((name, 0)) => name.to_owned(),
        Some((name, before @ 1..=2)) if lo < hi => format!("{name}-{before}"),
        _ => hi.to_string(),
    };
    format!("{} in {lo}..{hi}", var(view, id))
}

/// `` `a`, `b` and `c` ``.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}
