//! Scans of a random program: a body made by the same steps.

use super::{Maker, NOWHERE, Scope};
use crate::ir::{AxisId, Composite, Direction, Graph, Op, Scan, ValueId};

impl Maker {
    /// A scan along some axis, and those of its values that are looked at.
    pub(super) fn scan(&mut self, scope: &mut Scope) {
        let axis = self.other_axis(scope, &[]);
        let without = |_: &Scope, axes: &[AxisId]| !axes.contains(&axis);
        let carries = self.rng.below(4);
        let init: Vec<ValueId> = (0..carries).filter_map(|_| self.pick_with(scope, without)).collect();
        let xs: Vec<ValueId> = (0..self.rng.below(4)).filter_map(|_| self.along(scope, axis)).collect();
        let consts: Vec<ValueId> = (0..self.rng.below(3)).filter_map(|_| self.pick_with(scope, without)).collect();

        let mut body = Scope { graph: Graph::default(), pool: Vec::new(), closed: scope.closed.clone() };
        body.closed.push(axis);
        for v in init.iter().chain(&xs).chain(&consts) {
            let axes = scope.graph.axes(*v).iter().copied().filter(|a| *a != axis).collect();
            let number = body.pool.len() as u32;
            let param = body.graph.push(Op::Param(number), axes, NOWHERE);
            body.pool.push(param);
        }
        if body.pool.is_empty() {
            return;
        }
        let steps = 2 + self.rng.below(7);
        self.steps(&mut body, steps);

        // A new carry is a bounded function of the old one and of something in the body.
        for carry in 0..init.len() {
            let old = ValueId(carry as u32);
            let axes = body.graph.axes(old).to_vec();
            let picked = self.pick(&body);
            let news = self.conform(&mut body, picked, &axes);
            let old = body.graph.scale(old, 0.6, NOWHERE);
            let sum = body.graph.add(old, news, NOWHERE);
            let new = body.graph.push(Op::Composite(Composite::Tanh, sum), axes, NOWHERE);
            body.graph.results.push(new);
        }
        let outputs = if init.is_empty() { 1 + self.rng.below(2) } else { self.rng.below(3) };
        for _ in 0..outputs {
            let output = self.pick(&body);
            body.graph.results.push(output);
        }

        let result_axes: Vec<Vec<AxisId>> = body.graph.results.iter().map(|r| body.graph.axes(*r).to_vec()).collect();
        let carries = init.len();
        let direction = if self.rng.one_in(2) { Direction::Forward } else { Direction::Backward };
        let scan = Scan { axis, direction, init, xs, consts, body: body.graph };
        let scan = scope.graph.push(Op::Scan(Box::new(scan)), Vec::new(), NOWHERE);
        for (index, axes) in result_axes.into_iter().enumerate() {
            let axes = if index < carries { axes } else { [vec![axis], axes].concat() };
            if !self.rng.one_in(5) {
                let out = scope.graph.out(scan, index, axes, NOWHERE);
                self.keep(scope, out);
            }
        }
    }

    /// A value that has the axis, or one made to have it.
    fn along(&mut self, scope: &mut Scope, axis: AxisId) -> Option<ValueId> {
        if let Some(found) = self.pick_with(scope, |_, axes| axes.contains(&axis)) {
            return Some(found);
        }
        let x = self.pick_with(scope, |_, axes| axes.len() < 3)?;
        let mut axes = scope.graph.axes(x).to_vec();
        axes.push(axis);
        self.rng.shuffle(&mut axes);
        let expanded = scope.graph.expand(x, &axes, NOWHERE);
        // Different at every step.
        let count = scope.graph.iota(axis, NOWHERE);
        let count = scope.graph.scale(count, 0.31, NOWHERE);
        Some(scope.graph.add(expanded, count, NOWHERE))
    }
}
