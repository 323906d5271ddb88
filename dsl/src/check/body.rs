//! Bodies: statements, loops that are written out.

use super::Ctx;
use super::value::{Env, LazyKind, Value};
use crate::ast::{Expr, Ident, Stmt, StmtKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// Runs statements; the value of the first `return`.
    pub(super) fn run(&mut self, body: &'a [Stmt], env: &Env<'a>, name: &Ident) -> Value<'a> {
        let targets = self.targets_of(body);
        let outer = std::mem::replace(&mut self.gradients.targets, targets);
        let flow = self.statements(body, env);
        self.gradients.targets = outer;
        match flow {
            Flow::Return(value) => value,
            Flow::Failed => Value::Error,
            Flow::Go => {
                self.report(
                    Diagnostic::new(Code::NoReturn, name.span, format!("`{}` returns nothing", name.text))
                        .help("end it with `return ..`"),
                );
                Value::Error
            }
        }
    }

    pub(super) fn statements(&mut self, body: &'a [Stmt], env: &Env<'a>) -> Flow<'a> {
        for stmt in body {
            if !self.spend(stmt.span) {
                return Flow::Failed;
            }
            match &stmt.kind {
                StmtKind::Let(name, e) => {
                    let held = self.place.held_by.replace(&name.text);
                    let value = self.eval(e, env);
                    self.place.held_by = held;
                    let value = self.own_constant(value, e.span);
                    let value = self.named(&name.text, value, e.span);
                    env.set(&*name.text, value);
                }
                StmtKind::Assign(name, e) => {
                    let held = self.place.held_by.take();
                    let value = self.eval(e, env);
                    self.place.held_by = held;
                    let value = self.named(&name.text, value, e.span);
                    if !env.assign(&name.text, value) {
                        let names = env.names();
                        self.report(
                            Diagnostic::new(Code::UnknownName, name.span, format!("there is no `{}` to change", name.text))
                                .suggest(&name.text, names.iter().map(String::as_str))
                                .help(format!("write `let {} = ..` for a new one", name.text)),
                        );
                        return Flow::Failed;
                    }
                }
                StmtKind::Next(name, e) => {
                    let held = self.place.held_by.replace(&name.text);
                    let value = self.eval(e, env);
                    self.place.held_by = held;
                    self.set_next(name, value, e.span, env);
                }
                StmtKind::Param(decl, init) => {
                    let path = match &self.place.instance {
                        Some(i) if i.path.is_empty() => decl.name.text.clone(),
                        Some(i) => format!("{}.{}", i.path, decl.name.text),
                        None => decl.name.text.clone(),
                    };
                    let kind = LazyKind::Param { decl, init, path, span: stmt.span };
                    env.set_lazy(&decl.name.text, kind);
                }
                StmtKind::Return(e) => {
                    let held = self.place.held_by.take();
                    let value = self.eval(e, env);
                    self.place.held_by = held;
                    return Flow::Return(value);
                }
                StmtKind::Stack { index, item, over, body } => match self.stack(index.as_ref(), item, over, body, env) {
                    Flow::Go => {}
                    other => return other,
                },
                StmtKind::Require(cond, message) => {
                    let value = self.eval(cond, env);
                    match value {
                        Value::Bool(true) => {}
                        Value::Bool(false) => {
                            self.report(Diagnostic::new(Code::RequireFailed, cond.span, message.clone()));
                            return Flow::Failed;
                        }
                        Value::Error => return Flow::Failed,
                        // Sizes that the task gives: decided when they are known.
                        Value::Tensor(t) if self.sizes_in(t.expr).is_some() => {}
                        Value::Tensor(t) if self.draft.table.known(t.expr).is_some() => {
                            if self.draft.table.known(t.expr) == Some(0.0) {
                                self.report(Diagnostic::new(Code::RequireFailed, cond.span, message.clone()));
                                return Flow::Failed;
                            }
                        }
                        // The prelude judges settings that are known; a schedule or a net's output may be handed in too.
                        Value::Tensor(_) if crate::prelude::holds(cond.span.file) => {}
                        other => {
                            self.report(Diagnostic::new(
                                Code::NotStatic,
                                cond.span,
                                format!("`require` wants something known when compiling, and this is {}", other.describe()),
                            ));
                            return Flow::Failed;
                        }
                    }
                }
            }
        }
        Flow::Go
    }

    /// An array of equal numbers under a name is told apart from all others, so that a gradient can be taken by it.
    fn own_constant(&mut self, value: Value<'a>, span: Span) -> Value<'a> {
        match &value {
            Value::Tensor(t) if t.attached.is_none() && self.draft.table.is_constant(t.expr) => {
                Value::tensor(self.draft.table.alias(t.expr, span))
            }
            _ => value,
        }
    }

    /// A loop that is written out.
    pub(super) fn stack(
        &mut self,
        index: Option<&'a Ident>,
        item: &'a Ident,
        over: &'a Expr,
        body: &'a [Stmt],
        env: &Env<'a>,
    ) -> Flow<'a> {
        let values: Vec<Value<'a>> = match self.eval(over, env) {
            value @ Value::Range { .. } => {
                let Some((lo, hi)) = self.whole_range(&value, over.span) else { return Flow::Failed };
                if hi - lo > 10_000 {
                    self.report(
                        Diagnostic::new(
                            Code::TooLarge,
                            over.span,
                            format!("this loop runs {} times, and each is written out", super::thousands(&(hi - lo).to_string())),
                        )
                        .help("loops over time are subscripts, not `stack`"),
                    );
                    return Flow::Failed;
                }
                (lo..hi).map(|n| Value::Num(n as f64)).collect()
            }
            Value::List(items) => items.to_vec(),
            Value::Error => return Flow::Failed,
            value @ (Value::Dim(_) | Value::Size(_) | Value::Num(_)) => {
                let shown = value.describe();
                self.report(
                    Diagnostic::new(
                        Code::WrongKind,
                        over.span,
                        format!("`stack` runs over a range or a list, and this is {shown}"),
                    )
                    .help("write `0..n`"),
                );
                return Flow::Failed;
            }
            other => {
                self.report(Diagnostic::new(
                    Code::WrongKind,
                    over.span,
                    format!("`stack` runs over a range or a list, and this is {}", other.describe()),
                ));
                return Flow::Failed;
            }
        };
        let path = self.place.instance.as_ref().map(|i| i.path.clone());
        for (n, value) in values.into_iter().enumerate() {
            let inner = env.child();
            if let Some(index) = index {
                inner.set(&*index.text, Value::Num(n as f64));
            }
            inner.set(&*item.text, value);
            if let (Some(i), Some(path)) = (&mut self.place.instance, &path) {
                i.path = format!("{path}.{n}");
            }
            let flow = self.statements(body, &inner);
            if !matches!(flow, Flow::Go) {
                return flow;
            }
        }
        if let (Some(i), Some(path)) = (&mut self.place.instance, path) {
            i.path = path;
        }
        Flow::Go
    }
}

/// How a run of statements ended.
pub(super) enum Flow<'a> {
    Go,
    Return(Value<'a>),
    Failed,
}
