//! Rematerialisation: what is larger than all that it is made of is made in the loop that reads it.
//!
//! ```text
//! g[t, d, n] = y[t, d] c[t, n]; scan over t { .. g[t] .. } = scan over t { .. y[t] c[t] .. }
//! ```
//!
//! The gradient of a readout is an outer product of every step: the states' size for each, stored only to be read once.

use std::collections::HashMap;

use super::interchange::untouched;
use crate::ir::{Axis, AxisId, Graph, Op, Program, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "remat",
    about: "Rematerialisation: computes outer products again in the loop that alone reads them.",
    run: |program, _| remat(program),
};

/// Moves products into the loops that alone read them.
pub(crate) fn remat(program: &mut Program) {
    change(program, |axes, graph| remat_graph(axes, graph));
}

fn remat_graph(axes: &[Axis], old: Graph) -> Graph {
    let mut reads: HashMap<ValueId, usize> = HashMap::new();
    old.nodes.iter().for_each(|node| node.op.operands(|x| *reads.entry(x).or_default() += 1));
    old.results.iter().for_each(|x| *reads.entry(*x).or_default() += 1);
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    for node in old.nodes {
        let mut op = node.op.clone().map_operands(|x| new_of[x.0 as usize]);
        if let (Op::Scan(before), Op::Scan(scan)) = (&node.op, &mut op) {
            scan.body = remat_graph(axes, std::mem::take(&mut scan.body));
            let alone: Vec<bool> = before.xs.iter().map(|x| reads[x] == 1).collect();
            for i in (0..alone.len()).rev().filter(|i| alone[*i]) {
                if let Some(product) = product(axes, &graph, scan.xs[i], scan.axis) {
                    take(&mut graph, scan, i, product);
                }
            }
        }
        new_of.push(graph.push(op, node.axes, node.span));
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}

/// A product, and the name that the steps have in it.
struct Product {
    of: ValueId,
    steps: AxisId,
    operands: [ValueId; 2],
}

/// What a loop reads, if it is a product of less.
fn product(axes: &[Axis], graph: &Graph, x: ValueId, axis: AxisId) -> Option<Product> {
    let (of, steps) = match graph.node(x).op {
        Op::Rename { of, from, to } if to == axis => (of, from),
        _ => (x, axis),
    };
    let Op::Mul(a, b) = graph.node(of).op else { return None };
    let len = |v: ValueId| graph.axes(v).iter().map(|a| axes[a.0 as usize].size).product::<usize>();
    (2 * (len(a) + len(b)) <= len(of) && untouched(graph, of, &[steps])).then_some(Product { of, steps, operands: [a, b] })
}

/// The loop computes a product itself, instead of reading it as its data number `i`.
fn take(graph: &mut Graph, scan: &mut Scan, i: usize, product: Product) {
    let Product { of, steps, operands } = product;
    let (node, old) = (graph.node(of).clone(), std::mem::take(&mut scan.body));
    let (data, constants) = operands.into_iter().partition::<Vec<_>, _>(|x| graph.axes(*x).contains(&steps));
    let given = scan.init.len() + scan.xs.len();
    scan.xs.remove(i);
    let first = (scan.init.len() + scan.xs.len()) as u32;
    let behind = first + (data.len() + scan.consts.len()) as u32;
    let without = |axes: &[AxisId]| axes.iter().copied().filter(|a| *a != steps).collect::<Vec<_>>();
    let mut body = Graph::default();
    let mut named: HashMap<ValueId, ValueId> = HashMap::new();
    for (number, x) in (first..).zip(&data).chain((behind..).zip(&constants)) {
        named.insert(*x, body.push(Op::Param(number), without(graph.axes(*x)), node.span));
    }
    let made = body.push(node.op.clone().map_operands(|x| named[&x]), without(&node.axes), node.span);
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    for inside in old.nodes {
        let new = match inside.op {
            // The order of its axes may be another there.
            Op::Param(p) if p as usize == scan.init.len() + i => body.push(Op::Expand(made), inside.axes, inside.span),
            Op::Param(p) => {
                let before = if p as usize >= given { data.len() as u32 } else { 0 };
                let number = if (p as usize) < scan.init.len() + i { p } else { p - 1 + before };
                body.push(Op::Param(number), inside.axes, inside.span)
            }
            op => body.push(op.map_operands(|x| new_of[x.0 as usize]), inside.axes, inside.span),
        };
        new_of.push(new);
    }
    body.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    scan.body = body;
    scan.xs.extend(data.iter().map(|x| graph.rename(*x, steps, scan.axis, node.span)));
    scan.consts.extend(constants);
}
