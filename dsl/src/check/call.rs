//! Calls: arguments, functions, blocks, distributions.

use hashbrown::HashSet;
use std::rc::Rc;

use super::bind::Owner;
use super::module::{Carries, Instance};
use super::value::{Callable, DistValue, Env, Found, LazyKind, Mode, Named, Sees, Slot, Value};
use super::{Ctx, MAX_CALLS};
use crate::ast::{self, ArgKind, Expr, ExprKind, Ident, ParamDecl, Shape, Stmt, StmtKind, Type};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId};
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
                let expected = self.expected.take();
                let args = self.eval_args(args, env);
                self.expected = expected;
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
        let held = self.held_by;
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
            self.held_by = held;
            let value = match self.eval(e, env) {
                // Told here, and not wherever the function reads it.
                Value::Family(f) => self.read_plain(&f, e.span),
                other => other,
            };
            out.push(Arg { name, value, span: e.span });
        }
        self.held_by = held;
        if out.iter().any(|a| a.value.is_error()) { None } else { Some(out) }
    }

    pub(super) fn call(&mut self, callable: &Callable<'a>, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        match callable {
            Callable::Fn(f) => {
                let member = self.members.fns.get(&f.name.text).is_some_and(|g| std::ptr::eq(*g, *f));
                let sees = if member { Sees::Model } else { Sees::Items };
                self.call_fn(f, &Env::root(f.span.file, sees), args, span)
            }
            Callable::Method { env, method } => self.call_fn(method, env, args, span),
            Callable::Block(block) => {
                let expected = self.expected.take();
                if self.instance.is_none() {
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
                let segment = self.held_by.take();
                self.nested_block(block, tensors, rest.to_vec(), &env, expected, segment, span)
            }
            Callable::Dist(def) => self.call_dist(def, args, span),
            Callable::Net { module, mode } => {
                let Some(values) = self.positional(&args, "a net") else { return Value::Error };
                let expected = self.expected.take();
                let value = self.call_net(*module, *mode, values, span);
                self.expected = expected;
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
    fn enter(&mut self, name: &'a str, span: Span) -> bool {
        if self.calls.len() >= MAX_CALLS {
            let chain: Vec<&str> = self.calls.iter().rev().take(4).map(|(n, _)| *n).collect();
            let code = if self.calls.iter().any(|(n, _)| *n == name) { Code::Recursion } else { Code::TooLarge };
            self.report(
                Diagnostic::new(code, span, format!("`{name}` is called inside itself or inside too many others"))
                    .note(format!("the last calls are {}", super::listed(chain)))
                    .help("functions are written out where they are called; for a loop use `stack`, for time use a subscript"),
            );
            return false;
        }
        self.calls.push((name, span));
        true
    }

    // ---- functions

    fn call_fn(&mut self, f: &'a ast::Function, scope: &Env<'a>, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        if self.calls.iter().any(|(n, s)| n == &f.name.text && *s == span && self.calls.len() > 8)
            || !self.enter(&f.name.text, span)
        {
            if self.calls.len() < MAX_CALLS {
                let name = &f.name.text;
                let through = self.calls.last().map(|(n, _)| n).filter(|n| *n != name);
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
        let outer_expected = self.expected.take();
        let user = !crate::prelude::holds(f.span.file);
        let tracked = if user { args.iter().map(|a| self.leaves_quietly(&a.value)).collect() } else { Vec::new() };
        let value = match self.bind_params(&f.name.text, &f.params, args, &env, span, user) {
            Some(()) => self.run(&f.body, &env, &f.name, f.span),
            None => Value::Error,
        };
        let value = match &f.out {
            Some(shape) if !value.is_error() => self.returned(value, shape, &env, &f.name, span),
            _ => value,
        };
        self.expected = outer_expected;
        self.calls.pop();
        self.note_call(value, tracked)
    }

    fn returned(&mut self, value: Value<'a>, shape: &'a Shape, env: &Env<'a>, name: &Ident, span: Span) -> Value<'a> {
        let (Some(want), Some(e)) = (self.shape(shape, env), self.as_tensor(&value, span)) else { return Value::Error };
        if self.same_axes(self.table.axes_of(e), &want) {
            return value;
        }
        let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(&want));
        self.report(
            Diagnostic::new(Code::AxesMismatch, span, format!("`{}` returns {have}", name.text))
                .label(shape.span, format!("but says {want}")),
        );
        Value::Error
    }

    /// Gives a function's or distribution's parameters their values. Letters in shapes are bound by what they meet.
    fn bind_params(
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
    fn aliased(&mut self, value: &Value<'a>, span: Span) -> Value<'a> {
        match value {
            Value::Tensor(t) if t.attached.is_none() => Value::tensor(self.table.alias(t.expr, span)),
            Value::Record(_) => self.map(value, span, &mut |cx, e| Some(cx.table.alias(e, span))),
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
        let have = self.table.axes_of(e).to_vec();
        let known: Option<Vec<AxisId>> = self.known_letters(shape, env);
        if let Some(want) = known {
            if have.iter().all(|a| want.contains(a)) {
                // Numbers and values of fewer axes are spread.
                if have.len() == want.len() {
                    return Some(value);
                }
                return Some(Value::tensor(self.table.broadcast(e, &want, at)));
            }
            let (have, want) = (self.table.having(&have), self.table.having(&want));
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
                    let (one, other) = (self.table.show_axis(a), self.table.show_axis(*b));
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
            let shown = self.table.having(have);
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

    // ---- bodies

    /// Runs statements; the value of the first `return`.
    pub(super) fn run(&mut self, body: &'a [Stmt], env: &Env<'a>, name: &Ident, span: Span) -> Value<'a> {
        match self.statements(body, env) {
            Flow::Return(value) => value,
            Flow::Failed => Value::Error,
            Flow::Go => {
                let _ = span;
                self.report(
                    Diagnostic::new(Code::NoReturn, name.span, format!("`{}` returns nothing", name.text))
                        .help("end it with `return ..`"),
                );
                Value::Error
            }
        }
    }

    fn statements(&mut self, body: &'a [Stmt], env: &Env<'a>) -> Flow<'a> {
        for stmt in body {
            if !self.spend(stmt.span) {
                return Flow::Failed;
            }
            match &stmt.kind {
                StmtKind::Let(name, e) => {
                    let held = self.held_by.replace(&name.text);
                    let value = self.eval(e, env);
                    self.held_by = held;
                    env.set(&*name.text, value);
                }
                StmtKind::Assign(name, e) => {
                    let held = self.held_by.take();
                    let value = self.eval(e, env);
                    self.held_by = held;
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
                    let held = self.held_by.replace(&name.text);
                    let value = self.eval(e, env);
                    self.held_by = held;
                    self.set_next(name, value, e.span, env);
                }
                StmtKind::Param(decl, init) => {
                    let path = match &self.instance {
                        Some(i) if i.path.is_empty() => decl.name.text.clone(),
                        Some(i) => format!("{}.{}", i.path, decl.name.text),
                        None => decl.name.text.clone(),
                    };
                    let kind = LazyKind::Param { decl, init, path, span: stmt.span };
                    env.set_lazy(&decl.name.text, kind);
                }
                StmtKind::Return(e) => {
                    let held = self.held_by.take();
                    let value = self.eval(e, env);
                    self.held_by = held;
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

    /// A loop that is written out.
    fn stack(&mut self, index: Option<&'a Ident>, item: &'a Ident, over: &'a Expr, body: &'a [Stmt], env: &Env<'a>) -> Flow<'a> {
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
        let path = self.instance.as_ref().map(|i| i.path.clone());
        for (n, value) in values.into_iter().enumerate() {
            let inner = env.child();
            if let Some(index) = index {
                inner.set(&*index.text, Value::Num(n as f64));
            }
            inner.set(&*item.text, value);
            if let (Some(i), Some(path)) = (&mut self.instance, &path) {
                i.path = format!("{path}.{n}");
            }
            let flow = self.statements(body, &inner);
            if !matches!(flow, Flow::Go) {
                return flow;
            }
        }
        if let (Some(i), Some(path)) = (&mut self.instance, path) {
            i.path = path;
        }
        Flow::Go
    }

    // ---- blocks

    /// A block inside another block: its path goes on from the `let` that holds it.
    #[allow(clippy::too_many_arguments)]
    fn nested_block(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        rest: Vec<Arg<'a>>,
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        segment: Option<&'a str>,
        span: Span,
    ) -> Value<'a> {
        let Some(path) = self.instance.as_ref().map(|i| i.path.clone()) else { return Value::Error };
        if let (Some(i), Some(segment)) = (&mut self.instance, &segment) {
            i.path = format!("{path}.{segment}");
        }
        let value = self.expand_block(block, tensors, rest, env, expected, span);
        if let Some(i) = &mut self.instance {
            i.path = path;
        }
        self.held_by = segment;
        value
    }

    /// A net's or memory's block: arguments as written in the declaration fill the parameters behind the first.
    pub(super) fn call_block(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        settings: &'a [ast::Arg],
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        span: Span,
    ) -> Value<'a> {
        let Some(rest) = self.eval_args(settings, env) else { return Value::Error };
        self.expand_block(block, tensors, rest, &Env::root(block.span.file, Sees::Items), expected, span)
    }

    fn expand_block(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        rest: Vec<Arg<'a>>,
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        span: Span,
    ) -> Value<'a> {
        if !self.enter(&block.name.text, span) {
            return Value::Error;
        }
        let value = self.block_body(block, tensors, rest, &env.child(), expected, span);
        self.calls.pop();
        value
    }

    fn block_body(
        &mut self,
        block: &'a ast::Block,
        tensors: Vec<Value<'a>>,
        rest: Vec<Arg<'a>>,
        env: &Env<'a>,
        expected: Option<Vec<AxisId>>,
        span: Span,
    ) -> Value<'a> {
        let name = &block.name.text;
        let raw: Vec<&'a ParamDecl> = block.params.iter().filter(|p| p.default.is_none()).collect();
        let statics: Vec<&'a ParamDecl> = block.params.iter().filter(|p| p.default.is_some()).collect();
        if raw.len() != tensors.len() {
            self.report(
                Diagnostic::new(
                    Code::WrongArguments,
                    span,
                    format!("`{name}` reads {} and gets {}", super::module::count(raw.len(), "array"), tensors.len()),
                )
                .note(format!("they are {}", super::listed(raw.iter().map(|p| p.name.text.as_str())))),
            );
            return Value::Error;
        }
        // A block's letters are its own: its arguments come in under fresh axes and go out under the caller's.
        let mut letters: Vec<(&'a str, AxisId, AxisId)> = Vec::new();
        for (param, value) in raw.iter().zip(tensors) {
            let Some(value) = self.block_arg(name, param, value, &mut letters, env, span) else { return Value::Error };
            env.set(&*param.name.text, value);
        }
        let owner = Owner { name, settings: true, span };
        if self.bind(&owner, &statics, rest, env, |_, _, value, _| Some(value)).is_none() {
            return Value::Error;
        }
        // Letters that the carries make (`carry h: [D = width]`) may be those of the output.
        for axis in block.carries.iter().flat_map(|c| &c.shape.axes) {
            if let Some(e) = &axis.size
                && self.local_axis(&axis.name, e, env).is_none()
            {
                return Value::Error;
            }
        }
        let Some((out, back)) = self.block_out(block, &letters, expected, env, span) else { return Value::Error };
        if self.open_carries(block, env).is_none() {
            return Value::Error;
        }
        let value = self.run(&block.body, env, &block.name, block.span);
        if value.is_error() {
            return Value::Error;
        }
        let Some(e) = self.as_tensor(&value, span) else { return Value::Error };
        if !self.same_axes(self.table.axes_of(e), &out) {
            let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(&out));
            let d = Diagnostic::new(Code::AxesMismatch, block.name.span, format!("`{name}` returns {have}"));
            self.report(match &block.out {
                Some(shape) => d.label(shape.span, format!("but says {want}")),
                None => d.note(format!("it should return {want}")),
            });
            return Value::Error;
        }
        let mut e = e;
        for (local, outer) in back {
            e = self.table.split(e, local, outer, span);
        }
        Value::tensor(e)
    }

    /// An array argument of a block, under the block's own axes.
    fn block_arg(
        &mut self,
        name: &str,
        param: &'a ParamDecl,
        value: Value<'a>,
        letters: &mut Vec<(&'a str, AxisId, AxisId)>,
        env: &Env<'a>,
        span: Span,
    ) -> Option<Value<'a>> {
        let Some(Type::Shape(shape)) = &param.ty else {
            return Some(value);
        };
        let leaves = self.leaves(&value, span)?;
        let (mut e, have) = match leaves.as_slice() {
            [one] if self.table.axes_of(*one).len() == shape.axes.len() => (*one, self.table.axes_of(*one).to_vec()),
            _ if shape.axes.len() == 1 => {
                let parts = leaves.into_iter().map(|e| (e, self.table.axes_of(e).to_vec())).collect();
                let (e, axis) = self.as_vector(parts, span);
                (e, vec![axis])
            }
            _ => {
                let shown = leaves.first().map(|e| self.table.having(self.table.axes_of(*e))).unwrap_or_default();
                self.report(
                    Diagnostic::new(
                        Code::AxesMismatch,
                        span,
                        format!("`{name}` wants {} with {}", param.name.text, super::module::count(shape.axes.len(), "axis")),
                    )
                    .here(format!("this has {shown}")),
                );
                return None;
            }
        };
        for (axis, outer) in shape.axes.iter().zip(have) {
            let letter = axis.name.text.as_str();
            let local = match letters.iter().find(|(n, _, _)| *n == letter) {
                Some((_, local, known)) if *known == outer => *local,
                Some((_, _, known)) => {
                    let (one, other) = (self.table.show_axis(*known), self.table.show_axis(outer));
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, span, format!("`{name}` uses `{letter}` for one axis, and gets two"))
                            .here(format!("{one} and {other}")),
                    );
                    return None;
                }
                None => {
                    let size = self.table.size(outer).clone();
                    let local = self.table.new_axis(letter, size);
                    letters.push((letter, local, outer));
                    env.set(letter, Value::Dim(local));
                    local
                }
            };
            e = self.table.rename(e, outer, local, span);
        }
        Some(Value::tensor(e))
    }

    /// The block's output axes, and what each becomes outside.
    #[allow(clippy::type_complexity)]
    fn block_out(
        &mut self,
        block: &'a ast::Block,
        letters: &[(&'a str, AxisId, AxisId)],
        expected: Option<Vec<AxisId>>,
        env: &Env<'a>,
        span: Span,
    ) -> Option<(Vec<AxisId>, Vec<(AxisId, Vec<AxisId>)>)> {
        let name = &block.name.text;
        let Some(shape) = &block.out else {
            return Some((Vec::new(), Vec::new()));
        };
        let mut out = Vec::new();
        let mut back = Vec::new();
        // One open letter may stand for any shape; several stand for as many axes.
        let one = shape.axes.len() == 1;
        if let Some(expected) = &expected
            && !one
            && expected.len() != shape.axes.len()
        {
            let shown = self.table.show(expected);
            self.report(
                Diagnostic::new(
                    Code::AxesMismatch,
                    span,
                    format!("`{name}` returns {}", super::module::count(shape.axes.len(), "axis")),
                )
                .here(format!("{shown} is wanted here")),
            );
            return None;
        }
        for (i, axis) in shape.axes.iter().enumerate() {
            let want: Option<Vec<AxisId>> = expected.as_ref().map(|e| if one { e.clone() } else { vec![e[i]] });
            let letter = axis.name.text.as_str();
            let (local, own) = match (&axis.size, letters.iter().find(|(n, _, _)| *n == letter)) {
                (None, Some((_, local, outer))) => (*local, Some(vec![*outer])),
                (Some(e), _) => (self.local_axis(&axis.name, e, env)?, None),
                (None, None) => {
                    if let Some(Found::Value(Value::Dim(made))) = env.get_here(letter) {
                        (made, None)
                    } else {
                        let Some(want) = &want else {
                            self.report(
                                Diagnostic::new(
                                    Code::OutputUnknown,
                                    span,
                                    format!("nothing says what shape `{name}` should return"),
                                )
                                .help(format!("write it behind the call: `{name}(..) -> [D]`")),
                            );
                            return None;
                        };
                        let size = self.table.total(want);
                        let local = self.table.new_axis(letter, size);
                        env.set(letter, Value::Dim(local));
                        (local, None)
                    }
                }
            };
            let outer = match (want, own) {
                (Some(want), _) => {
                    let (have, total) = (self.table.size(local).clone(), self.table.total(&want));
                    if have != total {
                        let shown = self.table.show(&want);
                        self.report(
                            Diagnostic::new(Code::SizeMismatch, span, format!("`{name}` returns {have} entries"))
                                .here(format!("{shown} has {total}"))
                                .help("change its width, or the shape that is wanted"),
                        );
                        return None;
                    }
                    want
                }
                (None, Some(own)) => own,
                (None, None) => vec![local],
            };
            if outer != [local] {
                back.push((local, outer));
            }
            out.push(local);
        }
        Some((out, back))
    }

    // ---- carries

    fn open_carries(&mut self, block: &'a ast::Block, env: &Env<'a>) -> Option<()> {
        for carry in &block.carries {
            let axes = self.shape(&carry.shape, env)?;
            let path = match &self.instance {
                Some(i) => format!("{}.{}", i.path, carry.name.text),
                None => return None,
            };
            let known = self.carry_index.get(&path).copied();
            let value = match self.instance.as_ref().map(|i| &i.carries) {
                Some(Carries::Step { given, .. }) => {
                    let id = known?;
                    let stored = self.carries[id].axes.clone();
                    let e = *given.get(&id)?;
                    self.table.rename_all(e, &stored, &axes, carry.span)
                }
                Some(Carries::Find(_)) => {
                    let value = self.eval(&carry.init, env);
                    let e = self.as_tensor(&value, carry.init.span)?;
                    if self.table.axes_of(e).iter().any(|a| !axes.contains(a)) {
                        let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(&axes));
                        self.report(
                            Diagnostic::new(Code::AxesMismatch, carry.init.span, format!("the carry has {want}"))
                                .here(format!("its start has {have}")),
                        );
                        return None;
                    }
                    let init = self.table.broadcast(e, &axes, carry.span);
                    let id = self.new_carry(hir::Carry { path, axes: axes.clone(), init });
                    self.holes += 1;
                    let e = self.table.push(hir::Op::Hole(self.holes), axes.clone(), hir::Dtype::Real, carry.span);
                    if let Some(Instance { carries: Carries::Find(found), .. }) = &mut self.instance {
                        found.push((id, e));
                    }
                    e
                }
                _ => {
                    let module = self.instance.as_ref().map(|i| self.modules[i.module].name.clone()).unwrap_or_default();
                    self.report(
                        Diagnostic::new(
                            Code::WrongKind,
                            block.name.span,
                            format!("`{}` has a carry, and `{module}` has none to give", block.name.text),
                        )
                        .help("use it as a memory: `memory m(z, a) -> [M] = ..`"),
                    );
                    return None;
                }
            };
            env.set(&*carry.name.text, Value::tensor(value));
            // The axes and the place of the carry, for `next`.
            env.set(format!("axes of {}", carry.name.text), Value::Axes(axes.into()));
        }
        Some(())
    }

    fn set_next(&mut self, name: &'a Ident, value: Value<'a>, span: Span, env: &Env<'a>) {
        if value.is_error() {
            env.set(format!("next {}", name.text), Value::Error);
            return;
        }
        let axes = match env.get(&format!("axes of {}", name.text)) {
            Some(Found::Value(Value::Axes(axes))) => axes,
            _ => {
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("there is no carry `{}`", name.text))
                        .help(format!("declare it: `carry {}: [..] = zeros([..])`", name.text)),
                );
                return;
            }
        };
        let Some(e) = self.as_tensor(&value, span) else { return };
        if self.table.axes_of(e).iter().any(|a| !axes.contains(a))
            || (self.table.axes_of(e).len() != axes.len() && !matches!(value, Value::Num(_) | Value::Zeros))
        {
            let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.having(&axes));
            self.report(
                Diagnostic::new(Code::AxesMismatch, span, format!("the carry `{}` has {want}", name.text))
                    .here(format!("this has {have}")),
            );
            env.set(format!("next {}", name.text), Value::Error);
            return;
        }
        let e = self.table.broadcast(e, &axes, span);
        env.set(format!("next {}", name.text), Value::tensor(e));
        // Slots of an update rule have no instance; their new values are read from the scope.
        let Some(instance) = &self.instance else { return };
        let path = format!("{}.{}", instance.path, name.text);
        let Some(&id) = self.carry_index.get(&path) else { return };
        let stored = self.carries[id].axes.clone();
        let e = self.table.rename_all(e, &axes, &stored, span);
        if let Some(Instance { carries: Carries::Step { next, .. }, .. }) = &mut self.instance {
            next.entry(id).or_insert(e);
        }
    }

    pub(super) fn next_value(&mut self, name: &'a Ident, env: &Env<'a>) -> Value<'a> {
        match env.get(&format!("next {}", name.text)) {
            Some(Found::Value(v)) => v,
            _ => {
                self.report(
                    Diagnostic::new(Code::UnknownName, name.span, format!("`{}` has no new value yet", name.text))
                        .help(format!("write `next {} = ..` before this line", name.text)),
                );
                Value::Error
            }
        }
    }

    // ---- distributions

    /// `normal(mean, std)`: a distribution of given arrays.
    fn call_dist(&mut self, def: &'a ast::Dist, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        if !self.enter(&def.name.text, span) {
            return Value::Error;
        }
        let env = Env::root(def.span.file, Sees::Items);
        let value = match self.bind_params(&def.name.text, &def.params, args, &env, span, false) {
            Some(()) => {
                let mut args = Vec::new();
                let mut letters = Vec::new();
                for (name, slot) in env.0.vars.borrow().iter() {
                    let Slot::Value(v) = slot else { continue };
                    if def.params.iter().any(|p| p.name.text == *name) {
                        args.push((name.clone(), v.clone()));
                    } else {
                        letters.push((name.clone(), v.clone()));
                    }
                }
                // Arrays as arrays, whatever they were given as.
                for (name, v) in &mut args {
                    let raw = def.params.iter().any(|p| p.name.text == *name && p.default.is_none());
                    if raw && !matches!(v, Value::Tensor(_)) {
                        match self.as_tensor(v, span) {
                            Some(e) => *v = Value::tensor(e),
                            None => {
                                self.calls.pop();
                                return Value::Error;
                            }
                        }
                    }
                }
                self.make_dist(def, args, letters, None)
            }
            None => Value::Error,
        };
        self.calls.pop();
        value
    }

    /// A distribution's value out of its parameters: what it computes from them waits until it is wanted.
    pub(super) fn make_dist(
        &mut self,
        def: &'a ast::Dist,
        args: Named<'a>,
        letters: Named<'a>,
        module: Option<(usize, Mode)>,
    ) -> Value<'a> {
        let env = Env::root(def.span.file, Sees::Items);
        for (name, value) in letters.iter().chain(&args) {
            env.set(name.clone(), value.clone());
        }
        // Methods see each other.
        let dist = Rc::new(DistValue { def, env: env.clone(), args, letters, module });
        for method in &def.methods {
            env.set_method(method);
        }
        for stmt in &def.body {
            match &stmt.kind {
                StmtKind::Let(name, e) => {
                    env.set_lazy(&name.text, LazyKind::Let(e));
                }
                StmtKind::Param(decl, init) => {
                    let Some((module, mode)) = module else {
                        return self.error(
                            Code::BareBlock,
                            decl.name.span,
                            format!("`{}` has a parameter, so it must belong to a head", def.name.text),
                        );
                    };
                    let path = format!("{}.{}", self.modules[module].name, decl.name.text);
                    let instance = Instance {
                        path: String::new(),
                        module,
                        mode,
                        ensemble: None,
                        carries: Carries::None,
                        touched: HashSet::new(),
                    };
                    let outer = self.instance.replace(instance);
                    let value = self.param_value(decl, init, &path, stmt.span, &env);
                    self.instance = outer;
                    env.set(&*decl.name.text, value);
                }
                StmtKind::Require(..) => match self.statements(std::slice::from_ref(stmt), &env) {
                    Flow::Go => {}
                    _ => return Value::Error,
                },
                _ => {}
            }
        }
        Value::Dist(dist)
    }
}

/// How a run of statements ended.
enum Flow<'a> {
    Go,
    Return(Value<'a>),
    Failed,
}
