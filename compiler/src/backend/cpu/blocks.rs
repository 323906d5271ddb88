//! How the rows of a buffer lie.
//!
//! In a kernel program the rows of an entry lie side by side, entry after entry: `entry * pitch + row`. A worker has [`LANES`] rows
//! at a time and would go through such a buffer in steps of `pitch`, one line of the cache and soon another page at each. So buffers
//! that live between kernels, and that every kernel sees by rows alone, have the entries of a *block* of rows together:
//! `row / LANES * distance + entry * LANES + row % LANES`. What is computed, and in which order, stays the same.

use std::collections::BTreeMap;

use crate::kernel::access::Access;
use crate::kernel::verify::VerifyError;
use crate::kernel::{Base, BufferKind, LANES, Lanes, LoopId, Program, Step, Stmt, View, Work};

use super::super::lifetimes::swap_groups;
use super::tile::widens;

/// Lays the program's buffers out. Says, for each, how far a block of rows is from the one before, in numbers.
/// What runs is the result, so the result is checked once more.
pub(super) fn lay_out(program: &Program) -> Result<(Program, Vec<usize>), VerifyError> {
    let groups = swap_groups(program);
    let alone = |b: usize| groups.iter().filter(|g| **g == groups[b]).count() == 1;
    let mut rows: Vec<Rows> = program
        .buffers
        .iter()
        .enumerate()
        .map(|(b, buffer)| Rows { seen: None, pitch: 0, by_rows: buffer.kind == BufferKind::Temp && alone(b) })
        .collect();
    program.each_kernel(&mut |kernel| look(&kernel.work, &mut rows));

    let distances: Vec<usize> = rows.iter().zip(&program.buffers).map(|(rows, buffer)| rows.distance(buffer.len)).collect();
    let mut program = program.clone();
    let mut entries = |view: &mut View| {
        if let Base::Buffer(id) = view.base
            && distances[id.0 as usize] != LANES
        {
            let pitch = rows[id.0 as usize].pitch;
            let by_entry = |numbers: &mut usize| *numbers = *numbers / pitch * LANES;
            by_entry(&mut view.offset);
            view.strides.iter_mut().for_each(by_entry);
            view.loops.iter_mut().for_each(|(_, step)| by_entry(step));
        }
    };
    program.each_kernel_mut(&mut |kernel| change(&mut kernel.work, &mut entries));
    check(&program, &distances)?;
    Ok((program, distances))
}

/// Every entry of every view of a laid-out buffer is a whole lane vector inside of its block, and every block lies in the
/// buffer. Entries stay apart because blocks do and because all views were divided by one pitch.
fn check(program: &Program, distances: &[usize]) -> Result<(), VerifyError> {
    let mut checked = Ok(());
    let mut counts = BTreeMap::new();
    fn of_stmts(body: &[Stmt], counts: &mut BTreeMap<LoopId, usize>) {
        for stmt in body {
            if let Stmt::Loop { id, count, body, .. } = stmt {
                counts.insert(*id, *count);
                of_stmts(body, counts);
            }
        }
    }
    fn of_steps(steps: &[Step], counts: &mut BTreeMap<LoopId, usize>) {
        for step in steps {
            match step {
                Step::Loop { id, count, body, .. } => {
                    counts.insert(*id, *count);
                    of_steps(body, counts);
                }
                Step::Launch(kernels) => kernels.iter().for_each(|kernel| {
                    if let Work::Tile(tile) = &kernel.work {
                        of_stmts(&tile.body, counts);
                    }
                }),
                Step::Swap(..) => {}
            }
        }
    }
    of_steps(&program.prepare, &mut counts);
    of_steps(&program.steps, &mut counts);
    program.each_kernel(&mut |kernel| {
        let mut see = |access: &Access<'_>, rows: usize| {
            let Some(id) = access.buffer().filter(|id| distances[id.0 as usize] != LANES) else { return };
            let (distance, len) = (distances[id.0 as usize], program.buffers[id.0 as usize].len);
            let view = access.view;
            let dims = access.dims.iter().copied().zip(view.strides.iter().copied());
            let moves: Vec<(usize, usize)> = dims.chain(view.loops.iter().map(|(id, step)| (counts[id], *step))).collect();
            if rows == 0 || moves.iter().any(|(size, _)| *size == 0) {
                return;
            }
            let whole = moves.iter().filter(|(size, _)| *size > 1).map(|(_, step)| *step).chain([view.offset]);
            let last = moves.iter().try_fold(view.offset, |at, (size, step)| at.checked_add((size - 1).checked_mul(*step)?));
            let end = rows.div_ceil(LANES).checked_mul(distance);
            let fits = whole.into_iter().all(|step| step % LANES == 0)
                && last.is_some_and(|last| last + LANES <= distance)
                && end.is_some_and(|end| end <= len)
                && view.lanes == Lanes::Unit
                && access.beyond.is_none();
            if !fits && checked.is_ok() {
                let message = format!("{}: laid out by rows, it leaves its block of {distance}", access.name);
                checked = Err(VerifyError { kernel: Some(kernel.name.clone()), message });
            }
        };
        match &kernel.work {
            Work::Tile(tile) => {
                tile.each_stmt(&mut |stmt| stmt.accesses().iter().for_each(|access| see(access, tile.row_count())));
            }
            Work::Contract(contract) => contract.accesses().iter().for_each(|access| see(access, contract.rows)),
            Work::Pack(pack) => see(&pack.from_access(), 1),
            Work::Random(_) => {}
        }
    });
    checked
}

