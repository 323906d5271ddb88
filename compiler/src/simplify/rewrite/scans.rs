//! What goes into a scan and comes out of it.
//!
//! Rules here change how a body's parameters are read and where a scan's values are taken from. Carries, operands and
//! outputs that nobody reads any more stay until [`dce`](crate::simplify::dce) removes them, so the numbers of
//! parameters and outputs do not change.

use super::Rule;
use super::cx::Cx;
use crate::ir::{AxisId, Graph, Node, Op, Scan, ValueId};

pub(super) const RULES: &[Rule] = &[
    Rule {
        equation: "a carry that goes on as it is = a constant of the loop",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let given = scan.init.len() + scan.xs.len() + scan.consts.len();
            let stays = |i: usize| is_param(&scan.body, scan.body.results[i], i);
            let staying: Vec<usize> = (0..scan.init.len()).filter(|i| stays(*i)).collect();
            let mut scan = read_anew(node, |body, p, axes| {
                let place = staying.iter().position(|i| *i == p)?;
                Some(body.push(Op::Param((given + place) as u32), axes.to_vec(), node.span))
            })?;
            let starts: Vec<ValueId> = staying.iter().map(|i| scan.init[*i]).collect();
            scan.consts.extend(starts);
            Some(cx.emit(Op::Scan(scan), Vec::new()))
        },
    },
    Rule {
        equation: "a carry that starts and goes on as c = c",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let constant = |i: usize| {
                let start = cx.number(*scan.init.get(i)?)?;
                let next = scan.body.as_const(scan.body.results[i])?;
                (start.to_bits() == next.to_bits()).then_some(start)
            };
            let found: Vec<Option<f64>> = (0..scan.init.len()).map(constant).collect();
            let scan = read_anew(node, |body, p, axes| {
                let c = body.constant((*found.get(p)?)?, node.span);
                Some(body.expand(c, axes, node.span))
            })?;
            Some(cx.emit(Op::Scan(scan), Vec::new()))
        },
    },
    Rule {
        equation: "two carries that start and go on alike = one",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let alike = |i: usize, j: usize| scan.init[i] == scan.init[j] && scan.body.results[i] == scan.body.results[j];
            let first = |p: usize| (0..p).find(|i| p < scan.init.len() && alike(*i, p));
            let scan = read_anew(node, |body, p, axes| Some(body.push(Op::Param(first(p)? as u32), axes.to_vec(), node.span)))?;
            Some(cx.emit(Op::Scan(scan), Vec::new()))
        },
    },
    Rule {
        equation: "an operand given twice = given once",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let (carries, xs) = (scan.init.len(), scan.xs.len());
            let first = |p: usize| -> Option<usize> {
                let (list, start) = if p < carries + xs { (&scan.xs, carries) } else { (&scan.consts, carries + xs) };
                let place = p.checked_sub(start)?;
                let first = list.iter().position(|v| *v == list[place])?;
                (first < place).then_some(start + first)
            };
            let scan = read_anew(node, |body, p, axes| Some(body.push(Op::Param(first(p)? as u32), axes.to_vec(), node.span)))?;
            Some(cx.emit(Op::Scan(scan), Vec::new()))
        },
    },
    Rule {
        equation: "steps of expand x along the loop = a constant of the loop",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let (carries, given) = (scan.init.len(), scan.init.len() + scan.xs.len() + scan.consts.len());
            let base = |x: ValueId| cx.expanded(x).filter(|b| !cx.has(*b, scan.axis));
            let found: Vec<(usize, ValueId)> =
                scan.xs.iter().enumerate().filter_map(|(i, x)| Some((carries + i, base(*x)?))).collect();
            let axes: Vec<Vec<AxisId>> = found.iter().map(|(_, b)| cx.axes_of(*b).to_vec()).collect();
            let mut scan = read_anew(node, |body, p, full| {
                let place = found.iter().position(|(i, _)| *i == p)?;
                let base = body.push(Op::Param((given + place) as u32), axes[place].clone(), node.span);
                Some(body.expand(base, full, node.span))
            })?;
            scan.consts.extend(found.iter().map(|(_, b)| *b));
            Some(cx.emit(Op::Scan(scan), Vec::new()))
        },
    },
    Rule {
        equation: "a body given expand x = a body given x that expands it",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let (carries, steps) = (scan.init.len(), scan.init.len() + scan.xs.len());
            // A step must still have the loop's axis to go along.
            let base = |p: usize| -> Option<ValueId> {
                let x = *scan.xs.iter().chain(&scan.consts).nth(p.checked_sub(carries)?)?;
                cx.expanded(x).filter(|b| p >= steps || cx.has(*b, scan.axis))
            };
            let axes = |p: usize, b: ValueId| -> Vec<AxisId> {
                cx.axes_of(b).iter().copied().filter(|a| p >= steps || *a != scan.axis).collect()
            };
            let mut new = read_anew(node, |body, p, full| {
                let b = base(p)?;
                let b = body.push(Op::Param(p as u32), axes(p, b), node.span);
                Some(body.expand(b, full, node.span))
            })?;
            for (i, x) in new.xs.iter_mut().chain(&mut new.consts).enumerate() {
                *x = base(carries + i).unwrap_or(*x);
            }
            Some(cx.emit(Op::Scan(new), Vec::new()))
        },
    },
    Rule {
        equation: "a body given a number or iota = a body that makes it",
        on: &["scan"],
        apply: |cx, node| {
            let Op::Scan(scan) = &node.op else { return None };
            let steps = scan.init.len() + scan.xs.len();
            let scan = read_anew(node, |body, p, axes| {
                let v = *scan.consts.get(p.checked_sub(steps)?)?;
                match cx.op(v) {
                    op @ (Op::Const(_) | Op::Iota(_)) => Some(body.push(op.clone(), axes.to_vec(), node.span)),
                    _ => None,
                }
            })?;
            Some(cx.emit(Op::Scan(scan), Vec::new()))
        },
    },
    Rule {
        equation: "the steps that a scan gives out as it got them = what it got",
        on: &["out"],
        apply: |cx, node| {
            let (scan, index) = scan_of(cx, node)?;
            let carries = scan.init.len();
            match *result(scan, index) {
                Op::Param(p) if index >= carries && p as usize >= carries => scan.xs.get(p as usize - carries).copied(),
                _ => None,
            }
        },
    },
    Rule {
        equation: "what is the same in every step = that, expanded",
        on: &["out"],
        apply: |cx, node| {
            let (scan, index) = scan_of(cx, node)?;
            if index < scan.init.len() && cx.size(scan.axis) == 0 {
                return None;
            }
            let v = match *result(scan, index) {
                Op::Param(p) => *scan.consts.get((p as usize).checked_sub(scan.init.len() + scan.xs.len())?)?,
                _ => {
                    let c = scan.body.as_const(scan.body.results[index])?;
                    return Some(cx.filled(c, node));
                }
            };
            Some(cx.expand(v, &node.axes))
        },
    },
    Rule {
        equation: "an output that is another = the other",
        on: &["out"],
        apply: |cx, node| {
            let (scan, index) = scan_of(cx, node)?;
            let results = &scan.body.results;
            let start = if index < scan.init.len() { 0 } else { scan.init.len() };
            // Without a step, final carries are the first ones.
            if start == 0 && cx.size(scan.axis) == 0 {
                return None;
            }
            let first = (start..index).find(|i| results[*i] == results[index])?;
            let Op::Out { scan, .. } = node.op else { return None };
            Some(cx.emit(Op::Out { scan, index: first as u32 }, node.axes.clone()))
        },
    },
    Rule {
        equation: "an output expand y = expand(an output y)",
        on: &["out"],
        apply: |cx, node| {
            let (scan, index) = scan_of(cx, node)?;
            let Op::Expand(y) = *result(scan, index) else { return None };
            if index < scan.init.len() {
                return None;
            }
            let carries = scan.init.len();
            let axes: Vec<AxisId> = [scan.axis].iter().chain(scan.body.axes(y)).copied().collect();
            let there = (carries..scan.body.results.len()).find(|i| scan.body.results[*i] == y);
            let Op::Out { scan: id, .. } = node.op else { return None };
            let place = match there {
                Some(place) => place,
                None => {
                    let Op::Scan(scan) = &mut cx.graph.nodes[id.0 as usize].op else { return None };
                    scan.body.results.push(y);
                    scan.body.results.len() - 1
                }
            };
            let v = cx.emit(Op::Out { scan: id, index: place as u32 }, axes);
            Some(cx.expand(v, &node.axes))
        },
    },
];

