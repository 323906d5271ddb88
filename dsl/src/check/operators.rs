//! Operators: numbers, arrays and records on both sides.

use super::Ctx;
use super::subscript::walk;
use super::subscript::written;
use super::value::{Record, Value};
use crate::ast::{self, BinaryOp as Bin, Expr, ExprKind, UnaryOp as Un};
use crate::diagnostics::{Code, Diagnostic};
use crate::hir::{AxisId, BinaryOp, ExprId, Index, Size, UnaryOp};
use crate::source::Span;
use hashbrown::HashSet;
use std::rc::Rc;

impl<'a> Ctx<'a> {
    pub(super) fn unary(&mut self, op: Un, v: &Value<'a>, span: Span) -> Value<'a> {
        match (op, v) {
            (_, Value::Error) => Value::Error,
            (Un::Neg, Value::Num(n)) => Value::Num(-n),
            (Un::Neg, Value::Size(s)) => Value::Size(Size::known(0).sub(s)),
            (Un::Neg, Value::Dim(a)) => Value::Size(Size::known(0).sub(self.draft.table.size(*a))),
            (Un::Neg, Value::Index(i)) => {
                Value::Index(Index { terms: i.terms.iter().map(|(v, c)| (*v, -c)).collect(), offset: -i.offset })
            }
            (Un::Not, Value::Bool(b)) => Value::Bool(!b),
            (Un::Neg, Value::Zeros) => Value::Zeros,
            (Un::Not, v) => match self.as_condition(v, span) {
                Some(e) => Value::tensor(self.draft.table.unary(UnaryOp::Not, e, span)),
                None => Value::Error,
            },
            (Un::Neg, v) => {
                let op = UnaryOp::Neg;
                self.map(v, span, &mut |cx, e| Some(cx.draft.table.unary(op, e, span)))
            }
        }
    }

    pub(super) fn binary(
        &mut self,
        op: Bin,
        (a, l): (&Value<'a>, &'a Expr),
        (b, r): (&Value<'a>, &'a Expr),
        span: Span,
    ) -> Value<'a> {
        if op == Bin::Dot {
            return self.dot((a, l.span), (b, r.span), span);
        }
        if let Some(value) = self.fold_static(op, a, b) {
            return value;
        }
        if let Bin::And | Bin::Or = op
            && (self.as_condition(a, l.span).is_none() || self.as_condition(b, r.span).is_none())
        {
            return Value::Error;
        }
        // Records meet records field by field, and numbers meet every field.
        if let (Value::Record(_), _) | (_, Value::Record(_)) = (a, b) {
            return self.binary_record(op, (a, l), (b, r), span);
        }
        let (Some(x), Some(y)) = (self.as_tensor(a, l.span), self.as_tensor(b, r.span)) else { return Value::Error };
        match self.draft.table.binary(hir_op(op), x, y, span) {
            Some(e) => Value::tensor(e),
            None => self.misaligned(op, (x, l), (y, r)),
        }
    }

