//! What is decided before any code is made, whatever the device's language: where buffers lie, how weights are packed, how
//! many rows a cube takes, which locals are on chip.

use std::collections::{BTreeMap, BTreeSet};

use super::super::lifetimes;
use super::emitted::{Arena, Numerics, Place, Precision, Sums};
use super::tensor;
use crate::kernel::{Base, BufferId, BufferKind, Gemm, LocalId, LoopId, PANEL, Pack, Program, Stmt, Tile, Work, packed_len};

/// What a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processors that run cubes at the same time.
    pub processors: usize,
    /// Bytes of shared memory that a cube may have.
    pub shared_bytes: usize,
    /// Units of a cube.
    pub units: u32,
    /// Cubes of a launch. They lie along the first axis, where CUDA takes more than along the others.
    pub cubes: usize,
    /// Neighbouring units that hand numbers to each other without shared memory (a warp); 1 where that is not known.
    pub plane: u32,
    /// How products are to be multiplied there.
    pub precision: Precision,
    /// How numbers of many rows are to be added up.
    pub sums: Sums,
}

impl Limits {
    /// The same, with what a user has chosen.
    pub fn with(self, Numerics { precision, sums }: Numerics) -> Limits {
        Limits { precision, sums, ..self }
    }

    pub fn numerics(&self) -> Numerics {
        Numerics { precision: self.precision, sums: self.sums }
    }

    /// What CUDA devices of a compute capability have; the number of processors is that of a common one.
    pub fn cuda(arch: u32) -> Limits {
        let (processors, kilobytes) = match arch {
            80 | 87 => (108, 163),
            86 | 89 | 120.. => (82, 99),
            90.. => (132, 227),
            _ => (40, 48),
        };
        let Numerics { precision, sums } = Numerics::default();
        Limits { processors, shared_bytes: kilobytes << 10, units: 256, cubes: i32::MAX as usize, plane: 32, precision, sums }
    }

    /// What every device of WebGPU's native implementations has; how wide its planes are, each says for itself.
    pub fn wgsl() -> Limits {
        let Numerics { precision, sums } = Numerics::default();
        Limits { processors: 32, shared_bytes: 32 << 10, units: 256, cubes: 65535, plane: 1, precision, sums }
    }
}

/// How a packed weight lies: panels of `panel` outputs, each with `pitch` numbers for an entry of the sum, so that four
/// outputs are read at a time: `[batch][panels][k][pitch]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Weight {
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) batch: usize,
    pub(super) panel: usize,
    pub(super) pitch: usize,
}

impl Weight {
    pub(super) fn panels(&self) -> usize {
        self.n.div_ceil(self.panel)
    }

    /// Numbers of one weight.
    pub(super) fn one(&self) -> usize {
        self.panels() * self.k * self.pitch
    }

    /// Where what is at `offset` in the program's packing is in this one: the starts of weights and panels.
    pub(super) fn place(&self, offset: usize) -> usize {
        match self.panel {
            PANEL if self.pitch != PANEL => offset / PANEL * self.pitch,
            _ => offset / packed_len(self.n, self.k).max(1) * self.one(),
        }
    }
}

/// Places of buffers, and packings.
#[derive(Debug, Clone)]
pub(super) struct Buffers {
    pub(super) places: Vec<Place>,
    /// Buffers that change places with others: kernels are told where they are.
    pub(super) swapped: Vec<bool>,
    pub(super) weights: BTreeMap<BufferId, Weight>,
    pub(super) arenas: [usize; 4],
}

/// What code depends on of a buffer, beside where it starts.
pub(super) type BufferHome = (Arena, Option<Weight>);

impl Buffers {
    pub(super) fn home(&self, id: BufferId) -> BufferHome {
        (self.places[id.0 as usize].arena, self.weights.get(&id).copied())
    }
}

/// Places are multiples of so many numbers: a line of the cache.
const LINE: usize = 32;

