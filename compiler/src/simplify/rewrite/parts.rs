//! Parts of an axis: slices, zeros around, parts end to end.

use super::Rule;
use super::cx::{Cx, replace, without};
use crate::ir::{AxisId, Op, ValueId};

/// Sums of so many parts are looked through.
const PARTS: usize = 16;

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "slice(x, all of a -> b) = rename(x, a -> b), pad with nothing likewise",
        on: &["slice", "pad"],
        apply: |cx, node| {
            let (Op::Slice { of, axis, into, .. } | Op::Pad { of, axis, into, .. }) = node.op else { return None };
            (cx.size(axis) == cx.size(into)).then(|| cx.rename(of, axis, into))
        },
    },
    Rule {
        equation: "slice(slice(x, a -> b), b -> c) = slice(x, a -> c)",
        on: &["slice"],
        apply: |cx, node| {
            let Op::Slice { of, axis, start, into } = node.op else { return None };
            match *cx.op(of) {
                Op::Slice { of: x, axis: whole, start: first, into: part } if part == axis => {
                    Some(cx.slice(x, whole, first + start, into))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "pad(pad(x, a -> b), b -> c) = pad(x, a -> c)",
        on: &["pad"],
        apply: |cx, node| {
            let Op::Pad { of, axis, start, into } = node.op else { return None };
            match *cx.op(of) {
                Op::Pad { of: x, axis: part, start: first, into: between } if between == axis => {
                    Some(cx.pad(x, part, first + start, into))
                }
                _ => None,
            }
        },
    },
    Rule {
        equation: "slice(pad(x)) = slice(x), pad(x) or 0: where one lies within the other, or apart",
        on: &["slice"],
        apply: |cx, node| {
            let Op::Slice { of, axis, start, into } = node.op else { return None };
            let Op::Pad { of: x, axis: part, start: first, into: whole } = *cx.op(of) else { return None };
            if whole != axis {
                return None;
            }
            let (end, last) = (start + cx.size(into), first + cx.size(part));
            if first <= start && end <= last {
                Some(cx.slice(x, part, start - first, into))
            } else if start <= first && last <= end {
                Some(cx.pad(x, part, first - start, into))
            } else if end <= first || last <= start {
                Some(cx.filled(0.0, node))
            } else {
                None
            }
        },
    },
    Rule {
        equation: "slice(concat(.., x, ..)) = slice(x), where it lies within x",
        on: &["slice"],
        apply: |cx, node| {
            let Op::Slice { of, axis, start, into } = node.op else { return None };
            let Op::Concat { parts, along, into: whole } = cx.op(of) else { return None };
            if *whole != axis {
                return None;
            }
            let mut first = 0;
            for (part, along) in parts.iter().zip(along) {
                let last = first + cx.size(*along);
                if first <= start && start + cx.size(into) <= last {
                    let (part, along) = (*part, *along);
                    return Some(cx.slice(part, along, start - first, into));
                }
                first = last;
            }
            None
        },
    },
    Rule {
        equation: "slice(iota a -> b) = iota b + start",
        on: &["slice"],
        apply: |cx, node| {
            let Op::Slice { of, start, into, .. } = node.op else { return None };
            if !matches!(cx.op(of), Op::Iota(_)) {
                return None;
            }
            let iota = cx.emit(Op::Iota(into), vec![into]);
            let start = cx.constant(start as f64);
            Some(cx.add(iota, start))
        },
    },
    Rule {
        equation: "concat(x) = rename x",
        on: &["concat"],
        apply: |cx, node| match &node.op {
            Op::Concat { parts, along, into } if parts.len() == 1 => Some(cx.rename(parts[0], along[0], *into)),
            _ => None,
        },
    },
    Rule {
        equation: "concat(concat(x, y), z) = concat(x, y, z)",
        on: &["concat"],
        apply: |cx, node| {
            let Op::Concat { parts, along, into } = &node.op else { return None };
            let (mut flat, mut flat_along) = (Vec::new(), Vec::new());
            for (part, axis) in parts.iter().zip(along) {
                match cx.op(*part) {
                    Op::Concat { parts, along, into } if into == axis => {
                        flat.extend(parts);
                        flat_along.extend(along);
                    }
                    _ => {
                        flat.push(*part);
                        flat_along.push(*axis);
                    }
                }
            }
            let op = Op::Concat { parts: flat, along: flat_along, into: *into };
            (op != node.op).then(|| cx.emit(op, node.axes.clone()))
        },
    },
    Rule {
        equation: "concat of parts of x, one after the other = slice(x)",
        on: &["concat"],
        apply: |cx, node| {
            let Op::Concat { parts, along, into } = &node.op else { return None };
            let part = |v: ValueId, axis: AxisId| match *cx.op(v) {
                Op::Slice { of, axis: whole, start, into } if into == axis => Some((of, whole, start)),
                _ => None,
            };
            let first = part(parts[0], along[0])?;
            let mut next = first;
            for (v, axis) in parts.iter().zip(along) {
                if part(*v, *axis)? != next {
                    return None;
                }
                next.2 += cx.size(*axis);
            }
            let (of, whole, start) = first;
            Some(cx.slice(of, whole, start, *into))
        },
    },
    Rule {
        equation: "concat(0, x, 0) = pad(x)",
        on: &["concat"],
        apply: |cx, node| {
            let Op::Concat { parts, along, into } = &node.op else { return None };
            let mut others = (0..parts.len()).filter(|i| !cx.is(parts[*i], 0.0));
            let (x, None) = (others.next()?, others.next()) else { return None };
            let start = cx.count_along(&along[..x]);
            Some(cx.pad(parts[x], along[x], start, *into))
        },
    },
    Rule {
        equation: "pad(x, place) + pad(y, place) = pad(x + y, place)",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(a, b) = node.op else { return None };
            let (p, q) = (padded(cx, a)?, padded(cx, b)?);
            if p.into != q.into || p.start != q.start || cx.size(p.axis) != cx.size(q.axis) {
                return None;
            }
            // The other's part under the name of the first; the name may be taken.
            if p.axis != q.axis && cx.has(q.of, p.axis) {
                return None;
            }
            let y = cx.rename(q.of, q.axis, p.axis);
            let sum = cx.add(p.of, y);
            let v = cx.pad(sum, p.axis, p.start, p.into);
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "pad(x) + pad(y) + .. = concat(x, y, ..), where they fill the axis side by side",
        on: &["add"],
        apply: |cx, node| {
            let Op::Add(a, b) = node.op else { return None };
            let mut parts = summands(cx, [a, b])?;
            parts.sort_by_key(|p| p.start);
            let into = parts[0].into;
            let mut end = 0;
            for part in &parts {
                if part.into != into || part.start != end {
                    return None;
                }
                end += cx.size(part.axis);
            }
            if end != cx.size(into) {
                return None;
            }
            let others = without(&node.axes, &[into]);
            if parts.iter().any(|p| others.contains(&p.axis)) {
                return None;
            }
            let along: Vec<AxisId> = parts.iter().map(|p| p.axis).collect();
            let parts = parts.iter().map(|p| cx.expand(p.of, &replace(&node.axes, into, &[p.axis]))).collect();
            Some(cx.emit(Op::Concat { parts, along, into }, node.axes.clone()))
        },
    },
];

/// A value with zeros around it.
struct Padded {
    of: ValueId,
    axis: AxisId,
    start: usize,
    into: AxisId,
}

fn padded(cx: &Cx<'_>, v: ValueId) -> Option<Padded> {
    match *cx.op(v) {
        Op::Pad { of, axis, start, into } => Some(Padded { of, axis, start, into }),
        _ => None,
    }
}

/// The summands of a sum, if all are padded values and at most [`PARTS`].
fn summands(cx: &Cx<'_>, sum: [ValueId; 2]) -> Option<Vec<Padded>> {
    let mut parts = Vec::new();
    // Summands are counted before they are looked at: a long sum is given up early.
    let mut open = vec![sum[1], sum[0]];
    while let Some(v) = open.pop() {
        match *cx.op(v) {
            Op::Add(a, b) if parts.len() + open.len() + 2 <= PARTS => open.extend([b, a]),
            _ => parts.push(padded(cx, v)?),
        }
    }
    Some(parts)
}

impl Cx<'_> {
    /// Entries of these axes, end to end.
    fn count_along(&self, along: &[AxisId]) -> usize {
        along.iter().map(|a| self.size(*a)).sum()
    }
}
