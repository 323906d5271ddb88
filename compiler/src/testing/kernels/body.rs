//! Bodies of tiles. Every local is written from end to end where it is made, so that any part of it may be read after.

use super::{Kernels, Source, contiguous, locals_in, map, plan, view};
use crate::kernel::{Base, BufferKind, Copy, Gather, Gemm, Lanes, LocalId, LoopId, Scatter, Sort, Stmt, Tile, View, packed_len};
use crate::testing::Rng;

/// What a round of a loop of steps hands to the next.
pub(super) struct Carry {
    pub(super) to: View,
    pub(super) entries: usize,
    pub(super) around: (LoopId, usize),
}

/// A tile, and the buffers that it has stored for others to read.
pub(super) fn tile(kernels: &mut Kernels, carry: Option<Carry>) -> (Tile, Vec<Source>) {
    let mut loops = Vec::new();
    loops.extend(carry.as_ref().map(|c| c.around));
    let readable = kernels.sources.clone();
    let mut body = Body { kernels, readable, lens: Vec::new(), places: Vec::new(), stored: Vec::new(), loops };
    let mut stmts = Vec::new();
    body.copy(&mut stmts);
    for _ in 0..3 + body.kernels.rng.below(6) {
        body.stmt(&mut stmts);
    }
    if let Some(Carry { to, entries, .. }) = carry {
        stmts.push(Stmt::Map(map::squashed(&mut body, entries, to)));
    }
    body.outputs(&mut stmts);

    let mut uses = vec![(usize::MAX, 0); body.lens.len()];
    for (at, stmt) in stmts.iter().enumerate() {
        locals_in(stmt, &mut |id| {
            let (first, last) = &mut uses[id.0 as usize];
            (*first, *last) = ((*first).min(at), at);
        });
    }
    let (locals, arena) = plan(&body.lens, &uses);
    (Tile { rows: body.kernels.rows.clone(), locals, arena, body: stmts }, body.stored)
}

pub(super) struct Body<'k> {
    pub(super) kernels: &'k mut Kernels,
    /// Buffers and locals that hold numbers by now.
    pub(super) readable: Vec<Source>,
    lens: Vec<usize>,
    /// Locals that hold places, and along how many entries.
    places: Vec<(Source, usize)>,
    stored: Vec<Source>,
    /// The loops around.
    pub(super) loops: Vec<(LoopId, usize)>,
}

