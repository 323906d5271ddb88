//! Expressions.

use super::Ctx;
use super::value::{Env, Lazy, LazyKind, LazyState, Value};
use crate::ast::{Expr, ExprKind, ListItem};
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;
use std::rc::Rc;

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
                if self.place.site.training && self.place.site.acts {
                    return self.by_phase(cond, then, other, env, e.span);
                }
                let c = self.eval(cond, env);
                self.choose(c, cond, then, other, env)
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
                let outer = self.place.expected.replace(axes.clone());
                let value = self.eval(inner, env);
                let unused = std::mem::replace(&mut self.place.expected, outer);
                if unused.is_some() && !value.is_error() {
                    // Not a block: the arrow only says what the axes are.
                    let Some(t) = self.as_tensor(&value, inner.span) else { return Value::Error };
                    if !self.same_axes(self.draft.table.axes_of(t), &axes) {
                        let (have, want) = (self.draft.table.having(self.draft.table.axes_of(t)), self.draft.table.having(&axes));
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

    pub(super) fn force(&mut self, lazy: &Rc<Lazy<'a>>, env: &Env<'a>, span: Span) -> Value<'a> {
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

    pub(super) fn list(&mut self, items: &'a [ListItem], env: &Env<'a>) -> Value<'a> {
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
}
