//! Elementwise operations of the model in those of the program.

use super::Lower;
use crate::ir::{Composite, Unary, ValueId};
use dsl::hir::{BinaryOp, UnaryOp};
use dsl::source::Span;

impl Lower<'_> {
    pub(super) fn unary(&mut self, op: UnaryOp, a: ValueId, span: Span) -> ValueId {
        let g = self.graph();
        match op {
            UnaryOp::Neg => g.neg(a, span),
            UnaryOp::Not => g.not(a, span),
            UnaryOp::Exp => g.unary(Unary::Exp, a, span),
            UnaryOp::Log => g.unary(Unary::Log, a, span),
            UnaryOp::Sin => g.unary(Unary::Sin, a, span),
            UnaryOp::Cos => {
                let quarter = g.constant(std::f64::consts::FRAC_PI_2, span);
                let shifted = g.add(a, quarter, span);
                g.unary(Unary::Sin, shifted, span)
            }
            UnaryOp::Sqrt => g.unary(Unary::Sqrt, a, span),
            UnaryOp::Floor => g.unary(Unary::Floor, a, span),
            UnaryOp::Abs => g.composite(Composite::Abs, a, span),
            UnaryOp::Sign => g.composite(Composite::Sign, a, span),
            UnaryOp::Tanh => g.composite(Composite::Tanh, a, span),
            UnaryOp::Sigmoid => g.composite(Composite::Sigmoid, a, span),
            UnaryOp::Softplus => g.composite(Composite::Softplus, a, span),
        }
    }

    pub(super) fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let g = self.graph();
        match op {
            BinaryOp::Add => g.add(a, b, span),
            BinaryOp::Sub => g.sub(a, b, span),
            BinaryOp::Mul | BinaryOp::And => g.mul(a, b, span),
            BinaryOp::Div => g.div(a, b, span),
            BinaryOp::Pow => self.power(a, b, span),
            BinaryOp::Max | BinaryOp::Or => g.max(a, b, span),
            BinaryOp::Min => {
                let (a, b) = (g.neg(a, span), g.neg(b, span));
                let m = g.max(a, b, span);
                g.neg(m, span)
            }
            BinaryOp::Rem => {
                let ratio = g.div(a, b, span);
                let whole = g.unary(Unary::Floor, ratio, span);
                let part = g.mul(whole, b, span);
                g.sub(a, part, span)
            }
            BinaryOp::Lt => g.less(a, b, span),
            BinaryOp::Gt => g.less(b, a, span),
            BinaryOp::Le => {
                let c = g.less(b, a, span);
                g.not(c, span)
            }
            BinaryOp::Ge => {
                let c = g.less(a, b, span);
                g.not(c, span)
            }
            BinaryOp::Eq | BinaryOp::Ne => {
                let (below, above) = (g.less(a, b, span), g.less(b, a, span));
                let apart = g.max(below, above, span);
                if op == BinaryOp::Ne { apart } else { g.not(apart, span) }
            }
        }
    }

    /// Whole powers as products, powers of a constant by its logarithm, the rest as `exp(b log a)`.
    fn power(&mut self, a: ValueId, b: ValueId, span: Span) -> ValueId {
        let g = self.graph();
        if let Some(n) = g.as_const(b) {
            if n == 0.5 {
                return g.unary(Unary::Sqrt, a, span);
            }
            if n.fract() == 0.0 && n.abs() <= 16.0 {
                let mut result = None;
                let mut square = a;
                let mut left = n.abs() as u32;
                while left > 0 {
                    if left % 2 == 1 {
                        result = Some(match result {
                            Some(r) => g.mul(r, square, span),
                            None => square,
                        });
                    }
                    left /= 2;
                    if left > 0 {
                        square = g.mul(square, square, span);
                    }
                }
                return match result {
                    // One at every point of `a`, and not a plain constant: a gradient by `a` is zero, not missing.
                    None => {
                        let never = g.less(a, a, span);
                        g.not(never, span)
                    }
                    Some(r) if n < 0.0 => g.recip(r, span),
                    Some(r) => r,
                };
            }
        }
        match g.as_const(a) {
            Some(0.0) => {
                let zero = g.constant(0.0, span);
                let apart = g.less(zero, b, span);
                g.not(apart, span)
            }
            // Whole powers alternate: (-c)^n = c^n (1 - 2 (n mod 2)).
            Some(base) if base < 0.0 => {
                let size = g.constant(-base, span);
                let size = self.power(size, b, span);
                let (one, two) = (self.graph().constant(1.0, span), self.graph().constant(2.0, span));
                let odd = self.binary(BinaryOp::Rem, b, two, span);
                let odd = self.graph().scale(odd, 2.0, span);
                let sign = self.graph().sub(one, odd, span);
                self.graph().mul(size, sign, span)
            }
            Some(base) => {
                let exponent = g.scale(b, base.ln(), span);
                g.unary(Unary::Exp, exponent, span)
            }
            None => {
                let log = g.unary(Unary::Log, a, span);
                let exponent = g.mul(b, log, span);
                g.unary(Unary::Exp, exponent, span)
            }
        }
    }
}
