//! Tile kernels: a cube takes some rows through all statements; a local is entries times rows in shared memory.

use crate::kernel::{Base, Binary, BufferId, Copy, Gather, Instr, Lanes, LoopId, Mode, Sort, Stmt, Store, Tile, Unary, View};

use super::barrier::{self, Node};
use super::builder::{Code, Fun, List, LoopVars, Val, index, number};
use super::emitted::{Arena, Scalar};
use super::phase::{self, GemmPhase, MapPhase, Phase, ScatterPhase, needed};
use super::plan::{Around, Buffers, Home, Layout, Limits, layout};

/// A tile kernel, planned.
#[derive(Debug, Clone)]
pub(super) struct TilePlan {
    pub(super) tile: Tile,
    pub(super) layout: Layout,
    body: Vec<Node>,
    /// Where the cubes' spilled locals start in the workspace.
    pub(super) spill: usize,
}

impl TilePlan {
    pub(super) fn new(tile: &Tile, limits: &Limits, buffers: &Buffers, around: &Around) -> TilePlan {
        let layout = layout(tile, limits);
        let units = limits.units as usize;
        let mut body = nodes(&tile.body, &layout, buffers, units);
        barrier::place(&mut body, tile, &layout, units, around);
        TilePlan { tile: tile.clone(), layout, body, spill: 0 }
    }

    /// Numbers of shared memory: locals of all rows, and partial sums.
    pub(super) fn shared(&self) -> usize {
        self.locals() + scratch(&self.body, self.layout.rows_per_cube)
    }

    fn locals(&self) -> usize {
        self.layout.shared * self.layout.rows_per_cube
    }

    /// Numbers of the workspace that all cubes need for locals.
    pub(super) fn spilled(&self) -> usize {
        self.layout.spilled * self.layout.rows_per_cube * self.layout.cubes
    }

    pub(super) fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers, loops: &LoopVars) {
        let rows = self.tile.row_count();
        let each = self.layout.rows_per_cube;
        let first = code.mul(cube, index(each));
        let here = (!rows.is_multiple_of(each)).then(|| {
            let left = code.sub(index(rows), first);
            code.min(left, index(each))
        });
        let spilled = code.mul(cube, index(self.layout.spilled * each));
        let spilled = code.add(spilled, index(self.spill));
        let mut emitter = Emitter { plan: self, buffers, loops: loops.clone(), each, first, here, spilled };
        emitter.nodes(code, &self.body);
    }
}

fn nodes(body: &[Stmt], layout: &Layout, buffers: &Buffers, units: usize) -> Vec<Node> {
    let rows = layout.rows_per_cube;
    let mut nodes = Vec::new();
    for stmt in body {
        let phases = match stmt {
            Stmt::Map(map) => phase::map(map, rows, units),
            Stmt::Gemm(gemm) => {
                let Base::Buffer(id) = gemm.weight.base else { unreachable!("the verifier lets only buffers pass") };
                phase::gemm(gemm, buffers.weights[&id], rows, units)
            }
            Stmt::Copy(copy) => vec![Phase::Copy(copy.clone())],
            Stmt::Sort(sort) => vec![Phase::Sort(sort.clone())],
            Stmt::Gather(gather) => vec![Phase::Gather(gather.clone())],
            Stmt::Scatter(scatter) => vec![phase::scatter(scatter)],
            Stmt::Loop { id, count, reverse, body } => {
                let body = self::nodes(body, layout, buffers, units);
                nodes.push(Node::Loop { id: *id, count: *count, reverse: *reverse, body });
                continue;
            }
        };
        nodes.extend(phases.into_iter().map(|phase| Node::Phase { phase, waits: false }));
    }
    nodes
}

/// Numbers that partial sums need at most.
fn scratch(nodes: &[Node], rows: usize) -> usize {
    let of = |node: &Node| match node {
        Node::Phase { phase: Phase::MapSum(map), .. } => map.split * map.folds.len() * map.results() * rows,
        Node::Phase { phase: Phase::GemmSum(gemm), .. } => gemm.split * gemm.results(),
        Node::Phase { .. } => 0,
        Node::Loop { body, .. } => scratch(body, rows),
    };
    nodes.iter().map(of).max().unwrap_or(0)
}

