//! Weights laid out for products: four outputs side by side.

use crate::kernel::Pack;

use super::builder::{Code, LoopVars, Val, index, number};
use super::contract::place;
use super::plan::{Buffers, Weight};
use super::tile::{start, unravel};

/// Fours that a unit packs.
const EACH: usize = 4;

#[derive(Debug, Clone)]
pub(super) struct PackPlan {
    pack: Pack,
    weight: Weight,
    units: usize,
}

impl PackPlan {
    pub(super) fn new(pack: &Pack, buffers: &Buffers, units: usize) -> PackPlan {
        PackPlan { pack: pack.clone(), weight: buffers.weights[&pack.to], units }
    }

    fn fours(&self) -> usize {
        self.weight.batch * self.weight.one() / 4
    }

    pub(super) fn cubes(&self) -> usize {
        self.fours().div_ceil(EACH * self.units)
    }

    pub(super) fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers, loops: &LoopVars) {
        let Weight { n, k, batch, panel, pitch } = self.weight;
        let (list, offset) = start(code, buffers, self.pack.to);
        let offset = code.div(offset, index(4));
        let first = code.mul(cube, index(EACH * self.units));
        code.items(EACH * self.units, |code, item| {
            let four = code.add(first, item);
            let there = code.less(four, index(self.fours()));
            code.when(there, |code| {
                let places = unravel(code, four, &[batch, self.weight.panels(), k, pitch / 4]);
                let [b, of, k_at, group] = places[..] else { unreachable!("as many places as sizes") };
                let batch_at = unravel(code, b, &self.pack.batch);
                let k_at = unravel(code, k_at, &self.pack.k);
                let in_panel = code.mul(group, index(4));
                let by_panel = code.mul(of, index(panel));
                let parts = [0, 1, 2, 3].map(|c| {
                    let inside = code.add(in_panel, index(c));
                    let output = code.add(inside, by_panel);
                    let value = code.var(number(0.0));
                    let fits = code.less(inside, index(panel));
                    let exists = code.less(output, index(n));
                    let both = code.and(fits, exists);
                    code.when(both, |code| {
                        let at = [&batch_at[..], &[output], &k_at].concat();
                        let (from, place) = place(code, buffers, loops, &self.pack.from, &at);
                        let x = code.load(from, place);
                        code.set(value, x);
                    });
                    code.get(value)
                });
                let packed = code.four(parts);
                let to = code.add(four, offset);
                code.store(list, to, packed);
            });
        });
    }
}
