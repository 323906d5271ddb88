//! Sums, maxima and products summed over axes.

use super::Rule;
use super::cx::{replace, without};
use crate::ir::{Op, Reduction};

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "sum(x, over nothing) = x, and so for the largest",
        on: &["sum", "reduce_max"],
        apply: |_, node| match &node.op {
            Op::Reduce { of, over, .. } if over.is_empty() => Some(*of),
            _ => None,
        },
    },
    Rule {
        equation: "the largest along axes of one entry = sum along them",
        on: &["reduce_max"],
        apply: |cx, node| {
            let Op::Reduce { op: Reduction::Max, of, over } = &node.op else { return None };
            let (ones, more): (Vec<_>, Vec<_>) = over.iter().copied().partition(|a| cx.size(*a) == 1);
            if ones.is_empty() {
                return None;
            }
            let v = cx.sum(*of, ones);
            Some(cx.reduce(Reduction::Max, v, more))
        },
    },
    Rule {
        equation: "sum(sum(x, a), b) = sum(x, a b), and so for the largest",
        on: &["sum", "reduce_max"],
        apply: |cx, node| {
            let Op::Reduce { op, of, over } = &node.op else { return None };
            match cx.op(*of) {
                Op::Reduce { op: inner, of: x, over: first } if inner == op => {
                    let (x, over) = (*x, [&first[..], over].concat());
                    Some(cx.reduce(*op, x, over))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "sum(rename(x, a -> b), b) = sum(x, a), and so for the largest",
        on: &["sum", "reduce_max"],
        apply: |cx, node| {
            let Op::Reduce { op, of, over } = &node.op else { return None };
            match *cx.op(*of) {
                Op::Rename { of: x, from, to } if over.contains(&to) => Some(cx.reduce(*op, x, replace(over, to, &[from]))),
                _ => None,
            }
        },
    },
    Rule {
        equation: "sum(pad(x, a -> b), b) = sum(x, a)",
        on: &["sum"],
        apply: |cx, node| {
            let Op::Reduce { op: Reduction::Sum, of, over } = &node.op else { return None };
            match *cx.op(*of) {
                Op::Pad { of: x, axis, into, .. } if over.contains(&into) => Some(cx.sum(x, replace(over, into, &[axis]))),
                _ => None,
            }
        },
    },
    Rule {
        equation: "sum(join(x, as -> b), b) = sum(x, as), and so for the largest",
        on: &["sum", "reduce_max"],
        apply: |cx, node| {
            let Op::Reduce { op, of, over } = &node.op else { return None };
            match cx.op(*of) {
                Op::Join { of: x, axes, into } if over.contains(into) => {
                    let (x, over) = (*x, replace(over, *into, axes));
                    Some(cx.reduce(*op, x, over))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "sum(split(x, a -> bs), bs) = sum(x, a), and so for the largest",
        on: &["sum", "reduce_max"],
        apply: |cx, node| {
            let Op::Reduce { op, of, over } = &node.op else { return None };
            match cx.op(*of) {
                Op::Split { of: x, axis, into } if into.iter().all(|b| over.contains(b)) => {
                    let mut rest = without(over, into);
                    rest.push(*axis);
                    let x = *x;
                    Some(cx.reduce(*op, x, rest))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "sum(x y, a) = x sum(y, a), where x lacks a",
        on: &["sum"],
        apply: |cx, node| {
            let Op::Reduce { op: Reduction::Sum, of, over } = &node.op else { return None };
            let Op::Mul(x, y) = *cx.op(*of) else { return None };
            let lacks = |v| without(over, cx.axes_of(v));
            let (of_y, of_x) = (lacks(x), lacks(y));
            if of_x.is_empty() && of_y.is_empty() {
                return None;
            }
            let rest = over.iter().copied().filter(|a| cx.has(x, *a) && cx.has(y, *a)).collect();
            let (x, y) = (cx.sum(x, of_x), cx.sum(y, of_y));
            let product = cx.mul(x, y);
            Some(cx.sum(product, rest))
        },
    },
    Rule {
        // A product that is larger than either factor is never made.
        equation: "sum(x y, a) = dot(x, y, a), where x and y each have an axis that the other lacks",
        on: &["sum"],
        apply: |cx, node| {
            let Op::Reduce { op: Reduction::Sum, of, over } = &node.op else { return None };
            let Op::Mul(x, y) = *cx.op(*of) else { return None };
            let shared = over.iter().all(|a| cx.has(x, *a) && cx.has(y, *a));
            let alone = |v, w| cx.axes_of(v).iter().any(|a| !cx.has(w, *a) && cx.size(*a) > 1);
            (shared && alone(x, y) && alone(y, x)).then(|| cx.dot(x, y, over.clone()))
        },
    },
    Rule {
        equation: "dot(x, y, over nothing) = x y",
        on: &["dot"],
        apply: |cx, node| match &node.op {
            Op::Dot { a, b, over } if over.is_empty() => Some(cx.emit(Op::Mul(*a, *b), node.axes.clone())),
            _ => None,
        },
    },
    Rule {
        equation: "dot(x, y, a) = sum(x, a) sum(y, a), where a has one entry",
        on: &["dot"],
        apply: |cx, node| {
            let Op::Dot { a, b, over } = &node.op else { return None };
            let (ones, more): (Vec<_>, Vec<_>) = over.iter().copied().partition(|a| cx.size(*a) == 1);
            if ones.is_empty() {
                return None;
            }
            let (a, b) = (cx.sum(*a, ones.clone()), cx.sum(*b, ones));
            Some(cx.dot(a, b, more))
        },
    },
    Rule {
        equation: "dot(x c, y) = dot(x, y) c, where the product is no larger than x",
        on: &["dot"],
        apply: |cx, node| {
            let Op::Dot { a, b, over } = &node.op else { return None };
            let smaller = |v| cx.count(&node.axes) <= cx.count(cx.axes_of(v));
            let (x, y, c) = match (cx.scaled(*a), cx.scaled(*b)) {
                (Some((x, c)), _) if smaller(*a) => (x, *b, c),
                (_, Some((y, c))) if smaller(*b) => (*a, y, c),
                _ => return None,
            };
            let v = cx.dot(x, y, over.clone());
            Some(cx.scale(v, c))
        },
    },
    Rule {
        equation: "dot(pad(x, a -> b), y, b) = dot(x, slice(y, b -> a), a)",
        on: &["dot"],
        apply: |cx, node| {
            let Op::Dot { a, b, over } = &node.op else { return None };
            let padded = |v, other| match *cx.op(v) {
                Op::Pad { of, axis, start, into } if over.contains(&into) && !cx.has(other, axis) => {
                    Some((of, axis, start, into))
                }
                _ => None,
            };
            if let Some((x, axis, start, into)) = padded(*a, *b) {
                let y = cx.slice(*b, into, start, axis);
                return Some(cx.dot(x, y, replace(over, into, &[axis])));
            }
            let (y, axis, start, into) = padded(*b, *a)?;
            let x = cx.slice(*a, into, start, axis);
            Some(cx.dot(x, y, replace(over, into, &[axis])))
        },
    },
];