struct Emitter<'a> {
    plan: &'a TilePlan,
    buffers: &'a Buffers,
    loops: LoopVars,
    /// Rows of a cube.
    each: usize,
    /// The cube's first row.
    first: Val,
    /// Rows that this cube has, if it may be fewer.
    here: Option<Val>,
    /// Where the cube's spilled locals start.
    spilled: Val,
}

impl Emitter<'_> {
    fn nodes(&mut self, code: &mut Code, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Phase { phase, waits } => {
                    if *waits {
                        code.barrier();
                    }
                    self.phase(code, phase);
                }
                Node::Loop { id, count, reverse, body } => self.looped(code, *id, *count, *reverse, body),
            }
        }
    }

    fn looped(&mut self, code: &mut Code, id: LoopId, count: usize, reverse: bool, body: &[Node]) {
        code.range(index(0), index(count), 1, |code, round| {
            let round = if reverse { code.sub(index(count.saturating_sub(1)), round) } else { round };
            self.loops.insert(id, round);
            self.nodes(code, body);
            self.loops.remove(&id);
        });
    }

    fn phase(&mut self, code: &mut Code, phase: &Phase) {
        match phase {
            Phase::Map(map) => self.map(code, map),
            Phase::MapSum(map) => self.map_sum(code, map),
            Phase::Gemm(gemm) => self.gemm(code, gemm),
            Phase::GemmSum(gemm) => self.gemm_sum(code, gemm),
            Phase::Copy(copy) => self.copy(code, copy),
            Phase::Sort(sort) => self.sort(code, sort),
            Phase::Gather(gather) => self.gather(code, gather),
            Phase::Scatter(scatter) => self.scatter(code, scatter),
        }
    }

    /// Does what follows for a row that there is.
    fn on_row(&self, code: &mut Code, row: Val, body: impl FnOnce(&mut Code)) {
        match self.here {
            None => body(code),
            Some(here) => {
                let there = code.less(row, here);
                code.when(there, body);
            }
        }
    }

    /// Items are entries times rows, a row apart from the next: gives the index of the entry and the row.
    fn entries(&self, code: &mut Code, dims: &[usize], body: impl FnOnce(&mut Code, &[Val], Val)) {
        let count = dims.iter().product::<usize>() * self.each;
        if count == 0 {
            return;
        }
        code.items(count, |code, item| {
            let (entry, row) = self.row_of(code, item);
            self.on_row(code, row, |code| {
                let at = unravel(code, entry, dims);
                body(code, &at, row);
            });
        });
    }

    /// The entry and the row of an item.
    fn row_of(&self, code: &mut Code, item: Val) -> (Val, Val) {
        (code.div(item, index(self.each)), code.rem(item, index(self.each)))
    }

    /// The array that an operand is in, and where in it the entry is.
    fn place(&self, code: &mut Code, view: &View, at: &[Val], row: Val) -> (List, Val) {
        let mut place = index(view.offset);
        let mut step = |code: &mut Code, by: Val, stride: usize| {
            let by = code.mul(by, index(stride));
            place = code.add(by, place);
        };
        view.strides.iter().zip(at).for_each(|(stride, i)| step(code, *i, *stride));
        view.loops.iter().for_each(|(id, stride)| step(code, self.loops[id], *stride));
        match view.base {
            Base::Local(id) => {
                let (list, home) = match self.plan.layout.homes[id.0 as usize] {
                    Home::Shared(home) => (code.shared(), index(home)),
                    Home::Spilled(home) => (code.arena(Arena::Work), index(home)),
                };
                let place = code.add(place, home);
                let place = code.mul(place, index(self.each));
                let place = code.add(place, row);
                match self.plan.layout.homes[id.0 as usize] {
                    Home::Shared(_) => (list, place),
                    Home::Spilled(_) => (list, code.add(place, self.spilled)),
                }
            }
            Base::Buffer(id) => {
                let (list, start) = start(code, self.buffers, id);
                let place = code.add(place, start);
                let further = self.further(code, &view.lanes, row);
                (list, code.add(place, further))
            }
        }
    }

    /// How much further than the first row of all a row of the cube is.
    fn further(&self, code: &mut Code, lanes: &Lanes, row: Val) -> Val {
        match lanes {
            Lanes::Splat => index(0),
            Lanes::Unit => code.add(self.first, row),
            Lanes::Strided(strides) => {
                let row = code.add(self.first, row);
                let places = unravel(code, row, &self.plan.tile.rows);
                places.into_iter().zip(strides).fold(index(0), |sum, (i, stride)| {
                    let by = code.mul(i, index(*stride));
                    code.add(sum, by)
                })
            }
        }
    }

    fn read(&self, code: &mut Code, view: &View, at: &[Val], row: Val) -> Val {
        let (list, place) = self.place(code, view, at, row);
        code.load(list, place)
    }

    fn write(&self, code: &mut Code, view: &View, at: &[Val], row: Val, value: Val) {
        let (list, place) = self.place(code, view, at, row);
        code.store(list, place, value);
    }

    fn copy(&self, code: &mut Code, copy: &Copy) {
        self.entries(code, &copy.dims, |code, at, row| {
            let value = self.read(code, &copy.from, at, row);
            self.write(code, &copy.to, at, row, value);
        });
    }

    /// The registers of an entry that the stores need.
    fn registers(&self, code: &mut Code, map: &MapPhase, at: &[Val], row: Val) -> Vec<Option<Val>> {
        let stores: Vec<&Store> = map.sets.iter().chain(&map.folds).collect();
        let needed = needed(&map.code, &stores);
        let mut values: Vec<Option<Val>> = Vec::new();
        for (instr, needed) in map.code.iter().zip(needed) {
            if !needed {
                values.push(None);
                continue;
            }
            let of = |r: crate::kernel::Reg| values[r.0 as usize].expect("operands of what is needed are needed");
            values.push(Some(match *instr {
                Instr::Load(load) => self.read(code, &map.loads[load as usize], at, row),
                Instr::Const(x) => code.constant(x),
                Instr::Unary(op, a) => unary(code, op, of(a)),
                Instr::Binary(op, a, b) => binary(code, op, of(a), of(b)),
                Instr::MulAdd(a, b, c) => code.mul_add(of(a), of(b), of(c)),
                Instr::Select(c, a, b) => {
                    let cond = code.differ(of(c), number(0.0));
                    code.select(cond, of(a), of(b))
                }
            }));
        }
        values
    }

    fn map(&self, code: &mut Code, map: &MapPhase) {
        let kept: Vec<usize> = map.kept.iter().map(|d| map.dims[*d]).collect();
        let reduced: Vec<usize> = map.reduced.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.each;
        if results == 0 {
            return;
        }
        let value = |values: &[Option<Val>], store: &Store| values[store.value.0 as usize].expect("a store's value is needed");
        if map.folds.is_empty() {
            return self.entries(code, &map.dims, |code, at, row| {
                let values = self.registers(code, map, at, row);
                map.sets.iter().for_each(|store| self.write(code, &store.to, at, row, value(&values, store)));
            });
        }
        code.items(results * map.split, |code, item| {
            let (result, part) = match map.split {
                1 => (item, index(0)),
                _ => (code.rem(item, index(results)), code.div(item, index(results))),
            };
            let (entry, row) = self.row_of(code, result);
            self.on_row(code, row, |code| {
                let outer = unravel(code, entry, &kept);
                let mut at = vec![index(0); map.dims.len()];
                map.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = i);
                let start = |mode: Mode| if mode == Mode::Max { f32::NEG_INFINITY } else { 0.0 };
                let sums = map.folds.iter().map(|fold| {
                    let start = code.constant(start(fold.mode));
                    code.var(start)
                });
                let sums: Vec<_> = sums.collect();
                code.range(part, index(map.length()), map.split, |code, i| {
                    let inner = unravel(code, i, &reduced);
                    let mut at = at.clone();
                    map.reduced.iter().zip(inner).for_each(|(d, i)| at[*d] = i);
                    let values = self.registers(code, map, &at, row);
                    for (fold, sum) in map.folds.iter().zip(&sums) {
                        let so_far = code.get(*sum);
                        let next = folded(code, fold.mode, so_far, value(&values, fold));
                        code.set(*sum, next);
                    }
                    map.sets.iter().for_each(|store| self.write(code, &store.to, &at, row, value(&values, store)));
                });
                for (s, (fold, sum)) in map.folds.iter().zip(&sums).enumerate() {
                    let sum = code.get(*sum);
                    if map.split == 1 {
                        self.write(code, &fold.to, &at, row, sum);
                    } else {
                        // Of one part after the other, all results: where the item is.
                        let place = code.add(item, index(self.plan.locals() + s * map.split * results));
                        let shared = code.shared();
                        code.store(shared, place, sum);
                    }
                }
            });
        });
    }

    fn map_sum(&self, code: &mut Code, map: &MapPhase) {
        let kept: Vec<usize> = map.kept.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.each;
        code.items(results, |code, item| {
            let (entry, row) = self.row_of(code, item);
            self.on_row(code, row, |code| {
                let outer = unravel(code, entry, &kept);
                let mut at = vec![index(0); map.dims.len()];
                map.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = i);
                for (s, fold) in map.folds.iter().enumerate() {
                    let first = self.plan.locals() + s * map.split * results;
                    let sum = self.partial_sums(code, fold.mode, item, first, map.split, results);
                    self.write(code, &fold.to, &at, row, sum);
                }
            });
        });
    }

    /// Parts of a result, in order; each is `apart` from the next.
    fn partial_sums(&self, code: &mut Code, mode: Mode, item: Val, first: usize, parts: usize, apart: usize) -> Val {
        let shared = code.shared();
        let place = code.add(item, index(first));
        let start = code.load(shared, place);
        let sum = code.var(start);
        code.range(index(1), index(parts), 1, |code, part| {
            let by = code.mul(part, index(apart));
            let place = code.add(by, place);
            let next = code.load(shared, place);
            let so_far = code.get(sum);
            let next = folded(code, mode, so_far, next);
            code.set(sum, next);
        });
        code.get(sum)
    }

    fn gemm(&self, code: &mut Code, phase: &GemmPhase) {
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
            let step = gemm.src.strides.last().copied().unwrap_or(0);
            let step = if matches!(gemm.src.base, Base::Local(_)) { step * self.each } else { step };

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
            code.range(from, to, 1, |code, k| {
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
            });

            let first_n = code.mul(place, index(4));
            let by_panel = code.mul(panel, index(weight.panel));
            let n = code.add(first_n, by_panel);
            for ((m, entry, row), sum) in rows.into_iter().zip(sums) {
                let four = code.get(sum);
                self.on_block_row(code, phase, m, row, |code| {
                    let m_at = unravel(code, entry, &gemm.m);
                    for c in 0..4 {
                        let x = code.part(four, c);
                        let n = code.add(n, index(c));
                        let in_place = code.add(first_n, index(c));
                        let put = |code: &mut Code| match phase.split {
                            1 => self.finish(code, phase, &batch, &m_at, n, row, x),
                            _ => {
                                let at = code.mul(part, index(phase.batch()));
                                let at = code.add(at, b);
                                let at = code.mul(at, index(phase.m));
                                let at = code.add(at, m);
                                let at = code.mul(at, index(gemm.n));
                                let at = code.add(at, n);
                                let at = code.add(at, index(self.plan.locals()));
                                let shared = code.shared();
                                code.store(shared, at, x);
                            }
                        };
                        // Panels that are not full end before the four do.
                        if weight.panels() > 1 && !weight.panel.is_multiple_of(4) {
                            let inside = code.less(in_place, index(weight.panel));
                            let there = code.less(n, index(gemm.n));
                            let both = code.and(inside, there);
                            code.when(both, put);
                        } else if gemm.n.is_multiple_of(4) {
                            put(code);
                        } else {
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

    #[expect(clippy::too_many_arguments, reason = "an entry of a product, by all its indices")]
    fn finish(&self, code: &mut Code, phase: &GemmPhase, batch: &[Val], m: &[Val], n: Val, row: Val, sum: Val) {
        let gemm = &phase.gemm;
        let mut sum = sum;
        if let Some(bias) = &gemm.bias {
            let bias = self.read(code, bias, &[batch, &[n]].concat(), row);
            sum = code.add(sum, bias);
        }
        let (list, place) = self.place(code, &gemm.dst, &[batch, m, &[n]].concat(), row);
        if gemm.accumulate {
            let before = code.load(list, place);
            sum = code.add(before, sum);
        }
        code.store(list, place, sum);
    }

    fn gemm_sum(&self, code: &mut Code, phase: &GemmPhase) {
        let gemm = &phase.gemm;
        code.items(phase.results(), |code, item| {
            let places = unravel(code, item, &[phase.batch(), phase.m, gemm.n]);
            let [b, m, n] = places[..] else { unreachable!("as many places as sizes") };
            let (entry, row) = self.row_of(code, m);
            self.on_row(code, row, |code| {
                let sum = self.partial_sums(code, Mode::Sum, item, self.plan.locals(), phase.split, phase.results());
                let batch = unravel(code, b, &gemm.batch);
                let m = unravel(code, entry, &gemm.m);
                self.finish(code, phase, &batch, &m, n, row, sum);
            });
        });
    }

    /// Every entry finds its own place: as many as come before it.
    fn sort(&self, code: &mut Code, sort: &Sort) {
        let dims = [&sort.dims[..], &[sort.n]].concat();
        self.entries(code, &dims, |code, at, row| {
            let (mine, around) = at.split_last().expect("the sorted dimension");
            let value = self.read(code, &sort.from, at, row);
            let before = code.var(index(0));
            code.range(index(0), index(sort.n), 1, |code, i| {
                let other = self.read(code, &sort.from, &[around, &[i]].concat(), row);
                let smaller = precedes(code, other, value);
                let larger = precedes(code, value, other);
                let same = code.not(larger);
                let earlier = code.less(i, *mine);
                let tie = code.and(same, earlier);
                let comes = code.or(smaller, tie);
                let one = code.select(comes, index(1), index(0));
                let so_far = code.get(before);
                let next = code.add(so_far, one);
                code.set(before, next);
            });
            let place = code.get(before);
            let mine = code.to_number(*mine);
            self.write(code, &sort.to, &[around, &[place]].concat(), row, mine);
        });
    }

    /// An entry's place along an axis, as the number says.
    fn along(&self, code: &mut Code, x: Val, view: &View, size: usize, stride: usize) -> Val {
        let zero = number(0.0);
        let x = code.max(x, zero);
        let place = code.to_index(x);
        let place = code.min(place, index(size.saturating_sub(1)));
        let stride = if matches!(view.base, Base::Local(_)) { stride * self.each } else { stride };
        code.mul(place, index(stride))
    }

    fn gather(&self, code: &mut Code, gather: &Gather) {
        self.entries(code, &gather.dims, |code, at, row| {
            let x = self.read(code, &gather.at, at, row);
            let further = self.along(code, x, &gather.from, gather.size, gather.stride);
            let (list, place) = self.place(code, &gather.from, at, row);
            let place = code.add(place, further);
            let value = code.load(list, place);
            self.write(code, &gather.to, at, row, value);
        });
    }

    fn scatter(&self, code: &mut Code, phase: &ScatterPhase) {
        let scatter = &phase.scatter;
        let sizes = |of: &[usize]| of.iter().map(|d| scatter.dims[*d]).collect::<Vec<_>>();
        let (kept, serial) = (sizes(&phase.kept), sizes(&phase.serial));
        self.entries(code, &kept, |code, outer, row| {
            code.range(index(0), index(serial.iter().product()), 1, |code, i| {
                let mut at = vec![index(0); scatter.dims.len()];
                phase.kept.iter().zip(outer).for_each(|(d, i)| at[*d] = *i);
                let inner = unravel(code, i, &serial);
                phase.serial.iter().zip(inner).for_each(|(d, i)| at[*d] = i);
                let x = self.read(code, &scatter.at, &at, row);
                let further = self.along(code, x, &scatter.to, scatter.size, scatter.stride);
                let value = self.read(code, &scatter.from, &at, row);
                let (list, place) = self.place(code, &scatter.to, &at, row);
                let place = code.add(place, further);
                let before = code.load(list, place);
                let sum = code.add(before, value);
                code.store(list, place, sum);
            });
        });
    }
}

/// The arena that a buffer is in, and where it starts.
pub(super) fn start(code: &mut Code, buffers: &Buffers, id: BufferId) -> (List, Val) {
    let place = buffers.places[id.0 as usize];
    let start = match (buffers.swapped[id.0 as usize], code.start(id)) {
        (true, _) => code.scalar(Scalar::Offset(id)),
        (false, Some(start)) => start,
        (false, None) => index(place.offset),
    };
    (code.arena(place.arena), start)
}

/// The index along each dimension of what is at `flat` of all, the last dimension moving fastest.
pub(super) fn unravel(code: &mut Code, flat: Val, dims: &[usize]) -> Vec<Val> {
    let mut left = flat;
    let mut at = vec![index(0); dims.len()];
    for d in (0..dims.len()).rev() {
        // Nothing is left over for dimensions of one entry.
        if dims[..d].iter().all(|size| *size == 1) {
            at[d] = if dims[d] == 1 { index(0) } else { left };
            break;
        }
        at[d] = code.rem(left, index(dims[d]));
        left = code.div(left, index(dims[d]));
    }
    at
}

fn folded(code: &mut Code, mode: Mode, so_far: Val, x: Val) -> Val {
    match mode {
        Mode::Max => larger(code, so_far, x),
        Mode::Sum | Mode::Set => code.add(so_far, x),
    }
}

/// The larger of two, NaN if one is.
fn larger(code: &mut Code, a: Val, b: Val) -> Val {
    let less = code.less(a, b);
    let nan = code.is_nan(b);
    let takes = code.or(less, nan);
    let nan = code.is_nan(a);
    let stays = code.not(nan);
    let takes = code.and(takes, stays);
    code.select(takes, b, a)
}

/// Ascending, NaN last.
fn precedes(code: &mut Code, a: Val, b: Val) -> Val {
    let less = code.less(a, b);
    let (a_nan, b_nan) = (code.is_nan(a), code.is_nan(b));
    let a_number = code.not(a_nan);
    let last = code.and(b_nan, a_number);
    code.or(less, last)
}

fn unary(code: &mut Code, op: Unary, x: Val) -> Val {
    match op {
        Unary::Neg => code.fun(Fun::Neg, x),
        Unary::Exp => code.fun(Fun::Exp, x),
        Unary::Log => code.fun(Fun::Log, x),
        Unary::Sin => code.fun(Fun::Sin, x),
        Unary::Sqrt => code.fun(Fun::Sqrt, x),
        Unary::Recip => code.fun(Fun::Recip, x),
        Unary::Floor => code.fun(Fun::Floor, x),
        Unary::Tanh => code.fun(Fun::Tanh, x),
        Unary::Abs => code.fun(Fun::Abs, x),
        Unary::Sigmoid => sigmoid(code, x),
        Unary::Silu => {
            let s = sigmoid(code, x);
            code.mul(x, s)
        }
        // max(x, 0) + log(1 + exp(-|x|))
        Unary::Softplus => {
            let a = code.fun(Fun::Abs, x);
            let n = code.fun(Fun::Neg, a);
            let e = code.fun(Fun::Exp, n);
            let l = code.fun(Fun::Log1p, e);
            let m = code.max(x, number(0.0));
            code.add(m, l)
        }
        Unary::Sign => {
            let above = code.less(number(0.0), x);
            let below = code.less(x, number(0.0));
            let rest = code.select(below, number(-1.0), number(0.0));
            code.select(above, number(1.0), rest)
        }
    }
}

fn sigmoid(code: &mut Code, x: Val) -> Val {
    let n = code.fun(Fun::Neg, x);
    let e = code.fun(Fun::Exp, n);
    let d = code.add(number(1.0), e);
    code.fun(Fun::Recip, d)
}

fn binary(code: &mut Code, op: Binary, a: Val, b: Val) -> Val {
    match op {
        Binary::Add => code.add(a, b),
        Binary::Sub => code.sub(a, b),
        Binary::Mul => code.mul(a, b),
        Binary::Max => larger(code, a, b),
        Binary::Less => {
            let less = code.less(a, b);
            code.select(less, number(1.0), number(0.0))
        }
    }
}
