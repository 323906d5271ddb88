//! Random kernel programs from a seed, for comparing backends with the kernel interpreter: every statement and kernel, odd
//! sizes, loops, work in place, views that leave out, repeat and turn round.
//!
//! Numbers stay small, and what is discontinuous (comparing, sorting, rounding down) is done only with numbers that every
//! backend has to the bit, so that outputs agree up to rounding.

mod body;
mod map;
#[cfg(test)]
mod tests;

use super::Rng;
use crate::ir::Noise;
use crate::kernel::{
    Base, Buffer, BufferId, BufferKind, Contract, Copy, Kernel, LANES, Lanes, Local, LocalId, LoopId, Notes, Pack, Program,
    Random, Step, Stmt, Tile, View, Work, packed_len,
};

/// Inputs are at most this large.
const INPUT: f64 = 2.0;

/// A program that the kernel verifier lets pass.
pub fn random_kernels(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let rows: &[usize] = rng.pick(&[&[][..], &[7], &[16], &[161], &[23, 7], &[3, 16], &[2, 1], &[33], &[1, 48]]);
    let program = Program { name: "p".to_string(), ..Program::default() };
    let mut kernels = Kernels { rng, program, rows: rows.to_vec(), sources: Vec::new(), weights: Vec::new(), loops: 0 };
    kernels.given();
    for _ in 0..1 + kernels.rng.below(2) {
        kernels.tiles();
    }
    if kernels.rng.one_in(2) {
        kernels.carried();
    }
    kernels.contracts();
    kernels.program
}

/// Numbers for a program's inputs.
pub fn kernel_inputs(program: &Program, seed: u64) -> Vec<Vec<f32>> {
    let mut rng = Rng::new(seed ^ 0x9e37);
    let lens = program.inputs.iter().map(|id| program.buffers[id.0 as usize].len);
    lens.map(|len| (0..len).map(|_| rng.between(-INPUT, INPUT) as f32).collect()).collect()
}

/// What can be read: entries, each of which is a number for every row.
#[derive(Debug, Clone)]
struct Source {
    base: Base,
    lanes: Lanes,
    entries: usize,
    /// From one entry to the next.
    apart: usize,
    /// No number is larger.
    bound: f64,
    /// The same bits on every backend.
    exact: bool,
}

/// A packed weight.
#[derive(Debug, Clone)]
struct Weight {
    to: BufferId,
    batch: usize,
    n: usize,
    k: usize,
}

struct Kernels {
    rng: Rng,
    program: Program,
    rows: Vec<usize>,
    /// Buffers that hold numbers by now.
    sources: Vec<Source>,
    weights: Vec<Weight>,
    /// Loops so far.
    loops: u32,
}

impl Kernels {
    fn row_count(&self) -> usize {
        self.rows.iter().product()
    }

    /// Rows with those that fill the last tile up.
    fn padded(&self) -> usize {
        self.row_count().next_multiple_of(LANES)
    }

    fn buffer(&mut self, name: &str, len: usize, kind: BufferKind) -> BufferId {
        let id = BufferId(self.program.buffers.len() as u32);
        match kind {
            BufferKind::Input => self.program.inputs.push(id),
            BufferKind::Output => self.program.outputs.push(id),
            BufferKind::Temp | BufferKind::Kept | BufferKind::Const(_) => {}
        }
        self.program.buffers.push(Buffer { name: format!("{name}{}", id.0), len, kind });
        id
    }

    /// Strides of the row axes where each row has `len` numbers.
    fn row_major(&self, len: usize) -> Vec<usize> {
        let mut stride = len;
        let strides = self.rows.iter().rev().map(|size| {
            stride *= size;
            stride / size
        });
        let mut strides: Vec<usize> = strides.collect();
        strides.reverse();
        strides
    }

    fn source(&mut self, id: BufferId, lanes: Lanes, entries: usize, apart: usize) {
        let source = Source { base: Base::Buffer(id), lanes, entries, apart, bound: INPUT, exact: true };
        self.sources.push(source);
    }

