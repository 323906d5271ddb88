//! Kernels that are not row-parallel: sums over rows, packed weights, random numbers.

use std::sync::RwLock;

use crate::ir::Noise;
use crate::kernel::{Base, Contract, LANES, PANEL, Pack, Program, Random, View, packed_len};
use crate::random::Stream;

use super::place::{LINE, Place, WHOLE, Walk, Worker};
use micro::kernels::Kernels;
use micro::rows::{CHUNK, GATHERED, LISTS, List, Outer, Segment, Sums};

/// Lists of an item, and turned ones: what is gathered stays in the second-level cache, while it is multiplied by one panel after
/// the other of what is turned.
const ITEM: (usize, usize) = (128, 256);

/// Sums over rows, ready to run.
#[derive(Debug)]
pub(super) struct ContractCode {
    lists: Side,
    /// The other operand of products.
    turned: Option<Side>,
    dst: Place,
    /// Offsets of lists, turned, dst.
    batch: Vec<[usize; 3]>,
    /// The sum's numbers; each chunk is summed up by itself, then added to those before.
    chunks: Vec<Vec<Segment>>,
}

/// An operand, with the offsets of its lists and of what they give in the destination.
#[derive(Debug)]
struct Side {
    from: Place,
    offsets: Vec<List>,
}

/// Bytes of the tables that a sum over rows goes by, at most.
pub(super) fn offset_bytes(contract: &Contract) -> u64 {
    let product = |dims: &[usize]| dims.iter().product::<usize>() as u64;
    let (lists, batch) = (product(&contract.n) + product(&contract.i), product(&contract.batch));
    let segments = product(&contract.k) * contract.rows.div_ceil(LANES) as u64;
    let size = |n: u64, of: usize| n * of as u64;
    size(lists, size_of::<List>()) + size(batch, size_of::<[usize; 3]>()) + size(segments, size_of::<Segment>())
}

/// Bytes that a worker gathers and turns for a sum of products, at most.
pub(super) fn turned_bytes(contract: &Contract) -> u64 {
    let lists = contract.n.iter().product::<usize>().max(contract.i.iter().product()).min(ITEM.0);
    let numbers = CHUNK * LANES + lists.div_ceil(LISTS) * LISTS * GATHERED;
    if contract.b.is_some() { (numbers * size_of::<f32>()) as u64 } else { 0 }
}

impl ContractCode {
    pub(super) fn new(contract: &Contract, distances: &[usize]) -> ContractCode {
        let (nb, nn, ni) = (contract.batch.len(), contract.n.len(), contract.i.len());
        let part = |s: &[usize], from: usize, len: usize| s[from..from + len].to_vec();
        let dst = Place::strides(&contract.dst);
        let [to_n, to_i] = [part(&dst, nb, nn), part(&dst, nb + nn, ni)];
        let a = Place::strides(&contract.a);
        let side = |of: &View, dims: &[usize], strides: [Vec<usize>; 2]| {
            let offsets = Walk::new(dims, strides).offsets().into_iter().map(|[from, to]| List { from, to }).collect();
            Side { from: Place::new(of, None), offsets }
        };
        let mut lists = side(&contract.a, &contract.n, [part(&a, nb, nn), to_n]);
        let mut along = a;
        let mut turned = None;
        let distance = |view: &View| if let Base::Buffer(id) = view.base { distances[id.0 as usize] } else { LANES };
        let mut blocks = [&contract.a, contract.b.as_ref().unwrap_or(&contract.a)].map(distance);
        let mut across = vec![0; nb + ni + contract.k.len()];
        let mut counts = [nn, ni];
        if let Some(b) = &contract.b {
            across = Place::strides(b);
            let mut other = side(b, &contract.i, [part(&across, nb, ni), to_i]);
            if work(other.offsets.len(), lists.offsets.len()) < work(lists.offsets.len(), other.offsets.len()) {
                std::mem::swap(&mut lists, &mut other);
                std::mem::swap(&mut along, &mut across);
                counts.reverse();
                blocks.reverse();
            }
            turned = Some(other);
        }
        let k = Walk::new(&contract.k, [along[nb + counts[0]..].to_vec(), across[nb + counts[1]..].to_vec()]);
        ContractCode {
            chunks: chunks(k, contract.rows, blocks, turned.is_some()),
            lists,
            turned,
            dst: Place::new(&contract.dst, None),
            batch: Walk::new(&contract.batch, [part(&along, 0, nb), part(&across, 0, nb), part(&dst, 0, nb)]).offsets(),
        }
    }

    fn cuts(&self) -> (usize, usize) {
        (self.lists.offsets.len().div_ceil(ITEM.0), self.turned.as_ref().map_or(1, |t| t.offsets.len().div_ceil(ITEM.1)))
    }

    pub(super) fn items(&self) -> usize {
        let (lists, turned) = self.cuts();
        self.batch.len() * lists * turned
    }

    /// Products that an item adds up.
    pub(super) fn length(&self) -> usize {
        let turned = self.turned.as_ref().map_or(1, |side| side.offsets.len().min(ITEM.1));
        self.lists.offsets.len().min(ITEM.0) * turned * self.chunks.len()
    }

    /// Numbers that an item gathers and turns at a time.
    pub(super) fn scratch(&self) -> usize {
        let groups = self.lists.offsets.len().min(ITEM.0).div_ceil(LISTS);
        if self.turned.is_some() { CHUNK * LANES + groups * LISTS * GATHERED } else { 0 }
    }

