//! Sums over rows: a cube has a block of outputs and goes through all that they sum, chunk by chunk. Units that no output
//! is left for share the sums of the others. The order depends on the shapes alone.
//!
//! Where the user does not mind in which order numbers are added ([`Sums::Atomic`](super::emitted::Sums)), sums that are longer
//! than those of other cubes are shared out among several, which add to one place. A launch before sets it to zero.

use crate::kernel::{Base, BufferId, Contract, View};

use super::builder::{Code, LoopVars, Val, index, number};
use super::plan::Buffers;
use super::tile::{start, unravel};

#[derive(Debug, Clone)]
pub(super) struct ContractPlan {
    contract: Contract,
    /// Outputs of a cube, along n and along i.
    block: [usize; 2],
    /// Outputs of a unit, along each.
    own: usize,
    /// Units that share a sum.
    split: usize,
    /// Numbers of each list that are in shared memory at a time.
    chunk: usize,
    /// Cubes that share each block.
    cubes: usize,
}

/// Chunks that a cube has at least of a list that is shared out.
const SHARED_OUT: usize = 4;

/// Outputs that a unit sets to zero.
const CLEARED: usize = 4;

/// Numbers from one list of a chunk to the next: one more, so that lists start in different banks.
const PAD: usize = 1;

impl ContractPlan {
    pub(super) fn new(contract: &Contract, units: usize) -> ContractPlan {
        let side = 1 << (units.ilog2() / 2);
        let [n, i] = [&contract.n, &contract.i].map(|dims| dims.iter().product::<usize>());
        let own = if n >= 2 * side && i >= 2 * side { 2 } else { 1 };
        let along = |size: usize| size.next_power_of_two().min(side);
        let grid = [along(n), along(i)];
        let split = units / (grid[0] * grid[1]);
        let chunk = split.max(32);
        ContractPlan { contract: contract.clone(), block: grid.map(|g| g * own), own, split, chunk, cubes: 1 }
    }

    /// Lists that are longer than `even` are shared out, unless little would be left for each cube.
    pub(super) fn shared_out(self, even: usize) -> ContractPlan {
        let length = self.length();
        let cubes = (length / even.max(1)).min(length / (SHARED_OUT * self.chunk)).max(1);
        ContractPlan { cubes, ..self }
    }

    /// What to set to zero before several cubes add to it.
    pub(super) fn cleared(&self) -> Option<Clear> {
        (self.cubes > 1).then(|| Clear { contract: self.contract.clone() })
    }

    /// Numbers that an output sums.
    pub(super) fn length(&self) -> usize {
        self.sizes()[3]
    }

    fn sizes(&self) -> [usize; 4] {
        let Contract { batch, n, i, k, rows, .. } = &self.contract;
        let product = |dims: &[usize]| dims.iter().product::<usize>();
        [product(batch), product(n), product(i), product(k) * rows]
    }

    pub(super) fn cubes(&self) -> usize {
        let [batch, n, i, _] = self.sizes();
        self.cubes * batch * n.div_ceil(self.block[0]) * i.div_ceil(self.block[1])
    }

    fn lists(&self) -> usize {
        self.block[0] + if self.contract.b.is_some() { self.block[1] } else { 0 }
    }

    /// Numbers of shared memory: chunks of lists, and partial sums behind them.
    pub(super) fn shared(&self) -> usize {
        let partial = if self.split > 1 { self.split * self.block[0] * self.block[1] } else { 0 };
        self.lists() * (self.chunk + PAD) + partial
    }

