//! Products with weights: rows times four outputs in a unit's registers.

use crate::kernel::{Base, Gemm, Lanes, Mode, View};

use super::builder::{Code, List, Val, index, number};
use super::emitted::Arena;
use super::phase::GemmPhase;
use super::plan::Weight;
use super::tile::{Emitter, start, unravel};

impl Emitter<'_> {
    pub(super) fn gemm(&self, code: &mut Code, phase: &GemmPhase) {
        let gemm = &phase.gemm;
        let weight = &phase.weight;
        if phase.results() == 0 {
            return;
        }
        code.items(phase.items(), |code, item| {
            let places = unravel(code, item, &[phase.split, phase.batch(), phase.blocks(), phase.groups]);
            let [part, b, block, group] = places[..] else { unreachable!("as many places as sizes") };
            let batch = unravel(code, b, &gemm.batch);
            let rows = self.block_rows(code, phase, block);
            let src: Vec<(List, Val, usize)> = rows
                .iter()
                .map(|at| {
                    let m = unravel(code, at.entry, &gemm.m);
                    let row = match self.here {
                        None => at.row,
                        Some(here) => {
                            let last = code.sub(here, index(1));
                            code.min(at.row, last)
                        }
                    };
                    let (list, place) = self.place(code, &gemm.src, &[&batch[..], &m, &[index(0)]].concat(), row);
                    (list, place, self.beyond(gemm, &gemm.src, at))
                })
                .collect();
            let step = self.apart(&gemm.src, gemm.src.strides.last().copied().unwrap_or(0));

            // Weights, four at a time.
            let in_panel = weight.pitch / 4;
            let (panel, place) = match weight.panels() {
                1 => (index(0), group),
                _ => (code.div(group, index(in_panel)), code.rem(group, index(in_panel))),
            };
            let packed = self.weight(code, gemm, weight, &batch);
            let by_panel = code.mul(panel, index(weight.k * in_panel));
            let packed = code.add(packed, by_panel);
            let packed = code.add(packed, place);
            let weights = code.arena(Arena::Weights);
            let zero = code.spread(number(0.0));
            let sums: Vec<_> = rows.iter().map(|_| code.var(zero)).collect();
            let (from, to) = match phase.split {
                1 => (index(0), index(gemm.k)),
                _ => {
                    let from = code.mul(part, index(phase.chunk()));
                    let to = code.add(from, index(phase.chunk()));
                    (from, code.min(to, index(gemm.k)))
                }
            };
            let round = |code: &mut Code, k: Val| {
                let by = code.mul(k, index(in_panel));
                let at = code.add(by, packed);
                let four = code.load(weights, at);
                let by = code.mul(k, index(step));
                for ((list, start, beyond), sum) in src.iter().zip(&sums) {
                    let at = code.add(by, *start);
                    let at = code.add(at, index(*beyond));
                    let x = code.load(*list, at);
                    let x = code.spread(x);
                    let so_far = code.get(*sum);
                    let next = code.mul_add(x, four, so_far);
                    code.set(*sum, next);
                }
            };
            // With many rows there is work enough until the next weights are there; with few, several are asked for at a time.
            let at_once = if phase.block >= 4 { 2 } else { 4 };
            code.unrolled(at_once, from, to, 1, round);

            let first_n = code.mul(place, index(4));
            let by_panel = code.mul(panel, index(weight.panel));
            let n = code.add(first_n, by_panel);
            let whole = gemm.n.is_multiple_of(4) && (weight.panels() == 1 || weight.panel.is_multiple_of(4));
            // The bias is the same for all rows.
            let bias = (whole && phase.split == 1).then(|| self.bias(code, gemm, &batch, n)).flatten();
            let bias = bias.map(|bias| [0, 1, 2, 3].map(|c| bias.read(code, c)));
            for (at, sum) in rows.into_iter().zip(sums) {
                let four = code.get(sum);
                self.on_block_row(code, phase, at.m, at.row, |code| {
                    let m_at = unravel(code, at.entry, &gemm.m);
                    let (to, beyond) = match phase.split {
                        1 => (self.end(code, gemm, &batch, &m_at, n, at.row), self.beyond(gemm, &gemm.dst, &at)),
                        _ => {
                            let place = code.mul(part, index(phase.batch()));
                            let place = code.add(place, b);
                            let place = code.mul(place, index(phase.m));
                            let place = code.add(place, at.m);
                            let place = code.mul(place, index(gemm.n));
                            let place = code.add(place, n);
                            let place = code.add(place, index(self.plan.scratch_start()));
                            let to = End { dst: (code.shared(), place), apart: 1, bias: None, accumulate: false };
                            (to, (at.entries * self.each + at.rows) * gemm.n)
                        }
                    };
                    for c in 0..4 {
                        let x = code.part(four, c);
                        let put = |code: &mut Code| match bias {
                            Some(bias) => {
                                let x = code.add(x, bias[c]);
                                to.store(code, beyond, c, x);
                            }
                            None => to.put(code, beyond, c, x),
                        };
                        // Panels that are not full end before the four do.
                        if weight.panels() > 1 && !weight.panel.is_multiple_of(4) {
                            let in_place = code.add(first_n, index(c));
                            let inside = code.less(in_place, index(weight.panel));
                            let n = code.add(n, index(c));
                            let there = code.less(n, index(gemm.n));
                            let both = code.and(inside, there);
                            code.when(both, put);
                        } else if gemm.n.is_multiple_of(4) {
                            put(code);
                        } else {
                            let n = code.add(n, index(c));
                            let there = code.less(n, index(gemm.n));
                            code.when(there, put);
                        }
                    }
                });
            }
        });
    }

    /// Rows of a block; those past the last repeat it. Where blocks are all alike, each is as far from the first as is known.
    fn block_rows(&self, code: &mut Code, phase: &GemmPhase, block: Val) -> Vec<BlockRow> {
        let gemm = &phase.gemm;
        let first = code.mul(block, index(phase.block));
        let even = phase.m.is_multiple_of(phase.block) && self.here.is_none();
        let inside = self.each.is_multiple_of(phase.block);
        // Rows of several entries of the last dimension.
        let across = phase.block.is_multiple_of(self.each)
            && gemm.m.last().is_some_and(|last| last.is_multiple_of(phase.block / self.each));
        let unit = |view: &View| matches!(view.base, Base::Local(_)) || view.lanes == Lanes::Unit;
        if even && (inside || across) && unit(&gemm.src) && unit(&gemm.dst) {
            let (entry, row) = self.row_of(code, first);
            let row = if inside { row } else { index(0) };
            let at = |j: usize| BlockRow { m: first, entry, row, entries: j / self.each, rows: j % self.each };
            return (0..phase.block).map(at).collect();
        }
        let at = |j: usize| {
            let m = code.add(first, index(j));
            let safe = match phase.m.is_multiple_of(phase.block) {
                true => m,
                false => code.min(m, index(phase.m - 1)),
            };
            let (entry, row) = self.row_of(code, safe);
            BlockRow { m, entry, row, entries: 0, rows: 0 }
        };
        (0..phase.block).map(at).collect()
    }

    /// How far a row of a block is from where it is said to be, in an operand over batch, m and one more.
    fn beyond(&self, gemm: &Gemm, view: &View, at: &BlockRow) -> usize {
        let stride = gemm.m.len().checked_sub(1).map_or(0, |last| view.strides[gemm.batch.len() + last]);
        at.entries * self.apart(view, stride) + at.rows
    }

    /// Does what follows if the block has the row and the cube has it, too.
    fn on_block_row(&self, code: &mut Code, phase: &GemmPhase, m: Val, row: Val, body: impl FnOnce(&mut Code)) {
        if phase.m.is_multiple_of(phase.block) {
            return self.on_row(code, row, body);
        }
        let there = code.less(m, index(phase.m));
        code.when(there, |code| self.on_row(code, row, body));
    }

    /// Where the weight of a batch entry starts, in fours.
    pub(super) fn weight(&self, code: &mut Code, gemm: &Gemm, weight: &Weight, batch: &[Val]) -> Val {
        let view = &gemm.weight;
        let Base::Buffer(id) = view.base else { unreachable!("the verifier lets only buffers pass") };
        let place = |offset: usize| index(weight.place(offset) / 4);
        let mut at = place(view.offset);
        for (i, stride) in batch.iter().zip(&view.strides) {
            let by = code.mul(*i, place(*stride));
            at = code.add(by, at);
        }
        for (id, stride) in &view.loops {
            let by = code.mul(self.loops[id], place(*stride));
            at = code.add(by, at);
        }
        let (_, start) = start(code, self.buffers, id);
        let start = code.div(start, index(4));
        code.add(at, start)
    }

    /// Where an output goes, and those after it.
    pub(super) fn end(&self, code: &mut Code, gemm: &Gemm, batch: &[Val], m: &[Val], n: Val, row: Val) -> End {
        let bias = self.bias(code, gemm, batch, n);
        let dst = self.place(code, &gemm.dst, &[batch, m, &[n]].concat(), row);
        End { dst, apart: self.last_apart(&gemm.dst), bias, accumulate: gemm.accumulate }
    }

    fn last_apart(&self, view: &View) -> usize {
        self.apart(view, view.strides.last().copied().unwrap_or(0))
    }

    fn bias(&self, code: &mut Code, gemm: &Gemm, batch: &[Val], n: Val) -> Option<Bias> {
        let bias = gemm.bias.as_ref()?;
        let (list, at) = self.place(code, bias, &[batch, &[n]].concat(), index(0));
        Some(Bias { list, at, apart: self.last_apart(bias) })
    }

    pub(super) fn gemm_sum(&self, code: &mut Code, phase: &GemmPhase) {
        let gemm = &phase.gemm;
        code.items(phase.results(), |code, item| {
            let places = unravel(code, item, &[phase.batch(), phase.m, gemm.n]);
            let [b, m, n] = places[..] else { unreachable!("as many places as sizes") };
            let (entry, row) = self.row_of(code, m);
            self.on_row(code, row, |code| {
                let sum = self.partial_sums(code, Mode::Sum, item, self.plan.scratch_start(), phase.split, phase.results());
                let batch = unravel(code, b, &gemm.batch);
                let m = unravel(code, entry, &gemm.m);
                self.end(code, gemm, &batch, &m, n, row).put(code, 0, 0, sum);
            });
        });
    }
}