impl Body<'_> {
    pub(super) fn rng(&mut self) -> &mut Rng {
        &mut self.kernels.rng
    }

    pub(super) fn dims(&mut self, most: usize) -> Vec<usize> {
        let count = self.rng().below(most + 1);
        (0..count).map(|_| self.rng().pick(&[1, 2, 3, 5, 7])).collect()
    }

    /// A local that is yet to be written, in any order of these dimensions; nothing can read it before [`Body::made`].
    pub(super) fn local(&mut self, dims: &[usize]) -> View {
        let base = Base::Local(LocalId(self.lens.len() as u32));
        self.lens.push(dims.iter().product());
        contiguous(self.rng(), base, Lanes::Unit, dims, 1)
    }

    pub(super) fn made(&mut self, to: &View, bound: f64, exact: bool) {
        let Base::Local(id) = to.base else { return };
        let entries = self.lens[id.0 as usize];
        self.readable.push(Source { base: to.base, lanes: Lanes::Unit, entries, apart: 1, bound, exact });
    }

    pub(super) fn pick(&mut self, wanted: impl Fn(&Source) -> bool) -> Option<Source> {
        let fitting: Vec<usize> = (0..self.readable.len()).filter(|i| wanted(&self.readable[*i])).collect();
        (!fitting.is_empty()).then(|| self.readable[self.kernels.rng.pick(&fitting)].clone())
    }

    pub(super) fn view(&mut self, source: &Source, dims: &[usize]) -> View {
        view(&mut self.kernels.rng, source, dims, &self.loops)
    }

    fn stmt(&mut self, stmts: &mut Vec<Stmt>) {
        match self.rng().below(14) {
            0..2 => self.copy(stmts),
            2..5 => map::map(self, stmts),
            5..8 => self.gemm(stmts),
            8 => self.sort(stmts),
            9 => self.gather(stmts),
            10 => self.scatter(stmts),
            11 => self.store(stmts),
            _ if self.loops.len() < 2 => self.looped(stmts),
            _ => self.copy(stmts),
        }
    }

    fn copy(&mut self, stmts: &mut Vec<Stmt>) {
        let dims = self.dims(3);
        let Some(source) = self.pick(|_| true) else { return };
        let from = self.view(&source, &dims);
        let to = self.local(&dims);
        self.made(&to, source.bound, source.exact);
        stmts.push(Stmt::Copy(Copy { dims, from, to }));
    }

    fn gemm(&mut self, stmts: &mut Vec<Stmt>) {
        let weights = self.kernels.weights.len();
        let choice = self.rng().below(weights);
        let weight = self.kernels.weights[choice].clone();
        let (batch, k) = (vec![weight.batch], weight.k);
        // Some of the outputs, from the first panel on.
        let n = if self.rng().one_in(3) { 1 + self.rng().below(weight.n) } else { weight.n };
        let m = self.dims(2);
        let Some(source) = self.pick(|s| s.lanes == Lanes::Unit && s.bound < 20.0) else { return };
        let src = self.view(&source, &[&batch[..], &m, &[k]].concat());
        let at = |strides: Vec<usize>, base| View { base, offset: 0, strides, loops: Vec::new(), lanes: Lanes::Splat };
        let packed = at(vec![packed_len(weight.n, k)], Base::Buffer(weight.to));
        let shared = self.pick(|s| s.lanes == Lanes::Splat).filter(|_| self.kernels.rng.one_in(2));
        let bias = shared.map(|s| self.view(&s, &[weight.batch, n]));
        let dims = [&batch[..], &m, &[n]].concat();
        let dst = self.local(&dims);
        let accumulate = self.rng().one_in(3);
        if accumulate {
            let Some(source) = self.pick(|s| s.bound < 20.0) else { return };
            let from = self.view(&source, &dims);
            stmts.push(Stmt::Copy(Copy { dims: dims.clone(), from, to: dst.clone() }));
        }
        self.made(&dst, source.bound * super::INPUT * k as f64 + 25.0, false);
        stmts.push(Stmt::Gemm(Gemm { batch, m, n, k, src, weight: packed, bias, dst, accumulate }));
    }

    fn sort(&mut self, stmts: &mut Vec<Stmt>) {
        let Some(source) = self.pick(|s| s.exact && s.lanes == Lanes::Unit) else { return };
        let dims = self.dims(1);
        let n = self.rng().pick(&[1, 2, 6, 11]);
        let all = [&dims[..], &[n]].concat();
        let from = self.view(&source, &all);
        let to = self.local(&all);
        self.made(&to, n as f64, true);
        self.places.extend(self.readable.last().cloned().map(|source| (source, n)));
        stmts.push(Stmt::Sort(Sort { dims, n, from, to }));
    }

    /// A source of places along an axis of some entries; sorts first if nothing has been sorted.
    fn places(&mut self, stmts: &mut Vec<Stmt>) -> Option<(Source, usize)> {
        if self.places.is_empty() {
            self.sort(stmts);
        }
        let count = self.places.len();
        (count > 0).then(|| self.places[self.kernels.rng.below(count)].clone())
    }

    fn gather(&mut self, stmts: &mut Vec<Stmt>) {
        let Some((places, least)) = self.places(stmts) else { return };
        let Some(source) = self.pick(|s| s.entries >= least) else { return };
        let dims = self.dims(2);
        let size = least;
        // Every place along the axis is an entry of the source.
        let most = (source.entries - 1) / (size - 1).max(1);
        let step = self.rng().pick(&[1, 2, 3]).min(most.max(1));
        let left = Source { entries: source.entries - (size - 1) * step, ..source.clone() };
        let from = self.view(&left, &dims);
        let at = self.view(&places, &dims);
        let to = self.local(&dims);
        self.made(&to, source.bound, source.exact);
        stmts.push(Stmt::Gather(Gather { dims, from, stride: step * source.apart, size, at, to }));
    }

    fn scatter(&mut self, stmts: &mut Vec<Stmt>) {
        let Some((places, size)) = self.places(stmts) else { return };
        let Some(source) = self.pick(|s| matches!(s.lanes, Lanes::Unit | Lanes::Splat)) else { return };
        let dims = self.dims(2);
        let entries = size + self.rng().below(9);
        let to = self.local(&[entries]);
        let Some(start) = self.pick(|s| s.bound < 20.0) else { return };
        let from = self.view(&start, &[entries]);
        stmts.push(Stmt::Copy(Copy { dims: vec![entries], from, to: to.clone() }));
        let (value, at) = (self.view(&source, &dims), self.view(&places, &dims));
        let written =
            Source { base: to.base, lanes: Lanes::Unit, entries: entries - (size - 1), apart: 1, bound: 0.0, exact: false };
        let into = self.view(&written, &dims);
        let meet = dims.iter().product::<usize>() as f64;
        self.made(&to, 20.0 + source.bound * meet, false);
        stmts.push(Stmt::Scatter(Scatter { dims, from: value, at, to: into, stride: 1, size }));
    }

    /// Writes a buffer for later launches, every row in its place.
    fn store(&mut self, stmts: &mut Vec<Stmt>) {
        if !self.loops.is_empty() {
            return self.copy(stmts);
        }
        let entries = 1 + self.rng().below(6);
        let (apart, kind) = (self.kernels.padded(), BufferKind::Temp);
        let id = self.kernels.buffer("stored", entries * apart, kind);
        let to = View { base: Base::Buffer(id), offset: 0, strides: vec![apart], loops: Vec::new(), lanes: Lanes::Unit };
        let stored = map::squashed(self, entries, to.clone());
        let source = Source { base: to.base, lanes: Lanes::Unit, entries, apart, bound: 1.0, exact: false };
        self.stored.push(source);
        stmts.push(Stmt::Map(stored));
    }

    fn looped(&mut self, stmts: &mut Vec<Stmt>) {
        let id = self.kernels.loop_id();
        let count = self.rng().pick(&[1, 2, 3, 5]);
        let reverse = self.rng().one_in(2);
        self.loops.push((id, count));
        let mut body = Vec::new();
        for _ in 0..1 + self.rng().below(3) {
            self.stmt(&mut body);
        }
        self.loops.pop();
        stmts.push(Stmt::Loop { id, count, reverse, body });
    }

    /// Some of what there is, to the caller, row by row or side by side.
    fn outputs(&mut self, stmts: &mut Vec<Stmt>) {
        for _ in 0..2 {
            let Some(source) = self.pick(|s| matches!(s.base, Base::Local(_))) else { return };
            let dims = self.dims(2);
            let entries: usize = dims.iter().product();
            let count = self.kernels.row_count();
            let id = self.kernels.buffer("y", entries * count, BufferKind::Output);
            let side_by_side = self.rng().one_in(2);
            let (lanes, apart) = match side_by_side {
                true => (Lanes::Unit, count),
                false => (Lanes::Strided(self.kernels.row_major(entries)), 1),
            };
            let to = contiguous(self.rng(), Base::Buffer(id), lanes, &dims, apart);
            // Once in a loop of steps as well: every round writes it anew.
            let from = View { loops: Vec::new(), ..self.view(&source, &dims) };
            stmts.push(Stmt::Copy(Copy { dims, from, to }));
        }
    }
}
