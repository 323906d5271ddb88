//! Epilogue fusion: what is left to do after the last step of a loop is done by every step.
//!
//! ```text
//! s = scan over i { .. }; f(s of the last i)   =   the last of scan over i { .. f(s of this i) }
//! ```
//!
//! A planner's rounds end with little: one of the elites is drawn, the plan is given out. Done by each round, it costs nothing that could be
//! measured, and no kernel has to be waited for after the last one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::fuse_consumer::depending;
use crate::ir::{Axis, Direction, Graph, Op, Program, Reduction, Scan, ValueId};
use crate::pass::{Pass, change};

/// Numbers that a value may have to be computed by every step.
const LITTLE: usize = 1 << 14;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "fuse_epilogue_into_loop",
    about: "Moves the little work that follows a loop into every step of it.",
    run: |program, cx| {
        let loops = (cx.crossing)(program);
        fuse_epilogue_into_loop(program, &loops);
    },
};

/// Moves all that follows one of these loops of the program's graph into it, if that is little.
pub(crate) fn fuse_epilogue_into_loop(program: &mut Program, loops: &[ValueId]) {
    change(program, |axes, graph| {
        let moved = loops.iter().find_map(|scan| end(axes, &graph, *scan));
        moved.unwrap_or(graph)
    });
}

fn end(axes: &[Axis], graph: &Graph, scan: ValueId) -> Option<Graph> {
    let Op::Scan(of) = &graph.node(scan).op else { return None };
    let after = depending(graph, scan);
    let mut body = Inside::new(of);
    // What stands for the values of the last step inside of the loop.
    let mut inside: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for v in graph.ids().filter(|v| after.contains(v) && *v != scan) {
        let node = graph.node(v);
        if let Some(result) = last(axes, graph, of, v) {
            inside.insert(v, of.body.results[result]);
        } else if !is_way_to_last(axes, graph, of, v, &after) {
            let len: usize = node.axes.iter().map(|a| axes[a.0 as usize].size).product();
            if len > LITTLE || !is_plain(&node.op) {
                return None;
            }
            let mut known = true;
            node.op.operands(|x| known &= inside.contains_key(&x) || !after.contains(&x));
            if !known {
                return None;
            }
            let op = node.op.clone().map_operands(|x| match inside.get(&x) {
                Some(x) => *x,
                None => body.constant(graph, x),
            });
            inside.insert(v, body.graph.push(op, node.axes.clone(), node.span));
        }
    }
    let distinct: BTreeSet<ValueId> = graph.results.iter().copied().filter(|v| after.contains(v)).collect();
    let values = distinct.iter().map(|v| inside.get(v).copied()).collect::<Option<Vec<_>>>()?;
    if distinct.is_empty() {
        return None;
    }
    let mut new = Graph::default();
    let mut new_of: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for v in graph.ids().filter(|v| !after.contains(v)) {
        let node = graph.node(v);
        new_of.insert(v, new.push(node.op.clone().map_operands(|x| new_of[&x]), node.axes.clone(), node.span));
    }
    let span = graph.node(scan).span;
    let zero = new.push(Op::Const(0.0), Vec::new(), span);
    let begins: Vec<ValueId> = distinct.iter().map(|v| new.push(Op::Expand(zero), graph.axes(*v).to_vec(), span)).collect();
    let first = of.init.len();
    let loops = body.finish(of, &values, |x| new_of[&x], begins);
    let all = new.push(Op::Scan(Box::new(loops)), graph.node(scan).axes.clone(), span);
    for (i, v) in distinct.iter().enumerate() {
        new_of.insert(*v, new.out(all, first + i, graph.axes(*v).to_vec(), graph.node(*v).span));
    }
    new.results = graph.results.iter().map(|v| new_of[v]).collect();
    Some(new)
}

