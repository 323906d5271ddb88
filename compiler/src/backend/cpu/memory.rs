//! Where the buffers are: one allocation for all of them.

use std::alloc::Layout;

use super::super::lifetimes::{self, Plan};
#[cfg(feature = "testing")]
use super::guard::{self, Guarded};
use crate::kernel::{LANES, Program};

/// Places of whole lane vectors, with one more behind.
pub(super) fn plan(program: &Program) -> Plan {
    let sizes = sizes(program);
    #[cfg(feature = "testing")]
    if let Some(side) = guard::side() {
        return guard::places(&sizes, side);
    }
    lifetimes::plan(program, &sizes, |_| true)
}

fn sizes(program: &Program) -> Vec<usize> {
    lifetimes::sizes(program, |b| program.buffers[b].len.next_multiple_of(LANES) + LANES)
}

/// The numbers of all buffers. Workers write to it at the same time, each to entries of his own, so it is given out as
/// an address.
#[derive(Debug)]
pub(super) struct Memory {
    at: *mut f32,
    len: usize,
    #[cfg(feature = "testing")]
    guarded: Option<Guarded>,
}

/// Lane vectors start where the machine likes it best: at a line of the cache.
const ALIGNED: usize = 64;

// SAFETY: the address belongs to this value alone; who follows it says why he may.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeros. An error where the system does not give out so much.
    pub(super) fn new(len: usize) -> Result<Memory, String> {
        let len = len.next_multiple_of(LANES);
        let none = || format!("there is no memory for {len} numbers");
        let layout = Memory::layout(len).ok_or_else(none)?;
        #[cfg(feature = "testing")]
        if let Some(side) = guard::side() {
            let plan = guard::places(&[len], side);
            let guarded = Guarded::new(&plan, &[len], 0)?;
            return Ok(Memory { at: guarded.at().wrapping_add(plan.offsets[0]), len, guarded: Some(guarded) });
        }
        if len == 0 {
            return Ok(Memory::of(std::ptr::without_provenance_mut(ALIGNED), len));
        }
        // SAFETY: the layout is not of size 0.
        let at: *mut f32 = unsafe { std::alloc::alloc_zeroed(layout) }.cast();
        if at.is_null() { Err(none()) } else { Ok(Memory::of(at, len)) }
    }

    /// For the buffers of a program, at their places.
    pub(super) fn of_buffers(
        plan: &Plan,
        #[cfg_attr(not(feature = "testing"), expect(unused))] program: &Program,
    ) -> Result<Memory, String> {
        #[cfg(feature = "testing")]
        if guard::side().is_some() {
            let guarded = Guarded::new(plan, &sizes(program), LANES)?;
            return Ok(Memory { at: guarded.at(), len: plan.total, guarded: Some(guarded) });
        }
        Memory::new(plan.total)
    }

    fn of(at: *mut f32, len: usize) -> Memory {
        Memory {
            at,
            len,
            #[cfg(feature = "testing")]
            guarded: None,
        }
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_mul(size_of::<f32>())?, ALIGNED).ok()
    }

    pub(super) fn at(&self) -> *mut f32 {
        self.at
    }

    pub(super) fn bytes(&self) -> usize {
        self.len * size_of::<f32>()
    }

    /// # Safety
    /// Nobody writes these numbers while they are borrowed.
    pub(super) unsafe fn numbers(&self, start: usize, len: usize) -> &[f32] {
        assert!(start + len <= self.len);
        // SAFETY: inside the allocation, initialised; the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(self.at.add(start), len) }
    }

    /// # Safety
    /// Nobody reads or writes these numbers while they are borrowed.
    #[allow(clippy::mut_from_ref)] // the caller's promise stands in for it
    pub(super) unsafe fn numbers_mut(&self, start: usize, len: usize) -> &mut [f32] {
        assert!(start + len <= self.len);
        // SAFETY: inside the allocation, initialised; the caller keeps everyone else away.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(start), len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        #[cfg(feature = "testing")]
        if self.guarded.is_some() {
            return;
        }
        if let Some(layout) = Memory::layout(self.len).filter(|layout| layout.size() > 0) {
            // SAFETY: it was allocated with this layout, and nobody else has the address any more.
            unsafe { std::alloc::dealloc(self.at.cast(), layout) };
        }
    }
}
