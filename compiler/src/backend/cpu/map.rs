//! Elementwise work: a map's instructions as strip operations.
//!
//! The innermost dimension is cut into strips of [`STRIP`] lane vectors; each operation runs over the strip before the
//! next one starts, so that what it costs to decode it is paid once a strip, and what it leaves stays in the first-level
//! cache. Operands are read where they are and the last operation before a store writes to its place.

use crate::kernel::{LANES, Map, Mode, Store, Tile, View};

use super::Target;
use super::jit::{Entry, Moves};
use super::memory::Memory;
use super::place::{Block, Place, Worker};
use super::strips::{At, Emit, Emitted};
use micro::strip::{Arg, Decay, DecayFn, StripFn};

/// Lane vectors of a strip.
pub(super) const STRIP: usize = 16;

/// A map, ready to run.
#[derive(Debug)]
pub(super) struct MapCode {
    /// Sizes of the outer dimensions, outermost first; of the one around the innermost, and of the innermost.
    outer: Vec<usize>,
    middle: usize,
    inner: usize,
    /// Loads, then stores.
    views: Vec<ViewCode>,
    constants: Vec<f32>,
    /// Strips of intermediate values.
    temporaries: usize,
    code: Vec<OpCode>,
    /// The innermost dimension as machine code.
    entry: Option<Entry>,
}

#[derive(Debug)]
pub(super) struct ViewCode {
    place: Place,
    /// Steps along the dimensions.
    outer: Vec<usize>,
    middle: usize,
    pub(super) inner: usize,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Load,
    Set,
    /// Begins with a number wherever all dimensions that it does not have are at their first entry.
    Fold(f32),
}

/// Operands are numbers in the table of arguments: temporaries, then views, then constants.
#[derive(Debug)]
enum OpCode {
    Strip { run: StripFn, to: usize, from: [usize; 3] },
    Decay { run: DecayFn, args: Decay<usize> },
}

/// What the worker keeps for maps, large enough for any of its program's.
#[derive(Debug)]
pub(super) struct Scratch {
    strips: Memory,
    args: Vec<Arg>,
    index: Vec<usize>,
}

/// How much of it, by field.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MapNeeds {
    strips: usize,
    args: usize,
    index: usize,
}

impl MapNeeds {
    pub(super) fn max(self, other: MapNeeds) -> MapNeeds {
        MapNeeds { strips: self.strips.max(other.strips), args: self.args.max(other.args), index: self.index.max(other.index) }
    }
}

impl MapNeeds {
    /// Numbers that the strips take.
    pub(super) fn numbers(self) -> usize {
        self.strips.saturating_mul(STRIP * LANES)
    }
}

impl Scratch {
    pub(super) fn new(needs: MapNeeds) -> Result<Scratch, String> {
        let none = Arg { at: std::ptr::null_mut(), step: 0 };
        Ok(Scratch { strips: Memory::new(needs.numbers())?, args: vec![none; needs.args], index: vec![0; needs.index] })
    }

    pub(super) fn bytes(&self) -> usize {
        self.strips.bytes()
    }
}

impl MapCode {
    pub(super) fn needs(&self) -> MapNeeds {
        let args = self.temporaries + self.views.len() + self.constants.len();
        MapNeeds { strips: self.temporaries, args, index: self.outer.len() }
    }