    pub(super) fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers, loops: &LoopVars) {
        let [batch, n, i, length] = self.sizes();
        let cuts = [self.cubes, batch, n.div_ceil(self.block[0]), i.div_ceil(self.block[1])];
        let places = unravel(code, cube, &cuts);
        let [share, b, block_n, block_i] = places[..] else { unreachable!("as many places as sizes") };
        let batch = unravel(code, b, &self.contract.batch);
        let first = [code.mul(block_n, index(self.block[0])), code.mul(block_i, index(self.block[1]))];
        let grid = self.block.map(|b| b / self.own);
        let unit = code.unit();
        let places = unravel(code, unit, &[self.split, grid[0], grid[1]]);
        let [part, mine_n, mine_i] = places[..] else { unreachable!("as many places as sizes") };
        let sums: Vec<_> = (0..self.own * self.own).map(|_| code.var(number(0.0))).collect();
        let at = Lists { plan: self, buffers, loops, batch: &batch, first, length };

        let round = |code: &mut Code, start: Val| {
            at.stage(code, &self.contract.a, 0, n, start);
            if let Some(b) = &self.contract.b {
                at.stage(code, b, 1, i, start);
            }
            code.barrier();
            let share = self.chunk / self.split;
            let from = code.mul(part, index(share));
            let to = code.add(from, index(share));
            code.unrolled(4, from, to, 1, |code, q| {
                let shared = code.shared();
                let side = |code: &mut Code, mine: Val, apart: usize, lists: usize, base: usize| -> Vec<Val> {
                    (0..lists)
                        .map(|l| {
                            let list = code.add(mine, index(base + l * apart));
                            let at = code.mul(list, index(self.chunk + PAD));
                            let at = code.add(at, q);
                            code.load(shared, at)
                        })
                        .collect()
                };
                let left = side(code, mine_n, grid[0], self.own, 0);
                let right = match self.contract.b {
                    Some(_) => side(code, mine_i, grid[1], self.own, self.block[0]),
                    None => vec![number(1.0); self.own],
                };
                for (l, x) in left.iter().enumerate() {
                    for (r, y) in right.iter().enumerate() {
                        let sum = sums[l * self.own + r];
                        let so_far = code.get(sum);
                        let next = code.mul_add(*x, *y, so_far);
                        code.set(sum, next);
                    }
                }
            });
        };
        let (from, to) = match self.cubes {
            1 => (index(0), index(length)),
            cubes => {
                let each = length.div_ceil(self.chunk).div_ceil(cubes) * self.chunk;
                let from = code.mul(share, index(each));
                let to = code.add(from, index(each));
                (from, code.min(to, index(length)))
            }
        };
        match length <= self.chunk {
            true => round(code, index(0)),
            false => code.unrolled(1, from, to, self.chunk, |code, start| {
                round(code, start);
                // The next chunk takes the place of this one.
                code.barrier();
            }),
        }

        let put = |code: &mut Code, l: usize, r: usize, sum: Val| {
            let n_at = code.add(mine_n, index(l * grid[0]));
            let n_at = code.add(n_at, first[0]);
            let i_at = code.add(mine_i, index(r * grid[1]));
            let i_at = code.add(i_at, first[1]);
            let there = code.less(n_at, index(n));
            let there_i = code.less(i_at, index(i));
            let both = code.and(there, there_i);
            code.when(both, |code| {
                let n = unravel(code, n_at, &self.contract.n);
                let i = unravel(code, i_at, &self.contract.i);
                let (list, place) = place(code, buffers, loops, &self.contract.dst, &[&batch[..], &n, &i].concat());
                match self.cubes {
                    1 => code.store(list, place, sum),
                    _ => code.add_atomically(list, place, sum),
                }
            });
        };
        if self.split == 1 {
            for l in 0..self.own {
                for r in 0..self.own {
                    let sum = code.get(sums[l * self.own + r]);
                    put(code, l, r, sum);
                }
            }
            return;
        }
        // Shared sums have one output a unit.
        let partials = self.lists() * (self.chunk + PAD);
        let shared = code.shared();
        let here = code.add(unit, index(partials));
        let sum = code.get(sums[0]);
        code.store(shared, here, sum);
        code.barrier();
        let outputs = grid[0] * grid[1];
        let one = code.less(unit, index(outputs));
        code.when(one, |code| {
            let total = code.var(sum);
            code.range(index(1), index(self.split), 1, |code, part| {
                let at = code.mul(part, index(outputs));
                let at = code.add(at, here);
                let next = code.load(shared, at);
                let so_far = code.get(total);
                let next = code.add(so_far, next);
                code.set(total, next);
            });
            let total = code.get(total);
            put(code, 0, 0, total);
        });
    }
}

