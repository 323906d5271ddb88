//! Where the buffers are: one allocation for all of them.

use super::super::lifetimes::{self, Plan};
use crate::kernel::{LANES, Program};

/// Places of whole lane vectors, with one more behind.
pub(super) fn plan(program: &Program) -> Plan {
    let sizes = lifetimes::sizes(program, |b| program.buffers[b].len.next_multiple_of(LANES) + LANES);
    lifetimes::plan(program, &sizes, |_| true)
}

/// The numbers of all buffers. Workers write to it at the same time, each to entries of his own, so it is given out as
/// an address.
#[derive(Debug)]
pub(super) struct Memory {
    lines: Vec<Line>,
    at: *mut f32,
}

/// A lane vector, aligned as the machine likes it best.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line(#[expect(dead_code, reason = "it is there for its size")] [f32; LANES]);

// SAFETY: the address belongs to `lines`, which nothing else refers to; who follows it says why he may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(len: usize) -> Memory {
        let mut lines = vec![Line([0.0; LANES]); len.div_ceil(LANES)];
        let at = lines.as_mut_ptr().cast();
        Memory { lines, at }
    }

    pub(super) fn at(&self) -> *mut f32 {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.lines[..])
    }

    /// # Safety
    /// Nobody writes these numbers while they are borrowed.
    pub(super) unsafe fn numbers(&self, start: usize, len: usize) -> &[f32] {
        assert!(start + len <= self.lines.len() * LANES);
        // SAFETY: inside the allocation, initialised; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.at.add(start), len) }
    }

    /// # Safety
    /// Nobody reads or writes these numbers while they are borrowed.
    #[allow(clippy::mut_from_ref)] // the caller's promise stands in for it
    pub(super) unsafe fn numbers_mut(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(start + len <= self.lines.len() * LANES);
        // SAFETY: inside the allocation, initialised; the caller keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(start), len) }
    }
}
