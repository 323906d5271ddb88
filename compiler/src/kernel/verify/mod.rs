//! The verifier: what a backend relies on, checked.
//!
//! Places
//! - Every entry of every view, for all steps of the loops that move it and all rows, lies in its buffer or local. Reading
//!   a whole lane vector may go past the last row, by less than [`LANES`](super::LANES): backends have that room.
//! - *Whole vectors.* Map, gemm, sort and gather write whole lane vectors, rows past the last too, and so spoil up to the
//!   next multiple of [`LANES`](super::LANES). Where such a statement writes a buffer and the rows do not fill the last tile,
//!   the offset, the strides and the loops' distances of the view are multiples of the rows filled up, so that nothing but
//!   a vector's own end is spoilt. Copy and scatter write no row past the last and need no such room.
//! - What is written is written once: no two entries of a written view, nor two rows, lie on one place (but for the
//!   dimensions that a sum, a maximum or a scatter reduces), and no two written views of a statement meet.
//! - Within a statement nothing that is written is read, but by a map's load with the very view of the store.
//! - A local lies in the arena, is written before it is read, and shares no place with a local that lives at the same time.
//!   It lives from its first use to its last, and through the whole of a loop if it is used both in and outside of it.
//!
//! Order
//! - Rows are on their own: in a tile, no row touches a place of a buffer that another row writes.
//! - A kernel touches nothing that another of its launch writes.
//! - Inputs and constants are not written. What else is read has been written before, as far as whole buffers tell: the
//!   interpreter sees it for each number. A temporary does not live from `prepare` to the steps.
//! - Buffers that are swapped have one length; what is kept is swapped only with what is kept.
//! - Sizes, distances, memory and work stay within [`crate::budget`]; nothing here overflows. An axis that a gather or a
//!   scatter takes entries from has at least one.
//! - A gemm's weight is a buffer that a [`Pack`] with its `k` fills, from the start of a panel on; its view is a splat.

mod flow;
mod limits;
mod region;
#[cfg(test)]
mod tests;
mod tile;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::access::{Access, Allowed};
use super::{Base, Buffer, BufferId, BufferKind, Kernel, Lanes, LocalId, LoopId, PANEL, Pack, Program, Step, Stmt, Work};
use crate::ir::Noise;
use crate::rules::Rule;
use limits::{Meter, countable};
use region::{Counts, Region};

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyError {
    /// The kernel that it concerns; None for the whole program.
    pub kernel: Option<String>,
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Some(kernel) => write!(f, "kernel `{kernel}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for VerifyError {}

impl From<String> for VerifyError {
    fn from(message: String) -> VerifyError {
        VerifyError { kernel: None, message }
    }
}

/// The first invariant that does not hold, if one does not.
pub fn verify(program: &Program) -> Result<(), VerifyError> {
    let mut check =
        Check { program, packs: BTreeMap::new(), counts: Counts::new(), loops: BTreeSet::new(), meter: Meter::default() };
    limits::program(program)?;
    check.interface()?;
    // `accesses` multiplies the sizes of products; these are bounded first.
    each_kernel(&program.prepare, &mut |kernel| limits::weights(kernel))?;
    each_kernel(&program.steps, &mut |kernel| limits::weights(kernel))?;
    limits::operands(program, &check.meter)?;
    for steps in [&program.prepare, &program.steps] {
        each_kernel(steps, &mut |kernel| check.note_pack(kernel))?;
    }
    check.steps(&program.prepare)?;
    check.steps(&program.steps)?;
    flow::check(program)
}

/// Elementary operations of one run, about, with those of `prepare`.
pub fn operations(program: &Program) -> u64 {
    limits::operations(program, &program.prepare).saturating_add(limits::operations(program, &program.steps))
}

type Checked = Result<(), String>;

/// Fails with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(format!($($message)*).into());
        }
    };
}
use ensure;

struct Check<'a> {
    program: &'a Program,
    /// The packs by the buffer that they fill.
    packs: BTreeMap<BufferId, &'a Pack>,
    /// The loops around what is being checked.
    counts: Counts,
    /// All loops so far.
    loops: BTreeSet<LoopId>,
    meter: Meter,
}

