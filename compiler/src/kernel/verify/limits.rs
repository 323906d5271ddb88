//! Limits: numbers that stay small enough to compute with, and work that comes to an end.
//!
//! Everything else in the verifier multiplies and adds sizes, distances and steps. These checks come first, so that
//! none of it overflows, and they hold for operands without entries too, which a backend compiles all the same.

use std::cell::Cell;

use super::super::access::Access;
use super::super::{Contract, Kernel, LANES, Lanes, PANEL, Pack, Program, Random, Step, Stmt, Tile, Work};
use super::region::Counts;
use super::{Checked, ensure};
use crate::budget::{BUFFERS, COMPARED, LISTED, LOOPS, NUMBERS, OPERATIONS, PLACES};
use crate::ir::Noise;

/// The product of sizes, those of 0 left out; None if it is larger than can be counted.
fn product(sizes: &[usize]) -> Option<usize> {
    let product = sizes.iter().try_fold(1usize, |n, size| n.checked_mul((*size).max(1)));
    product.filter(|n| *n <= NUMBERS)
}

/// Whether the product of sizes is a number that can be computed with.
pub(super) fn countable(dims: &[usize]) -> bool {
    product(dims).is_some()
}

/// What the entry of a list costs, in steps: a list takes memory for as long as the program is there.
const ENTRY: u64 = 64;

/// A backend lists the entries of some dimensions.
fn listed(name: &str, dims: &[&[usize]], meter: &Meter) -> Checked {
    match product(&dims.concat()) {
        Some(count) if count <= LISTED => meter.steps(count as u64 * ENTRY),
        _ => Err(format!("the dimensions {name} have more than {LISTED} entries")),
    }
}

/// Sizes and distances of an operand.
pub(super) fn distances(access: &Access<'_>, rows: &[usize], counts: &Counts) -> Checked {
    let (name, view) = (&access.name, access.view);
    let dims = access.dims.iter().copied().zip(view.strides.iter().copied()).chain(access.beyond);
    let loops = view.loops.iter().map(|(id, step)| (counts[id], *step));
    let strided = if let Lanes::Strided(strides) = &view.lanes { &strides[..] } else { &[] };
    let rows = rows.iter().copied().zip(strided.iter().copied());
    for (size, distance) in dims.chain(loops).chain(rows).chain([(1, view.offset)]) {
        let far = size.max(1).checked_mul(distance);
        ensure!(far.is_some_and(|far| far <= NUMBERS), "{name}: {size} steps of {distance} are more than can be counted");
    }
    Ok(())
}

pub(super) fn stmt(stmt: &Stmt, meter: &Meter) -> Checked {
    match stmt {
        Stmt::Gemm(gemm) => listed("m", &[&gemm.batch, &gemm.m], meter),
        Stmt::Sort(sort) => {
            ensure!(sort.n <= PLACES, "{} entries are sorted; a place is a number up to {PLACES}", sort.n);
            Ok(())
        }
        Stmt::Gather(gather) => along(gather.size, &gather.dims),
        Stmt::Scatter(scatter) => along(scatter.size, &scatter.dims),
        Stmt::Map(_) | Stmt::Copy(_) | Stmt::Loop { .. } => Ok(()),
    }
}

/// An axis that entries are taken from has a place for each of them.
fn along(size: usize, dims: &[usize]) -> Checked {
    ensure!(size > 0 || dims.contains(&0), "an axis of size 0 has no place to take");
    Ok(())
}

/// The packed weights of a kernel's products.
pub(super) fn weights(kernel: &Kernel) -> Checked {
    let mut checked = Ok(());
    if let Work::Tile(tile) = &kernel.work {
        tile.each_stmt(&mut |stmt| {
            if let Stmt::Gemm(gemm) = stmt
                && !countable(&[gemm.n.saturating_add(PANEL), gemm.k])
            {
                checked = Err(format!("`{}`: gemm: its weight is larger than can be counted", kernel.name));
            }
        });
    }
    checked
}

pub(super) fn contract(contract: &Contract, meter: &Meter) -> Checked {
    let dims = [("batch", &contract.batch), ("n", &contract.n), ("i", &contract.i), ("k", &contract.k)];
    dims.into_iter().try_for_each(|(name, dims)| listed(name, &[dims], meter))?;
    let segments = product(&contract.k).and_then(|k| k.checked_mul(contract.rows.div_ceil(LANES)));
    match segments {
        Some(count) if count <= LISTED => meter.steps(count as u64 * ENTRY),
        _ => Err(format!("it adds up more than {LISTED} vectors")),
    }
}

pub(super) fn pack(pack: &Pack, meter: &Meter) -> Checked {
    listed("batch", &[&pack.batch], meter)
}

pub(super) fn random(random: &Random) -> Checked {
    if let Noise::Subset { of } = random.noise {
        ensure!(of as usize <= PLACES, "a subset of {of}: a place is a number up to {PLACES}");
    }
    Ok(())
}

