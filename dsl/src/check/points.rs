//! Points: the indices and samples that values vary with, and whether a gradient has one value at each point.
//!
//! `grad(e, x)` is pointwise: at each sample and each value of each index it is the derivative of `e` there by `x` there.
//! Where `x` is the same at several points, each point has a variable of its own, so most combinations have an answer.
//! Two have none here: a parameter, which belongs to no point, and a value that varies and still reads `x` at other
//! points, through a statistic.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

use super::system::short;
use super::table::Table;
use super::through::Gathered;
use super::{Ctx, TRAIN};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{DefId, ExprId, FamilyId, Index, Op, Stage, System, VarId};
use crate::source::Span;

impl Ctx<'_> {
    /// Whether a parameter is differentiated by where the value differs: it has no value of its own at each point.
    pub(super) fn by_parameter(&mut self, of: ExprId, targets: &[ExprId], span: Span) -> bool {
        let (free, samples) = varies(&self.draft.table, of);
        if free.is_empty() && !samples {
            return false;
        }
        for target in targets {
            let mut target = self.whole(*target).0;
            while let Op::Alias(inner, _) = *self.draft.table.op(target) {
                target = inner;
            }
            let (Op::Param(p) | Op::Slow(p)) = *self.draft.table.op(target) else { continue };
            let path = self.draft.params[p.0 as usize].path.clone();
            let name = path.rsplit('.').next().unwrap_or(&path);
            self.report(
                Diagnostic::new(Code::GradTarget, span, format!("`{name}` is a parameter: all samples and steps share it"))
                    .note("`grad` has one value for each sample and step; losses train parameters")
                    .help(format!(
                        "differentiate by a copy: with `{name}_at[t] = {name} for t in 0..T`, `grad(.., {name}_at[t])` has one"
                    )),
            );
            return true;
        }
        false
    }

    /// Whether a gradient is taken by a number that is the same everywhere, such as a running value or a planner's carry,
    /// and equations behind the value read it too: these are not followed.
    pub(super) fn by_what_equations_read(&mut self, of: ExprId, targets: &[ExprId], span: Span) -> bool {
        for target in targets {
            let target = self.whole(*target).0;
            let op = self.draft.table.op(target);
            let shared = matches!(op, Op::Running(_) | Op::Schedule(_) | Op::Progress | Op::Carry(_) | Op::Outer { .. });
            if shared && self.in_equations(of, target) {
                self.report(
                    Diagnostic::new(Code::GradTarget, span, "equations behind the value read this target too")
                        .note("`grad` follows equations from a value of the data or of another equation")
                        .help("write an equation for it, `w[t] = ..` or `w = ..`, read that everywhere, and differentiate by it"),
                );
                return true;
            }
        }
        false
    }

    /// Whether the equations that a value reads, or those behind them, read a target that is no equation's value.
    fn in_equations(&mut self, of: ExprId, target: ExprId) -> bool {
        let outer = match *self.draft.table.op(target) {
            Op::Outer { family, leaf, .. } => Some((family, leaf)),
            _ => None,
        };
        let (mut seen, mut families) = (HashSet::new(), HashSet::new());
        let mut open = vec![(of, self.place.site.system, false)];
        while let Some((e, system, crossed)) = open.pop() {
            if !seen.insert((e, crossed)) {
                continue;
            }
            if !self.spend_work(1, self.draft.table.nodes[e.0 as usize].span) || crossed && e == target {
                return true;
            }
            let (family, system) = match *self.draft.table.op(e) {
                Op::Read { family, leaf, .. } if crossed && system == TRAIN && outer == Some((family, leaf)) => return true,
                Op::Read { family, .. } => (family, system),
                Op::Outer { family, leaf, .. } if outer != Some((family, leaf)) => (family, TRAIN),
                ref op => {
                    op.clone().operands(|x| open.push((x, system, crossed)));
                    continue;
                }
            };
            let id = family.0 as usize;
            if self.systems[system].families[id].record {
                continue;
            }
            if self.systems[system].families[id].is_busy() {
                return true;
            }
            if families.insert((system, id)) {
                self.elaborate_family(system, id);
                let build = &self.systems[system];
                let defs = build.families[id].defs.iter().map(|def| &build.defs[def.0 as usize]);
                open.extend(defs.flat_map(|def| def.values.iter().map(|e| (*e, system, true))));
            }
        }
        false
    }

    /// Whether the value differs between points, and still reads the target at other ones, through a fold or a collection.
    pub(super) fn reads_other_points(&mut self, of: ExprId, gathered: &[Gathered], span: Span) -> bool {
        let free = varies(&self.draft.table, of).0;
        for Gathered { vars, samples, body, span: fold } in gathered {
            if *samples && !self.by_sample(*body) {
                self.report(
                    Diagnostic::new(Code::GradOtherPoints, span, "the value counts this once for each sample")
                        .label(*fold, "here, of a number that is the same for all")
                        .note("each sample has a variable of its own, and the number is computed once")
                        .help("leave the samples out: `grad` of the number itself has one value for each of them"),
                );
                return true;
            }
            let over = match vars.iter().find(|v| free.contains(*v)) {
                Some(var) => self.draft.vars[var.0 as usize].name.clone(),
                None if *samples && self.by_sample(of) => String::new(),
                None => continue,
            };
            let (others, whole) = match over.as_str() {
                "" => ("of other samples".to_string(), "B".to_string()),
                var => (format!("at other `{var}`"), format!("[{var}]")),
            };
            self.report(
                Diagnostic::new(Code::GradOtherPoints, span, format!("the value reads this {others} too"))
                    .label(*fold, "here")
                    .note("`grad` has one value for each sample and step: of the value there, by this there")
                    .help(format!(
                        "differentiate the sum of all of them, `grad(sum(.., over = {whole}), ..)`, or stop the statistic, `sg(..)`"
                    )),
            );
            return true;
        }
        false
    }

    /// The folds and collections of an expression that a value inside of it goes into.
    pub(super) fn gathered(&mut self, of: ExprId, target: ExprId) -> Vec<Gathered> {
        let mut found = Vec::new();
        for e in self.behind(of, target, false) {
            if let Op::Fold { vars, batch, body, .. } | Op::Collect { vars, batch, body, .. } = self.draft.table.op(e).clone()
                && self.behind(body, target, false).contains(&target)
            {
                found.push(Gathered { vars, samples: batch, body, span: self.draft.table.nodes[e.0 as usize].span });
            }
        }
        found
    }

    /// Gradients that follow equations where they are computed cannot look into a loop that computes both their target and
    /// what reads it.
    pub(super) fn gradients_into_loops(&mut self, id: usize, system: &System) {
        let mut grads: Vec<ExprId> = self.gradients.in_place.iter().filter(|(_, s)| **s == id).map(|(e, _)| *e).collect();
        if grads.is_empty() {
            return;
        }
        grads.sort_unstable();
        let mut loops = Loops::default();
        loops.visit(system, &system.stages, &mut Vec::new());
        let mut around: HashMap<ExprId, BTreeSet<usize>> = HashMap::new();
        for (def, path) in &loops.defs {
            let found = self.draft.table.closure(&system.def(*def).values, |_| Vec::new());
            for e in found.into_iter().filter(|e| grads.binary_search(e).is_ok()) {
                around.entry(e).or_default().extend(path);
            }
        }
        for e in grads {
            let Op::Grad { of, wrt } = *self.draft.table.op(e) else { continue };
            let Op::Read { family: target, .. } = *self.draft.table.op(wrt) else { continue };
            let here = around.remove(&e).unwrap_or_default();
            let mut inner = loops.of(target);
            inner.retain(|l| !here.contains(l));
            let mut families = HashSet::new();
            self.draft.table.closure(&[of], |family| {
                let new = family != target && families.insert(family);
                let defs = system.family(family).defs.iter().filter(|_| new);
                defs.flat_map(|d| system.def(*d).values.clone()).collect()
            });
            if families.iter().any(|f| !loops.of(*f).is_disjoint(&inner)) {
                let name = short(&system.family(target).name).to_string();
                let span = self.draft.table.nodes[e.0 as usize].span;
                self.report(
                    Diagnostic::new(
                        Code::GradThroughScan,
                        span,
                        format!("a gradient cannot look into the loop that computes `{name}`"),
                    )
                    .help("take it inside one step: of a function of that step's values"),
                );
            }
        }
    }

    /// Whether samples may differ in a value. Equations are followed; one that is being read right now may.
    fn by_sample(&mut self, e: ExprId) -> bool {
        let system = self.place.site.system;
        let (mut seen, mut leaves) = (HashSet::new(), HashSet::new());
        let mut open = vec![e];
        while let Some(e) = open.pop() {
            if !seen.insert(e) {
                continue;
            }
            if !self.spend_work(1, self.draft.table.nodes[e.0 as usize].span) {
                return true;
            }
            match *self.draft.table.op(e) {
                Op::Input { .. } | Op::Draw(_) | Op::Carry(_) | Op::Hole(_) | Op::Outer { .. } => return true,
                Op::Fold { batch: true, .. } | Op::Collect { batch: true, .. } => {}
                // A field by itself: the others may differ where it does not.
                Op::Read { family, leaf, .. } => {
                    let id = family.0 as usize;
                    let build = &self.systems[system].families[id];
                    if build.record || build.is_busy() {
                        return true;
                    }
                    if leaves.insert((id, leaf)) {
                        self.elaborate_family(system, id);
                        let build = &self.systems[system];
                        let defs = build.families[id].defs.iter().map(|def| &build.defs[def.0 as usize].values);
                        open.extend(defs.filter_map(|values| values.get(leaf)));
                    }
                }
                ref op => op.operands(|x| open.push(x)),
            }
        }
        false
    }
}