    /// # Safety
    /// The views are inside their buffers and locals for this block; the machine has the kernels' instruction set;
    /// nobody else writes what is read or touches what is written; `scratch` fits.
    pub(super) unsafe fn run(&self, worker: &Worker, block: Block, scratch: &mut Scratch) {
        let Scratch { strips, args, index } = scratch;
        let (temporaries, views) = (self.temporaries, self.views.len());
        for (i, arg) in args[..temporaries].iter_mut().enumerate() {
            *arg = Arg { at: strips.at().wrapping_add(i * STRIP * LANES), step: LANES };
        }
        for (arg, view) in args[temporaries..].iter_mut().zip(&self.views) {
            *arg = Arg { at: view.place.at(worker, block), step: view.inner };
        }
        for (arg, constant) in args[temporaries + views..].iter_mut().zip(&self.constants) {
            *arg = Arg { at: std::ptr::from_ref(constant).cast_mut(), step: 0 };
        }
        let index = &mut index[..self.outer.len()];
        index.fill(0);
        let run = self.entry.and_then(|entry| worker.text.run(entry));
        loop {
            for middle in 0..self.middle {
                // SAFETY: the caller's contract.
                unsafe { self.begin_folds(&args[temporaries..], index, middle) };
                if let Some(run) = run {
                    if self.inner > 0 {
                        // SAFETY: the views are good for the whole dimension, which is not empty.
                        unsafe { run(args[temporaries..].as_ptr(), self.inner) };
                    }
                    args[temporaries..].iter_mut().zip(&self.views).for_each(|(arg, v)| arg.at = arg.at.wrapping_add(v.middle));
                    continue;
                }
                for start in (0..self.inner).step_by(STRIP) {
                    let n = STRIP.min(self.inner - start);
                    for op in &self.code {
                        // SAFETY: arguments are temporaries of STRIP vectors, entries of views, or constants.
                        unsafe { op.run(n, args) };
                    }
                    args[temporaries..][..views].iter_mut().for_each(|arg| arg.at = arg.at.wrapping_add(n * arg.step));
                }
                for (arg, view) in args[temporaries..].iter_mut().zip(&self.views) {
                    arg.at = arg.at.wrapping_add(view.middle).wrapping_sub(self.inner * arg.step);
                }
            }
            let Some(d) = (0..index.len()).rev().find(|d| index[*d] + 1 < self.outer[*d]) else { return };
            for (arg, view) in args[temporaries..].iter_mut().zip(&self.views) {
                let inside: usize = (d + 1..index.len()).map(|d| view.outer[d] * (self.outer[d] - 1)).sum();
                arg.at = arg.at.wrapping_add(view.outer[d]).wrapping_sub(inside + view.middle * self.middle);
            }
            index[d] += 1;
            index[d + 1..].fill(0);
        }
    }

    /// Sums and maxima begin wherever all dimensions that they do not have are at their first entry.
    ///
    /// # Safety
    /// The arguments are the views' at the start of the innermost dimension.
    unsafe fn begin_folds(&self, args: &[Arg], index: &[usize], middle: usize) {
        for (view, arg) in self.views.iter().zip(args) {
            let Kind::Fold(first) = view.kind else { continue };
            let outer = view.outer.iter().zip(index).all(|(step, i)| *step > 0 || *i == 0);
            if outer && (view.middle > 0 || middle == 0) {
                for j in 0..if view.inner == 0 { 1 } else { self.inner } {
                    // SAFETY: an entry of the view.
                    unsafe { *arg.at.add(j * view.inner).cast::<[f32; LANES]>() = [first; LANES] };
                }
            }
        }
    }
}

impl OpCode {
    /// # Safety
    /// The arguments are good for `n` steps, as the operation's function needs them.
    unsafe fn run(&self, n: usize, args: &[Arg]) {
        // SAFETY: the caller's contract.
        unsafe {
            match self {
                OpCode::Strip { run, to, from } => run(n, args[*to], &from.map(|i| args[i])),
                OpCode::Decay { run, args: decay } => run(n, &decay.map(|i| args[i])),
            }
        }
    }
}

