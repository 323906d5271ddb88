//! Folds: `sum k in 0..K { .. }` over ranges, lists, ensembles and places.

use super::Ctx;
use super::value::{Env, Value};
use crate::ast::{BinaryOp as Bin, Expr, Ident};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, BinaryOp, Dtype, ExprId, Index, Op, ReduceOp, Size, VarId};
use crate::source::Span;
use std::rc::Rc;

impl<'a> Ctx<'a> {
    /// Operators on values known when compiling.
    pub(super) fn fold_static(&mut self, op: Bin, a: &Value<'a>, b: &Value<'a>) -> Option<Value<'a>> {
        // Equality of functions and texts.
        if let Bin::Eq | Bin::Ne = op {
            let same = match (a, b) {
                (Value::Callable(x), Value::Callable(y)) => Some(x.same(y)),
                (Value::Text(x), Value::Text(y)) => Some(x == y),
                (Value::Bool(x), Value::Bool(y)) => Some(x == y),
                (Value::Callable(_) | Value::Text(_), _) | (_, Value::Callable(_) | Value::Text(_)) => Some(false),
                _ => None,
            };
            if let Some(same) = same {
                return Some(Value::Bool(same == (op == Bin::Eq)));
            }
        }
        if let (Bin::And | Bin::Or, Value::Bool(x), Value::Bool(y)) = (op, a, b) {
            return Some(Value::Bool(if op == Bin::And { *x && *y } else { *x || *y }));
        }
        // Indices stay linear under sums and whole factors.
        if let (Value::Index(_), _) | (_, Value::Index(_)) = (a, b) {
            return self.fold_index(op, a, b);
        }
        let size = |cx: &Self, v: &Value<'a>| match v {
            Value::Size(s) => Some(s.clone()),
            Value::Dim(axis) => Some(cx.draft.table.size(*axis).clone()),
            Value::Num(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(Size::known(*n as i64)),
            _ => None,
        };
        let number = |cx: &Self, v: &Value<'a>| match v {
            Value::Num(n) => Some(*n),
            other => size(cx, other).and_then(|s| s.value()).map(|n| n as f64),
        };
        if let (Some(x), Some(y)) = (number(self, a), number(self, b)) {
            return Some(match op {
                Bin::Add => Value::Num(x + y),
                Bin::Sub => Value::Num(x - y),
                Bin::Mul => Value::Num(x * y),
                Bin::Div => Value::Num(x / y),
                Bin::Pow => Value::Num(x.powf(y)),
                Bin::Lt => Value::Bool(x < y),
                Bin::Le => Value::Bool(x <= y),
                Bin::Gt => Value::Bool(x > y),
                Bin::Ge => Value::Bool(x >= y),
                Bin::Eq => Value::Bool(x == y),
                Bin::Ne => Value::Bool(x != y),
                Bin::And | Bin::Or | Bin::Dot => return None,
            });
        }
        let (x, y) = (size(self, a)?, size(self, b)?);
        Some(match op {
            Bin::Add => Value::Size(x.add(&y)),
            Bin::Sub => Value::Size(x.sub(&y)),
            Bin::Mul => Value::Size(x.mul(&y)),
            Bin::Div => Value::Size(y.value().and_then(|n| x.div(n))?),
            Bin::Eq if x == y => Value::Bool(true),
            Bin::Le | Bin::Ge if x == y => Value::Bool(true),
            _ => return None,
        })
    }

    fn fold_index(&mut self, op: Bin, a: &Value<'a>, b: &Value<'a>) -> Option<Value<'a>> {
        let whole = |cx: &Self, v: &Value<'a>| match v {
            Value::Num(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(*n as i64),
            Value::Dim(axis) => cx.draft.table.size(*axis).value(),
            Value::Size(s) => s.value(),
            _ => None,
        };
        let index = |cx: &Self, v: &Value<'a>| match v {
            Value::Index(i) => Some(i.clone()),
            other => whole(cx, other).map(|offset| Index { terms: Vec::new(), offset }),
        };
        let combine = |x: &Index, y: &Index, sign: i64| {
            let mut terms: Vec<(VarId, i64)> = x.terms.clone();
            for (v, c) in &y.terms {
                match terms.iter_mut().find(|(w, _)| w == v) {
                    Some((_, d)) => *d += sign * c,
                    None => terms.push((*v, sign * c)),
                }
            }
            terms.retain(|(_, c)| *c != 0);
            terms.sort_unstable();
            Index { terms, offset: x.offset.saturating_add(y.offset.saturating_mul(sign)) }
        };
        let (x, y) = (index(self, a), index(self, b));
        match (op, x, y) {
            (Bin::Add, Some(x), Some(y)) => Some(Value::Index(combine(&x, &y, 1))),
            (Bin::Sub, Some(x), Some(y)) => Some(Value::Index(combine(&x, &y, -1))),
            (Bin::Mul, Some(x), Some(y)) => {
                let (index, factor) = match (x.constant(), y.constant()) {
                    (_, Some(n)) => (x, n),
                    (Some(n), _) => (y, n),
                    _ => return None,
                };
                let terms = if factor == 0 {
                    Vec::new()
                } else {
                    index.terms.iter().map(|(v, c)| (*v, c.saturating_mul(factor))).collect()
                };
                Some(Value::Index(Index { terms, offset: index.offset.saturating_mul(factor) }))
            }
            _ => None,
        }
    }

    pub(super) fn fold(
        &mut self,
        op: &'a Ident,
        var: &'a Ident,
        over: &'a Expr,
        body: &'a Expr,
        env: &Env<'a>,
        span: Span,
    ) -> Value<'a> {
        let reduce = match op.text.as_str() {
            "sum" => Some(ReduceOp::Sum),
            "mean" => Some(ReduceOp::Mean),
            "min" => Some(ReduceOp::Min),
            "max" => Some(ReduceOp::Max),
            "prod" => Some(ReduceOp::Prod),
            "each" => None,
            _ => {
                self.report(
                    Diagnostic::new(Code::UnknownFold, op.span, format!("`{}` does not fold", op.text))
                        .suggest(&op.text, ["sum", "mean", "min", "max", "prod", "each"])
                        .note("the folds are `sum`, `mean`, `min`, `max`, `prod`, and `each`, which collects"),
                );
                return Value::Error;
            }
        };
        let domain = match self.eval(over, env) {
            // The axes of the action in a planner's text, or of an item's parameter.
            Value::Axes(axes) if axes.len() == 1 => Value::Dim(axes[0]),
            domain => domain,
        };
        let (range, axis) = match &domain {
            Value::Error => return Value::Error,
            Value::Range { .. } => match self.whole_range(&domain, over.span) {
                Some(range) => (range, None),
                None => return Value::Error,
            },
            Value::Dim(axis) if !self.no_batch(&[*axis], over.span) => return Value::Error,
            Value::Dim(axis) => match self.as_int(&domain, over.span) {
                Some(n) => ((0, n), Some(*axis)),
                None => return Value::Error,
            },
            Value::List(items) => return self.fold_list(op, reduce, var, &items.clone(), over.span, body, env, span),
            Value::Tensor(t) => {
                let places = t.expr;
                return self.fold_places(reduce, op, var, places, over.span, body, env, span);
            }
            other => {
                let d = Diagnostic::new(
                    Code::WrongKind,
                    over.span,
                    format!("a fold runs over a range, an axis or drawn places, and this is {}", other.describe()),
                );
                self.report(d);
                return Value::Error;
            }
        };
        if range.1 < range.0 || (range.1 == range.0 && reduce != Some(ReduceOp::Sum) && reduce.is_some()) {
            self.report(
                Diagnostic::new(Code::EmptyDomain, over.span, "this range is empty").help("a fold needs at least one entry"),
            );
            return Value::Error;
        }
        let id = self.draft.new_var(&var.text, var.span, Some(range));
        let inner = env.child();
        inner.set(&*var.text, Value::Index(Self::index_of(id)));
        self.place.site.active.push(id);
        let value = self.eval(body, &inner);
        self.place.site.active.pop();
        match reduce {
            None => match axis {
                Some(axis) => {
                    let Some(axis) = self.row_axis(&value, axis, env, span) else { return Value::Error };
                    self.map(&value, span, &mut |cx, e| Some(cx.draft.table.each(id, axis, e, span)))
                }
                None => {
                    self.report(
                        Diagnostic::new(Code::WrongKind, over.span, "`each` collects along an axis, and this is a range")
                            .help("name the axis: `each k in K { .. }` with `dim K = ..`"),
                    );
                    Value::Error
                }
            },
            Some(reduce) => self.fold_value(reduce, id, &value, span),
        }
    }

    /// The axis that `each i in Q` collects along: Q, or Q2, Q3, .. where the entries have Q themselves, as the rows of a
    /// Hessian have.
    fn row_axis(&mut self, value: &Value<'a>, axis: AxisId, env: &Env<'a>, span: Span) -> Option<AxisId> {
        let leaves = self.leaves(value, span)?;
        let (name, size) = (self.draft.table.name(axis).to_string(), self.draft.table.size(axis).clone());
        let mut row = axis;
        let mut count = 1;
        while leaves.iter().any(|e| self.draft.table.axes_of(*e).contains(&row)) {
            count += 1;
            row = self.axis_named(&format!("{name}{count}"), &size, env);
        }
        if *self.draft.table.size(row) != size {
            let (other, size) = (self.draft.table.show_axis(row), size.to_string());
            self.report(
                Diagnostic::new(Code::RepeatedAxis, span, format!("the value has the axis `{name}` already"))
                    .note(format!("its rows would lie along {other}, which has not the size {size}"))
                    .help(format!("rename the value's own: `rename(x, {name} -> {name}_of)`")),
            );
            return None;
        }
        Some(row)
    }

    fn fold_value(&mut self, op: ReduceOp, var: VarId, value: &Value<'a>, span: Span) -> Value<'a> {
        self.map(value, span, &mut |cx, e| {
            let axes = cx.draft.table.axes_of(e).to_vec();
            Some(cx.draft.table.push(Op::Fold { op, vars: vec![var], batch: false, body: e }, axes, Dtype::Real, span))
        })
    }

    /// `min e in pick { .. }`: e is an entry of `pick`.
    #[allow(clippy::too_many_arguments)]
    fn fold_places(
        &mut self,
        reduce: Option<ReduceOp>,
        op: &Ident,
        var: &'a Ident,
        places: ExprId,
        at: Span,
        body: &'a Expr,
        env: &Env<'a>,
        span: Span,
    ) -> Value<'a> {
        let (Some(reduce), &[axis]) = (reduce, self.draft.table.axes_of(places)) else {
            return self.error(Code::WrongKind, at, format!("`{}` over drawn places needs a list of them", op.text));
        };
        let Some(n) = self.draft.table.size(axis).value() else {
            let size = self.draft.table.size(axis).clone();
            self.unbound(&size, at);
            return Value::Error;
        };
        let id = self.draft.new_var(&var.text, var.span, Some((0, n)));
        let place = self.draft.table.at(places, axis, Index { terms: vec![(id, 1)], offset: 0 }, at);
        let inner = env.child();
        inner.set(&*var.text, Value::tensor(place));
        self.place.site.active.push(id);
        let value = self.eval(body, &inner);
        self.place.site.active.pop();
        self.fold_value(reduce, id, &value, span)
    }

    /// A fold over a list is written out.
    #[allow(clippy::too_many_arguments)]
    fn fold_list(
        &mut self,
        op: &Ident,
        reduce: Option<ReduceOp>,
        var: &'a Ident,
        items: &Rc<[Value<'a>]>,
        at: Span,
        body: &'a Expr,
        env: &Env<'a>,
        span: Span,
    ) -> Value<'a> {
        let kind = |item: &Value<'a>| std::mem::discriminant(item);
        if let Some(other) = items.iter().find(|item| kind(item) != kind(&items[0])) {
            let message = format!("this list holds {} and {}", items[0].describe(), other.describe());
            self.report(
                Diagnostic::new(Code::WrongKind, at, message).help("a fold runs over entries of one kind; write two folds"),
            );
            return Value::Error;
        }
        let mut parts = Vec::new();
        for item in items.iter() {
            let inner = env.child();
            inner.set(&*var.text, item.clone());
            let value = self.eval(body, &inner);
            match self.as_tensor(&value, body.span) {
                Some(e) => parts.push(e),
                None => return Value::Error,
            }
        }
        let Some(first) = parts.first().copied() else {
            return self.error(Code::EmptyDomain, span, "this list is empty");
        };
        let (combine, divide) = match reduce {
            Some(ReduceOp::Sum) => (BinaryOp::Add, false),
            Some(ReduceOp::Mean) => (BinaryOp::Add, true),
            Some(ReduceOp::Min) => (BinaryOp::Min, false),
            Some(ReduceOp::Max) => (BinaryOp::Max, false),
            Some(ReduceOp::Prod) => (BinaryOp::Mul, false),
            _ => return self.error(Code::WrongKind, op.span, "`each` collects along an axis, and this is a list"),
        };
        let count = parts.len();
        let mut all = first;
        for part in parts.into_iter().skip(1) {
            match self.draft.table.binary(combine, all, part, span) {
                Some(e) => all = e,
                None => return self.error(Code::AxesMismatch, span, "the parts of this fold have different axes"),
            }
        }
        if divide {
            let n = self.draft.table.constant(count as f64, span);
            all = self.draft.table.binary(BinaryOp::Div, all, n, span).unwrap_or(all);
        }
        Value::tensor(all)
    }
}
