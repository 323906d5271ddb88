//! Reduction fusion: sums over all steps of what nobody else needs are kept in the loop, as running sums.
//!
//! What a loop gives out is stored for every step. Where a sum over the steps is its only reader,
//!
//! ```text
//! sum over t, a of y[t] = sum over a of w,  w = w + y[t] in every step
//! ```
//!
//! the loop carries `w`, which has no axis of steps. Axes that are summed up as well and are not rows go inside. It is the
//! opposite of [`sink`](crate::simplify::sink()), which takes sums out that are products.

use std::collections::{HashMap, HashSet};

use crate::ir::{AxisId, Graph, Op, Program, Reduction, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "accumulate_in_loop",
    about: "Adds up in the loop what only a sum over all steps needs, instead of storing every step.",
    run: |program, cx| accumulate_in_loop(program, &cx.rows),
};

/// Keeps sums over steps in their loops; no sum over `rows` gets there.
pub(crate) fn accumulate_in_loop(program: &mut Program, rows: &[AxisId]) {
    change(program, |_, graph| accumulate_graph(graph, rows));
}

/// A sum over all steps of an output, by the output's number.
type Sums = HashMap<u32, Vec<AxisId>>;

fn accumulate_graph(old: Graph, rows: &[AxisId]) -> Graph {
    let sums = sums(&old);
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    // Final running sums; where outputs are now, by the scan.
    let mut kept: HashSet<ValueId> = HashSet::new();
    let mut moved: HashMap<ValueId, Vec<u32>> = HashMap::new();
    for (i, node) in old.nodes.into_iter().enumerate() {
        let id = ValueId(i as u32);
        let over = match node.op {
            Op::Out { scan, index } => sums.get(&scan).and_then(|sums| sums.get(&index)),
            _ => None,
        };
        let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
        match &mut op {
            Op::Scan(scan) => {
                scan.body = accumulate_graph(std::mem::take(&mut scan.body), rows);
                let places = carry_sums(scan, sums.get(&id), rows, &mut graph);
                let new = graph.push(op, node.axes, node.span);
                moved.insert(new, places);
                new_of.push(new);
                continue;
            }
            Op::Out { scan, index } => {
                *index = moved.get(scan).map_or(*index, |places| places[*index as usize]);
                if let Some(over) = over {
                    // The steps' axis and those that went inside are gone; elsewhere the former may be rows.
                    let steps = match &graph.node(*scan).op {
                        Op::Scan(scan) => Some(scan.axis),
                        _ => None,
                    };
                    let stays = |a: &AxisId| Some(*a) != steps && (!over.contains(a) || rows.contains(a));
                    let axes = node.axes.iter().copied().filter(stays).collect();
                    let new = graph.push(op, axes, node.span);
                    kept.insert(new);
                    new_of.push(new);
                    continue;
                }
            }
            Op::Reduce { of, over, .. } if kept.contains(of) => {
                let of = *of;
                let over: Vec<AxisId> = over.iter().copied().filter(|a| graph.axes(of).contains(a)).collect();
                let new = if over.is_empty() { of } else { graph.sum(of, &over, node.span) };
                new_of.push(new);
                continue;
            }
            _ => {}
        }
        new_of.push(graph.push(op, node.axes, node.span));
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}

/// The outputs of each scan whose only reader is one sum over all steps, with the axes of the sum.
fn sums(graph: &Graph) -> HashMap<ValueId, Sums> {
    let mut readers: Vec<Vec<ValueId>> = vec![Vec::new(); graph.nodes.len()];
    for v in graph.ids() {
        graph.node(v).op.operands(|x| readers[x.0 as usize].push(v));
    }
    let mut outs: HashMap<(ValueId, u32), usize> = HashMap::new();
    for v in graph.ids() {
        if let Op::Out { scan, index } = graph.node(v).op {
            *outs.entry((scan, index)).or_default() += 1;
        }
    }
    let mut found: HashMap<ValueId, Sums> = HashMap::new();
    for v in graph.ids() {
        let Op::Out { scan: of, index } = graph.node(v).op else { continue };
        let Op::Scan(scan) = &graph.node(of).op else { continue };
        let alone = outs[&(of, index)] == 1 && !graph.results.contains(&v);
        let carries = scan.init.len() as u32;
        if let ([reader], true, true) = (&readers[v.0 as usize][..], alone, index >= carries)
            && let Op::Reduce { op: Reduction::Sum, over, .. } = &graph.node(*reader).op
            && over.contains(&scan.axis)
        {
            found.entry(of).or_default().insert(index, over.clone());
        }
    }
    found
}

/// Turns outputs into running sums, new carries behind the others; says where each output is now.
fn carry_sums(scan: &mut Scan, sums: Option<&Sums>, rows: &[AxisId], graph: &mut Graph) -> Vec<u32> {
    let carries = scan.init.len() as u32;
    let count = scan.body.results.len() as u32;
    let mut indices: Vec<u32> = sums.map_or(Vec::new(), |s| s.keys().copied().collect());
    indices.sort_unstable();
    let new = indices.len() as u32;
    // Data and constants make room for the new carries.
    for node in &mut scan.body.nodes {
        if let Op::Param(p) = &mut node.op
            && *p >= carries
        {
            *p += new;
        }
    }
    let mut totals = Vec::new();
    for (n, index) in indices.iter().enumerate() {
        let y = scan.body.results[*index as usize];
        let span = scan.body.node(y).span;
        let inside: Vec<AxisId> = match sums.and_then(|s| s.get(index)) {
            Some(over) => over.iter().copied().filter(|a| scan.body.axes(y).contains(a) && !rows.contains(a)).collect(),
            None => Vec::new(),
        };
        let y = if inside.is_empty() { y } else { scan.body.sum(y, &inside, span) };
        let axes = scan.body.axes(y).to_vec();
        let so_far = scan.body.push(Op::Param(carries + n as u32), axes.clone(), span);
        totals.push(scan.body.add(so_far, y, span));
        let zero = graph.constant(0.0, span);
        scan.init.push(graph.expand(zero, &axes, span));
    }
    let rest: Vec<u32> = (carries..count).filter(|i| !indices.contains(i)).collect();
    let results = &scan.body.results;
    let all = (0..carries).map(|i| results[i as usize]).chain(totals).chain(rest.iter().map(|i| results[*i as usize]));
    scan.body.results = all.collect();
    (0..count)
        .map(|i| match (indices.iter().position(|x| *x == i), rest.iter().position(|x| *x == i)) {
            (Some(n), _) => carries + n as u32,
            (None, Some(n)) => carries + new + n as u32,
            (None, None) => i,
        })
        .collect()
}
