//! Equations: families of values over subscripts, elaborated when they are first read.
//!
//! A family's type comes from its declaration (a latent's or a memory's name) or from its first equation; base cases
//! come first, so that a recurrence knows what it is a recurrence of.

use hashbrown::HashMap;
use std::rc::Rc;

use super::budget::EQUATION;
use super::expr::walk;
use super::value::{DistValue, Env, Record, Tensor, Value};
use super::{ACT, Ctx, DrawFrom, EVALUATE, Reset, Site, TRAIN};
use crate::ast::{Clause, ClauseKind, Equation, Expr, ExprKind, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId, Dtype, ExprId, FamilyId, Index, Leaf, Lhs, Op, VarId};
use crate::source::Span;

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
    sources: Vec<DefSource<'a>>,
    /// How many of the sources are elaborated; they are sorted when the first is.
    done: usize,
    busy: bool,
    /// Something was wrong with one of its equations, and has been said.
    failed: bool,
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

/// The structure of a family's value.
#[derive(Clone)]
pub(super) enum Ty<'a> {
    Tensor { axes: Vec<AxisId>, dtype: Dtype, attached: Option<Vec<AxisId>> },
    Record { latent: Option<usize>, fields: Vec<(String, Ty<'a>)> },
    Memory(usize),
    Dist(Rc<DistValue<'a>>),
    Ensemble(AxisId, Box<Ty<'a>>),
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
    // ---- declaration

    /// Registers the equations of the model twice: for the training and for the evaluation.
    pub(super) fn declare_systems(&mut self) {
        for system in [TRAIN, EVALUATE] {
            for equation in self.members.equations.clone() {
                let scope = Scope::Plain(self.model_env(equation.span.file));
                self.add_equation(system, "", equation, scope);
            }
            for record in self.members.records.clone() {
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
                if let Some(input) = self.inputs.iter().position(|i| prefix.is_empty() && i.name == name.text) {
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
            if let Some(i) = self.latents.iter().position(|l| l.name == name) {
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
        let fields = self.latents[i]
            .fields
            .iter()
            .map(|(n, axes)| (n.clone(), Ty::Tensor { axes: axes.clone(), dtype: Dtype::Real, attached: None }))
            .collect();
        Ty::Record { latent: Some(i), fields }
    }

    /// The family that a name means at model level, as this site sees it.
    pub(super) fn family_named(&mut self, name: &str) -> Option<FamilyRef> {
        let system = if self.site.system == EVALUATE { EVALUATE } else { TRAIN };
        if let Some(id) = self.systems[system].find(name) {
            let arity = self.systems[system].families[id].arity;
            return Some(FamilyRef { kind: FamilyKind::Family { system, id }, prefix: Rc::new([]), arity });
        }
        let input = self.inputs.iter().position(|i| i.name == name)?;
        Some(FamilyRef { kind: FamilyKind::Input(input), prefix: Rc::new([]), arity: 1 })
    }

    // ---- reading

    /// A family whose subscripts are all given by its scope.
    pub(super) fn read_plain(&mut self, f: &FamilyRef, span: Span) -> Value<'a> {
        self.read(f, Vec::new(), span)
    }

    pub(super) fn read(&mut self, f: &FamilyRef, given: Vec<Index>, span: Span) -> Value<'a> {
        if given.len() != f.missing() {
            let name = self.family_name(f);
            let want = f.missing();
            let mut d = Diagnostic::new(
                Code::WrongIndexCount,
                span,
                format!("`{name}` has {}, and {} here", subscripts(want), count_given(given.len())),
            );
            if given.is_empty() {
                let known: Vec<&str> = self.site.vars.iter().map(|(n, _)| n.as_str()).collect();
                let shown = match known.get(known.len().wrapping_sub(want)..) {
                    Some(last) if want > 0 => last.join(", "),
                    _ => (*["t", "t, k", "i, n, k"].get(want.saturating_sub(1)).unwrap_or(&"..")).to_string(),
                };
                d = d.help(format!("say at which step: `{name}[{shown}]`"));
            }
            self.report(d);
            return Value::Error;
        }
        let index: Vec<Index> = f.prefix.iter().cloned().chain(given).collect();
        match f.kind {
            FamilyKind::Input(input) => {
                let (axes, dtype) = (self.inputs[input].axes.clone(), self.inputs[input].dtype);
                let index = index.into_iter().next().unwrap_or_default();
                let e = self.table.push(Op::Input { input, index }, axes, dtype, span);
                self.site.touched.push(e);
                Value::tensor(e)
            }
            FamilyKind::Family { system, id } => {
                if self.systems[system].families[id].ty.is_none() {
                    self.find_type(system, id);
                }
                self.systems[system].families[id].used = true;
                let Some(ty) = self.systems[system].families[id].ty.clone() else {
                    return self.untyped(system, id, &index, span);
                };
                let outer = self.site.system == ACT && system != ACT;
                let family = FamilyId(id as u32);
                let leaves = self.systems[system].families[id].leaves.clone();
                let mut nodes = Vec::with_capacity(leaves.len());
                for (leaf, l) in leaves.iter().enumerate() {
                    let op = if outer {
                        Op::Outer { family, leaf, index: index.clone() }
                    } else {
                        Op::Read { family, leaf, index: index.clone() }
                    };
                    nodes.push(self.table.push(op, l.axes.clone(), l.dtype, span));
                }
                self.site.touched.extend(nodes.first());
                self.reset_reads(family, &mut nodes, &index, span);
                self.rebuild(&ty, &mut nodes.into_iter())
            }
        }
    }

    /// Inside an equation with `reset c`, the past is replaced by its base where c holds.
    fn reset_reads(&mut self, family: FamilyId, nodes: &mut [ExprId], index: &[Index], span: Span) {
        let Some(reset) = &self.site.reset else { return };
        let condition = reset.condition;
        let Some(base) = reset.bases.iter().find(|b| b.family == family).cloned() else { return };
        if base.index.as_deref() == Some(index) {
            return;
        }
        for (leaf, node) in nodes.iter_mut().enumerate() {
            let start = match (&base.index, base.memory) {
                (Some(index), _) => {
                    let (axes, dtype) = (self.table.axes_of(*node).to_vec(), self.table.dtype(*node));
                    self.table.push(Op::Read { family, leaf, index: index.clone() }, axes, dtype, span)
                }
                (None, Some(module)) if leaf > 0 => {
                    let carry = self.modules[module].carries[leaf - 1];
                    self.carries[carry].init
                }
                _ => continue,
            };
            *node = self.table.select(condition, start, *node, span).unwrap_or(*node);
        }
    }

    fn untyped(&mut self, system: usize, id: usize, index: &[Index], span: Span) -> Value<'a> {
        let family = &self.systems[system].families[id];
        // After an error in its equations there is nothing more to say.
        if !family.busy || family.failed {
            return Value::Error;
        }
        let name = short(&family.name).to_string();
        // Before the first step for one that reads the past, at the last for one that reads the future.
        let last = self.dims.time.as_ref().filter(|_| system != ACT).map_or("..".to_string(), |time| format!("{time}-1"));
        let start: Vec<String> = index[family.hidden().min(index.len())..]
            .iter()
            .map(|i| match (i.offset.signum(), i.terms.as_slice()) {
                (1, _) => last.clone(),
                (0, [(var, 1)]) => self.vars[var.0 as usize].name.clone(),
                _ => "-1".to_string(),
            })
            .collect();
        let start = start.join(", ");
        self.report(
            Diagnostic::new(
                Code::SelfReference,
                span,
                format!("`{name}` is defined by itself, and nothing says where it starts"),
            )
            .help(format!("give it a start: `with {name}[{start}] = ..`, or an equation at a fixed index")),
        );
        Value::Error
    }

    pub(super) fn family_name(&self, f: &FamilyRef) -> String {
        match f.kind {
            FamilyKind::Input(i) => self.inputs[i].name.clone(),
            FamilyKind::Family { system, id } => short(&self.systems[system].families[id].name).to_string(),
        }
    }

    // ---- types

    pub(super) fn ty_leaves(&self, ty: &Ty<'a>, path: &str) -> Vec<Leaf> {
        let sub = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match ty {
            Ty::Tensor { axes, dtype, attached } => {
                let mut leaves = vec![Leaf { path: path.to_string(), axes: axes.clone(), dtype: *dtype }];
                if let Some(axes) = attached {
                    leaves.push(Leaf { path: sub("before"), axes: axes.clone(), dtype: Dtype::Real });
                }
                leaves
            }
            Ty::Record { fields, .. } => fields.iter().flat_map(|(n, ty)| self.ty_leaves(ty, &sub(n))).collect(),
            Ty::Memory(module) => {
                let m = &self.modules[*module];
                let mut leaves = vec![Leaf { path: sub("out"), axes: m.memory_out.clone(), dtype: Dtype::Real }];
                for c in &m.carries {
                    let carry = &self.carries[*c];
                    let name = carry.path.strip_prefix(&format!("{}.", m.name)).unwrap_or(&carry.path);
                    leaves.push(Leaf { path: sub(&format!("carry.{name}")), axes: carry.axes.clone(), dtype: Dtype::Real });
                }
                leaves
            }
            Ty::Dist(d) => d
                .args
                .iter()
                .filter_map(|(n, v)| match v {
                    Value::Tensor(t) => {
                        Some(Leaf { path: sub(n), axes: self.table.axes_of(t.expr).to_vec(), dtype: Dtype::Real })
                    }
                    _ => None,
                })
                .collect(),
            Ty::Ensemble(_, inner) => self.ty_leaves(inner, path),
        }
    }

    /// A value of a type out of its arrays.
    fn rebuild(&mut self, ty: &Ty<'a>, leaves: &mut dyn Iterator<Item = ExprId>) -> Value<'a> {
        let mut take = || leaves.next();
        match ty {
            Ty::Tensor { attached, .. } => match (take(), attached) {
                (Some(expr), None) => Value::tensor(expr),
                (Some(expr), Some(_)) => Value::Tensor(Tensor { expr, attached: take() }),
                (None, _) => Value::Error,
            },
            Ty::Record { latent, fields } => {
                let mut out = Vec::new();
                for (name, ty) in fields {
                    out.push((name.clone(), self.rebuild(ty, leaves)));
                }
                Value::Record(Rc::new(Record { latent: *latent, fields: out }))
            }
            Ty::Memory(module) => {
                let Some(out) = take() else { return Value::Error };
                let carries = leaves.take(self.modules[*module].carries.len()).collect();
                Value::Memory(Rc::new(super::value::MemoryValue { module: *module, out, carries }))
            }
            Ty::Dist(d) => {
                let mut args = Vec::new();
                for (name, v) in &d.args {
                    let v = match v {
                        Value::Tensor(_) => match leaves.next() {
                            Some(e) => Value::tensor(e),
                            None => return Value::Error,
                        },
                        other => other.clone(),
                    };
                    args.push((name.clone(), v));
                }
                self.make_dist(d.def, args, d.letters.clone(), d.module)
            }
            Ty::Ensemble(axis, inner) => {
                let inner = self.rebuild(inner, leaves);
                Value::Ensemble(*axis, Rc::new(inner))
            }
        }
    }

    /// The type of a value, and its arrays in the order of the type's leaves.
    fn ty_of(&mut self, value: &Value<'a>, span: Span) -> Option<(Ty<'a>, Vec<ExprId>)> {
        match value {
            Value::Record(r) => {
                let mut fields = Vec::new();
                let mut leaves = Vec::new();
                for (name, v) in &r.fields {
                    let (ty, found) = self.ty_of(v, span)?;
                    fields.push((name.clone(), ty));
                    leaves.extend(found);
                }
                Some((Ty::Record { latent: r.latent, fields }, leaves))
            }
            Value::Memory(m) => {
                let mut leaves = vec![m.out];
                leaves.extend(&m.carries);
                Some((Ty::Memory(m.module), leaves))
            }
            Value::Dist(d) => {
                let leaves =
                    d.args.iter().filter_map(|(_, v)| if let Value::Tensor(t) = v { Some(t.expr) } else { None }).collect();
                Some((Ty::Dist(d.clone()), leaves))
            }
            Value::Ensemble(axis, inner) => {
                let (ty, leaves) = self.ty_of(inner, span)?;
                Some((Ty::Ensemble(*axis, Box::new(ty)), leaves))
            }
            Value::Tensor(Tensor { expr, attached: Some(extra) }) => {
                let ty = Ty::Tensor {
                    axes: self.table.axes_of(*expr).to_vec(),
                    dtype: self.table.dtype(*expr),
                    attached: Some(self.table.axes_of(*extra).to_vec()),
                };
                Some((ty, vec![*expr, *extra]))
            }
            other => {
                let e = self.as_tensor(other, span)?;
                let ty = Ty::Tensor { axes: self.table.axes_of(e).to_vec(), dtype: self.table.dtype(e), attached: None };
                Some((ty, vec![e]))
            }
        }
    }

    /// A value's arrays as a given type wants them: numbers and zeros spread over its axes.
    fn conform(&mut self, value: &Value<'a>, ty: &Ty<'a>, name: &str, span: Span) -> Option<Vec<ExprId>> {
        match (value, ty) {
            (Value::Num(_) | Value::Zeros | Value::Size(_) | Value::Dim(_), Ty::Record { fields, .. }) => {
                let mut leaves = Vec::new();
                for (_, ty) in fields {
                    leaves.extend(self.conform(value, ty, name, span)?);
                }
                Some(leaves)
            }
            (Value::Record(r), Ty::Record { fields, .. }) => {
                let have: Vec<&str> = r.fields.iter().map(|(n, _)| n.as_str()).collect();
                if have.len() != fields.len() || fields.iter().any(|(n, _)| !have.contains(&n.as_str())) {
                    let want = super::listed(fields.iter().map(|(n, _)| n.as_str()));
                    let have = super::listed(have);
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, span, format!("`{name}` has the fields {want}"))
                            .here(format!("this has {have}")),
                    );
                    return None;
                }
                let mut leaves = Vec::new();
                for (n, ty) in fields {
                    let field = r.fields.iter().find(|(m, _)| m == n).map(|(_, v)| v.clone())?;
                    leaves.extend(self.conform(&field, ty, name, span)?);
                }
                Some(leaves)
            }
            (Value::Memory(m), Ty::Memory(module)) if m.module == *module => {
                let mut leaves = vec![m.out];
                leaves.extend(&m.carries);
                Some(leaves)
            }
            // As the last argument of `memory`: the block's own start.
            (Value::Zeros | Value::Num(_), Ty::Memory(module)) => {
                let m = &self.modules[*module];
                let (out, carries) = (m.memory_out.clone(), m.carries.clone());
                let e = self.as_tensor(value, span)?;
                let mut leaves = vec![self.table.broadcast(e, &out, span)];
                leaves.extend(carries.iter().map(|c| self.carries[*c].init));
                Some(leaves)
            }
            (Value::Error, _) => None,
            (_, Ty::Tensor { axes, attached, .. }) => {
                let e = self.as_tensor(value, span)?;
                let scalar = matches!(value, Value::Num(_) | Value::Zeros | Value::Size(_) | Value::Dim(_));
                if !self.same_axes(self.table.axes_of(e), axes) && !scalar {
                    if self.is_doubtful(e) {
                        return None;
                    }
                    let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(axes));
                    let d = Diagnostic::new(Code::AxesMismatch, span, format!("`{name}` has {want} elsewhere"))
                        .here(format!("this has {have}"));
                    self.report(if have == "no axes" || want == "no axes" {
                        d.help("start it with `zeros([..])` of the right axes")
                    } else {
                        d
                    });
                    return None;
                }
                let mut leaves = vec![self.table.broadcast(e, axes, span)];
                if attached.is_some() {
                    leaves.push(leaves[0]);
                }
                Some(leaves)
            }
            (_, Ty::Dist(_) | Ty::Ensemble(..)) => {
                let (_, leaves) = self.ty_of(value, span)?;
                Some(leaves)
            }
            (other, Ty::Record { .. } | Ty::Memory(_)) => {
                let what = if matches!(ty, Ty::Memory(_)) { "a memory's value" } else { "a record" };
                self.report(Diagnostic::new(
                    Code::WrongKind,
                    span,
                    format!("`{name}` is {what}, and this is {}", other.describe()),
                ));
                None
            }
        }
    }

    // ---- elaboration

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
    fn find_type(&mut self, system: usize, id: usize) {
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
        let sizes = self.sizes;
        if system == EVALUATE {
            self.sizes = super::Sizes::Evaluate;
        }
        stacker::maybe_grow(256 << 10, 4 << 20, || self.elaborate_def(system, id, &source));
        self.sizes = sizes;
        self.systems[system].families[id].busy = false;
        true
    }

    /// A family of which an equation runs a memory, `n[k] = memory(..)`, holds its values, whatever it starts with.
    fn memory_type(&mut self, system: usize, id: usize) {
        let family = &self.systems[system].families[id];
        if family.ty.is_some() || family.sources.len() == 1 {
            return;
        }
        let memories = || self.modules.iter().filter(|m| m.kind == hir::ModuleKind::Memory);
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
        let origin = if system == ACT { self.planner_of(&name) } else { None };
        let (def, site) = self.at_site(Site::of(system, &name), |cx| match origin {
            Some((name, span)) => cx.on_behalf(name, span, |cx| cx.def(system, id, source)),
            None => cx.def(system, id, source),
        });
        if let Some(def) = def {
            let build = &mut self.systems[system];
            build.defs.push(def);
            build.touched.push(site.touched);
            let def = hir::DefId(build.defs.len() as u32 - 1);
            build.families[id].defs.push(def);
        } else {
            self.systems[system].families[id].failed = true;
        }
    }

    fn def(&mut self, system: usize, id: usize, source: &DefSource<'a>) -> Option<hir::Def> {
        let name = self.systems[system].families[id].name.clone();
        let family = FamilyId(id as u32);
        let mut lhs = Vec::new();
        let mut vars = Vec::new();
        let env = match &source.scope {
            Scope::Plain(env) => env.clone(),
            Scope::Rollout(rollout, side) => {
                let (env, prefix) = self.rollout_env(&rollout.clone(), *side);
                for var in prefix {
                    lhs.push(Lhs::Var { var, offset: 0 });
                    vars.push(var);
                }
                env
            }
        };
        match source.value {
            DefValue::Input(input) => {
                let domain = self.input_domain(input);
                let var = self.new_var("t", source.span, Some(domain));
                let (axes, dtype) = (self.inputs[input].axes.clone(), self.inputs[input].dtype);
                let index = Index { terms: vec![(var, 1)], offset: 0 };
                let value = self.table.push(Op::Input { input, index }, axes.clone(), dtype, source.span);
                self.set_type(system, id, Ty::Tensor { axes, dtype, attached: None });
                return Some(hir::Def {
                    family,
                    lhs: vec![Lhs::Var { var, offset: 0 }],
                    vars: vec![var],
                    values: vec![value],
                    base: source.base,
                    span: source.span,
                });
            }
            DefValue::MemoryStart(module) => {
                let out = self.modules[module].memory_out.clone();
                let zero = self.table.constant(0.0, source.span);
                let mut values = vec![self.table.broadcast(zero, &out, source.span)];
                for carry in self.modules[module].carries.clone() {
                    let axes = self.carries[carry].axes.clone();
                    values.push(self.table.push(Op::Carry(carry), axes, Dtype::Real, source.span));
                }
                return Some(hir::Def {
                    family,
                    lhs: vec![Lhs::At(-1)],
                    vars: Vec::new(),
                    values,
                    base: source.base,
                    span: source.span,
                });
            }
            DefValue::Equals(_) | DefValue::Draw(_) => {}
        }
        for index in source.indices {
            let (one, var) = self.lhs_index(index, &env)?;
            vars.extend(var);
            lhs.push(one);
        }
        self.site.active.clone_from(&vars);
        for clause in source.clauses {
            if let ClauseKind::For(iters) = &clause.kind {
                for (var, domain) in iters {
                    self.for_clause(var, domain, &env, false);
                }
            }
        }
        self.site.reset = self.resets(system, id, source, &env);
        let (e, value) = match source.value {
            DefValue::Equals(e) => (e, self.eval(e, &env)),
            DefValue::Draw(e) => (e, self.draw(e, &env)),
            DefValue::Input(_) | DefValue::MemoryStart(_) => return None,
        };
        for clause in source.clauses {
            if let ClauseKind::Where(cond) = &clause.kind {
                self.report(
                    Diagnostic::new(Code::WrongKind, cond.span, "`where` belongs to losses and metrics")
                        .help("to choose entry by entry, write `select(condition, one, other)`"),
                );
            }
        }
        if value.is_error() {
            return None;
        }
        let short = short(&name).to_string();
        if matches!(source.scope, Scope::Rollout(_, super::planner::Side::Model)) && !self.rollout_value(&short, &value, e.span) {
            return None;
        }
        let values = match self.systems[system].families[id].ty.clone() {
            Some(ty) => self.conform(&value, &ty, &short, e.span)?,
            None => {
                let single = self.systems[system].families[id].sources.len() == 1;
                let value = match value {
                    Value::Tensor(t) if !single => Value::tensor(t.expr),
                    Value::Family(f) => self.read_plain(&f, e.span),
                    other => other,
                };
                let (ty, leaves) = self.ty_of(&value, e.span)?;
                self.set_type(system, id, ty);
                leaves
            }
        };
        Some(hir::Def { family, lhs, vars, values, base: source.base, span: source.span })
    }

    fn set_type(&mut self, system: usize, id: usize, ty: Ty<'a>) {
        let leaves = self.ty_leaves(&ty, "");
        let family = &mut self.systems[system].families[id];
        if family.ty.is_none() {
            family.leaves = leaves;
            family.ty = Some(ty);
        }
    }

    /// A subscript on the left: a variable, perhaps shifted, or a number.
    pub(super) fn lhs_index(&mut self, e: &'a Expr, env: &Env<'a>) -> Option<(Lhs, Option<VarId>)> {
        let mut names = Vec::new();
        walk(e, &mut |e| {
            if let ExprKind::Name(n) = &e.kind {
                names.push(n);
            }
        });
        let mut new = None;
        for name in names {
            if env.get(&name.text).is_some() || (env.sees_model() && self.is_static(&name.text)) {
                continue;
            }
            if self.site.vars.iter().any(|(n, _)| *n == name.text) {
                self.report(
                    Diagnostic::new(Code::NotAnIndex, name.span, format!("`{}` stands on the left twice", name.text))
                        .help("each subscript on the left has an index of its own"),
                );
                return None;
            }
            let id = self.new_var(&name.text, name.span, None);
            self.site.vars.push((name.text.clone(), id));
            new = Some(id);
        }
        let value = self.eval(e, env);
        let index = self.as_index(&value, e.span)?;
        match (index.shifted(), index.constant()) {
            (Some((var, offset)), _) => Some((Lhs::Var { var, offset }, new)),
            (None, Some(n)) => Some((Lhs::At(n), None)),
            _ => {
                self.report(
                    Diagnostic::new(
                        Code::NotAnIndex,
                        e.span,
                        "a subscript on the left is an index, an index plus a number, or a number",
                    )
                    .help("write `x[t]`, `x[t+1]` or `x[0]`"),
                );
                None
            }
        }
    }

    /// `for k in 0..K`. In losses and metrics a new name is a new variable; in an equation it must stand on the left.
    pub(super) fn for_clause(&mut self, name: &'a Ident, domain: &'a Expr, env: &Env<'a>, declares: bool) {
        let value = self.eval(domain, env);
        let range = match &value {
            Value::Range { .. } => match self.whole_range(&value, domain.span) {
                Some(range) => range,
                None => return,
            },
            Value::Dim(_) | Value::Size(_) => match self.as_int(&value, domain.span) {
                Some(n) => (0, n),
                None => return,
            },
            Value::Error => return,
            other => {
                self.report(
                    Diagnostic::new(
                        Code::WrongKind,
                        domain.span,
                        format!("a range is wanted here, and this is {}", other.describe()),
                    )
                    .help("write `0..T` (without the end) or `0..=T` (with it)"),
                );
                return;
            }
        };
        if range.0 >= range.1 {
            self.report(
                Diagnostic::new(Code::EmptyDomain, domain.span, format!("`{}` would take no value", name.text))
                    .note(format!("the range is {}..{}", range.0, range.1)),
            );
            return;
        }
        match self.site.vars.iter().rev().find(|(n, _)| *n == name.text) {
            Some((_, id)) => self.vars[id.0 as usize].range = Some(range),
            None if declares => {
                let id = self.new_var(&name.text, name.span, Some(range));
                self.site.vars.push((name.text.clone(), id));
                self.site.active.push(id);
            }
            None => {
                self.report(
                    Diagnostic::new(Code::UnknownIndex, name.span, format!("`{}` is no subscript of the left side", name.text))
                        .help(format!("put it there, or fold over it: `sum {} in .. {{ .. }}`", name.text)),
                );
                // The right side reads it as it was meant.
                let id = self.new_var(&name.text, name.span, Some(range));
                self.site.vars.push((name.text.clone(), id));
            }
        }
    }

    /// `reset c` of an equation, or of the memory that the equation runs.
    fn resets(&mut self, system: usize, id: usize, source: &DefSource<'a>, env: &Env<'a>) -> Option<Reset> {
        let mut condition = None;
        let mut bases = Vec::new();
        for clause in source.clauses {
            match &clause.kind {
                ClauseKind::Reset(e) => condition = Some(e),
                ClauseKind::With(inits) => {
                    for (place, _) in inits {
                        if let Value::Family(FamilyRef { kind: FamilyKind::Family { system: s, id }, prefix, .. }) =
                            self.lookup(&place.name, env)
                            && s == system
                        {
                            let index = self.indices(&place.indices, env)?;
                            let index = prefix.iter().cloned().chain(index).collect();
                            bases.push(Base { family: FamilyId(id as u32), index: Some(index), memory: None });
                        }
                    }
                }
                ClauseKind::For(_) | ClauseKind::Where(_) => {}
            }
        }
        if condition.is_none() && matches!(source.scope, Scope::Plain(_)) {
            let name = self.systems[system].families[id].name.clone();
            if let Some(module) = self.memory_by_name(&name)
                && let Some(e) = self.memory_reset(module)
            {
                condition = Some(e);
                bases.push(Base { family: FamilyId(id as u32), index: None, memory: Some(module) });
            }
        }
        let e = condition?;
        let value = match self.eval(e, env) {
            // `reset first`: at the step of the equation itself.
            Value::Family(f) if f.missing() == 1 => {
                let var = self.site.vars.first()?.1;
                self.read(&f, vec![Index { terms: vec![(var, 1)], offset: 0 }], e.span)
            }
            other => other,
        };
        let condition = self.as_condition(&value, e.span)?;
        if bases.is_empty() {
            self.report(
                Diagnostic::new(Code::WrongKind, e.span, "`reset` has nothing to go back to")
                    .help("say where the past starts: `with x[-1] = ..`"),
            );
            return None;
        }
        Some(Reset { condition, bases })
    }

    /// `x ~ D`.
    pub(super) fn draw(&mut self, e: &'a Expr, env: &Env<'a>) -> Value<'a> {
        let before = self.draws.len();
        let value = self.eval(e, env);
        match &value {
            Value::Error => Value::Error,
            Value::Dist(d) => {
                let d = d.clone();
                let mut from = Vec::new();
                for (_, v) in &d.args {
                    if let Value::Tensor(t) = v {
                        from.push(t.expr);
                    }
                }
                let Some(method) = d.def.methods.iter().find(|m| m.name.text == "sample") else {
                    self.report(
                        Diagnostic::new(Code::UnknownMethod, e.span, format!("`{}` cannot be drawn from", d.def.name.text))
                            .help("give it a method `sample`"),
                    );
                    return Value::Error;
                };
                let outer = std::mem::replace(
                    &mut self.site.draw_from,
                    if self.site.system == ACT { DrawFrom::Sample } else { DrawFrom::Values(from) },
                );
                let drawn = self.call(&super::value::Callable::Method { env: d.env.clone(), method }, Vec::new(), e.span);
                self.site.draw_from = outer;
                drawn
            }
            // `pick ~ subset(E, 2)`: the call is the draw.
            Value::Tensor(_) if self.draws.len() > before => value,
            Value::Ensemble(axis, _) => {
                let name = self.table.name(*axis).to_string();
                self.ensemble_error(&name, e.span);
                Value::Error
            }
            other => {
                self.report(
                    Diagnostic::new(
                        Code::NotADistribution,
                        e.span,
                        format!("a draw needs a distribution, and this is {}", other.describe()),
                    )
                    .help("write `=` for a value, or draw from a head or from `normal(mean, std)`"),
                );
                Value::Error
            }
        }
    }

    /// Where a field of the data exists.
    pub(super) fn input_domain(&self, input: usize) -> (i64, i64) {
        let time = self
            .dims
            .time
            .as_ref()
            .and_then(|n| self.dims.get(n, self.sizes))
            .and_then(|a| self.table.size(a).value())
            .unwrap_or(1);
        let outcome = self.inputs[input].outcome;
        match (self.is_rollout(), outcome) {
            (false, false) | (true, true) => (0, time),
            (false, true) => (0, time - 1),
            (true, false) => (0, time + 1),
        }
    }

    pub(super) fn is_rollout(&self) -> bool {
        self.members.source.is_some_and(|(call, _)| call.name.text == "rollout")
    }
}

/// What a `reset` goes back to.
#[derive(Clone)]
pub(crate) struct Base {
    pub family: FamilyId,
    /// The subscripts of the base case; none for a memory, which goes back to its initial carry.
    pub index: Option<Vec<Index>>,
    pub memory: Option<usize>,
}

fn subscripts(n: usize) -> String {
    match n {
        0 => "no subscript".to_string(),
        1 => "one subscript".to_string(),
        n => format!("{n} subscripts"),
    }
}

fn count_given(n: usize) -> String {
    match n {
        0 => "none stands".to_string(),
        1 => "one stands".to_string(),
        n => format!("{n} stand"),
    }
}

/// Whether a subscript on the left has a lower-case name in it: an index rather than a size.
fn has_free_name(e: &Expr) -> bool {
    let mut found = false;
    walk(e, &mut |e| {
        if let ExprKind::Name(n) = &e.kind
            && n.text.chars().next().is_some_and(char::is_lowercase)
        {
            found = true;
        }
    });
    found
}