impl<'a> Check<'a> {
    fn interface(&self) -> Checked {
        let p = self.program;
        for (i, Buffer { name, len, kind }) in p.buffers.iter().enumerate() {
            if let BufferKind::Const(numbers) = kind {
                ensure!(numbers.len() == *len, "buffer %{i} `{name}` has {} numbers for {len} places", numbers.len());
            }
        }
        let mut given = BTreeSet::new();
        for id in &p.inputs {
            ensure!(self.buffer(*id)?.kind == BufferKind::Input, "the input {} is of another kind", show(*id));
            ensure!(given.insert(*id), "{} is given as an input twice", show(*id));
        }
        for (i, buffer) in p.buffers.iter().enumerate() {
            let id = BufferId(i as u32);
            ensure!(buffer.kind != BufferKind::Input || given.contains(&id), "{} is not among the inputs", show(id));
        }
        for id in &p.outputs {
            ensure!(self.buffer(*id)?.kind == BufferKind::Output, "the output {} is of another kind", show(*id));
        }
        Ok(())
    }

    /// One buffer is packed in one way, so that a gemm can tell how its weight lies.
    fn note_pack(&mut self, kernel: &'a Kernel) -> Checked {
        let Work::Pack(pack) = &kernel.work else { return Ok(()) };
        match self.packs.insert(pack.to, pack) {
            Some(before) => {
                let shape = |p: &Pack| (p.batch.clone(), p.n, p.k.clone());
                ensure!(shape(before) == shape(pack), "{} is packed in two ways", show(pack.to));
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), VerifyError> {
        for step in steps {
            match step {
                Step::Launch(kernels) => {
                    for kernel in kernels {
                        self.kernel(kernel).map_err(|message| VerifyError { kernel: Some(kernel.name.clone()), message })?;
                    }
                    self.launch(kernels)?;
                }
                Step::Loop { id, count, body, .. } => {
                    self.enter(*id, *count)?;
                    self.steps(body)?;
                    self.counts.remove(id);
                }
                Step::Swap(a, b) => self.swap(*a, *b)?,
            }
        }
        Ok(())
    }

    fn enter(&mut self, id: LoopId, count: usize) -> Checked {
        limits::loop_number(id.0)?;
        ensure!(self.loops.insert(id), "there are two loops t{}", id.0);
        self.counts.insert(id, count);
        Ok(())
    }

    fn swap(&self, a: BufferId, b: BufferId) -> Checked {
        let [x, y] = [self.buffer(a)?, self.buffer(b)?];
        let (a, b) = (show(a), show(b));
        ensure!(x.len == y.len, "{a} and {b} are swapped, but have {} and {} numbers", x.len, y.len);
        for (buffer, name) in [(x, &a), (y, &b)] {
            let fixed = matches!(buffer.kind, BufferKind::Input | BufferKind::Const(_));
            ensure!(!fixed, "{name} is swapped, but may not be written");
        }
        let kept = [x, y].map(|buffer| buffer.kind == BufferKind::Kept);
        ensure!(kept[0] == kept[1], "{a} and {b} are swapped, but only one of them is kept");
        Ok(())
    }

    fn kernel(&mut self, kernel: &Kernel) -> Checked {
        match &kernel.work {
            Work::Tile(tile) => self.tile(tile),
            Work::Contract(contract) => {
                limits::contract(contract, &self.meter)?;
                let accesses = contract.accesses();
                for access in &accesses {
                    self.access(access, &[contract.rows])?;
                    ensure!(access.buffer().is_some(), "{}: it is not a buffer", access.name);
                }
                ensure!(contract.b.is_some() || contract.i.is_empty(), "there is no b for the dimensions i");
                self.apart(&accesses, &[contract.rows])
            }
            Work::Pack(pack) => {
                let sizes = [&pack.batch[..], &[pack.n.saturating_add(PANEL)], &pack.k].concat();
                limits::pack(pack, &self.meter)?;
                ensure!(countable(&sizes), "the weight is larger than can be counted");
                let from = pack.from_access();
                self.access(&from, &[])?;
                ensure!(from.buffer().is_some_and(|id| id != pack.to), "from: it is not another buffer");
                let (to, len) = (self.written(pack.to)?, pack.len());
                ensure!(to.len == len, "{} has {} numbers, the packed weight {len}", show(pack.to), to.len);
                Ok(())
            }
            Work::Random(random) => {
                limits::random(random)?;
                let (to, draws) = (self.written(random.to)?, self.program.draws.len());
                ensure!((random.draw as usize) < draws, "there is no draw {}; there are {draws}", random.draw);
                if let Noise::Subset { of } = random.noise {
                    let last = random.last;
                    ensure!(last <= of as usize, "a subset of {of} cannot have {last} entries");
                    ensure!(last > 0 && to.len % last == 0, "{} numbers are no permutations of {last}", to.len);
                }
                Ok(())
            }
        }
    }

    /// One operand by itself: its base exists, its lanes are of a kind that the statement takes, its entries are in bounds;
    /// if it is written, it may be, and every place once.
    fn access(&self, access: &Access<'_>, rows: &[usize]) -> Checked {
        self.access_in(access, rows, None)
    }

    /// Likewise, in a tile whose locals have these lengths.
    fn access_in(&self, access: &Access<'_>, rows: &[usize], locals: Option<&[usize]>) -> Checked {
        let view = access.view;
        let name = &access.name;
        let len = match view.base {
            Base::Buffer(id) if access.role.writes() => self.written(id)?.len,
            Base::Buffer(id) => self.buffer(id)?.len,
            Base::Local(LocalId(id)) => match locals.and_then(|l| l.get(id as usize)) {
                Some(len) => *len,
                None => return Err(format!("{name}: there is no local ${id}")),
            },
        };
        let (strides, dims) = (view.strides.len(), access.dims.len());
        ensure!(strides == dims, "{name}: it has {strides} strides for {dims} dimensions");
        ensure!(countable(&access.dims), "{name}: it has more entries than can be counted");
        for (i, (id, _)) in view.loops.iter().enumerate() {
            ensure!(self.counts.contains_key(id), "{name}: there is no loop t{} around", id.0);
            ensure!(view.loops[..i].iter().all(|(other, _)| other != id), "{name}: loop t{} moves it twice", id.0);
        }
        let fits = match (&view.lanes, access.allowed) {
            (Lanes::Unit, allowed) => allowed != Allowed::Splat,
            (Lanes::Splat, allowed) => matches!(allowed, Allowed::Splat | Allowed::UnitOrSplat | Allowed::Any),
            (Lanes::Strided(_), allowed) => matches!(allowed, Allowed::UnitOrStrided | Allowed::Any),
        };
        ensure!(fits, "{name}: its lanes are {:?}, where {:?} is needed", view.lanes, access.allowed);
        if matches!(view.base, Base::Local(_)) {
            ensure!(view.lanes == Lanes::Unit, "{name}: the lanes of a local are side by side");
        }
        if let Lanes::Strided(strides) = &view.lanes {
            let (strides, axes) = (strides.len(), rows.len());
            ensure!(strides == axes, "{name}: it has {strides} strides for {axes} axes of rows");
        }
        limits::distances(access, rows, &self.counts)?;

        // A tile without rows is not run.
        if locals.is_some() && rows.contains(&0) {
            return Ok(());
        }
        // Room for what is asked; rows past the last come on top and are the backend's, or the next check's.
        let beyond = access.beyond.filter(|_| !Rule::GatheredAxis.left_out());
        let asked = Access { whole: false, beyond, ..access.clone() };
        let Some(region) = Region::of(&asked, rows, &self.counts, &self.counts) else { return Ok(()) };
        let last = region.last(&self.counts);
        ensure!(last < len, "{name}: it goes to place {last} of {len}");
        if access.role.writes() {
            self.whole_vectors(access, rows)?;
            // Places along an axis meet the dimensions that are scattered, on purpose.
            let scatters = access.beyond.is_some();
            ensure!(scatters || region.distinct(), "{name}: a place is written twice");
        }
        Ok(())
    }

    /// The rule of whole vectors.
    fn whole_vectors(&self, access: &Access<'_>, rows: &[usize]) -> Checked {
        let count: usize = rows.iter().product();
        let padded = region::padded(count);
        if !access.whole || access.buffer().is_none() || padded == count || access.view.lanes != Lanes::Unit {
            return Ok(());
        }
        let view = access.view;
        let dims = access.dims.iter().copied().zip(view.strides.iter().copied()).chain(access.beyond);
        let loops = view.loops.iter().map(|(id, stride)| (self.counts[id], *stride));
        let moves = dims.chain(loops).filter(|(size, _)| *size > 1).map(|(_, stride)| stride);
        for distance in moves.chain([view.offset]) {
            ensure!(
                distance % padded == 0,
                "{}: vectors of {count} rows are written whole, {padded} at a time, and {distance} is no multiple",
                access.name
            );
        }
        Ok(())
    }

    /// Nothing that one operand of a statement writes is touched by another, but by a load with the very view.
    fn apart(&self, accesses: &[Access<'_>], rows: &[usize]) -> Checked {
        for (i, a) in accesses.iter().enumerate() {
            for b in &accesses[..i] {
                if a.view.base != b.view.base || !(a.role.writes() || b.role.writes()) {
                    continue;
                }
                let reads_one = a.role.writes() != b.role.writes();
                if reads_one && a.entrywise && b.entrywise && a.same_places(b) {
                    continue;
                }
                let [x, y] = [a, b].map(|access| Region::of(access, rows, &self.counts, &self.counts));
                let (Some(x), Some(y)) = (x, y) else { continue };
                ensure!(!x.meets(&y, &self.counts, &self.meter)?, "{} and {} meet", b.name, a.name);
            }
        }
        Ok(())
    }

    /// Kernels of one launch do not touch what another of them writes.
    fn launch(&self, kernels: &[Kernel]) -> Checked {
        let mut by_buffer: BTreeMap<BufferId, Vec<(usize, Touch)>> = BTreeMap::new();
        for (k, kernel) in kernels.iter().enumerate() {
            for touch in self.touches(kernel) {
                by_buffer.entry(touch.buffer).or_default().push((k, touch));
            }
        }
        // Buffers that a launch only reads, such as weights, need no comparison.
        for (buffer, touches) in by_buffer.iter().filter(|(_, touches)| touches.iter().any(|(_, t)| t.writes)) {
            for (n, (i, x)) in touches.iter().enumerate() {
                for (j, y) in touches[..n].iter().filter(|(j, y)| j != i && (x.writes || y.writes)) {
                    let (a, b) = (&kernels[*i].name, &kernels[*j].name);
                    let meets = x.region.meets(&y.region, &x.counts(y), &self.meter)?;
                    ensure!(!meets, "`{b}` and `{a}` of one launch meet in {}, which one writes", show(*buffer));
                }
            }
        }
        Ok(())
    }

    /// What a kernel touches of buffers, over all steps of its own loops.
    fn touches(&self, kernel: &Kernel) -> Vec<Touch> {
        let mut list = Vec::new();
        let mut add = |access: &Access<'_>, rows: &[usize], counts: &Counts| {
            let Some(buffer) = access.buffer() else { return };
            let Some(region) = Region::of(access, rows, counts, &self.counts) else { return };
            list.push(Touch { buffer, region, writes: access.role.writes(), counts: counts.clone() });
        };
        match &kernel.work {
            // A tile without rows is not run.
            Work::Tile(tile) if tile.rows.contains(&0) => {}
            Work::Tile(tile) => each_stmt(&tile.body, &mut self.counts.clone(), &mut |stmt, counts| {
                stmt.accesses().iter().for_each(|access| add(access, &tile.rows, counts));
            }),
            Work::Contract(contract) => contract.accesses().iter().for_each(|a| add(a, &[contract.rows], &self.counts)),
            Work::Pack(pack) => add(&pack.from_access(), &[], &self.counts),
            Work::Random(_) => {}
        }
        if let Some(buffer) = kernel.work.fills() {
            let region = Region::whole(self.program.buffers[buffer.0 as usize].len);
            list.push(Touch { buffer, region, writes: true, counts: self.counts.clone() });
        }
        list
    }

    fn buffer(&self, id: BufferId) -> Result<&'a Buffer, String> {
        self.program.buffers.get(id.0 as usize).ok_or_else(|| format!("there is no buffer {}", show(id)))
    }

    /// A buffer that a kernel writes.
    fn written(&self, id: BufferId) -> Result<&'a Buffer, String> {
        let buffer = self.buffer(id)?;
        match buffer.kind {
            BufferKind::Input => Err(format!("{} is an input and may not be written", show(id))),
            BufferKind::Const(_) => Err(format!("{} is constant and may not be written", show(id))),
            BufferKind::Output | BufferKind::Temp | BufferKind::Kept => Ok(buffer),
        }
    }
}

