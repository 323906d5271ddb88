//! Names of axes: given once, as early as possible.

use super::Rule;
use super::cx::replace;
use crate::ir::Op;

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "rename(x, a -> a) = x",
        on: &["rename"],
        apply: |_, node| match node.op {
            Op::Rename { of, from, to } if from == to => Some(of),
            _ => None,
        },
    },
    Rule {
        equation: "rename(rename(x, a -> b), b -> c) = rename(x, a -> c)",
        on: &["rename"],
        apply: |cx, node| {
            let Op::Rename { of, from, to } = node.op else { return None };
            match *cx.op(of) {
                Op::Rename { of: x, from: first, to: between } if between == from => Some(cx.rename(x, first, to)),
                _ => None,
            }
        },
    },
    Rule {
        equation: "rename(f(x -> a), a -> b) = f(x -> b), f an operation that names the axis it makes",
        on: &["rename"],
        apply: |cx, node| {
            let Op::Rename { of, from, to } = node.op else { return None };
            let mut op = cx.op(of).clone();
            match &mut op {
                Op::Iota(axis) => *axis = to,
                Op::Slice { into, .. }
                | Op::Pad { into, .. }
                | Op::Join { into, .. }
                | Op::Concat { into, .. }
                | Op::Scatter { into, .. }
                    if *into == from =>
                {
                    *into = to
                }
                Op::Split { into, .. } if into.contains(&from) => *into = replace(into, from, &[to]),
                _ => return None,
            }
            Some(cx.emit(op, node.axes.clone()))
        },
    },
    Rule {
        equation: "f(rename(x, a -> b), b) = f(x, a), f an operation that b does not outlive",
        on: &["slice", "pad", "split", "join", "gather"],
        apply: |cx, node| {
            let mut op = node.op.clone();
            let (Op::Slice { of, .. } | Op::Pad { of, .. } | Op::Split { of, .. } | Op::Join { of, .. } | Op::Gather { of, .. }) =
                &mut op
            else {
                return None;
            };
            let Op::Rename { of: x, from, to } = *cx.op(*of) else { return None };
            *of = x;
            match &mut op {
                Op::Slice { axis, .. } | Op::Pad { axis, .. } | Op::Split { axis, .. } if *axis == to => *axis = from,
                // Places along the old name would come to lie along what they pick from.
                Op::Gather { axis, at, .. } if *axis == to && !cx.has(*at, from) && !cx.has(*at, to) => *axis = from,
                Op::Join { axes, .. } if axes.contains(&to) => *axes = replace(axes, to, &[from]),
                _ => return None,
            }
            Some(cx.emit(op, node.axes.clone()))
        },
    },
    Rule {
        equation: "split(x, a -> [b]) = rename(x, a -> b), join(x, [a] -> b) likewise",
        on: &["split", "join"],
        apply: |cx, node| match &node.op {
            Op::Split { of, axis, into } if into.len() == 1 => Some(cx.rename(*of, *axis, into[0])),
            Op::Join { of, axes, into } if axes.len() == 1 => Some(cx.rename(*of, axes[0], *into)),
            _ => None,
        },
    },
    Rule {
        equation: "join(split(x, a -> bs), bs -> c) = rename(x, a -> c)",
        on: &["join"],
        apply: |cx, node| {
            let Op::Join { of, axes, into } = &node.op else { return None };
            match cx.op(*of) {
                Op::Split { of: x, axis, into: parts } if parts == axes => {
                    let (x, axis) = (*x, *axis);
                    Some(cx.rename(x, axis, *into))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "split(join(x, as -> b), b -> cs) = rename(x, as -> cs), where sizes agree",
        on: &["split"],
        apply: |cx, node| {
            let Op::Split { of, axis, into } = &node.op else { return None };
            let Op::Join { of: x, axes, into: joined } = cx.op(*of).clone() else { return None };
            let agree = axes.len() == into.len() && axes.iter().zip(into).all(|(a, c)| cx.size(*a) == cx.size(*c));
            // One rename after the other: no new name may still be an old one.
            let apart = axes.iter().zip(into).all(|(a, c)| a == c || !axes.contains(c));
            if joined != *axis || !agree || !apart {
                return None;
            }
            Some(axes.iter().zip(into).fold(x, |x, (a, c)| cx.rename(x, *a, *c)))
        },
    },
    Rule {
        equation: "split(split(x, a -> b c), c -> d e) = split(x, a -> b d e)",
        on: &["split"],
        apply: |cx, node| {
            let Op::Split { of, axis, into } = &node.op else { return None };
            match cx.op(*of) {
                Op::Split { of: x, axis: whole, into: parts } if parts.contains(axis) => {
                    let op = Op::Split { of: *x, axis: *whole, into: replace(parts, *axis, into) };
                    Some(cx.emit(op, node.axes.clone()))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "join(join(x, b c -> d), a d -> e) = join(x, a b c -> e)",
        on: &["join"],
        apply: |cx, node| {
            let Op::Join { of, axes, into } = &node.op else { return None };
            match cx.op(*of) {
                Op::Join { of: x, axes: parts, into: whole } if axes.contains(whole) => {
                    let op = Op::Join { of: *x, axes: replace(axes, *whole, parts), into: *into };
                    Some(cx.emit(op, node.axes.clone()))
                }
                _ => None,
            }
        },
    },
];
