//! One equation: its subscripts, clauses, resets and draws.

use super::subscript::walk;
use super::system::DefSource;
use super::system::DefValue;
use super::system::FamilyKind;
use super::system::FamilyRef;
use super::system::Scope;
use super::system::short;
use super::ty::Ty;
use super::value::{Env, Value};
use super::window::{Written, numbers};
use super::{ACT, Ctx, DrawFrom, Reset};
use crate::ast::{ClauseKind, Expr, ExprKind, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Dtype, FamilyId, Index, Lhs, Op, VarId};

impl<'a> Ctx<'a> {
    /// One equation, with numbers in place of some of its indices.
    pub(super) fn def(&mut self, system: usize, id: usize, source: &DefSource<'a>, written: &Written<'a>) -> Option<hir::Def> {
        let name = self.systems[system].families[id].name.clone();
        let family = FamilyId(id as u32);
        let mut lhs = Vec::new();
        let mut vars = Vec::new();
        let env = match &source.scope {
            Scope::Plain(env) => env.clone(),
            Scope::Rollout(rollout, side) => {
                let (env, prefix) = self.rollout_env(&rollout.clone(), *side);
                if *side == super::planner::Side::Model {
                    self.place.site.candidate = prefix.last().copied();
                }
                for var in prefix {
                    lhs.push(Lhs::Var { var, offset: 0 });
                    vars.push(var);
                }
                env
            }
        };
        let env = numbers(&env, written);
        match source.value {
            DefValue::Input(input) => {
                let domain = self.input_domain(input);
                let var = self.draft.new_var("t", source.span, Some(domain));
                let (axes, dtype) = (self.draft.inputs[input].axes.clone(), self.draft.inputs[input].dtype);
                let index = Index { terms: vec![(var, 1)], offset: 0 };
                let value = self.draft.table.push(Op::Input { input, index }, axes.clone(), dtype, source.span);
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
                let out = self.draft.modules[module].memory_out.clone();
                let zero = self.draft.table.constant(0.0, source.span);
                let mut values = vec![self.draft.table.broadcast(zero, &out, source.span)];
                for carry in self.draft.modules[module].carries.clone() {
                    let axes = self.draft.carries[carry].axes.clone();
                    values.push(self.draft.table.push(Op::Carry(carry), axes, Dtype::Real, source.span));
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
        self.place.site.active.clone_from(&vars);
        for clause in source.clauses {
            if let ClauseKind::For(iters) = &clause.kind {
                for (var, domain) in iters.iter().filter(|(var, _)| written.iter().all(|(w, _)| w.text != var.text)) {
                    self.for_clause(var, domain, &env, false);
                }
            }
        }
        self.place.site.reset = self.resets(system, id, source, &env);
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
            if self.place.site.vars.iter().any(|(n, _)| *n == name.text) {
                self.report(
                    Diagnostic::new(Code::NotAnIndex, name.span, format!("`{}` stands on the left twice", name.text))
                        .help("each subscript on the left has an index of its own"),
                );
                return None;
            }
            let id = self.draft.new_var(&name.text, name.span, None);
            self.place.site.vars.push((name.text.clone(), id));
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

    /// The values that an index takes, `lo..hi`.
    pub(super) fn index_range(&mut self, domain: &'a Expr, env: &Env<'a>) -> Option<(i64, i64)> {
        let value = self.eval(domain, env);
        match &value {
            Value::Range { .. } => self.whole_range(&value, domain.span),
            Value::Dim(_) | Value::Size(_) => self.as_int(&value, domain.span).map(|n| (0, n)),
            Value::Error => None,
            other => {
                self.report(
                    Diagnostic::new(
                        Code::WrongKind,
                        domain.span,
                        format!("a range is wanted here, and this is {}", other.describe()),
                    )
                    .help("write `0..T` (without the end) or `0..=T` (with it)"),
                );
                None
            }
        }
    }

    /// `for k in 0..K`. In losses and metrics a new name is a new variable; in an equation it must stand on the left.
    pub(super) fn for_clause(&mut self, name: &'a Ident, domain: &'a Expr, env: &Env<'a>, declares: bool) {
        let Some(range) = self.index_range(domain, env) else { return };
        if range.0 >= range.1 {
            self.report(
                Diagnostic::new(Code::EmptyDomain, domain.span, format!("`{}` would take no value", name.text))
                    .note(format!("the range is {}..{}", range.0, range.1)),
            );
            return;
        }
        match self.place.site.vars.iter().rev().find(|(n, _)| *n == name.text) {
            Some((_, id)) => self.draft.vars[id.0 as usize].range = Some(range),
            None if declares => {
                let id = self.draft.new_var(&name.text, name.span, Some(range));
                self.place.site.vars.push((name.text.clone(), id));
                self.place.site.active.push(id);
            }
            None => {
                self.no_subscript(name);
                // The right side reads it as it was meant.
                let id = self.draft.new_var(&name.text, name.span, Some(range));
                self.place.site.vars.push((name.text.clone(), id));
            }
        }
    }

    /// An index with a range that the left side does not have.
    pub(super) fn no_subscript(&mut self, name: &Ident) {
        self.report(
            Diagnostic::new(Code::UnknownIndex, name.span, format!("`{}` is no subscript of the left side", name.text))
                .help(format!("put it there, or fold over it: `sum {} in .. {{ .. }}`", name.text)),
        );
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
                let var = self.place.site.vars.first()?.1;
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
        let before = self.draft.draws.len();
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
                    &mut self.place.site.draw_from,
                    if self.place.site.system == ACT { DrawFrom::Sample } else { DrawFrom::Values(from) },
                );
                let drawn = self.call(&super::value::Callable::Method { env: d.env.clone(), method }, Vec::new(), e.span);
                self.place.site.draw_from = outer;
                drawn
            }
            // `pick ~ subset(E, 2)`: the call is the draw.
            Value::Tensor(_) if self.draft.draws.len() > before => value,
            Value::Ensemble(axis, _) => {
                let name = self.draft.table.name(*axis).to_string();
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
}

/// The value that a `reset` restores.
#[derive(Clone)]
pub(crate) struct Base {
    pub family: FamilyId,
    /// The subscripts of the base case; none for a memory, which goes back to its initial carry.
    pub index: Option<Vec<Index>>,
    pub memory: Option<usize>,
}

pub(super) fn subscripts(n: usize) -> String {
    match n {
        0 => "no subscript".to_string(),
        1 => "one subscript".to_string(),
        n => format!("{n} subscripts"),
    }
}

pub(super) fn count_given(n: usize) -> String {
    match n {
        0 => "none stands".to_string(),
        1 => "one stands".to_string(),
        n => format!("{n} stand"),
    }
}

/// Whether a subscript on the left has a lower-case name in it: an index rather than a size.
pub(super) fn has_free_name(e: &Expr) -> bool {
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
