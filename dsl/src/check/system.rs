//! Equations: families of values over subscripts, elaborated when they are first read.
//!
//! A family's type comes from its declaration (a latent's or a memory's name) or from its first equation; base cases
//! come first, so that a recurrence knows what it is a recurrence of.

use super::budget::EQUATION;
use super::equation::has_free_name;
use super::equation::subscripts;
use super::ty::Ty;
use super::value::Env;
use super::window::{Written, mentions};
use super::{ACT, Ctx, EVALUATE, Site, TRAIN};
use crate::ast::{Clause, ClauseKind, Equation, Expr, ExprKind, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Dtype, ExprId, Index, Leaf};
use crate::source::Span;
use hashbrown::HashMap;
use std::rc::Rc;

/// A family, with the subscripts that its scope already gives.
#[derive(Clone)]
pub(super) struct FamilyRef {
    pub kind: FamilyKind,
    pub prefix: Rc<[Index]>,
    pub arity: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    Input(usize),
    Family { system: usize, id: usize },
}

impl FamilyRef {
    /// How many subscripts it still needs.
    pub(super) fn missing(&self) -> usize {
        self.arity.saturating_sub(self.prefix.len())
    }
}

#[derive(Default)]
pub(super) struct SystemBuild<'a> {
    pub families: Vec<FamilyBuild<'a>>,
    pub defs: Vec<hir::Def>,
    /// By equation: everything it read.
    pub touched: Vec<Vec<ExprId>>,
    index: HashMap<String, usize>,
}

pub(super) struct FamilyBuild<'a> {
    pub name: String,
    pub arity: usize,
    pub ty: Option<Ty<'a>>,
    pub leaves: Vec<Leaf>,
    pub defs: Vec<hir::DefId>,
    pub sources: Vec<DefSource<'a>>,
    /// How many of the sources are elaborated; they are sorted when the first is.
    done: usize,
    pub busy: bool,
    /// Something was wrong with one of its equations, and has been said.
    pub failed: bool,
    pub record: bool,
    pub used: bool,
    pub span: Span,
}

/// An equation as it was written, and the scope it stands in.
#[derive(Clone)]
pub(super) struct DefSource<'a> {
    pub indices: &'a [Expr],
    pub value: DefValue<'a>,
    pub clauses: &'a [Clause],
    pub span: Span,
    pub scope: Scope<'a>,
    /// A base case: it extends the domain for those who look back, and for nobody else.
    pub base: bool,
}

