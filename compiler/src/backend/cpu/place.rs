//! Views as a worker finds them: an address that loops and rows move.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::jit::Text;
use crate::kernel::{Base, LANES, Lanes, Tile, View};

/// Numbers of a line of the cache.
pub(super) const LINE: usize = 16;

/// Where a view begins, in numbers.
#[derive(Debug, Clone)]
pub(super) struct Place {
    home: Home,
    offset: usize,
    /// Loop variables and what one step of them moves.
    loops: Box<[(usize, usize)]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    Arena,
    /// A buffer that has rows.
    Rows(usize),
    /// A buffer, from its start.
    Buffer(usize),
}

/// What a worker has when it runs an item.
pub(super) struct Worker<'a> {
    /// Generated code.
    pub text: &'a Text,
    pub memory: *mut f32,
    /// Where each buffer starts, in numbers.
    pub starts: &'a [AtomicUsize],
    /// How far a block of rows is from the one before, in each buffer that has rows.
    pub distances: &'a [usize],
    /// The loops' variables.
    pub vars: &'a mut [usize],
    /// Locals of the first block; each block has its own, `arena_len` numbers apart.
    pub arena: *mut f32,
    pub arena_len: usize,
}

/// [`LANES`] rows of a tile, fewer at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// Which of the worker's arenas it has.
    pub index: usize,
    pub first_row: usize,
    pub lanes: usize,
}

/// For what is not of some rows: the buffers as a whole.
pub(super) const WHOLE: Block = Block { index: 0, first_row: 0, lanes: 1 };

impl Place {
    pub(super) fn new(view: &View, tile: Option<&Tile>) -> Place {
        let (home, unit, base) = match (view.base, tile) {
            (Base::Local(id), Some(tile)) => (Home::Arena, LANES, tile.locals[id.0 as usize].offset),
            (Base::Local(_), None) => unreachable!("only a tile has locals"),
            (Base::Buffer(id), _) if view.lanes == Lanes::Unit => (Home::Rows(id.0 as usize), 1, 0),
            (Base::Buffer(id), _) => (Home::Buffer(id.0 as usize), 1, 0),
        };
        Place {
            home,
            offset: (base + view.offset) * unit,
            loops: view.loops.iter().map(|(id, step)| (id.0 as usize, step * unit)).collect(),
        }
    }

    /// Numbers for each step of the view's strides.
    pub(super) fn unit(view: &View) -> usize {
        if matches!(view.base, Base::Local(_)) { LANES } else { 1 }
    }

    /// The view's strides, in numbers.
    pub(super) fn strides(view: &View) -> Vec<usize> {
        view.strides.iter().map(|s| s * Place::unit(view)).collect()
    }

    /// Neighbouring rows belong to other workers.
    pub(super) fn has_rows(&self) -> bool {
        matches!(self.home, Home::Rows(_))
    }

    /// The address for a block, now.
    pub(super) fn at(&self, worker: &Worker, block: Block) -> *mut f32 {
        let moved: usize = self.loops.iter().map(|(var, step)| worker.vars[*var] * step).sum();
        let offset = self.offset + moved;
        let start = |buffer: usize| worker.starts[buffer].load(Ordering::Relaxed);
        match self.home {
            Home::Arena => worker.arena.wrapping_add(block.index * worker.arena_len + offset),
            Home::Rows(buffer) => {
                let rows = block.first_row / LANES * worker.distances[buffer];
                worker.memory.wrapping_add(start(buffer) + rows + offset)
            }
            Home::Buffer(buffer) => worker.memory.wrapping_add(start(buffer) + offset),
        }
    }
}

/// Several views walked together over common dimensions: offsets in numbers.
#[derive(Debug, Clone)]
pub(super) struct Walk<const K: usize> {
    /// Outermost first, neighbours merged where all views allow; never empty.
    pub dims: Vec<(usize, [usize; K])>,
}

impl<const K: usize> Walk<K> {
    pub(super) fn new(dims: &[usize], strides: [Vec<usize>; K]) -> Walk<K> {
        let all = dims.iter().enumerate().map(|(d, size)| (*size, std::array::from_fn(|k| strides[k][d])));
        let mut merged: Vec<(usize, [usize; K])> = Vec::new();
        for (size, strides) in all.filter(|(size, _)| *size != 1) {
            match merged.last_mut() {
                Some((outer, by)) if (0..K).all(|k| by[k] == strides[k] * size) => (*outer, *by) = (*outer * size, strides),
                _ => merged.push((size, strides)),
            }
        }
        if merged.is_empty() {
            merged.push((1, [0; K]));
        }
        Walk { dims: merged }
    }

    pub(super) fn len(&self) -> usize {
        self.dims.iter().map(|(size, _)| size).product()
    }

    /// The outer dimensions, and the innermost: its size and steps.
    pub(super) fn inner(&self) -> (Outer<'_, K>, usize, [usize; K]) {
        let last = self.dims.len() - 1;
        let (size, steps) = self.dims[last];
        (Outer(&self.dims[..last]), size, steps)
    }

    /// Calls `f` with the offsets of every entry, in order.
    pub(super) fn each(&self, mut f: impl FnMut([usize; K])) {
        descend(&self.dims, [0; K], &mut f);
    }

    /// The offsets of every entry, in order.
    pub(super) fn offsets(&self) -> Vec<[usize; K]> {
        let mut list = Vec::with_capacity(self.len());
        self.each(|at| list.push(at));
        list
    }
}

/// The outer dimensions of a walk.
pub(super) struct Outer<'a, const K: usize>(&'a [(usize, [usize; K])]);

impl<const K: usize> Outer<'_, K> {
    pub(super) fn each(&self, mut f: impl FnMut([usize; K])) {
        descend(self.0, [0; K], &mut f);
    }
}

fn descend<const K: usize>(dims: &[(usize, [usize; K])], at: [usize; K], f: &mut impl FnMut([usize; K])) {
    let Some(((size, by), rest)) = dims.split_first() else { return f(at) };
    let mut at = at;
    for _ in 0..*size {
        descend(rest, at, f);
        (0..K).for_each(|k| at[k] += by[k]);
    }
}
