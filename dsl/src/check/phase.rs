//! Compile-time `if`, and `if (training) { .. } else { .. }`, which the entry point decides.
//!
//! Updates and acting share a model's equations. Where a condition in one of them depends on `training`, both branches are
//! elaborated, and lowering keeps the one that its entry point needs.

use super::Ctx;
use super::builtins::Builtin;
use super::call::Arg;
use super::value::{Callable, Env, Value};
use crate::ast::{Expr, ExprKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{Dtype, Op};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// `if` in an equation that updates and acting share.
    pub(super) fn by_phase(&mut self, cond: &'a Expr, then: &'a Expr, other: &'a Expr, env: &Env<'a>, span: Span) -> Value<'a> {
        let training = self.in_phase(true, |cx| cx.eval(cond, env));
        let acting = self.in_phase(false, |cx| cx.eval(cond, env));
        match (&training, &acting) {
            (Value::Bool(a), Value::Bool(b)) if a != b => {
                let (mut x, mut y) = (then, other);
                if !a {
                    std::mem::swap(&mut x, &mut y);
                }
                let (x, y) = (self.in_phase(true, |cx| cx.eval(x, env)), self.in_phase(false, |cx| cx.eval(y, env)));
                if x.is_error() || y.is_error() {
                    return Value::Error;
                }
                let phase = Value::tensor(self.draft.table.push(Op::Training, Vec::new(), Dtype::Bool, span));
                let args = [(phase, cond.span), (x, then.span), (y, other.span)];
                let args = args.into_iter().map(|(value, span)| Arg { name: None, value, span }).collect();
                self.call(&Callable::Builtin(Builtin::Select), args, span)
            }
            _ => self.choose(training, cond, then, other, env),
        }
    }

    /// Runs `f` where `training` is known.
    fn in_phase<T>(&mut self, training: bool, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = (self.place.site.training, self.place.site.acts);
        (self.place.site.training, self.place.site.acts) = (training, false);
        let value = f(self);
        (self.place.site.training, self.place.site.acts) = outer;
        value
    }

    /// The branch of an `if` whose condition is known.
    pub(super) fn choose(&mut self, c: Value<'a>, cond: &'a Expr, then: &'a Expr, other: &'a Expr, env: &Env<'a>) -> Value<'a> {
        match c {
            Value::Bool(true) => self.eval(then, env),
            Value::Bool(false) => self.eval(other, env),
            Value::Error => Value::Error,
            Value::Tensor(_) => {
                if self.needs_task(&c, cond.span) {
                    return Value::Error;
                }
                let d = Diagnostic::new(Code::NotStatic, cond.span, "the condition of an `if` must be known when compiling");
                self.report(match &cond.kind {
                    // A setting of a block of the prelude: an array got there by its place among the arguments.
                    ExprKind::Name(_) if crate::prelude::holds(cond.span.file) => d
                        .help("an array was passed for a setting that is true or false: name settings, as in `linear(x, bias = false)`")
                        .help("two inputs become one with `concat([a, b], N)`"),
                    _ => d.help("to choose entry by entry while the model runs, write `select(condition, one, other)`"),
                });
                Value::Error
            }
            other => {
                self.error(Code::WrongKind, cond.span, format!("a condition is wanted here, and this is {}", other.describe()))
            }
        }
    }
}
