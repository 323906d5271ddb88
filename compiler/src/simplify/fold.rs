//! Constants are computed.
//!
//! What depends on nothing but numbers and `iota` is run by the [interpreter](crate::interp), in double precision. A value
//! that turns out to be the same number throughout becomes that number; there are no arrays of constants, so others stay
//! as they are. So does what is not finite: the run is to report it, at its place in the source.

use std::collections::BTreeMap;

use crate::interp::{Clock, run};
use crate::ir::{Axis, Graph, Node, Op, Program, ValueId};
use crate::pass::Pass;

/// Values with more entries are not computed ahead.
const ENTRIES: usize = 4096;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass =
    Pass { name: "fold", about: "Constant folding: computes what depends on numbers alone.", run: |program, _| fold(program) };

/// Computes constants throughout a program.
pub fn fold(program: &mut Program) {
    let Program { axes, graph, .. } = program;
    fold_graph(axes, graph);
}

fn fold_graph(axes: &[Axis], graph: &mut Graph) {
    for node in &mut graph.nodes {
        if let Op::Scan(scan) = &mut node.op {
            fold_graph(axes, &mut scan.body);
        }
    }
    let numbers = numbers(axes, graph);
    if numbers.is_empty() {
        return;
    }
    let old = std::mem::take(graph);
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    for (i, node) in old.nodes.into_iter().enumerate() {
        new_of.push(match numbers.get(&ValueId(i as u32)) {
            Some(c) => {
                let c = graph.constant(*c, node.span);
                graph.expand(c, &node.axes, node.span)
            }
            None => graph.push(node.op.map_operands(|v| new_of[v.0 as usize]), node.axes, node.span),
        });
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    super::dce::sweep(graph);
}

/// Values that are one number throughout and do not say so yet.
fn numbers(axes: &[Axis], graph: &Graph) -> BTreeMap<ValueId, f64> {
    // The part of the graph that is known, as a program of its own.
    let mut known = Program { name: "constants".to_string(), axes: axes.to_vec(), ..Program::default() };
    let mut new_of: Vec<Option<ValueId>> = Vec::with_capacity(graph.nodes.len());
    let mut wanted = Vec::new();
    for v in graph.ids() {
        let Node { op, axes, span } = graph.node(v);
        let mut all = known.len(axes) <= ENTRIES;
        op.operands(|v| all &= new_of[v.0 as usize].is_some());
        let is_known = all && !matches!(op, Op::Input(_) | Op::Param(_) | Op::Random { .. } | Op::Scan(_) | Op::Out { .. });
        new_of.push(is_known.then(|| {
            let op = op.clone().map_operands(|v| new_of[v.0 as usize].unwrap_or(v));
            known.graph.push(op, axes.clone(), *span)
        }));
        // Markers of gradients are not for this pass to remove.
        if is_known && !matches!(op, Op::Const(_) | Op::Expand(_) | Op::Stop(_) | Op::Id(_)) {
            wanted.push(v);
        }
    }
    if wanted.is_empty() {
        return BTreeMap::new();
    }
    known.graph.results = wanted.iter().filter_map(|v| new_of[v.0 as usize]).collect();
    // A place out of range is for the run to report.
    let Ok(values) = run::<f64>(&known, &[], &BTreeMap::new(), Clock::default()) else { return BTreeMap::new() };
    let one_number = |data: &[f64]| match data {
        [first, rest @ ..] if first.is_finite() && rest.iter().all(|x| x == first) => Some(*first),
        _ => None,
    };
    wanted.into_iter().zip(values).filter_map(|(v, array)| Some((v, one_number(&array.data)?))).collect()
}