    /// Inputs in every layout, constants, weights, random numbers.
    fn given(&mut self) {
        let count = self.row_count();
        let len = 5 + self.rng.below(30);
        let x = self.buffer("x", count * len, BufferKind::Input);
        let strides = self.row_major(len);
        self.source(x, Lanes::Strided(strides), len, 1);
        let len = 2 + self.rng.below(20);
        let columns = self.buffer("columns", count * len, BufferKind::Input);
        self.source(columns, Lanes::Unit, len, count);
        let len = 4 + self.rng.below(30);
        let shared = self.buffer("shared", len, BufferKind::Input);
        self.source(shared, Lanes::Splat, len, 1);
        let numbers: Vec<f32> = (0..8).map(|_| self.rng.between(-INPUT, INPUT) as f32).collect();
        let constant = self.buffer("constant", 8, BufferKind::Const(numbers));
        self.source(constant, Lanes::Splat, 8, 1);

        let mut packs = Vec::new();
        for _ in 0..2 {
            let batch = self.rng.pick(&[1, 1, 3]);
            let (n, k) = (self.rng.pick(&[1, 5, 6, 7, 13, 32]), self.rng.pick(&[[1, 1], [1, 7], [2, 3], [3, 9], [1, 40]]));
            let k_len = k[0] * k[1];
            let from = self.buffer("w", batch * n * k_len, BufferKind::Input);
            let to = self.buffer("packed", batch * packed_len(n, k_len), BufferKind::Kept);
            // As it lies, or transposed.
            let strides = match self.rng.one_in(2) {
                true => vec![n * k_len, k_len, k[1], 1],
                false => vec![n * k_len, 1, k[1] * n, n],
            };
            let view = View { base: Base::Buffer(from), offset: 0, strides, loops: Vec::new(), lanes: Lanes::Splat };
            packs.push(kernel("pack", Work::Pack(Pack { batch: vec![batch], n, k: k.to_vec(), from: view, to })));
            self.weights.push(Weight { to, batch, n, k: k_len });
        }
        self.program.prepare.push(Step::Launch(packs));

        let len = 6 * count;
        let noise = self.rng.pick(&[Noise::Gaussian, Noise::Uniform, Noise::Subset { of: 9 }]);
        let to = self.buffer("noise", len, BufferKind::Temp);
        self.program.draws.push("noise".to_string());
        self.program.steps.push(Step::Launch(vec![kernel("noise", Work::Random(Random { draw: 0, noise, last: 6, to }))]));
        let strides = self.row_major(6);
        // Gaussian numbers are rounded as a backend's logarithm is.
        let source =
            Source { base: Base::Buffer(to), lanes: Lanes::Strided(strides), entries: 6, apart: 1, bound: 9.0, exact: false };
        self.sources.push(source);
    }

    /// A launch of tiles that know nothing of each other; what they store is there for later launches.
    fn tiles(&mut self) {
        let mut stored = Vec::new();
        let mut launch = Vec::new();
        for _ in 0..1 + self.rng.below(2) {
            let (tile, sources) = body::tile(self, None);
            launch.push(kernel("tile", Work::Tile(tile)));
            stored.extend(sources);
        }
        self.program.steps.push(Step::Launch(launch));
        self.sources.extend(stored);
    }

    /// A loop of steps whose carry changes places with what the next round starts from.
    fn carried(&mut self) {
        let (entries, apart) = (1 + self.rng.below(6), self.padded());
        let len = entries * apart;
        let [carry, next] = ["carry", "next"].map(|name| self.buffer(name, len, BufferKind::Temp));
        let view = |id| View { base: Base::Buffer(id), offset: 0, strides: vec![apart], loops: Vec::new(), lanes: Lanes::Unit };

        let start = self.sources.iter().find(|s| matches!(s.lanes, Lanes::Splat)).cloned();
        let start = start.map(|s| View { base: s.base, offset: 0, strides: vec![0], loops: Vec::new(), lanes: s.lanes });
        let copies = start.map(|from| Stmt::Copy(Copy { dims: vec![entries], from, to: view(carry) }));
        let first = Tile { rows: self.rows.clone(), body: copies.into_iter().collect(), ..Tile::default() };
        self.program.steps.push(Step::Launch(vec![kernel("first", Work::Tile(first))]));

        let id = self.loop_id();
        let count = 1 + self.rng.below(4);
        let source = Source { base: Base::Buffer(carry), lanes: Lanes::Unit, entries, apart, bound: INPUT, exact: false };
        self.sources.push(source);
        let (tile, stored) = body::tile(self, Some(body::Carry { to: view(next), entries, around: (id, count) }));
        let body = vec![Step::Launch(vec![kernel("round", Work::Tile(tile))]), Step::Swap(carry, next)];
        let reverse = self.rng.one_in(2);
        self.program.steps.push(Step::Loop { id, count, reverse, body });
        self.sources.extend(stored);
    }