    /// # Safety
    /// Views are inside their buffers; the machine has the kernels' instruction set; nobody writes what is read or
    /// touches the item's outputs; `scratch` is this worker's own and large enough.
    pub(super) unsafe fn run(&self, item: usize, worker: &Worker, kernels: &Kernels, scratch: *mut f32) {
        let (lists, turned) = self.cuts();
        let [lists_at, turned_at, dst_at] = self.batch[item / (lists * turned)];
        let dst = self.dst.at(worker, WHOLE).wrapping_add(dst_at);
        let lists = self.lists.of(item / turned % lists, ITEM.0);
        let from = self.lists.from.at(worker, WHOLE).wrapping_add(lists_at);
        let Some(side) = &self.turned else {
            // SAFETY: the caller's contract.
            return unsafe { self.sums(lists, from, dst, kernels) };
        };
        let turned = side.of(item % turned, ITEM.1);
        let other = side.from.at(worker, WHOLE).wrapping_add(turned_at);
        let gathered = |group: usize| scratch.wrapping_add(CHUNK * LANES + group * LISTS * GATHERED);
        let (groups, panels) = (lists.len().div_ceil(LISTS), turned.len().div_ceil(LANES));
        for (c, segments) in self.chunks.iter().enumerate() {
            let len: usize = segments.iter().map(|s| s.len).sum();
            let after = self.chunks.get(c + 1).map_or(&[][..], Vec::as_slice);
            for (group, lists) in lists.chunks(LISTS).enumerate() {
                // SAFETY: the caller's contract.
                unsafe { (kernels.gather)(from, lists, segments, gathered(group)) };
            }
            for (p, lanes) in turned.chunks(LANES).enumerate() {
                // A vector that is not full repeats its last list.
                let columns = std::array::from_fn(|l| other.wrapping_add(lanes[l.min(lanes.len() - 1)].from).cast_const());
                // SAFETY: the caller's contract.
                unsafe { (kernels.turn)(&columns, segments, scratch) };
                let behind = turned.chunks(LANES).nth(p + 1).unwrap_or_default();
                for (group, rows) in lists.chunks(LISTS).enumerate() {
                    // What is turned next, and the lists of the next chunk, a little at a time.
                    ask(other, behind, part(segments, group, groups), |s| s.turned);
                    ask(from, part(lists, p * groups + group, panels * groups), after, |s| s.list);
                    let outer =
                        Outer { lists: rows, gathered: gathered(group), lanes, turned: scratch, len, to: dst, accumulate: c > 0 };
                    // SAFETY: the caller's contract.
                    unsafe { (kernels.outer)(&outer) };
                }
            }
        }
    }

    /// # Safety
    /// That of [`ContractCode::run`].
    unsafe fn sums(&self, lists: &[List], from: *const f32, dst: *mut f32, kernels: &Kernels) {
        for (c, segments) in self.chunks.iter().enumerate() {
            for lists in lists.chunks(LISTS) {
                // SAFETY: the caller's contract.
                unsafe { (kernels.sums)(&Sums { from, lists, segments, to: dst, accumulate: c > 0 }) };
            }
        }
    }
}

impl Side {
    /// The lists of one cut of them.
    fn of(&self, cut: usize, len: usize) -> &[List] {
        &self.offsets[cut * len..self.offsets.len().min((cut + 1) * len)]
    }
}

/// Asks for the lines of the cache with the numbers of some lists before they are read: lists are too short and too many for the
/// machine to see it coming, and all lines at once would hold up what is being computed.
fn ask(from: *const f32, lists: &[List], segments: &[Segment], side: fn(&Segment) -> usize) {
    for s in segments {
        for list in lists {
            let at = from.wrapping_add(list.from + side(s));
            (0..s.len).step_by(LINE).for_each(|i| micro::prefetch(at.wrapping_add(i)));
        }
    }
}

/// One of so many parts of a list.
fn part<T>(all: &[T], which: usize, of: usize) -> &[T] {
    &all[all.len() * which / of..all.len() * (which + 1) / of]
}

/// How long it takes to sum up the products of so many lists with so many that are turned, next to each other.
fn work(lists: usize, turned: usize) -> usize {
    const TURN: usize = 8;
    let vectors = turned.div_ceil(LANES) * LANES;
    lists.next_multiple_of(LISTS) * vectors + TURN * vectors * lists.div_ceil(ITEM.0)
}

/// Cuts the numbers that are summed up: `rows` for every entry of `k`, in blocks that are so far from each other in the two
/// operands. They lie side by side where blocks follow each other, and more of them where the entries of `k` do.
fn chunks(k: Walk<2>, rows: usize, blocks: [usize; 2], both: bool) -> Vec<Vec<Segment>> {
    let mut k = k;
    let mut rows = rows;
    let side_by_side = blocks == [LANES; 2];
    if let Some((size, [left, right])) = k.dims.last().copied()
        && side_by_side
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
            let (block, inside) = (start / LANES, start % LANES);
            let len = room.min(rows - start).min(if side_by_side { rows } else { LANES - inside });
            let [list, turned] = [(left, 0), (right, 1)].map(|(at, side)| at + block * blocks[side] + inside);
            chunks.last_mut().expect("there is one").push(Segment { list, turned, len });
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
