//! Steps of a random program that stay within one graph.

use super::{ENTRIES, Maker, NOWHERE, RANK, Scope};
use crate::ir::{AxisId, Composite, Noise, Op, Reduction, Unary, ValueId};

impl Maker {
    pub(super) fn leaf(&mut self, scope: &mut Scope) -> ValueId {
        let axis = self.other_axis(scope, &[]);
        match self.rng.below(4) {
            0 => {
                let number = self.rng.between(-1.0, 1.0);
                scope.graph.constant(number, NOWHERE)
            }
            1 => {
                let iota = scope.graph.iota(axis, NOWHERE);
                let scaled = scope.graph.scale(iota, 0.29, NOWHERE);
                // Whole numbers have no gradient to lose.
                scope.graph.stop(scaled, NOWHERE)
            }
            2 => self.random(scope, Noise::Gaussian, vec![axis]),
            _ => {
                let other = self.other_axis(scope, &[axis]);
                self.random(scope, Noise::Uniform, vec![axis, other])
            }
        }
    }

    pub(super) fn random(&mut self, scope: &mut Scope, noise: Noise, axes: Vec<AxisId>) -> ValueId {
        let name = format!("draw{}", self.draft.program.draws.len());
        let draw = self.draft.draw(&name);
        scope.graph.push(Op::Random { draw, noise }, axes, NOWHERE)
    }

    pub(super) fn unary(&mut self, scope: &mut Scope) -> ValueId {
        let x = self.pick(scope);
        match self.rng.below(7) {
            0 => {
                let half = scope.graph.scale(x, 0.5, NOWHERE);
                self.apply(scope, Unary::Exp, half)
            }
            1 => {
                let positive = self.positive(scope, x);
                self.apply(scope, Unary::Log, positive)
            }
            2 => self.apply(scope, Unary::Sin, x),
            3 => {
                let positive = self.positive(scope, x);
                self.apply(scope, Unary::Sqrt, positive)
            }
            4 => {
                let positive = self.positive(scope, x);
                self.apply(scope, Unary::Recip, positive)
            }
            5 => {
                let floor = self.apply(scope, Unary::Floor, x);
                let scaled = scope.graph.scale(floor, 0.3, NOWHERE);
                scope.graph.add(x, scaled, NOWHERE)
            }
            _ => {
                // An inner gradient is taken by such a value.
                let id = scope.graph.id(x, NOWHERE);
                self.reordered(scope, id)
            }
        }
    }

    fn apply(&mut self, scope: &mut Scope, f: Unary, x: ValueId) -> ValueId {
        let value = scope.graph.unary(f, x, NOWHERE);
        self.reordered(scope, value)
    }

    /// Now and then, an elementwise value stored in another order of its axes.
    fn reordered(&mut self, scope: &mut Scope, value: ValueId) -> ValueId {
        if self.rng.one_in(3) {
            self.rng.shuffle(&mut scope.graph.nodes[value.0 as usize].axes);
        }
        value
    }

    /// A positive function of a value.
    fn positive(&mut self, scope: &mut Scope, x: ValueId) -> ValueId {
        let (positive, least) = match self.rng.below(3) {
            0 => (scope.graph.mul(x, x, NOWHERE), 0.5),
            1 => (scope.graph.composite(Composite::Softplus, x, NOWHERE), 0.3),
            _ => (scope.graph.composite(Composite::Sigmoid, x, NOWHERE), 0.4),
        };
        let least = scope.graph.constant(least, NOWHERE);
        scope.graph.add(positive, least, NOWHERE)
    }

    /// Two values whose axes together are not too many.
    fn two(&mut self, scope: &Scope) -> (ValueId, ValueId) {
        for _ in 0..8 {
            let (a, b) = (self.pick(scope), self.pick(scope));
            let union = scope.graph.union(&[a, b]);
            if union.len() <= RANK && self.draft.program.len(&union) <= ENTRIES {
                return (a, b);
            }
        }
        let a = self.pick(scope);
        (a, a)
    }

    pub(super) fn binary(&mut self, scope: &mut Scope) -> ValueId {
        let (a, b) = self.two(scope);
        let value = match self.rng.below(6) {
            0 | 1 => scope.graph.add(a, b, NOWHERE),
            2 => {
                let product = scope.graph.mul(a, b, NOWHERE);
                return scope.graph.composite(Composite::Tanh, product, NOWHERE);
            }
            3 => {
                let half = scope.graph.scale(a, 0.7, NOWHERE);
                scope.graph.mul(half, b, NOWHERE)
            }
            4 => {
                let b = self.off(scope, a, b);
                scope.graph.max(a, b, NOWHERE)
            }
            _ => {
                let b = self.off(scope, a, b);
                let less = scope.graph.less(a, b, NOWHERE);
                let less = self.reordered(scope, less);
                let c = self.pick(scope);
                let union = scope.graph.union(&[less, c]);
                if union.len() > RANK || self.draft.program.len(&union) > ENTRIES {
                    scope.graph.select(less, a, b, NOWHERE)
                } else if self.rng.one_in(2) {
                    scope.graph.select(less, c, a, NOWHERE)
                } else {
                    scope.graph.select(less, b, c, NOWHERE)
                }
            }
        };
        self.reordered(scope, value)
    }

    /// `b`, moved if it is `a` itself, with which it would be equal everywhere.
    fn off(&mut self, scope: &mut Scope, a: ValueId, b: ValueId) -> ValueId {
        let by = self.rng.between(-0.5, 0.5);
        let by = scope.graph.constant(by, NOWHERE);
        if a == b { by } else { scope.graph.add(b, by, NOWHERE) }
    }

