//! Sums over rows, of products and of numbers: what a contraction is executed with.
//!
//! Its operands are lists of numbers, one for each output row or column. Those of one side are turned, so that what is
//! at the same place of [`LANES`] lists lies side by side; then a place adds the products of [`LISTS`] numbers of the
//! other side with that lane vector to sums in registers. Both are copied together first: where they come from, what belongs
//! to one list is far apart, in few sets of a cache.

use crate::LANES;
use crate::simd::Simd;

/// Lists of which numbers are taken at a time.
pub const LISTS: usize = 12;

/// Numbers of a list that are summed up at a time: so many lane vectors stay in a first-level cache.
pub const CHUNK: usize = 256;

/// How far gathered lists are from each other: not a power of two, so that they share no set of a cache.
pub const GATHERED: usize = CHUNK + LANES;

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

/// Products: `to[list.to + lane.to] = sum over len places of list * lane`, or that added to what is there.
#[derive(Debug, Clone, Copy)]
pub struct Outer<'a> {
    /// At most [`LISTS`], at least one.
    pub lists: &'a [List],
    /// What [`gather`] made of them.
    pub gathered: *const f32,
    /// The other lists, at most [`LANES`].
    pub lanes: &'a [List],
    /// What [`turn`] made of them.
    pub turned: *const f32,
    pub len: usize,
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

/// The numbers of lists, one list after the other, [`GATHERED`] numbers apart.
///
/// # Safety
/// The machine has the instruction set `S`; the lists are good for all segments, [`CHUNK`] numbers at most, and `to` for so many
/// of each list.
#[inline(always)]
pub unsafe fn gather<S: Simd>(from: *const f32, lists: &[List], segments: &[Segment], to: *mut f32) {
    for (j, list) in lists.iter().enumerate() {
        let mut to = to.wrapping_add(j * GATHERED);
        for s in segments {
            let whole = s.len - s.len % S::W;
            // SAFETY: the caller's contract.
            unsafe {
                let from = from.add(list.from + s.list);
                for at in (0..whole).step_by(S::W) {
                    S::store(to.add(at), S::load(from.add(at)));
                }
                for at in whole..s.len {
                    *to.add(at) = *from.add(at);
                }
                to = to.add(s.len);
            }
        }
    }
}

/// # Safety
/// The machine has the instruction set `S`; the pointers are good for what `outer` says, `P` is how many lists it has, `V` how
/// many vectors [`LANES`] numbers are, and `to` overlaps nothing else.
#[inline(always)]
unsafe fn lists<S: Simd, const P: usize, const V: usize>(outer: &Outer) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [[S::splat(0.0); V]; P];
        let (mut turned, mut lists) = (outer.turned, outer.gathered);
        for _ in 0..outer.len {
            let mut x = [S::splat(0.0); V];
            for (v, x) in x.iter_mut().enumerate() {
                *x = S::load(turned.add(v * S::W));
            }
            for (j, total) in total.iter_mut().enumerate() {
                let w = S::splat(*lists.add(j * GATHERED));
                for (total, x) in total.iter_mut().zip(&x) {
                    *total = S::fma(w, *x, *total);
                }
            }
            turned = turned.add(LANES);
            lists = lists.add(1);
        }
        let side_by_side = outer.lanes.len() == LANES && outer.lanes.windows(2).all(|two| two[1].to == two[0].to + 1);
        for (list, total) in outer.lists.iter().zip(&total) {
            let to = outer.to.add(list.to);
            let mut sums = [0.0f32; LANES];
            for (v, total) in total.iter().enumerate() {
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
        match LANES / S::W {
            1 => of_width::<S, 1>(outer),
            2 => of_width::<S, 2>(outer),
            _ => of_width::<S, 4>(outer),
        }
    }
}

/// # Safety
/// That of [`outer`]; `V` is how many vectors [`LANES`] numbers are.
#[inline(always)]
unsafe fn of_width<S: Simd, const V: usize>(outer: &Outer) {
    // Sums of one register each: as many as hide how long a multiply-add takes. Of more, half as many.
    let most = if V == 1 { LISTS } else { LISTS / 2 };
    for (part, some) in outer.lists.chunks(most).enumerate() {
        let outer = Outer { lists: some, gathered: outer.gathered.wrapping_add(part * most * GATHERED), ..*outer };
        // SAFETY: the caller's contract.
        unsafe {
            match some.len() {
                1 => lists::<S, 1, V>(&outer),
                2 => lists::<S, 2, V>(&outer),
                3 => lists::<S, 3, V>(&outer),
                4 => lists::<S, 4, V>(&outer),
                5 => lists::<S, 5, V>(&outer),
                6 => lists::<S, 6, V>(&outer),
                7 => lists::<S, 7, V>(&outer),
                8 => lists::<S, 8, V>(&outer),
                9 => lists::<S, 9, V>(&outer),
                10 => lists::<S, 10, V>(&outer),
                11 => lists::<S, 11, V>(&outer),
                _ => lists::<S, 12, V>(&outer),
            }
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
