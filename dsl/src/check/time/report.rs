//! Faults of ranges and domains in words: what was read where, what there is, and the clause that would mend it.

use super::View;
use super::domains::Domains;
use super::interval::Interval;
use super::reads::{Item, Origin, Read, Target};
use super::words;
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{DefId, FamilyId, Index, VarId};

#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) domains: &'a Domains,
}

/// The range that one subscript of a read allows for a variable.
#[derive(Debug)]
pub(super) struct Limit<'a> {
    pub(super) item: &'a Item<'a>,
    pub(super) read: &'a Read<'a>,
    pub(super) index: &'a Index,
    /// Where the target exists along the subscript.
    pub(super) domain: Interval,
    pub(super) allowed: Interval,
}

impl Report<'_> {
    /// What an item is called: `` `ret[t]` `` or ``loss `dyn` ``.
    fn what(&self, item: &Item<'_>) -> String {
        match item.origin {
            Origin::Def(def) => format!("`{}`", words::left(self.view, self.view.system.def(def))),
            Origin::Site(site) => site.what.clone(),
        }
    }

    /// An index that nothing bounds; `alone` where nothing is read at it.
    pub(super) fn endless(&self, item: &Item<'_>, var: VarId, alone: bool) -> Diagnostic {
        let (name, what) = (words::var(self.view, var), self.what(item));
        let note = if alone {
            format!("{what} reads nothing at `{name}` that would bound it")
        } else {
            format!("what {what} reads at `{name}` has no end of its own")
        };
        Diagnostic::new(Code::Unbounded, self.view.vars[var.0 as usize].span, format!("nothing says how far `{name}` goes"))
            .here(format!("`{name}` has no range"))
            .note(note)
            .help(format!("say it: `for {name} in 0..{}`", self.view.time.map_or("N", |(time, _)| time)))
    }

    /// A `for` without a single value.
    pub(super) fn empty_clause(&self, item: &Item<'_>, var: VarId) -> Diagnostic {
        let decl = &self.view.vars[var.0 as usize];
        let (lo, hi) = decl.range.unwrap_or_default();
        Diagnostic::new(Code::EmptyDomain, decl.span, format!("{} holds nowhere", self.what(item)))
            .here(format!("there is no `{}` in {lo}..{hi}", decl.name))
    }

    /// An index without a value: its reads have no point in common, or only points that it does not take by itself.
    pub(super) fn empty(&self, item: &Item<'_>, var: VarId, limits: &[Limit<'_>]) -> Diagnostic {
        let name = words::var(self.view, var);
        let diagnostic = Diagnostic::new(Code::EmptyDomain, item.span, format!("{} holds nowhere", self.what(item)));
        let lowest = limits.iter().min_by_key(|limit| limit.allowed.hi);
        let highest = limits.iter().max_by_key(|limit| limit.allowed.lo);
        let (Some(low), Some(high)) = (lowest, highest) else {
            return diagnostic.here(format!("there is no `{name}` at which all that it reads exists"));
        };
        let common = limits.iter().fold(Interval::ALL, |common, limit| common.meet(limit.allowed));
        let at = |limit: &Limit<'_>| format!("exists where `{name}` is {}", words::interval(limit.allowed));
        if common.is_empty() {
            return diagnostic
                .here(format!("there is no `{name}` at which all that it reads exists"))
                .label(low.read.span, at(low))
                .label(high.read.span, at(high))
                .help("move one of the subscripts, so that they meet");
        }
        let range = words::range(self.view, var, common);
        if common.hi < 0 {
            return diagnostic
                .here(format!("`{name}` counts from 0"))
                .label(low.read.span, at(low))
                .help(format!("move the subscript, or say where it holds: `for {range}`"));
        }
        diagnostic
            .here(format!("where `{name}` is {}, only base cases are read", words::interval(common)))
            .note("a base case is there for reads at another point; an index does not take it in by itself")
            .help(format!("if it is meant here, say so: `for {range}`"))
    }

    /// A subscript that spans more than there is, wherever the variable stands.
    pub(super) fn too_wide(&self, limit: &Limit<'_>, var: VarId) -> Diagnostic {
        let (view, read, index) = (self.view, limit.read, limit.index);
        let (text, name, target) =
            (words::read(view, limit.item.vars, read), words::var(view, var), words::target(view, read.target));
        if limit.domain.is_empty() {
            return Diagnostic::new(Code::OutOfDomain, read.span, format!("`{text}` is read, but `{target}` exists nowhere"));
        }
        let others = index.terms.iter().map(|(other, _)| *other).filter(|other| *other != var);
        let others: Vec<(VarId, Interval)> = others.map(|other| (other, self.domains.range(other))).collect();
        let runs: Vec<String> = others
            .iter()
            .map(|(other, range)| format!("`{}` runs over {}", words::var(view, *other), words::interval(*range)))
            .collect();
        let message = format!("no `{name}` keeps `{text}` inside `{target}`, which exists for {}", words::interval(limit.domain));
        let diagnostic = Diagnostic::new(Code::OutOfDomain, read.span, message).here(runs.join(" and "));
        match others.as_slice() {
            [(other, range)] if index.terms.iter().all(|(_, factor)| factor.unsigned_abs() == 1) => {
                let room = limit.domain.hi.saturating_sub(limit.domain.lo);
                let fits = Interval { lo: range.lo, hi: range.lo.saturating_add(room) };
                diagnostic.help(format!("at most `{}` fits", words::range(view, *other, fits)))
            }
            _ => diagnostic,
        }
    }

    /// A read that leaves the domain along a subscript; `starts` where a start of the recurrence may be missing.
    pub(super) fn outside(
        &self,
        item: &Item<'_>,
        read: &Read<'_>,
        position: usize,
        touched: &[Interval],
        domain: &[Interval],
        starts: bool,
    ) -> Diagnostic {
        let view = self.view;
        let (text, target) = (words::read(view, item.vars, read), words::target(view, read.target));
        let (here, there) = (touched[position], domain[position]);
        let hidden = words::hidden(view, read.target).min(position);
        let (shown, exists) = (words::intervals(&touched[hidden..]), words::intervals(&domain[hidden..]));
        let exists = if there.is_empty() { "nowhere".to_owned() } else { format!("for {exists}") };
        let message = format!("`{text}` is read at {shown}, but `{target}` exists {exists}");

        let below = here.meet(Interval { lo: here.lo, hi: there.lo.saturating_sub(1) });
        let above = here.meet(Interval { lo: there.hi.saturating_add(1), hi: here.hi });
        let missing = if below.is_empty() { above } else { below };
        let instance = |at: &str| {
            let subscripts = read.index.iter().enumerate().skip(hidden);
            words::bracketed(
                target,
                subscripts.map(|(p, index)| if p == position { at.to_owned() } else { words::subscript(view, item.vars, index) }),
            )
        };
        let diagnostic = Diagnostic::new(Code::OutOfDomain, read.span, message)
            .here(format!("there is no `{}`", instance(&words::interval(missing))));

        // A fixed index is none of a recurrence.
        if starts && read.index[position].constant().is_none() && missing.hi.saturating_sub(missing.lo) < 3 {
            let bases: Vec<String> = (missing.lo..=missing.hi).map(|at| format!("{} = ..", instance(&at.to_string()))).collect();
            // A narrower `for` would only move the start.
            return diagnostic.help(format!("say where the recurrence starts: `with {}`", bases.join(", ")));
        }
        let index = &read.index[position];
        let Some(var) = index.terms.iter().map(|(var, _)| *var).rfind(|var| view.is_explicit(*var)) else {
            return diagnostic;
        };
        let fits = there.allowed(index, var, |v| self.domains.range(v)).meet(self.domains.range(var));
        if fits.is_empty() {
            return diagnostic;
        }
        let range = words::range(view, var, fits);
        // The variable of a fold has its range at the fold, not in a `for`.
        diagnostic.help(if item.vars.contains(&var) {
            format!("`for {range}` stays inside")
        } else {
            format!("`{range}` stays inside")
        })
    }

    /// A read inside the domain, at a point that no equation gives.
    pub(super) fn hole(&self, item: &Item<'_>, read: &Read<'_>, touched: &[Interval], at: &[i64]) -> Diagnostic {
        let (text, point) = (words::read(self.view, item.vars, read), words::point(self.view, read.target, at));
        let shown = words::intervals(&touched[words::hidden(self.view, read.target).min(touched.len())..]);
        let message = format!("`{text}` is read at {shown}, but no equation gives `{point}`");
        Diagnostic::new(Code::OutOfDomain, read.span, message)
            .here(format!("needs `{point}`"))
            .help(format!("add an equation or a `with` for `{point}`, or restrict {} with `for`", self.what(item)))
    }

    /// Two equations for one point.
    pub(super) fn twice(&self, family: FamilyId, a: DefId, b: DefId, at: &[i64]) -> Diagnostic {
        let (a, b) = (self.view.system.def(a).span, self.view.system.def(b).span);
        let point = words::point(self.view, Target::Family(family), at);
        Diagnostic::new(Code::DefinedTwice, a.max(b), format!("two equations give `{point}`"))
            .here("given again here")
            .label(a.min(b), "first given here")
            .help("restrict one of them with `for`, or take one away")
    }
}
