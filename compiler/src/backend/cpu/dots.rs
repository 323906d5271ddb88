//! Inner products of lists of numbers, a block of them at a time: what a [`Contract`](crate::kernel::Contract) is
//! executed with.

use super::simd::Simd;

/// Left and right lists of a block.
pub(super) const LEFT: usize = 4;
pub(super) const RIGHT: usize = 3;

/// Numbers that lie side by side in every list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub left: usize,
    pub right: usize,
    pub len: usize,
}

/// `out[l][r] = sum over all segments of left[l] right[r]`; of the entries from `lefts` and `rights` on nothing is said.
///
/// # Safety
/// The machine has the instruction set `S`; the lists are good for all segments.
#[inline(always)]
pub(super) unsafe fn dots<S: Simd>(
    left: &[*const f32; LEFT],
    right: &[*const f32; RIGHT],
    segments: &[Segment],
    out: &mut [[f32; RIGHT]; LEFT],
) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [[S::splat(0.0); RIGHT]; LEFT];
        for s in segments {
            let left = left.map(|p| p.add(s.left));
            let right = right.map(|p| p.add(s.right));
            let whole = s.len - s.len % S::W;
            for at in (0..whole).step_by(S::W) {
                let right = right.map(|p| S::load(p.add(at)));
                for (total, left) in total.iter_mut().zip(left) {
                    let left = S::load(left.add(at));
                    for (total, right) in total.iter_mut().zip(right) {
                        *total = S::fma(left, right, *total);
                    }
                }
            }
            let rest = s.len - whole;
            if rest > 0 {
                let right = right.map(|p| S::load_some(p.add(whole), rest));
                for (total, left) in total.iter_mut().zip(left) {
                    let left = S::load_some(left.add(whole), rest);
                    for (total, right) in total.iter_mut().zip(right) {
                        *total = S::fma(left, right, *total);
                    }
                }
            }
        }
        for (out, total) in out.iter_mut().zip(total) {
            *out = total.map(|v| S::sum(v));
        }
    }
}

/// `out[l] = sum over all segments of left[l]`
///
/// # Safety
/// That of [`dots`].
#[inline(always)]
pub(super) unsafe fn sums<S: Simd>(left: &[*const f32; LEFT], segments: &[Segment], out: &mut [f32; LEFT]) {
    // SAFETY: the caller's contract.
    unsafe {
        let mut total = [S::splat(0.0); LEFT];
        for s in segments {
            let left = left.map(|p| p.add(s.left));
            let whole = s.len - s.len % S::W;
            for at in (0..whole).step_by(S::W) {
                for (total, left) in total.iter_mut().zip(left) {
                    *total = S::add(*total, S::load(left.add(at)));
                }
            }
            let rest = s.len - whole;
            if rest > 0 {
                for (total, left) in total.iter_mut().zip(left) {
                    *total = S::add(*total, S::load_some(left.add(whole), rest));
                }
            }
        }
        *out = total.map(|v| S::sum(v));
    }
}