pub(super) fn loop_number(id: u32) -> Checked {
    ensure!(id < LOOPS, "loop t{id}: numbers of loops are below {LOOPS}");
    Ok(())
}

/// Memory and work of the whole program.
pub(super) fn program(program: &Program) -> Checked {
    ensure!(program.buffers.len() <= BUFFERS, "it has {} buffers, more than {BUFFERS}", program.buffers.len());
    let numbers = program.buffers.iter().try_fold(0usize, |n, b| n.checked_add(b.len));
    ensure!(numbers.is_some_and(|n| n <= NUMBERS), "its buffers have more than {NUMBERS} numbers");
    for (name, steps) in [("prepare", &program.prepare), ("steps", &program.steps)] {
        let work = operations(program, steps);
        ensure!(work <= OPERATIONS, "`{name}` takes {work} operations, more than {OPERATIONS}");
    }
    Ok(())
}

/// Elementary operations of some steps of a program, about.
pub(super) fn operations(program: &Program, steps: &[Step]) -> u64 {
    let of = |step: &Step| match step {
        Step::Launch(kernels) => kernels.iter().fold(1, |n: u64, kernel| n.saturating_add(kernel_work(program, &kernel.work))),
        Step::Loop { count, body, .. } => operations(program, body).max(1).saturating_mul(*count as u64),
        Step::Swap(..) => 1,
    };
    steps.iter().fold(0, |n: u64, step| n.saturating_add(of(step)))
}

fn times(sizes: &[&[usize]]) -> u64 {
    sizes.iter().flat_map(|s| s.iter()).fold(1, |n: u64, size| n.saturating_mul((*size).max(1) as u64))
}

fn kernel_work(program: &Program, work: &Work) -> u64 {
    match work {
        Work::Tile(tile) => tile_work(tile),
        Work::Contract(c) => times(&[&c.batch, &c.n, &c.i, &c.k, &[c.rows]]),
        Work::Pack(pack) => times(&[&pack.batch, &[pack.n], &pack.k]),
        Work::Random(random) => {
            let len = program.buffers.get(random.to.0 as usize).map_or(0, |b| b.len) as u64;
            match random.noise {
                Noise::Subset { of } => len.div_ceil(random.last.max(1) as u64).saturating_mul(u64::from(of)),
                Noise::Gaussian | Noise::Uniform => len,
            }
        }
    }
}

fn tile_work(tile: &Tile) -> u64 {
    fn body(stmts: &[Stmt]) -> u64 {
        let of = |stmt: &Stmt| match stmt {
            Stmt::Map(map) => times(&[&map.dims, &[map.code.len() + map.stores.len()]]),
            Stmt::Gemm(gemm) => times(&[&gemm.batch, &gemm.m, &[gemm.n, gemm.k]]),
            Stmt::Copy(copy) => times(&[&copy.dims]),
            Stmt::Sort(sort) => times(&[&sort.dims, &[sort.n, 64]]),
            Stmt::Gather(gather) => times(&[&gather.dims]),
            Stmt::Scatter(scatter) => times(&[&scatter.dims]),
            Stmt::Loop { count, body: inner, .. } => body(inner).max(1).saturating_mul(*count as u64),
        };
        stmts.iter().fold(0, |n: u64, stmt| n.saturating_add(of(stmt)))
    }
    times(&[&tile.rows]).saturating_mul(body(&tile.body))
}

/// Every operand is compared with others of its buffer, here and in the plan of the memory.
pub(super) fn operands(program: &Program, meter: &Meter) -> Checked {
    let mut counts = vec![0u64; program.buffers.len()];
    let mut count = |access: &Access<'_>| {
        if let Some(n) = access.buffer().and_then(|id| counts.get_mut(id.0 as usize)) {
            *n += 1;
        }
    };
    program.each_kernel(&mut |kernel| match &kernel.work {
        Work::Tile(tile) => tile.each_stmt(&mut |stmt| stmt.accesses().iter().for_each(&mut count)),
        Work::Contract(contract) => contract.accesses().iter().for_each(&mut count),
        Work::Pack(pack) => count(&pack.from_access()),
        Work::Random(_) => {}
    });
    counts.into_iter().try_for_each(|n| meter.steps(n.saturating_mul(n)))
}

/// What the verifier itself has spent, in places and operands compared.
#[derive(Debug, Default)]
pub(super) struct Meter(Cell<u64>);

impl Meter {
    /// Pays for places that are marked in memory, one by one.
    pub(super) fn spend(&self, places: u64) -> Checked {
        ensure!(places <= COMPARED.0, "its operands are too interleaved to be told apart");
        self.steps(places)
    }

    /// Pays for work that takes no memory: pairs of operands.
    pub(super) fn steps(&self, steps: u64) -> Checked {
        let total = self.0.get().saturating_add(steps);
        self.0.set(total);
        ensure!(total <= COMPARED.1, "it has too many operands to compare them all");
        Ok(())
    }
}
