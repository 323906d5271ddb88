//! Where the units of a cube wait for each other.
//!
//! The phases are gone through as they will run, number by number: which unit reads and which writes it since all waited
//! for each other last. A phase that touches what another unit wrote, or writes what another unit read, needs a barrier
//! before it; no other does. Loops are gone through until what happens in a round repeats.
//!
//! All cubes do the same with their rows, so one is looked at, with all the rows that it can have.

use std::collections::{BTreeMap, BTreeSet};

use crate::kernel::{Base, BufferId, Lanes, LoopId, Stmt, Tile, View};

use super::phase::{GemmPhase, MapPhase, Phase, ScatterPhase, needed};
use super::plan::{Around, Home, Layout};

/// Phases in order, with the places of barriers.
#[derive(Debug, Clone)]
pub(super) enum Node {
    Phase { phase: Phase, waits: bool },
    Loop { id: LoopId, count: usize, reverse: bool, body: Vec<Node> },
}

/// A number's place: in shared memory, in what the cube has of the workspace, in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    Shared,
    /// Partial sums, behind the locals.
    Scratch,
    Spilled,
    Buffer(BufferId),
}

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
    let rows = layout.rows_per_cube.min(tile.row_count());
    let mut written = BTreeSet::new();
    super::plan::each_stmt(&tile.body, &mut |stmt: &Stmt| {
        written.extend(stmt.accesses().iter().filter(|a| a.role.writes()).filter_map(|a| a.buffer()));
    });
    // Loops of the host stand at their first step, and at their second in another run.
    let starts: &[usize] = if around.values().any(|count| *count > 1) { &[0, 1] } else { &[0] };
    for start in starts {
        let rounds = around.iter().map(|(id, count)| (*id, (*start).min(count.saturating_sub(1)))).collect();
        let (tile_rows, homes) = (&tile.rows, &layout.homes);
        let mut walk = Walk {
            tile_rows,
            homes,
            rows,
            per_cube: layout.rows_per_cube,
            units,
            written: &written,
            rounds,
            now: 1,
            touched: BTreeMap::new(),
        };
        walk.nodes(nodes);
    }
}

struct Walk<'a> {
    tile_rows: &'a [usize],
    homes: &'a [Home],
    rows: usize,
    per_cube: usize,
    units: usize,
    written: &'a BTreeSet<BufferId>,
    rounds: BTreeMap<LoopId, usize>,
    /// Barriers so far.
    now: u32,
    touched: BTreeMap<Space, Vec<Touched>>,
}

