//! Sums over rows, of products and of numbers: what a contraction is executed with.
//!
//! Its operands are lists of numbers, one for each output row or column. Those of one side are turned, so that what is
//! at the same place of [`LANES`] lists lies side by side; then a place adds the products of [`LISTS`] numbers of the
//! other side with that lane vector to sums in registers.

use crate::LANES;
use crate::simd::Simd;

/// Lists of which numbers are taken at a time.
pub const LISTS: usize = 6;

/// Numbers that lie side by side in every list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub list: usize,
    pub turned: usize,
    pub len: usize,
}

/// Where a list begins, and where its sums go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    pub from: usize,
    pub to: usize,
}

/// Products: `to[list.to + lane.to] = sum over all segments of list * lane`, or that added to what is there.
#[derive(Debug, Clone, Copy)]
pub struct Outer<'a> {
    pub from: *const f32,
    /// At most [`LISTS`], at least one.
    pub lists: &'a [List],
    pub segments: &'a [Segment],
    /// What [`turn`] made of the other lists.
    pub turned: *const f32,
    /// The other lists, at most [`LANES`].
    pub lanes: &'a [List],
    pub to: *mut f32,
    pub accumulate: bool,
}

/// Numbers: `to[list.to] = sum over all segments of list`, or that added to what is there.
#[derive(Debug, Clone, Copy)]
pub struct Sums<'a> {
    pub from: *const f32,
    /// At most [`LISTS`].
    pub lists: &'a [List],
    pub segments: &'a [Segment],
    pub to: *mut f32,
    pub accumulate: bool,
}

/// The numbers of lists, a lane vector for each place of the segments.
///
/// # Safety
/// The machine has the instruction set `S`; the lists are good for all segments, and `to` for a lane vector for each
/// number of them.
#[inline(always)]
pub unsafe fn turn<S: Simd>(lists: &[*const f32; LANES], segments: &[Segment], to: *mut f32) {
    let mut to = to;
    for s in segments {
        let whole = s.len - s.len % S::W;
        // SAFETY: the caller's contract.
        unsafe {
            for at in (0..whole).step_by(S::W) {
                for first in (0..LANES).step_by(S::W) {
                    S::turn(&lists[first..first + S::W], s.turned + at, to.add(at * LANES + first), LANES);
                }
            }
            for at in whole..s.len {
                for (lane, list) in lists.iter().enumerate() {
                    *to.add(at * LANES + lane) = *list.add(s.turned + at);
                }
            }
            to = to.add(s.len * LANES);
        }
    }
}

/// # Safety
/// The machine has the instruction set `S`; the pointers are good for what `outer` says, `P` is how many lists it has,
/// and `to` overlaps nothing else.
#[inline(always)]
unsafe fn lists<S: Simd, const P: usize>(outer: &Outer) {
    // SAFETY: the caller's contract.
    unsafe {
        let vectors = LANES / S::W;
        let mut total = [[S::splat(0.0); 4]; P];
        let mut turned = outer.turned;
        for s in outer.segments {
            let mut from = [std::ptr::null(); P];
            for (from, list) in from.iter_mut().zip(outer.lists) {
                *from = outer.from.add(list.from + s.list);
            }
            // A copy, so that it stays in registers.
            let mut sum = total;
            for at in 0..s.len {
                let mut x = [S::splat(0.0); 4];
                for (v, x) in x.iter_mut().enumerate().take(vectors) {
                    *x = S::load(turned.add(v * S::W));
                }
                for (total, from) in sum.iter_mut().zip(&from) {
                    let w = S::splat(*from.add(at));
                    for (total, x) in total.iter_mut().zip(&x).take(vectors) {
                        *total = S::fma(w, *x, *total);
                    }
                }
                turned = turned.add(LANES);
            }
            total = sum;
        }
        let side_by_side = outer.lanes.len() == LANES && outer.lanes.windows(2).all(|two| two[1].to == two[0].to + 1);
        for (list, total) in outer.lists.iter().zip(&total) {
            let to = outer.to.add(list.to);
            let mut sums = [0.0f32; LANES];
            for (v, total) in total.iter().enumerate().take(vectors) {
                let to = to.add(outer.lanes[0].to + v * S::W);
                match (side_by_side, outer.accumulate) {
                    (true, true) => S::store(to, S::add(S::load(to), *total)),
                    (true, false) => S::store(to, *total),
                    (false, _) => S::store(sums.as_mut_ptr().add(v * S::W), *total),
                }
            }
            if !side_by_side {
                for (lane, sum) in outer.lanes.iter().zip(sums) {
                    put(to.add(lane.to), sum, outer.accumulate);
                }
            }
        }
    }
}

/// # Safety
/// `to` is good for a number.
#[inline(always)]
unsafe fn put(to: *mut f32, sum: f32, accumulate: bool) {
    // SAFETY: the caller's contract.
    unsafe { *to = if accumulate { *to + sum } else { sum } };
}

/// # Safety
/// The machine has the instruction set `S`; the pointers are good for what `outer` says, and `to` overlaps nothing
/// else.
#[inline(always)]
pub unsafe fn outer<S: Simd>(outer: &Outer) {
    // SAFETY: the caller's contract.
    unsafe {
        match outer.lists.len() {
            6 => lists::<S, 6>(outer),
            5 => lists::<S, 5>(outer),
            4 => lists::<S, 4>(outer),
            3 => lists::<S, 3>(outer),
            2 => lists::<S, 2>(outer),
            _ => lists::<S, 1>(outer),
        }
    }
}

/// # Safety
/// The machine has the instruction set `S`; the pointers are good for what `sums` says.
#[inline(always)]
pub unsafe fn sums<S: Simd>(sums: &Sums) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [S::splat(0.0); LISTS];
        for s in sums.segments {
            for at in (0..s.len).step_by(S::W) {
                let n = S::W.min(s.len - at);
                for (total, list) in total.iter_mut().zip(sums.lists) {
                    let from = sums.from.add(list.from + s.list + at);
                    *total = S::add(*total, if n == S::W { S::load(from) } else { S::load_some(from, n) });
                }
            }
        }
        for (list, total) in sums.lists.iter().zip(total) {
            put(sums.to.add(list.to), S::sum(total), sums.accumulate);
        }
    }
}
