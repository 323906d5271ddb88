//! Kernels that are not row-parallel: sums over rows, packed weights, random numbers.

use std::sync::RwLock;

use crate::ir::Noise;
use crate::kernel::{Contract, PANEL, Pack, Program, Random, packed_len};
use crate::random::Stream;

use super::place::{Block, Place, Walk, Worker};
use micro::dots::{LEFT, RIGHT, Segment};
use micro::kernels::Kernels;

/// Outputs of an item: so many lists from the left and from the right stay in the second-level cache.
const ITEM: (usize, usize) = (32, 48);
/// Numbers of a list that are summed up before the next lists: so much of a block of lists stays in the first-level cache.
const CHUNK: usize = 1024;
/// Kernels without rows look at their buffers as a whole.
const WHOLE: Block = Block { index: 0, first_row: 0, lanes: 1 };

/// Sums over rows, ready to run.
#[derive(Debug)]
pub(super) struct ContractCode {
    a: Place,
    b: Option<Place>,
    dst: Place,
    /// Offsets of a, b, dst.
    batch: Vec<[usize; 3]>,
    /// Offsets of a, dst.
    n: Vec<[usize; 2]>,
    /// Offsets of b, dst.
    i: Vec<[usize; 2]>,
    /// The sum's numbers; each chunk is summed up by itself, then added to those before.
    chunks: Vec<Vec<Segment>>,
}

impl ContractCode {
    pub(super) fn new(contract: &Contract) -> ContractCode {
        let (nb, nn, ni) = (contract.batch.len(), contract.n.len(), contract.i.len());
        let a = Place::strides(&contract.a);
        let b = contract.b.as_ref().map_or(vec![0; nb + ni + contract.k.len()], Place::strides);
        let dst = Place::strides(&contract.dst);
        let part = |s: &[usize], from: usize, len: usize| s[from..from + len].to_vec();
        let k = Walk::new(&contract.k, [a[nb + nn..].to_vec(), b[nb + ni..].to_vec()]);
        ContractCode {
            a: Place::new(&contract.a, None),
            b: contract.b.as_ref().map(|b| Place::new(b, None)),
            dst: Place::new(&contract.dst, None),
            batch: Walk::new(&contract.batch, [part(&a, 0, nb), part(&b, 0, nb), part(&dst, 0, nb)]).offsets(),
            n: Walk::new(&contract.n, [part(&a, nb, nn), part(&dst, nb, nn)]).offsets(),
            i: Walk::new(&contract.i, [part(&b, nb, ni), part(&dst, nb + nn, ni)]).offsets(),
            chunks: chunks(k, contract.rows, contract.b.is_some()),
        }
    }

    fn cuts(&self) -> (usize, usize) {
        (self.n.len().div_ceil(ITEM.0), self.i.len().div_ceil(ITEM.1))
    }

    pub(super) fn items(&self) -> usize {
        let (n, i) = self.cuts();
        self.batch.len() * n * i
    }

    /// # Safety
    /// Views are inside their buffers; the machine has the kernels' instruction set; nobody writes what is read or
    /// touches the item's outputs.
    pub(super) unsafe fn run(&self, item: usize, worker: &Worker, kernels: &Kernels) {
        let (cut_n, cut_i) = self.cuts();
        let [a_at, b_at, dst_at] = self.batch[item / (cut_n * cut_i)];
        let (n, i) = (item / cut_i % cut_n * ITEM.0, item % cut_i * ITEM.1);
        let n = &self.n[n..self.n.len().min(n + ITEM.0)];
        let i = &self.i[i..self.i.len().min(i + ITEM.1)];
        let a = self.a.at(worker, WHOLE).wrapping_add(a_at);
        let b = self.b.as_ref().map(|b| b.at(worker, WHOLE).wrapping_add(b_at));
        let dst = self.dst.at(worker, WHOLE).wrapping_add(dst_at);
        for (c, chunk) in self.chunks.iter().enumerate() {
            // SAFETY: entries of `dst`, the item's own; offsets of the views.
            let put = |at: usize, sum: f32| unsafe { *dst.add(at) = if c == 0 { sum } else { *dst.add(at) + sum } };
            for n in n.chunks(LEFT) {
                // A block that is not full repeats its last list.
                let left = std::array::from_fn(|l| a.wrapping_add(n[l.min(n.len() - 1)][0]).cast_const());
                let Some(b) = b else {
                    let mut sums = [0.0; LEFT];
                    // SAFETY: the caller's contract.
                    unsafe { (kernels.sums)(&left, chunk, &mut sums) };
                    for i in i {
                        n.iter().zip(sums).for_each(|(n, sum)| put(n[1] + i[1], sum));
                    }
                    continue;
                };
                for i in i.chunks(RIGHT) {
                    let right = std::array::from_fn(|r| b.wrapping_add(i[r.min(i.len() - 1)][0]).cast_const());
                    let mut sums = [[0.0; RIGHT]; LEFT];
                    // SAFETY: the caller's contract.
                    unsafe { (kernels.dots)(&left, &right, chunk, &mut sums) };
                    for (n, sums) in n.iter().zip(sums) {
                        i.iter().zip(sums).for_each(|(i, sum)| put(n[1] + i[1], sum));
                    }
                }
            }
        }
    }
}