/// Sets the outputs of a sum to zero.
#[derive(Debug, Clone)]
pub(super) struct Clear {
    contract: Contract,
}

impl Clear {
    pub(super) fn touches(&self, buffer: BufferId) -> bool {
        self.contract.dst.base == Base::Buffer(buffer)
    }

    fn dims(&self) -> Vec<usize> {
        [&self.contract.batch[..], &self.contract.n, &self.contract.i].concat()
    }

    pub(super) fn cubes(&self, units: usize) -> usize {
        self.dims().iter().product::<usize>().div_ceil(CLEARED * units)
    }

    pub(super) fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers, loops: &LoopVars) {
        let dims = self.dims();
        let each = CLEARED * code.units();
        let first = code.mul(cube, index(each));
        code.items(each, |code, item| {
            let at = code.add(first, item);
            let there = code.less(at, index(dims.iter().product()));
            code.when(there, |code| {
                let at = unravel(code, at, &dims);
                let (list, place) = place(code, buffers, loops, &self.contract.dst, &at);
                code.store(list, place, number(0.0));
            });
        });
    }
}

/// The lists of a cube.
struct Lists<'a> {
    plan: &'a ContractPlan,
    buffers: &'a Buffers,
    loops: &'a LoopVars,
    batch: &'a [Val],
    first: [Val; 2],
    length: usize,
}

impl Lists<'_> {
    /// A chunk of the lists on a side; what is past the end of a list, or past the last list, is zero.
    fn stage(&self, code: &mut Code, view: &View, side: usize, lists: usize, from: Val) {
        let ContractPlan { contract, chunk, block, .. } = self.plan;
        let (dims, base) = if side == 0 { (&contract.n, 0) } else { (&contract.i, block[0]) };
        code.items(block[side] * chunk, |code, item| {
            let (list, q) = (code.div(item, index(*chunk)), code.rem(item, index(*chunk)));
            let entry = code.add(list, self.first[side]);
            let at = code.add(from, q);
            let value = code.var(number(0.0));
            let there = code.less(entry, index(lists));
            let inside = code.less(at, index(self.length));
            let both = code.and(there, inside);
            code.when(both, |code| {
                let (k, row) = (code.div(at, index(contract.rows)), code.rem(at, index(contract.rows)));
                let k = unravel(code, k, &contract.k);
                let entry = unravel(code, entry, dims);
                let (array, place) = place(code, self.buffers, self.loops, view, &[self.batch, &entry, &k].concat());
                let place = code.add(place, row);
                let x = code.load(array, place);
                code.set(value, x);
            });
            let to = code.add(list, index(base));
            let to = code.mul(to, index(chunk + PAD));
            let to = code.add(to, q);
            let (shared, value) = (code.shared(), code.get(value));
            code.store(shared, to, value);
        });
    }
}

/// Where an entry of a buffer's view is.
pub(super) fn place(
    code: &mut Code,
    buffers: &Buffers,
    loops: &LoopVars,
    view: &View,
    at: &[Val],
) -> (super::builder::List, Val) {
    let Base::Buffer(id) = view.base else { unreachable!("the verifier lets only buffers pass") };
    let (list, start) = start(code, buffers, id);
    let mut place = code.add(index(view.offset), start);
    for (i, stride) in at.iter().zip(&view.strides) {
        let by = code.mul(*i, index(*stride));
        place = code.add(by, place);
    }
    for (id, stride) in &view.loops {
        let by = code.mul(loops[id], index(*stride));
        place = code.add(by, place);
    }
    (list, place)
}