/// A part of a buffer that a kernel touches.
struct Touch {
    buffer: BufferId,
    region: Region,
    writes: bool,
    /// The loops around.
    counts: Counts,
}

impl Touch {
    fn counts(&self, other: &Touch) -> Counts {
        self.counts.iter().chain(&other.counts).map(|(id, count)| (*id, *count)).collect()
    }
}

fn show(id: BufferId) -> String {
    format!("%{}", id.0)
}

fn each_kernel<'a>(steps: &'a [Step], f: &mut impl FnMut(&'a Kernel) -> Checked) -> Checked {
    for step in steps {
        match step {
            Step::Launch(kernels) => kernels.iter().try_for_each(&mut *f)?,
            Step::Loop { body, .. } => each_kernel(body, f)?,
            Step::Swap(..) => {}
        }
    }
    Ok(())
}

/// Calls `f` with every statement that is no loop, and with the loops around it.
fn each_stmt(body: &[Stmt], counts: &mut Counts, f: &mut impl FnMut(&Stmt, &Counts)) {
    for stmt in body {
        match stmt {
            Stmt::Loop { id, count, body, .. } => {
                counts.insert(*id, *count);
                each_stmt(body, counts, f);
                counts.remove(id);
            }
            stmt => f(stmt, counts),
        }
    }
}
