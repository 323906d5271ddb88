//! Products with weights on tensor cores: a block of outputs at a time, a tile of it for each plane.
//!
//! Both factors go through shared memory, rounded and filled up with zeros, a chunk of the sum at a time. There are two
//! buffers: while planes multiply one chunk, the next is on its way from memory, and a round needs one barrier.

use crate::kernel::Gemm;

use super::builder::{Code, Fragment, List, Side, Val, Var, index, number};
use super::emitted::{Arena, Precision};
use super::plan::{Limits, Weight};
use super::tile::{Emitter, unravel};

/// Rows and outputs of a tile.
pub(super) const SIDE: usize = 16;
/// Entries of the sum that are staged at a time.
const CHUNK: usize = 16;
/// Rows of a block, at most, and planes along its outputs.
const TALL: usize = 32;
const WIDE: usize = 8;
/// Units of a plane; CUDA's are all alike.
const PLANE: usize = 32;
/// Numbers between one line of a buffer and the next, so that lines start in different banks.
const PAD: usize = 8;

/// A product on tensor cores.
#[derive(Debug, Clone)]
pub(super) struct TensorPhase {
    pub(super) gemm: Gemm,
    weight: Weight,
    /// Rows of the cube times the dimensions that share the weight.
    pub(super) m: usize,
    precision: Precision,
    /// Planes of a block, along rows and along outputs.
    planes: [usize; 2],
    /// Tiles of a plane, one above the other.
    own: usize,
    units: usize,
}

/// Numbers (of four bytes) of shared memory that any product needs.
pub(super) fn room(precision: Precision) -> usize {
    let [rows, columns] = [TALL, WIDE * SIDE].map(|side| side + PAD);
    let [buffers, sums] = [2 * CHUNK * (rows + columns), TALL * columns];
    match precision {
        Precision::F32 => 0,
        Precision::Tf32 => buffers.max(sums),
        Precision::Bf16 => buffers / 2 + sums,
    }
}

impl TensorPhase {
    /// The product on tensor cores, where there are some and at least half of a tile's rows are there: even so they are quicker.
    pub(super) fn new(gemm: &Gemm, weight: Weight, m: usize, limits: &Limits) -> Option<TensorPhase> {
        let planes = limits.units as usize / PLANE;
        let fits = 2 * m >= SIDE && gemm.n >= SIDE && gemm.k >= CHUNK && weight.panels() == 1 && !gemm.batch.contains(&0);
        if limits.precision == Precision::F32 || limits.plane as usize != PLANE || planes == 0 || !fits {
            return None;
        }
        let tiles = |size: usize| size.div_ceil(SIDE).next_power_of_two();
        let across = tiles(gemm.n).min(WIDE).min(1 << planes.ilog2());
        let down = tiles(m).min(TALL / SIDE);
        let along = down.min(planes / across);
        let units = limits.units as usize;
        Some(TensorPhase {
            gemm: gemm.clone(),
            weight,
            m,
            precision: limits.precision,
            planes: [along, across],
            own: down / along,
            units,
        })
    }

    /// Entries of the sum that a tile takes.
    fn step(&self) -> usize {
        if self.precision == Precision::Tf32 { 8 } else { 16 }
    }

    /// Rows and outputs of a block.
    pub(super) fn block(&self) -> [usize; 2] {
        [self.planes[0] * self.own * SIDE, self.planes[1] * SIDE]
    }

    /// From one line to the next of a buffer: of the entries of the left factor, and of the right one and of sums.
    fn pitches(&self) -> [usize; 2] {
        self.block().map(|side| side + PAD)
    }

    /// Numbers of a buffer.
    fn buffer(&self) -> usize {
        CHUNK * self.pitches().iter().sum::<usize>()
    }

    /// Numbers of both buffers: of two bytes, or of four, where partial sums come to be when buffers are done with.
    pub(super) fn halves(&self) -> usize {
        if self.precision == Precision::Bf16 { 2 * self.buffer() } else { 0 }
    }

    pub(super) fn buffers(&self) -> usize {
        if self.precision == Precision::Bf16 { 0 } else { 2 * self.buffer() }
    }

    /// Numbers of four bytes that partial sums and buffers need.
    pub(super) fn scratch(&self) -> usize {
        self.buffers().max(self.block()[0] * self.pitches()[1])
    }

    /// Blocks: batch entries, and along rows and outputs.
    fn blocks(&self) -> [usize; 3] {
        let [rows, columns] = self.block();
        [self.gemm.batch.iter().product(), self.m.div_ceil(rows), self.gemm.n.div_ceil(columns)]
    }

    /// Whether its last barrier is behind everything that it does.
    pub(super) fn ends_with_barrier(&self) -> bool {
        self.blocks().iter().product::<usize>() > 1
    }

    /// Of the only block: who finishes the output n of row m, and where its sum is among the partial ones.
    pub(super) fn finisher(&self, m: usize, n: usize) -> (usize, usize) {
        (n * self.block()[0] + m, m * self.pitches()[1] + n)
    }
}