pub(super) fn buffers(program: &Program, resident: &[usize]) -> Buffers {
    let weights = weights(program);
    let group = lifetimes::swap_groups(program);
    let swapped: Vec<bool> = (0..group.len()).map(|b| group.iter().filter(|g| **g == group[b]).count() > 1).collect();
    let stays: BTreeSet<BufferId> = resident.iter().map(|i| program.inputs[*i]).collect();
    let mut drawn = BTreeSet::new();
    program.each_kernel(&mut |kernel| {
        if let Work::Random(random) = &kernel.work {
            drawn.insert(random.to);
        }
    });
    let own = |b: usize| match &program.buffers[b].kind {
        _ if weights.contains_key(&BufferId(b as u32)) => Arena::Weights,
        BufferKind::Input if stays.contains(&BufferId(b as u32)) => Arena::Parameters,
        BufferKind::Input | BufferKind::Output => Arena::Io,
        // A caller may give their numbers.
        BufferKind::Temp if drawn.contains(&BufferId(b as u32)) => Arena::Io,
        BufferKind::Kept | BufferKind::Const(_) => Arena::Parameters,
        BufferKind::Temp => Arena::Work,
    };
    // Buffers that are swapped are in one arena.
    let arenas: Vec<Arena> = (0..group.len())
        .map(|b| (0..group.len()).filter(|o| group[*o] == group[b]).map(own).max().unwrap_or(Arena::Work))
        .collect();
    let len = |b: usize| weights.get(&BufferId(b as u32)).map_or(program.buffers[b].len, |w| w.batch * w.one());
    let sizes = lifetimes::sizes(program, |b| len(b).next_multiple_of(LINE));
    let mut totals = [0; 4];
    let mut places: Vec<Place> = (0..group.len()).map(|b| Place { arena: arenas[b], offset: 0, len: len(b) }).collect();
    for (arena, total) in Arena::ALL.into_iter().zip(&mut totals) {
        let plan = match arena {
            // What the caller writes is there before anything runs.
            Arena::Io => lifetimes::side_by_side(&sizes, |b| arenas[b] == arena),
            _ => lifetimes::plan(program, &sizes, |b| arenas[b] == arena),
        };
        *total = plan.total;
        places.iter_mut().zip(&plan.offsets).filter(|(p, _)| p.arena == arena).for_each(|(p, at)| p.offset = *at);
    }
    Buffers { places, swapped, weights, arenas: totals }
}

/// Every packed buffer with its packing: whole rows of outputs where all products take whole weights, else panels as the
/// program has them.
fn weights(program: &Program) -> BTreeMap<BufferId, Weight> {
    let mut found: BTreeMap<BufferId, Weight> = BTreeMap::new();
    program.each_kernel(&mut |kernel| {
        if let Work::Pack(Pack { batch, n, k, to, .. }) = &kernel.work {
            let (k, batch) = (k.iter().product(), batch.iter().product());
            found.insert(*to, Weight { n: *n, k, batch, panel: (*n).max(1), pitch: n.next_multiple_of(4).max(4) });
        }
    });
    program.each_kernel(&mut |kernel| {
        let Work::Tile(tile) = &kernel.work else { return };
        tile.each_stmt(&mut |stmt| {
            let Stmt::Gemm(gemm) = stmt else { return };
            let Base::Buffer(id) = gemm.weight.base else { return };
            let Some(weight) = found.get_mut(&id) else { return };
            if !takes_whole(gemm, weight) {
                weight.panel = PANEL;
                weight.pitch = PANEL.next_multiple_of(4);
            }
        });
    });
    found
}

fn takes_whole(gemm: &Gemm, weight: &Weight) -> bool {
    let one = packed_len(weight.n, weight.k).max(1);
    let view = &gemm.weight;
    let moves = view.loops.iter().map(|(_, s)| *s).chain(view.strides.iter().copied()).chain([view.offset]);
    moves.into_iter().all(|at| at % one == 0)
}

/// Where a local is, in numbers for each row of the cube.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    Shared(usize),
    /// In the workspace, at its place among what the cube has there.
    Spilled(usize),
}

/// A tile's rows and locals.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) rows_per_cube: usize,
    pub(super) cubes: usize,
    pub(super) homes: Vec<Home>,
    /// Numbers a row, on chip and in the workspace.
    pub(super) shared: usize,
    pub(super) spilled: usize,
    pub(super) notes: Vec<String>,
}

/// Numbers of a cube's shared memory that are kept free for sums of several units.
pub(super) const SCRATCH: usize = 2048;

/// Those, and what tensor cores need besides.
fn scratch(limits: &Limits) -> usize {
    if limits.precision == Precision::F32 { SCRATCH } else { SCRATCH.max(tensor::room(limits.precision)) }
}

