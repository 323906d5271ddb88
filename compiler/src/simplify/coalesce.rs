//! Axes that are the same for all purposes become one.
//!
//! Lowering and differentiation make a fresh axis wherever they need a name of their own: the entry that `x[3]` picks,
//! the places that a slice goes to. Two computations that are otherwise equal then differ in names alone, and
//! [`cse`](super::cse()) cannot see that they are equal. Two axes with the same name and size can be one if no node meets
//! both: in its value, its operands, what it says, or the scans around it. A node that does nothing but give the one the name of the
//! other is no meeting; it is nothing once they are one. The first takes the place of the second. Axes of inputs, outputs and draws keep their identity, by which they are known outside.

use std::collections::{BTreeMap, HashSet};

use crate::ir::{AxisId, Composite, Graph, Op, Program};
use crate::pass::Pass;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "coalesce",
    about: "Merges axes of one name and size that no operation meets together.",
    run: |program, _| coalesce(program),
};

/// Merges axes throughout a program.
pub fn coalesce(program: &mut Program) {
    let mut meetings = Meetings { program, fixed: HashSet::new(), pairs: HashSet::new(), groups: Vec::new() };
    meetings.gather();
    let new_of = meetings.classes();
    let new = |a: AxisId| new_of[a.0 as usize];
    if new_of.iter().enumerate().any(|(i, a)| a.0 as usize != i) {
        rename(&mut program.graph, &new);
    }
}

struct Meetings<'p> {
    program: &'p Program,
    /// Axes that are not replaced.
    fixed: HashSet<AxisId>,
    /// Axes of one group that some node meets both of, the smaller first.
    pairs: HashSet<(AxisId, AxisId)>,
    /// By axis: the number of its name and size.
    groups: Vec<usize>,
}

impl Meetings<'_> {
    fn gather(&mut self) {
        let program = self.program;
        let mut numbers: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        for axis in &program.axes {
            let next = numbers.len();
            self.groups.push(*numbers.entry((&axis.name, axis.size)).or_insert(next));
        }
        self.fixed.extend(program.inputs.iter().flat_map(|i| i.axes.iter().copied()));
        self.fixed.extend(program.graph.results.iter().flat_map(|v| program.graph.axes(*v).iter().copied()));
        self.graph(&program.graph, &mut Vec::new());
    }

    fn graph(&mut self, graph: &Graph, scans: &mut Vec<AxisId>) {
        for node in &graph.nodes {
            let mut met = [&scans[..], &node.axes].concat();
            node.op.operands(|v| met.extend(graph.axes(v)));
            named(&node.op, |a| met.push(a));
            met.sort_unstable();
            met.dedup();
            let renamed = |a: AxisId, b: AxisId| matches!(node.op, Op::Rename { from, to, .. } if (from, to) == (a, b) || (to, from) == (a, b));
            for (i, a) in met.iter().enumerate() {
                for b in &met[i + 1..] {
                    if self.groups[a.0 as usize] == self.groups[b.0 as usize] && !renamed(*a, *b) {
                        self.pairs.insert((*a, *b));
                    }
                }
            }
            match &node.op {
                Op::Random { .. } => self.fixed.extend(node.axes.iter().chain(scans.iter())),
                Op::Scan(scan) => {
                    scans.push(scan.axis);
                    self.graph(&scan.body, scans);
                    scans.pop();
                }
                _ => {}
            }
        }
    }

    /// The axis that each becomes: the first of a class in which no two meet.
    fn classes(&self) -> Vec<AxisId> {
        let mut classes: BTreeMap<usize, Vec<Vec<AxisId>>> = BTreeMap::new();
        let ids = (0..self.program.axes.len() as u32).map(AxisId);
        ids.map(|a| {
            let classes = classes.entry(self.groups[a.0 as usize]).or_default();
            let apart = |class: &Vec<AxisId>| class.iter().all(|b| !self.pairs.contains(&(*b, a)));
            let found = if self.fixed.contains(&a) { None } else { classes.iter_mut().find(|class| apart(class)) };
            match found {
                Some(class) => {
                    class.push(a);
                    class[0]
                }
                None => {
                    classes.push(vec![a]);
                    a
                }
            }
        })
        .collect()
    }
}

fn rename(graph: &mut Graph, new: &impl Fn(AxisId) -> AxisId) {
    for node in &mut graph.nodes {
        node.axes.iter_mut().for_each(|a| *a = new(*a));
        axes_mut(&mut node.op, |a| *a = new(*a));
        if let Op::Rename { of, from, to } = node.op
            && from == to
        {
            node.op = Op::Id(of);
        }
        if let Op::Scan(scan) = &mut node.op {
            rename(&mut scan.body, new);
        }
    }
}

/// Calls `f` with the axes that an operation names; not those in the body of a scan.
fn named(op: &Op, mut f: impl FnMut(AxisId)) {
    match op {
        // A body's axes are met where they are used, and it is not worth copying.
        Op::Scan(scan) => f(scan.axis),
        op => axes_mut(&mut op.clone(), |a| f(*a)),
    }
}

fn axes_mut(op: &mut Op, mut f: impl FnMut(&mut AxisId)) {
    match op {
        Op::Input(_)
        | Op::Param(_)
        | Op::Const(_)
        | Op::Random { .. }
        | Op::Unary(..)
        | Op::Add(..)
        | Op::Mul(..)
        | Op::Max(..)
        | Op::Less(..)
        | Op::Where(..)
        | Op::Expand(_)
        | Op::Out { .. }
        | Op::Stop(_)
        | Op::Id(_) => {}
        Op::Composite(composite, _) => match composite {
            Composite::Tanh | Composite::Sigmoid | Composite::Softplus | Composite::Abs | Composite::Sign => {}
            Composite::Softmax(axis) | Composite::LogSoftmax(axis) | Composite::LogSumExp(axis) => f(axis),
        },
        Op::Iota(axis) | Op::Gather { axis, .. } | Op::Argsort { axis, .. } => f(axis),
        Op::Rename { from, to, .. } => {
            f(from);
            f(to);
        }
        Op::Reduce { over, .. } | Op::Dot { over, .. } => over.iter_mut().for_each(f),
        Op::Split { axis, into, .. } => {
            f(axis);
            into.iter_mut().for_each(f);
        }
        Op::Join { axes, into, .. } => {
            f(into);
            axes.iter_mut().for_each(f);
        }
        Op::Slice { axis, into, .. } | Op::Pad { axis, into, .. } => {
            f(axis);
            f(into);
        }
        Op::Concat { along, into, .. } => {
            f(into);
            along.iter_mut().for_each(f);
        }
        Op::Scatter { over, into, .. } => {
            f(into);
            over.iter_mut().for_each(f);
        }
        Op::Scan(scan) => f(&mut scan.axis),
    }
}
