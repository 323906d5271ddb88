//! Where the units of a cube wait for each other.
//!
//! The phases are gone through as they will run, number by number: which unit reads and which writes it since all waited
//! for each other last. A phase that touches what another unit wrote, or writes what another unit read, needs a barrier
//! before it; no other does. Loops are gone through until what happens in a round repeats.
//!
//! All cubes do the same with their rows, so one is looked at, with all the rows that it can have.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::{Base, BufferId, Gemm, Instr, Lanes, LoopId, Stmt, Tile, View};

use super::phase::{GemmPhase, MapPhase, Phase, ScatterPhase, needed};
use super::plan::{Around, Home, Layout};
use super::tensor::TensorPhase;

/// Phases in order, with the places of barriers.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are phases")]
pub(super) enum Node {
    Phase { phase: Phase, waits: bool },
    Loop { id: LoopId, count: usize, reverse: bool, body: Vec<Node> },
}

/// Where numbers are: shared memory, partial sums behind the locals, what the cube has of the workspace; from `BUFFERS` on,
/// the buffers that the kernel writes.
type Space = usize;
const SHARED: Space = 0;
const SCRATCH: Space = 1;
const SPILLED: Space = 2;
const BUFFERS: Space = 3;

/// Who touched a number: nobody, one unit, or several.
type Who = u16;
const NOBODY: Who = u16::MAX;
const SEVERAL: Who = u16::MAX - 1;

#[derive(Debug, Clone, Copy)]
struct Touched {
    /// What is written here counts since this barrier.
    since: u32,
    writer: Who,
    reader: Who,
}

/// Sets `waits` of the phases that need a barrier before them.
pub(super) fn place(nodes: &mut [Node], tile: &Tile, layout: &Layout, units: usize, around: &Around) {
    let mut written = BTreeSet::new();
    tile.each_stmt(&mut |stmt: &Stmt| {
        written.extend(stmt.accesses().iter().filter(|a| a.role.writes()).filter_map(|a| a.buffer()));
    });
    // Loops of the host stand at their first step, and at their second in another run.
    let starts: &[usize] = if around.values().any(|count| *count > 1) { &[0, 1] } else { &[0] };
    for start in starts {
        let mut walk = Walk {
            tile,
            homes: &layout.homes,
            rows: layout.rows_per_cube.min(tile.row_count()),
            per_cube: layout.rows_per_cube,
            units,
            written: written.iter().copied().collect(),
            rounds: around.iter().map(|(id, count)| (*id, (*start).min(count.saturating_sub(1)))).collect(),
            now: 1,
            touched: vec![Vec::new(); BUFFERS + written.len()],
            touches: Vec::new(),
        };
        walk.nodes(nodes);
    }
}

struct Walk<'a> {
    tile: &'a Tile,
    homes: &'a [Home],
    rows: usize,
    per_cube: usize,
    units: usize,
    written: Vec<BufferId>,
    rounds: BTreeMap<LoopId, usize>,
    /// Barriers so far.
    now: u32,
    touched: Vec<Vec<Touched>>,
    /// Those of the phase that is looked at; millions, so that the memory is kept from phase to phase.
    touches: Vec<Access>,
}

/// A number that is touched, in few bytes; an arena is indexed with 32 bits.
#[derive(Debug, Clone, Copy)]
struct Access {
    word: u32,
    space: u32,
    who: Who,
    writes: bool,
}

impl Access {
    fn new(who: Who, space: Space, word: usize, writes: bool) -> Access {
        Access { word: word as u32, space: space as u32, who, writes }
    }
}

/// Rounds of a loop that are looked at, and then its last, where each has a barrier: what a round leaves to the next but one is
/// behind it, and all rounds are alike.
const ROUNDS: usize = 2;

/// Who touches which number of a space, and whether it is written.
type Touch<'a> = dyn FnMut(Who, Space, usize, bool) + 'a;

/// An operand at the step where the loops are.
struct Spot<'v> {
    space: Space,
    first: usize,
    strides: &'v [usize],
    /// Numbers for one of a stride.
    scale: usize,
    lanes: &'v Lanes,
}