pub(super) fn layout(tile: &Tile, limits: &Limits) -> Layout {
    let rows = tile.row_count();
    let units = limits.units as usize;
    let room = (limits.shared_bytes / 4).saturating_sub(scratch(limits));
    let lives = lives(tile);
    let mut notes = Vec::new();
    // Entries of a row that units do at the same time.
    let mut entries = 1;
    tile.each_stmt(&mut |stmt| {
        let of = stmt.accesses().iter().map(|access| access.dims.iter().product::<usize>()).max();
        entries = entries.max(of.unwrap_or(1));
    });
    if tile.arena == 0 {
        // Nothing on chip: as many rows as keep the units busy, more where there are very many.
        let busy = (4 * units).div_ceil(entries).next_multiple_of(if entries == 1 { units } else { 1 });
        let rows_per_cube = busy.max(rows.div_ceil(1024)).min(rows.max(1));
        let homes = vec![Home::Shared(0); tile.locals.len()];
        return Layout { rows_per_cube, cubes: rows.div_ceil(rows_per_cube), homes, shared: 0, spilled: 0, notes };
    }
    // Rows with little in them are taken many at a time.
    let most = (2 * units).div_ceil(entries).max(if limits.precision == Precision::F32 { 8 } else { tensor::SIDE });
    let wanted = rows.div_ceil(limits.processors).clamp(1, most);
    let (homes, shared) = places(tile, &lives, |_| true);
    if shared <= room {
        let fits = (room / shared.max(1)).min(wanted).max(1);
        // Rows that are spread evenly leave no cube with less to do.
        let rows_per_cube = (1..=fits).rev().find(|r| rows.is_multiple_of(*r) && r * 2 > fits).unwrap_or(fits);
        return Layout { rows_per_cube, cubes: rows.div_ceil(rows_per_cube), homes, shared, spilled: 0, notes };
    }
    // What is used most for its size stays on chip.
    let mut order: Vec<usize> = (0..tile.locals.len()).filter(|l| lives[*l].is_some()).collect();
    let weight = |l: &usize| lives[*l].as_ref().map_or(0.0, |life| life.uses / tile.locals[*l].len.max(1) as f64);
    order.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then(a.cmp(b)));
    let mut kept: BTreeSet<usize> = BTreeSet::new();
    for l in order {
        kept.insert(l);
        if places(tile, &lives, |other| kept.contains(&other)).1 > room {
            kept.remove(&l);
        }
    }
    let (mut homes, shared_len) = places(tile, &lives, |l| kept.contains(&l));
    let (spilled_homes, spilled) = places(tile, &lives, |l| !kept.contains(&l));
    let mut count = 0;
    for (l, home) in homes.iter_mut().enumerate() {
        if !kept.contains(&l) && lives[l].is_some() {
            let Home::Shared(at) = spilled_homes[l] else { continue };
            *home = Home::Spilled(at);
            count += 1;
        }
    }
    notes.push(format!(
        "a row's locals take {} bytes, and a cube has {}: {count} of {} locals, {} bytes a row, are in the workspace",
        4 * shared,
        4 * room,
        tile.locals.len(),
        4 * spilled
    ));
    Layout { rows_per_cube: 1, cubes: rows, homes, shared: shared_len, spilled, notes }
}

/// When a local is used, statements counted as they stand, and how often, loops multiplied out.
#[derive(Debug, Clone)]
struct Life {
    first: usize,
    last: usize,
    at: Vec<usize>,
    uses: f64,
}

fn lives(tile: &Tile) -> Vec<Option<Life>> {
    fn walk(body: &[Stmt], times: f64, now: &mut usize, lives: &mut [Option<Life>], loops: &mut Vec<(usize, usize)>) {
        for stmt in body {
            if let Stmt::Loop { count, body, .. } = stmt {
                let start = *now;
                walk(body, times * *count as f64, now, lives, loops);
                loops.push((start, *now));
                continue;
            }
            for access in stmt.accesses() {
                let Base::Local(LocalId(id)) = access.view.base else { continue };
                let life = lives[id as usize].get_or_insert(Life { first: *now, last: *now, at: Vec::new(), uses: 0.0 });
                life.last = *now;
                life.at.push(*now);
                life.uses += times * access.dims.iter().product::<usize>() as f64;
            }
            *now += 1;
        }
    }
    let mut lives = vec![None; tile.locals.len()];
    let mut loops = Vec::new();
    walk(&tile.body, 1.0, &mut 0, &mut lives, &mut loops);
    // Inner loops come first: what grows to the whole of a loop is used in the loop around it as well.
    for (start, end) in loops {
        for life in lives.iter_mut().flatten() {
            let inside = |at: &usize| (start..end).contains(at);
            if life.at.iter().any(inside) && !life.at.iter().all(inside) {
                life.first = life.first.min(start);
                life.last = life.last.max(end - 1);
            }
        }
    }
    lives
}

/// Places for the locals that are picked, and the length that they need together: large ones choose first.
fn places(tile: &Tile, lives: &[Option<Life>], pick: impl Fn(usize) -> bool) -> (Vec<Home>, usize) {
    let mut homes = vec![Home::Shared(0); tile.locals.len()];
    let mut order: Vec<usize> = (0..tile.locals.len()).filter(|l| pick(*l) && lives[*l].is_some()).collect();
    order.sort_by_key(|l| (std::cmp::Reverse(tile.locals[*l].len), *l));
    let mut placed: Vec<(usize, usize)> = Vec::new();
    let mut total = 0;
    for l in order {
        let (Some(life), len) = (&lives[l], tile.locals[l].len) else { continue };
        let meets = |o: usize| lives[o].as_ref().is_some_and(|other| life.first <= other.last && other.first <= life.last);
        let mut taken: Vec<(usize, usize)> =
            placed.iter().filter(|(o, _)| meets(*o)).map(|(o, at)| (*at, at + tile.locals[*o].len)).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (start, end) in taken {
            if at + len <= start {
                break;
            }
            at = at.max(end);
        }
        homes[l] = Home::Shared(at);
        placed.push((l, at));
        total = total.max(at + len);
    }
    (homes, total)
}

/// Loops of the host that are around a kernel, with their counts.
pub(super) type Around = BTreeMap<LoopId, usize>;