    /// Sums over rows, of what lies row by row.
    fn contracts(&mut self) {
        let unit: Vec<Source> = self.sources.iter().filter(|s| s.lanes == Lanes::Unit).cloned().collect();
        let mut launch = Vec::new();
        for _ in 0..2 {
            let size = |rng: &mut Rng| rng.pick(&[1, 1, 2, 3, 5]);
            let with_b = !self.rng.one_in(3);
            let batch: Vec<usize> = (0..self.rng.below(2)).map(|_| size(&mut self.rng)).collect();
            let n: Vec<usize> = (0..self.rng.below(3)).map(|_| size(&mut self.rng)).collect();
            let i: Vec<usize> = if with_b { vec![size(&mut self.rng)] } else { Vec::new() };
            let k: Vec<usize> = (0..self.rng.below(3)).map(|_| size(&mut self.rng)).collect();
            let [x, y] = [0, 1].map(|_| unit[self.rng.below(unit.len())].clone());
            let a = view(&mut self.rng, &x, &[&batch[..], &n, &k].concat(), &[]);
            let b = with_b.then(|| view(&mut self.rng, &y, &[&batch[..], &i, &k].concat(), &[]));
            let dims = [&batch[..], &n, &i].concat();
            let dst = self.buffer("sum", dims.iter().product(), BufferKind::Output);
            let dst = contiguous(&mut self.rng, Base::Buffer(dst), Lanes::Splat, &dims, 1);
            let rows = self.row_count();
            launch.push(kernel("contract", Work::Contract(Contract { rows, batch, n, i, k, a, b, dst })));
        }
        self.program.steps.push(Step::Launch(launch));
    }

    fn loop_id(&mut self) -> LoopId {
        self.loops += 1;
        LoopId(self.loops - 1)
    }
}

fn kernel(name: &str, work: Work) -> Kernel {
    Kernel { name: name.to_string(), work, notes: Notes::default() }
}

/// All entries of an array of these dimensions, stored in a random order of the dimensions.
fn contiguous(rng: &mut Rng, base: Base, lanes: Lanes, dims: &[usize], apart: usize) -> View {
    let mut order: Vec<usize> = (0..dims.len()).rev().collect();
    if rng.one_in(3) {
        rng.shuffle(&mut order);
    }
    let mut strides = vec![0; dims.len()];
    let mut stride = apart;
    for d in order {
        strides[d] = stride;
        stride *= dims[d];
    }
    View { base, offset: 0, strides, loops: Vec::new(), lanes }
}

/// Some entries of a source, over dimensions, moved by loops around or not.
fn view(rng: &mut Rng, source: &Source, dims: &[usize], loops: &[(LoopId, usize)]) -> View {
    let mut left = source.entries - 1;
    let mut take = |rng: &mut Rng, size: usize, wanted: usize| {
        let most = if size > 1 { left / (size - 1) } else { left };
        let stride = match rng.below(4) {
            0 => 0,
            1 => rng.below(most + 1),
            _ => wanted.min(most),
        };
        left -= stride * size.saturating_sub(1);
        stride * source.apart
    };
    let mut moved = Vec::new();
    for (id, count) in loops {
        if rng.one_in(3) {
            moved.push((*id, take(rng, *count, 2)));
        }
    }
    let mut strides = vec![0; dims.len()];
    let mut wanted = 1;
    for d in (0..dims.len()).rev() {
        strides[d] = take(rng, dims[d], wanted);
        wanted *= dims[d];
    }
    let offset = if rng.one_in(2) { rng.below(left + 1) * source.apart } else { 0 };
    View { base: source.base, offset, strides, loops: moved, lanes: source.lanes.clone() }
}

/// Places in the arena for locals that are used from one statement of the body to another: the first that is free.
fn plan(lens: &[usize], uses: &[(usize, usize)]) -> (Vec<Local>, usize) {
    let mut locals: Vec<Local> = Vec::new();
    for (i, len) in lens.iter().enumerate() {
        let lives = |j: usize| uses[j].0 <= uses[i].1 && uses[i].0 <= uses[j].1;
        let mut others: Vec<&Local> = (0..i).filter(|j| lives(*j)).map(|j| &locals[j]).collect();
        others.sort_by_key(|l| l.offset);
        let free = |offset: usize, l: &&Local| if offset + len <= l.offset { offset } else { offset.max(l.offset + l.len) };
        let offset = others.iter().fold(0, free);
        locals.push(Local { len: *len, offset });
    }
    let arena = locals.iter().map(|l| l.offset + l.len).max().unwrap_or(0);
    (locals, arena)
}

/// The locals of a statement.
fn locals_in(stmt: &Stmt, f: &mut impl FnMut(LocalId)) {
    if let Stmt::Loop { body, .. } = stmt {
        body.iter().for_each(|stmt| locals_in(stmt, f));
    }
    for access in stmt.accesses() {
        if let Base::Local(id) = access.view.base {
            f(id);
        }
    }
}
