//! Horizontal fusion: products of the same rows with several weights become one product with all of them side by side.
//!
//! ```text
//! dot(x, v), dot(x, w) = parts of dot(x, concat(v, w))
//! ```
//!
//! Nets that read the same input do so once, and a device waits once for all of them. The weights are put together when they
//! change, outside of all loops. A program that updates parameters stays as it is: it keeps what each product gives by
//! itself for the gradients, and to copy the parts out of the joined product again costs more than is won.

use std::collections::{BTreeMap, HashSet};

use crate::ir::{Axis, AxisId, Graph, Op, Program, Role, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "horizontal_fusion",
    about: "Joins products of the same rows with several weights into one product.",
    run: |program, cx| horizontal_fusion(program, &cx.rows),
};

/// Joins products of values that have one of the axes `rows`.
pub(crate) fn horizontal_fusion(program: &mut Program, rows: &[AxisId]) {
    let mut updated = program.outputs.iter().filter_map(|output| output.updates);
    if updated.any(|input| program.inputs[input].role == Role::Param) {
        return;
    }
    change(program, |axes, graph| fuse_graph(axes, graph, rows));
}

/// What products must agree in to be one: the rows' operand, what is summed over, the axes of the weight and of the result with the
/// output's left out, and where that is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    x: ValueId,
    over: Vec<AxisId>,
    weight: (Vec<AxisId>, usize),
    result: (Vec<AxisId>, usize),
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct Part {
    dot: ValueId,
    weight: ValueId,
    outputs: AxisId,
}

fn fuse_graph(axes: &mut Vec<Axis>, old: Graph, rows: &[AxisId]) -> Graph {
    let mut groups: BTreeMap<Key, Vec<Part>> = BTreeMap::new();
    // What is given out is computed where it belongs.
    let given: HashSet<ValueId> = old.results.iter().map(|v| origin(&old, *v)).collect();
    for v in old.ids().filter(|v| !given.contains(v)) {
        if let Some((key, part)) = part(&old, v, rows) {
            groups.entry(key).or_default().push(part);
        }
    }
    // Weights come first, wherever they stand.
    let mut order: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    let mut of_weights: HashSet<ValueId> = HashSet::new();
    for v in old.ids() {
        let node = old.node(v);
        let mut known = !matches!(node.op, Op::Scan(_) | Op::Random { .. }) && !node.axes.iter().any(|a| rows.contains(a));
        node.op.operands(|x| known &= of_weights.contains(&x));
        if known {
            of_weights.insert(v);
            order.push(v);
        }
    }
    order.extend(old.ids().filter(|v| !of_weights.contains(v)));
    groups.values_mut().for_each(|parts| parts.retain(|part| of_weights.contains(&part.weight)));
    let joined: BTreeMap<ValueId, (&Key, &Vec<Part>)> =
        groups.iter().filter(|(_, parts)| parts.len() > 1).map(|(key, parts)| (parts[0].dot, (key, parts))).collect();
    let mut graph = Graph::default();
    let mut new_of: Vec<Option<ValueId>> = vec![None; old.nodes.len()];
    for v in order {
        let node = old.node(v);
        let new = |x: ValueId| new_of[x.0 as usize].expect("operands come first");
        if let Some((key, parts)) = joined.get(&v) {
            let weights: Vec<ValueId> = parts.iter().map(|part| new(part.weight)).collect();
            let all = join(axes, &mut graph, key, new(key.x), &weights, parts, &old);
            parts.iter().zip(all).for_each(|(part, new)| new_of[part.dot.0 as usize] = Some(new));
        } else if new_of[v.0 as usize].is_none() {
            let mut op = node.op.clone().map_operands(new);
            if let Op::Scan(scan) = &mut op {
                scan.body = fuse_graph(axes, std::mem::take(&mut scan.body), rows);
                lift(&mut graph, scan);
            }
            new_of[v.0 as usize] = Some(graph.push(op, node.axes.clone(), node.span));
        }
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize].expect("all are done")).collect();
    graph
}