fn scan_of<'a>(cx: &'a Cx<'_>, node: &Node) -> Option<(&'a Scan, usize)> {
    let Op::Out { scan, index } = node.op else { return None };
    match cx.op(scan) {
        Op::Scan(scan) => Some((scan, index as usize)),
        _ => None,
    }
}

/// The operation of a result of the body.
fn result(scan: &Scan, index: usize) -> &Op {
    &scan.body.node(scan.body.results[index]).op
}

fn is_param(body: &Graph, v: ValueId, number: usize) -> bool {
    matches!(body.node(v).op, Op::Param(p) if p as usize == number)
}

/// The scan with some parameters read in another way: `read` makes the new value of a parameter with these axes, or
/// leaves it. None if it leaves all that the body reads.
fn read_anew(node: &Node, mut read: impl FnMut(&mut Graph, usize, &[AxisId]) -> Option<ValueId>) -> Option<Box<Scan>> {
    let Op::Scan(scan) = &node.op else { return None };
    let mut read = |body: &mut Graph, n: &Node| match n.op {
        Op::Param(p) => read(body, p as usize, &n.axes),
        _ => None,
    };
    if !scan.body.nodes.iter().any(|n| read(&mut Graph::default(), n).is_some()) {
        return None;
    }
    let mut body = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(scan.body.nodes.len());
    for n in &scan.body.nodes {
        let new = read(&mut body, n).unwrap_or_else(|| {
            let op = n.op.clone().map_operands(|v| new_of[v.0 as usize]);
            body.push(op, n.axes.clone(), n.span)
        });
        new_of.push(new);
    }
    body.results = scan.body.results.iter().map(|v| new_of[v.0 as usize]).collect();
    let Scan { axis, direction, ref init, ref xs, ref consts, .. } = **scan;
    Some(Box::new(Scan { axis, direction, init: init.clone(), xs: xs.clone(), consts: consts.clone(), body }))
}
