//! Choices, truth values, and markers for gradients.

use super::Rule;
use super::cx::Cx;
use crate::ir::{Composite, Op, Unary, ValueId};

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "where(1, a, b) = a, where(0, a, b) = b",
        on: &["where"],
        apply: |cx, node| {
            let Op::Where(c, a, b) = node.op else { return None };
            let taken = if cx.number(c)? != 0.0 { a } else { b };
            Some(cx.expand(taken, &node.axes))
        },
    },
    Rule {
        equation: "where(c, a, a) = a",
        on: &["where"],
        apply: |cx, node| {
            let Op::Where(_, a, b) = node.op else { return None };
            let same = a == b || cx.number(a).zip(cx.number(b)).is_some_and(|(a, b)| a.to_bits() == b.to_bits());
            same.then(|| cx.expand(a, &node.axes))
        },
    },
    Rule {
        equation: "where(c, 1, 0) = c, where(c, 0, 1) = 1 - c, c true or false",
        on: &["where"],
        apply: |cx, node| {
            let Op::Where(c, a, b) = node.op else { return None };
            let (a, b) = (cx.number(a)?, cx.number(b)?);
            if !cx.facts(c).truth {
                return None;
            }
            let v = match (a, b) {
                (1.0, 0.0) => c,
                (0.0, 1.0) => cx.not(c),
                _ => return None,
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "where(1 - c, a, b) = where(c, b, a), c true or false",
        on: &["where"],
        apply: |cx, node| {
            let Op::Where(not, a, b) = node.op else { return None };
            let c = negated(cx, not)?;
            Some(cx.emit(Op::Where(c, b, a), node.axes.clone()))
        },
    },
    Rule {
        equation: "where(c, where(c, a, b), d) = where(c, a, d), and so in the other branch",
        on: &["where"],
        apply: |cx, node| {
            let Op::Where(c, a, b) = node.op else { return None };
            let inner = |v: ValueId| match *cx.op(v) {
                Op::Where(d, x, y) if d == c => Some((x, y)),
                _ => None,
            };
            let (new_a, new_b) = (inner(a).map_or(a, |(x, _)| x), inner(b).map_or(b, |(_, y)| y));
            if (new_a, new_b) == (a, b) {
                return None;
            }
            // The branch that goes may have been the only one with some axis.
            let v = cx.select(c, new_a, new_b);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "where(c, a, 0) + where(c, 0, b) = where(c, a, b)",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(p, q) = node.op else { return None };
            let (Op::Where(c, a, x), Op::Where(d, y, b)) = (cx.op(p).clone(), cx.op(q).clone()) else { return None };
            if c != d {
                return None;
            }
            let v = match [a, x, y, b].map(|v| cx.is(v, 0.0)) {
                [_, true, true, _] => cx.select(c, a, b),
                [true, _, _, true] => cx.select(c, y, x),
                _ => return None,
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "where(c, a, 0) + where(c, b, 0) = where(c, a + b, 0), and so in the other branch",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(p, q) = node.op else { return None };
            let (Op::Where(c, a, x), Op::Where(d, b, y)) = (cx.op(p).clone(), cx.op(q).clone()) else { return None };
            if c != d {
                return None;
            }
            match [a, x, b, y].map(|v| cx.is(v, 0.0)) {
                [_, true, _, true] => {
                    let sum = cx.add(a, b);
                    Some(cx.select(c, sum, x))
                }
                [true, _, true, _] => {
                    let sum = cx.add(x, y);
                    Some(cx.select(c, a, sum))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "0 < c = c, c < 1 = 1 - c, c true or false",
        on: &["less"],
        apply: |cx, node| {
            let Op::Less(a, b) = node.op else { return None };
            let v = match (cx.number(a), cx.number(b)) {
                (Some(0.0), _) if cx.facts(b).truth => b,
                (_, Some(1.0)) if cx.facts(a).truth => cx.not(a),
                _ => return None,
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "c c = c, c true or false",
        on: &["mul"],
        apply: |cx, node| match node.op {
            Op::Mul(a, b) if a == b && cx.facts(a).truth => Some(a),
            _ => None,
        },
    },
    Rule {
        equation: "id x = x",
        on: &["id"],
        apply: |_, node| match node.op {
            Op::Id(x) => Some(x),
            _ => None,
        },
    },
    Rule {
        equation: "stop x = x, where x has no gradient",
        on: &["stop"],
        apply: |cx, node| {
            let Op::Stop(x) = node.op else { return None };
            let leaf = matches!(cx.op(x), Op::Const(_) | Op::Iota(_) | Op::Random { .. });
            let flat = matches!(cx.op(x), Op::Less(..) | Op::Argsort { .. } | Op::Stop(_));
            let step = matches!(cx.op(x), Op::Unary(Unary::Floor, _) | Op::Composite(Composite::Sign, _));
            (leaf || flat || step).then_some(x)
        },
    },
];

/// `c` of `c (-1) + 1`, c true or false.
fn negated(cx: &Cx<'_>, v: ValueId) -> Option<ValueId> {
    let Op::Add(minus, one) = *cx.op(v) else { return None };
    let (c, factor) = cx.scaled(minus)?;
    (cx.is(one, 1.0) && factor == -1.0 && cx.facts(c).truth).then_some(c)
}
