//! Shapes, and the conversions between values known when compiling and arrays.

use std::rc::Rc;

use super::Ctx;
use super::value::{Env, Found, Record, Tensor, Value};
use crate::ast::{self, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, Dtype, ExprId, Index, Op, Size};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// A number known when compiling, symbolic sizes included.
    pub(super) fn as_size(&mut self, value: &Value<'a>, span: Span) -> Option<Size> {
        match value {
            Value::Num(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(Size::known(*n as i64)),
            Value::Num(n) => {
                self.error(Code::SizeMismatch, span, format!("a size is a whole number, and this is {n}"));
                None
            }
            Value::Size(s) => Some(s.clone()),
            Value::Dim(axis) => Some(self.draft.table.size(*axis).clone()),
            Value::Index(i) if i.constant().is_some() => i.constant().map(Size::known),
            Value::Error => None,
            other => {
                self.not_static(other, span);
                None
            }
        }
    }

    /// A whole number that must not depend on the task.
    pub(super) fn as_int(&mut self, value: &Value<'a>, span: Span) -> Option<i64> {
        let size = self.as_size(value, span)?;
        match size.value() {
            Some(n) => Some(n),
            None => {
                self.unbound(&size, span);
                None
            }
        }
    }

    pub(super) fn as_number(&mut self, value: &Value<'a>, span: Span) -> Option<f64> {
        match value {
            Value::Num(n) => Some(*n),
            Value::Size(_) | Value::Dim(_) => self.as_int(value, span).map(|n| n as f64),
            Value::Index(i) if i.constant().is_some() => i.constant().map(|n| n as f64),
            Value::Error => None,
            other => {
                self.not_static(other, span);
                None
            }
        }
    }

    fn not_static(&mut self, value: &Value<'a>, span: Span) {
        if self.needs_task(value, span) {
            return;
        }
        let d = match value {
            Value::Tensor(_) | Value::Index(_) | Value::Record(_) | Value::Family(_) | Value::Memory(_) | Value::Dist(_) => {
                Diagnostic::new(Code::NotStatic, span, "this must be known when compiling")
                    .here(format!("{}, known only when the model runs", value.describe()))
            }
            _ => Diagnostic::new(Code::WrongKind, span, format!("a number is wanted here, and this is {}", value.describe())),
        };
        self.report(d);
    }

    /// A number that would be known if the task's sizes were: says so.
    pub(super) fn needs_task(&mut self, value: &Value<'a>, span: Span) -> bool {
        let Value::Tensor(t) = value else { return false };
        let sizes = self.sizes_in(t.expr);
        if let Some(sizes) = &sizes {
            let all = sizes.iter().fold(Size::known(0), |sum, size| sum.add(size));
            self.unbound(&all, span);
        }
        sizes.is_some()
    }

    /// The sizes that an expression is made of, where it is made of nothing else.
    pub(super) fn sizes_in(&self, e: ExprId) -> Option<Vec<Size>> {
        let mut open = vec![e];
        let mut sizes = Vec::new();
        while let Some(e) = open.pop() {
            match self.draft.table.op(e) {
                Op::Size(size) => sizes.push(size.clone()),
                Op::Const(_) | Op::Unary(..) | Op::Binary(..) => self.draft.table.op(e).operands(|x| open.push(x)),
                _ => return None,
            }
        }
        (!sizes.is_empty()).then_some(sizes)
    }

    pub(super) fn unbound(&mut self, size: &Size, span: Span) {
        let names = size.symbols().join(", ");
        let example = size.symbols().first().map_or("O", |s| *s).to_string();
        self.report(
            Diagnostic::new(Code::UnboundSize, span, format!("this needs the size of `{names}`, which only the task gives"))
                .help(format!("give it: `--dim {example}=..` or `--task ..`")),
        );
    }

    /// Any value as one array. Latents are not arrays: see [`Ctx::as_vector`].
    pub(super) fn as_tensor(&mut self, value: &Value<'a>, span: Span) -> Option<ExprId> {
        match value {
            Value::Tensor(t) => Some(t.expr),
            Value::Num(n) => Some(self.draft.table.constant(*n, span)),
            Value::Zeros => Some(self.draft.table.constant(0.0, span)),
            Value::Bool(b) => Some(self.draft.table.constant(f64::from(u8::from(*b)), span)),
            Value::Size(size) => Some(self.size_expr(size.clone(), span)),
            Value::Dim(axis) => {
                let size = self.draft.table.size(*axis).clone();
                Some(self.size_expr(size, span))
            }
            Value::Index(index) => Some(self.draft.table.index(index.clone(), span)),
            Value::Memory(m) => Some(m.out),
            Value::Family(f) => {
                let value = self.read_plain(f, span);
                self.as_tensor(&value, span)
            }
            Value::Record(r) if r.fields.len() == 1 => self.as_tensor(&r.fields[0].1.clone(), span),
            Value::Error => None,
            Value::Record(r) => {
                let names: Vec<&str> = r.fields.iter().map(|(n, _)| n.as_str()).collect();
                let d = Diagnostic::new(Code::WrongKind, span, "an array is wanted here, and this is a record")
                    .help(format!("pick one of its fields: {}", super::listed(names)));
                self.report(d);
                None
            }
            Value::Dist(_) => {
                self.report(
                    Diagnostic::new(Code::WrongKind, span, "an array is wanted here, and this is a distribution")
                        .help("take its `.mean` or `.mode`, or draw from it with `x ~ ..`"),
                );
                None
            }
            Value::Ensemble(axis, _) => {
                let name = self.draft.table.name(*axis).to_string();
                self.ensemble_error(&name, span);
                None
            }
            other => {
                self.error(Code::WrongKind, span, format!("an array is wanted here, and this is {}", other.describe()));
                None
            }
        }
    }

    pub(super) fn ensemble_error(&mut self, axis: &str, span: Span) {
        self.report(
            Diagnostic::new(Code::EnsembleIndex, span, format!("this is an ensemble of {axis} members"))
                .help(format!("pick a member behind the call, as in `mean e in 0..{axis} {{ q(z, a)[e].mean }}`")),
        );
    }

    fn size_expr(&mut self, size: Size, span: Span) -> ExprId {
        match size.value() {
            Some(n) => self.draft.table.constant(n as f64, span),
            None => self.draft.table.push(Op::Size(size), Vec::new(), Dtype::Real, span),
        }
    }

    /// All arrays of a value in order, with their axes: what a net reads.
    pub(super) fn leaves(&mut self, value: &Value<'a>, span: Span) -> Option<Vec<ExprId>> {
        match value {
            Value::Record(r) => {
                let r = r.clone();
                let mut all = Vec::new();
                for (_, field) in &r.fields {
                    all.extend(self.leaves(field, span)?);
                }
                Some(all)
            }
            Value::Family(f) => {
                let value = self.read_plain(f, span);
                self.leaves(&value, span)
            }
            other => Some(vec![self.as_tensor(other, span)?]),
        }
    }

    /// Several values side by side along one new axis, each row-major in the order of the axes given with it.
    pub(super) fn as_vector(&mut self, parts: Vec<(ExprId, Vec<AxisId>)>, span: Span) -> (ExprId, AxisId) {
        if let [(one, axes)] = parts.as_slice()
            && let [axis] = axes[..]
        {
            return (*one, axis);
        }
        let (parts, along): (Vec<ExprId>, Vec<Vec<AxisId>>) = parts.into_iter().unzip();
        let size = along.iter().fold(Size::known(0), |n, axes| n.add(&self.draft.table.total(axes)));
        let into = self.draft.table.new_axis("in", size);
        (self.draft.table.concat(parts, along, into, span), into)
    }

    /// A truth value for each entry: what a condition is.
    pub(super) fn as_condition(&mut self, value: &Value<'a>, span: Span) -> Option<ExprId> {
        let e = self.as_tensor(value, span)?;
        if matches!(value, Value::Bool(_)) || self.draft.table.dtype(e) == Dtype::Bool {
            return Some(e);
        }
        let what = if matches!(value, Value::Tensor(_)) { "an array of numbers" } else { value.describe() };
        self.report(
            Diagnostic::new(Code::WrongKind, span, format!("a condition is wanted here, and this is {what}"))
                .help("compare it with something: `x > 0`"),
        );
        None
    }

    /// A range of whole numbers, `lo..hi` without its end.
    pub(super) fn whole_range(&mut self, value: &Value<'a>, span: Span) -> Option<(i64, i64)> {
        let Value::Range { lo, hi, inclusive } = *value else { return None };
        if let Some(part) = [lo, hi].into_iter().find(|n| n.fract() != 0.0 || n.abs() > 1e9) {
            let why = if part.abs() > 1e9 { "is out of reach" } else { "is not a whole number" };
            self.report(Diagnostic::new(Code::WrongKind, span, "an index takes whole numbers").here(format!("{part} {why}")));
            return None;
        }
        Some((lo as i64, hi as i64 + i64::from(inclusive)))
    }

    /// A subscript: a sum of index variables and known numbers.
    pub(super) fn as_index(&mut self, value: &Value<'a>, span: Span) -> Option<Index> {
        match value {
            Value::Index(i) => Some(i.clone()),
            Value::Num(_) | Value::Size(_) | Value::Dim(_) => {
                self.as_int(value, span).map(|offset| Index { terms: Vec::new(), offset })
            }
            Value::Error => None,
            other => {
                let d = Diagnostic::new(
                    Code::NotAnIndex,
                    span,
                    format!("a subscript is a sum of indices and numbers, and this is {}", other.describe()),
                )
                .help("for a place that is computed, write `take(x, place, over = AXIS)`");
                self.report(d);
                None
            }
        }
    }

    /// Values are of one sample: the batch is none of their axes.
    pub(super) fn no_batch(&mut self, axes: &[AxisId], span: Span) -> bool {
        let Some(batch) = self.draft.dims.batch.filter(|batch| axes.contains(batch)) else { return true };
        let name = self.draft.table.name(batch).to_string();
        self.report(
            Diagnostic::new(Code::BatchAxis, span, format!("`{name}` is the batch, and no axis of a value"))
                .help(format!(
                    "`mean(x, over = {name})` reduces over the samples, `collect(x, over = {name})` lays them along an axis"
                ))
                .help(format!("for another axis of that size, `dim N = {name}`")),
        );
        false
    }

    /// Whether these can be the axes of a value.
    pub(super) fn are_proper(&mut self, axes: &[AxisId], span: Span) -> bool {
        for (i, a) in axes.iter().enumerate() {
            if axes[..i].contains(a) {
                let name = self.draft.table.name(*a).to_string();
                self.report(
                    Diagnostic::new(Code::RepeatedAxis, span, format!("the axis `{name}` stands here twice"))
                        .help(format!("a value carries an axis once; use `{name}2 = size({name})` or `rename(x, {name} -> {name}2)` for the second")),
                );
                return false;
            }
        }
        self.no_batch(axes, span)
    }

    pub(super) fn unknown_axis(&mut self, name: &Ident, env: Option<&Env<'a>>) {
        let mut known: Vec<String> = self.draft.dims.names().map(str::to_string).collect();
        if let Some(env) = env {
            known.extend(env.names());
        }
        let d = Diagnostic::new(Code::UnknownAxis, name.span, format!("there is no axis `{}`", name.text))
            .suggest(&name.text, known.iter().map(String::as_str));
        self.report(match env {
            _ if !d.helps.is_empty() => d,
            Some(env) if !env.sees_model() => d.help(format!("make it where it is first needed: `[{} = 16]`", name.text)),
            _ => d.help(format!("declare it: `dim {} = ..`", name.text)),
        });
    }

    /// The axes of a written shape. `[N = 16]` makes N in this scope.
    pub(super) fn shape(&mut self, shape: &'a ast::Shape, env: &Env<'a>) -> Option<Vec<AxisId>> {
        let mut axes = Vec::new();
        let mut ok = true;
        for axis in &shape.axes {
            match &axis.size {
                Some(e) => match self.local_axis(&axis.name, e, env) {
                    Some(id) => axes.push(id),
                    None => ok = false,
                },
                None => match self.axes_named(&axis.name, env) {
                    Some(found) => axes.extend(found),
                    None => ok = false,
                },
            }
        }
        (ok && self.are_proper(&axes, shape.span)).then_some(axes)
    }

    /// `N = e`: the axis N of this scope, made if it is new or of another size.
    pub(super) fn local_axis(&mut self, name: &'a Ident, e: &'a ast::Expr, env: &Env<'a>) -> Option<AxisId> {
        let value = self.eval(e, env);
        let size = self.as_size(&value, e.span)?;
        if size.value().is_some_and(|n| n < 0) {
            self.error(Code::SizeMismatch, e.span, format!("`{}` would have the size {size}", name.text));
            return None;
        }
        if let Some(Found::Value(Value::Dim(known))) = env.get_here(&name.text)
            && *self.draft.table.size(known) == size
        {
            return Some(known);
        }
        let axis = self.draft.table.new_axis(&name.text, size);
        env.set(&*name.text, Value::Dim(axis));
        Some(axis)
    }

    /// The axes that a letter stands for: one, or those of an `X..`.
    fn axes_named(&mut self, name: &Ident, env: &Env<'a>) -> Option<Vec<AxisId>> {
        match env.get(&name.text) {
            Some(Found::Value(Value::Dim(axis))) => return Some(vec![axis]),
            Some(Found::Value(Value::Axes(axes))) => return Some(axes.to_vec()),
            _ => {}
        }
        let axis = if env.sees_model() { self.model_axis(&name.text) } else { None };
        match axis {
            Some(axis) => Some(vec![axis]),
            None => {
                self.unknown_axis(name, Some(env));
                None
            }
        }
    }

    /// Axes of a value out of what says which: an axis, a list of axes, `X..`.
    pub(super) fn as_axes(&mut self, value: &Value<'a>, span: Span) -> Option<Vec<AxisId>> {
        let axes = self.listed_axes(value, span)?;
        self.are_proper(&axes, span).then_some(axes)
    }

    /// The same, the batch and repetitions included.
    pub(super) fn listed_axes(&mut self, value: &Value<'a>, span: Span) -> Option<Vec<AxisId>> {
        match value {
            Value::Dim(axis) => Some(vec![*axis]),
            Value::Axes(axes) => Some(axes.to_vec()),
            Value::List(items) => {
                let items = items.clone();
                let mut all = Vec::new();
                for item in items.iter() {
                    all.extend(self.listed_axes(item, span)?);
                }
                Some(all)
            }
            Value::Error => None,
            other => {
                let d = Diagnostic::new(Code::WrongKind, span, format!("axes are wanted here, and this is {}", other.describe()));
                self.report(match other {
                    Value::Num(n) => d.help(format!("an axis has a name: `[S = {n}]`")),
                    _ => d.help("write them in brackets: `[Q, A]`"),
                });
                None
            }
        }
    }

    /// Whether two sets of axes are the same, whatever their order.
    pub(super) fn same_axes(&self, a: &[AxisId], b: &[AxisId]) -> bool {
        a.len() == b.len() && a.iter().all(|x| b.contains(x))
    }

    /// Applies `f` to every array of a value, keeping its structure.
    pub(super) fn map(
        &mut self,
        value: &Value<'a>,
        span: Span,
        f: &mut dyn FnMut(&mut Self, ExprId) -> Option<ExprId>,
    ) -> Value<'a> {
        match value {
            Value::Record(r) => {
                let mut fields = Vec::new();
                for (name, field) in &r.fields {
                    fields.push((name.clone(), self.map(field, span, f)));
                }
                if fields.iter().any(|(_, v)| v.is_error()) {
                    return Value::Error;
                }
                Value::Record(Rc::new(Record { latent: r.latent, fields }))
            }
            Value::Tensor(t) => {
                let attached = match t.attached {
                    Some(extra) => f(self, extra),
                    None => None,
                };
                match f(self, t.expr) {
                    Some(expr) => Value::Tensor(Tensor { expr, attached }),
                    None => Value::Error,
                }
            }
            Value::Family(family) => {
                let value = self.read_plain(family, span);
                self.map(&value, span, f)
            }
            Value::Memory(m) => {
                let mut carries = Vec::new();
                for c in &m.carries {
                    match f(self, *c) {
                        Some(c) => carries.push(c),
                        None => return Value::Error,
                    }
                }
                match f(self, m.out) {
                    Some(out) => Value::Memory(Rc::new(super::value::MemoryValue { module: m.module, out, carries })),
                    None => Value::Error,
                }
            }
            Value::Dist(d) => {
                let d = d.clone();
                let mut args = Vec::new();
                for (name, value) in &d.args {
                    let value = match value {
                        Value::Tensor(_) => self.map(value, span, f),
                        other => other.clone(),
                    };
                    args.push((name.clone(), value));
                }
                self.make_dist(d.def, args, d.letters.clone(), d.module)
            }
            other => match self.as_tensor(other, span) {
                Some(e) => f(self, e).map_or(Value::Error, Value::tensor),
                None => Value::Error,
            },
        }
    }
}
