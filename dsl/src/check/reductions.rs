//! Functions along axes: reductions, softmax, sorting, counting.

use super::Ctx;
use super::builtins::Args;
use super::call::Arg;
use super::value::Value;
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, BinaryOp, Dtype, ExprId, Op, ReduceOp, Size, VarId};
use crate::source::Span;

impl<'a> Ctx<'a> {
    /// What a reduction runs over: axes of the value, index variables, the batch.
    fn over(&mut self, over: &Value<'a>, span: Span) -> Option<Over> {
        let mut out = Over::default();
        let items: Vec<Value<'a>> = match over {
            Value::List(items) => items.to_vec(),
            other => vec![other.clone()],
        };
        for item in items {
            match item {
                Value::Dim(axis) if Some(axis) == self.draft.dims.batch => out.batch = true,
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

    pub(super) fn reduction(&mut self, op: ReduceOp, mut args: Args<'a>) -> Value<'a> {
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
                let axes = self.draft.table.axes_of(e).to_vec();
                let part = self.draft.table.reduce(op, e, axes, span);
                total = match total {
                    Some(t) => self.draft.table.binary(BinaryOp::Add, t, part, span),
                    None => Some(part),
                };
            }
            return total.map_or(Value::Num(0.0), Value::tensor);
        }
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(over) = over else {
            let axes = self.draft.table.axes_of(e).to_vec();
            return self.reduce_over(op, e, &Over { axes, ..Over::default() }, x.span, span);
        };
        let Some(found) = self.over(&over.value, over.span) else { return Value::Error };
        self.reduce_over(op, e, &found, x.span, span)
    }

    fn reduce_over(&mut self, op: ReduceOp, e: ExprId, over: &Over, at: Span, span: Span) -> Value<'a> {
        for axis in &over.axes {
            if !self.draft.table.axes_of(e).contains(axis) {
                return self.no_such_axis(e, *axis, at);
            }
        }
        if !matches!(op, ReduceOp::Sum | ReduceOp::Prod | ReduceOp::LogSumExp) && !self.has_entries(&over.axes, "this", at) {
            return Value::Error;
        }
        let mut e = self.draft.table.reduce(op, e, over.axes.clone(), span);
        if !over.vars.is_empty() || over.batch {
            let axes = self.draft.table.axes_of(e).to_vec();
            e = self.draft.table.push(
                Op::Fold { op, vars: over.vars.clone(), batch: over.batch, body: e },
                axes,
                Dtype::Real,
                span,
            );
        }
        Value::tensor(e)
    }

    /// Whether there is something to choose or to average along the axes.
    pub(super) fn has_entries(&mut self, axes: &[AxisId], what: &str, span: Span) -> bool {
        let Some(empty) = axes.iter().copied().find(|a| self.draft.table.size(*a).value() == Some(0)) else { return true };
        let shown = self.draft.table.show_axis(empty);
        let name = if what == "this" { what.to_string() } else { format!("`{what}`") };
        self.report(
            Diagnostic::new(Code::EmptyDomain, span, format!("[{shown}] has no entries, and {name} needs at least one"))
                .help("give the axis a size of at least one, or leave this out"),
        );
        false
    }

