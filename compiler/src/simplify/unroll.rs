//! A scan of one step is its body.
//!
//! Random numbers are counted along the scans around them, so a draw of the body becomes a draw with the scan's axis in
//! front. A draw further in, inside a scan of the body, would lose that axis: such a scan stays.

use std::collections::HashMap;

use crate::ir::{Axis, Graph, Op, Program, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass =
    Pass { name: "unroll", about: "Replaces a scan of one step by its body.", run: |program, _| unroll(program) };

/// Puts the bodies of scans along axes of one entry in their place.
pub fn unroll(program: &mut Program) {
    change(program, |axes, graph| unroll_graph(axes, graph));
}

fn unroll_graph(axes: &[Axis], old: Graph) -> Graph {
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    let mut unrolled: HashMap<ValueId, Vec<ValueId>> = HashMap::new();
    for (i, node) in old.nodes.into_iter().enumerate() {
        if let Op::Out { scan, index } = node.op
            && let Some(values) = unrolled.get(&scan)
        {
            new_of.push(values[index as usize]);
            continue;
        }
        let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
        if let Op::Scan(scan) = &mut op {
            scan.body = unroll_graph(axes, std::mem::take(&mut scan.body));
            if axes[scan.axis.0 as usize].size == 1 && !inner_draws(&scan.body) {
                unrolled.insert(ValueId(i as u32), step(&mut graph, scan));
                // Only values taken out of it refer to a scan.
                new_of.push(ValueId(u32::MAX));
                continue;
            }
        }
        new_of.push(graph.push(op, node.axes, node.span));
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}

/// The one step of a scan, and the scan's values.
fn step(graph: &mut Graph, scan: &Scan) -> Vec<ValueId> {
    let carries = scan.init.len();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(scan.body.nodes.len());
    for node in &scan.body.nodes {
        let span = node.span;
        let new = match &node.op {
            Op::Param(p) => match (*p as usize).checked_sub(carries) {
                None => scan.init[*p as usize],
                Some(p) => match scan.xs.get(p) {
                    Some(x) => graph.sum(*x, &[scan.axis], span),
                    None => scan.consts[p - scan.xs.len()],
                },
            },
            Op::Random { .. } => {
                let axes = [&[scan.axis], &node.axes[..]].concat();
                let draw = graph.push(node.op.clone(), axes, span);
                graph.sum(draw, &[scan.axis], span)
            }
            op => graph.push(op.clone().map_operands(|v| new_of[v.0 as usize]), node.axes.clone(), span),
        };
        new_of.push(new);
    }
    let results = scan.body.results.iter().map(|v| new_of[v.0 as usize]).enumerate();
    results
        .map(|(i, v)| match i < carries {
            true => v,
            false => {
                let axes = [&[scan.axis], graph.axes(v)].concat();
                graph.expand(v, &axes, graph.node(v).span)
            }
        })
        .collect()
}

fn inner_draws(body: &Graph) -> bool {
    body.nodes.iter().any(|node| match &node.op {
        Op::Scan(scan) => draws(&scan.body),
        _ => false,
    })
}

/// Whether a graph draws random numbers, in the bodies of its scans too.
pub(crate) fn draws(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| match &node.op {
        Op::Random { .. } => true,
        Op::Scan(scan) => draws(&scan.body),
        _ => false,
    })
}
