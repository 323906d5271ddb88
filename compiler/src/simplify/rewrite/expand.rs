//! Values that are the same along an axis: computed once, expanded as late as possible.

use super::Rule;
use super::cx::{replace, without};
use crate::ir::{Composite, Op, Reduction};

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "expand x = x, along its own axes",
        on: &["expand"],
        apply: |cx, node| match node.op {
            Op::Expand(x) if cx.axes_of(x).len() == node.axes.len() => Some(x),
            _ => None,
        },
    },
    Rule {
        equation: "expand(expand x) = expand x",
        on: &["expand"],
        apply: |cx, node| {
            let Op::Expand(inner) = node.op else { return None };
            let x = cx.expanded(inner)?;
            Some(cx.expand(x, &node.axes))
        },
    },
    Rule {
        equation: "f(expand x, y) = expand(f(x, y)), f entry by entry",
        on: &[
            "exp", "log", "sin", "sqrt", "recip", "floor", "add", "mul", "max", "less", "where", "tanh", "sigmoid", "softplus",
            "abs", "sign", "stop",
        ],
        apply: |cx, node| {
            let mut found = false;
            let op = node.op.clone().map_operands(|v| match cx.expanded(v) {
                Some(x) => {
                    found = true;
                    x
                }
                None => v,
            });
            if !found {
                return None;
            }
            let mut axes = node.axes.clone();
            axes.retain(|a| {
                let mut any = false;
                op.operands(|v| any |= cx.has(v, *a));
                any
            });
            let v = cx.emit(op, axes);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "softmax(expand x) = expand(softmax x), along an axis of x",
        on: &["softmax", "log_softmax", "logsumexp"],
        apply: |cx, node| {
            let Op::Composite(f, a) = node.op else { return None };
            let x = cx.expanded(a)?;
            let (Composite::Softmax(axis) | Composite::LogSoftmax(axis) | Composite::LogSumExp(axis)) = f else { return None };
            if !cx.has(x, axis) {
                return None;
            }
            let axes = node.axes.iter().copied().filter(|a| cx.has(x, *a)).collect();
            let v = cx.emit(Op::Composite(f, x), axes);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "sum(expand x, a) = x size(a), the largest of expand x = x",
        on: &["sum", "reduce_max"],
        apply: |cx, node| {
            let Op::Reduce { op, of, over } = &node.op else { return None };
            let x = cx.expanded(*of)?;
            let (own, new): (Vec<_>, Vec<_>) = over.iter().copied().partition(|a| cx.has(x, *a));
            let count = cx.count(&new);
            if *op == Reduction::Max && count == 0 {
                return None;
            }
            let mut v = cx.reduce(*op, x, own);
            if *op == Reduction::Sum && count != 1 {
                v = cx.scale(v, count as f64);
            }
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "dot(expand x, y, a) = x sum(y, a)",
        on: &["dot"],
        apply: |cx, node| {
            let Op::Dot { a, b, over } = &node.op else { return None };
            let split = |x| over.iter().copied().partition::<Vec<_>, _>(|a| cx.has(x, *a));
            let v = match (cx.expanded(*a), cx.expanded(*b)) {
                (Some(x), _) => {
                    let (own, new) = split(x);
                    let b = cx.sum(*b, new);
                    cx.dot(x, b, own)
                }
                (None, Some(y)) => {
                    let (own, new) = split(y);
                    let a = cx.sum(*a, new);
                    cx.dot(a, y, own)
                }
                (None, None) => return None,
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "rename(expand x, a -> b) = expand(rename(x, a -> b)), and so for split",
        on: &["rename", "split"],
        apply: |cx, node| {
            let (of, axis, into) = match &node.op {
                Op::Rename { of, from, to } => (*of, *from, vec![*to]),
                Op::Split { of, axis, into } => (*of, *axis, into.clone()),
                _ => return None,
            };
            let x = cx.expanded(of)?;
            let v = match cx.has(x, axis) {
                true => {
                    let axes = replace(cx.axes_of(x), axis, &into);
                    cx.emit(node.op.clone().map_operands(|_| x), axes)
                }
                false => x,
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "join(expand x, as -> b) = expand(join(x, as -> b)), of all or none of the axes",
        on: &["join"],
        apply: |cx, node| {
            let Op::Join { of, axes, into } = &node.op else { return None };
            let x = cx.expanded(*of)?;
            let own = axes.iter().filter(|a| cx.has(x, **a)).count();
            let v = if own == 0 {
                x
            } else if own == axes.len() {
                let kept = replace(&without(cx.axes_of(x), &axes[1..]), axes[0], &[*into]);
                cx.emit(node.op.clone().map_operands(|_| x), kept)
            } else {
                return None;
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "slice(expand x) = expand(slice x)",
        on: &["slice"],
        apply: |cx, node| {
            let Op::Slice { of, axis, start, into } = node.op else { return None };
            let x = cx.expanded(of)?;
            let v = if cx.has(x, axis) { cx.slice(x, axis, start, into) } else { x };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "pad(expand x, a -> b) = expand(pad(x, a -> b)), a an axis of x",
        on: &["pad"],
        apply: |cx, node| {
            let Op::Pad { of, axis, start, into } = node.op else { return None };
            let x = cx.expanded(of)?;
            if !cx.has(x, axis) {
                // Zeros in zeros are zeros.
                return cx.is(x, 0.0).then(|| cx.expand(x, &node.axes));
            }
            let v = cx.pad(x, axis, start, into);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "concat(expand x, expand y) = expand(concat(x, y))",
        on: &["concat"],
        apply: |cx, node| {
            let Op::Concat { parts, along, into } = &node.op else { return None };
            let bases: Vec<_> = parts.iter().map(|p| cx.expanded(*p).unwrap_or(*p)).collect();
            let needed = |a| bases.iter().any(|b| cx.has(*b, a));
            let axes: Vec<_> = node.axes.iter().copied().filter(|a| a == into || needed(*a)).collect();
            if axes.len() == node.axes.len() {
                return None;
            }
            let parts = bases.into_iter().zip(along).map(|(b, a)| cx.expand(b, &replace(&axes, *into, &[*a]))).collect();
            let v = cx.emit(Op::Concat { parts, along: along.clone(), into: *into }, axes);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "concat(expand c, expand c) = expand c",
        on: &["concat"],
        apply: |cx, node| {
            let Op::Concat { parts, along, into } = &node.op else { return None };
            let base = cx.expanded(*parts.first()?)?;
            let same = |p| cx.expanded(p).is_some_and(|b| b == base || cx.number(b).is_some() && cx.number(b) == cx.number(base));
            let all = parts.iter().all(|p| same(*p)) && along.iter().chain([into]).all(|a| !cx.has(base, *a));
            all.then(|| cx.expand(base, &node.axes))
        },
    },
    Rule {
        equation: "gather(expand x, a at p) = expand(gather(x, a at p)), or expand x if x lacks a and p names entries",
        on: &["gather"],
        apply: |cx, node| {
            let Op::Gather { of, axis, at } = node.op else { return None };
            let x = cx.expanded(of)?;
            let v = if cx.has(x, axis) {
                let axes = node.axes.iter().copied().filter(|a| cx.has(at, *a) || *a != axis && cx.has(x, *a)).collect();
                cx.emit(Op::Gather { of: x, axis, at }, axes)
            } else if cx.facts(at).places <= cx.size(axis) as f64 {
                x
            } else {
                return None;
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "gather(x, a at expand p) = expand(gather(x, a at p))",
        on: &["gather"],
        apply: |cx, node| {
            let Op::Gather { of, axis, at } = node.op else { return None };
            let at = cx.expanded(at)?;
            let axes = node.axes.iter().copied().filter(|a| cx.has(at, *a) || *a != axis && cx.has(of, *a)).collect();
            let v = cx.emit(Op::Gather { of, axis, at }, axes);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "scatter(expand x, p) = expand(scatter(x, p))",
        on: &["scatter"],
        apply: |cx, node| {
            let Op::Scatter { of, at, over, into } = &node.op else { return None };
            let x = cx.expanded(*of)?;
            let kept = |a| a == *into || !over.contains(&a) && (cx.has(x, a) || cx.has(*at, a));
            let axes = node.axes.iter().copied().filter(|a| kept(*a)).collect();
            let v = cx.emit(Op::Scatter { of: x, at: *at, over: over.clone(), into: *into }, axes);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "argsort(expand x, a) = expand(argsort(x, a)), or iota if x lacks a",
        on: &["argsort"],
        apply: |cx, node| {
            let Op::Argsort { of, axis } = node.op else { return None };
            let x = cx.expanded(of)?;
            let v = match cx.has(x, axis) {
                true => {
                    let axes = cx.axes_of(x).to_vec();
                    cx.emit(Op::Argsort { of: x, axis }, axes)
                }
                false => cx.emit(Op::Iota(axis), vec![axis]),
            };
            Some(cx.expand(v, &node.axes))
        },
    },
];