/// Who touched a number since all waited for each other last.
fn current(list: &[Touched], word: usize, now: u32) -> Touched {
    match list.get(word) {
        Some(t) if t.since == now => *t,
        _ => Touched { since: now, writer: NOBODY, reader: NOBODY },
    }
}

impl Spot<'_> {
    fn at(&self, index: &[usize]) -> usize {
        self.first + self.scale * self.strides.iter().zip(index).map(|(stride, i)| stride * i).sum::<usize>()
    }
}

impl Walk<'_> {
    fn nodes(&mut self, nodes: &mut [Node]) {
        for node in nodes {
            match node {
                Node::Phase { phase, waits } => {
                    if *waits {
                        self.now += 1;
                    }
                    if !self.phase(phase) {
                        *waits = true;
                        self.now += 1;
                        self.phase(phase);
                    }
                    if let Phase::Tensor(tensor) = phase {
                        self.behind(tensor);
                    }
                }
                Node::Loop { id, count, reverse, body } => {
                    let mut round = 0;
                    while round < *count {
                        let before = self.now;
                        self.rounds.insert(*id, if *reverse { *count - 1 - round } else { round });
                        self.nodes(body);
                        round += 1;
                        if round == ROUNDS && self.now > before && round < *count {
                            // On to the last, for what comes after the loop; nothing is left of the one before it.
                            round = *count - 1;
                            self.now += 1;
                        }
                    }
                    self.rounds.remove(id);
                }
            }
        }
    }

    /// Notes what a phase touches; false if it may not run yet.
    fn phase(&mut self, phase: &Phase) -> bool {
        let now = self.now;
        let other = |before: Who, who: Who| before != NOBODY && (before != who || who == SEVERAL);
        // What the phase does itself is no reason to wait: its units keep apart. So it is noted when all has been asked.
        let mut free = true;
        let mut touches = std::mem::take(&mut self.touches);
        touches.clear();
        self.touches(phase, &mut |who, space, word, writes| {
            if free {
                let was = current(&self.touched[space], word, now);
                free = !(other(was.writer, who) || writes && other(was.reader, who));
                touches.push(Access::new(who, space, word, writes));
            }
        });
        if free {
            self.note(&touches);
        }
        self.touches = touches;
        free
    }

    fn note(&mut self, touches: &[Access]) {
        for Access { who, space, word, writes } in touches.iter().copied() {
            let (now, word) = (self.now, word as usize);
            let list = &mut self.touched[space as usize];
            if list.len() <= word {
                list.resize(word + 1, Touched { since: 0, writer: NOBODY, reader: NOBODY });
            }
            let mut is = current(list, word, now);
            let by = if writes { &mut is.writer } else { &mut is.reader };
            *by = if *by == NOBODY || *by == who { who } else { SEVERAL };
            list[word] = is;
        }
    }

    /// What a product on tensor cores does behind its last barrier but one.
    fn behind(&mut self, phase: &TensorPhase) {
        self.now += 1;
        if phase.ends_with_barrier() {
            return;
        }
        let gemm = &phase.gemm;
        let ends = self.ends(gemm);
        let mut touches = Vec::new();
        let f = &mut |who, space, word, writes| touches.push(Access::new(who, space, word, writes));
        each(&gemm.m, &mut |m, index| {
            for row in 0..self.rows {
                let mut at = [&vec![0; gemm.batch.len()], index, &[0]].concat();
                for n in 0..gemm.n {
                    let (item, word) = phase.finisher(m * self.per_cube + row, n);
                    f(self.unit(item), SCRATCH, word, false);
                    *at.last_mut().expect("the outputs' dimension") = n;
                    self.finish(self.unit(item), gemm, &ends, &at, row, f);
                }
            }
        });
        self.note(&touches);
    }

    fn unit(&self, item: usize) -> Who {
        (item % self.units) as Who
    }

    /// An operand; none where nothing can meet: a buffer that is only read.
    fn spot<'v>(&self, view: &'v View) -> Option<Spot<'v>> {
        let loops: usize = view.loops.iter().map(|(id, stride)| stride * self.rounds.get(id).copied().unwrap_or(0)).sum();
        let at = view.offset + loops;
        let (space, first, scale) = match view.base {
            Base::Local(id) => match self.homes[id.0 as usize] {
                Home::Shared(home) => (SHARED, (home + at) * self.per_cube, self.per_cube),
                Home::Spilled(home) => (SPILLED, (home + at) * self.per_cube, self.per_cube),
            },
            Base::Buffer(id) => (BUFFERS + self.written.binary_search(&id).ok()?, at, 1),
        };
        Some(Spot { space, first, strides: &view.strides, scale, lanes: &view.lanes })
    }

    fn touch(&self, who: Who, spot: Option<&Spot<'_>>, index: &[usize], row: usize, writes: bool, f: &mut Touch<'_>) {
        if let Some(spot) = spot {
            f(who, spot.space, spot.at(index) + spot.lanes.row(&self.tile.rows, row), writes);
        }
    }

    fn touches(&self, phase: &Phase, f: &mut Touch<'_>) {
        match phase {
            Phase::Map(map) => self.map(map, f),
            Phase::MapSum(map) => self.map_sum(map, f),
            Phase::Gemm(gemm) => self.gemm(gemm, f),
            Phase::GemmSum(gemm) => self.gemm_sum(gemm, f),
            Phase::Tensor(gemm) => self.tensor(gemm, f),
            Phase::Copy(copy) => {
                let [from, to] = [&copy.from, &copy.to].map(|view| self.spot(view));
                self.entries(&copy.dims, |who, index, row| {
                    self.touch(who, from.as_ref(), index, row, false, f);
                    self.touch(who, to.as_ref(), index, row, true, f);
                });
            }
            Phase::Sort(sort) => {
                let [from, to] = [&sort.from, &sort.to].map(|view| self.spot(view));
                self.entries(&[&sort.dims[..], &[sort.n]].concat(), |_, index, row| {
                    self.touch(SEVERAL, from.as_ref(), index, row, false, f);
                    self.touch(SEVERAL, to.as_ref(), index, row, true, f);
                });
            }
            Phase::Gather(gather) => {
                let [from, at, to] = [&gather.from, &gather.at, &gather.to].map(|view| self.spot(view));
                self.entries(&gather.dims, |who, index, row| {
                    self.touch(who, at.as_ref(), index, row, false, f);
                    self.along(who, from.as_ref(), index, (gather.size, gather.stride), row, &[false], f);
                    self.touch(who, to.as_ref(), index, row, true, f);
                });
            }
            Phase::Scatter(scatter) => self.scatter(scatter, f),
        }
    }

    /// Places that a number decides: all that it might be.
    #[expect(clippy::too_many_arguments, reason = "an operand and who touches it how")]
    fn along(
        &self,
        who: Who,
        spot: Option<&Spot<'_>>,
        index: &[usize],
        (size, stride): (usize, usize),
        row: usize,
        how: &[bool],
        f: &mut Touch<'_>,
    ) {
        let Some(spot) = spot else { return };
        let first = spot.at(index) + spot.lanes.row(&self.tile.rows, row);
        for place in 0..size {
            how.iter().for_each(|writes| f(who, spot.space, first + place * stride * spot.scale, *writes));
        }
    }

    fn entries(&self, dims: &[usize], mut touch: impl FnMut(Who, &[usize], usize)) {
        each(dims, &mut |entry, index| {
            for row in 0..self.rows {
                touch(self.unit(entry * self.per_cube + row), index, row);
            }
        });
    }

    fn map(&self, map: &MapPhase, f: &mut Touch<'_>) {
        let stores: Vec<_> = map.sets.iter().chain(&map.folds).collect();
        let needed = needed(&map.code, &stores);
        let loads: BTreeSet<u32> = map
            .code
            .iter()
            .zip(needed)
            .filter_map(|(instr, needed)| match instr {
                Instr::Load(load) if needed => Some(*load),
                _ => None,
            })
            .collect();
        let loads: Vec<_> = loads.iter().filter_map(|load| self.spot(&map.loads[*load as usize])).collect();
        let sets: Vec<_> = map.sets.iter().filter_map(|store| self.spot(&store.to)).collect();
        let folds: Vec<_> = map.folds.iter().map(|store| self.spot(&store.to)).collect();
        let reduced: Vec<usize> = map.reduced.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.per_cube;
        each(&kept(map), &mut |out, outer| {
            let mut full = full(map, outer);
            each(&reduced, &mut |entry, inner| {
                map.reduced.iter().zip(inner).for_each(|(d, i)| full[*d] = *i);
                for row in 0..self.rows {
                    let who = self.unit(map.item(out * self.per_cube + row, entry % map.split, results));
                    loads.iter().for_each(|load| self.touch(who, Some(load), &full, row, false, f));
                    sets.iter().for_each(|set| self.touch(who, Some(set), &full, row, true, f));
                }
            });
            map.reduced.iter().for_each(|d| full[*d] = 0);
            for row in 0..self.rows {
                let item = out * self.per_cube + row;
                for (s, fold) in folds.iter().enumerate() {
                    if map.split == 1 || map.in_plane {
                        self.touch(self.unit(map.item(item, 0, results)), fold.as_ref(), &full, row, true, f);
                        continue;
                    }
                    for part in 0..map.split {
                        let word = (s * map.split + part) * results + item;
                        f(self.unit(part * results + item), SCRATCH, word, true);
                    }
                }
            }
        });
    }

    fn map_sum(&self, map: &MapPhase, f: &mut Touch<'_>) {
        let results = map.results() * self.per_cube;
        let folds: Vec<_> = map.folds.iter().map(|store| self.spot(&store.to)).collect();
        each(&kept(map), &mut |out, index| {
            let full = full(map, index);
            for row in 0..self.rows {
                let item = out * self.per_cube + row;
                for (s, fold) in folds.iter().enumerate() {
                    for part in 0..map.split {
                        f(self.unit(item), SCRATCH, (s * map.split + part) * results + item, false);
                    }
                    self.touch(self.unit(item), fold.as_ref(), &full, row, true, f);
                }
            }
        });
    }

    fn gemm(&self, phase: &GemmPhase, f: &mut Touch<'_>) {
        let gemm = &phase.gemm;
        let (blocks, groups) = (phase.blocks(), phase.groups);
        let per_split = phase.batch() * blocks * groups;
        let src = self.spot(&gemm.src);
        let ends = self.ends(&phase.gemm);
        let mut at = vec![0; gemm.batch.len() + gemm.m.len() + 1];
        let last = at.len() - 1;
        each(&gemm.batch, &mut |b, batch| {
            at[..batch.len()].copy_from_slice(batch);
            each(&gemm.m, &mut |m, index| {
                at[batch.len()..last].copy_from_slice(index);
                for row in 0..self.rows {
                    let block = (m * self.per_cube + row) / phase.block;
                    let first = (b * blocks + block) * groups;
                    for k in 0..gemm.k {
                        let part = k / phase.chunk();
                        let who = if groups > 1 { SEVERAL } else { self.unit(part * per_split + first) };
                        at[last] = k;
                        self.touch(who, src.as_ref(), &at, row, false, f);
                    }
                    for group in 0..groups {
                        let (n, count) = phase.outputs(group);
                        for n in n..n + count {
                            at[last] = n;
                            if phase.split == 1 {
                                self.finish(self.unit(first + group), gemm, &ends, &at, row, f);
                                continue;
                            }
                            for part in 0..phase.split {
                                let who = self.unit(part * per_split + first + group);
                                f(who, SCRATCH, phase.partial(part, b, m * self.per_cube + row, n), true);
                            }
                        }
                    }
                }
            });
        });
    }

    fn gemm_sum(&self, phase: &GemmPhase, f: &mut Touch<'_>) {
        let gemm = &phase.gemm;
        let ends = self.ends(&phase.gemm);
        each(&gemm.batch, &mut |b, batch| {
            each(&gemm.m, &mut |m, index| {
                for row in 0..self.rows {
                    let mut at = [batch, index, &[0]].concat();
                    for n in 0..gemm.n {
                        let item = phase.partial(0, b, m * self.per_cube + row, n);
                        let who = self.unit(item);
                        for part in 0..phase.split {
                            f(who, SCRATCH, item + part * phase.results(), false);
                        }
                        *at.last_mut().expect("the outputs' dimension") = n;
                        self.finish(who, gemm, &ends, &at, row, f);
                    }
                }
            });
        });
    }

    /// What a product on tensor cores does before its first barrier: all read the rows, and write where partial sums may be.
    fn tensor(&self, phase: &TensorPhase, f: &mut Touch<'_>) {
        let gemm = &phase.gemm;
        let src = self.spot(&gemm.src);
        each(&[&gemm.batch[..], &gemm.m, &[gemm.k]].concat(), &mut |_, at| {
            (0..self.rows).for_each(|row| self.touch(SEVERAL, src.as_ref(), at, row, false, f));
        });
        (0..phase.buffers()).for_each(|word| f(SEVERAL, SCRATCH, word, true));
    }

    /// A product's bias and result.
    fn ends<'v>(&self, gemm: &'v Gemm) -> [Option<Spot<'v>>; 2] {
        [gemm.bias.as_ref().and_then(|bias| self.spot(bias)), self.spot(&gemm.dst)]
    }

    fn finish(&self, who: Who, gemm: &Gemm, [bias, dst]: &[Option<Spot<'_>>; 2], at: &[usize], row: usize, f: &mut Touch<'_>) {
        if bias.is_some() {
            let index = [&at[..gemm.batch.len()], &at[at.len() - 1..]].concat();
            self.touch(who, bias.as_ref(), &index, row, false, f);
        }
        if gemm.accumulate {
            self.touch(who, dst.as_ref(), at, row, false, f);
        }
        self.touch(who, dst.as_ref(), at, row, true, f);
    }

    fn scatter(&self, phase: &ScatterPhase, f: &mut Touch<'_>) {
        let scatter = &phase.scatter;
        let [from, places, to] = [&scatter.from, &scatter.at, &scatter.to].map(|view| self.spot(view));
        let sizes = |of: &[usize]| of.iter().map(|d| scatter.dims[*d]).collect::<Vec<_>>();
        each(&sizes(&phase.kept), &mut |out, outer| {
            let mut full = vec![0; scatter.dims.len()];
            phase.kept.iter().zip(outer).for_each(|(d, i)| full[*d] = *i);
            each(&sizes(&phase.serial), &mut |_, inner| {
                phase.serial.iter().zip(inner).for_each(|(d, i)| full[*d] = *i);
                for row in 0..self.rows {
                    let who = self.unit(out * self.per_cube + row);
                    self.touch(who, from.as_ref(), &full, row, false, f);
                    self.touch(who, places.as_ref(), &full, row, false, f);
                    self.along(who, to.as_ref(), &full, (scatter.size, scatter.stride), row, &[false, true], f);
                }
            });
        });
    }
}

fn kept(map: &MapPhase) -> Vec<usize> {
    map.kept.iter().map(|d| map.dims[*d]).collect()
}

/// The index over all dimensions, 0 where it is reduced.
fn full(map: &MapPhase, kept: &[usize]) -> Vec<usize> {
    let mut full = vec![0; map.dims.len()];
    map.kept.iter().zip(kept).for_each(|(d, i)| full[*d] = *i);
    full
}

/// All indices over dimensions, the last moving fastest, with their number.
fn each(dims: &[usize], f: &mut dyn FnMut(usize, &[usize])) {
    let count: usize = dims.iter().product();
    let mut index = vec![0; dims.len()];
    for i in 0..count {
        f(i, &index);
        for d in (0..dims.len()).rev() {
            index[d] += 1;
            if index[d] < dims[d] {
                break;
            }
            index[d] = 0;
        }
    }
}
