//! Products with weights: rows times four outputs in a unit's registers.

use crate::kernel::{Base, Mode, View};

use super::builder::{Code, List, Val, index, number};
use super::emitted::Arena;
use super::phase::GemmPhase;
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
            // Rows of the block: those past the last repeat it.
            let first = code.mul(block, index(phase.block));
            let rows: Vec<(Val, Val, Val)> = (0..phase.block)
                .map(|j| {
                    let m = code.add(first, index(j));
                    let safe = match phase.m.is_multiple_of(phase.block) {
                        true => m,
                        false => code.min(m, index(phase.m - 1)),
                    };
                    let (entry, row) = self.row_of(code, safe);
                    (m, entry, row)
                })
                .collect();
            let src: Vec<(List, Val)> = rows
                .iter()
                .map(|(_, entry, row)| {
                    let m = unravel(code, *entry, &gemm.m);
                    let row = match self.here {
                        None => *row,
                        Some(here) => {
                            let last = code.sub(here, index(1));
                            code.min(*row, last)
                        }
                    };
                    self.place(code, &gemm.src, &[&batch[..], &m, &[index(0)]].concat(), row)
                })
                .collect();
            let step = self.apart(&gemm.src, gemm.src.strides.last().copied().unwrap_or(0));

            // Weights, four at a time.
            let in_panel = weight.pitch / 4;
            let (panel, place) = match weight.panels() {
                1 => (index(0), group),
                _ => (code.div(group, index(in_panel)), code.rem(group, index(in_panel))),
            };
            let packed = self.weight(code, phase, &batch);
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
                for ((list, start), sum) in src.iter().zip(&sums) {
                    let at = code.add(by, *start);
                    let x = code.load(*list, at);
                    let x = code.spread(x);
                    let so_far = code.get(*sum);
                    let next = code.mul_add(x, four, so_far);
                    code.set(*sum, next);
                }
            };
            // With many rows there is work enough until the next weights are there; with few, the compiler asks for several at
            // a time.
            match phase.block {
                4.. => code.unrolled(2, from, to, 1, round),
                _ => code.range(from, to, 1, round),
            }

            let first_n = code.mul(place, index(4));
            let by_panel = code.mul(panel, index(weight.panel));
            let n = code.add(first_n, by_panel);
            for ((m, entry, row), sum) in rows.into_iter().zip(sums) {
                let four = code.get(sum);
                self.on_block_row(code, phase, m, row, |code| {
                    let m_at = unravel(code, entry, &gemm.m);
                    let to = match phase.split {
                        1 => self.end(code, phase, &batch, &m_at, n, row),
                        _ => {
                            let at = code.mul(part, index(phase.batch()));
                            let at = code.add(at, b);
                            let at = code.mul(at, index(phase.m));
                            let at = code.add(at, m);
                            let at = code.mul(at, index(gemm.n));
                            let at = code.add(at, n);
                            let at = code.add(at, index(self.plan.locals()));
                            End { dst: (code.shared(), at), apart: 1, bias: None, accumulate: false }
                        }
                    };
                    for c in 0..4 {
                        let x = code.part(four, c);
                        let put = |code: &mut Code| to.put(code, c, x);
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

    /// Does what follows if the block has the row and the cube has it, too.
    fn on_block_row(&self, code: &mut Code, phase: &GemmPhase, m: Val, row: Val, body: impl FnOnce(&mut Code)) {
        if phase.m.is_multiple_of(phase.block) {
            return self.on_row(code, row, body);
        }
        let there = code.less(m, index(phase.m));
        code.when(there, |code| self.on_row(code, row, body));
    }

    /// Where the weight of a batch entry starts, in fours.
    fn weight(&self, code: &mut Code, phase: &GemmPhase, batch: &[Val]) -> Val {
        let view = &phase.gemm.weight;
        let Base::Buffer(id) = view.base else { unreachable!("the verifier lets only buffers pass") };
        let place = |offset: usize| index(phase.weight.place(offset) / 4);
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
    fn end(&self, code: &mut Code, phase: &GemmPhase, batch: &[Val], m: &[Val], n: Val, row: Val) -> End {
        let gemm = &phase.gemm;
        let apart = |view: &View| self.apart(view, view.strides.last().copied().unwrap_or(0));
        let bias = gemm.bias.as_ref().map(|bias| {
            let (list, at) = self.place(code, bias, &[batch, &[n]].concat(), row);
            (list, at, apart(bias))
        });
        let dst = self.place(code, &gemm.dst, &[batch, m, &[n]].concat(), row);
        End { dst, apart: apart(&gemm.dst), bias, accumulate: gemm.accumulate }
    }

    pub(super) fn gemm_sum(&self, code: &mut Code, phase: &GemmPhase) {
        let gemm = &phase.gemm;
        code.items(phase.results(), |code, item| {
            let places = unravel(code, item, &[phase.batch(), phase.m, gemm.n]);
            let [b, m, n] = places[..] else { unreachable!("as many places as sizes") };
            let (entry, row) = self.row_of(code, m);
            self.on_row(code, row, |code| {
                let sum = self.partial_sums(code, Mode::Sum, item, self.plan.locals(), phase.split, phase.results());
                let batch = unravel(code, b, &gemm.batch);
                let m = unravel(code, entry, &gemm.m);
                self.end(code, phase, &batch, &m, n, row).put(code, 0, sum);
            });
        });
    }
}

/// Where outputs of a row go that follow each other.
struct End {
    dst: (List, Val),
    /// From one output to the next.
    apart: usize,
    bias: Option<(List, Val, usize)>,
    accumulate: bool,
}

impl End {
    /// The sum of an output, so many after the first.
    fn put(&self, code: &mut Code, further: usize, sum: Val) {
        let mut sum = sum;
        if let Some((list, at, apart)) = self.bias {
            let at = code.add(at, index(further * apart));
            let bias = code.load(list, at);
            sum = code.add(sum, bias);
        }
        let (list, at) = self.dst;
        let at = code.add(at, index(further * self.apart));
        if self.accumulate {
            let before = code.load(list, at);
            sum = code.add(before, sum);
        }
        code.store(list, at, sum);
    }
}