/// The loop's result that a value is the last step of.
fn last(axes: &[Axis], graph: &Graph, of: &Scan, v: ValueId) -> Option<usize> {
    match &graph.node(v).op {
        Op::Out { index, .. } => ((*index as usize) < of.init.len()).then_some(*index as usize),
        Op::Reduce { op: Reduction::Sum, of: slice, over } => {
            let Op::Slice { of: all, axis, start, into } = graph.node(*slice).op else { return None };
            let Op::Out { index, .. } = graph.node(all).op else { return None };
            let end = match of.direction {
                Direction::Forward => axes[axis.0 as usize].size.checked_sub(1)?,
                Direction::Backward => 0,
            };
            let is_last = axis == of.axis && start == end && axes[into.0 as usize].size == 1 && over[..] == [into];
            is_last.then_some(index as usize)
        }
        _ => None,
    }
}

/// Whether a value is all steps, or a cut of them, of which only the last is read.
fn is_way_to_last(axes: &[Axis], graph: &Graph, of: &Scan, v: ValueId, after: &HashSet<ValueId>) -> bool {
    let readers = |x: ValueId| {
        let reads = move |r: &ValueId| {
            let mut reads = false;
            graph.node(*r).op.operands(|y| reads |= y == x);
            reads
        };
        after.iter().copied().filter(move |r| reads(r))
    };
    let only_last =
        |slice: ValueId| !graph.results.contains(&slice) && readers(slice).all(|r| last(axes, graph, of, r).is_some());
    match graph.node(v).op {
        Op::Out { .. } => {
            let cut = |r: ValueId| matches!(graph.node(r).op, Op::Slice { .. }) && only_last(r);
            !graph.results.contains(&v) && readers(v).all(cut)
        }
        Op::Slice { of: all, .. } => matches!(graph.node(all).op, Op::Out { .. }) && only_last(v),
        _ => false,
    }
}

fn is_plain(op: &Op) -> bool {
    matches!(
        op,
        Op::Unary(..)
            | Op::Add(..)
            | Op::Mul(..)
            | Op::Max(..)
            | Op::Less(..)
            | Op::Where(..)
            | Op::Composite(..)
            | Op::Reduce { .. }
            | Op::Slice { .. }
            | Op::Rename { .. }
            | Op::Expand(_)
            | Op::Argsort { .. }
            | Op::Gather { .. }
    )
}

/// A loop's body that grows.
struct Inside {
    graph: Graph,
    /// What it needs from outside, and the number of the first such constant before carries are added.
    constants: Vec<(ValueId, ValueId)>,
    first: u32,
}

impl Inside {
    fn new(of: &Scan) -> Inside {
        let first = (of.init.len() + of.xs.len() + of.consts.len()) as u32;
        Inside { graph: of.body.clone(), constants: Vec::new(), first }
    }

    fn constant(&mut self, outside: &Graph, x: ValueId) -> ValueId {
        if let Some((_, param)) = self.constants.iter().find(|(of, _)| *of == x) {
            return *param;
        }
        let number = self.first + self.constants.len() as u32;
        let param = self.graph.push(Op::Param(number), outside.axes(x).to_vec(), outside.node(x).span);
        self.constants.push((x, param));
        param
    }

    /// The loop that gives out these values of its last step, behind its own carries, and nothing of other steps.
    fn finish(self, of: &Scan, values: &[ValueId], outside: impl Fn(ValueId) -> ValueId, begins: Vec<ValueId>) -> Scan {
        let Inside { graph: mut body, constants, .. } = self;
        let carries = of.init.len();
        for node in &mut body.nodes {
            if let Op::Param(p) = &mut node.op
                && *p as usize >= carries
            {
                *p += values.len() as u32;
            }
        }
        body.results.truncate(carries);
        body.results.extend(values);
        Scan {
            init: of.init.iter().map(|x| outside(*x)).chain(begins).collect(),
            xs: of.xs.iter().map(|x| outside(*x)).collect(),
            consts: of.consts.iter().chain(constants.iter().map(|(x, _)| x)).map(|x| outside(*x)).collect(),
            body,
            ..of.clone()
        }
    }
}
