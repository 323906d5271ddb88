//! Functions of one entry at a time.

use super::Ctx;
use super::builtins::Args;
use super::value::{Record, Value};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{BinaryOp, ExprId, ReduceOp, UnaryOp};
use crate::source::Span;
use std::rc::Rc;

impl<'a> Ctx<'a> {
    pub(super) fn elementwise(&mut self, op: UnaryOp, args: &mut Args<'a>, known: fn(f64) -> f64) -> Value<'a> {
        let Some([x]) = self.take_args(args, ["x"]) else { return Value::Error };
        if let Value::Num(n) = x.value {
            return Value::Num(known(n));
        }
        if let (UnaryOp::Floor, Value::Index(_) | Value::Size(_) | Value::Dim(_)) = (op, &x.value) {
            return x.value;
        }
        let span = args.span;
        self.map(&x.value, x.span, &mut |cx, e| Some(cx.draft.table.unary(op, e, span)))
    }

    /// `max(a, b)` entry by entry, `max(x)` and `max(x, over = N)` along axes.
    pub(super) fn extreme(
        &mut self,
        op: BinaryOp,
        reduce: ReduceOp,
        mut args: Args<'a>,
        known: fn(f64, f64) -> f64,
    ) -> Value<'a> {
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
        match self.draft.table.binary(op, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None => self.mismatch((x, a.span), (y, b.span)),
        }
    }

    fn known_number(&self, v: &Value<'a>) -> Option<f64> {
        match v {
            Value::Num(n) => Some(*n),
            Value::Size(s) => s.value().map(|n| n as f64),
            Value::Dim(a) => self.draft.table.size(*a).value().map(|n| n as f64),
            _ => None,
        }
    }

    fn mismatch(&mut self, (x, l): (ExprId, Span), (y, r): (ExprId, Span)) -> Value<'a> {
        let (one, other) =
            (self.draft.table.having(self.draft.table.axes_of(x)), self.draft.table.having(self.draft.table.axes_of(y)));
        self.report(
            Diagnostic::new(Code::AxesMismatch, r, "axes do not line up")
                .here(format!("this has {other}"))
                .label(l, format!("this has {one}"))
                .help("one side's axes must contain the other's"),
        );
        Value::Error
    }

    pub(super) fn remainder(&mut self, args: &mut Args<'a>) -> Value<'a> {
        let Some([a, b]) = self.take_args(args, ["a", "b"]) else { return Value::Error };
        if let (Some(x), Some(y)) = (self.known_number(&a.value), self.known_number(&b.value)) {
            return Value::Num(x.rem_euclid(y));
        }
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        match self.draft.table.binary(BinaryOp::Rem, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None => self.mismatch((x, a.span), (y, b.span)),
        }
    }

    pub(super) fn select_call(&mut self, args: &mut Args<'a>) -> Value<'a> {
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
                match self.draft.table.select(cond, p, q, args.span) {
                    Some(e) => fields.push((name.clone(), Value::tensor(e))),
                    None => return self.mismatch((p, a.span), (q, b.span)),
                }
            }
            return Value::Record(Rc::new(Record { latent: x.latent, fields }));
        }
        let (Some(x), Some(y)) = (self.as_tensor(&a.value, a.span), self.as_tensor(&b.value, b.span)) else {
            return Value::Error;
        };
        match self.draft.table.select(cond, x, y, args.span) {
            Some(e) => Value::tensor(e),
            None if self.draft.table.union(self.draft.table.axes_of(x), self.draft.table.axes_of(y)).is_none() => {
                self.mismatch((x, a.span), (y, b.span))
            }
            None => self.mismatch((cond, c.span), (x, a.span)),
        }
    }
}
