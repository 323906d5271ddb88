//! `grad` and `partial`, `sg` and `frozen`.

use super::Ctx;
use super::builtins::Args;
use super::call::Arg;
use super::value::{Callable, Env, Mode, Value};
use crate::ast::{self, ArgKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::ExprId;
use crate::source::Span;
use std::rc::Rc;

impl<'a> Ctx<'a> {
    pub(super) fn stop_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x]) = self.take_args(args, ["x"]) else { return Value::Error };
        let span = args.span;
        match &x.value {
            Value::Num(_) | Value::Zeros | Value::Bool(_) | Value::Dim(_) | Value::Size(_) => x.value,
            Value::Ensemble(axis, inner) => {
                let inner = self.map(&inner.clone(), x.span, &mut |cx, e| Some(cx.draft.table.stop(e, span)));
                if inner.is_error() { Value::Error } else { Value::Ensemble(*axis, Rc::new(inner)) }
            }
            other => self.map(other, x.span, &mut |cx, e| Some(cx.draft.table.stop(e, span))),
        }
    }

    pub(super) fn frozen(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([f]) = self.take_args(args, ["f"]) else { return Value::Error };
        match f.value {
            Value::Callable(Callable::Net { module, mode: Mode::Fast }) => {
                Value::Callable(Callable::Net { module, mode: Mode::Frozen })
            }
            Value::Callable(c @ Callable::Net { .. }) => Value::Callable(c),
            other => {
                let d = Diagnostic::new(
                    Code::WrongKind,
                    f.span,
                    format!("`frozen` takes a net or a head, and this is {}", other.describe()),
                )
                .help("for a value, write `sg(..)`");
                self.report(d);
                Value::Error
            }
        }
    }

    pub(super) fn grad_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([of, wrt]) = self.take_args(args, ["of", "by"]) else { return Value::Error };
        self.grad(&of, &wrt, false, args.span)
    }

    /// `partial(f(x, y), x)`: the call again, on arguments under names of their own.
    pub(super) fn partial(&mut self, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
        let [ast::Arg { kind: ArgKind::Value(call), .. }, ast::Arg { kind: ArgKind::Value(by), .. }] = args else {
            return self.error(
                Code::WrongArguments,
                span,
                "`partial` takes a call and one of its arguments, as in `partial(f(x, y), x)`",
            );
        };
        let ast::ExprKind::Call(callee, inner) = &call.kind else {
            self.report(
                Diagnostic::new(
                    Code::GradTarget,
                    call.span,
                    "`partial` holds the other arguments of a call, and this is no call",
                )
                .help("write the call itself: `partial(energy(q, p), q)`"),
            );
            return Value::Error;
        };
        let function = self.eval(callee, env);
        let Value::Callable(callable) = function else {
            return if function.is_error() {
                Value::Error
            } else {
                self.error(Code::NotCallable, callee.span, format!("this is {}, not a function", function.describe()))
            };
        };
        let Some(given) = self.eval_args(inner, env) else { return Value::Error };
        let target = self.eval(by, env);
        let Some(targets) = self.leaves(&target, by.span) else { return Value::Error };
        // Every argument comes in under a new name; the one that is the target is differentiated by.
        let mut found: Option<Value<'a>> = None;
        let mut renamed = Vec::new();
        for arg in given {
            let Some(leaves) = self.leaves(&arg.value, arg.span) else { return Value::Error };
            let value = match &arg.value {
                Value::Memory(_) | Value::Num(_) => arg.value.clone(),
                other => self.map(other, arg.span, &mut |cx, e| Some(cx.draft.table.alias(e, span))),
            };
            if leaves == targets {
                if found.is_some() {
                    self.report(
                        Diagnostic::new(Code::GradTarget, by.span, "two arguments of the call are this value")
                            .help("take it in a function that has a parameter for each of them"),
                    );
                    return Value::Error;
                }
                found = Some(value.clone());
            } else if let (Value::Record(_), false) = (&value, targets.is_empty()) {
                // A field of a record argument: `partial(f(z, a), z.q)`.
                let new = self.leaves(&value, arg.span).unwrap_or_default();
                let picked: Vec<ExprId> =
                    targets.iter().filter_map(|t| leaves.iter().position(|l| l == t).and_then(|i| new.get(i).copied())).collect();
                if picked.len() == targets.len()
                    && let [one] = picked[..]
                {
                    found = Some(Value::tensor(one));
                }
            }
            renamed.push(Arg { name: arg.name, value, span: arg.span });
        }
        let Some(wrt) = found else {
            self.report(
                Diagnostic::new(Code::GradTarget, by.span, "this is not an argument of the call")
                    .label(call.span, "its arguments are here")
                    .help("differentiate by one of the arguments, as it is written in the call"),
            );
            return Value::Error;
        };
        let value = self.call(&callable, renamed, call.span);
        if value.is_error() {
            return Value::Error;
        }
        let of = Arg { name: None, value, span: call.span };
        let wrt = Arg { name: None, value: wrt, span: by.span };
        self.grad(&of, &wrt, true, span)
    }
}