impl Emitter<'_> {
    pub(super) fn tensor(&self, code: &mut Code, phase: &TensorPhase) {
        let blocks = phase.blocks();
        match blocks.iter().product() {
            0 => {}
            1 => self.tensor_block(code, phase, [index(0); 3]),
            count => code.unrolled(1, index(0), index(count), 1, |code, block| {
                let at = unravel(code, block, &blocks);
                self.tensor_block(code, phase, [at[0], at[1], at[2]]);
                // The next block's buffers take the place of sums.
                code.barrier();
            }),
        }
    }

    fn tensor_block(&self, code: &mut Code, phase: &TensorPhase, [b, i_m, i_n]: [Val; 3]) {
        let gemm = &phase.gemm;
        let [rows, columns] = phase.block();
        let [a_pitch, b_pitch] = phase.pitches();
        let first = [code.mul(i_m, index(rows)), code.mul(i_n, index(columns))];
        let batch = unravel(code, b, &gemm.batch);
        let staged =
            Staged { emitter: self, phase, batch: &batch, first, packed: self.weight(code, gemm, &phase.weight, &batch) };

        // The tiles of this unit's plane; planes that are left over have none.
        let unit = code.unit();
        let plane = code.div(unit, index(PLANE));
        let [along, across] = phase.planes;
        let tile = [code.div(plane, index(across)), code.rem(plane, index(across))];
        let by_plane = |code: &mut Code, body: &mut dyn FnMut(&mut Code)| match along * across * PLANE == code.units() {
            true => body(code),
            false => {
                let has = code.less(plane, index(along * across));
                code.when(has, body);
            }
        };
        let tall = code.mul(tile[0], index(phase.own * SIDE));
        let wide = code.mul(tile[1], index(SIDE));
        let shape = [SIDE, SIDE, phase.step()];
        let sums: Vec<Fragment> = (0..phase.own).map(|_| code.fragment(Side::C, shape, phase.precision)).collect();
        sums.iter().for_each(|sum| code.clear(*sum));

        let (list, start) = self.buffers_of(code, phase);
        let fetched = staged.fetch(code, index(0));
        staged.put(code, list, index(start), &fetched);
        code.barrier();
        let chunks = gemm.k.div_ceil(CHUNK);
        code.unrolled(1, index(0), index(chunks), 1, |code, chunk| {
            let next = code.add(chunk, index(1));
            let from = code.mul(next, index(CHUNK));
            let fetched = staged.fetch(code, from);
            let which = code.rem(chunk, index(2));
            let which = code.mul(which, index(phase.buffer()));
            let here = code.add(which, index(start));
            by_plane(code, &mut |code| {
                for step in (0..CHUNK).step_by(phase.step()) {
                    let at = code.add(here, wide);
                    let at = code.add(at, index(CHUNK * a_pitch + step * b_pitch));
                    let right = code.fragment(Side::B, shape, phase.precision);
                    code.gather_fragment(right, list, at, b_pitch);
                    for (i, sum) in sums.iter().enumerate() {
                        let at = code.add(here, tall);
                        let at = code.add(at, index(step * a_pitch + i * SIDE));
                        let left = code.fragment(Side::A, shape, phase.precision);
                        code.gather_fragment(left, list, at, a_pitch);
                        code.multiply_fragments(left, right, *sum);
                    }
                }
            });
            let other = code.rem(next, index(2));
            let other = code.mul(other, index(phase.buffer()));
            let there = code.add(other, index(start));
            staged.put(code, list, there, &fetched);
            code.barrier();
        });

        let (shared, at) = (code.shared(), self.plan.scratch_start());
        by_plane(code, &mut |code| {
            let down = code.mul(tall, index(b_pitch));
            let place = code.add(down, wide);
            for (i, sum) in sums.iter().enumerate() {
                let place = code.add(place, index(at + i * SIDE * b_pitch));
                code.spread_fragment(*sum, shared, place, b_pitch);
            }
        });
        code.barrier();
        code.items(rows * columns, |code, item| {
            let (n_in, m_in) = (code.div(item, index(rows)), code.rem(item, index(rows)));
            let (m, n) = (code.add(first[0], m_in), code.add(first[1], n_in));
            staged.inside(code, m, n, |code| {
                let (entry, row) = self.row_of(code, m);
                self.on_row(code, row, |code| {
                    let down = code.mul(m_in, index(b_pitch));
                    let place = code.add(down, n_in);
                    let place = code.add(place, index(at));
                    let sum = code.load(shared, place);
                    let m = unravel(code, entry, &gemm.m);
                    self.end(code, gemm, &batch, &m, n, row).put(code, 0, 0, sum);
                });
            });
        });
    }

    /// The array that buffers are in, and where they start.
    fn buffers_of(&self, code: &Code, phase: &TensorPhase) -> (List, usize) {
        match phase.precision {
            Precision::Bf16 => (code.halves(), 0),
            Precision::F32 | Precision::Tf32 => (code.shared(), self.plan.scratch_start()),
        }
    }
}

/// A block's factors on their way through shared memory.
struct Staged<'a> {
    emitter: &'a Emitter<'a>,
    phase: &'a TensorPhase,
    batch: &'a [Val],
    /// The first row and the first output.
    first: [Val; 2],
    /// Where the weight starts, in fours.
    packed: Val,
}

