//! Memory between pages that nobody may touch (feature `testing`): a number that is read or written outside of its array ends
//! the process with a signal, instead of being somebody else's.
//!
//! Arrays end right before such a page, or start right after one; what is left of their pages holds a pattern that is
//! looked at when the memory is given back, which finds writes beyond the near end. An array that is past a guard by
//! less than `MARGIN` bytes meets no other mapping of the process.

use std::sync::atomic::{AtomicU8, Ordering};

use super::super::lifetimes::Plan;

/// Where arrays lie between the guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// They end at a guard.
    End = 1,
    /// They start at one.
    Start = 2,
}

static SIDE: AtomicU8 = AtomicU8::new(0);

/// From now on the programs of this process have guards around every array, or have none again.
pub fn guard(side: Option<Side>) {
    SIDE.store(side.map_or(0, |side| side as u8), Ordering::Relaxed);
}

pub(super) fn side() -> Option<Side> {
    match SIDE.load(Ordering::Relaxed) {
        1 => Some(Side::End),
        2 => Some(Side::Start),
        _ => None,
    }
}

/// Numbers of a page.
const PAGE: usize = 4096 / size_of::<f32>();
/// Numbers that nobody may touch before and behind all arrays: 8 GiB.
const MARGIN: usize = 1 << 31;
/// A NaN that no computation makes.
const PATTERN: u32 = 0x7fc0_dead;

/// Places for arrays of these sizes, a guard between each two.
pub(super) fn places(sizes: &[usize], side: Side) -> Plan {
    let mut at = PAGE;
    let mut offsets = Vec::new();
    for size in sizes {
        let pages = size.next_multiple_of(PAGE);
        offsets.push(if side == Side::End { at + pages - size } else { at });
        at += pages + PAGE;
    }
    Plan { offsets, total: at }
}

/// Arrays between guards, in numbers.
#[derive(Debug)]
pub(super) struct Guarded {
    base: *mut f32,
    total: usize,
    /// Places that hold the pattern.
    slack: Vec<std::ops::Range<usize>>,
}

impl Guarded {
    /// Memory for arrays of these sizes at these places. The last numbers of each, `spare` of them, are for reading only.
    pub(super) fn new(plan: &Plan, sizes: &[usize], spare: usize) -> Result<Guarded, String> {
        let total = plan.total + 2 * MARGIN;
        let reserve = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at a place that the system chooses.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), total * size_of::<f32>(), libc::PROT_NONE, reserve, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(format!("there are no addresses for {total} numbers"));
        }
        let mut guarded = Guarded { base: base.cast(), total, slack: Vec::new() };
        for (at, size) in plan.offsets.iter().zip(sizes).filter(|(_, size)| **size > 0) {
            let (first, end) = (at / PAGE * PAGE, (at + size).next_multiple_of(PAGE));
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: pages of the mapping.
            let done = unsafe { libc::mprotect(guarded.at().add(first).cast(), (end - first) * size_of::<f32>(), rights) };
            if done != 0 {
                return Err(format!("there is no memory for {size} numbers"));
            }
            guarded.slack.push(first..*at);
            guarded.slack.push(at + size - spare.min(*size)..end);
        }
        for place in guarded.slack.iter().flat_map(|s| s.clone()) {
            // SAFETY: a page that may be written.
            unsafe { guarded.at().add(place).cast::<u32>().write(PATTERN) };
        }
        guarded.poison(spare);
        Ok(guarded)
    }

    /// Of a sanitizer's build: what is beyond the arrays, to the byte.
    #[cfg(asan)]
    fn poison(&self, spare: usize) {
        unsafe extern "C" {
            fn __asan_poison_memory_region(at: *const std::ffi::c_void, bytes: usize);
        }
        for (i, range) in self.slack.iter().enumerate() {
            // The spare numbers may be read.
            let from = if i % 2 == 1 { (range.start + spare).min(range.end) } else { range.start };
            // SAFETY: pages of the mapping.
            unsafe { __asan_poison_memory_region(self.at().add(from).cast(), (range.end - from) * size_of::<f32>()) };
        }
    }

    #[cfg(not(asan))]
    fn poison(&self, _: usize) {}

    /// Where place 0 is.
    pub(super) fn at(&self) -> *mut f32 {
        self.base.wrapping_add(MARGIN)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        #[cfg(asan)]
        {
            unsafe extern "C" {
                fn __asan_unpoison_memory_region(at: *const std::ffi::c_void, bytes: usize);
            }
            for range in &self.slack {
                // SAFETY: pages of the mapping.
                unsafe { __asan_unpoison_memory_region(self.at().add(range.start).cast(), range.len() * size_of::<f32>()) };
            }
        }
        for place in self.slack.iter().flat_map(|s| s.clone()) {
            // SAFETY: a page that may be read.
            let found = unsafe { self.at().add(place).cast::<u32>().read() };
            if found != PATTERN {
                eprintln!("a number was written outside of its array, at place {place}");
                std::process::abort();
            }
        }
        // SAFETY: the mapping is this one's, and nobody has an address in it any more.
        unsafe { libc::munmap(self.base.cast(), self.total * size_of::<f32>()) };
    }
}
