//! Fields of records, distributions and memories, and records with fields changed.

use super::Ctx;
use super::value::{Callable, Env, Found, Record, Value};
use crate::ast::{Expr, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;
use std::rc::Rc;

impl<'a> Ctx<'a> {
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
                let name = self.draft.table.name(*axis).to_string();
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
                        self.draft.latents[*i].name, self.draft.latents[*i].name
                    ));
                }
                if matches!(other, Value::Tensor(_)) && field.text == "T" {
                    d = d.help("axes have names, so nothing is transposed: `a @ b` sums over the axes that both have");
                }
                self.report(d);
                Value::Error
            }
        }
    }

    /// `z { q = .. }`: a value with some fields changed, or a latent with all of them given.
    pub(super) fn update(&mut self, base: &'a Expr, fields: &'a [(Ident, Expr)], env: &Env<'a>, span: Span) -> Value<'a> {
        let value = match base.as_name() {
            // A latent's name constructs, even where equations of the same name are about.
            Some(name) if env.get(&name.text).is_none() => match self.draft.latents.iter().position(|l| l.name == name.text) {
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
                Some(i) => self.draft.latents[i].fields.iter().map(|(n, _)| n.clone()).collect(),
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
                    let axes = self.draft.latents[i]
                        .fields
                        .iter()
                        .find(|(n, _)| *n == name.text)
                        .map(|(_, a)| a.clone())
                        .unwrap_or_default();
                    let Some(t) = self.as_tensor(&v, at) else { return Value::Error };
                    if !self.same_axes(self.draft.table.axes_of(t), &axes) && !matches!(v, Value::Num(_) | Value::Zeros) {
                        if self.is_doubtful(t) {
                            return Value::Error;
                        }
                        let (have, want) = (self.draft.table.having(self.draft.table.axes_of(t)), self.draft.table.having(&axes));
                        self.report(
                            Diagnostic::new(Code::AxesMismatch, at, format!("the field `{}` has {want}", name.text))
                                .here(format!("this has {have}")),
                        );
                        return Value::Error;
                    }
                    Value::tensor(self.draft.table.broadcast(t, &axes, span))
                }
                None => v,
            };
            match out.iter_mut().find(|(n, _)| *n == name.text) {
                Some((_, old)) => *old = v,
                None => out.push((name.text.clone(), v)),
            }
        }
        if let Some(i) = latent {
            let order: Vec<String> = self.draft.latents[i].fields.iter().map(|(n, _)| n.clone()).collect();
            let missing: Vec<&String> = order.iter().filter(|n| !out.iter().any(|(m, _)| m == *n)).collect();
            if !missing.is_empty() {
                let d = Diagnostic::new(
                    Code::WrongArguments,
                    span,
                    format!("`{}` needs all of its fields", self.draft.latents[i].name),
                )
                .help(format!("give {} too", super::listed(missing)));
                self.report(d);
                return Value::Error;
            }
            out.sort_by_key(|(n, _)| order.iter().position(|o| o == n));
        }
        self.held(Value::Record(Rc::new(Record { latent, fields: out })), span)
    }
}