/// Rounds of a loop that are looked at where each has a barrier: what a round leaves to the next but one is behind it.
const ROUNDS: usize = 3;

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
                }
                Node::Loop { id, count, reverse, body } => {
                    let mut round = 0;
                    while round < *count {
                        let before = self.now;
                        self.rounds.insert(*id, if *reverse { *count - 1 - round } else { round });
                        self.nodes(body);
                        round += 1;
                        if round >= ROUNDS && self.now > before {
                            break;
                        }
                    }
                    self.rounds.remove(id);
                }
            }
        }
    }

    /// Notes what a phase touches; false if it may not run yet.
    fn phase(&mut self, phase: &Phase) -> bool {
        let mut touches = Vec::new();
        self.touches(phase, &mut |who, space, word, writes| touches.push((who, space, word, writes)));
        let now = self.now;
        let current = |list: &[Touched], word: usize| match list.get(word) {
            Some(t) if t.since == now => *t,
            _ => Touched { since: now, writer: NOBODY, reader: NOBODY },
        };
        let other = |before: Who, who: Who| before != NOBODY && (before != who || who == SEVERAL);
        // What the phase does itself is no reason to wait: its units keep apart.
        for (who, space, word, writes) in &touches {
            let Some(list) = self.touched.get(space) else { continue };
            let was = current(list, *word);
            if other(was.writer, *who) || (*writes && other(was.reader, *who)) {
                return false;
            }
        }
        for (who, space, word, writes) in touches {
            let list = self.touched.entry(space).or_default();
            if list.len() <= word {
                list.resize(word + 1, Touched { since: 0, writer: NOBODY, reader: NOBODY });
            }
            let mut is = current(list, word);
            let by = if writes { &mut is.writer } else { &mut is.reader };
            *by = if *by == NOBODY || *by == who { who } else { SEVERAL };
            list[word] = is;
        }
        true
    }

    fn unit(&self, item: usize) -> Who {
        (item % self.units) as Who
    }

    /// Where an entry of a view is for the first row, and how rows go on from there; none where nothing can meet.
    fn place(&self, view: &View, index: &[usize]) -> Option<(Space, usize)> {
        let dims: usize = view.strides.iter().zip(index).map(|(stride, i)| stride * i).sum();
        let loops: usize = view.loops.iter().map(|(id, stride)| stride * self.rounds.get(id).copied().unwrap_or(0)).sum();
        let at = view.offset + dims + loops;
        match view.base {
            Base::Local(id) => match self.homes[id.0 as usize] {
                Home::Shared(home) => Some((Space::Shared, (home + at) * self.per_cube)),
                Home::Spilled(home) => Some((Space::Spilled, (home + at) * self.per_cube)),
            },
            Base::Buffer(id) => self.written.contains(&id).then_some((Space::Buffer(id), at)),
        }
    }

    fn row(&self, view: &View, row: usize) -> usize {
        match &view.lanes {
            Lanes::Unit => row,
            Lanes::Splat => 0,
            Lanes::Strided(strides) => {
                let axes = self.tile_rows.iter().zip(strides).rev();
                axes.fold((0, row), |(at, left), (size, stride)| (at + left % size * stride, left / size)).0
            }
        }
    }

    fn touch(&self, who: Who, view: &View, index: &[usize], row: usize, writes: bool, f: &mut Touch<'_>) {
        if let Some((space, at)) = self.place(view, index) {
            f(who, space, at + self.row(view, row), writes);
        }
    }

    fn touches(&self, phase: &Phase, f: &mut Touch<'_>) {
        match phase {
            Phase::Map(map) => self.map(map, f),
            Phase::MapSum(map) => {
                let results = map.results() * self.per_cube;
                each(&kept(map), &mut |out, index| {
                    let full = full(map, index);
                    for row in 0..self.rows {
                        let item = out * self.per_cube + row;
                        for (s, store) in map.folds.iter().enumerate() {
                            for part in 0..map.split {
                                f(self.unit(item), Space::Scratch, (s * map.split + part) * results + item, false);
                            }
                            self.touch(self.unit(item), &store.to, &full, row, true, f);
                        }
                    }
                });
            }
            Phase::Gemm(gemm) => self.gemm(gemm, f),
            Phase::GemmSum(gemm) => self.gemm_sum(gemm, f),
            Phase::Copy(copy) => self.entries(&copy.dims, f, |who, index, row, f| {
                self.touch(who, &copy.from, index, row, false, f);
                self.touch(who, &copy.to, index, row, true, f);
            }),
            Phase::Sort(sort) => {
                let dims = [&sort.dims[..], &[sort.n]].concat();
                each(&dims, &mut |_, index| {
                    for row in 0..self.rows {
                        self.touch(SEVERAL, &sort.from, index, row, false, f);
                        self.touch(SEVERAL, &sort.to, index, row, true, f);
                    }
                });
            }
            Phase::Gather(gather) => self.entries(&gather.dims, f, |who, index, row, f| {
                self.touch(who, &gather.at, index, row, false, f);
                self.axis(who, &gather.from, index, (gather.size, gather.stride), row, &[false], f);
                self.touch(who, &gather.to, index, row, true, f);
            }),
            Phase::Scatter(scatter) => self.scatter(scatter, f),
        }
    }

    /// Places that a number decides: all that it might be.
    #[expect(clippy::too_many_arguments, reason = "an operand and who touches it how")]
    fn axis(
        &self,
        who: Who,
        view: &View,
        index: &[usize],
        (size, stride): (usize, usize),
        row: usize,
        how: &[bool],
        f: &mut Touch<'_>,
    ) {
        let Some((space, at)) = self.place(view, index) else { return };
        let step = if matches!(view.base, Base::Local(_)) { stride * self.per_cube } else { stride };
        for place in 0..size {
            how.iter().for_each(|writes| f(who, space, at + place * step + self.row(view, row), *writes));
        }
    }

    fn entries(&self, dims: &[usize], f: &mut Touch<'_>, mut touch: impl FnMut(Who, &[usize], usize, &mut Touch<'_>)) {
        each(dims, &mut |entry, index| {
            for row in 0..self.rows {
                touch(self.unit(entry * self.per_cube + row), index, row, f);
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
                crate::kernel::Instr::Load(load) if needed => Some(*load),
                _ => None,
            })
            .collect();
        let reduced: Vec<usize> = map.reduced.iter().map(|d| map.dims[*d]).collect();
        let results = map.results() * self.per_cube;
        each(&kept(map), &mut |out, outer| {
            let mut full = full(map, outer);
            each(&reduced, &mut |entry, inner| {
                map.reduced.iter().zip(inner).for_each(|(d, i)| full[*d] = *i);
                for row in 0..self.rows {
                    let who = self.unit(out * self.per_cube + row + entry % map.split * results);
                    loads.iter().for_each(|load| self.touch(who, &map.loads[*load as usize], &full, row, false, f));
                    map.sets.iter().for_each(|store| self.touch(who, &store.to, &full, row, true, f));
                }
            });
            map.reduced.iter().for_each(|d| full[*d] = 0);
            for row in 0..self.rows {
                let item = out * self.per_cube + row;
                for (s, store) in map.folds.iter().enumerate() {
                    if map.split == 1 {
                        self.touch(self.unit(item), &store.to, &full, row, true, f);
                        continue;
                    }
                    for part in 0..map.split {
                        let word = (s * map.split + part) * results + item;
                        f(self.unit(part * results + item), Space::Scratch, word, true);
                    }
                }
            }
        });
    }

    fn gemm(&self, phase: &GemmPhase, f: &mut Touch<'_>) {
        let gemm = &phase.gemm;
        let (blocks, groups) = (phase.blocks(), phase.groups);
        let per_split = phase.batch() * blocks * groups;
        each(&gemm.batch, &mut |b, batch| {
            each(&gemm.m, &mut |m, index| {
                for row in 0..self.rows {
                    let block = (m * self.per_cube + row) / phase.block;
                    let first = (b * blocks + block) * groups;
                    for k in 0..gemm.k {
                        let part = k / phase.chunk();
                        let who = if groups > 1 { SEVERAL } else { self.unit(part * per_split + first) };
                        self.touch(who, &gemm.src, &[batch, index, &[k]].concat(), row, false, f);
                    }
                    for group in 0..groups {
                        let (n, count) = phase.outputs(group);
                        for n in n..n + count {
                            if phase.split == 1 {
                                let who = self.unit(first + group);
                                let at = [batch, index, &[n]].concat();
                                self.finish(who, phase, batch, &at, n, row, f);
                                continue;
                            }
                            for part in 0..phase.split {
                                let who = self.unit(part * per_split + first + group);
                                f(who, Space::Scratch, phase.partial(part, b, m * self.per_cube + row, n), true);
                            }
                        }
                    }
                }
            });
        });
    }

    fn gemm_sum(&self, phase: &GemmPhase, f: &mut Touch<'_>) {
        let gemm = &phase.gemm;
        each(&gemm.batch, &mut |b, batch| {
            each(&gemm.m, &mut |m, index| {
                for row in 0..self.rows {
                    for n in 0..gemm.n {
                        let item = phase.partial(0, b, m * self.per_cube + row, n);
                        let who = self.unit(item);
                        for part in 0..phase.split {
                            f(who, Space::Scratch, item + part * phase.results(), false);
                        }
                        self.finish(who, phase, batch, &[batch, index, &[n]].concat(), n, row, f);
                    }
                }
            });
        });
    }

    #[expect(clippy::too_many_arguments, reason = "an entry of a product, by all its indices")]
    fn finish(&self, who: Who, phase: &GemmPhase, batch: &[usize], at: &[usize], n: usize, row: usize, f: &mut Touch<'_>) {
        if let Some(bias) = &phase.gemm.bias {
            self.touch(who, bias, &[batch, &[n]].concat(), row, false, f);
        }
        if phase.gemm.accumulate {
            self.touch(who, &phase.gemm.dst, at, row, false, f);
        }
        self.touch(who, &phase.gemm.dst, at, row, true, f);
    }

    fn scatter(&self, phase: &ScatterPhase, f: &mut Touch<'_>) {
        let scatter = &phase.scatter;
        let sizes = |of: &[usize]| of.iter().map(|d| scatter.dims[*d]).collect::<Vec<_>>();
        each(&sizes(&phase.kept), &mut |out, outer| {
            let mut full = vec![0; scatter.dims.len()];
            phase.kept.iter().zip(outer).for_each(|(d, i)| full[*d] = *i);
            each(&sizes(&phase.serial), &mut |_, inner| {
                phase.serial.iter().zip(inner).for_each(|(d, i)| full[*d] = *i);
                for row in 0..self.rows {
                    let who = self.unit(out * self.per_cube + row);
                    self.touch(who, &scatter.from, &full, row, false, f);
                    self.touch(who, &scatter.at, &full, row, false, f);
                    self.axis(who, &scatter.to, &full, (scatter.size, scatter.stride), row, &[false, true], f);
                }
            });
        });
    }
}

type Touch<'a> = dyn FnMut(Who, Space, usize, bool) + 'a;

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