    fn binary_record(
        &mut self,
        op: Bin,
        (a, l): (&Value<'a>, &'a Expr),
        (b, r): (&Value<'a>, &'a Expr),
        span: Span,
    ) -> Value<'a> {
        match (a, b) {
            (Value::Record(x), Value::Record(y)) => {
                let same = x.fields.len() == y.fields.len() && x.fields.iter().zip(&y.fields).all(|((m, _), (n, _))| m == n);
                if !same {
                    let show = |r: &Record<'a>| super::listed(r.fields.iter().map(|(n, _)| n.as_str()));
                    let (one, other) = (show(x), show(y));
                    self.report(
                        Diagnostic::new(Code::AxesMismatch, span, "these records have different fields")
                            .label(l.span, format!("fields {one}"))
                            .label(r.span, format!("fields {other}")),
                    );
                    return Value::Error;
                }
                let (x, y) = (x.clone(), y.clone());
                let mut fields = Vec::new();
                for ((name, p), (_, q)) in x.fields.iter().zip(&y.fields) {
                    let v = self.binary(op, (p, l), (q, r), span);
                    if v.is_error() {
                        return Value::Error;
                    }
                    fields.push((name.clone(), v));
                }
                Value::Record(Rc::new(Record { latent: x.latent.or(y.latent), fields }))
            }
            (Value::Record(x), other) => {
                let x = x.clone();
                let mut fields = Vec::new();
                for (name, p) in &x.fields {
                    fields.push((name.clone(), self.binary(op, (p, l), (other, r), span)));
                }
                if fields.iter().any(|(_, v)| v.is_error()) {
                    Value::Error
                } else {
                    Value::Record(Rc::new(Record { latent: x.latent, fields }))
                }
            }
            (other, Value::Record(y)) => {
                let y = y.clone();
                let mut fields = Vec::new();
                for (name, q) in &y.fields {
                    fields.push((name.clone(), self.binary(op, (other, l), (q, r), span)));
                }
                if fields.iter().any(|(_, v)| v.is_error()) {
                    Value::Error
                } else {
                    Value::Record(Rc::new(Record { latent: y.latent, fields }))
                }
            }
            _ => Value::Error,
        }
    }

    fn misaligned(&mut self, op: Bin, (x, l): (ExprId, &'a Expr), (y, r): (ExprId, &'a Expr)) -> Value<'a> {
        let (a, b) = (self.draft.table.axes_of(x).to_vec(), self.draft.table.axes_of(y).to_vec());
        let hint = self.grad_hint(l, r, &b).or_else(|| self.grad_hint(r, l, &a));
        if self.is_doubtful(x) || self.is_doubtful(y) {
            // A gradient by the wrong field: that its axes do not fit is what shows it best.
            let inside = |d: &Diagnostic| {
                let s = d.primary.span;
                d.code == Code::GradIndependent
                    && [l.span, r.span].iter().any(|e| e.file == s.file && e.lo <= s.lo && s.hi <= e.hi)
            };
            if hint.is_none() || !self.sink.diagnostics.iter().any(inside) {
                return Value::Error;
            }
            self.sink.diagnostics.retain(|d| !inside(d));
        }
        let (one, other) = (self.draft.table.having(&a), self.draft.table.having(&b));
        let d = Diagnostic::new(Code::AxesMismatch, r.span, "axes do not line up")
            .here(format!("this has {other}"))
            .label(l.span, format!("this has {one}"));
        self.report(match hint {
            Some(hint) => d.help(hint),
            None if a.iter().any(|x| b.contains(x)) => {
                d.help("one side's axes must contain the other's; sum or rename the axis that is too many")
            }
            None if op == Bin::Mul => {
                d.help("for every pair of entries, write `outer(a, b)`; to sum over a shared axis, `a @ b`")
            }
            // `outer` multiplies: for any other operation on pairs it spreads one side.
            None => {
                let other: Vec<&str> = b.iter().map(|axis| self.draft.table.name(*axis)).collect();
                d.help(format!("for every pair of entries, spread one side: `outer(a, ones([{}]))`", other.join(", ")))
            }
        });
        Value::Error
    }

    /// Whether a value comes from a gradient that has been found to mean nothing.
    pub(super) fn is_doubtful(&self, e: ExprId) -> bool {
        let mut open = vec![e];
        let mut seen = HashSet::new();
        while let Some(e) = open.pop() {
            if self.gradients.doubtful.contains(&e) {
                return true;
            }
            if !self.gradients.doubtful.is_empty() && seen.insert(e) {
                self.draft.table.op(e).operands(|x| open.push(x));
            }
        }
        false
    }

    /// `f.dq + grad(E, z.c)`: another field of the latent has the axes that are wanted. Of a conjugate pair it is the
    /// one that the other side does not speak of: q moves along dE/dp.
    fn grad_hint(&self, e: &'a Expr, other: &'a Expr, axes: &[AxisId]) -> Option<String> {
        let mut spoken: Vec<&str> = Vec::new();
        walk(other, &mut |e| {
            if let ExprKind::Field(_, field) = &e.kind {
                spoken.push(&field.text);
            }
        });
        let mut found = None;
        walk(e, &mut |e| {
            if let ExprKind::Call(callee, args) = &e.kind
                && callee.as_name().is_some_and(|n| n.text == "grad")
                && let [ast::Arg { kind: ast::ArgKind::Value(of), .. }, ast::Arg { kind: ast::ArgKind::Value(by), .. }] =
                    args.as_slice()
                && let ExprKind::Field(base, field) = &by.kind
                && let (Some(of), Some(base)) = (written(of), written(base))
                && let Some(latent) = self.draft.latents.iter().find(|l| l.fields.iter().any(|(n, _)| *n == field.text))
            {
                let fits = latent.fields.iter().filter(|(n, a)| *n != field.text && self.same_axes(a, axes));
                let fits: Vec<&str> = fits.map(|(n, _)| n.as_str()).collect();
                let moves = |n: &&&str| spoken.iter().any(|s| *s == **n || s.strip_prefix('d') == Some(**n));
                found = match (fits.as_slice(), fits.iter().find(moves)) {
                    ([a, b], Some(moved)) => {
                        let along = if moved == a { b } else { a };
                        Some(format!("{moved} moves along d{of}/d{along}: did you mean `grad({of}, {base}.{along})`?"))
                    }
                    ([one], _) => Some(format!("did you mean `grad({of}, {base}.{one})`?")),
                    ([_, ..], _) => {
                        let names: Vec<String> = fits.iter().map(|n| format!("{base}.{n}")).collect();
                        Some(format!("did you mean the gradient by one of {}?", super::listed(names)))
                    }
                    ([], _) => None,
                };
            }
        });
        found
    }

    fn dot(&mut self, (a, l): (&Value<'a>, Span), (b, r): (&Value<'a>, Span), span: Span) -> Value<'a> {
        let (Some(x), Some(y)) = (self.as_tensor(a, l), self.as_tensor(b, r)) else { return Value::Error };
        let over: Vec<AxisId> =
            self.draft.table.axes_of(x).iter().copied().filter(|ax| self.draft.table.axes_of(y).contains(ax)).collect();
        if over.is_empty() {
            let (one, other) =
                (self.draft.table.having(self.draft.table.axes_of(x)), self.draft.table.having(self.draft.table.axes_of(y)));
            self.report(
                Diagnostic::new(Code::NothingShared, span, "`@` sums over shared axes, and these share none")
                    .label(l, format!("this has {one}"))
                    .label(r, format!("this has {other}"))
                    .help("for every pair of entries, write `outer(a, b)`"),
            );
            return Value::Error;
        }
        Value::tensor(self.draft.table.dot(x, y, over, span))
    }
}

fn hir_op(op: Bin) -> BinaryOp {
    match op {
        Bin::Or => BinaryOp::Or,
        Bin::And => BinaryOp::And,
        Bin::Lt => BinaryOp::Lt,
        Bin::Le => BinaryOp::Le,
        Bin::Gt => BinaryOp::Gt,
        Bin::Ge => BinaryOp::Ge,
        Bin::Eq => BinaryOp::Eq,
        Bin::Ne => BinaryOp::Ne,
        Bin::Add => BinaryOp::Add,
        Bin::Sub => BinaryOp::Sub,
        Bin::Mul => BinaryOp::Mul,
        Bin::Div => BinaryOp::Div,
        Bin::Pow => BinaryOp::Pow,
        Bin::Dot => unreachable!("a product over axes is not elementwise"),
    }
}
