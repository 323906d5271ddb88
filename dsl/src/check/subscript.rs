//! Subscripts: steps of equations, and entries of everything else.

use super::Ctx;
use super::value::{Env, Value};
use crate::ast::{self, BinaryOp as Bin, Expr, ExprKind, Ident, ListItem};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::Index;
use crate::source::Span;

impl<'a> Ctx<'a> {
    pub(super) fn subscript(&mut self, base: &'a Expr, indices: &'a [Expr], env: &Env<'a>, span: Span) -> Value<'a> {
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
                let id = self.draft.new_var(&name.text, name.span, None);
                self.place.site.vars.push((name.text.clone(), id));
                self.place.site.active.push(id);
            }
        }
    }

    /// Whether a name means something here, other than a fresh index.
    pub(super) fn is_known(&mut self, name: &Ident, env: &Env<'a>) -> bool {
        let text = name.text.as_str();
        env.get(text).is_some()
            || self.place.site.vars.iter().any(|(n, _)| n == text)
            || (env.sees_model() && self.is_static(text))
    }

    /// Whether a name is a number of the model: a dim or a const.
    pub(super) fn is_static(&mut self, text: &str) -> bool {
        self.model_axis(text).is_some() || self.names.members.consts.iter().any(|b| b.name.text == text)
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
            let Some(axis) = cx.draft.table.axes_of(e).first().copied() else {
                cx.report(
                    Diagnostic::new(Code::WrongIndexCount, span, "this has no axis to take an entry of")
                        .help("subscripts of time come right after the name: `x[t].q`"),
                );
                return None;
            };
            match at {
                Value::Tensor(t) if !cx.holds_place(axis, t.expr, at_span) => None,
                Value::Tensor(t) => match cx.draft.table.take(e, axis, t.expr, span) {
                    Some(e) => Some(e),
                    None => {
                        cx.error(Code::RepeatedAxis, at_span, "the places share an axis with the value");
                        None
                    }
                },
                other => {
                    let index = cx.as_index(other, at_span)?;
                    if let (Some(n), Some(size)) = (index.constant(), cx.draft.table.size(axis).value())
                        && (n < 0 || n >= size)
                    {
                        let shown = cx.draft.table.show_axis(axis);
                        cx.report(
                            Diagnostic::new(Code::OutOfDomain, at_span, format!("there is no entry {n} along [{shown}]"))
                                .help("entries are counted from 0"),
                        );
                        return None;
                    }
                    Some(cx.draft.table.at(e, axis, index, span))
                }
            }
        })
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
pub(super) fn subscripted<'a>(e: &'a Expr, bound: &mut Vec<&'a str>, out: &mut Vec<(&'a Ident, &'a Ident)>) {
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
