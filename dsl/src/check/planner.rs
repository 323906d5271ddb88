//! Planners: equations of an algorithm around rollouts of the model's own equations.
//!
//! `planner plan(z, m) = cem(..) { .. }` pairs a planner's text (`cem`) with equations of the model. A call makes an
//! instance of the algorithm's equations in the acting system; every `rollout { u[k] = .. }` in it makes an instance of
//! the model's equations, with the subscripts of the rollout in front of their own. The algorithm sees of a rollout
//! only `u`, `guess` and `score`; the model's equations see of the algorithm only `u`.

use std::rc::Rc;

use super::bind::Owner;
use super::system::{FamilyKind, FamilyRef, Scope};
use super::value::{Env, Instance, LazyKind, Sees, Value};
use super::{ACT, Ctx};
use crate::ast::{self, ClauseKind, ExprKind, Ident, Item, StmtKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, Dtype, Index, Op, VarId};
use crate::source::Span;

/// One `rollout { .. }` of a planner's text.
pub(super) struct Rollout<'a> {
    /// Its subscripts with their ranges.
    pub prefix: Vec<(String, (i64, i64), Span)>,
    /// The model's scope with the planner's arguments.
    user: Env<'a>,
    /// The algorithm's scope.
    algorithm: Env<'a>,
    /// Families of the rollout: the model's equations and `u`.
    families: Vec<(String, usize, usize)>,
}

impl<'a> Rollout<'a> {
    /// What the ranges of its equations may name.
    pub(super) fn ranges_env(&self, side: Side) -> Env<'a> {
        match side {
            Side::Model => self.user.clone(),
            Side::Algorithm => self.algorithm.clone(),
        }
    }
}

/// `next last = ..` of a planner, to be evaluated at the end.
pub(crate) struct PendingNext<'a> {
    name: &'a Ident,
    value: &'a ast::Expr,
    prefix: String,
    env: Env<'a>,
}

/// Whose equation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Model,
    Algorithm,
}

/// Names of a rollout that the algorithm may read.
const VISIBLE: [&str; 3] = ["u", "guess", "score"];

