//! The functions that Rust knows; everything else is prelude text.

use std::rc::Rc;

use super::call::Arg;
use super::value::{Callable, Env, Mode, Record, Tensor, Value};
use super::{ACT, Ctx};
use crate::ast::{self, ArgKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{self, AxisId, BinaryOp, Dtype, ExprId, Index, Noise, Op, ReduceOp, Size, UnaryOp, VarId};
use crate::source::Span;

macro_rules! builtins {
    ($($variant:ident $name:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Builtin { $($variant,)* }

        impl Builtin {
            pub(crate) const ALL: &'static [Builtin] = &[$(Builtin::$variant,)*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Builtin::$variant => $name,)* }
            }

            fn named(name: &str) -> Option<Builtin> {
                match name { $($name => Some(Builtin::$variant),)* _ => None }
            }
        }
    };
}

builtins! {
    Exp "exp", Log "log", Sin "sin", Cos "cos", Sqrt "sqrt", Abs "abs", Sign "sign", Floor "floor",
    Tanh "tanh", Sigmoid "sigmoid", Softplus "softplus",
    Max "max", Min "min", Rem "rem", Select "select",
    Sum "sum", Mean "mean", Prod "prod", LogSumExp "logsumexp",
    Softmax "softmax", LogSoftmax "log_softmax",
    Outer "outer", Rename "rename", Split "split", Join "join", Concat "concat", Slice "slice",
    Sort "sort", Top "top", Take "take", ArgMax "argmax", Hot "hot", Iota "iota", Ahead "ahead",
    Zeros "zeros", Ones "ones", Gaussian "gaussian", Uniform "uniform", Subset "subset",
    Attach "attach", Attached "attached",
    Grad "grad", Partial "partial", Stop "sg", Frozen "frozen",
    SizeOf "size", Count "count", Len "len", Low "low", High "high", Bounded "bounded",
}

impl<'a> Ctx<'a> {
    /// Names that Rust gives a meaning: functions and constants.
    pub(super) fn builtin_name(&mut self, name: &str) -> Option<Value<'a>> {
        Some(match name {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "pi" => Value::Num(std::f64::consts::PI),
            "inf" => Value::Num(f64::INFINITY),
            "zeros" => Value::Zeros,
            "training" => Value::Bool(self.site.training),
            "progress" => Value::tensor(self.table.push(Op::Progress, Vec::new(), Dtype::Real, Span::default())),
            _ => Value::Callable(Callable::Builtin(Builtin::named(name)?)),
        })
    }

    /// A builtin called with arguments as written: some look at the text and not at the value.
    pub(super) fn call_builtin(&mut self, b: Builtin, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
        match b {
            Builtin::Rename => self.rename_call(args, env, span),
            Builtin::Partial => self.partial(args, env, span),
            Builtin::Grad => {
                let before = self.diagnostics.len();
                let value = match self.eval_args(args, env) {
                    Some(args) => self.apply_builtin(b, args, span),
                    None => Value::Error,
                };
                self.name_grad(before, args, env);
                value
            }
            _ => match self.eval_args(args, env) {
                Some(args) => self.apply_builtin(b, args, span),
                None => Value::Error,
            },
        }
    }

    /// A builtin on values.
    pub(super) fn apply_builtin(&mut self, b: Builtin, args: Vec<Arg<'a>>, span: Span) -> Value<'a> {
        let mut args = Args { name: b.name(), list: args, span };
        match b {
            Builtin::Exp => self.elementwise(UnaryOp::Exp, &mut args, f64::exp),
            Builtin::Log => self.elementwise(UnaryOp::Log, &mut args, f64::ln),
            Builtin::Sin => self.elementwise(UnaryOp::Sin, &mut args, f64::sin),
            Builtin::Cos => self.elementwise(UnaryOp::Cos, &mut args, f64::cos),
            Builtin::Sqrt => self.elementwise(UnaryOp::Sqrt, &mut args, f64::sqrt),
            Builtin::Abs => self.elementwise(UnaryOp::Abs, &mut args, f64::abs),
            Builtin::Sign => self.elementwise(UnaryOp::Sign, &mut args, |x| if x == 0.0 { 0.0 } else { x.signum() }),
            Builtin::Floor => self.elementwise(UnaryOp::Floor, &mut args, f64::floor),
            Builtin::Tanh => self.elementwise(UnaryOp::Tanh, &mut args, f64::tanh),
            Builtin::Sigmoid => self.elementwise(UnaryOp::Sigmoid, &mut args, |x| 1.0 / (1.0 + (-x).exp())),
            Builtin::Softplus => self.elementwise(UnaryOp::Softplus, &mut args, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
            Builtin::Max => self.extreme(BinaryOp::Max, ReduceOp::Max, args, f64::max),
            Builtin::Min => self.extreme(BinaryOp::Min, ReduceOp::Min, args, f64::min),
            Builtin::Rem => self.remainder(&mut args),
            Builtin::Select => self.select_call(&mut args),
            Builtin::Sum => self.reduction(ReduceOp::Sum, args),
            Builtin::Mean => self.reduction(ReduceOp::Mean, args),
            Builtin::Prod => self.reduction(ReduceOp::Prod, args),
            Builtin::LogSumExp => self.reduction(ReduceOp::LogSumExp, args),
            Builtin::Softmax => self.softmax(args, false),
            Builtin::LogSoftmax => self.softmax(args, true),
            Builtin::Outer => self.outer(&mut args),
            Builtin::Split => self.split_call(&mut args),
            Builtin::Join => self.join_call(&mut args),
            Builtin::Concat => self.concat_call(&mut args),
            Builtin::Slice => self.slice_call(&mut args),
            Builtin::Sort => self.sort_call(args),
            Builtin::Top => self.top(args),
            Builtin::Take => self.take_call(args),
            Builtin::ArgMax => self.argmax(args),
            Builtin::Hot => self.hot(&mut args),
            Builtin::Iota => self.iota(&mut args),
            Builtin::Ahead => self.ahead(&mut args),
            Builtin::Zeros => self.filled(&mut args, 0.0),
            Builtin::Ones => self.filled(&mut args, 1.0),
            Builtin::Gaussian => self.noise(&mut args, Noise::Gaussian),
            Builtin::Uniform => self.noise(&mut args, Noise::Uniform),
            Builtin::Subset => self.subset(&mut args),
            Builtin::Attach => self.attach(&mut args),
            Builtin::Attached => self.attached(&mut args),
            Builtin::Grad => self.grad_call(&mut args),
            Builtin::Stop => self.stop_call(&mut args),
            Builtin::Frozen => self.frozen(&mut args),
            Builtin::SizeOf => self.size_of(&mut args),
            Builtin::Count => self.count(&mut args),
            Builtin::Len => self.len(&mut args),
            Builtin::Low => self.bound_of(&mut args, true),
            Builtin::High => self.bound_of(&mut args, false),
            Builtin::Bounded => self.bounded(&mut args),
            Builtin::Rename | Builtin::Partial => {
                self.error(Code::WrongArguments, span, format!("`{}` cannot be passed on as a function", b.name()))
            }
        }
    }

    // ---- elementwise

    fn elementwise(&mut self, op: UnaryOp, args: &mut Args<'a>, known: fn(f64) -> f64) -> Value<'a> {
        let Some([x]) = self.take_args(args, ["x"]) else { return Value::Error };
        if let Value::Num(n) = x.value {
            return Value::Num(known(n));
        }
        if let (UnaryOp::Floor, Value::Index(_) | Value::Size(_) | Value::Dim(_)) = (op, &x.value) {
            return x.value;
        }
        let span = args.span;
        self.map(&x.value, x.span, &mut |cx, e| Some(cx.table.unary(op, e, span)))
    }

    /// `max(a, b)` entry by entry, `max(x)` and `max(x, over = N)` along axes.
    fn extreme(&mut self, op: BinaryOp, reduce: ReduceOp, mut args: Args<'a>, known: fn(f64, f64) -> f64) -> Value<'a> {
        if args.list.len() == 1 || args.list.iter().any(|a| a.name.is_some_and(|n| n.text == "over")) {
            return self.reduction(reduce, args);
        }
        let Some([a, b]) = self.take_args(&mut args, ["a", "b"]) else { return Value::Error };
        if let (Some(x), Some(y)) = (self.known_number(&a.value), self.known_number(&b.value)) {
            return Value::Num(known(x, y));
        }
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        match self.table.binary(op, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None => self.mismatch((x, a.span), (y, b.span)),
        }
    }

    fn known_number(&self, v: &Value<'a>) -> Option<f64> {
        match v {
            Value::Num(n) => Some(*n),
            Value::Size(s) => s.value().map(|n| n as f64),
            Value::Dim(a) => self.table.size(*a).value().map(|n| n as f64),
            _ => None,
        }
    }

    fn mismatch(&mut self, (x, l): (ExprId, Span), (y, r): (ExprId, Span)) -> Value<'a> {
        let (one, other) = (self.table.having(self.table.axes_of(x)), self.table.having(self.table.axes_of(y)));
        self.report(
            Diagnostic::new(Code::AxesMismatch, r, "axes do not line up")
                .here(format!("this has {other}"))
                .label(l, format!("this has {one}"))
                .help("one side's axes must contain the other's"),
        );
        Value::Error
    }

    fn remainder(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([a, b]) = self.take_args(args, ["a", "b"]) else { return Value::Error };
        if let (Some(x), Some(y)) = (self.known_number(&a.value), self.known_number(&b.value)) {
            return Value::Num(x.rem_euclid(y));
        }
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        match self.table.binary(BinaryOp::Rem, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None => self.mismatch((x, a.span), (y, b.span)),
        }
    }

    fn select_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([c, a, b]) = self.take_args(args, ["condition", "one", "other"]) else { return Value::Error };
        if let Value::Bool(c) = c.value {
            return if c { a.value } else { b.value };
        }
        let Some(cond) = self.as_condition(&c.value, c.span) else { return Value::Error };
        if let (Value::Record(x), Value::Record(y)) = (&a.value, &b.value) {
            let same = x.fields.len() == y.fields.len() && x.fields.iter().zip(&y.fields).all(|((m, _), (n, _))| m == n);
            if !same {
                return self.error(Code::AxesMismatch, args.span, "these records have different fields");
            }
            let (x, y) = (x.clone(), y.clone());
            let mut fields = Vec::new();
            for ((name, p), (_, q)) in x.fields.iter().zip(&y.fields) {
                let (Some(p), Some(q)) = (self.as_tensor(p, a.span), self.as_tensor(q, b.span)) else { return Value::Error };
                match self.table.select(cond, p, q, args.span) {
                    Some(e) => fields.push((name.clone(), Value::tensor(e))),
                    None => return self.mismatch((p, a.span), (q, b.span)),
                }
            }
            return Value::Record(Rc::new(Record { latent: x.latent, fields }));
        }
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        match self.table.select(cond, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None if self.table.union(self.table.axes_of(x), self.table.axes_of(y)).is_none() => {
                self.mismatch((x, a.span), (y, b.span))
            }
            None => self.mismatch((cond, c.span), (x, a.span)),
        }
    }

    // ---- reductions

    /// What a reduction runs over: axes of the value, index variables, the batch.
    fn over(&mut self, over: &Value<'a>, span: Span) -> Option<Over> {
        let mut out = Over::default();
        let items: Vec<Value<'a>> = match over {
            Value::List(items) => items.to_vec(),
            other => vec![other.clone()],
        };
        for item in items {
            match item {
                Value::Dim(axis) if Some(axis) == self.dims.batch => out.batch = true,
                Value::Dim(axis) => out.axes.push(axis),
                Value::Axes(axes) => out.axes.extend(axes.iter()),
                Value::Index(i) => match i.shifted() {
                    Some((var, 0)) => out.vars.push(var),
                    _ => {
                        self.error(Code::NotAnIndex, span, "`over` names an index itself, as in `over = [B, t]`");
                        return None;
                    }
                },
                Value::Error => return None,
                other => {
                    self.report(
                        Diagnostic::new(
                            Code::WrongKind,
                            span,
                            format!("`over` names axes and indices, and this is {}", other.describe()),
                        )
                        .help("write `over = N` or `over = [B, t]`"),
                    );
                    return None;
                }
            }
        }
        Some(out)
    }

    fn reduction(&mut self, op: ReduceOp, mut args: Args<'a>) -> Value<'a> {
        let span = args.span;
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        // A latent's sum is the sum over all its fields.
        if let Value::Record(r) = &x.value {
            if op != ReduceOp::Sum || over.is_some() {
                let d = Diagnostic::new(Code::WrongKind, x.span, format!("`{}` of a record means nothing", args.name))
                    .help("take a field, or `sum` them all");
                self.report(d);
                return Value::Error;
            }
            let r = r.clone();
            let mut total: Option<ExprId> = None;
            for (_, field) in &r.fields {
                let Some(e) = self.as_tensor(field, x.span) else { return Value::Error };
                let axes = self.table.axes_of(e).to_vec();
                let part = self.table.reduce(op, e, axes, span);
                total = match total {
                    Some(t) => self.table.binary(BinaryOp::Add, t, part, span),
                    None => Some(part),
                };
            }
            return total.map_or(Value::Num(0.0), Value::tensor);
        }
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(over) = over else {
            let axes = self.table.axes_of(e).to_vec();
            return Value::tensor(self.table.reduce(op, e, axes, span));
        };
        let Some(found) = self.over(&over.value, over.span) else { return Value::Error };
        self.reduce_over(op, e, &found, x.span, span)
    }

    fn reduce_over(&mut self, op: ReduceOp, e: ExprId, over: &Over, at: Span, span: Span) -> Value<'a> {
        for axis in &over.axes {
            if !self.table.axes_of(e).contains(axis) {
                return self.no_such_axis(e, *axis, at);
            }
        }
        let mut e = self.table.reduce(op, e, over.axes.clone(), span);
        if !over.vars.is_empty() || over.batch {
            let axes = self.table.axes_of(e).to_vec();
            e = self.table.push(Op::Fold { op, vars: over.vars.clone(), batch: over.batch, body: e }, axes, Dtype::Real, span);
        }
        Value::tensor(e)
    }

    fn no_such_axis(&mut self, e: ExprId, axis: AxisId, span: Span) -> Value<'a> {
        let (have, want) = (self.table.having(self.table.axes_of(e)), self.table.name(axis).to_string());
        self.report(
            Diagnostic::new(Code::UnknownAxis, span, format!("this value has no axis `{want}`")).here(format!("it has {have}")),
        );
        Value::Error
    }

    /// The one axis that `over` names, or the value's only one.
    fn over_axis(&mut self, e: ExprId, over: Option<Arg<'a>>, at: Span, what: &str) -> Option<AxisId> {
        match over {
            Some(arg) => {
                let found = self.over(&arg.value, arg.span)?;
                match (found.axes.as_slice(), found.vars.is_empty() && !found.batch) {
                    ([axis], true) => {
                        if !self.table.axes_of(e).contains(axis) {
                            self.no_such_axis(e, *axis, at);
                            return None;
                        }
                        Some(*axis)
                    }
                    _ => {
                        self.error(Code::WrongArguments, arg.span, format!("`{what}` runs over one axis"));
                        None
                    }
                }
            }
            None => match self.table.axes_of(e) {
                [axis] => Some(*axis),
                axes => {
                    let shown = self.table.having(axes);
                    self.report(
                        Diagnostic::new(Code::OverMissing, at, format!("`{what}` must know over which axis"))
                            .here(format!("this has {shown}"))
                            .help("name it: `over = N`"),
                    );
                    None
                }
            },
        }
    }

    fn softmax(&mut self, mut args: Args<'a>, log: bool) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, args.name) else { return Value::Error };
        let axes = self.table.axes_of(e).to_vec();
        Value::tensor(self.table.push(Op::Softmax { of: e, over: axis, log }, axes, Dtype::Real, args.span))
    }

    // ---- axes

    fn outer(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([a, b]) = self.take_args(args, ["a", "b"]) else { return Value::Error };
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        let mut axes = self.table.axes_of(x).to_vec();
        for axis in self.table.axes_of(y).to_vec() {
            if !axes.contains(&axis) {
                axes.push(axis);
                continue;
            }
            let name = self.table.name(axis).to_string();
            self.report(
                Diagnostic::new(Code::RepeatedAxis, args.span, format!("both sides have the axis `{name}`"))
                    .help(format!("rename one: `rename(x, {name} -> {name}2)`; or write `a * b` for entry by entry")),
            );
            return Value::Error;
        }
        let x = self.table.broadcast(x, &axes, args.span);
        match self.table.binary(BinaryOp::Mul, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None => Value::Error,
        }
    }

    /// `rename(x, Q -> Q2)`: a new name makes a new axis of the same size.
    fn rename_call(&mut self, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
        let Some(ast::Arg { kind: ArgKind::Value(e), .. }) = args.first() else {
            return self.error(Code::WrongArguments, span, "`rename` takes a value and axes, as in `rename(x, Q -> Q2)`");
        };
        let value = self.eval(e, env);
        let Some(mut x) = self.as_tensor(&value, e.span) else { return Value::Error };
        for arg in &args[1..] {
            let ArgKind::Rename(from, to) = &arg.kind else {
                return self.error(Code::WrongArguments, arg.span, "`rename` takes axes as `Q -> Q2`");
            };
            let old = match self.lookup(from, env) {
                Value::Dim(axis) => axis,
                Value::Error => return Value::Error,
                _ => {
                    self.unknown_axis(from, Some(env));
                    return Value::Error;
                }
            };
            if !self.table.axes_of(x).contains(&old) {
                return self.no_such_axis(x, old, e.span);
            }
            let size = self.table.size(old).clone();
            let known = match env.get(&to.text) {
                Some(super::value::Found::Value(Value::Dim(axis))) => Some(axis),
                _ if env.sees_model() => self.model_axis(&to.text),
                _ => None,
            };
            let new = match known {
                Some(axis) if *self.table.size(axis) == size => axis,
                Some(axis) => {
                    let (one, other) = (self.table.show_axis(old), self.table.show_axis(axis));
                    return self.error(Code::SizeMismatch, arg.span, format!("{one} cannot become {other}"));
                }
                None => {
                    let axis = self.table.new_axis(&to.text, size);
                    env.set(&*to.text, Value::Dim(axis));
                    axis
                }
            };
            if self.table.axes_of(x).contains(&new) && new != old {
                let name = self.table.name(new).to_string();
                return self.error(Code::RepeatedAxis, arg.span, format!("the value has the axis `{name}` already"));
            }
            x = self.table.rename(x, old, new, span);
        }
        Value::tensor(x)
    }

    fn axis_arg(&mut self, arg: &Arg<'a>) -> Option<AxisId> {
        let axes = self.as_axes(&arg.value, arg.span)?;
        match axes.as_slice() {
            [axis] => Some(*axis),
            _ => {
                self.error(Code::WrongArguments, arg.span, "one axis is wanted here");
                None
            }
        }
    }

    fn split_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, axis, into]) = self.take_args(args, ["x", "axis", "into"]) else { return Value::Error };
        let (Some(e), Some(from), Some(to)) =
            (self.as_tensor(&x.value, x.span), self.axis_arg(&axis), self.as_axes(&into.value, into.span))
        else {
            return Value::Error;
        };
        if !self.table.axes_of(e).contains(&from) {
            return self.no_such_axis(e, from, x.span);
        }
        if self.table.total(&to) != *self.table.size(from) {
            let (have, want) = (self.table.size(from).to_string(), self.table.total(&to).to_string());
            return self.error(Code::SizeMismatch, into.span, format!("{have} entries cannot be split into {want}"));
        }
        if to.iter().any(|a| self.table.axes_of(e).contains(a)) {
            return self.error(Code::RepeatedAxis, into.span, "the value has one of these axes already");
        }
        Value::tensor(self.table.split(e, from, to, args.span))
    }

    fn join_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, axes, into]) = self.take_args(args, ["x", "axes", "into"]) else { return Value::Error };
        let (Some(e), Some(from), Some(to)) =
            (self.as_tensor(&x.value, x.span), self.as_axes(&axes.value, axes.span), self.axis_arg(&into))
        else {
            return Value::Error;
        };
        for axis in &from {
            if !self.table.axes_of(e).contains(axis) {
                return self.no_such_axis(e, *axis, x.span);
            }
        }
        if self.table.total(&from) != *self.table.size(to) {
            let (have, want) = (self.table.total(&from).to_string(), self.table.size(to).to_string());
            return self.error(Code::SizeMismatch, into.span, format!("{have} entries do not fit an axis of {want}"));
        }
        if self.table.axes_of(e).contains(&to) && !from.contains(&to) {
            return self.error(Code::RepeatedAxis, into.span, "the value has this axis already");
        }
        Value::tensor(self.table.join(e, from, to, args.span))
    }

    /// `concat([a, b], N)`: values that differ in one axis, end to end along N. Scalars count one.
    fn concat_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([list, axis]) = self.take_args(args, ["list", "axis"]) else { return Value::Error };
        let Some(into) = self.axis_arg(&axis) else { return Value::Error };
        let Value::List(items) = &list.value else {
            return self.error(
                Code::WrongKind,
                list.span,
                format!("`concat` takes a list of values, and this is {}", list.value.describe()),
            );
        };
        let mut parts = Vec::new();
        for item in items.clone().iter() {
            match self.as_tensor(item, list.span) {
                Some(e) => parts.push(e),
                None => return Value::Error,
            }
        }
        // Axes that all parts share stay; what is left of each part is laid end to end.
        let shared: Vec<AxisId> = match parts.first() {
            Some(first) => self
                .table
                .axes_of(*first)
                .iter()
                .copied()
                .filter(|a| parts.iter().all(|p| self.table.axes_of(*p).contains(a)))
                .collect(),
            None => return self.error(Code::WrongArguments, list.span, "nothing to concatenate"),
        };
        let along: Vec<Vec<AxisId>> =
            parts.iter().map(|p| self.table.axes_of(*p).iter().copied().filter(|a| !shared.contains(a)).collect()).collect();
        let total = along.iter().fold(Size::known(0), |n, a| n.add(&self.table.total(a)));
        if total != *self.table.size(into) {
            let (have, want) = (total.to_string(), self.table.show_axis(into));
            return self.error(
                Code::SizeMismatch,
                axis.span,
                format!("the parts have {have} entries in all, and the axis is {want}"),
            );
        }
        Value::tensor(self.table.concat(parts, along, into, args.span))
    }

    /// `slice(x, Z, 0..8)`, or `slice(x, Z, 0..8, Q)` to name the new axis.
    fn slice_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let named = if args.list.len() == 4 { args.list.pop() } else { None };
        let Some([x, axis, range]) = self.take_args(args, ["x", "axis", "range"]) else { return Value::Error };
        let (Some(e), Some(from)) = (self.as_tensor(&x.value, x.span), self.axis_arg(&axis)) else { return Value::Error };
        let Value::Range { lo, hi, inclusive } = range.value else {
            return self.error(
                Code::WrongKind,
                range.span,
                format!("`slice` takes a range, and this is {}", range.value.describe()),
            );
        };
        let (lo, hi) = (lo as i64, hi as i64 + i64::from(inclusive));
        if !self.table.axes_of(e).contains(&from) {
            return self.no_such_axis(e, from, x.span);
        }
        if lo < 0 || hi < lo || self.table.size(from).value().is_some_and(|n| hi > n) {
            let shown = self.table.show_axis(from);
            return self.error(Code::OutOfDomain, range.span, format!("{lo}..{hi} does not lie in [{shown}]"));
        }
        let into = match named {
            Some(arg) => {
                let Some(into) = self.axis_arg(&arg) else { return Value::Error };
                if *self.table.size(into) != Size::known(hi - lo) {
                    let shown = self.table.show_axis(into);
                    return self.error(Code::SizeMismatch, arg.span, format!("{} entries do not fit [{shown}]", hi - lo));
                }
                into
            }
            None => self.table.new_axis("slice", Size::known(hi - lo)),
        };
        Value::tensor(self.table.slice(e, from, Size::known(lo), into, args.span))
    }

    fn sort_call(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(arg) = over else {
            self.report(
                Diagnostic::new(Code::OverMissing, args.span, "`sort` must know over what")
                    .help("name it: `over = N`, or `over = [B, t]` for a batch"),
            );
            return Value::Error;
        };
        let Some(found) = self.over(&arg.value, arg.span) else { return Value::Error };
        if found.vars.is_empty() && !found.batch {
            let [axis] = found.axes[..] else {
                return self.error(Code::WrongArguments, arg.span, "`sort` runs over one axis, or over the batch and indices");
            };
            if !self.table.axes_of(e).contains(&axis) {
                return self.no_such_axis(e, axis, x.span);
            }
            return Value::tensor(self.table.along(Op::Sort { of: e, axis }, e, axis, Some(axis), args.span));
        }
        if !found.axes.is_empty() {
            return self.error(Code::WrongArguments, arg.span, "`sort` runs over one axis, or over the batch and indices");
        }
        let size = self.count_of(&found);
        let into = self.table.new_axis("sorted", size);
        let mut axes = vec![into];
        axes.extend(self.table.axes_of(e));
        Value::tensor(self.table.push(
            Op::SortAll { vars: found.vars, batch: found.batch, body: e, into },
            axes,
            Dtype::Real,
            args.span,
        ))
    }

    /// `top(x, E, over = N)`: places of the largest entries, along E.
    fn top(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x, count]) = self.take_args(&mut args, ["x", "axis"]) else { return Value::Error };
        let (Some(e), Some(into)) = (self.as_tensor(&x.value, x.span), self.axis_arg(&count)) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, "top") else { return Value::Error };
        if let (Some(n), Some(k)) = (self.table.size(axis).value(), self.table.size(into).value())
            && k > n
        {
            return self.error(Code::SizeMismatch, count.span, format!("the largest {k} of {n} entries"));
        }
        Value::tensor(self.table.along(Op::Top { of: e, axis, into }, e, axis, Some(into), args.span))
    }

    fn take_call(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x, places]) = self.take_args(&mut args, ["x", "places"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, "take") else { return Value::Error };
        if let Value::Index(index) = &places.value {
            return Value::tensor(self.table.at(e, axis, index.clone(), args.span));
        }
        let Some(at) = self.as_tensor(&places.value, places.span) else { return Value::Error };
        match self.table.take(e, axis, at, args.span) {
            Some(e) => Value::tensor(e),
            None => self.error(Code::RepeatedAxis, places.span, "the places share an axis with the value"),
        }
    }

    fn argmax(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, "argmax") else { return Value::Error };
        Value::tensor(self.table.along(Op::ArgMax { of: e, axis }, e, axis, None, args.span))
    }

    /// `hot(place, N)`: one at the place, zero elsewhere along N.
    fn hot(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([place, axis]) = self.take_args(args, ["place", "axis"]) else { return Value::Error };
        let (Some(e), Some(axis)) = (self.as_tensor(&place.value, place.span), self.axis_arg(&axis)) else { return Value::Error };
        if self.table.axes_of(e).contains(&axis) {
            return self.error(Code::RepeatedAxis, place.span, "the place has this axis already");
        }
        let mut axes = self.table.axes_of(e).to_vec();
        axes.push(axis);
        let wide = self.table.broadcast(e, &axes, args.span);
        let iota = self.table.push(Op::Iota(axis), vec![axis], Dtype::Real, args.span);
        let (one, zero) = (self.table.constant(1.0, args.span), self.table.constant(0.0, args.span));
        let same = self.table.binary(BinaryOp::Eq, wide, iota, args.span);
        match same.and_then(|c| self.table.select(c, one, zero, args.span)) {
            Some(e) => Value::tensor(e),
            None => Value::Error,
        }
    }

    fn iota(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([axis]) = self.take_args(args, ["axis"]) else { return Value::Error };
        let Some(axis) = self.axis_arg(&axis) else { return Value::Error };
        Value::tensor(self.table.push(Op::Iota(axis), vec![axis], Dtype::Real, args.span))
    }

    /// `ahead(x, S)`: entry s + 1 at place s, zero at the last.
    fn ahead(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, along]) = self.take_args(args, ["x", "axis"]) else { return Value::Error };
        let (Some(e), Some(axis)) = (self.as_tensor(&x.value, x.span), self.axis_arg(&along)) else { return Value::Error };
        if !self.table.axes_of(e).contains(&axis) {
            return self.no_such_axis(e, axis, x.span);
        }
        let size = self.table.size(axis).clone();
        let Some(n) = size.value() else {
            self.unbound(&size, along.span);
            return Value::Error;
        };
        let span = args.span;
        let rest: Vec<AxisId> = self.table.axes_of(e).iter().copied().filter(|a| *a != axis).collect();
        let short = self.table.new_axis("rest", Size::known((n - 1).max(0)));
        let tail = self.table.slice(e, axis, Size::known(1), short, span);
        let zero = self.table.constant(0.0, span);
        let last = self.table.broadcast(zero, &rest, span);
        Value::tensor(self.table.concat(vec![tail, last], vec![vec![short], vec![]], axis, span))
    }

    // ---- values

    fn filled(&mut self, args: &mut Args<'a>, value: f64) -> Value<'a> {
        let Some([axes]) = self.take_args(args, ["axes"]) else { return Value::Error };
        let Some(axes) = self.as_axes(&axes.value, axes.span) else { return Value::Error };
        let e = self.table.constant(value, args.span);
        Value::tensor(self.table.broadcast(e, &axes, args.span))
    }

    fn noise(&mut self, args: &mut Args<'a>, noise: Noise) -> Value<'a> {
        let Some([axes]) = self.take_args(args, ["axes"]) else { return Value::Error };
        let Some(axes) = self.as_axes(&axes.value, axes.span) else { return Value::Error };
        let from = self.site.draw_from.clone();
        self.new_draw(noise, axes, from, args.span)
    }

    fn new_draw(&mut self, noise: Noise, axes: Vec<AxisId>, from: super::DrawFrom, span: Span) -> Value<'a> {
        let base = if self.site.draw_base.is_empty() { "draw".to_string() } else { self.site.draw_base.clone() };
        // Two equations of one name, or an equation and a loss, count on: a name is one stream of random numbers.
        let name = loop {
            let name = if self.site.draws == 0 { base.clone() } else { format!("{base}.{}", self.site.draws) };
            self.site.draws += 1;
            if self.draw_names.insert((self.site.system, name.clone())) {
                break name;
            }
        };
        let per_sample = matches!(from, super::DrawFrom::Sample);
        self.draws.push(hir::Draw { name, noise, axes: axes.clone(), vars: self.site.active.clone(), per_sample });
        self.draw_from.push(from);
        let id = self.draws.len() - 1;
        Value::tensor(self.table.push(Op::Draw(id), axes, Dtype::Real, span))
    }

    /// `subset(E, 2)`: distinct places of an axis, the same for every sample.
    fn subset(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([axis, count]) = self.take_args(args, ["axis", "count"]) else { return Value::Error };
        let (Some(of), Some(k)) = (self.as_int(&axis.value, axis.span), self.as_int(&count.value, count.span)) else {
            return Value::Error;
        };
        if k < 1 || k > of || of > i64::from(u32::MAX) {
            return self.error(Code::BadSetting, count.span, format!("there are no {k} distinct places out of {of}"));
        }
        let into = self.table.new_axis("pick", Size::known(k));
        let from = if self.site.system == ACT { super::DrawFrom::Sample } else { super::DrawFrom::Shared };
        self.new_draw(Noise::Subset { of: of as u32 }, vec![into], from, args.span)
    }

    fn attach(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, extra]) = self.take_args(args, ["x", "extra"]) else { return Value::Error };
        let (Some(expr), Some(extra)) = (self.as_tensor(&x.value, x.span), self.as_tensor(&extra.value, extra.span)) else {
            return Value::Error;
        };
        Value::Tensor(Tensor { expr, attached: Some(extra) })
    }

    fn attached(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, otherwise]) = self.take_args(args, ["x", "otherwise"]) else { return Value::Error };
        match x.value {
            Value::Tensor(Tensor { attached: Some(extra), .. }) => Value::tensor(extra),
            _ => otherwise.value,
        }
    }

    // ---- gradients

    fn stop_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x]) = self.take_args(args, ["x"]) else { return Value::Error };
        let span = args.span;
        match &x.value {
            Value::Num(_) | Value::Zeros | Value::Bool(_) | Value::Dim(_) | Value::Size(_) => x.value,
            Value::Ensemble(axis, inner) => {
                let inner = self.map(&inner.clone(), x.span, &mut |cx, e| Some(cx.table.stop(e, span)));
                if inner.is_error() { Value::Error } else { Value::Ensemble(*axis, Rc::new(inner)) }
            }
            other => self.map(other, x.span, &mut |cx, e| Some(cx.table.stop(e, span))),
        }
    }

    fn frozen(&mut self, args: &mut Args<'a>) -> Value<'a> {
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

    fn grad_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([of, wrt]) = self.take_args(args, ["of", "by"]) else { return Value::Error };
        self.grad(&of, &wrt, false, args.span)
    }

    /// `partial(f(x, y), x)`: the call again, on arguments under names of their own.
    fn partial(&mut self, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
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
                other => self.map(other, arg.span, &mut |cx, e| Some(cx.table.alias(e, span))),
            };
            if leaves == targets {
                if found.is_some() {
                    self.report(
                        Diagnostic::new(Code::GradTarget, by.span, "two arguments of the call are this value")
                            .help("give one of them another name with `let`"),
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

    // ---- numbers

    fn size_of(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([axis]) = self.take_args(args, ["axis"]) else { return Value::Error };
        match self.as_axes(&axis.value, axis.span) {
            Some(axes) => {
                let total = self.table.total(&axes);
                match total.value() {
                    Some(n) => Value::Num(n as f64),
                    None => Value::Size(total),
                }
            }
            None => Value::Error,
        }
    }

    /// How many entries a batch statistic runs over.
    fn count(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([over]) = self.take_args(args, ["over"]) else { return Value::Error };
        let Some(found) = self.over(&over.value, over.span) else { return Value::Error };
        let axes = self.table.total(&found.axes);
        if found.vars.is_empty() && !found.batch {
            return match axes.value() {
                Some(n) => Value::Num(n as f64),
                None => Value::Size(axes),
            };
        }
        // The number of points of an inferred index is not known yet: it is counted when the model runs.
        let one = self.table.constant(1.0, args.span);
        let count = self.table.push(
            Op::Fold { op: ReduceOp::Sum, vars: found.vars, batch: found.batch, body: one },
            Vec::new(),
            Dtype::Real,
            args.span,
        );
        match axes.value() {
            Some(1) => Value::tensor(count),
            _ => {
                let Some(n) = self.as_tensor(&Value::Size(axes), args.span) else { return Value::Error };
                self.table.binary(BinaryOp::Mul, count, n, args.span).map_or(Value::Error, Value::tensor)
            }
        }
    }

    /// The number of entries as a size: symbolic where an index's range is not known yet.
    fn count_of(&mut self, over: &Over) -> Size {
        let mut size = self.table.total(&over.axes);
        if over.batch
            && let Some(batch) = self.dims.batch
        {
            size = size.mul(self.table.size(batch));
        }
        for var in &over.vars {
            let decl = &self.vars[var.0 as usize];
            let n = match decl.range {
                Some((lo, hi)) => Size::known((hi - lo).max(0)),
                None => Size::symbol(&format!("#{}", var.0)),
            };
            size = size.mul(&n);
        }
        size
    }

    fn len(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([list]) = self.take_args(args, ["list"]) else { return Value::Error };
        match &list.value {
            Value::List(items) => Value::Num(items.len() as f64),
            other => self.error(Code::WrongKind, list.span, format!("`len` counts a list, and this is {}", other.describe())),
        }
    }

    fn bound_of(&mut self, args: &mut Args<'a>, low: bool) -> Value<'a> {
        let Some([range]) = self.take_args(args, ["range"]) else { return Value::Error };
        match range.value {
            Value::Range { lo, hi, .. } => Value::Num(if low { lo } else { hi }),
            other => self.error(Code::WrongKind, range.span, format!("a range is wanted here, and this is {}", other.describe())),
        }
    }

    /// Clipped to the action's range.
    fn bounded(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([u]) = self.take_args(args, ["u"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&u.value, u.span) else { return Value::Error };
        let (low, high) = self.action_range();
        let (low, high) = (self.table.constant(low, args.span), self.table.constant(high, args.span));
        let e = self
            .table
            .binary(BinaryOp::Max, e, low, args.span)
            .and_then(|e| self.table.binary(BinaryOp::Min, e, high, args.span));
        e.map_or(Value::Error, Value::tensor)
    }

    // ---- arguments

    /// The arguments of a builtin: as many as it takes, by place or by name.
    fn take_args<const N: usize>(&mut self, args: &mut Args<'a>, names: [&str; N]) -> Option<[Arg<'a>; N]> {
        let mut slots: [Option<Arg<'a>>; N] = [const { None }; N];
        let mut next = 0;
        for arg in args.list.drain(..) {
            let at = match arg.name {
                Some(label) => match names.iter().position(|n| *n == label.text) {
                    Some(at) => at,
                    None => {
                        self.report(
                            Diagnostic::new(
                                Code::WrongArguments,
                                label.span,
                                format!("`{}` has no parameter `{}`", args.name, label.text),
                            )
                            .suggest(&label.text, names.iter().copied().chain(["over"])),
                        );
                        return None;
                    }
                },
                None => {
                    while next < N && slots[next].is_some() {
                        next += 1;
                    }
                    next
                }
            };
            if at >= N {
                self.report(
                    Diagnostic::new(
                        Code::WrongArguments,
                        arg.span,
                        format!("`{}` takes {}", args.name, super::module::count(N, "argument")),
                    )
                    .here("this one is too many"),
                );
                return None;
            }
            slots[at] = Some(arg);
        }
        for (slot, name) in slots.iter().zip(names) {
            if slot.is_none() {
                self.report(
                    Diagnostic::new(Code::WrongArguments, args.span, format!("`{}` needs `{name}`", args.name))
                        .note(format!("it takes {}", super::listed(names))),
                );
                return None;
            }
        }
        Some(slots.map(|s| s.expect("every slot was filled")))
    }

    pub(super) fn index_of(var: VarId) -> Index {
        Index { terms: vec![(var, 1)], offset: 0 }
    }
}

struct Args<'a> {
    name: &'static str,
    list: Vec<Arg<'a>>,
    span: Span,
}

impl<'a> Args<'a> {
    /// Takes the argument of a name out.
    fn named(&mut self, name: &str) -> Option<Arg<'a>> {
        let at = self.list.iter().position(|a| a.name.is_some_and(|n| n.text == name))?;
        Some(self.list.remove(at))
    }
}

/// What a reduction runs over.
#[derive(Default)]
struct Over {
    axes: Vec<AxisId>,
    vars: Vec<VarId>,
    batch: bool,
}
