//! Expressions.

use hashbrown::HashSet;
use std::rc::Rc;

use super::builtins::Builtin;
use super::value::{Callable, Env, Found, Lazy, LazyKind, LazyState, Record, Value};
use super::{Ctx, item_value};
use crate::ast::{self, BinaryOp as Bin, Expr, ExprKind, Ident, ListItem, UnaryOp as Un};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, BinaryOp, Dtype, ExprId, Index, Op, ReduceOp, Size, UnaryOp, VarId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    pub(super) fn eval(&mut self, e: &'a Expr, env: &Env<'a>) -> Value<'a> {
        if !self.spend(e.span) {
            return Value::Error;
        }
        stacker::maybe_grow(128 << 10, 4 << 20, || self.eval_kind(e, env))
    }

    fn eval_kind(&mut self, e: &'a Expr, env: &Env<'a>) -> Value<'a> {
        match &e.kind {
            ExprKind::Number(n) => Value::Num(*n),
            ExprKind::Percent(p) => {
                if *p > 1.0 {
                    self.report(
                        Diagnostic::new(Code::ScheduleRange, e.span, format!("{}% is more than the whole", p * 100.0))
                            .help("percentages run from 0% to 100%"),
                    );
                }
                Value::Num(*p)
            }
            ExprKind::Text(t) => Value::Text(t.as_str().into()),
            ExprKind::Error => Value::Error,
            ExprKind::Name(name) => {
                let value = self.lookup(name, env);
                match value {
                    Value::Family(f) if f.missing() == 0 => self.read_plain(&f, e.span),
                    other => other,
                }
            }
            ExprKind::Next(name) => self.next_value(name, env),
            ExprKind::List(items) => {
                let list = self.list(items, env);
                self.held(list, e.span)
            }
            ExprKind::Record(fields) => {
                let mut out: Vec<(String, Value<'a>)> = Vec::new();
                for (name, value) in fields {
                    if out.iter().any(|(n, _)| *n == name.text) {
                        self.report(
                            Diagnostic::new(Code::DuplicateName, name.span, format!("two fields `{}`", name.text))
                                .help("rename one of them"),
                        );
                        continue;
                    }
                    let value = self.eval(value, env);
                    out.push((name.text.clone(), value));
                }
                self.held(Value::record(out), e.span)
            }
            ExprKind::Fold { op, var, over, body } => self.fold(op, var, over, body, env, e.span),
            ExprKind::If { cond, then, other } => {
                let c = self.eval(cond, env);
                match c {
                    Value::Bool(true) => self.eval(then, env),
                    Value::Bool(false) => self.eval(other, env),
                    Value::Error => Value::Error,
                    Value::Tensor(_) => {
                        if self.needs_task(&c, cond.span) {
                            return Value::Error;
                        }
                        self.report(
                            Diagnostic::new(Code::NotStatic, cond.span, "the condition of an `if` must be known when compiling")
                                .help("to choose entry by entry while the model runs, write `select(condition, one, other)`"),
                        );
                        Value::Error
                    }
                    other => self.error(
                        Code::WrongKind,
                        cond.span,
                        format!("a condition is wanted here, and this is {}", other.describe()),
                    ),
                }
            }
            ExprKind::Rollout(_) => {
                self.report(
                    Diagnostic::new(Code::WrongKind, e.span, "`rollout` stands alone on the right of a planner's equation")
                        .help("write `try[n] = rollout { u[k] = .. } for n in 0..N` inside a `planner`"),
                );
                Value::Error
            }
            ExprKind::Index(base, indices) => self.subscript(base, indices, env, e.span),
            ExprKind::Field(base, field) => {
                if let Some(name) = base.as_name() {
                    match self.lookup(name, env) {
                        Value::Word("slow") => return self.slow(field),
                        Value::Word(_) => return self.memory_named(Some(field), e.span),
                        _ => {}
                    }
                }
                let value = self.eval(base, env);
                self.field(&value, field, e.span)
            }
            ExprKind::Call(callee, args) => self.call_expr(callee, args, env, e.span),
            ExprKind::Update(base, fields) => self.update(base, fields, env, e.span),
            ExprKind::Arrow(inner, shape) => {
                let Some(axes) = self.shape(shape, env) else { return Value::Error };
                let outer = self.expected.replace(axes.clone());
                let value = self.eval(inner, env);
                let unused = std::mem::replace(&mut self.expected, outer);
                if unused.is_some() && !value.is_error() {
                    // Not a block: the arrow only says what the axes are.
                    let Some(t) = self.as_tensor(&value, inner.span) else { return Value::Error };
                    if !self.same_axes(self.table.axes_of(t), &axes) {
                        let (have, want) = (self.table.having(self.table.axes_of(t)), self.table.having(&axes));
                        self.report(
                            Diagnostic::new(Code::AxesMismatch, inner.span, "axes do not line up")
                                .here(format!("this has {have}"))
                                .label(shape.span, format!("and should have {want}")),
                        );
                        return Value::Error;
                    }
                }
                value
            }
            ExprKind::Unary(op, inner) => {
                let v = self.eval(inner, env);
                self.unary(*op, &v, e.span)
            }
            ExprKind::Binary(op, l, r) => {
                let a = self.eval(l, env);
                let b = self.eval(r, env);
                if a.is_error() || b.is_error() {
                    return Value::Error;
                }
                self.binary(*op, (&a, l), (&b, r), e.span)
            }
            ExprKind::Range { lo, hi, inclusive } => {
                let (l, h) = (self.eval(lo, env), self.eval(hi, env));
                match (self.as_number(&l, lo.span), self.as_number(&h, hi.span)) {
                    (Some(lo), Some(hi)) => Value::Range { lo, hi, inclusive: *inclusive },
                    _ => Value::Error,
                }
            }
        }
    }

    // ---- names

    pub(super) fn lookup(&mut self, name: &Ident, env: &Env<'a>) -> Value<'a> {
        let text = name.text.as_str();
        match env.get(text) {
            Some(Found::Value(v)) => return v,
            Some(Found::Lazy(lazy, scope)) => return self.force(&lazy, &scope, name.span),
            None => {}
        }
        if env.sees_indices()
            && let Some((_, var)) = self.site.vars.iter().rev().find(|(n, _)| n == text)
        {
            return Value::Index(Index { terms: vec![(*var, 1)], offset: 0 });
        }
        if env.sees_model()
            && let Some(value) = self.model_name(text, name.span)
        {
            return value;
        }
        if let Some(value) = self.program.find(env.file(), text).and_then(item_value) {
            return value;
        }
        if let Some(value) = self.builtin_name(text) {
            return value;
        }
        self.unknown_name(name, env)
    }

    /// A small letter in a subscript that means nothing here.
    fn unknown_index(&mut self, name: &Ident, env: &Env<'a>) {
        let known: Vec<String> = self.site.vars.iter().map(|(n, _)| n.clone()).collect();
        let d = Diagnostic::new(Code::UnknownIndex, name.span, format!("nothing binds the index `{}`", name.text));
        self.report(match known.as_slice() {
            _ if !env.sees_indices() => d.help("a function sees no indices: hand in the value at that step as an argument"),
            [] => d.help(format!("put it on the left, or fold over it: `sum {} in 0..N {{ .. }}`", name.text)),
            [one] => d.note(format!("the index here is `{one}`")),
            _ => d.note(format!("the indices here are {}", super::listed(known))),
        });
    }

    /// Whether a name means nothing at all here.
    fn means_nothing(&mut self, name: &Ident, env: &Env<'a>) -> bool {
        !(env.get(&name.text).is_some()
            || env.sees_indices() && self.site.vars.iter().any(|(n, _)| *n == name.text)
            || env.sees_model() && self.model_name(&name.text, name.span).is_some()
            || self.program.find(env.file(), &name.text).and_then(item_value).is_some()
            || self.builtin_name(&name.text).is_some())
    }

    fn unknown_name(&mut self, name: &Ident, env: &Env<'a>) -> Value<'a> {
        // Declared, but looked for before there are any values: in a size or a setting.
        let m = &self.members;
        let later = m.inputs.iter().any(|t| t.name.text == name.text)
            || m.action.is_some_and(|(t, _)| t.name.text == name.text)
            || m.equations.iter().any(|e| e.place.name.text == name.text)
            || m.nets.iter().any(|n| n.name.text == name.text);
        if later && env.sees_model() {
            return self.error(
                Code::NotStatic,
                name.span,
                format!("this must be known when compiling, and `{}` is not", name.text),
            );
        }
        let mut known = env.names();
        if env.sees_model() {
            known.extend(self.model_names());
        }
        known.extend(self.site.vars.iter().map(|(n, _)| n.clone()));
        known.extend(self.program.names(env.file()).map(str::to_string));
        known.extend(Builtin::ALL.iter().map(|b| b.name().to_string()));
        let mut d = Diagnostic::new(Code::UnknownName, name.span, format!("there is nothing called `{}` here", name.text))
            .suggest(&name.text, known.iter().map(String::as_str));
        if d.helps.is_empty() && matches!(name.text.as_str(), "i" | "j" | "k" | "l" | "n" | "t") {
            d = d.help(format!("an index needs a range: `for {} in 0..T`, or a subscript on the left", name.text));
        }
        self.report(d);
        Value::Error
    }

    /// What a name means in the model itself.
    fn model_name(&mut self, text: &str, span: Span) -> Option<Value<'a>> {
        if self.clashes.contains(text) {
            return Some(Value::Error);
        }
        let value = self.model_value(text, span)?;
        if !self.used.contains(text) {
            self.used.insert(text.to_string());
        }
        Some(value)
    }

    fn model_value(&mut self, text: &str, span: Span) -> Option<Value<'a>> {
        if let Some(f) = self.family_named(text) {
            return Some(Value::Family(f));
        }
        if let Some(i) = self.latents.iter().position(|l| l.name == text) {
            return Some(Value::Latent(i));
        }
        if let Some(axis) = self.model_axis(text) {
            return Some(Value::Dim(axis));
        }
        if let Some(value) = self.constant(text) {
            return Some(value);
        }
        if let Some(f) = self.members.fns.get(text) {
            return Some(Value::Callable(Callable::Fn(f)));
        }
        if let Some(module) = self.module_named(text) {
            return Some(self.module_value(module, span));
        }
        if let Some(i) = self.members.schedules.iter().position(|s| s.name.text == text) {
            return Some(Value::tensor(self.table.push(Op::Schedule(i), Vec::new(), Dtype::Real, span)));
        }
        if let Some(i) = self.members.runnings.iter().position(|(n, _, _)| n.text == text) {
            return Some(Value::tensor(self.table.push(Op::Running(i), Vec::new(), Dtype::Real, span)));
        }
        if let Some(planner) = self.members.planners.iter().position(|p| p.name.text == text) {
            return Some(Value::Callable(Callable::Planner { planner }));
        }
        match text {
            "slow" => Some(Value::Word("slow")),
            "memory" => Some(Value::Word("memory")),
            _ => None,
        }
    }

    fn model_names(&self) -> Vec<String> {
        let m = &self.members;
        let mut names: Vec<String> = self.systems[self.site.system.min(super::EVALUATE)].names();
        names.extend(self.dims.names().map(str::to_string));
        names.extend(m.consts.iter().map(|b| b.name.text.clone()));
        names.extend(m.fns.keys().cloned());
        names.extend(self.modules.iter().map(|x| x.name.clone()));
        names.extend(m.schedules.iter().map(|b| b.name.text.clone()));
        names.extend(m.runnings.iter().map(|(n, _, _)| n.text.clone()));
        names.extend(m.planners.iter().map(|p| p.name.text.clone()));
        names.extend(self.inputs.iter().map(|i| i.name.clone()));
        names.extend(self.latents.iter().map(|l| l.name.clone()));
        names
    }

    fn force(&mut self, lazy: &Rc<Lazy<'a>>, env: &Env<'a>, span: Span) -> Value<'a> {
        {
            let mut state = lazy.state.borrow_mut();
            match &*state {
                LazyState::Done(v) => return v.clone(),
                LazyState::Busy => {
                    drop(state);
                    return self.error(Code::SelfReference, span, "this value needs itself");
                }
                LazyState::Waiting => *state = LazyState::Busy,
            }
        }
        let value = match &lazy.kind {
            LazyKind::Let(e) => self.eval(e, env),
            LazyKind::Param { decl, init, path, span } => self.param_value(decl, init, path, *span, env),
            LazyKind::Carry { carry, path } => self.planner_carry(carry, path, env),
        };
        *lazy.state.borrow_mut() = LazyState::Done(value.clone());
        value
    }

    fn list(&mut self, items: &'a [ListItem], env: &Env<'a>) -> Value<'a> {
        let mut values = Vec::new();
        for item in items {
            match item {
                ListItem::Value(e) => values.push(self.eval(e, env)),
                ListItem::Axis(name, e) => match self.local_axis(name, e, env) {
                    Some(axis) => values.push(Value::Dim(axis)),
                    None => return Value::Error,
                },
                ListItem::Rest(name) => match self.lookup(name, env) {
                    Value::Axes(axes) => values.push(Value::Axes(axes)),
                    Value::Error => return Value::Error,
                    other => {
                        return self.error(
                            Code::WrongKind,
                            name.span,
                            format!("`{}..` wants several axes, and this is {}", name.text, other.describe()),
                        );
                    }
                },
            }
        }
        if values.iter().any(Value::is_error) {
            return Value::Error;
        }
        Value::List(values.into())
    }

    // ---- fields

    pub(super) fn field(&mut self, value: &Value<'a>, field: &Ident, span: Span) -> Value<'a> {
        match value {
            Value::Record(r) => match r.fields.iter().find(|(n, _)| *n == field.text) {
                Some((_, v)) => v.clone(),
                None => {
                    let names: Vec<&str> = r.fields.iter().map(|(n, _)| n.as_str()).collect();
                    let d = Diagnostic::new(Code::UnknownField, field.span, format!("there is no field `{}`", field.text))
                        .suggest(&field.text, names.iter().copied())
                        .note(format!("the fields are {}", super::listed(&names)));
                    self.report(d);
                    Value::Error
                }
            },
            Value::Dist(d) => {
                let d = d.clone();
                if let Some(method) = d.def.methods.iter().find(|m| m.name.text == field.text) {
                    let callable = Callable::Method { env: d.env.clone(), method };
                    return if method.params.is_empty() {
                        self.call(&callable, Vec::new(), span)
                    } else {
                        Value::Callable(callable)
                    };
                }
                match d.env.get_here(&field.text) {
                    Some(Found::Value(v)) => v,
                    Some(Found::Lazy(lazy, scope)) => self.on_behalf(&d.def.name.text, span, |cx| cx.force(&lazy, &scope, span)),
                    None => {
                        let names: Vec<&str> = d.def.methods.iter().map(|m| m.name.text.as_str()).collect();
                        self.report(
                            Diagnostic::new(
                                Code::UnknownMethod,
                                field.span,
                                format!("`{}` has no `{}`", d.def.name.text, field.text),
                            )
                            .suggest(&field.text, names.iter().copied())
                            .note(format!("it has {}", super::listed(&names))),
                        );
                        Value::Error
                    }
                }
            }
            Value::Memory(m) => match field.text.as_str() {
                "out" => Value::tensor(m.out),
                _ => {
                    self.report(
                        Diagnostic::new(
                            Code::UnknownField,
                            field.span,
                            format!("a memory's value has no field `{}`", field.text),
                        )
                        .help("it has `.out`; its carry goes into the next call as it is"),
                    );
                    Value::Error
                }
            },
            Value::Instance(i) => self.instance_field(&i.clone(), field),
            Value::Ensemble(axis, _) => {
                let name = self.table.name(*axis).to_string();
                self.ensemble_error(&name, span);
                Value::Error
            }
            Value::Family(f) => {
                let value = self.read_plain(f, span);
                self.field(&value, field, span)
            }
            Value::Error => Value::Error,
            other => {
                let mut d = Diagnostic::new(
                    Code::UnknownField,
                    field.span,
                    format!("{} has no field `{}`", other.describe(), field.text),
                );
                if let Value::Latent(i) = other {
                    d = d.help(format!(
                        "`{}` is a latent's type; its value at a step is `{}[t]`",
                        self.latents[*i].name, self.latents[*i].name
                    ));
                }
                self.report(d);
                Value::Error
            }
        }
    }

    /// `z { q = .. }`: a value with some fields changed, or a latent with all of them given.
    fn update(&mut self, base: &'a Expr, fields: &'a [(Ident, Expr)], env: &Env<'a>, span: Span) -> Value<'a> {
        let value = match base.as_name() {
            // A latent's name constructs, even where equations of the same name are about.
            Some(name) if env.get(&name.text).is_none() => match self.latents.iter().position(|l| l.name == name.text) {
                Some(i) => Value::Latent(i),
                None => self.eval(base, env),
            },
            _ => self.eval(base, env),
        };
        let mut given: Vec<(&'a Ident, Value<'a>, Span)> = Vec::new();
        for (name, e) in fields {
            let v = self.eval(e, env);
            given.push((name, v, e.span));
        }
        let (latent, mut out): (Option<usize>, Vec<(String, Value<'a>)>) = match &value {
            Value::Record(r) => (r.latent, r.fields.clone()),
            Value::Latent(i) => (Some(*i), Vec::new()),
            Value::Error => return Value::Error,
            other => {
                return self.error(
                    Code::WrongKind,
                    base.span,
                    format!("only a record has fields to set, and this is {}", other.describe()),
                );
            }
        };
        for (name, v, at) in given {
            let known: Vec<String> = match latent {
                Some(i) => self.latents[i].fields.iter().map(|(n, _)| n.clone()).collect(),
                None => out.iter().map(|(n, _)| n.clone()).collect(),
            };
            if !known.contains(&name.text) {
                self.report(
                    Diagnostic::new(Code::UnknownField, name.span, format!("there is no field `{}`", name.text))
                        .suggest(&name.text, known.iter().map(String::as_str))
                        .note(format!("the fields are {}", super::listed(&known))),
                );
                continue;
            }
            if v.is_error() {
                return Value::Error;
            }
            let v = match latent {
                Some(i) => {
                    let axes =
                        self.latents[i].fields.iter().find(|(n, _)| *n == name.text).map(|(_, a)| a.clone()).unwrap_or_default();
                    let Some(t) = self.as_tensor(&v, at) else { return Value::Error };
                    if !self.same_axes(self.table.axes_of(t), &axes) && !matches!(v, Value::Num(_) | Value::Zeros) {
                        if self.is_doubtful(t) {
                            return Value::Error;
                        }
                        let (have, want) = (self.table.having(self.table.axes_of(t)), self.table.having(&axes));
                        self.report(
                            Diagnostic::new(Code::AxesMismatch, at, format!("the field `{}` has {want}", name.text))
                                .here(format!("this has {have}")),
                        );
                        return Value::Error;
                    }
                    Value::tensor(self.table.broadcast(t, &axes, span))
                }
                None => v,
            };
            match out.iter_mut().find(|(n, _)| *n == name.text) {
                Some((_, old)) => *old = v,
                None => out.push((name.text.clone(), v)),
            }
        }
        if let Some(i) = latent {
            let order: Vec<String> = self.latents[i].fields.iter().map(|(n, _)| n.clone()).collect();
            let missing: Vec<&String> = order.iter().filter(|n| !out.iter().any(|(m, _)| m == *n)).collect();
            if !missing.is_empty() {
                let d =
                    Diagnostic::new(Code::WrongArguments, span, format!("`{}` needs all of its fields", self.latents[i].name))
                        .help(format!("give {} too", super::listed(missing)));
                self.report(d);
                return Value::Error;
            }
            out.sort_by_key(|(n, _)| order.iter().position(|o| o == n));
        }
        self.held(Value::Record(Rc::new(Record { latent, fields: out })), span)
    }

    // ---- operators

    fn unary(&mut self, op: Un, v: &Value<'a>, span: Span) -> Value<'a> {
        match (op, v) {
            (_, Value::Error) => Value::Error,
            (Un::Neg, Value::Num(n)) => Value::Num(-n),
            (Un::Neg, Value::Size(s)) => Value::Size(Size::known(0).sub(s)),
            (Un::Neg, Value::Dim(a)) => Value::Size(Size::known(0).sub(self.table.size(*a))),
            (Un::Neg, Value::Index(i)) => {
                Value::Index(Index { terms: i.terms.iter().map(|(v, c)| (*v, -c)).collect(), offset: -i.offset })
            }
            (Un::Not, Value::Bool(b)) => Value::Bool(!b),
            (Un::Neg, Value::Zeros) => Value::Zeros,
            (Un::Not, v) => match self.as_condition(v, span) {
                Some(e) => Value::tensor(self.table.unary(UnaryOp::Not, e, span)),
                None => Value::Error,
            },
            (Un::Neg, v) => {
                let op = UnaryOp::Neg;
                self.map(v, span, &mut |cx, e| Some(cx.table.unary(op, e, span)))
            }
        }
    }

    fn binary(&mut self, op: Bin, (a, l): (&Value<'a>, &'a Expr), (b, r): (&Value<'a>, &'a Expr), span: Span) -> Value<'a> {
        if op == Bin::Dot {
            return self.dot((a, l.span), (b, r.span), span);
        }
        if let Some(value) = self.fold_static(op, a, b) {
            return value;
        }
        if let Bin::And | Bin::Or = op
            && (self.as_condition(a, l.span).is_none() || self.as_condition(b, r.span).is_none())
        {
            return Value::Error;
        }
        // Records meet records field by field, and numbers meet every field.
        if let (Value::Record(_), _) | (_, Value::Record(_)) = (a, b) {
            return self.binary_record(op, (a, l), (b, r), span);
        }
        let (Some(x), Some(y)) = (self.as_tensor(a, l.span), self.as_tensor(b, r.span)) else { return Value::Error };
        match self.table.binary(hir_op(op), x, y, span) {
            Some(e) => Value::tensor(e),
            None => self.misaligned((x, l), (y, r)),
        }
    }

    fn binary_record(
        &mut self,
        op: Bin,
        (a, l): (&Value<'a>, &'a Expr),
        (b, r): (&Value<'a>, &'a Expr),
        span: Span,
    ) -> Value<'a> {
        match (a, b) {
            (Value::Record(x), Value::Record(y)) => {
                let same = x.fields.len() == y.fields.len() && x.fields.iter().zip(&y.fields).all(|((m, _), (n, _))| m == n);
                if !same {
                    let show = |r: &Record<'a>| super::listed(r.fields.iter().map(|(n, _)| n.as_str()));
                    let (one, other) = (show(x), show(y));
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, span, "these records have different fields")
                            .label(l.span, format!("fields {one}"))
                            .label(r.span, format!("fields {other}")),
                    );
                    return Value::Error;
                }
                let (x, y) = (x.clone(), y.clone());
                let mut fields = Vec::new();
                for ((name, p), (_, q)) in x.fields.iter().zip(&y.fields) {
                    let v = self.binary(op, (p, l), (q, r), span);
                    if v.is_error() {
                        return Value::Error;
                    }
                    fields.push((name.clone(), v));
                }
                Value::Record(Rc::new(Record { latent: x.latent.or(y.latent), fields }))
            }
            (Value::Record(x), other) => {
                let x = x.clone();
                let mut fields = Vec::new();
                for (name, p) in &x.fields {
                    fields.push((name.clone(), self.binary(op, (p, l), (other, r), span)));
                }
                if fields.iter().any(|(_, v)| v.is_error()) {
                    Value::Error
                } else {
                    Value::Record(Rc::new(Record { latent: x.latent, fields }))
                }
            }
            (other, Value::Record(y)) => {
                let y = y.clone();
                let mut fields = Vec::new();
                for (name, q) in &y.fields {
                    fields.push((name.clone(), self.binary(op, (other, l), (q, r), span)));
                }
                if fields.iter().any(|(_, v)| v.is_error()) {
                    Value::Error
                } else {
                    Value::Record(Rc::new(Record { latent: y.latent, fields }))
                }
            }
            _ => Value::Error,
        }
    }

    fn misaligned(&mut self, (x, l): (ExprId, &'a Expr), (y, r): (ExprId, &'a Expr)) -> Value<'a> {
        let (a, b) = (self.table.axes_of(x).to_vec(), self.table.axes_of(y).to_vec());
        let hint = self.grad_hint(l, r, &b).or_else(|| self.grad_hint(r, l, &a));
        if self.is_doubtful(x) || self.is_doubtful(y) {
            // A gradient by the wrong field: that its axes do not fit is what shows it best.
            let inside = |d: &Diagnostic| {
                let s = d.primary.span;
                d.code == Code::GradIndependent
                    && [l.span, r.span].iter().any(|e| e.file == s.file && e.lo <= s.lo && s.hi <= e.hi)
            };
            if hint.is_none() || !self.diagnostics.iter().any(inside) {
                return Value::Error;
            }
            self.diagnostics.retain(|d| !inside(d));
        }
        let (one, other) = (self.table.having(&a), self.table.having(&b));
        let d = Diagnostic::new(Code::AxesMismatch, r.span, "axes do not line up")
            .here(format!("this has {other}"))
            .label(l.span, format!("this has {one}"));
        self.report(match hint {
            Some(hint) => d.help(hint),
            None if a.iter().any(|x| b.contains(x)) => {
                d.help("one side's axes must contain the other's; sum or rename the axis that is too many")
            }
            None => d.help("for every pair of entries, write `outer(a, b)`; to sum over a shared axis, `a @ b`"),
        });
        Value::Error
    }

    /// Whether a value comes from a gradient that has been found to mean nothing.
    pub(super) fn is_doubtful(&self, e: ExprId) -> bool {
        let mut open = vec![e];
        let mut seen = HashSet::new();
        while let Some(e) = open.pop() {
            if self.doubtful.contains(&e) {
                return true;
            }
            if !self.doubtful.is_empty() && seen.insert(e) {
                self.table.op(e).operands(|x| open.push(x));
            }
        }
        false
    }

    /// `f.dq + grad(E, z.c)`: another field of the latent has the axes that are wanted. Of a conjugate pair it is the
    /// one that the other side does not speak of: q moves along dE/dp.
    fn grad_hint(&self, e: &'a Expr, other: &'a Expr, axes: &[AxisId]) -> Option<String> {
        let mut spoken: Vec<&str> = Vec::new();
        walk(other, &mut |e| {
            if let ExprKind::Field(_, field) = &e.kind {
                spoken.push(&field.text);
            }
        });
        let mut found = None;
        walk(e, &mut |e| {
            if let ExprKind::Call(callee, args) = &e.kind
                && callee.as_name().is_some_and(|n| n.text == "grad")
                && let [ast::Arg { kind: ast::ArgKind::Value(of), .. }, ast::Arg { kind: ast::ArgKind::Value(by), .. }] =
                    args.as_slice()
                && let ExprKind::Field(base, field) = &by.kind
                && let (Some(of), Some(base)) = (written(of), written(base))
                && let Some(latent) = self.latents.iter().find(|l| l.fields.iter().any(|(n, _)| *n == field.text))
            {
                let fits = latent.fields.iter().filter(|(n, a)| *n != field.text && self.same_axes(a, axes));
                let fits: Vec<&str> = fits.map(|(n, _)| n.as_str()).collect();
                let moves = |n: &&&str| spoken.iter().any(|s| *s == **n || s.strip_prefix('d') == Some(**n));
                found = match (fits.as_slice(), fits.iter().find(moves)) {
                    ([a, b], Some(moved)) => {
                        let along = if moved == a { b } else { a };
                        Some(format!("{moved} moves along d{of}/d{along}: did you mean `grad({of}, {base}.{along})`?"))
                    }
                    ([one], _) => Some(format!("did you mean `grad({of}, {base}.{one})`?")),
                    ([_, ..], _) => {
                        let names: Vec<String> = fits.iter().map(|n| format!("{base}.{n}")).collect();
                        Some(format!("did you mean the gradient by one of {}?", super::listed(names)))
                    }
                    ([], _) => None,
                };
            }
        });
        found
    }

    fn dot(&mut self, (a, l): (&Value<'a>, Span), (b, r): (&Value<'a>, Span), span: Span) -> Value<'a> {
        let (Some(x), Some(y)) = (self.as_tensor(a, l), self.as_tensor(b, r)) else { return Value::Error };
        let over: Vec<AxisId> = self.table.axes_of(x).iter().copied().filter(|ax| self.table.axes_of(y).contains(ax)).collect();
        if over.is_empty() {
            let (one, other) = (self.table.having(self.table.axes_of(x)), self.table.having(self.table.axes_of(y)));
            self.report(
                Diagnostic::new(Code::NothingShared, span, "`@` sums over shared axes, and these share none")
                    .label(l, format!("this has {one}"))
                    .label(r, format!("this has {other}"))
                    .help("for every pair of entries, write `outer(a, b)`"),
            );
            return Value::Error;
        }
        Value::tensor(self.table.dot(x, y, over, span))
    }

    /// Operators on values known when compiling.
    fn fold_static(&mut self, op: Bin, a: &Value<'a>, b: &Value<'a>) -> Option<Value<'a>> {
        // Equality of functions and texts.
        if let Bin::Eq | Bin::Ne = op {
            let same = match (a, b) {
                (Value::Callable(x), Value::Callable(y)) => Some(x.same(y)),
                (Value::Text(x), Value::Text(y)) => Some(x == y),
                (Value::Bool(x), Value::Bool(y)) => Some(x == y),
                (Value::Callable(_) | Value::Text(_), _) | (_, Value::Callable(_) | Value::Text(_)) => Some(false),
                _ => None,
            };
            if let Some(same) = same {
                return Some(Value::Bool(same == (op == Bin::Eq)));
            }
        }
        if let (Bin::And | Bin::Or, Value::Bool(x), Value::Bool(y)) = (op, a, b) {
            return Some(Value::Bool(if op == Bin::And { *x && *y } else { *x || *y }));
        }
        // Indices stay linear under sums and whole factors.
        if let (Value::Index(_), _) | (_, Value::Index(_)) = (a, b) {
            return self.fold_index(op, a, b);
        }
        let size = |cx: &Self, v: &Value<'a>| match v {
            Value::Size(s) => Some(s.clone()),
            Value::Dim(axis) => Some(cx.table.size(*axis).clone()),
            Value::Num(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(Size::known(*n as i64)),
            _ => None,
        };
        let number = |cx: &Self, v: &Value<'a>| match v {
            Value::Num(n) => Some(*n),
            other => size(cx, other).and_then(|s| s.value()).map(|n| n as f64),
        };
        if let (Some(x), Some(y)) = (number(self, a), number(self, b)) {
            return Some(match op {
                Bin::Add => Value::Num(x + y),
                Bin::Sub => Value::Num(x - y),
                Bin::Mul => Value::Num(x * y),
                Bin::Div => Value::Num(x / y),
                Bin::Pow => Value::Num(x.powf(y)),
                Bin::Lt => Value::Bool(x < y),
                Bin::Le => Value::Bool(x <= y),
                Bin::Gt => Value::Bool(x > y),
                Bin::Ge => Value::Bool(x >= y),
                Bin::Eq => Value::Bool(x == y),
                Bin::Ne => Value::Bool(x != y),
                Bin::And | Bin::Or | Bin::Dot => return None,
            });
        }
        let (x, y) = (size(self, a)?, size(self, b)?);
        Some(match op {
            Bin::Add => Value::Size(x.add(&y)),
            Bin::Sub => Value::Size(x.sub(&y)),
            Bin::Mul => Value::Size(x.mul(&y)),
            Bin::Div => Value::Size(y.value().and_then(|n| x.div(n))?),
            Bin::Eq if x == y => Value::Bool(true),
            Bin::Le | Bin::Ge if x == y => Value::Bool(true),
            _ => return None,
        })
    }

    fn fold_index(&mut self, op: Bin, a: &Value<'a>, b: &Value<'a>) -> Option<Value<'a>> {
        let whole = |cx: &Self, v: &Value<'a>| match v {
            Value::Num(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(*n as i64),
            Value::Dim(axis) => cx.table.size(*axis).value(),
            Value::Size(s) => s.value(),
            _ => None,
        };
        let index = |cx: &Self, v: &Value<'a>| match v {
            Value::Index(i) => Some(i.clone()),
            other => whole(cx, other).map(|offset| Index { terms: Vec::new(), offset }),
        };
        let combine = |x: &Index, y: &Index, sign: i64| {
            let mut terms: Vec<(VarId, i64)> = x.terms.clone();
            for (v, c) in &y.terms {
                match terms.iter_mut().find(|(w, _)| w == v) {
                    Some((_, d)) => *d += sign * c,
                    None => terms.push((*v, sign * c)),
                }
            }
            terms.retain(|(_, c)| *c != 0);
            terms.sort_unstable();
            Index { terms, offset: x.offset.saturating_add(y.offset.saturating_mul(sign)) }
        };
        let (x, y) = (index(self, a), index(self, b));
        match (op, x, y) {
            (Bin::Add, Some(x), Some(y)) => Some(Value::Index(combine(&x, &y, 1))),
            (Bin::Sub, Some(x), Some(y)) => Some(Value::Index(combine(&x, &y, -1))),
            (Bin::Mul, Some(x), Some(y)) => {
                let (index, factor) = match (x.constant(), y.constant()) {
                    (_, Some(n)) => (x, n),
                    (Some(n), _) => (y, n),
                    _ => return None,
                };
                let terms = if factor == 0 {
                    Vec::new()
                } else {
                    index.terms.iter().map(|(v, c)| (*v, c.saturating_mul(factor))).collect()
                };
                Some(Value::Index(Index { terms, offset: index.offset.saturating_mul(factor) }))
            }
            _ => None,
        }
    }

    // ---- folds

    fn fold(&mut self, op: &'a Ident, var: &'a Ident, over: &'a Expr, body: &'a Expr, env: &Env<'a>, span: Span) -> Value<'a> {
        let reduce = match op.text.as_str() {
            "sum" => Some(ReduceOp::Sum),
            "mean" => Some(ReduceOp::Mean),
            "min" => Some(ReduceOp::Min),
            "max" => Some(ReduceOp::Max),
            "prod" => Some(ReduceOp::Prod),
            "each" => None,
            _ => {
                self.report(
                    Diagnostic::new(Code::UnknownFold, op.span, format!("`{}` does not fold", op.text))
                        .suggest(&op.text, ["sum", "mean", "min", "max", "prod", "each"])
                        .note("the folds are `sum`, `mean`, `min`, `max`, `prod`, and `each`, which collects"),
                );
                return Value::Error;
            }
        };
        let domain = self.eval(over, env);
        let (range, axis) = match &domain {
            Value::Error => return Value::Error,
            Value::Range { .. } => match self.whole_range(&domain, over.span) {
                Some(range) => (range, None),
                None => return Value::Error,
            },
            Value::Dim(axis) => match self.as_int(&domain, over.span) {
                Some(n) => ((0, n), Some(*axis)),
                None => return Value::Error,
            },
            Value::List(items) => return self.fold_list(op, reduce, var, &items.clone(), body, env, span),
            Value::Tensor(t) => {
                let places = t.expr;
                return self.fold_places(reduce, op, var, places, over.span, body, env, span);
            }
            other => {
                let d = Diagnostic::new(
                    Code::WrongKind,
                    over.span,
                    format!("a fold runs over a range, an axis or drawn places, and this is {}", other.describe()),
                );
                self.report(d);
                return Value::Error;
            }
        };
        if range.1 < range.0 || (range.1 == range.0 && reduce != Some(ReduceOp::Sum) && reduce.is_some()) {
            self.report(
                Diagnostic::new(Code::EmptyDomain, over.span, "this range is empty").help("a fold needs at least one entry"),
            );
            return Value::Error;
        }
        let id = self.new_var(&var.text, var.span, Some(range));
        let inner = env.child();
        inner.set(&*var.text, Value::Index(Self::index_of(id)));
        self.site.active.push(id);
        let value = self.eval(body, &inner);
        self.site.active.pop();
        match reduce {
            None => match axis {
                Some(axis) => self.map(&value, span, &mut |cx, e| {
                    if cx.table.axes_of(e).contains(&axis) {
                        cx.repeated(axis, span);
                        return None;
                    }
                    Some(cx.table.each(id, axis, e, span))
                }),
                None => {
                    self.report(
                        Diagnostic::new(Code::WrongKind, over.span, "`each` collects along an axis, and this is a range")
                            .help("name the axis: `each k in K { .. }` with `dim K = ..`"),
                    );
                    Value::Error
                }
            },
            Some(reduce) => self.fold_value(reduce, id, &value, span),
        }
    }

    fn repeated(&mut self, axis: AxisId, span: Span) {
        let name = self.table.name(axis).to_string();
        self.report(
            Diagnostic::new(Code::RepeatedAxis, span, format!("the value has the axis `{name}` already"))
                .help(format!("rename it first: `rename(x, {name} -> {name}2)`")),
        );
    }

    fn fold_value(&mut self, op: ReduceOp, var: VarId, value: &Value<'a>, span: Span) -> Value<'a> {
        self.map(value, span, &mut |cx, e| {
            let axes = cx.table.axes_of(e).to_vec();
            Some(cx.table.push(Op::Fold { op, vars: vec![var], batch: false, body: e }, axes, Dtype::Real, span))
        })
    }

    /// `min e in pick { .. }`: e is an entry of `pick`.
    #[allow(clippy::too_many_arguments)]
    fn fold_places(
        &mut self,
        reduce: Option<ReduceOp>,
        op: &Ident,
        var: &'a Ident,
        places: ExprId,
        at: Span,
        body: &'a Expr,
        env: &Env<'a>,
        span: Span,
    ) -> Value<'a> {
        let (Some(reduce), &[axis]) = (reduce, self.table.axes_of(places)) else {
            return self.error(Code::WrongKind, at, format!("`{}` over drawn places needs a list of them", op.text));
        };
        let Some(n) = self.table.size(axis).value() else {
            let size = self.table.size(axis).clone();
            self.unbound(&size, at);
            return Value::Error;
        };
        let id = self.new_var(&var.text, var.span, Some((0, n)));
        let place = self.table.at(places, axis, Index { terms: vec![(id, 1)], offset: 0 }, at);
        let inner = env.child();
        inner.set(&*var.text, Value::tensor(place));
        self.site.active.push(id);
        let value = self.eval(body, &inner);
        self.site.active.pop();
        self.fold_value(reduce, id, &value, span)
    }

    /// A fold over a list is written out.
    #[allow(clippy::too_many_arguments)]
    fn fold_list(
        &mut self,
        op: &Ident,
        reduce: Option<ReduceOp>,
        var: &'a Ident,
        items: &Rc<[Value<'a>]>,
        body: &'a Expr,
        env: &Env<'a>,
        span: Span,
    ) -> Value<'a> {
        let mut parts = Vec::new();
        for item in items.iter() {
            let inner = env.child();
            inner.set(&*var.text, item.clone());
            let value = self.eval(body, &inner);
            match self.as_tensor(&value, body.span) {
                Some(e) => parts.push(e),
                None => return Value::Error,
            }
        }
        let Some(first) = parts.first().copied() else {
            return self.error(Code::EmptyDomain, span, "this list is empty");
        };
        let (combine, divide) = match reduce {
            Some(ReduceOp::Sum) => (BinaryOp::Add, false),
            Some(ReduceOp::Mean) => (BinaryOp::Add, true),
            Some(ReduceOp::Min) => (BinaryOp::Min, false),
            Some(ReduceOp::Max) => (BinaryOp::Max, false),
            Some(ReduceOp::Prod) => (BinaryOp::Mul, false),
            _ => return self.error(Code::WrongKind, op.span, "`each` collects along an axis, and this is a list"),
        };
        let count = parts.len();
        let mut all = first;
        for part in parts.into_iter().skip(1) {
            match self.table.binary(combine, all, part, span) {
                Some(e) => all = e,
                None => return self.error(Code::AxesMismatch, span, "the parts of this fold have different axes"),
            }
        }
        if divide {
            let n = self.table.constant(count as f64, span);
            all = self.table.binary(BinaryOp::Div, all, n, span).unwrap_or(all);
        }
        Value::tensor(all)
    }

    // ---- subscripts

    fn subscript(&mut self, base: &'a Expr, indices: &'a [Expr], env: &Env<'a>, span: Span) -> Value<'a> {
        // A name stays a family until its subscripts are on; anything else is a value.
        let value = match base.as_name() {
            Some(name) => self.lookup(name, env),
            None => match &base.kind {
                ExprKind::Field(inner, field) => self.unread_field(inner, field, env, base.span),
                _ => self.eval(base, env),
            },
        };
        match value {
            Value::Error => Value::Error,
            Value::Word("guess") => self.no_guess(span),
            Value::Family(f) => {
                let Some(given) = self.indices(indices, env) else { return Value::Error };
                self.read(&f, given, span)
            }
            Value::Instance(i) => {
                let Some(given) = self.indices(indices, env) else { return Value::Error };
                self.instance_at(&i, given, span)
            }
            Value::List(items) => {
                let [index] = indices else { return self.error(Code::WrongIndexCount, span, "a list has one subscript") };
                let at = self.eval(index, env);
                let Some(n) = self.as_int(&at, index.span) else { return Value::Error };
                match usize::try_from(n).ok().and_then(|n| items.get(n)) {
                    Some(v) => v.clone(),
                    None => {
                        let message = format!("there is no entry {n} in a list of {}", items.len());
                        self.report(Diagnostic::new(Code::OutOfDomain, index.span, message).help("entries are counted from 0"));
                        Value::Error
                    }
                }
            }
            other => {
                let mut value = other;
                for index in indices {
                    let at = self.eval(index, env);
                    value = self.select_at(&value, &at, index.span, span);
                }
                value
            }
        }
    }

    /// `found.u[k]`: the field of a rollout is a family, and must not be read before its subscript is on.
    fn unread_field(&mut self, inner: &'a Expr, field: &'a Ident, env: &Env<'a>, span: Span) -> Value<'a> {
        if let Some(name) = inner.as_name()
            && matches!(self.lookup(name, env), Value::Word(_))
        {
            return self.field_word(name, field, span);
        }
        let value = self.eval(inner, env);
        self.field(&value, field, span)
    }

    fn field_word(&mut self, word: &Ident, field: &Ident, span: Span) -> Value<'a> {
        if word.text == "slow" { self.slow(field) } else { self.memory_named(Some(field), span) }
    }

    /// Subscripts of a family.
    pub(super) fn indices(&mut self, indices: &'a [Expr], env: &Env<'a>) -> Option<Vec<Index>> {
        let mut all = Vec::new();
        for e in indices {
            let mut letters = Vec::new();
            walk(e, &mut |e| {
                if let ExprKind::Name(n) = &e.kind
                    && n.text.len() == 1
                    && n.text.chars().all(char::is_lowercase)
                {
                    letters.push(n);
                }
            });
            letters.retain(|n| self.means_nothing(n, env));
            if let Some(n) = letters.first() {
                self.unknown_index(n, env);
                return None;
            }
            let value = self.eval(e, env);
            all.push(self.as_index(&value, e.span)?);
        }
        Some(all)
    }

    /// Declares the index variables of a loss or metric: names in subscripts of data and equations that nothing else
    /// claims, the variables of folds least of all.
    pub(super) fn free_indices(&mut self, e: &'a Expr, env: &Env<'a>) {
        let mut names = Vec::new();
        subscripted(e, &mut Vec::new(), &mut names);
        for (family, name) in names {
            if env.get(&family.text).is_none() && self.family_named(&family.text).is_some() && !self.is_known(name, env) {
                let id = self.new_var(&name.text, name.span, None);
                self.site.vars.push((name.text.clone(), id));
                self.site.active.push(id);
            }
        }
    }

    /// Whether a name means something here, other than a fresh index.
    pub(super) fn is_known(&mut self, name: &Ident, env: &Env<'a>) -> bool {
        let text = name.text.as_str();
        env.get(text).is_some() || self.site.vars.iter().any(|(n, _)| n == text) || (env.sees_model() && self.is_static(text))
    }

    /// Whether a name is a number of the model: a dim or a const.
    pub(super) fn is_static(&mut self, text: &str) -> bool {
        self.model_axis(text).is_some() || self.members.consts.iter().any(|b| b.name.text == text)
    }

    /// An entry of a value along its first axis (an ensemble's members, a sorted list).
    pub(super) fn select_at(&mut self, value: &Value<'a>, at: &Value<'a>, at_span: Span, span: Span) -> Value<'a> {
        if at.is_error() {
            return Value::Error;
        }
        let inner = match value {
            Value::Ensemble(_, inner) => (**inner).clone(),
            other => other.clone(),
        };
        if let Value::Record(r) = &inner
            && !matches!(value, Value::Ensemble(..))
            && r.fields.len() != 1
        {
            return self.error(Code::WrongKind, span, "a record has fields, and no subscripts");
        }
        self.map(&inner, span, &mut |cx, e| {
            let Some(axis) = cx.table.axes_of(e).first().copied() else {
                cx.report(
                    Diagnostic::new(Code::WrongIndexCount, span, "this has no axis to take an entry of")
                        .help("subscripts of time come right after the name: `x[t].q`"),
                );
                return None;
            };
            match at {
                Value::Tensor(t) => match cx.table.take(e, axis, t.expr, span) {
                    Some(e) => Some(e),
                    None => {
                        cx.error(Code::RepeatedAxis, at_span, "the places share an axis with the value");
                        None
                    }
                },
                other => {
                    let index = cx.as_index(other, at_span)?;
                    if let (Some(n), Some(size)) = (index.constant(), cx.table.size(axis).value())
                        && (n < 0 || n >= size)
                    {
                        let shown = cx.table.show_axis(axis);
                        cx.report(
                            Diagnostic::new(Code::OutOfDomain, at_span, format!("there is no entry {n} along [{shown}]"))
                                .help("entries are counted from 0"),
                        );
                        return None;
                    }
                    Some(cx.table.at(e, axis, index, span))
                }
            }
        })
    }
}