impl<'a> Ctx<'a> {
    /// `plan(z[t], m[t-1])`.
    pub(super) fn call_planner(&mut self, planner: usize, args: Vec<(Value<'a>, Span)>, span: Span) -> Value<'a> {
        let decl = self.names.members.planners[planner];
        if self.place.site.system != ACT {
            self.report(
                Diagnostic::new(Code::WrongKind, span, "a planner runs while acting")
                    .help(format!("call `{}` inside `act {{ .. }}`", decl.name.text)),
            );
            return Value::Error;
        }
        if args.len() != decl.params.len() {
            self.report(
                Diagnostic::new(
                    Code::WrongArguments,
                    span,
                    format!(
                        "`{}` takes {} and gets {}",
                        decl.name.text,
                        super::module::count(decl.params.len(), "argument"),
                        args.len()
                    ),
                )
                .note(format!("its parameters are {}", super::listed(decl.params.iter().map(|p| p.name.text.as_str())))),
            );
            return Value::Error;
        }
        let Some(def) = self.algorithm(&decl.algorithm) else { return Value::Error };
        let (name, at) = (&decl.algorithm.name.text, decl.algorithm.span);
        self.on_behalf(name, at, |cx| cx.run_planner(decl, def, args, span))
    }

    /// The call of the algorithm that a family of the acting system belongs to: `plan.mean` to `cem(..)`.
    pub(super) fn planner_of(&self, family: &str) -> Option<(&'a str, Span)> {
        let (name, _) = family.split_once('.')?;
        let decl = self.names.members.planners.iter().find(|p| p.name.text == name)?;
        Some((&decl.algorithm.name.text, decl.algorithm.span))
    }

    fn run_planner(
        &mut self,
        decl: &'a ast::Planner,
        def: &'a ast::PlannerDef,
        args: Vec<(Value<'a>, Span)>,
        span: Span,
    ) -> Value<'a> {
        if self.systems[ACT].families.iter().any(|f| f.name.starts_with(&format!("{}.", decl.name.text))) {
            self.report(
                Diagnostic::new(Code::WrongKind, span, format!("`{}` is called twice", decl.name.text))
                    .help("plan once, and read its result twice: `found = plan(..)`"),
            );
            return Value::Error;
        }
        // The model's side: its own names, with the planner's arguments.
        let user = self.model_env(decl.name.span.file);
        for (param, (value, at)) in decl.params.iter().zip(args) {
            if let Some(ast::Type::Shape(shape)) = &param.ty {
                let (Some(want), Some(e)) = (self.shape(shape, &user), self.as_tensor(&value, at)) else {
                    return Value::Error;
                };
                if !self.same_axes(self.draft.table.axes_of(e), &want) {
                    let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&want));
                    self.report(
                        Diagnostic::new(
                            Code::AxesMismatch,
                            at,
                            format!("`{}` wants `{}` with {want}", decl.name.text, param.name.text),
                        )
                        .here(format!("this has {have}")),
                    );
                    return Value::Error;
                }
            }
            user.set(&*param.name.text, value);
        }
        // The algorithm's side: its settings, its dims, and A for the action's axes.
        let algorithm = Env::root(def.span.file, Sees::Planner);
        let model = self.model_env(decl.name.span.file);
        self.sink.calls.push((&def.name.text, decl.algorithm.span));
        let bound = self.planner_settings(def, &decl.algorithm, &model, &algorithm);
        self.sink.calls.pop();
        if bound.is_none() {
            return Value::Error;
        }
        let action: Vec<hir::AxisId> = self.action_axes();
        algorithm.set("A", Value::Axes(action.into()));
        for bind in &def.dims {
            let value = self.eval(&bind.value, &algorithm);
            let Some(size) = self.as_size(&value, bind.value.span) else { return Value::Error };
            let axis = self.draft.table.new_axis(&bind.name.text, size);
            algorithm.set(&*bind.name.text, Value::Dim(axis));
        }
        for stmt in &def.requires {
            let StmtKind::Require(cond, message) = &stmt.kind else { continue };
            match self.eval(cond, &algorithm) {
                Value::Bool(true) => {}
                Value::Bool(false) => {
                    self.report(Diagnostic::new(Code::RequireFailed, decl.algorithm.span, message.clone()));
                    return Value::Error;
                }
                Value::Error => return Value::Error,
                _ => {
                    self.error(Code::NotStatic, cond.span, "`require` wants something known when compiling");
                    return Value::Error;
                }
            }
        }
        if !self.check_planner_body(decl) {
            return Value::Error;
        }
        let prefix = format!("{}.", decl.name.text);
        self.planner_carries(def, &prefix, &algorithm);
        // Families first, so that equations may stand in any order; then their sources.
        for e in &def.equations {
            if let ExprKind::Rollout(actions) = &e.value.kind {
                self.add_rollout(decl, e, actions, &prefix, &user, &algorithm);
            }
        }
        for e in &def.equations {
            if !matches!(e.value.kind, ExprKind::Rollout(_)) {
                self.add_equation(ACT, &prefix, e, Scope::Plain(algorithm.clone()));
                self.bind_family(&e.place.name, &prefix, &algorithm);
            }
        }
        let Some(returns) = &def.returns else {
            self.report(
                Diagnostic::new(Code::NoReturn, def.name.span, format!("`{}` returns nothing", def.name.text))
                    .help("end it with `return { mean, std, sample, score }`"),
            );
            return Value::Error;
        };
        let result = self.eval(returns, &algorithm);
        // What a carry becomes is known once everything that could read it has been looked at.
        self.acting.pending.extend(def.nexts.iter().map(|(name, e)| PendingNext {
            name,
            value: e,
            prefix: prefix.clone(),
            env: algorithm.clone(),
        }));
        if let Value::Record(r) = &result {
            for field in ["mean", "std", "sample", "score"] {
                if !r.fields.iter().any(|(n, _)| n == field) {
                    self.report(
                        Diagnostic::new(Code::WrongKind, returns.span, format!("a planner's result has a field `{field}`"))
                            .note("it is a record `{ mean, std, sample, score }`"),
                    );
                    return Value::Error;
                }
            }
        }
        result
    }

