//! Loop interchange: a loop whose carries are too large for a cache, along an axis that all its steps treat alike, becomes a loop over that
//! axis of smaller loops.
//!
//! ```text
//! scan over t { c[s] = f(c[s], x[s, t]) } = for all s { scan over t { c = f(c, x[t]) } }
//! ```
//!
//! Rollouts that start at several steps of a segment carry a state for each start. One after the other they compute the
//! same, and what one of them works on is smaller by as many times.

use std::collections::HashMap;

use crate::ir::{Axis, AxisId, Composite, Direction, Graph, Op, Program, Scan, ValueId};
use crate::pass::{Pass, change};
use crate::simplify::draws;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "interchange",
    about: "Loop interchange: runs a loop with large carries once for each entry of an axis instead of for all.",
    run: |program, cx| interchange(program, &cx.rows, cx.target.carried),
};

/// Peels axes off loops whose carries have more than `limit` numbers for each of the `rows`.
pub(crate) fn interchange(program: &mut Program, rows: &[AxisId], limit: usize) {
    change(program, |axes, graph| interchange_graph(axes, graph, rows, limit));
}

fn interchange_graph(axes: &[Axis], old: Graph, rows: &[AxisId], limit: usize) -> Graph {
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    let mut peeled: HashMap<ValueId, Vec<AxisId>> = HashMap::new();
    for node in old.nodes {
        let op = node.op.map_operands(|v| new_of[v.0 as usize]);
        let new = match &op {
            Op::Scan(scan) => match names_to_peel(axes, scan, rows, limit) {
                Some(names) => {
                    let outer = outer(&mut graph, scan, &names);
                    let new = graph.push(Op::Scan(Box::new(outer)), node.axes, node.span);
                    peeled.insert(new, names);
                    new
                }
                None => graph.push(op, node.axes, node.span),
            },
            Op::Out { scan, .. } if peeled.contains_key(scan) => {
                let names = &peeled[scan];
                let rest = node.axes.iter().copied().filter(|a| !names.contains(a));
                let axes = [names[0]].into_iter().chain(rest).collect();
                let out = graph.push(op, axes, node.span);
                let own = node.axes.iter().find(|a| names.contains(a)).copied().unwrap_or(names[0]);
                graph.rename(out, names[0], own, node.span)
            }
            _ => graph.push(op, node.axes, node.span),
        };
        new_of.push(new);
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}

/// The names of the longest axis of all results that no step touches but to rename it.
fn names_to_peel(axes: &[Axis], scan: &Scan, rows: &[AxisId], limit: usize) -> Option<Vec<AxisId>> {
    let size = |a: &AxisId| axes[a.0 as usize].size;
    let carries = &scan.body.results[..scan.init.len()];
    let numbers = |v: &ValueId| scan.body.axes(*v).iter().filter(|a| !rows.contains(a)).map(size).product::<usize>();
    if draws(&scan.body) || carries.iter().map(numbers).sum::<usize>() <= limit {
        return None;
    }
    let candidates = scan.body.axes(*carries.first()?).iter().copied().filter(|a| !rows.contains(a) && size(a) > 1);
    let classes = candidates.map(|a| names(&scan.body, a)).filter(|names| {
        let once = |v: ValueId| scan.body.axes(v).iter().filter(|a| names.contains(a)).count();
        scan.body.results.iter().all(|v| once(*v) == 1)
            && scan.body.ids().all(|v| once(v) <= 1 && untouched(&scan.body, v, names))
    });
    classes.max_by_key(|names| (size(&names[0]), std::cmp::Reverse(names[0])))
}

/// An axis and what it is renamed to and from.
fn names(body: &Graph, axis: AxisId) -> Vec<AxisId> {
    let mut names = vec![axis];
    let mut seen = 0;
    while seen < names.len() {
        for node in &body.nodes {
            let Op::Rename { from, to, .. } = node.op else { continue };
            for (a, b) in [(from, to), (to, from)] {
                if a == names[seen] && !names.contains(&b) {
                    names.push(b);
                }
            }
        }
        seen += 1;
    }
    names
}

/// Whether a node does the same for every entry of an axis, by itself.
pub(super) fn untouched(body: &Graph, v: ValueId, names: &[AxisId]) -> bool {
    let op = &body.node(v).op;
    let has = |v: ValueId| body.axes(v).iter().any(|a| names.contains(a));
    let (mut any, mut named) = (false, false);
    op.operands(|x| any |= has(x));
    let mut name = |a: &AxisId| named |= names.contains(a);
    match op {
        Op::Scan(_) | Op::Out { .. } => return !has(v) && !any,
        Op::Random { .. } => return false,
        Op::Iota(a) => name(a),
        Op::Slice { axis, into, .. } | Op::Pad { axis, into, .. } => [axis, into].into_iter().for_each(name),
        Op::Split { axis, into, .. } => into.iter().chain([axis]).for_each(name),
        Op::Join { axes, into, .. } => axes.iter().chain([into]).for_each(name),
        Op::Concat { along, into, .. } => along.iter().chain([into]).for_each(name),
        Op::Gather { axis, .. } | Op::Argsort { axis, .. } => name(axis),
        Op::Scatter { over, into, .. } => over.iter().chain([into]).for_each(name),
        Op::Dot { over, .. } | Op::Reduce { over, .. } => over.iter().for_each(name),
        Op::Composite(Composite::Softmax(a) | Composite::LogSoftmax(a) | Composite::LogSumExp(a), _) => name(a),
        _ => {}
    }
    // It comes with the parameters, or by spreading what does not have it.
    let from_where = any || !has(v) || matches!(op, Op::Param(_) | Op::Expand(_));
    !named && from_where && (has(v) || !any)
}

/// The loop over the axis, and the loop in its body.
fn outer(graph: &mut Graph, scan: &Scan, names: &[AxisId]) -> Scan {
    let axis = names[0];
    let mut named = |v: &ValueId| {
        let own = graph.axes(*v).iter().find(|a| names.contains(a)).copied().unwrap_or(axis);
        let span = graph.node(*v).span;
        graph.rename(*v, own, axis, span)
    };
    let [init, own_xs, own_consts] =
        [&scan.init, &scan.xs, &scan.consts].map(|list| list.iter().map(&mut named).collect::<Vec<_>>());
    let all: Vec<ValueId> = init.iter().chain(&own_xs).chain(&own_consts).copied().collect();
    let has = |v: &ValueId| graph.axes(*v).contains(&axis);
    let mut xs: Vec<ValueId> = all.iter().copied().filter(|v| has(v)).collect();
    let mut consts: Vec<ValueId> = all.iter().copied().filter(|v| !has(v)).collect();
    for list in [&mut xs, &mut consts] {
        list.sort();
        list.dedup();
    }
    let without = |list: &[AxisId]| list.iter().copied().filter(|a| !names.contains(a)).collect::<Vec<_>>();
    let mut body = Graph::default();
    let mut params: HashMap<ValueId, ValueId> = HashMap::new();
    for (p, v) in xs.iter().chain(&consts).enumerate() {
        let span = graph.node(*v).span;
        params.insert(*v, body.push(Op::Param(p as u32), without(graph.axes(*v)), span));
    }
    let given = |list: &[ValueId]| list.iter().map(|v| params[v]).collect::<Vec<_>>();
    let mut inner = Graph::default();
    for node in &scan.body.nodes {
        let op = match node.op {
            // A new name for what is gone.
            Op::Rename { of, from, .. } if names.contains(&from) => Op::Expand(of),
            ref op => op.clone(),
        };
        inner.push(op, without(&node.axes), node.span);
    }
    inner.results = scan.body.results.clone();
    let carries = scan.init.len();
    let inner_scan = Scan {
        axis: scan.axis,
        direction: scan.direction,
        init: given(&init),
        xs: given(&own_xs),
        consts: given(&own_consts),
        body: inner,
    };
    let span = scan.body.results.first().map(|v| scan.body.node(*v).span).unwrap_or_default();
    let results: Vec<Vec<AxisId>> = (scan.body.results.iter().enumerate())
        .map(|(i, v)| {
            let own = without(scan.body.axes(*v));
            if i < carries { own } else { [&[scan.axis], &own[..]].concat() }
        })
        .collect();
    let id = body.push(Op::Scan(Box::new(inner_scan)), Vec::new(), span);
    body.results = results.into_iter().enumerate().map(|(i, axes)| body.out(id, i, axes, span)).collect();
    Scan { axis, direction: Direction::Forward, init: Vec::new(), xs, consts, body }
}
