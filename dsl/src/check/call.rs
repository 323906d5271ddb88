//! Calls: arguments, functions, blocks, distributions.

use super::bind::Owner;
use super::value::{Callable, Env, Found, Sees, Value};
use super::{Ctx, MAX_CALLS};
use crate::ast::{self, ArgKind, Expr, ExprKind, Ident, ParamDecl, Shape, Type};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::AxisId;
use crate::source::Span;

/// An evaluated argument.
#[derive(Clone)]
pub(super) struct Arg<'a> {
    pub name: Option<&'a Ident>,
    pub value: Value<'a>,
    pub span: Span,
}

impl<'a> Ctx<'a> {
    pub(super) fn call_expr(&mut self, callee: &'a Expr, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
        let function = match &callee.kind {
            ExprKind::Name(name) => match self.lookup(name, env) {
                Value::Word("memory") => self.memory_called(args, env, name.span),
                // `zeros` alone adapts; with axes it is the function.
                Value::Zeros => Value::Callable(Callable::Builtin(super::builtins::Builtin::Zeros)),
                other => other,
            },
            ExprKind::Field(inner, field) => {
                let word = inner.as_name().map(|n| self.lookup(n, env));
                match word {
                    Some(Value::Word("slow")) => self.slow(field),
                    Some(Value::Word(_)) => self.memory_named(Some(field), callee.span),
                    _ => {
                        let value = self.eval(inner, env);
                        match &value {
                            // A method, with or without parameters.
                            Value::Dist(d) => match d.def.methods.iter().find(|m| m.name.text == field.text) {
                                Some(method) => Value::Callable(Callable::Method { env: d.env.clone(), method }),
                                None => self.field(&value, field, callee.span),
                            },
                            _ => self.field(&value, field, callee.span),
                        }
                    }
                }
            }
            _ => self.eval(callee, env),
        };
        match function {
            Value::Error => Value::Error,
            Value::Callable(Callable::Builtin(b)) => self.call_builtin(b, args, env, span),
            Value::Callable(callable) => {
                // The arrow belongs to this call, not to its arguments.
                let expected = self.place.expected.take();
                let args = self.eval_args(args, env);
                self.place.expected = expected;
                match args {
                    Some(args) => self.call(&callable, args, span),
                    None => Value::Error,
                }
            }
            other => {
                let mut d =
                    Diagnostic::new(Code::NotCallable, callee.span, format!("this is {}, not a function", other.describe()));
                if let Value::Family(f) = &other {
                    d = d.help(format!("a value of an equation is read with brackets: `{}[t]`", self.family_name(f)));
                }
                self.report(d);
                Value::Error
            }
        }
    }

