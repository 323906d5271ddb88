//! Entries picked by place, where the places are known.

use super::Rule;
use super::cx::Cx;
use crate::ir::{AxisId, Op, ValueId};

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "gather(x, a at iota b + start) = slice(x, a -> b)",
        on: &["gather"],
        apply: |cx, node| {
            let Op::Gather { of, axis, at } = node.op else { return None };
            let (places, start) = consecutive(cx, at)?;
            let free = !cx.has(of, places);
            let fits = start.checked_add(cx.size(places))? <= cx.size(axis);
            (free && fits).then(|| cx.slice(of, axis, start, places))
        },
    },
    Rule {
        equation: "gather(x, a at c) = entry c of x",
        on: &["gather"],
        apply: |cx, node| {
            let Op::Gather { of, axis, at } = node.op else { return None };
            let place = whole(cx.number(at)?)?;
            if place >= cx.size(axis) {
                return None;
            }
            let not = [cx.axes_of(of), &node.axes].concat();
            let one = cx.one_axis(&not);
            let entry = cx.slice(of, axis, place, one);
            let entry = cx.sum(entry, vec![one]);
            Some(cx.expand(entry, &node.axes))
        },
    },
    Rule {
        equation: "scatter(x at iota a + start -> b) = pad(x, a -> b)",
        on: &["scatter"],
        apply: |cx, node| {
            let Op::Scatter { of, at, over, into } = &node.op else { return None };
            let (places, start) = consecutive(cx, *at)?;
            let fits = start.checked_add(cx.size(places))? <= cx.size(*into);
            if over[..] != [places] || !fits {
                return None;
            }
            let mut axes = cx.axes_of(*of).to_vec();
            if !axes.contains(&places) {
                axes.push(places);
            }
            let x = cx.expand(*of, &axes);
            Some(cx.pad(x, places, start, *into))
        },
    },
    Rule {
        equation: "scatter(x at c -> a) = pad(x -> a)",
        on: &["scatter"],
        apply: |cx, node| {
            let Op::Scatter { of, at, over, into } = &node.op else { return None };
            let place = whole(cx.number(*at)?)?;
            if !over.is_empty() || !cx.axes_of(*at).is_empty() || place >= cx.size(*into) {
                return None;
            }
            let mut axes = [cx.axes_of(*of), &[*into]].concat();
            let one = cx.one_axis(&axes);
            axes.pop();
            axes.push(one);
            let x = cx.expand(*of, &axes);
            Some(cx.pad(x, one, place, *into))
        },
    },
];

/// The axis and the first of places that count up one by one.
fn consecutive(cx: &Cx<'_>, at: ValueId) -> Option<(AxisId, usize)> {
    match *cx.op(at) {
        Op::Iota(axis) => Some((axis, 0)),
        Op::Add(iota, start) => match *cx.op(iota) {
            Op::Iota(axis) => Some((axis, whole(cx.number(start)?)?)),
            _ => None,
        },
        _ => None,
    }
}

/// The place that a number stands for.
fn whole(c: f64) -> Option<usize> {
    (c >= 0.0 && c.fract() == 0.0 && c < 1e15).then_some(c as usize)
}