/// The value that is given out under other names.
fn origin(graph: &Graph, v: ValueId) -> ValueId {
    match graph.node(v).op {
        Op::Rename { of, .. } | Op::Expand(of) | Op::Id(of) | Op::Stop(of) => origin(graph, of),
        _ => v,
    }
}

/// A product of rows with a weight that has one axis of outputs.
fn part(graph: &Graph, v: ValueId, rows: &[AxisId]) -> Option<(Key, Part)> {
    let Op::Dot { a, b, over } = &graph.node(v).op else { return None };
    let has_rows = |x: ValueId| graph.axes(x).iter().any(|axis| rows.contains(axis));
    let (x, weight) = match (has_rows(*a), has_rows(*b)) {
        (true, false) => (*a, *b),
        (false, true) => (*b, *a),
        _ => return None,
    };
    let mut outputs = graph.axes(weight).iter().copied().filter(|axis| !over.contains(axis));
    let outputs = outputs.next().filter(|_| outputs.next().is_none())?;
    let without = |axes: &[AxisId]| {
        let at = axes.iter().position(|a| *a == outputs)?;
        Some((axes.iter().copied().filter(|a| *a != outputs).collect(), at))
    };
    let key = Key { x, over: over.clone(), weight: without(graph.axes(weight))?, result: without(graph.axes(v))? };
    Some((key, Part { dot: v, weight, outputs }))
}

/// The one product, and its parts.
fn join(
    axes: &mut Vec<Axis>,
    graph: &mut Graph,
    key: &Key,
    x: ValueId,
    weights: &[ValueId],
    parts: &[Part],
    old: &Graph,
) -> Vec<ValueId> {
    let span = old.node(parts[0].dot).span;
    let size = |axis: AxisId| axes[axis.0 as usize].size;
    let sizes: Vec<usize> = parts.iter().map(|part| size(part.outputs)).collect();
    let into = AxisId(axes.len() as u32);
    axes.push(Axis { name: format!("{}_all", axes[parts[0].outputs.0 as usize].name), size: sizes.iter().sum() });
    let with = |(rest, at): &(Vec<AxisId>, usize), axis: AxisId| [&rest[..*at], &[axis], &rest[*at..]].concat();
    let along = parts.iter().map(|part| part.outputs).collect();
    let weight = graph.push(Op::Concat { parts: weights.to_vec(), along, into }, with(&key.weight, into), span);
    let all = graph.push(Op::Dot { a: x, b: weight, over: key.over.clone() }, with(&key.result, into), span);
    let mut start = 0;
    let part = |(part, size): (&Part, usize)| {
        let slice = Op::Slice { of: all, axis: into, start, into: part.outputs };
        start += size;
        graph.push(slice, with(&key.result, part.outputs), old.node(part.dot).span)
    };
    parts.iter().zip(sizes).map(part).collect()
}

/// What a loop puts together of its constants is put together before it.
fn lift(graph: &mut Graph, scan: &mut Scan) {
    let constants = (scan.init.len() + scan.xs.len()) as u32;
    for i in 0..scan.body.nodes.len() {
        let node = &scan.body.nodes[i];
        let Op::Concat { parts, along, into } = &node.op else { continue };
        let outside = |v: &ValueId| match scan.body.node(*v).op {
            Op::Param(p) if p >= constants => Some(scan.consts[(p - constants) as usize]),
            _ => None,
        };
        let Some(parts) = parts.iter().map(outside).collect::<Option<Vec<_>>>() else { continue };
        let all = graph.push(Op::Concat { parts, along: along.clone(), into: *into }, node.axes.clone(), node.span);
        scan.body.nodes[i].op = Op::Param(constants + scan.consts.len() as u32);
        scan.consts.push(all);
    }
}