    fn algorithm(&mut self, call: &'a ast::Call) -> Option<&'a ast::PlannerDef> {
        let file = call.name.span.file;
        match self.program.find(file, &call.name.text) {
            Some(Item::Planner(def)) => Some(def),
            _ => {
                let known = self.items_named(file, |i| matches!(i, Item::Planner(_)));
                self.report(
                    Diagnostic::new(Code::UnknownName, call.name.span, format!("there is no planner `{}`", call.name.text))
                        .suggest(&call.name.text, known.iter().copied())
                        .note(super::there_are(&known)),
                );
                None
            }
        }
    }

    fn planner_settings(
        &mut self,
        def: &'a ast::PlannerDef,
        call: &'a ast::Call,
        model: &Env<'a>,
        scope: &Env<'a>,
    ) -> Option<()> {
        let args = self.eval_args(&call.args, model)?;
        let owner = Owner { name: &def.name.text, settings: true, span: call.span };
        let params: Vec<&'a ast::ParamDecl> = def.params.iter().collect();
        self.bind(&owner, &params, args, scope, |cx, param, value, at| {
            let value = match value {
                // A dim is a number here: the algorithm makes axes of its own.
                Value::Dim(axis) => match cx.draft.table.size(axis).value() {
                    Some(n) => Value::Num(n as f64),
                    None => Value::Size(cx.draft.table.size(axis).clone()),
                },
                other => other,
            };
            if let (Value::Num(n), "iterations" | "samples" | "elites" | "horizon") = (&value, param.name.text.as_str())
                && (*n < 1.0 || n.fract() != 0.0)
            {
                cx.report(
                    Diagnostic::new(Code::BadSetting, at, format!("`{}` cannot be {n}", param.name.text))
                        .help("it is a whole number, one or more"),
                );
                return None;
            }
            Some(value)
        })?;
        Some(())
    }

    /// A planner's model equations must end in a score and heed the actions.
    fn check_planner_body(&mut self, decl: &'a ast::Planner) -> bool {
        let before = self.sink.diagnostics.len();
        match decl.equations.iter().find(|e| e.place.name.text == "score") {
            None => self.report(
                Diagnostic::new(Code::NoScore, decl.name.span, format!("`{}` has no `score`", decl.name.text))
                    .help("end it with `score = ..`: what the plan is worth, larger is better"),
            ),
            Some(e) if !e.place.indices.is_empty() => self.report(
                Diagnostic::new(Code::ScoreShape, e.place.span, "a plan has one score, and this is one for each step")
                    .help("fold the steps: `score = sum k in 0..H { .. }`"),
            ),
            Some(_) => {}
        }
        let mut uses = false;
        for e in &decl.equations {
            super::subscript::walk(&e.value, &mut |x| {
                if let ExprKind::Name(n) = &x.kind
                    && n.text == "u"
                {
                    uses = true;
                }
            });
        }
        if !uses {
            self.report(
                Diagnostic::new(Code::NoAction, decl.name.span, format!("`{}` never reads its actions `u[k]`", decl.name.text))
                    .help("the planner chooses `u[k]`; let the rollout depend on it: `x[k+1] = step(x[k], u[k])`"),
            );
        }
        self.sink.diagnostics.len() == before
    }

    /// The two values of a rollout that the algorithm counts on: one number as its score, an action as its guess.
    pub(super) fn rollout_value(&mut self, name: &str, value: &Value<'a>, span: Span) -> bool {
        let axes = match value {
            Value::Num(_) | Value::Size(_) | Value::Dim(_) | Value::Zeros => return true,
            Value::Tensor(t) => Some(self.draft.table.axes_of(t.expr).to_vec()),
            _ => None,
        };
        let have = axes.as_deref().map_or_else(|| value.describe().to_string(), |axes| self.draft.table.having(axes));
        match name {
            "score" if axes.as_deref() != Some(&[]) => self.report(
                Diagnostic::new(Code::ScoreShape, span, "a score is one number")
                    .here(if axes.is_some() { format!("this has {have}") } else { format!("this is {have}") })
                    .help("say how it is reduced: `sum(..)`, or a head's `.mean`"),
            ),
            "guess" => {
                let want = self.action_axes();
                if axes.is_some_and(|axes| self.same_axes(&axes, &want)) {
                    return true;
                }
                let want = self.draft.table.having(&want);
                self.report(
                    Diagnostic::new(Code::ActShape, span, format!("a guess is an action, with {want}"))
                        .here(format!("this has {have}")),
                );
            }
            _ => return true,
        }
        false
    }

    /// Carries exist once they are read: a search that starts from nothing remembers nothing.
    fn planner_carries(&mut self, def: &'a ast::PlannerDef, prefix: &str, algorithm: &Env<'a>) {
        for carry in &def.carries {
            algorithm.set_lazy(&carry.name.text, LazyKind::Carry { carry, path: format!("{prefix}{}", carry.name.text) });
        }
    }

    pub(super) fn planner_carry(&mut self, carry: &'a ast::Carry, path: &str, env: &Env<'a>) -> Value<'a> {
        let Some(axes) = self.shape(&carry.shape, env) else { return Value::Error };
        let value = self.eval(&carry.init, env);
        let Some(e) = self.as_tensor(&value, carry.init.span) else { return Value::Error };
        let init = self.draft.table.broadcast(e, &axes, carry.span);
        let id = self.draft.new_carry(hir::Carry { path: path.to_string(), axes: axes.clone(), init });
        Value::tensor(self.draft.table.push(Op::Carry(id), axes, Dtype::Real, carry.span))
    }

