//! Gradients by a value that is the same at several points, one for each point.
//!
//! `grad(e, x)` is pointwise: where `e` varies along an axis and `x` does not, `x` counts as a variable of its own at
//! every place of that axis. Nothing is computed again for this: all places hold the same numbers. Only cotangents have
//! the axis. [`axes`] finds the axes that each value would have if `x` had been spread; [`Pull`](super::Pull) gives
//! them to its cotangent, and so does not sum over them.

use std::collections::HashMap;

use crate::ir::{AxisId, Graph, Op, Scan, ValueId};

/// The axes that values have on top of their own, by value.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    of: HashMap<ValueId, Vec<AxisId>>,
    /// For a scan: the axes of its results.
    scans: HashMap<ValueId, Vec<Vec<AxisId>>>,
}

impl Spread {
    pub(crate) fn of(&self, v: ValueId) -> &[AxisId] {
        self.of.get(&v).map_or(&[], Vec::as_slice)
    }
}

/// What the axes that `wrt` are spread along make of all values that depend on them.
pub(crate) fn axes(graph: &Graph, wrt: &[(ValueId, Vec<AxisId>)], active: &[bool]) -> Spread {
    let mut spread = Spread::default();
    for (w, along) in wrt {
        let own = graph.axes(*w);
        let new: Vec<AxisId> = along.iter().copied().filter(|a| !own.contains(a)).collect();
        if !new.is_empty() {
            spread.of.insert(*w, new);
        }
    }
    if spread.of.is_empty() {
        return spread;
    }
    for id in (0..active.len()).filter(|id| active[*id]) {
        let v = ValueId(id as u32);
        if wrt.iter().any(|(w, _)| *w == v) {
            continue;
        }
        let node = graph.node(v);
        let mut found: Vec<AxisId> = Vec::new();
        match &node.op {
            Op::Scan(scan) => {
                let results = results(&spread, scan);
                spread.scans.insert(v, results);
                continue;
            }
            Op::Out { scan, index } => {
                found.extend(spread.scans.get(scan).and_then(|r| r.get(*index as usize)).into_iter().flatten());
            }
            op => op.operands(|x| found.extend(spread.of(x).iter().filter(|_| active[x.0 as usize]))),
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|a| !node.axes.contains(a));
        if !found.is_empty() {
            spread.of.insert(v, found);
        }
    }
    spread
}

/// The axes of a scan's parameters on top of their own: what comes in, and what the carries get from one step to the next.
pub(crate) fn params(outside: &Spread, scan: &Scan) -> Vec<Vec<AxisId>> {
    let mut along: Vec<Vec<AxisId>> =
        scan.init.iter().chain(&scan.xs).chain(&scan.consts).map(|v| outside.of(*v).to_vec()).collect();
    if along.iter().all(Vec::is_empty) {
        return along;
    }
    loop {
        let inside = body(scan, &along);
        let mut changed = false;
        // The first results and the first parameters are the carries.
        for (carry, result) in along.iter_mut().take(scan.init.len()).zip(&scan.body.results) {
            for a in inside.of(*result) {
                if !carry.contains(a) {
                    carry.push(*a);
                    changed = true;
                }
            }
        }
        if !changed {
            return along;
        }
    }
}

/// The axes of the values of a scan's body.
pub(crate) fn body(scan: &Scan, params: &[Vec<AxisId>]) -> Spread {
    let param = |v: ValueId| match scan.body.node(v).op {
        Op::Param(p) => Some(p as usize),
        _ => None,
    };
    let wrt: Vec<(ValueId, Vec<AxisId>)> =
        scan.body.ids().filter_map(|v| Some((v, params.get(param(v)?)?.clone()))).filter(|(_, a)| !a.is_empty()).collect();
    let nodes: Vec<ValueId> = wrt.iter().map(|(v, _)| *v).collect();
    let active = super::active(&scan.body, &nodes, scan.body.nodes.len());
    axes(&scan.body, &wrt, &active)
}

fn results(outside: &Spread, scan: &Scan) -> Vec<Vec<AxisId>> {
    let inside = body(scan, &params(outside, scan));
    scan.body.results.iter().map(|v| inside.of(*v).to_vec()).collect()
}
