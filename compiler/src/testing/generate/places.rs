//! Steps that read and write at places.

use super::{ENTRIES, Maker, NOWHERE, Scope};
use crate::ir::{AxisId, Noise, Role, Unary, ValueId};

impl Maker {
    pub(super) fn gather(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let x = self.pick_with(scope, |_, axes| !axes.is_empty())?;
        let axis = self.pick_axis(scope, x)?;
        let axes = scope.graph.axes(x).to_vec();
        if self.size(axis) == 0 {
            return None;
        }
        if self.rng.one_in(3) {
            return Some(self.sorted(scope, x, axis));
        }
        // Some axes of its own, some that line up with the value's.
        let others: Vec<AxisId> = axes.iter().copied().filter(|a| *a != axis).collect();
        let mut place_axes = self.rng.some_of(&others);
        for _ in 0..self.rng.below(3) {
            let avoid = [&axes[..], &place_axes].concat();
            place_axes.push(self.other_axis(scope, &avoid));
        }
        self.rng.shuffle(&mut place_axes);
        let union: usize = self.draft.program.len(&others) * self.draft.program.len(&place_axes);
        if union > ENTRIES {
            return None;
        }
        let at = self.places(scope, &place_axes, self.size(axis));
        Some(scope.graph.gather(x, axis, at, NOWHERE))
    }

    /// A value sorted by itself, or by its order along the axis in another value.
    fn sorted(&mut self, scope: &mut Scope, x: ValueId, axis: AxisId) -> ValueId {
        let axes = scope.graph.axes(x).to_vec();
        let order = scope.graph.argsort(x, axis, NOWHERE);
        let rank = self.axis_of_size(scope, &axes, self.size(axis));
        let at = scope.graph.rename(order, axis, rank, NOWHERE);
        let at = if self.rng.one_in(2) { scope.graph.stop(at, NOWHERE) } else { at };
        scope.graph.gather(x, axis, at, NOWHERE)
    }

    pub(super) fn scatter(&mut self, scope: &mut Scope) -> Option<ValueId> {
        let x = self.pick(scope);
        let axes = scope.graph.axes(x).to_vec();
        let mut place_axes = self.rng.some_of(&axes);
        if self.rng.one_in(3) {
            let own = self.other_axis(scope, &axes);
            place_axes.push(own);
        }
        self.rng.shuffle(&mut place_axes);
        let over = self.rng.some_of(&place_axes);
        let union = [&axes[..], &place_axes].concat();
        let into = match self.rng.one_in(2) {
            true => self.other_axis(scope, &union),
            false => self.draft.axis("into", 1 + self.rng.below(5)),
        };
        if self.size(into) == 0 || self.draft.program.len(&union) > 4 * ENTRIES {
            return None;
        }
        let at = self.places(scope, &place_axes, self.size(into));
        Some(scope.graph.scatter(x, at, &over, into, NOWHERE))
    }

    /// Whole numbers below `size`, of which there must be one: given from outside, drawn, or counted.
    fn places(&mut self, scope: &mut Scope, axes: &[AxisId], size: usize) -> ValueId {
        match (self.rng.below(3), axes.last()) {
            (0, _) if scope.closed.is_empty() => {
                let name = format!("at{}", self.draft.program.inputs.len());
                self.input(scope, &name, Role::Data, axes, |rng| rng.below(size) as f64)
            }
            (1, Some(last)) if self.size(*last) <= size => {
                if self.rng.one_in(2) {
                    return self.random(scope, Noise::Subset { of: size as u32 }, axes.to_vec());
                }
                let counted = scope.graph.iota(*last, NOWHERE);
                let minus = scope.graph.neg(counted, NOWHERE);
                let top = scope.graph.constant((size - 1) as f64, NOWHERE);
                let down = scope.graph.add(minus, top, NOWHERE);
                scope.graph.expand(down, axes, NOWHERE)
            }
            _ => {
                let drawn = self.random(scope, Noise::Uniform, axes.to_vec());
                let scaled = scope.graph.scale(drawn, size as f64, NOWHERE);
                scope.graph.unary(Unary::Floor, scaled, NOWHERE)
            }
        }
    }
}
