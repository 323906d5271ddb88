//! Time: ranges of indices, domains of families, and the order of computation.
//!
//! Equations are written at a subscript, `m[t] = memory(z[t], a[t], m[t-1])`, mostly without saying for which t.
//! [`solve`] finds that out and what follows from it, in four passes:
//!
//! 1. [`reads`]: what every equation reads, as subscripts;
//! 2. [`domains`]: the ranges of the indices and the domains of the families, by interval arithmetic
//!    (solved in [`ends`]);
//! 3. [`faults`]: reads outside a domain, empty and endless ranges, points given twice ([`cover`]);
//! 4. [`recurrence`]: circles of equations become loops, forward or backward, and all are put in order.
//!
//! Nothing depends on the order in which equations are written, except the order of stages that could be computed
//! in any order: they keep that of the text. Cost is linear in the expressions and, up to a logarithm, in the reads.

mod cover;
mod domains;
mod ends;
mod faults;
mod graph;
mod interval;
mod reads;
mod recurrence;
mod report;
#[cfg(test)]
mod tests;
mod words;

use hashbrown::HashMap;

use cover::Cover;
use faults::Fault;
use interval::Interval;

use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{DefId, ExprId, Node, Stage, System, VarId};
use crate::source::Span;

/// Facts about an index variable before the inference of its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VarDecl {
    pub(crate) name: String,
    /// Where it is introduced.
    pub(crate) span: Span,
    /// `lo..hi`: written, or inferred by an earlier [`solve`].
    pub(crate) range: Option<(i64, i64)>,
}

/// An equation, loss, metric or statistic that reads families and that nobody reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// From the outermost to the innermost.
    pub(crate) vars: Vec<VarId>,
    /// Everything it computes, conditions among it.
    pub(crate) values: Vec<ExprId>,
    /// Reads on the way that are no part of the values.
    pub(crate) touched: Vec<ExprId>,
    pub(crate) span: Span,
    /// What messages call it, with its quotes: ``loss `dyn` ``.
    pub(crate) what: String,
}

/// A system whose time is to be solved.
#[derive(Debug)]
pub(crate) struct Problem<'a> {
    pub(crate) exprs: &'a [Node],
    /// By gradient through equations: the value before these were written out, which must exist too.
    pub(crate) written_out: &'a HashMap<ExprId, ExprId>,
    /// All variables of the model, by [`VarId`]. Those of folds have a range.
    pub(crate) vars: &'a mut [VarDecl],
    /// Complete but for the domains of its families and its stages.
    pub(crate) system: &'a mut System,
    pub(crate) sites: &'a [Site],
    /// By equation: reads on the way that are no part of its values.
    pub(crate) touched: &'a [Vec<ExprId>],
    /// Name and domain `lo..hi` of every field of the data.
    pub(crate) inputs: &'a [(String, (i64, i64))],
    /// The solved system that [`crate::hir::Op::Outer`] reads.
    pub(crate) outer: Option<&'a System>,
    /// The name and the number of the steps of a segment: `T`, 8.
    pub(crate) time: Option<(&'a str, i64)>,
    /// By family: how many of its first subscripts its author does not write (a rollout's own); none where it is short.
    pub(crate) hidden: &'a [usize],
    /// Ranges that inferred variables stay inside, whatever they read.
    pub(crate) within: &'a [(VarId, (i64, i64))],
}

/// Fills in the ranges of the variables that the system and the sites use, the domains of the families and the
/// stages. Where that is not possible it says why, and leaves a range open, a domain empty or a stage out.
pub(crate) fn solve(problem: Problem<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Problem { exprs, written_out, vars, system, sites, touched, inputs, outer, time, hidden, within } = problem;
    let solution = View { exprs, written_out, vars, system, sites, touched, inputs, outer, time, hidden, within }.solve();
    for (var, range) in solution.ranges {
        vars[var.0 as usize].range = Some(range);
    }
    for (family, domain) in system.families.iter_mut().zip(solution.domains) {
        family.domain = domain;
    }
    system.stages = solution.stages;
    diagnostics.extend(solution.diagnostics);
}

/// The problem while it is being looked at.
#[derive(Debug)]
struct View<'a> {
    exprs: &'a [Node],
    written_out: &'a HashMap<ExprId, ExprId>,
    vars: &'a [VarDecl],
    system: &'a System,
    sites: &'a [Site],
    touched: &'a [Vec<ExprId>],
    inputs: &'a [(String, (i64, i64))],
    outer: Option<&'a System>,
    time: Option<(&'a str, i64)>,
    hidden: &'a [usize],
    within: &'a [(VarId, (i64, i64))],
}

struct Solution {
    ranges: Vec<(VarId, (i64, i64))>,
    domains: Vec<Vec<(i64, i64)>>,
    stages: Vec<Stage>,
    /// In the order of the text.
    diagnostics: Vec<Diagnostic>,
}

impl View<'_> {
    /// Whether a variable came with its range.
    fn is_explicit(&self, var: VarId) -> bool {
        self.vars[var.0 as usize].range.is_some()
    }

    fn solve(&self) -> Solution {
        let items = reads::collect(self);
        let mut domains = domains::infer(self, &items);
        let mut covers = Cover::all(self, &domains);
        let judgement = faults::judge(self, &items, &domains, &covers);

        let mut ranges: Vec<(VarId, (i64, i64))> = Vec::new();
        let mut faulty = false;
        for &var in items.iter().flat_map(|item| item.vars).filter(|var| !self.is_explicit(**var)) {
            if let Some(range) = known(domains.range(var)) {
                ranges.push((var, range));
            } else {
                // Where a range is not known, circles are looked for as if it were all numbers.
                domains.ranges[var.0 as usize] = Interval::ALL;
                faulty = true;
            }
        }
        let families = domains
            .families
            .iter()
            .map(|family| family.iter().map(|range| known(*range).unwrap_or_default()).collect())
            .collect();

        if faulty {
            covers = Cover::all(self, &domains);
        }
        let order = recurrence::order(self, &items, &domains, &covers);
        let diagnostics = explain(judgement, order.faults);
        Solution { ranges, domains: families, stages: order.stages, diagnostics }
    }
}

/// A range with something in it and an end.
fn known(range: Interval) -> Option<(i64, i64)> {
    (range.is_bounded() && !range.is_empty()).then(|| range.to_half_open())
}

/// Of the faults of a cluster of equations, those that are the cause.
fn explain(judgement: faults::Judgement, circles: Vec<(DefId, Diagnostic)>) -> Vec<Diagnostic> {
    let mut explained = vec![false; judgement.doubtful.len()];
    let mut diagnostics = Vec::new();
    for (def, diagnostic) in circles {
        let cluster = judgement.cluster[def.0 as usize] as usize;
        // With ranges in doubt, distances are still what they are, but which equations meet is not.
        if diagnostic.code != Code::TwoIndices || !judgement.doubtful[cluster] {
            explained[cluster] = true;
            diagnostics.push(diagnostic);
        }
    }
    let remains = |fault: &Fault| fault.cluster.is_none_or(|cluster| !explained[cluster as usize]);
    diagnostics.extend(judgement.faults.into_iter().filter(remains).map(|fault| fault.diagnostic));
    diagnostics.sort_by_key(|diagnostic| (diagnostic.primary.span, diagnostic.code));
    diagnostics
}