    /// New values of the planners' carries, where anything reads these.
    pub(super) fn planner_nexts(&mut self) {
        for pending in std::mem::take(&mut self.acting.pending) {
            let PendingNext { name, value: e, prefix, env } = pending;
            let path = format!("{prefix}{}", name.text);
            let Some(&id) = self.draft.carry_index.get(&path) else {
                if env.get_here(&name.text).is_none() {
                    self.report(
                        Diagnostic::new(Code::UnknownName, name.span, format!("there is no carry `{}`", name.text))
                            .help(format!("declare it: `carry {}: [..] = zeros([..])`", name.text)),
                    );
                }
                continue;
            };
            let origin = self.planner_of(&prefix).unwrap_or((&name.text, name.span));
            let site = super::Site::of(ACT, &path);
            let (value, _) = self.at_site(site, |cx| cx.on_behalf(origin.0, origin.1, |cx| cx.eval(e, &env)));
            if value.is_error() {
                continue;
            }
            let Some(new) = self.as_tensor(&value, e.span) else { continue };
            let axes = self.draft.carries[id].axes.clone();
            if !self.same_axes(self.draft.table.axes_of(new), &axes) {
                let (have, want) = (self.draft.table.having(self.draft.table.axes_of(new)), self.draft.table.having(&axes));
                self.report(
                    Diagnostic::new(Code::AxesMismatch, e.span, format!("the carry `{}` has {want}", name.text))
                        .here(format!("this has {have}")),
                );
                continue;
            }
            self.acting.next.push((id, new));
        }
    }