fn hir_op(op: Bin) -> BinaryOp {
    match op {
        Bin::Or => BinaryOp::Or,
        Bin::And => BinaryOp::And,
        Bin::Lt => BinaryOp::Lt,
        Bin::Le => BinaryOp::Le,
        Bin::Gt => BinaryOp::Gt,
        Bin::Ge => BinaryOp::Ge,
        Bin::Eq => BinaryOp::Eq,
        Bin::Ne => BinaryOp::Ne,
        Bin::Add => BinaryOp::Add,
        Bin::Sub => BinaryOp::Sub,
        Bin::Mul => BinaryOp::Mul,
        Bin::Div => BinaryOp::Div,
        Bin::Pow => BinaryOp::Pow,
        Bin::Dot => unreachable!("a product over axes is not elementwise"),
    }
}

/// A short expression as it was written: `z.q`, `x[t]`.
pub(super) fn written(e: &Expr) -> Option<String> {
    match &e.kind {
        ExprKind::Name(n) => Some(n.text.clone()),
        ExprKind::Number(n) => Some(n.to_string()),
        ExprKind::Field(base, field) => Some(format!("{}.{}", written(base)?, field.text)),
        ExprKind::Index(base, indices) => {
            let indices: Option<Vec<String>> = indices.iter().map(written).collect();
            Some(format!("{}[{}]", written(base)?, indices?.join(", ")))
        }
        ExprKind::Binary(op @ (Bin::Add | Bin::Sub), l, r) => {
            Some(format!("{}{}{}", written(l)?, if *op == Bin::Add { '+' } else { '-' }, written(r)?))
        }
        ExprKind::Call(callee, args) => {
            let args: Option<Vec<String>> =
                args.iter().map(|a| if let ast::ArgKind::Value(e) = &a.kind { written(e) } else { None }).collect();
            Some(format!("{}({})", written(callee)?, args?.join(", "))).filter(|text| text.len() <= 40)
        }
        _ => None,
    }
}