/// What a unit has fetched: entries of the left factor, fours of the right one.
struct Fetched {
    left: Vec<Var>,
    right: Vec<Var>,
}

impl Staged<'_> {
    fn counts(&self) -> [usize; 2] {
        self.phase.block().map(|side| CHUNK * side)
    }

    /// The unit's items of so many, each with its number.
    fn each(&self, code: &mut Code, count: usize, body: &mut dyn FnMut(&mut Code, usize, Val)) {
        let units = self.phase.units;
        for i in 0..count.div_ceil(units) {
            let unit = code.unit();
            let item = code.add(unit, index(i * units));
            if (i + 1) * units <= count {
                body(code, i, item);
                continue;
            }
            let there = code.less(item, index(count));
            code.when(there, |code| body(code, i, item));
        }
    }

    /// From memory into registers; zeros where there is nothing.
    fn fetch(&self, code: &mut Code, from: Val) -> Fetched {
        let Gemm { k, m: m_dims, src, .. } = &self.phase.gemm;
        let [rows, columns] = self.phase.block();
        let [left_count, right_count] = self.counts();
        let zeros = |code: &mut Code, count: usize, zero: Val| -> Vec<Var> {
            (0..count.div_ceil(self.phase.units)).map(|_| code.var(zero)).collect()
        };
        let left = zeros(code, left_count, number(0.0));
        self.each(code, left_count, &mut |code, i, item| {
            let (k_in, m_in) = (code.div(item, index(rows)), code.rem(item, index(rows)));
            let (m, at) = (code.add(self.first[0], m_in), code.add(from, k_in));
            let there = code.less(at, index(*k));
            code.when(there, |code| {
                self.row_inside(code, m, |code| {
                    let (entry, row) = self.emitter.row_of(code, m);
                    self.emitter.on_row(code, row, |code| {
                        let m = unravel(code, entry, m_dims);
                        let x = self.emitter.read(code, src, &[self.batch, &m, &[at]].concat(), row);
                        code.set(left[i], x);
                    });
                });
            });
        });
        let zero = code.spread(number(0.0));
        let right = zeros(code, right_count / 4, zero);
        let fours = self.phase.weight.pitch / 4;
        self.each(code, right_count / 4, &mut |code, i, item| {
            let (k_in, in_line) = (code.div(item, index(columns / 4)), code.rem(item, index(columns / 4)));
            let at = code.add(from, k_in);
            let first = code.div(self.first[1], index(4));
            let four = code.add(first, in_line);
            let there = code.less(at, index(*k));
            let inside = code.less(four, index(fours));
            let both = code.and(there, inside);
            code.when(both, |code| {
                let line = code.mul(at, index(fours));
                let place = code.add(line, four);
                let place = code.add(place, self.packed);
                let weights = code.arena(Arena::Weights);
                let x = code.load(weights, place);
                code.set(right[i], x);
            });
        });
        Fetched { left, right }
    }

    /// From registers into a buffer.
    fn put(&self, code: &mut Code, list: List, start: Val, fetched: &Fetched) {
        let precision = self.phase.precision;
        let [rows, columns] = self.phase.block();
        let [a_pitch, b_pitch] = self.phase.pitches();
        let [left_count, right_count] = self.counts();
        self.each(code, left_count, &mut |code, i, item| {
            let (k_in, m_in) = (code.div(item, index(rows)), code.rem(item, index(rows)));
            let line = code.mul(k_in, index(a_pitch));
            let place = code.add(line, m_in);
            let place = code.add(place, start);
            let x = code.get(fetched.left[i]);
            let x = code.rounded(x, precision);
            code.store(list, place, x);
        });
        self.each(code, right_count / 4, &mut |code, i, item| {
            let (k_in, in_line) = (code.div(item, index(columns / 4)), code.rem(item, index(columns / 4)));
            let line = code.mul(k_in, index(b_pitch));
            let in_line = code.mul(in_line, index(4));
            let place = code.add(line, in_line);
            let place = code.add(place, start);
            let four = code.get(fetched.right[i]);
            for c in 0..4 {
                let place = code.add(place, index(CHUNK * a_pitch + c));
                let x = code.part(four, c);
                let x = code.rounded(x, precision);
                code.store(list, place, x);
            }
        });
    }

    fn row_inside(&self, code: &mut Code, m: Val, body: impl FnOnce(&mut Code)) {
        if self.phase.m.is_multiple_of(self.phase.block()[0]) {
            return body(code);
        }
        let there = code.less(m, index(self.phase.m));
        code.when(there, body);
    }

    /// Does what follows if there are the row and the output.
    fn inside(&self, code: &mut Code, m: Val, n: Val, body: impl FnOnce(&mut Code)) {
        self.row_inside(code, m, |code| {
            if self.phase.gemm.n.is_multiple_of(self.phase.block()[1]) {
                return body(code);
            }
            let there = code.less(n, index(self.phase.gemm.n));
            code.when(there, body);
        });
    }
}