/// The loops of a system: which of them compute a family, and where each equation is.
#[derive(Default)]
struct Loops {
    count: usize,
    families: HashMap<FamilyId, BTreeSet<usize>>,
    defs: Vec<(DefId, Vec<usize>)>,
}

impl Loops {
    fn visit(&mut self, system: &System, stages: &[Stage], path: &mut Vec<usize>) {
        for stage in stages {
            match stage {
                Stage::Map(def) => {
                    self.families.entry(system.def(*def).family).or_default().extend(path.iter());
                    self.defs.push((*def, path.clone()));
                }
                Stage::Scan { body, .. } => {
                    self.count += 1;
                    path.push(self.count);
                    self.visit(system, body, path);
                    path.pop();
                }
            }
        }
    }

    fn of(&self, family: FamilyId) -> BTreeSet<usize> {
        self.families.get(&family).cloned().unwrap_or_default()
    }
}

/// The dimensions along which a value varies: index variables, and samples.
pub(super) fn varies(table: &Table, e: ExprId) -> (BTreeSet<VarId>, bool) {
    let (mut free, mut samples) = (BTreeSet::new(), false);
    let mut seen = HashSet::new();
    // Variables that a fold around it runs over are the fold's.
    let mut open: Vec<(ExprId, Vec<VarId>)> = vec![(e, Vec::new())];
    while let Some((e, mut bound)) = open.pop() {
        if !seen.insert((e, bound.clone())) {
            continue;
        }
        let op = table.op(e);
        let indices: &[Index] = match op {
            Op::Index(index) | Op::At { index, .. } => std::slice::from_ref(index),
            Op::Input { index, .. } => {
                samples = true;
                std::slice::from_ref(index)
            }
            Op::Read { index, .. } | Op::Outer { index, .. } => {
                samples = true;
                index
            }
            Op::Draw(_) | Op::Carry(_) | Op::Hole(_) => {
                samples = true;
                &[]
            }
            _ => &[],
        };
        free.extend(indices.iter().flat_map(|i| &i.terms).map(|(var, _)| *var).filter(|var| !bound.contains(var)));
        match op {
            Op::Each { var, .. } => bound.push(*var),
            Op::Fold { vars, .. } | Op::Collect { vars, .. } => bound.extend(vars),
            _ => {}
        }
        op.operands(|x| open.push((x, bound.clone())));
    }
    (free, samples)
}