/// Chooses operations and places for a map's instructions.
pub(super) fn compile(map: &Map, tile: &Tile, target: &mut Target) -> MapCode {
    let all: Vec<&View> = map.loads.iter().chain(map.stores.iter().map(|s| &s.to)).collect();
    let (mut sizes, mut strides) = near_inside(merged(&map.dims, &all));
    long_inside(&mut sizes, &mut strides);
    let inner = sizes.pop().unwrap_or(1);
    let middle = sizes.pop().unwrap_or(1);
    let kinds = map.loads.iter().map(|_| Kind::Load).chain(map.stores.iter().map(|s| kind(s, &map.dims)));
    let views: Vec<ViewCode> = all
        .iter()
        .zip(kinds)
        .enumerate()
        .map(|(v, (view, kind))| ViewCode {
            place: Place::new(view, Some(tile)),
            // Without dimensions there is one entry and no next one.
            inner: strides[v].pop().unwrap_or(LANES),
            middle: strides[v].pop().unwrap_or(0),
            outer: std::mem::take(&mut strides[v]),
            kind,
        })
        .collect();
    let moves: Vec<Moves> = views.iter().map(|v| Moves { step: v.inner, folds: matches!(v.kind, Kind::Fold(_)) }).collect();
    let entry = target.jit.compile(map, &moves, inner);
    let kernels = target.kernels;
    let mut emit = Emit::new(map, views);
    emit.emit();
    emit.decays();
    let Emit { views, constants, ops, temporaries, .. } = emit;
    let table = |at: At| match at {
        At::Temporary(i) => i,
        At::View(v) => temporaries + v,
        At::Constant(c) => temporaries + views.len() + c,
    };
    let code = ops.iter().map(|op| match *op {
        Emitted::Strip { op, splats, to, from } => {
            OpCode::Strip { run: (kernels.strip)(op, splats), to: table(to), from: from.map(table) }
        }
        Emitted::Decay { splat, args } => OpCode::Decay { run: (kernels.decay)(splat), args: args.map(table) },
    });
    let code = code.collect();
    MapCode { outer: sizes, middle, inner, views, constants, temporaries, code, entry }
}

/// Dimensions along which the views move furthest come first, so that the inner loops stay in few lines of the cache.
fn near_inside((sizes, strides): (Vec<usize>, Vec<Vec<usize>>)) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(strides.iter().map(|s| s[*d]).sum::<usize>()));
    let sorted = |list: &Vec<usize>| order.iter().map(|d| list[*d]).collect();
    (sorted(&sizes), strides.iter().map(sorted).collect())
}

/// A dimension that is too short for a strip changes places with the longest.
fn long_inside(sizes: &mut [usize], strides: &mut [Vec<usize>]) {
    let Some(last) = sizes.len().checked_sub(1) else { return };
    let longest = (0..sizes.len()).max_by_key(|d| (sizes[*d], *d)).unwrap_or(last);
    if (1..STRIP / 2).contains(&sizes[last]) && sizes[longest] >= 2 * sizes[last] {
        sizes.swap(longest, last);
        strides.iter_mut().for_each(|s| s.swap(longest, last));
    }
}

/// A sum or maximum that has every dimension is a plain store.
fn kind(store: &Store, dims: &[usize]) -> Kind {
    let folds = dims.iter().zip(&store.to.strides).any(|(size, stride)| *size > 1 && *stride == 0);
    match store.mode {
        Mode::Sum if folds => Kind::Fold(0.0),
        Mode::Max if folds => Kind::Fold(f32::NEG_INFINITY),
        _ => Kind::Set,
    }
}

/// The dimensions without those of one entry, neighbours merged where all views allow; strides in numbers.
fn merged(dims: &[usize], views: &[&View]) -> (Vec<usize>, Vec<Vec<usize>>) {
    let given: Vec<Vec<usize>> = views.iter().map(|view| Place::strides(view)).collect();
    let mut sizes: Vec<usize> = Vec::new();
    let mut strides: Vec<Vec<usize>> = vec![Vec::new(); views.len()];
    for d in (0..dims.len()).filter(|d| dims[*d] != 1) {
        let fits = |v: usize| strides[v].last() == Some(&(given[v][d] * dims[d]));
        match sizes.last_mut() {
            Some(size) if (0..views.len()).all(fits) => {
                *size *= dims[d];
                strides.iter_mut().zip(&given).for_each(|(s, given)| *s.last_mut().expect("it has the size") = given[d]);
            }
            _ => {
                sizes.push(dims[d]);
                strides.iter_mut().zip(&given).for_each(|(s, given)| s.push(given[d]));
            }
        }
    }
    (sizes, strides)
}
