//! Loop-invariant code motion: work of a scan's body that depends on no carry moves out of the loop, when it pays.
//!
//! - **Work that is the same in every step** always moves out; the loop gets its value as a constant. Leaves (numbers,
//!   `iota`) and `expand` stay: they cost nothing, and outside they would have to be stored.
//! - **Products of a step's data with something that does not change** move out, with the work on the data that they
//!   need. With named axes the same operation does all steps at once: the input projections of a memory over a whole
//!   segment become one product, which reads the weights once instead of once a step. This costs memory: the loop gets
//!   the values that it still needs as data, and so do intermediate values unless they are fused into the product. A product of two things that both change step by step gains nothing by it
//!   and stays, unless a product that moves needs it.
//! - **Other work on a step's data** stays: inside it is fused and stored nowhere. Names, parts and draws that work
//!   outside needs as well are made on both sides, for the same reason; a draw is the same numbers on both.
//! - **A scan without carries** is no loop: all of it moves out, if all of it can.
//!
//! Work that meets the scan's own axis as an axis of its values, and scans inside the body that work on a step's data,
//! stay where they are.

use super::unroll::draws;
use crate::ir::{AxisId, Graph, Node, Op, Program, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "licm",
    about: "Loop-invariant code motion: moves work out of loops, products over the data of all steps too.",
    run: |program, _| licm(program),
};

/// Moves work out of loops, innermost first.
pub fn licm(program: &mut Program) {
    change(program, |_, graph| hoist_graph(graph));
}

fn hoist_graph(old: Graph) -> Graph {
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    for node in old.nodes {
        let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
        if let Op::Scan(scan) = &mut op {
            scan.body = hoist_graph(std::mem::take(&mut scan.body));
            Loop::new(scan).hoist(&mut graph, scan);
        }
        new_of.push(graph.push(op, node.axes, node.span));
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}

/// What a value of the body depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Nothing that changes from step to step.
    Same,
    /// The data of the step, by work that can be done for all steps at once.
    Step,
    /// The carry, or work that cannot.
    Carry,
}

struct Loop {
    classes: Vec<Class>,
    /// Values that are to be had from outside.
    moved: Vec<bool>,
}

impl Loop {
    fn new(scan: &Scan) -> Loop {
        let classes = classes(scan);
        let body = &scan.body;
        let step_product = |v: ValueId| match &body.node(v).op {
            Op::Dot { a, b, .. } => {
                let [a, b] = [*a, *b].map(|v| classes[v.0 as usize]);
                classes[v.0 as usize] == Class::Step && a != b
            }
            _ => false,
        };
        let no_loop = scan.init.is_empty() && body.results.iter().all(|v| classes[v.0 as usize] != Class::Carry);
        let mut moved: Vec<bool> = body.ids().map(|v| step_product(v) || no_loop && body.results.contains(&v)).collect();
        // What moved work on a step's data needs moves with it; what does not change moves anyway.
        for v in body.ids().collect::<Vec<_>>().into_iter().rev() {
            if moved[v.0 as usize] {
                body.node(v).op.operands(|v| moved[v.0 as usize] = true);
            }
        }
        for (moved, class) in moved.iter_mut().zip(&classes) {
            *moved |= *class == Class::Same;
        }
        Loop { classes, moved }
    }

    /// Whether the loop is given this value rather than making it.
    fn is_given(&self, body: &Graph, v: ValueId) -> bool {
        self.moved[v.0 as usize] && !made_on_both_sides(&body.node(v).op, self.classes[v.0 as usize])
    }

    fn hoist(&self, outer: &mut Graph, scan: &mut Scan) {
        let body = &scan.body;
        let count = body.nodes.len();
        // What the body still needs, and what it is given.
        let mut inside = vec![false; count];
        let mut outside = vec![false; count];
        body.results.iter().for_each(|v| inside[v.0 as usize] = true);
        for v in body.ids().collect::<Vec<_>>().into_iter().rev() {
            if !inside[v.0 as usize] {
                continue;
            }
            match self.is_given(body, v) {
                true => outside[v.0 as usize] = true,
                false => body.node(v).op.operands(|v| inside[v.0 as usize] = true),
            }
        }
        let given: Vec<ValueId> = body.ids().filter(|v| outside[v.0 as usize]).collect();
        if given.is_empty() {
            return;
        }
        for v in body.ids().collect::<Vec<_>>().into_iter().rev() {
            if outside[v.0 as usize] {
                body.node(v).op.operands(|v| outside[v.0 as usize] = true);
            }
        }

        let values = self.outside(outer, scan, &outside);
        let class = |v: &&ValueId| self.classes[v.0 as usize];
        let data: Vec<ValueId> = given.iter().filter(|v| class(v) == Class::Step).copied().collect();
        let same: Vec<ValueId> = given.iter().filter(|v| class(v) == Class::Same).copied().collect();

        // New data comes after the old, so the numbers of the constants move up.
        let steps = scan.init.len() + scan.xs.len();
        let param = |v: ValueId, node: &Node| match node.op {
            Op::Param(p) if p as usize >= steps => Some(p as usize + data.len()),
            Op::Param(p) => Some(p as usize),
            _ => {
                let among = |list: &[ValueId]| list.iter().position(|x| *x == v);
                let as_data = among(&data).map(|i| steps + i);
                as_data.or_else(|| among(&same).map(|i| steps + data.len() + scan.consts.len() + i))
            }
        };
        let mut new_body = Graph::default();
        let mut new_of = vec![ValueId(0); count];
        for v in body.ids().filter(|v| inside[v.0 as usize]) {
            let node = body.node(v);
            let op = match param(v, node) {
                Some(p) => Op::Param(p as u32),
                None => node.op.clone().map_operands(|v| new_of[v.0 as usize]),
            };
            new_of[v.0 as usize] = new_body.push(op, node.axes.clone(), node.span);
        }
        new_body.results = body.results.iter().map(|v| new_of[v.0 as usize]).collect();

        scan.xs.extend(data.iter().map(|v| values[v.0 as usize]));
        scan.consts.extend(same.iter().map(|v| values[v.0 as usize]));
        scan.body = new_body;
    }