#[derive(Clone, Copy)]
pub(super) enum DefValue<'a> {
    Equals(&'a Expr),
    Draw(&'a Expr),
    /// A field of the data under its own name.
    Input(usize),
    /// What a memory starts from.
    MemoryStart(usize),
}

#[derive(Clone)]
pub(super) enum Scope<'a> {
    Plain(Env<'a>),
    /// An equation of a planner's rollout, run for every value of the rollout's own subscripts.
    Rollout(Rc<super::planner::Rollout<'a>>, super::planner::Side),
}

/// A family's name as its author wrote it: `x` of `plan.try.x`.
pub(super) fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

impl FamilyBuild<'_> {
    /// Whether one of its equations is being elaborated right now.
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// How many of its first subscripts are those of a rollout, which nobody writes.
    pub(super) fn hidden(&self) -> usize {
        match self.sources.first().map(|s| &s.scope) {
            Some(Scope::Rollout(rollout, _)) => rollout.prefix.len(),
            _ => 0,
        }
    }
}

impl<'a> SystemBuild<'a> {
    pub(super) fn names(&self) -> Vec<String> {
        self.families.iter().map(|f| f.name.clone()).collect()
    }

    pub(super) fn add(&mut self, name: &str, arity: usize, span: Span) -> usize {
        self.families.push(FamilyBuild {
            name: name.to_string(),
            arity,
            ty: None,
            leaves: Vec::new(),
            defs: Vec::new(),
            sources: Vec::new(),
            done: 0,
            busy: false,
            failed: false,
            record: false,
            used: false,
            span,
        });
        let id = self.families.len() - 1;
        self.index.insert(name.to_string(), id);
        id
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }
}

impl<'a> Ctx<'a> {
    /// Registers the equations of the model twice: for the training and for the evaluation.
    pub(super) fn declare_systems(&mut self) {
        for system in [TRAIN, EVALUATE] {
            for equation in self.names.members.equations.clone() {
                let scope = Scope::Plain(self.model_env(equation.span.file));
                self.add_equation(system, "", equation, scope);
            }
            for record in self.names.members.records.clone() {
                if let Some(id) = self.systems[system].find(&record.place.name.text) {
                    self.systems[system].families[id].record = true;
                }
            }
            self.declared_types(system);
        }
    }

    /// Adds an equation, and the base cases in its `with`.
    pub(super) fn add_equation(&mut self, system: usize, prefix: &str, e: &'a Equation, scope: Scope<'a>) {
        let value = if e.draw { DefValue::Draw(&e.value) } else { DefValue::Equals(&e.value) };
        let source =
            DefSource { indices: &e.place.indices, value, clauses: &e.clauses, span: e.span, scope: scope.clone(), base: false };
        self.add_source(system, prefix, &e.place.name, source);
        for clause in &e.clauses {
            if let ClauseKind::With(inits) = &clause.kind {
                for (place, value) in inits {
                    let span = place.span.to(value.span);
                    let source = DefSource {
                        indices: &place.indices,
                        value: DefValue::Equals(value),
                        clauses: &[],
                        span,
                        scope: scope.clone(),
                        base: true,
                    };
                    self.add_source(system, prefix, &place.name, source);
                }
            }
        }
    }

    fn add_source(&mut self, system: usize, prefix: &str, name: &'a Ident, source: DefSource<'a>) {
        let rollout = match &source.scope {
            Scope::Rollout(r, _) => r.prefix.len(),
            Scope::Plain(_) => 0,
        };
        let arity = source.indices.len() + rollout;
        let full = format!("{prefix}{}", name.text);
        let id = match self.systems[system].find(&full) {
            Some(id) => id,
            None => {
                let id = self.systems[system].add(&full, arity, name.span);
                // A base case of a data field: the field becomes a family of its own.
                if let Some(input) = self.draft.inputs.iter().position(|i| prefix.is_empty() && i.name == name.text) {
                    let own = DefSource {
                        indices: &[],
                        value: DefValue::Input(input),
                        clauses: &[],
                        span: name.span,
                        scope: source.scope.clone(),
                        base: false,
                    };
                    self.systems[system].families[id].sources.push(own);
                }
                id
            }
        };
        let family = &mut self.systems[system].families[id];
        if family.arity != arity {
            let (have, first) = (family.arity, family.span);
            if system == TRAIN || system == ACT {
                self.report(
                    Diagnostic::new(
                        Code::WrongIndexCount,
                        source.span,
                        format!(
                            "`{}` has {} here, and {} before",
                            name.text,
                            subscripts(arity - rollout),
                            subscripts(have - rollout.min(have))
                        ),
                    )
                    .label(first, "first defined here"),
                );
            }
            return;
        }
        family.sources.push(source);
    }

    /// Families named like a latent or a memory have its type from the start.
    fn declared_types(&mut self, system: usize) {
        for id in 0..self.systems[system].families.len() {
            let name = self.systems[system].families[id].name.clone();
            if let Some(i) = self.draft.latents.iter().position(|l| l.name == name) {
                let ty = self.latent_ty(i);
                self.systems[system].families[id].leaves = self.ty_leaves(&ty, "");
                self.systems[system].families[id].ty = Some(ty);
            } else if let Some(module) = self.memory_by_name(&name) {
                let ty = Ty::Memory(module);
                self.systems[system].families[id].leaves = self.ty_leaves(&ty, "");
                self.systems[system].families[id].ty = Some(ty);
                let family = &mut self.systems[system].families[id];
                if family.arity == 1 {
                    let scope = family.sources[0].scope.clone();
                    let source = DefSource {
                        indices: &[],
                        value: DefValue::MemoryStart(module),
                        clauses: &[],
                        span: family.span,
                        scope,
                        base: true,
                    };
                    family.sources.push(source);
                }
            }
        }
    }

    pub(super) fn latent_ty(&self, i: usize) -> Ty<'a> {
        let fields = self.draft.latents[i]
            .fields
            .iter()
            .map(|(n, axes)| (n.clone(), Ty::Tensor { axes: axes.clone(), dtype: Dtype::Real, attached: None }))
            .collect();
        Ty::Record { latent: Some(i), fields }
    }

    /// The family that a name means at model level, as this site sees it.
    pub(super) fn family_named(&mut self, name: &str) -> Option<FamilyRef> {
        let system = if self.place.site.system == EVALUATE { EVALUATE } else { TRAIN };
        if let Some(id) = self.systems[system].find(name) {
            let arity = self.systems[system].families[id].arity;
            return Some(FamilyRef { kind: FamilyKind::Family { system, id }, prefix: Rc::new([]), arity });
        }
        let input = self.draft.inputs.iter().position(|i| i.name == name)?;
        Some(FamilyRef { kind: FamilyKind::Input(input), prefix: Rc::new([]), arity: 1 })
    }

    pub(super) fn elaborate_system(&mut self, system: usize) {
        for id in 0..self.systems[system].families.len() {
            self.elaborate_family(system, id);
        }
    }

    /// Elaborates what has been read so far, and what that reads.
    pub(super) fn elaborate_read(&mut self, system: usize) {
        let mut changed = true;
        while changed {
            changed = false;
            for id in 0..self.systems[system].families.len() {
                let f = &self.systems[system].families[id];
                if f.used && f.done < f.sources.len() {
                    self.elaborate_family(system, id);
                    changed = true;
                }
            }
        }
    }

    /// Elaborates a family's first equation, which says what it is.
    pub(super) fn find_type(&mut self, system: usize, id: usize) {
        while self.systems[system].families[id].ty.is_none() && self.next_source(system, id) {}
    }

    pub(super) fn elaborate_family(&mut self, system: usize, id: usize) {
        while self.next_source(system, id) {}
    }

    /// Elaborates one more equation of a family; base cases come first.
    fn next_source(&mut self, system: usize, id: usize) -> bool {
        let family = &mut self.systems[system].families[id];
        if family.busy || family.done >= family.sources.len() {
            return false;
        }
        if family.done == 0 {
            family.sources.sort_by_key(|s| match s.value {
                DefValue::Input(_) | DefValue::MemoryStart(_) => 0,
                _ => 1 + s.indices.iter().filter(|e| has_free_name(e)).count(),
            });
            self.memory_type(system, id);
        }
        let family = &mut self.systems[system].families[id];
        let source = family.sources[family.done].clone();
        family.done += 1;
        family.busy = true;
        let sizes = self.place.sizes;
        if system == EVALUATE {
            self.place.sizes = super::Sizes::Evaluate;
        }
        stacker::maybe_grow(256 << 10, 4 << 20, || self.elaborate_def(system, id, &source));
        self.place.sizes = sizes;
        self.systems[system].families[id].busy = false;
        true
    }

    /// A family of which an equation runs a memory, `n[k] = memory(..)`, holds its values, whatever it starts with.
    fn memory_type(&mut self, system: usize, id: usize) {
        let family = &self.systems[system].families[id];
        if family.ty.is_some() || family.sources.len() == 1 {
            return;
        }
        let memories = || self.draft.modules.iter().filter(|m| m.kind == hir::ModuleKind::Memory);
        let called = family.sources.iter().find_map(|source| {
            let DefValue::Equals(Expr { kind: ExprKind::Call(callee, _), .. }) = source.value else { return None };
            match &callee.kind {
                ExprKind::Name(word) if word.text == "memory" && memories().count() == 1 => memories().next(),
                ExprKind::Field(of, name) if matches!(&of.kind, ExprKind::Name(word) if word.text == "memory") => {
                    memories().find(|m| m.name == name.text)
                }
                _ => None,
            }
        });
        if let Some(name) = called.map(|m| m.name.clone())
            && let Some(module) = self.memory_by_name(&name)
        {
            self.set_type(system, id, Ty::Memory(module));
        }
    }

    fn elaborate_def(&mut self, system: usize, id: usize, source: &DefSource<'a>) {
        if !self.spend_work(EQUATION, source.span) {
            return;
        }
        let name = self.systems[system].families[id].name.clone();
        let site = || Site { acts: system == TRAIN, ..Site::of(system, &name) };
        let Some(all) = self.at_site(site(), |cx| cx.written_defs(source)).0 else {
            self.systems[system].families[id].failed = true;
            return;
        };
        for written in all {
            let origin = if system == ACT { self.planner_of(&name) } else { None };
            let (def, site) = self.at_site(site(), |cx| match origin {
                Some((name, span)) => cx.on_behalf(name, span, |cx| cx.def(system, id, source, &written)),
                None => cx.def(system, id, source, &written),
            });
            let Some(def) = def else {
                self.systems[system].families[id].failed = true;
                return;
            };
            let build = &mut self.systems[system];
            build.defs.push(def);
            build.touched.push(site.touched);
            let def = hir::DefId(build.defs.len() as u32 - 1);
            build.families[id].defs.push(def);
        }
    }

    /// What is written out of an equation: its ranges are known before its subscripts are.
    fn written_defs(&mut self, source: &DefSource<'a>) -> Option<Vec<Written<'a>>> {
        let env = match &source.scope {
            Scope::Plain(env) => env.clone(),
            Scope::Rollout(rollout, side) => rollout.ranges_env(*side),
        };
        let all = self.windows(&[source.clauses], &env)?;
        let stray = all[0].iter().find(|(name, _)| !source.indices.iter().any(|e| mentions(e, &name.text)));
        if let Some((name, _)) = stray {
            self.no_subscript(name);
            return None;
        }
        Some(all)
    }

    /// Where a field of the data exists.
    pub(super) fn input_domain(&self, input: usize) -> (i64, i64) {
        let time = self
            .draft
            .dims
            .time
            .as_ref()
            .and_then(|n| self.draft.dims.get(n, self.place.sizes))
            .and_then(|a| self.draft.table.size(a).value())
            .unwrap_or(1);
        let outcome = self.draft.inputs[input].outcome;
        match (self.is_rollout(), outcome) {
            (false, false) | (true, true) => (0, time),
            (false, true) => (0, time - 1),
            (true, false) => (0, time + 1),
        }
    }

    pub(super) fn is_rollout(&self) -> bool {
        self.names.members.source.is_some_and(|(call, _)| call.name.text == "rollout")
    }
}
