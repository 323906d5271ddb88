//! Entries picked along axes that what they are picked from has already: `q(z, a)[e]` for every `e`, where a draw inside of `q` is
//! another one for every `e`.
//!
//! As it stands every member of `q` is computed for every `e`, and all but one of each are dropped. What is picked is a diagonal, and
//! the diagonal of most operations is the operation on the diagonals of its operands: so that is what is computed, and differentiated.

use std::collections::HashMap;

use dsl::source::Span;

use crate::ir::{AxisId, Composite, Graph, Op, ValueId};

/// What is picked: of an axis, the places `at`.
pub(super) struct Pick {
    pub(super) axis: AxisId,
    pub(super) at: ValueId,
}

impl Pick {
    /// Of a value that has the axis and the axes of the places.
    pub(super) fn diagonal(mut self, graph: &mut Graph, mut v: ValueId, span: Span) -> ValueId {
        // Under the name that the axis had where it was computed.
        while let Op::Rename { of, from, to } = graph.node(v).op
            && to == self.axis
        {
            (v, self.axis) = (of, from);
        }
        let along = graph.axes(self.at).to_vec();
        let mut found: HashMap<ValueId, ValueId> = HashMap::new();
        for x in self.picked(graph, &along, v) {
            let node = graph.node(x).clone();
            let new = if self.passes(graph, &along, x) {
                let axes = node.axes.iter().copied().filter(|a| *a != self.axis).collect();
                graph.push(node.op.map_operands(|y| found.get(&y).copied().unwrap_or(y)), axes, node.span)
            } else {
                graph.gather(x, self.axis, self.at, span)
            };
            found.insert(x, new);
        }
        found[&v]
    }

    /// The values whose entries are needed to compute those of `v`, operands first.
    fn picked(&self, graph: &Graph, along: &[AxisId], v: ValueId) -> Vec<ValueId> {
        let mut needed = vec![false; v.0 as usize + 1];
        needed[v.0 as usize] = true;
        for x in (0..=v.0).rev().map(ValueId) {
            if needed[x.0 as usize] && self.passes(graph, along, x) {
                graph.node(x).op.operands(|y| needed[y.0 as usize] |= graph.axes(y).contains(&self.axis));
            }
        }
        (0..=v.0).map(ValueId).filter(|x| needed[x.0 as usize]).collect()
    }

    /// Whether the diagonal of a value is its operation on the diagonals of its operands.
    fn passes(&self, graph: &Graph, along: &[AxisId], v: ValueId) -> bool {
        let node = graph.node(v);
        let own = |axis: &AxisId| *axis == self.axis || along.contains(axis);
        let apart = match &node.op {
            Op::Unary(..) | Op::Add(..) | Op::Mul(..) | Op::Max(..) | Op::Less(..) | Op::Where(..) | Op::Stop(_) => true,
            Op::Composite(Composite::Softmax(axis) | Composite::LogSoftmax(axis) | Composite::LogSumExp(axis), _) => !own(axis),
            Op::Composite(..) => true,
            // Axes that are summed over are not the value's, and these are.
            Op::Reduce { .. } | Op::Dot { .. } => true,
            Op::Rename { to, .. } => !own(to),
            _ => false,
        };
        apart && node.axes.contains(&self.axis) && along.iter().all(|a| node.axes.contains(a))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::interp::{Array, Clock, run};
    use crate::ir::{Input, Output, Program, Role};

    /// Three members `m` of a network with a draw for each of as many, or fewer, places `e`, and the output at these places: by what it
    /// is computed from, or picked from all of it. Says which values vary along both.
    fn ensemble(places: usize, apart: bool) -> (Vec<f64>, Vec<&'static str>) {
        let (mut program, here) = (Program::default(), Span::default());
        let (e, m, i, o) =
            (program.new_axis("e", places), program.new_axis("m", 3), program.new_axis("i", 4), program.new_axis("o", 2));
        let renamed = program.new_axis("M", 3);
        let inputs = [("x", vec![i]), ("kept", vec![e, m, i]), ("w", vec![m, o, i]), ("b", vec![m, o]), ("at", vec![e])];
        let graph = &mut program.graph;
        let given: Vec<ValueId> =
            inputs.iter().enumerate().map(|(n, (_, axes))| graph.push(Op::Input(n as u32), axes.clone(), here)).collect();
        let [x, kept, w, b, at] = given[..] else { unreachable!() };
        let dropped = graph.mul(x, kept, here);
        let y = graph.dot(dropped, w, &[i], here);
        let y = graph.add(y, b, here);
        let y = graph.composite(Composite::Tanh, y, here);
        let y = graph.composite(Composite::Softmax(o), y, here);
        let y = graph.rename(y, m, renamed, here);
        let picked = if apart { Pick { axis: renamed, at }.diagonal(graph, y, here) } else { graph.gather(y, renamed, at, here) };
        // The storage order of both.
        let zero = graph.constant(0.0, here);
        let zero = graph.expand(zero, &[e, o], here);
        let result = graph.add(zero, picked, here);
        graph.results = vec![result];
        program.inputs =
            inputs.iter().map(|(n, axes)| Input { name: n.to_string(), role: Role::Data, axes: axes.clone() }).collect();
        program.outputs = vec![Output { name: "y".into(), updates: None }];
        crate::simplify::dce(&mut program);
        crate::ir::verify::verify(&program).unwrap();
        let both =
            program.graph.nodes.iter().filter(|n| n.axes.contains(&e) && n.axes.contains(&m)).map(|n| n.op.name()).collect();
        let number = |n: usize| {
            if n == 4 { vec![0.0, 1.0, 2.0] } else { (0..36).map(|k| f64::from(k * (7 + n as u32) % 11) / 5.0 - 1.0).collect() }
        };
        let array = |(n, input): (usize, &Input)| Array {
            axes: input.axes.clone(),
            data: number(n)[..program.len(&input.axes)].to_vec(),
        };
        let arrays: Vec<Array<f64>> = program.inputs.iter().enumerate().map(array).collect();
        let found = run::<f64>(&program, &arrays, &BTreeMap::new(), Clock { seed: 1, step: 0 }).unwrap();
        (found[0].data.clone(), both)
    }

    #[test]
    fn members_that_are_picked_are_computed_alone() {
        for places in [3, 2] {
            let (want, all) = ensemble(places, false);
            let (have, few) = ensemble(places, true);
            assert_eq!(have, want);
            // Everything, or the draw alone.
            assert_eq!((all.len(), few), (6, vec!["input"]), "{all:?}");
        }
    }
}
