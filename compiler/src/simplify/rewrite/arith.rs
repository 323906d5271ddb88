//! Arithmetic, entry by entry.

use super::Rule;
use crate::ir::{Composite, Op, Unary};

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "c + x = x + c, and so for products and maxima",
        on: &["add", "mul", "max"],
        apply: |cx, node| {
            let (Op::Add(a, b) | Op::Mul(a, b) | Op::Max(a, b)) = node.op else { return None };
            if cx.number(a).is_none() || cx.number(b).is_some() {
                return None;
            }
            let swap = |v| if v == a { b } else { a };
            Some(cx.emit(node.op.clone().map_operands(swap), node.axes.clone()))
        },
    },
    Rule {
        equation: "x + 0 = x",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(x, c) = node.op else { return None };
            cx.is(c, 0.0).then(|| cx.expand(x, &node.axes))
        },
    },
    Rule {
        equation: "x 1 = x",
        on: &["mul"],
        apply: |cx, node| {
            let Op::Mul(x, c) = node.op else { return None };
            cx.is(c, 1.0).then(|| cx.expand(x, &node.axes))
        },
    },
    Rule {
        equation: "x 0 = 0, x finite",
        on: &["mul"],
        apply: |cx, node| {
            let Op::Mul(x, c) = node.op else { return None };
            (cx.is(c, 0.0) && cx.facts(x).is_finite()).then(|| cx.filled(0.0, node))
        },
    },
    Rule {
        equation: "(x + c) + d = x + (c + d)",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(inner, d) = node.op else { return None };
            let Op::Add(x, c) = *cx.op(inner) else { return None };
            let sum = together(cx.number(c)? + cx.number(d)?)?;
            let sum = cx.constant(sum);
            Some(cx.add(x, sum))
        },
    },
    Rule {
        equation: "(x c) d = x (c d)",
        on: &["mul"],
        apply: |cx, node| {
            let Op::Mul(inner, d) = node.op else { return None };
            let (x, c) = cx.scaled(inner)?;
            let product = together(c * cx.number(d)?)?;
            Some(cx.scale(x, product))
        },
    },
    Rule {
        equation: "(x c) (y d) = (x y) (c d)",
        on: &["mul"],
        apply: |cx, node| {
            let Op::Mul(a, b) = node.op else { return None };
            let ((x, c), (y, d)) = (cx.scaled(a)?, cx.scaled(b)?);
            let product = together(c * d)?;
            let xy = cx.mul(x, y);
            Some(cx.scale(xy, product))
        },
    },
    Rule {
        // For this one factor it is exact.
        equation: "(x + c) (-1) = x (-1) + (-c)",
        on: &["mul"],
        apply: |cx, node| {
            let Op::Mul(inner, minus) = node.op else { return None };
            let Op::Add(x, c) = *cx.op(inner) else { return None };
            let c = cx.number(c)?;
            cx.is(minus, -1.0).then(|| {
                let x = cx.scale(x, -1.0);
                let c = cx.constant(-c);
                cx.add(x, c)
            })
        },
    },
    Rule {
        equation: "x c + x d = x (c + d), and 0 if x is finite and c = -d",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(a, b) = node.op else { return None };
            if cx.number(a).is_some() {
                return None;
            }
            let factors = |v| cx.scaled(v).into_iter().chain([(v, 1.0)]);
            let (x, sum) = factors(a).find_map(|(x, c)| factors(b).find(|(y, _)| *y == x).map(|(_, d)| (x, c + d)))?;
            match sum {
                0.0 => cx.facts(x).is_finite().then(|| cx.filled(0.0, node)),
                sum => Some(cx.scale(x, together(sum)?)),
            }
        },
    },
    Rule {
        equation: "1 / (1 / x) = x",
        on: &["recip"],
        apply: |cx, node| {
            let Op::Unary(Unary::Recip, a) = node.op else { return None };
            match *cx.op(a) {
                Op::Unary(Unary::Recip, x) => Some(x),
                _ => None,
            }
        },
    },
    Rule {
        equation: "log(exp x) = x",
        on: &["log"],
        apply: |cx, node| {
            let Op::Unary(Unary::Log, a) = node.op else { return None };
            match *cx.op(a) {
                Op::Unary(Unary::Exp, x) => Some(x),
                _ => None,
            }
        },
    },
    Rule {
        equation: "floor(floor x) = floor x",
        on: &["floor"],
        apply: |cx, node| {
            let Op::Unary(Unary::Floor, a) = node.op else { return None };
            let whole = matches!(cx.op(a), Op::Unary(Unary::Floor, _) | Op::Iota(_) | Op::Argsort { .. });
            (whole || cx.facts(a).truth).then_some(a)
        },
    },
    Rule {
        equation: "|(|x|)| = |x|, |-x| = |x|",
        on: &["abs"],
        apply: |cx, node| {
            let Op::Composite(Composite::Abs, a) = node.op else { return None };
            if matches!(cx.op(a), Op::Composite(Composite::Abs | Composite::Sigmoid | Composite::Softmax(_), _)) {
                return Some(a);
            }
            let (x, c) = cx.scaled(a)?;
            (c == -1.0).then(|| cx.emit(Op::Composite(Composite::Abs, x), node.axes.clone()))
        },
    },
    Rule {
        equation: "max(x, x) = x",
        on: &["max"],
        apply: |_, node| match node.op {
            Op::Max(a, b) if a == b => Some(a),
            _ => None,
        },
    },
    Rule {
        equation: "max(x, -inf) = x",
        on: &["max"],
        apply: |cx, node| {
            let Op::Max(x, c) = node.op else { return None };
            cx.is(c, f64::NEG_INFINITY).then(|| cx.expand(x, &node.axes))
        },
    },
    Rule {
        equation: "max(max(x, c), d) = max(x, max(c, d))",
        on: &["max"],
        apply: |cx, node| {
            let Op::Max(inner, d) = node.op else { return None };
            let Op::Max(x, c) = *cx.op(inner) else { return None };
            let (c, d) = (cx.number(c)?, cx.number(d)?);
            if c.is_nan() || d.is_nan() {
                return None;
            }
            let larger = cx.constant(c.max(d));
            Some(cx.emit(Op::Max(x, larger), node.axes.clone()))
        },
    },
    Rule {
        equation: "x < x = 0",
        on: &["less"],
        apply: |cx, node| match node.op {
            Op::Less(a, b) if a == b => Some(cx.filled(0.0, node)),
            _ => None,
        },
    },
];

/// A constant made of two: what it should be, if single precision can say it.
fn together(c: f64) -> Option<f64> {
    (c == 0.0 || (c.abs() >= f64::from(f32::MIN_POSITIVE) && c.abs() <= f64::from(f32::MAX))).then_some(c)
}
