//! Consumer fusion: work on what a loop gives out, step by step, that leaves less of it is done in the loop.
//!
//! ```text
//! h = scan over t { .. h[t] }; y[t] = dot(h[t], c[t])   =   y = scan over t { .. dot(h[t], c[t]) }
//! ```
//!
//! The readout of a recurrence is smaller than its states: done in the loop, the states of all steps are not stored if
//! nobody else wants them, and not read again if somebody does.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::interchange::untouched;
use crate::ir::{Axis, AxisId, Graph, Op, Program, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "fuse_consumer_into_loop",
    about: "Moves work on what a loop gives out into the loop, where less comes out of it then.",
    run: |program, _| fuse_consumer_into_loop(program),
};

/// Pulls work into loops, one piece of each loop at a time.
pub(crate) fn fuse_consumer_into_loop(program: &mut Program) {
    change(program, |axes, graph| fuse_graph(axes, graph));
}

fn fuse_graph(axes: &[Axis], mut old: Graph) -> Graph {
    for node in &mut old.nodes {
        if let Op::Scan(scan) = &mut node.op {
            scan.body = fuse_graph(axes, std::mem::take(&mut scan.body));
        }
    }
    // A loop gets further work in the next round, when its new outputs are outputs.
    while let Some((scan, work)) = find(axes, &old) {
        old = moved(&old, scan, work);
    }
    old
}

/// A loop and a node that goes into it.
fn find(axes: &[Axis], graph: &Graph) -> Option<(ValueId, ValueId)> {
    let len = |v: ValueId| graph.axes(v).iter().map(|a| axes[a.0 as usize].size).product::<usize>();
    let mut after: HashMap<ValueId, HashSet<ValueId>> = HashMap::new();
    for v in graph.ids() {
        let node = graph.node(v);
        let mut operands = Vec::new();
        node.op.operands(|x| operands.push(x));
        for x in &operands {
            let Some(Stacked { scan, steps, .. }) = stacked(graph, *x) else { continue };
            let stepwise = node.axes.contains(&steps) && untouched(graph, v, &[steps]);
            if !stepwise || len(v) >= len(*x) || matches!(node.op, Op::Scan(_)) {
                continue;
            }
            let after = after.entry(scan).or_insert_with(|| depending(graph, scan));
            let known =
                |y: &ValueId| !after.contains(y) || stacked(graph, *y).is_some_and(|y| y.scan == scan && y.steps == steps);
            if operands.iter().all(known) {
                return Some((scan, v));
            }
        }
    }
    None
}

/// An output of all steps of a loop.
struct Stacked {
    scan: ValueId,
    index: usize,
    /// The name that the axis of the steps has.
    steps: AxisId,
}

fn stacked(graph: &Graph, v: ValueId) -> Option<Stacked> {
    match graph.node(v).op {
        Op::Out { scan, index } => {
            let Op::Scan(of) = &graph.node(scan).op else { return None };
            (index as usize >= of.init.len()).then_some(Stacked { scan, index: index as usize, steps: of.axis })
        }
        Op::Rename { of, from, to } => {
            let of = stacked(graph, of)?;
            (of.steps == from).then_some(Stacked { steps: to, ..of })
        }
        _ => None,
    }
}

/// All that needs a value, and the value.
pub(super) fn depending(graph: &Graph, on: ValueId) -> HashSet<ValueId> {
    let mut found = HashSet::from([on]);
    for v in graph.ids() {
        let mut depends = false;
        graph.node(v).op.operands(|x| depends |= found.contains(&x));
        if depends {
            found.insert(v);
        }
    }
    found
}

/// The graph with a node in the loop; what it needs comes before the loop.
fn moved(old: &Graph, scan: ValueId, work: ValueId) -> Graph {
    let mut operands = Vec::new();
    old.node(work).op.operands(|x| operands.push(x));
    operands.sort();
    operands.dedup();
    let from_loop = |x: &ValueId| stacked(old, *x).filter(|s| s.scan == scan);
    let steps = operands.iter().find_map(from_loop).map(|s| s.steps);
    let (Some(steps), Op::Scan(of)) = (steps, &old.node(scan).op) else { return old.clone() };
    let given: Vec<ValueId> = operands.iter().copied().filter(|x| from_loop(x).is_none()).collect();
    let mut before = BTreeSet::new();
    let mut todo = given.clone();
    while let Some(v) = todo.pop() {
        if v > scan && before.insert(v) {
            old.node(v).op.operands(|x| todo.push(x));
        }
    }
    let mut order: Vec<ValueId> = old.ids().filter(|v| !before.contains(v)).collect();
    let place = order.iter().position(|v| *v == scan).unwrap_or(0);
    order.splice(place..place, before);
    let without = |axes: &[AxisId]| axes.iter().copied().filter(|a| *a != steps).collect::<Vec<_>>();
    let mut graph = Graph::default();
    let mut new_of: HashMap<ValueId, ValueId> = HashMap::new();
    let mut index = 0;
    for v in order {
        let node = old.node(v);
        let new = if v == scan {
            let mut loops = Op::Scan(of.clone()).map_operands(|x| new_of[&x]);
            if let Op::Scan(of) = &mut loops {
                let (xs, consts) = given.iter().copied().partition::<Vec<_>, _>(|x| old.axes(*x).contains(&steps));
                let mut inside = params(of, xs.len(), consts.len(), |of, i, p| {
                    let x = xs.iter().chain(&consts).nth(i).copied().unwrap_or(work);
                    of.body.push(Op::Param(p), without(old.axes(x)), old.node(x).span)
                });
                let mut named: HashMap<ValueId, ValueId> = xs.iter().chain(&consts).copied().zip(inside.drain(..)).collect();
                for x in &operands {
                    if let Some(s) = from_loop(x) {
                        named.insert(*x, of.body.results[s.index]);
                    }
                }
                let work = old.node(work);
                let result = of.body.push(work.op.clone().map_operands(|x| named[&x]), without(&work.axes), work.span);
                of.body.results.push(result);
                index = of.body.results.len() - 1;
                of.xs.extend(xs.iter().map(|x| graph.rename(new_of[x], steps, of.axis, work.span)));
                of.consts.extend(consts.iter().map(|x| new_of[x]));
            }
            graph.push(loops, node.axes.clone(), node.span)
        } else if v == work {
            let axes = [&[of.axis], &without(&node.axes)[..]].concat();
            let out = graph.out(new_of[&scan], index, axes, node.span);
            graph.rename(out, of.axis, steps, node.span)
        } else {
            graph.push(node.op.clone().map_operands(|x| new_of[&x]), node.axes.clone(), node.span)
        };
        new_of.insert(v, new);
    }
    graph.results = old.results.iter().map(|v| new_of[v]).collect();
    graph
}

/// Makes room for `xs` more data and `consts` more constants of a loop, and their parameters.
fn params(of: &mut Scan, xs: usize, consts: usize, mut param: impl FnMut(&mut Scan, usize, u32) -> ValueId) -> Vec<ValueId> {
    let first = (of.init.len() + of.xs.len()) as u32;
    for node in &mut of.body.nodes {
        if let Op::Param(p) = &mut node.op
            && *p >= first
        {
            *p += xs as u32;
        }
    }
    let behind = first + (xs + of.consts.len()) as u32;
    let numbers: Vec<u32> = (first..first + xs as u32).chain(behind..behind + consts as u32).collect();
    numbers.into_iter().enumerate().map(|(i, p)| param(of, i, p)).collect()
}
