//! Inner products of lists of numbers, a block of them at a time: what a contraction is
//! executed with.

use crate::simd::Simd;

/// Left and right lists of a block.
pub const LEFT: usize = 4;
pub const RIGHT: usize = 3;

/// Numbers that lie side by side in every list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub left: usize,
    pub right: usize,
    pub len: usize,
}

/// `out[l][r] = sum over all segments of left[l] right[r]`; of the entries from `lefts` and `rights` on nothing is said.
///
/// # Safety
/// The machine has the instruction set `S`; the lists are good for all segments.
#[inline(always)]
pub unsafe fn dots<S: Simd>(
    left: &[*const f32; LEFT],
    right: &[*const f32; RIGHT],
    segments: &[Segment],
    out: &mut [[f32; RIGHT]; LEFT],
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [[S::splat(0.0); RIGHT]; LEFT];
        for s in segments {
            let whole = s.len - s.len % S::W;
            for at in (0..whole).step_by(S::W) {
                step::<S>(&mut total, left, s.left + at, right, s.right + at, S::W);
            }
            if whole < s.len {
                step::<S>(&mut total, left, s.left + whole, right, s.right + whole, s.len - whole);
            }
        }
        for (out, total) in out.iter_mut().zip(total) {
            for (out, total) in out.iter_mut().zip(total) {
                *out = S::sum(total);
            }
        }
    }
}

/// Adds the products of `n <= W` numbers of all lists.
///
/// # Safety
/// That of [`dots`].
#[inline(always)]
unsafe fn step<S: Simd>(
    total: &mut [[S::V; RIGHT]; LEFT],
    left: &[*const f32; LEFT],
    left_at: usize,
    right: &[*const f32; RIGHT],
    right_at: usize,
    n: usize,
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut r = [S::splat(0.0); RIGHT];
        for (r, right) in r.iter_mut().zip(right) {
            *r = load::<S>(right.add(right_at), n);
        }
        for (total, left) in total.iter_mut().zip(left) {
            let left = load::<S>(left.add(left_at), n);
            for (total, r) in total.iter_mut().zip(r) {
                *total = S::fma(left, r, *total);
            }
        }
    }
}

/// `n <= W` numbers, then zeros.
///
/// # Safety
/// The machine has the instruction set `S`, and p is good for `n` numbers.
#[inline(always)]
unsafe fn load<S: Simd>(p: *const f32, n: usize) -> S::V {
    // SAFETY: the caller's contract.
    unsafe { if n == S::W { S::load(p) } else { S::load_some(p, n) } }
}

/// `out[l] = sum over all segments of left[l]`
///
/// # Safety
/// That of [`dots`].
#[inline(always)]
pub unsafe fn sums<S: Simd>(left: &[*const f32; LEFT], segments: &[Segment], out: &mut [f32; LEFT]) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [S::splat(0.0); LEFT];
        for s in segments {
            for at in (0..s.len).step_by(S::W) {
                for (total, left) in total.iter_mut().zip(left) {
                    *total = S::add(*total, load::<S>(left.add(s.left + at), S::W.min(s.len - at)));
                }
            }
        }
        for (out, total) in out.iter_mut().zip(total) {
            *out = S::sum(total);
        }
    }
}