/// Calls `f` with an expression and every expression in it.
pub(super) fn walk<'a>(e: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    f(e);
    children(e, &mut |e| walk(e, f));
}

/// Calls `f` with the expressions right inside one.
fn children<'a>(e: &'a Expr, f: &mut dyn FnMut(&'a Expr)) {
    match &e.kind {
        ExprKind::Number(_)
        | ExprKind::Percent(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Next(_)
        | ExprKind::Error => {}
        ExprKind::List(items) => {
            for item in items {
                if let ListItem::Value(e) | ListItem::Axis(_, e) = item {
                    f(e);
                }
            }
        }
        ExprKind::Record(fields) => fields.iter().for_each(|(_, e)| f(e)),
        ExprKind::Fold { over, body, .. } => {
            f(over);
            f(body);
        }
        ExprKind::If { cond, then, other } => {
            f(cond);
            f(then);
            f(other);
        }
        ExprKind::Rollout(equations) => equations.iter().for_each(|q| f(&q.value)),
        ExprKind::Index(e, indices) => {
            f(e);
            indices.iter().for_each(f);
        }
        ExprKind::Field(e, _) | ExprKind::Arrow(e, _) | ExprKind::Unary(_, e) => f(e),
        ExprKind::Call(e, args) => {
            f(e);
            for a in args {
                if let ast::ArgKind::Value(e) | ast::ArgKind::Named(_, e) = &a.kind {
                    f(e);
                }
            }
        }
        ExprKind::Update(e, fields) => {
            f(e);
            fields.iter().for_each(|(_, e)| f(e));
        }
        ExprKind::Binary(_, l, r) | ExprKind::Range { lo: l, hi: r, .. } => {
            f(l);
            f(r);
        }
    }
}

/// Names in subscripts, with the name they stand behind; those that a fold around them binds are left out.
fn subscripted<'a>(e: &'a Expr, bound: &mut Vec<&'a str>, out: &mut Vec<(&'a Ident, &'a Ident)>) {
    match &e.kind {
        ExprKind::Index(base, indices) => {
            if let Some(family) = base.as_name() {
                for index in indices {
                    walk(index, &mut |e| {
                        if let ExprKind::Name(n) = &e.kind
                            && !bound.contains(&n.text.as_str())
                        {
                            out.push((family, n));
                        }
                    });
                }
            }
            children(base, &mut |e| subscripted(e, bound, out));
        }
        ExprKind::Fold { var, over, body, .. } => {
            subscripted(over, bound, out);
            bound.push(&var.text);
            subscripted(body, bound, out);
            bound.pop();
        }
        _ => children(e, &mut |e| subscripted(e, bound, out)),
    }
}