    pub(super) fn composite(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let x = self.pick(scope);
        let axis = self.pick_axis(scope, x);
        let f = match (self.rng.below(8), axis) {
            (0, _) => Composite::Tanh,
            (1, _) => Composite::Sigmoid,
            (2, _) => Composite::Softplus,
            (3, _) => Composite::Abs,
            (4, _) => Composite::Sign,
            (5, Some(axis)) => Composite::Softmax(axis),
            (6, Some(axis)) => Composite::LogSoftmax(axis),
            (_, Some(axis)) if self.size(axis) > 0 => Composite::LogSumExp(axis),
            _ => return None,
        };
        let value = scope.graph.composite(f, x, NOWHERE);
        Some(match f {
            // It has no gradient of its own.
            Composite::Sign => scope.graph.mul(x, value, NOWHERE),
            _ => self.reordered(scope, value),
        })
    }

    pub(super) fn axis_operation(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let x = self.pick(scope);
        let axes = scope.graph.axes(x).to_vec();
        let kind = self.rng.below(6);
        if kind == 0 {
            let axis = self.other_axis(scope, &axes);
            let mut wide = axes;
            wide.push(axis);
            self.rng.shuffle(&mut wide);
            return Some(scope.graph.expand(x, &wide, NOWHERE));
        }
        let axis = self.pick_axis(scope, x)?;
        let size = self.size(axis);
        Some(match kind {
            1 => {
                let to = self.axis_of_size(scope, &axes, size);
                scope.graph.rename(x, axis, to, NOWHERE)
            }
            2 => {
                let factors: Vec<usize> = (1..=size.max(1)).filter(|f| size.is_multiple_of(*f)).collect();
                let first = self.rng.pick(&factors);
                let sizes = if self.rng.one_in(4) { vec![1, first, size / first] } else { vec![first, size / first] };
                let into: Vec<AxisId> = sizes.into_iter().map(|n| self.draft.axis("part", n)).collect();
                scope.graph.split(x, axis, &into, NOWHERE)
            }
            3 => {
                let mut joined = self.rng.some_of(&axes);
                self.rng.shuffle(&mut joined);
                if joined.len() < 2 {
                    return None;
                }
                let into = self.draft.axis("joined", self.draft.program.len(&joined));
                scope.graph.join(x, &joined, into, NOWHERE)
            }
            4 => {
                let length = self.rng.below(size + 1);
                let start = self.rng.below(size - length + 1);
                // Mostly something is left.
                let length = if length == 0 && size > 0 && !self.rng.one_in(20) { 1.min(size - start) } else { length };
                let into = self.axis_of_size(scope, &axes, length);
                scope.graph.slice(x, axis, start, into, NOWHERE)
            }
            _ => {
                let start = self.rng.below(3);
                let after = self.rng.below(3);
                let into = self.axis_of_size(scope, &axes, start + size + after);
                scope.graph.pad(x, axis, start, into, NOWHERE)
            }
        })
    }

    /// Parts along one axis: a value, and functions of values that have the same other axes.
    pub(super) fn concat(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let x = self.pick(scope);
        let axis = self.pick_axis(scope, x)?;
        let axes = scope.graph.axes(x).to_vec();
        let (mut parts, mut along) = (vec![x], vec![axis]);
        for _ in 0..self.rng.below(3) {
            let other = self.pick(scope);
            let part_axis = if self.rng.one_in(2) { axis } else { self.other_axis(scope, &axes) };
            let mut like: Vec<AxisId> = axes.iter().map(|a| if *a == axis { part_axis } else { *a }).collect();
            self.rng.shuffle(&mut like);
            parts.push(self.conform(scope, other, &like));
            along.push(part_axis);
        }
        let size = along.iter().map(|a| self.size(*a)).sum();
        let into = self.draft.axis("whole", size);
        Some(scope.graph.concat(parts, along, into, NOWHERE))
    }

    pub(super) fn dot(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let a = self.pick_with(scope, |_, axes| !axes.is_empty())?;
        let axes = scope.graph.axes(a).to_vec();
        let b = self.pick_with(scope, |_, other| other.iter().any(|x| axes.contains(x)))?;
        let shared: Vec<AxisId> = scope.graph.axes(b).iter().copied().filter(|x| axes.contains(x)).collect();
        let mut over = self.rng.some_of(&shared);
        if over.is_empty() {
            over.push(self.rng.pick(&shared));
        }
        self.rng.shuffle(&mut over);
        let union = scope.graph.union(&[a, b]);
        if self.draft.program.len(&union) > 4 * ENTRIES {
            return None;
        }
        let n = self.draft.program.len(&over).max(1);
        let dot = scope.graph.dot(a, b, &over, NOWHERE);
        let dot = self.reordered(scope, dot);
        Some(scope.graph.scale(dot, 1.0 / n as f64, NOWHERE))
    }

    pub(super) fn reduce(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let x = self.pick_with(scope, |_, axes| !axes.is_empty())?;
        let axes = scope.graph.axes(x).to_vec();
        let mut over = self.rng.some_of(&axes);
        if over.is_empty() {
            over.push(self.rng.pick(&axes));
        }
        self.rng.shuffle(&mut over);
        let n = self.draft.program.len(&over);
        Some(if self.rng.one_in(2) && n > 0 {
            scope.graph.reduce(Reduction::Max, x, &over, NOWHERE)
        } else {
            let sum = scope.graph.sum(x, &over, NOWHERE);
            scope.graph.scale(sum, 1.0 / (n.max(1) as f64).sqrt(), NOWHERE)
        })
    }
}
