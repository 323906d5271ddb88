//! Functions that make arrays, or change their axes.

use super::Ctx;
use super::builtins::Args;
use super::call::Arg;
use super::value::{Env, Value};
use crate::ast::{self, ArgKind};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, BinaryOp, Dtype, ExprId, Op, Size};
use crate::source::Span;

impl<'a> Ctx<'a> {
    pub(super) fn outer(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([a, b]) = self.take_args(args, ["a", "b"]) else { return Value::Error };
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        let mut axes = self.draft.table.axes_of(x).to_vec();
        for axis in self.draft.table.axes_of(y).to_vec() {
            if !axes.contains(&axis) {
                axes.push(axis);
                continue;
            }
            let name = self.draft.table.name(axis).to_string();
            self.report(
                Diagnostic::new(Code::RepeatedAxis, args.span, format!("both sides have the axis `{name}`"))
                    .help(format!("rename one: `rename(x, {name} -> {name}2)`; or write `a * b` for entry by entry")),
            );
            return Value::Error;
        }
        let x = self.draft.table.broadcast(x, &axes, args.span);
        match self.draft.table.binary(BinaryOp::Mul, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None => Value::Error,
        }
    }

    /// `rename(x, Q -> Q2)`: a new name makes a new axis of the same size.
    pub(super) fn rename_call(&mut self, args: &'a [ast::Arg], env: &Env<'a>, span: Span) -> Value<'a> {
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
            if !self.draft.table.axes_of(x).contains(&old) {
                return self.no_such_axis(x, old, e.span);
            }
            let size = self.draft.table.size(old).clone();
            let new = self.axis_named(&to.text, &size, env);
            if *self.draft.table.size(new) != size {
                let (one, other) = (self.draft.table.show_axis(old), self.draft.table.show_axis(new));
                return self.error(Code::SizeMismatch, arg.span, format!("{one} cannot become {other}"));
            }
            if !self.no_batch(&[new], arg.span) {
                return Value::Error;
            }
            if self.draft.table.axes_of(x).contains(&new) && new != old {
                let name = self.draft.table.name(new).to_string();
                return self.error(Code::RepeatedAxis, arg.span, format!("the value has the axis `{name}` already"));
            }
            x = self.draft.table.rename(x, old, new, span);
        }
        Value::tensor(x)
    }

    /// The axis that a name means here; a name that nothing has makes one of that size.
    pub(super) fn axis_named(&mut self, name: &str, size: &Size, env: &Env<'a>) -> AxisId {
        let known = match env.get(name) {
            Some(super::value::Found::Value(Value::Dim(axis))) => Some(axis),
            _ if env.sees_model() => self.model_axis(name),
            _ => None,
        };
        known.unwrap_or_else(|| {
            let axis = self.draft.table.new_axis(name, size.clone());
            env.set(name.to_string(), Value::Dim(axis));
            axis
        })
    }

    pub(super) fn axis_arg(&mut self, arg: &Arg<'a>) -> Option<AxisId> {
        let axes = self.as_axes(&arg.value, arg.span)?;
        match axes.as_slice() {
            [axis] => Some(*axis),
            _ => {
                self.error(Code::WrongArguments, arg.span, "one axis is wanted here");
                None
            }
        }
    }

    pub(super) fn split_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, axis, into]) = self.take_args(args, ["x", "axis", "into"]) else { return Value::Error };
        let (Some(e), Some(from), Some(to)) =
            (self.as_tensor(&x.value, x.span), self.axis_arg(&axis), self.as_axes(&into.value, into.span))
        else {
            return Value::Error;
        };
        if !self.draft.table.axes_of(e).contains(&from) {
            return self.no_such_axis(e, from, x.span);
        }
        if self.draft.table.total(&to) != *self.draft.table.size(from) {
            let (have, want) = (self.draft.table.size(from).to_string(), self.draft.table.total(&to).to_string());
            return self.error(Code::SizeMismatch, into.span, format!("{have} entries cannot be split into {want}"));
        }
        if to.iter().any(|a| self.draft.table.axes_of(e).contains(a)) {
            return self.error(Code::RepeatedAxis, into.span, "the value has one of these axes already");
        }
        Value::tensor(self.draft.table.split(e, from, to, args.span))
    }

    pub(super) fn join_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, axes, into]) = self.take_args(args, ["x", "axes", "into"]) else { return Value::Error };
        let (Some(e), Some(from), Some(to)) =
            (self.as_tensor(&x.value, x.span), self.as_axes(&axes.value, axes.span), self.axis_arg(&into))
        else {
            return Value::Error;
        };
        for axis in &from {
            if !self.draft.table.axes_of(e).contains(axis) {
                return self.no_such_axis(e, *axis, x.span);
            }
        }
        if self.draft.table.total(&from) != *self.draft.table.size(to) {
            let (have, want) = (self.draft.table.total(&from).to_string(), self.draft.table.size(to).to_string());
            return self.error(Code::SizeMismatch, into.span, format!("{have} entries do not fit an axis of {want}"));
        }
        if self.draft.table.axes_of(e).contains(&to) && !from.contains(&to) {
            return self.error(Code::RepeatedAxis, into.span, "the value has this axis already");
        }
        Value::tensor(self.draft.table.join(e, from, to, args.span))
    }

    /// `concat([a, b], N)`: values that differ in one axis, end to end along N. Scalars count one.
    pub(super) fn concat_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
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
                .draft
                .table
                .axes_of(*first)
                .iter()
                .copied()
                .filter(|a| parts.iter().all(|p| self.draft.table.axes_of(*p).contains(a)))
                .collect(),
            None => return self.error(Code::WrongArguments, list.span, "nothing to concatenate"),
        };
        let along: Vec<Vec<AxisId>> = parts
            .iter()
            .map(|p| self.draft.table.axes_of(*p).iter().copied().filter(|a| !shared.contains(a)).collect())
            .collect();
        let total = along.iter().fold(Size::known(0), |n, a| n.add(&self.draft.table.total(a)));
        if total != *self.draft.table.size(into) {
            let (have, want) = (total.to_string(), self.draft.table.show_axis(into));
            return self.error(
                Code::SizeMismatch,
                axis.span,
                format!("the parts have {have} entries in all, and the axis is {want}"),
            );
        }
        Value::tensor(self.draft.table.concat(parts, along, into, args.span))
    }

    /// `slice(x, Z, 0..8)`, or `slice(x, Z, 0..8, Q)` to name the new axis.
    pub(super) fn slice_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
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
        if !self.draft.table.axes_of(e).contains(&from) {
            return self.no_such_axis(e, from, x.span);
        }
        if lo < 0 || hi < lo || self.draft.table.size(from).value().is_some_and(|n| hi > n) {
            let shown = self.draft.table.show_axis(from);
            return self.error(Code::OutOfDomain, range.span, format!("{lo}..{hi} does not lie in [{shown}]"));
        }
        let into = match named {
            Some(arg) => {
                let Some(into) = self.axis_arg(&arg) else { return Value::Error };
                if *self.draft.table.size(into) != Size::known(hi - lo) {
                    let shown = self.draft.table.show_axis(into);
                    return self.error(Code::SizeMismatch, arg.span, format!("{} entries do not fit [{shown}]", hi - lo));
                }
                into
            }
            None => self.draft.table.new_axis("slice", Size::known(hi - lo)),
        };
        Value::tensor(self.draft.table.slice(e, from, Size::known(lo), into, args.span))
    }

    pub(super) fn take_call(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x, places]) = self.take_args(&mut args, ["x", "places"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, "take") else { return Value::Error };
        if let Value::Index(index) = &places.value {
            return Value::tensor(self.draft.table.at(e, axis, index.clone(), args.span));
        }
        let Some(at) = self.as_tensor(&places.value, places.span) else { return Value::Error };
        if !self.holds_place(axis, at, places.span) {
            return Value::Error;
        }
        match self.draft.table.take(e, axis, at, args.span) {
            Some(e) => Value::tensor(e),
            None => self.error(Code::RepeatedAxis, places.span, "the places share an axis with the value"),
        }
    }

    /// Whether entries can be taken along an axis: it has some, and a place that is known when compiling is one of them.
    pub(super) fn holds_place(&mut self, axis: AxisId, at: ExprId, span: Span) -> bool {
        let Some(size) = self.draft.table.size(axis).value() else { return true };
        let shown = self.draft.table.show_axis(axis);
        let d = match self.draft.table.known(at) {
            _ if size == 0 => Diagnostic::new(Code::OutOfDomain, span, format!("[{shown}] has no entries to take"))
                .help("give the axis a size of at least one"),
            Some(n) if !(n >= 0.0 && n < size as f64) => {
                Diagnostic::new(Code::OutOfDomain, span, format!("there is no entry {n} along [{shown}]"))
                    .help("entries are counted from 0")
            }
            _ => return true,
        };
        self.report(d);
        false
    }

    /// `hot(place, N)`: one at the place, zero elsewhere along N.
    pub(super) fn hot(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([place, axis]) = self.take_args(args, ["place", "axis"]) else { return Value::Error };
        let (Some(e), Some(axis)) = (self.as_tensor(&place.value, place.span), self.axis_arg(&axis)) else { return Value::Error };
        if self.draft.table.axes_of(e).contains(&axis) {
            return self.error(Code::RepeatedAxis, place.span, "the place has this axis already");
        }
        let mut axes = self.draft.table.axes_of(e).to_vec();
        axes.push(axis);
        let wide = self.draft.table.broadcast(e, &axes, args.span);
        let iota = self.draft.table.push(Op::Iota(axis), vec![axis], Dtype::Real, args.span);
        let (one, zero) = (self.draft.table.constant(1.0, args.span), self.draft.table.constant(0.0, args.span));
        let same = self.draft.table.binary(BinaryOp::Eq, wide, iota, args.span);
        match same.and_then(|c| self.draft.table.select(c, one, zero, args.span)) {
            Some(e) => Value::tensor(e),
            None => Value::Error,
        }
    }

    pub(super) fn iota(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([axis]) = self.take_args(args, ["axis"]) else { return Value::Error };
        let Some(axis) = self.axis_arg(&axis) else { return Value::Error };
        Value::tensor(self.draft.table.push(Op::Iota(axis), vec![axis], Dtype::Real, args.span))
    }

    /// `ahead(x, S)`: entry s + 1 at place s, zero at the last.
    pub(super) fn ahead(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([x, along]) = self.take_args(args, ["x", "axis"]) else { return Value::Error };
        let (Some(e), Some(axis)) = (self.as_tensor(&x.value, x.span), self.axis_arg(&along)) else { return Value::Error };
        if !self.draft.table.axes_of(e).contains(&axis) {
            return self.no_such_axis(e, axis, x.span);
        }
        let size = self.draft.table.size(axis).clone();
        let Some(n) = size.value() else {
            self.unbound(&size, along.span);
            return Value::Error;
        };
        let span = args.span;
        let rest: Vec<AxisId> = self.draft.table.axes_of(e).iter().copied().filter(|a| *a != axis).collect();
        let short = self.draft.table.new_axis("rest", Size::known((n - 1).max(0)));
        let tail = self.draft.table.slice(e, axis, Size::known(1), short, span);
        let zero = self.draft.table.constant(0.0, span);
        let last = self.draft.table.broadcast(zero, &rest, span);
        Value::tensor(self.draft.table.concat(vec![tail, last], vec![vec![short], vec![]], axis, span))
    }

    pub(super) fn filled(&mut self, args: &mut Args<'a>, value: f64) -> Value<'a> {
        let Some([axes]) = self.take_args(args, ["axes"]) else { return Value::Error };
        let Some(axes) = self.as_axes(&axes.value, axes.span) else { return Value::Error };
        let e = self.draft.table.constant(value, args.span);
        Value::tensor(self.draft.table.broadcast(e, &axes, args.span))
    }

    pub(super) fn size_of(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([axis]) = self.take_args(args, ["axis"]) else { return Value::Error };
        match self.listed_axes(&axis.value, axis.span) {
            Some(axes) => {
                let total = self.draft.table.total(&axes);
                match total.value() {
                    Some(n) => Value::Num(n as f64),
                    None => Value::Size(total),
                }
            }
            None => Value::Error,
        }
    }

    pub(super) fn len(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([list]) = self.take_args(args, ["list"]) else { return Value::Error };
        match &list.value {
            Value::List(items) => Value::Num(items.len() as f64),
            other => self.error(Code::WrongKind, list.span, format!("`len` counts a list, and this is {}", other.describe())),
        }
    }
}