    pub(super) fn eval_args(&mut self, args: &'a [ast::Arg], env: &Env<'a>) -> Option<Vec<Arg<'a>>> {
        let held = self.place.held_by;
        let mut out = Vec::new();
        for arg in args {
            let (name, e) = match &arg.kind {
                ArgKind::Value(e) => (None, e),
                ArgKind::Named(name, e) => (Some(name), e),
                ArgKind::Rename(from, _) => {
                    self.report(
                        Diagnostic::new(Code::WrongArguments, arg.span, "`A -> B` belongs to `rename`")
                            .here(format!("`{}` is an axis here", from.text)),
                    );
                    return None;
                }
            };
            self.place.held_by = held;
            let value = match self.eval(e, env) {
                // Told here, and not wherever the function reads it.
                Value::Family(f) => self.read_plain(&f, e.span),
                other => other,
            };
            out.push(Arg { name, value, span: e.span });
        }
        self.place.held_by = held;
        if out.iter().any(|a| a.value.is_error()) { None } else { Some(out) }
    }

    pub(super) fn call(&mut self, callable: &Callable<'a>, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        match callable {
            Callable::Fn(f) => {
                let member = self.names.members.fns.get(&f.name.text).is_some_and(|g| std::ptr::eq(*g, *f));
                let sees = if member { Sees::Model } else { Sees::Items };
                self.call_fn(f, &Env::root(f.span.file, sees), args, span)
            }
            Callable::Method { env, method } => self.call_fn(method, env, args, span),
            Callable::Block(block) => {
                let expected = self.place.expected.take();
                if self.place.instance.is_none() {
                    self.report(
                        Diagnostic::new(
                            Code::BareBlock,
                            span,
                            format!("`{}` is a block: it has parameters, so it must belong to a net", block.name.text),
                        )
                        .help(format!("declare `net f(..) -> [..] = {}(..)` and call `f`", block.name.text)),
                    );
                    return Value::Error;
                }
                let env = Env::root(block.span.file, Sees::Items);
                let wants = block.params.iter().filter(|p| p.default.is_none()).count();
                let positional = args.iter().filter(|a| a.name.is_none()).count().min(wants);
                let (tensors, rest) = args.split_at(positional);
                let tensors = tensors.iter().map(|a| a.value.clone()).collect();
                let segment = self.place.held_by.take();
                self.nested_block(block, tensors, rest.to_vec(), &env, expected, segment, span)
            }
            Callable::Dist(def) => self.call_dist(def, args, span),
            Callable::Net { module, mode } => {
                let Some(values) = self.positional(&args, "a net") else { return Value::Error };
                let expected = self.place.expected.take();
                let value = self.call_net(*module, *mode, values, span);
                self.place.expected = expected;
                value
            }
            Callable::Memory { module } => match self.positional(&args, "a memory") {
                Some(values) => self.call_memory(*module, values, span),
                None => Value::Error,
            },
            Callable::Builtin(b) => self.apply_builtin(*b, args, span),
            Callable::Planner { planner } => match self.positional(&args, "a planner") {
                Some(values) => self.call_planner(*planner, values, span),
                None => Value::Error,
            },
        }
    }

    fn positional(&mut self, args: &[Arg<'a>], what: &str) -> Option<Vec<(Value<'a>, Span)>> {
        if let Some(arg) = args.iter().find(|a| a.name.is_some()) {
            self.report(Diagnostic::new(
                Code::WrongArguments,
                arg.span,
                format!("{what} takes its arguments in order, without names"),
            ));
            return None;
        }
        Some(args.iter().map(|a| (a.value.clone(), a.span)).collect())
    }

    /// Enters a call, unless it is one too many.
    pub(super) fn enter(&mut self, name: &'a str, span: Span) -> bool {
        if self.sink.calls.len() >= MAX_CALLS {
            let chain: Vec<&str> = self.sink.calls.iter().rev().take(4).map(|(n, _)| *n).collect();
            let code = if self.sink.calls.iter().any(|(n, _)| *n == name) { Code::Recursion } else { Code::TooLarge };
            self.report(
                Diagnostic::new(code, span, format!("`{name}` is called inside itself or inside too many others"))
                    .note(format!("the last calls are {}", super::listed(chain)))
                    .help("functions are written out where they are called; for a loop use `stack`, for time use a subscript"),
            );
            return false;
        }
        self.sink.calls.push((name, span));
        true
    }

    fn call_fn(&mut self, f: &'a ast::Function, scope: &Env<'a>, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        if self.sink.calls.iter().any(|(n, s)| n == &f.name.text && *s == span && self.sink.calls.len() > 8)
            || !self.enter(&f.name.text, span)
        {
            if self.sink.calls.len() < MAX_CALLS {
                let name = &f.name.text;
                let through = self.sink.calls.last().map(|(n, _)| n).filter(|n| *n != name);
                let message = match through {
                    Some(other) => format!("`{name}` calls itself, through `{other}`"),
                    None => format!("`{name}` calls itself"),
                };
                self.report(
                    Diagnostic::new(Code::Recursion, span, message).help("for a loop use `stack`, for time use a subscript"),
                );
            }
            return Value::Error;
        }
        let env = scope.child();
        let outer_expected = self.place.expected.take();
        let user = !crate::prelude::holds(f.span.file);
        let tracked = if user { args.iter().map(|a| self.leaves_quietly(&a.value)).collect() } else { Vec::new() };
        let value = match self.bind_params(&f.name.text, &f.params, args, &env, span, user) {
            Some(()) => self.run(&f.body, &env, &f.name),
            None => Value::Error,
        };
        let value = match &f.out {
            Some(shape) if !value.is_error() => self.returned(value, shape, &env, &f.name, span),
            _ => value,
        };
        self.place.expected = outer_expected;
        self.sink.calls.pop();
        self.note_call(value, tracked)
    }

    fn returned(&mut self, value: Value<'a>, shape: &'a Shape, env: &Env<'a>, name: &Ident, span: Span) -> Value<'a> {
        let (Some(want), Some(e)) = (self.shape(shape, env), self.as_tensor(&value, span)) else { return Value::Error };
        if self.same_axes(self.draft.table.axes_of(e), &want) {
            return value;
        }
        let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.having(&want));
        self.report(
            Diagnostic::new(Code::AxesMismatch, span, format!("`{}` returns {have}", name.text))
                .label(shape.span, format!("but says {want}")),
        );
        Value::Error
    }

    /// Gives a function's or distribution's parameters their values. Letters in shapes are bound by what they meet.
    pub(super) fn bind_params(
        &mut self,
        name: &str,
        params: &'a [ParamDecl],
        args: Vec<Arg<'a>>,
        env: &Env<'a>,
        span: Span,
        alias: bool,
    ) -> Option<()> {
        let owner = Owner { name, settings: false, span };
        let params: Vec<&'a ParamDecl> = params.iter().collect();
        self.bind(&owner, &params, args, env, |cx, param, value, at| {
            let value = match &param.ty {
                Some(Type::Shape(shape)) => cx.typed_arg(name, param, shape, value, at, env)?,
                _ => value,
            };
            Some(if alias { cx.aliased(&value, at) } else { value })
        })?;
        Some(())
    }

    /// A user's function has names of its own for its arguments, so that `grad` can tell two of them apart.
    pub(super) fn aliased(&mut self, value: &Value<'a>, span: Span) -> Value<'a> {
        match value {
            Value::Tensor(t) if t.attached.is_none() => Value::tensor(self.draft.table.alias(t.expr, span)),
            Value::Record(_) => self.map(value, span, &mut |cx, e| Some(cx.draft.table.alias(e, span))),
            other => other.clone(),
        }
    }

    /// An argument for a parameter with a shape: letters that are new are bound to its axes, known ones must agree.
    fn typed_arg(
        &mut self,
        name: &str,
        param: &'a ParamDecl,
        shape: &'a Shape,
        value: Value<'a>,
        at: Span,
        env: &Env<'a>,
    ) -> Option<Value<'a>> {
        let e = self.as_tensor(&value, at)?;
        let have = self.draft.table.axes_of(e).to_vec();
        let known: Option<Vec<AxisId>> = self.known_letters(shape, env);
        if let Some(want) = known {
            if have.iter().all(|a| want.contains(a)) {
                // Numbers and values of fewer axes are spread.
                if have.len() == want.len() {
                    return Some(value);
                }
                return Some(Value::tensor(self.draft.table.broadcast(e, &want, at)));
            }
            let (have, want) = (self.draft.table.having(&have), self.draft.table.having(&want));
            self.report(
                Diagnostic::new(Code::AxesMismatch, at, format!("`{name}` wants `{}` with {want}", param.name.text))
                    .here(format!("this has {have}")),
            );
            return None;
        }
        let bound = self.match_letters(shape, &have, at)?;
        for (letter, value) in bound {
            let known = match env.get_here(letter) {
                Some(Found::Value(Value::Dim(a))) => Some(a),
                None if env.sees_model() => self.model_axis(letter),
                _ => None,
            };
            match (known, &value) {
                (Some(a), Value::Dim(b)) if a != *b => {
                    let (one, other) = (self.draft.table.show_axis(a), self.draft.table.show_axis(*b));
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, at, format!("`{name}` uses `{letter}` for one axis, and gets two"))
                            .here(format!("{other}, after {one}")),
                    );
                    return None;
                }
                _ => {}
            }
            env.set(letter, value);
        }
        Some(value)
    }

    /// The axes of a shape whose letters are all known: bound in this very scope, or dims where the model is seen.
    fn known_letters(&mut self, shape: &'a Shape, env: &Env<'a>) -> Option<Vec<AxisId>> {
        let mut axes = Vec::new();
        for axis in &shape.axes {
            if axis.size.is_some() {
                return None;
            }
            match env.get_here(&axis.name.text) {
                Some(Found::Value(Value::Dim(a))) => axes.push(a),
                Some(Found::Value(Value::Axes(a))) => axes.extend(a.iter()),
                _ if env.sees_model() && !axis.rest => axes.push(self.model_axis(&axis.name.text)?),
                _ => return None,
            }
        }
        Some(axes)
    }

    /// Binds the letters of a pattern to axes: `[X.., N]` against `[S, N]`.
    pub(super) fn match_letters(&mut self, shape: &'a Shape, have: &[AxisId], span: Span) -> Option<Vec<(&'a str, Value<'a>)>> {
        let rest = shape.axes.iter().position(|a| a.rest);
        let fixed = shape.axes.len() - usize::from(rest.is_some());
        let fits = if rest.is_some() { have.len() >= fixed } else { have.len() == fixed };
        if !fits {
            let shown = self.draft.table.having(have);
            let letters: Vec<String> =
                shape.axes.iter().map(|a| format!("{}{}", a.name.text, if a.rest { ".." } else { "" })).collect();
            self.report(
                Diagnostic::new(Code::AxesMismatch, span, format!("the shape [{}] is wanted here", letters.join(", ")))
                    .here(format!("this has {shown}")),
            );
            return None;
        }
        let spare = have.len() - fixed;
        let mut bound = Vec::new();
        let mut at = 0;
        for axis in &shape.axes {
            if axis.rest {
                bound.push((axis.name.text.as_str(), Value::Axes(have[at..at + spare].into())));
                at += spare;
            } else {
                bound.push((axis.name.text.as_str(), Value::Dim(have[at])));
                at += 1;
            }
        }
        Some(bound)
    }
}