    /// Appends work of the body to the graph around the scan, on the data of all steps at once.
    fn outside(&self, outer: &mut Graph, scan: &Scan, needed: &[bool]) -> Vec<ValueId> {
        let body = &scan.body;
        let (carries, steps) = (scan.init.len(), scan.init.len() + scan.xs.len());
        let mut values = vec![ValueId(0); body.nodes.len()];
        for v in body.ids().filter(|v| needed[v.0 as usize]) {
            let node = body.node(v);
            let all_steps = |axes: &[AxisId]| [&[scan.axis], axes].concat();
            let axes = match self.classes[v.0 as usize] {
                Class::Step => all_steps(&node.axes),
                Class::Same | Class::Carry => node.axes.clone(),
            };
            values[v.0 as usize] = match &node.op {
                Op::Param(p) if (*p as usize) < steps => scan.xs[*p as usize - carries],
                Op::Param(p) => scan.consts[*p as usize - steps],
                // Parts have the same other axes: each needs the new one.
                Op::Concat { parts, along, into } if self.classes[v.0 as usize] == Class::Step => {
                    let parts = parts.iter().map(|p| match self.classes[p.0 as usize] {
                        Class::Same => outer.expand(values[p.0 as usize], &all_steps(body.axes(*p)), node.span),
                        Class::Step | Class::Carry => values[p.0 as usize],
                    });
                    let op = Op::Concat { parts: parts.collect(), along: along.clone(), into: *into };
                    outer.push(op, axes, node.span)
                }
                op => outer.push(op.clone().map_operands(|v| values[v.0 as usize]), axes, node.span),
            };
        }
        values
    }
}

fn classes(scan: &Scan) -> Vec<Class> {
    let body = &scan.body;
    let (carries, steps) = (scan.init.len(), scan.init.len() + scan.xs.len());
    let mut classes: Vec<Class> = Vec::with_capacity(body.nodes.len());
    for node in &body.nodes {
        let mut most = Class::Same;
        let mut meets = node.axes.contains(&scan.axis);
        node.op.operands(|v| {
            most = most.max(classes[v.0 as usize]);
            meets |= body.axes(v).contains(&scan.axis);
        });
        let class = match &node.op {
            Op::Param(p) if (*p as usize) < carries => Class::Carry,
            Op::Param(p) if (*p as usize) < steps => Class::Step,
            Op::Random { .. } => Class::Step,
            Op::Scan(inner) if most == Class::Same && draws(&inner.body) => Class::Carry,
            Op::Scan(_) | Op::Out { .. } if most == Class::Step => Class::Carry,
            _ => most,
        };
        classes.push(if class == Class::Step && meets { Class::Carry } else { class });
    }
    classes
}

/// What costs nothing where it is used: the loop makes it itself.
fn made_on_both_sides(op: &Op, class: Class) -> bool {
    match op {
        Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Random { .. } | Op::Expand(_) => true,
        Op::Rename { .. } | Op::Split { .. } | Op::Join { .. } | Op::Slice { .. } | Op::Stop(_) | Op::Id(_) => {
            class == Class::Step
        }
        Op::Input(_)
        | Op::Unary(..)
        | Op::Add(..)
        | Op::Mul(..)
        | Op::Max(..)
        | Op::Less(..)
        | Op::Where(..)
        | Op::Composite(..)
        | Op::Reduce { .. }
        | Op::Dot { .. }
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Gather { .. }
        | Op::Scatter { .. }
        | Op::Argsort { .. }
        | Op::Scan(_)
        | Op::Out { .. } => false,
    }
}