    pub(super) fn no_such_axis(&mut self, e: ExprId, axis: AxisId, span: Span) -> Value<'a> {
        let (have, want) = (self.draft.table.having(self.draft.table.axes_of(e)), self.draft.table.name(axis).to_string());
        self.report(
            Diagnostic::new(Code::UnknownAxis, span, format!("this value has no axis `{want}`")).here(format!("it has {have}")),
        );
        Value::Error
    }

    /// The one axis that `over` names, or the value's only one.
    pub(super) fn over_axis(&mut self, e: ExprId, over: Option<Arg<'a>>, at: Span, what: &str) -> Option<AxisId> {
        match over {
            Some(arg) => {
                let found = self.over(&arg.value, arg.span)?;
                match (found.axes.as_slice(), found.vars.is_empty() && !found.batch) {
                    ([axis], true) => {
                        if !self.draft.table.axes_of(e).contains(axis) {
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
            None => match self.draft.table.axes_of(e) {
                [axis] => Some(*axis),
                axes => {
                    let shown = self.draft.table.having(axes);
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

    pub(super) fn softmax(&mut self, mut args: Args<'a>, log: bool) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, args.name) else { return Value::Error };
        let axes = self.draft.table.axes_of(e).to_vec();
        Value::tensor(self.draft.table.push(Op::Softmax { of: e, over: axis, log }, axes, Dtype::Real, args.span))
    }

    pub(super) fn sort_call(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let help = "name it: `over = N`, or `over = [B, t]` for a batch";
        let Some((found, at)) = self.over_given(over, &args, help) else { return Value::Error };
        if found.vars.is_empty() && !found.batch {
            let [axis] = found.axes[..] else {
                return self.error(Code::WrongArguments, at, "`sort` runs over one axis, or over the batch and indices");
            };
            if !self.draft.table.axes_of(e).contains(&axis) {
                return self.no_such_axis(e, axis, x.span);
            }
            return Value::tensor(self.draft.table.along(Op::Sort { of: e, axis }, e, axis, Some(axis), args.span));
        }
        if !found.axes.is_empty() {
            return self.error(Code::WrongArguments, at, "`sort` runs over one axis, or over the batch and indices");
        }
        match self.collected(e, &found, args.span) {
            Some((all, axis)) => {
                Value::tensor(self.draft.table.along(Op::Sort { of: all, axis }, all, axis, Some(axis), args.span))
            }
            None => Value::Error,
        }
    }

    /// `collect(x, over = B)`: x of every sample along an axis.
    pub(super) fn collect_call(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let help = "name it: `over = B` for the samples of the batch, `over = [B, t]` at all steps";
        let Some((found, at)) = self.over_given(over, &args, help) else { return Value::Error };
        if !found.axes.is_empty() || (found.vars.is_empty() && !found.batch) {
            return self.error(Code::WrongArguments, at, "`collect` runs over the batch and indices");
        }
        self.map(&x.value, x.span, &mut |cx, e| Some(cx.collected(e, &found, args.span)?.0))
    }

    /// What a call runs over that must say so, and where it does.
    fn over_given(&mut self, over: Option<Arg<'a>>, args: &Args<'a>, help: &str) -> Option<(Over, Span)> {
        let Some(arg) = over else {
            let what = format!("`{}` must know over what", args.name);
            self.report(Diagnostic::new(Code::OverMissing, args.span, what).help(help));
            return None;
        };
        Some((self.over(&arg.value, arg.span)?, arg.span))
    }

    /// All values over the batch and indices along an axis, which comes first. Collections over the same share it.
    fn collected(&mut self, e: ExprId, over: &Over, span: Span) -> Option<(ExprId, AxisId)> {
        let key = (over.batch, over.vars.clone());
        let into = match self.draft.collections.get(&key) {
            Some(axis) => *axis,
            None => {
                let size = self.count_of(over);
                let axis = self.draft.table.new_axis("all", size);
                self.draft.collections.insert(key, axis);
                axis
            }
        };
        let own = self.draft.table.axes_of(e);
        if own.contains(&into) {
            let d = Diagnostic::new(Code::RepeatedAxis, span, "these values were collected over the same before");
            self.report(d.help("reduce over what was collected first"));
            return None;
        }
        let axes = std::iter::once(into).chain(own.iter().copied()).collect();
        let op = Op::Collect { vars: over.vars.clone(), batch: over.batch, body: e, into };
        Some((self.draft.table.push(op, axes, Dtype::Real, span), into))
    }

    /// `top(x, E, over = N)`: places of the largest entries, along E.
    pub(super) fn top(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x, count]) = self.take_args(&mut args, ["x", "axis"]) else { return Value::Error };
        let (Some(e), Some(into)) = (self.as_tensor(&x.value, x.span), self.axis_arg(&count)) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, "top") else { return Value::Error };
        if let (Some(n), Some(k)) = (self.draft.table.size(axis).value(), self.draft.table.size(into).value())
            && k > n
        {
            return self.error(Code::SizeMismatch, count.span, format!("the largest {k} of {n} entries"));
        }
        Value::tensor(self.draft.table.along(Op::Top { of: e, axis, into }, e, axis, Some(into), args.span))
    }

    pub(super) fn argmax(&mut self, mut args: Args<'a>) -> Value<'a> {
        let over = args.named("over");
        let Some([x]) = self.take_args(&mut args, ["x"]) else { return Value::Error };
        let Some(e) = self.as_tensor(&x.value, x.span) else { return Value::Error };
        let Some(axis) = self.over_axis(e, over, x.span, "argmax") else { return Value::Error };
        if !self.has_entries(&[axis], "argmax", x.span) {
            return Value::Error;
        }
        Value::tensor(self.draft.table.along(Op::ArgMax { of: e, axis }, e, axis, None, args.span))
    }

    /// How many entries a batch statistic runs over.
    pub(super) fn count(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([over]) = self.take_args(args, ["over"]) else { return Value::Error };
        let Some(found) = self.over(&over.value, over.span) else { return Value::Error };
        let axes = self.draft.table.total(&found.axes);
        if found.vars.is_empty() && !found.batch {
            return match axes.value() {
                Some(n) => Value::Num(n as f64),
                None => Value::Size(axes),
            };
        }
        // The number of points of an inferred index is not known yet: it is counted when the model runs.
        let one = self.draft.table.constant(1.0, args.span);
        let count = self.draft.table.push(
            Op::Fold { op: ReduceOp::Sum, vars: found.vars, batch: found.batch, body: one },
            Vec::new(),
            Dtype::Real,
            args.span,
        );
        match axes.value() {
            Some(1) => Value::tensor(count),
            _ => {
                let Some(n) = self.as_tensor(&Value::Size(axes), args.span) else { return Value::Error };
                self.draft.table.binary(BinaryOp::Mul, count, n, args.span).map_or(Value::Error, Value::tensor)
            }
        }
    }

    /// The number of entries as a size: symbolic where an index's range is not known yet.
    fn count_of(&mut self, over: &Over) -> Size {
        let mut size = self.draft.table.total(&over.axes);
        if over.batch
            && let Some(batch) = self.draft.dims.batch
        {
            size = size.mul(self.draft.table.size(batch));
        }
        for var in &over.vars {
            let decl = &self.draft.vars[var.0 as usize];
            let n = match decl.range {
                Some((lo, hi)) => Size::known((hi - lo).max(0)),
                None => Size::symbol(&format!("#{}", var.0)),
            };
            size = size.mul(&n);
        }
        size
    }
}

/// The axes of a reduction.
#[derive(Default)]
struct Over {
    axes: Vec<AxisId>,
    vars: Vec<VarId>,
    batch: bool,
}