/// What is known of how kernels see a buffer.
#[derive(Debug, Clone, Copy)]
struct Rows {
    seen: Option<usize>,
    /// Divides every distance between entries.
    pitch: usize,
    /// By rows alone, as far as has been seen.
    by_rows: bool,
}

impl Rows {
    /// How far blocks are from each other; [`LANES`] where entries are.
    fn distance(&self, len: usize) -> usize {
        match self.seen {
            Some(rows) if self.by_rows && self.pitch > 0 && self.pitch >= rows.next_multiple_of(LANES) => {
                let entries = len.div_ceil(self.pitch);
                let distance = entries * LANES;
                if rows.div_ceil(LANES) * distance <= len { distance } else { LANES }
            }
            _ => LANES,
        }
    }
}

fn look(work: &Work, rows: &mut [Rows]) {
    let mut see = |access: &Access<'_>, count: usize, fits: bool| {
        let Some(id) = access.buffer() else { return };
        let of = &mut rows[id.0 as usize];
        of.by_rows &= fits && access.view.lanes == Lanes::Unit && access.beyond.is_none() && of.seen.is_none_or(|s| s == count);
        of.seen = Some(count);
        let moving = access.dims.iter().zip(&access.view.strides).filter(|(size, _)| **size > 1).map(|(_, stride)| *stride);
        let steps = moving.chain([access.view.offset]).chain(access.view.loops.iter().map(|(_, step)| *step));
        of.pitch = steps.fold(of.pitch, greatest_common_divisor);
    };
    match work {
        Work::Tile(tile) => {
            let fits = !widens(tile);
            tile.each_stmt(&mut |stmt| stmt.accesses().iter().for_each(|a| see(a, tile.row_count(), fits)));
        }
        Work::Contract(contract) => {
            // What is summed up is seen by rows; what comes out is a plain array.
            contract.accesses().iter().for_each(|a| see(a, contract.rows, true));
        }
        Work::Pack(pack) => see(&pack.from_access(), 0, false),
        Work::Random(_) => {}
    }
    if let Some(id) = work.fills() {
        rows[id.0 as usize].by_rows = false;
    }
}

fn change(work: &mut Work, change: &mut dyn FnMut(&mut View)) {
    match work {
        Work::Tile(tile) => tile.body.iter_mut().for_each(|stmt| stmt.each_view_mut(change)),
        Work::Contract(contract) => {
            change(&mut contract.a);
            contract.b.iter_mut().for_each(change);
        }
        Work::Pack(_) | Work::Random(_) => {}
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}