/// Cuts the numbers that are summed up: `rows` side by side for every entry of `k`, which become more where the entries
/// of `k` follow each other.
fn chunks(k: Walk<2>, rows: usize, both: bool) -> Vec<Vec<Segment>> {
    let mut k = k;
    let mut rows = rows;
    if let Some((size, [left, right])) = k.dims.last().copied()
        && left == rows
        && (right == rows || !both)
    {
        rows *= size;
        k.dims.pop();
    }
    let mut chunks: Vec<Vec<Segment>> = vec![Vec::new()];
    let mut room = CHUNK;
    k.each(|[left, right]| {
        let mut start = 0;
        while start < rows {
            if room == 0 {
                chunks.push(Vec::new());
                room = CHUNK;
            }
            let len = room.min(rows - start);
            chunks.last_mut().expect("there is one").push(Segment { left: left + start, right: right + start, len });
            start += len;
            room -= len;
        }
    });
    chunks
}

/// Packing, ready to run.
#[derive(Debug)]
pub(super) struct PackCode {
    from: Place,
    to: Place,
    n: usize,
    n_step: usize,
    batch: Vec<[usize; 1]>,
    k: Walk<1>,
}

impl PackCode {
    pub(super) fn new(pack: &Pack, to: Place) -> PackCode {
        let nb = pack.batch.len();
        let strides = Place::strides(&pack.from);
        PackCode {
            from: Place::new(&pack.from, None),
            to,
            n: pack.n,
            n_step: strides[nb],
            batch: Walk::new(&pack.batch, [strides[..nb].to_vec()]).offsets(),
            k: Walk::new(&pack.k, [strides[nb + 1..].to_vec()]),
        }
    }

    /// Panels of an item: some thousands of numbers.
    fn together(&self) -> usize {
        (8192 / (PANEL * self.k.len()).max(1)).max(1)
    }

    fn cuts(&self) -> usize {
        self.n.div_ceil(PANEL).div_ceil(self.together())
    }

    pub(super) fn items(&self) -> usize {
        self.batch.len() * self.cuts()
    }

    /// # Safety
    /// Views are inside their buffers; nobody writes what is read or touches the item's panels.
    pub(super) unsafe fn run(&self, item: usize, worker: &Worker) {
        let (batch, cut) = (item / self.cuts(), item % self.cuts());
        let k = self.k.len();
        let from = self.from.at(worker, WHOLE).wrapping_add(self.batch[batch][0]);
        let to = self.to.at(worker, WHOLE).wrapping_add(batch * packed_len(self.n, k));
        let panels = self.n.div_ceil(PANEL);
        for panel in cut * self.together()..panels.min((cut + 1) * self.together()) {
            let outputs = PANEL.min(self.n - panel * PANEL);
            let from = from.wrapping_add(panel * PANEL * self.n_step);
            let mut to = to.wrapping_add(panel * PANEL * k);
            self.k.each(|[at]| {
                for j in 0..PANEL {
                    // SAFETY: entries of the view and of the item's panels.
                    unsafe { *to.add(j) = if j < outputs { *from.add(at + j * self.n_step) } else { 0.0 } };
                }
                to = to.wrapping_add(PANEL);
            });
        }
    }
}

/// A draw, ready to run.
#[derive(Debug)]
pub(super) struct RandomCode {
    draw: usize,
    noise: Noise,
    /// Entries of one permutation; 1 where there is none.
    last: usize,
    len: usize,
    to: Place,
}

/// The random numbers of a program: generated, or given by the caller.
#[derive(Debug)]
pub(super) struct Draws {
    pub names: Vec<String>,
    pub given: Vec<RwLock<Option<Box<[f32]>>>>,
    pub program: String,
}

impl Draws {
    pub(super) fn new(program: &Program) -> Draws {
        let given = program.draws.iter().map(|_| RwLock::new(None)).collect();
        Draws { names: program.draws.clone(), given, program: program.name.clone() }
    }
}

/// Numbers of an item.
const NUMBERS: usize = 2048;

impl RandomCode {
    pub(super) fn new(random: &Random, len: usize, to: Place) -> RandomCode {
        let last = if let Noise::Subset { .. } = random.noise { random.last.max(1) } else { 1 };
        RandomCode { draw: random.draw as usize, noise: random.noise, last, len, to }
    }

    pub(super) fn draw(&self) -> (usize, usize) {
        (self.draw, self.len)
    }

    /// Whole permutations.
    fn together(&self) -> usize {
        NUMBERS.next_multiple_of(self.last)
    }

    pub(super) fn items(&self) -> usize {
        self.len.div_ceil(self.together())
    }

    /// Places that a permutation has.
    pub(super) fn places(&self) -> usize {
        if let Noise::Subset { of } = self.noise { of as usize } else { 0 }
    }

    /// # Safety
    /// Nobody else touches the item's numbers.
    pub(super) unsafe fn run(&self, item: usize, worker: &Worker, draws: &Draws, clock: (u64, u64), places: &mut [u32]) {
        let first = item * self.together();
        let len = self.together().min(self.len - first);
        // SAFETY: the draw's buffer has `len` numbers, and these are the item's.
        let to = unsafe { std::slice::from_raw_parts_mut(self.to.at(worker, WHOLE).wrapping_add(first), len) };
        let given = draws.given[self.draw].read().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(given) = &*given {
            return to.copy_from_slice(&given[first..first + len]);
        }
        let stream = Stream::new(&draws.names[self.draw], clock.0, &draws.program, clock.1);
        let counters = first as u64..;
        match self.noise {
            Noise::Uniform => to.iter_mut().zip(counters).for_each(|(x, i)| *x = stream.uniform(i) as f32),
            Noise::Gaussian => to.iter_mut().zip(counters).for_each(|(x, i)| *x = stream.gaussian(i) as f32),
            Noise::Subset { of } => {
                for (row, counter) in to.chunks_mut(self.last).zip(counters.step_by(self.last)) {
                    let places = &mut places[..of as usize];
                    stream.shuffle(counter, row.len(), places);
                    row.iter_mut().zip(places).for_each(|(x, place)| *x = *place as f32);
                }
            }
        }
    }
}