    /// Makes the families of one rollout.
    #[allow(clippy::too_many_arguments)]
    fn add_rollout(
        &mut self,
        decl: &'a ast::Planner,
        e: &'a ast::Equation,
        actions: &'a [ast::Equation],
        prefix: &str,
        user: &Env<'a>,
        algorithm: &Env<'a>,
    ) {
        let name = &e.place.name;
        let full = format!("{prefix}{}.", name.text);
        // The rollout's own subscripts need ranges: nothing they read gives them one.
        let mut subscripts = Vec::new();
        for index in &e.place.indices {
            let Some(index) = index.as_name() else {
                self.error(Code::NotAnIndex, index.span, "the subscripts of a rollout are plain indices");
                return;
            };
            let range = e.clauses.iter().find_map(|c| match &c.kind {
                ClauseKind::For(iters) => iters.iter().find(|(n, _)| n.text == index.text).map(|(_, d)| d),
                _ => None,
            });
            let Some(domain) = range else {
                self.report(
                    Diagnostic::new(Code::Unbounded, index.span, format!("`{}` needs a range", index.text))
                        .help(format!("write `for {} in 0..N` behind the rollout", index.text)),
                );
                return;
            };
            let value = self.eval(domain, algorithm);
            let range = match &value {
                Value::Range { .. } => match self.whole_range(&value, domain.span) {
                    Some(range) => range,
                    None => return,
                },
                Value::Dim(_) => match self.as_int(&value, domain.span) {
                    Some(n) => (0, n),
                    None => return,
                },
                Value::Error => return,
                other => {
                    self.error(Code::WrongKind, domain.span, format!("a range is wanted here, and this is {}", other.describe()));
                    return;
                }
            };
            subscripts.push((index.text.clone(), range, index.span));
        }
        let count = subscripts.len();
        let mut families: Vec<(String, usize, usize)> = Vec::new();
        let mut declare = |cx: &mut Self, place: &'a ast::Place| {
            if !families.iter().any(|(n, _, _)| *n == place.name.text) {
                let arity = count + place.indices.len();
                let id = cx.systems[ACT].add(&format!("{full}{}", place.name.text), arity, place.name.span);
                families.push((place.name.text.clone(), id, arity));
            }
        };
        for q in decl.equations.iter().chain(actions) {
            declare(self, &q.place);
            for clause in &q.clauses {
                if let ClauseKind::With(inits) = &clause.kind {
                    inits.iter().for_each(|(p, _)| declare(self, p));
                }
            }
        }
        let rollout = Rc::new(Rollout { prefix: subscripts, user: user.clone(), algorithm: algorithm.clone(), families });
        for q in &decl.equations {
            if q.place.name.text == "u" {
                self.report(
                    Diagnostic::new(Code::DuplicateName, q.place.name.span, "`u` is the planner's: it chooses the actions")
                        .help("call it something else"),
                );
                continue;
            }
            self.add_equation(ACT, &full, q, Scope::Rollout(rollout.clone(), Side::Model));
        }
        for q in actions {
            if q.place.name.text != "u" {
                self.error(Code::UnknownName, q.place.name.span, "a rollout is given its actions `u[k]`, and nothing else");
                continue;
            }
            self.add_equation(ACT, &full, q, Scope::Rollout(rollout.clone(), Side::Algorithm));
        }
        let visible = rollout
            .families
            .iter()
            .filter(|(n, _, _)| VISIBLE.contains(&n.as_str()))
            .map(|(n, id, arity)| {
                (n.clone(), FamilyRef { kind: FamilyKind::Family { system: ACT, id: *id }, prefix: Rc::new([]), arity: *arity })
            })
            .collect();
        let instance = Instance {
            name: name.text.clone(),
            families: visible,
            arity: count,
            given: if count == 0 { Some(Vec::new()) } else { None },
        };
        algorithm.set(&*name.text, Value::Instance(Rc::new(instance)));
    }

    fn bind_family(&mut self, name: &'a Ident, prefix: &str, algorithm: &Env<'a>) {
        if let Some(id) = self.systems[ACT].find(&format!("{prefix}{}", name.text))
            && algorithm.get_here(&name.text).is_none()
        {
            let arity = self.systems[ACT].families[id].arity;
            algorithm.set(
                &name.text,
                Value::Family(FamilyRef { kind: FamilyKind::Family { system: ACT, id }, prefix: Rc::new([]), arity }),
            );
        }
    }

    /// The scope of one equation of a rollout: fresh variables for the rollout's subscripts, and its families behind them.
    pub(super) fn rollout_env(&mut self, rollout: &Rc<Rollout<'a>>, side: Side) -> (Env<'a>, Vec<VarId>) {
        let mut vars = Vec::new();
        let mut prefix: Vec<Index> = Vec::new();
        for (name, range, span) in &rollout.prefix {
            let id = self.draft.new_var(name, *span, Some(*range));
            vars.push(id);
            prefix.push(Self::index_of(id));
            if side == Side::Algorithm {
                self.place.site.vars.push((name.clone(), id));
            }
        }
        let prefix: Rc<[Index]> = prefix.into();
        let env = match side {
            Side::Model => rollout.user.child(),
            Side::Algorithm => rollout.algorithm.child(),
        };
        for (name, id, arity) in &rollout.families {
            if side == Side::Model || VISIBLE.contains(&name.as_str()) {
                let f = FamilyRef { kind: FamilyKind::Family { system: ACT, id: *id }, prefix: prefix.clone(), arity: *arity };
                env.set(name.clone(), Value::Family(f));
            }
        }
        if side == Side::Algorithm && env.get_here("guess").is_none() {
            env.set("guess", Value::Word("guess"));
        }
        (env, vars)
    }

    pub(super) fn instance_at(&mut self, i: &Rc<Instance>, given: Vec<Index>, span: Span) -> Value<'a> {
        if given.len() != i.arity || i.given.is_some() {
            return self.error(Code::WrongIndexCount, span, format!("the rollout `{}` has {} subscripts", i.name, i.arity));
        }
        Value::Instance(Rc::new(Instance {
            name: i.name.clone(),
            families: i.families.clone(),
            arity: i.arity,
            given: Some(given),
        }))
    }

    pub(super) fn instance_field(&mut self, i: &Rc<Instance>, field: &Ident) -> Value<'a> {
        let Some(given) = &i.given else {
            return self.error(Code::WrongIndexCount, field.span, format!("the rollout `{}` has {} subscripts", i.name, i.arity));
        };
        match i.families.iter().find(|(n, _)| *n == field.text) {
            Some((_, f)) => {
                let f = FamilyRef { kind: f.kind, prefix: given.clone().into(), arity: f.arity };
                if f.missing() == 0 { self.read_plain(&f, field.span) } else { Value::Family(f) }
            }
            None => {
                let code = if field.text == "guess" { Code::NoGuess } else { Code::UnknownField };
                let known: Vec<&str> = i.families.iter().map(|(n, _)| n.as_str()).collect();
                self.report(
                    Diagnostic::new(code, field.span, format!("the rollout has no `{}`", field.text))
                        .note(format!("it has {}", super::listed(known))),
                );
                Value::Error
            }
        }
    }

    /// `guess[k]` in a planner whose model offers none.
    pub(super) fn no_guess(&mut self, span: Span) -> Value<'a> {
        let at = self.planner_of(&self.place.site.draw_base).map_or(span, |(_, at)| at);
        self.report(
            Diagnostic::new(
                Code::NoGuess,
                at,
                "these settings make the planner start from the model's own guess, and it has none",
            )
            .help("add an equation `guess[k] = prior(x[k])` to the planner, or choose another `start` and no `prior_samples`"),
        );
        Value::Error
    }

    pub(super) fn action_axes(&self) -> Vec<hir::AxisId> {
        let name = self.names.members.action.map(|(t, _)| t.name.text.as_str());
        self.draft.inputs.iter().find(|i| Some(i.name.as_str()) == name).map(|i| i.axes.clone()).unwrap_or_default()
    }

    pub(super) fn action_range(&mut self) -> (f64, f64) {
        let Some((_, range)) = self.names.members.action else { return (-1.0, 1.0) };
        let env = self.model_env(range.span.file);
        match self.eval(range, &env) {
            Value::Range { lo, hi, .. } => {
                if lo >= hi {
                    self.report(
                        Diagnostic::new(Code::BadSetting, range.span, format!("the action's range {lo}..{hi} is empty"))
                            .help("write the lower end first"),
                    );
                }
                (lo, hi)
            }
            _ => (-1.0, 1.0),
        }
    }
}