/// Where outputs of a row go that follow each other.
pub(super) struct End {
    dst: (List, Val),
    /// From one output to the next.
    apart: usize,
    bias: Option<Bias>,
    accumulate: bool,
}

/// A row of a block: where it is, or another, and how many entries and rows it is beyond that.
struct BlockRow {
    m: Val,
    entry: Val,
    row: Val,
    entries: usize,
    rows: usize,
}

/// Where the bias of an output is, and of those after it.
struct Bias {
    list: List,
    at: Val,
    apart: usize,
}

impl Bias {
    fn read(&self, code: &mut Code, further: usize) -> Val {
        let at = code.add(self.at, index(further * self.apart));
        code.load(self.list, at)
    }
}

impl End {
    /// The sum of an output, so many after the first, and of a row that is `beyond`.
    pub(super) fn put(&self, code: &mut Code, beyond: usize, further: usize, sum: Val) {
        let mut sum = sum;
        if let Some(bias) = &self.bias {
            let bias = bias.read(code, further);
            sum = code.add(sum, bias);
        }
        self.store(code, beyond, further, sum);
    }

    /// The same with its bias.
    fn store(&self, code: &mut Code, beyond: usize, further: usize, sum: Val) {
        let mut sum = sum;
        let (list, at) = self.dst;
        let at = code.add(at, index(beyond + further * self.apart));
        if self.accumulate {
            let before = code.load(list, at);
            sum = code.add(before, sum);
        }
        code.store(list, at, sum);
    }
}
