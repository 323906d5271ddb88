//! AVX2 and FMA: eight numbers.

use std::arch::x86_64::*;

use super::Simd;

#[derive(Debug, Clone, Copy)]
pub struct Avx2;

/// The mask of the first n of eight starts at place 8 - n.
static FIRST: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline(always)]
unsafe fn first(n: usize) -> __m256i {
    // SAFETY: n < 8, so the eight entries read are inside the table.
    unsafe { _mm256_loadu_si256(FIRST.as_ptr().add(8 - n).cast()) }
}

/// Eight numbers of eight lists, turned.
///
/// # Safety
/// [`Simd::turn`]'s, of a machine that has AVX.
#[inline(always)]
pub(super) unsafe fn turn(lists: &[*const f32], at: usize, to: *mut f32, step: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        // Lists l and l + 4 are the two halves of a vector, for the first four places and for the last.
        let mut halves = [[_mm256_setzero_ps(); 4]; 2];
        for (first, halves) in halves.iter_mut().enumerate() {
            for (l, half) in halves.iter_mut().enumerate() {
                let low = _mm_loadu_ps(lists[l].add(at + 4 * first));
                let high = _mm_loadu_ps(lists[l + 4].add(at + 4 * first));
                *half = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high);
            }
        }
        for (first, [a, b, c, d]) in halves.into_iter().enumerate() {
            let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
            let to = to.add(4 * first * step);
            _mm256_storeu_ps(to, _mm256_shuffle_ps::<0b0100_0100>(ab, cd));
            _mm256_storeu_ps(to.add(step), _mm256_shuffle_ps::<0b1110_1110>(ab, cd));
            _mm256_storeu_ps(to.add(2 * step), _mm256_shuffle_ps::<0b0100_0100>(ab_high, cd_high));
            _mm256_storeu_ps(to.add(3 * step), _mm256_shuffle_ps::<0b1110_1110>(ab_high, cd_high));
        }
    }
}

// SAFETY of all blocks: the trait's contract is that of the intrinsics: the machine has AVX2 and FMA, and pointers are
// good for what is read or written.
impl Simd for Avx2 {
    const W: usize = 8;
    type V = __m256;
    type I = __m256i;
    type M = __m256;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        unsafe { _mm256_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        unsafe { _mm256_storeu_ps(p, v) }
    }

    #[inline(always)]
    unsafe fn load_some(p: *const f32, n: usize) -> __m256 {
        unsafe { _mm256_maskload_ps(p, first(n)) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn turn(lists: &[*const f32], at: usize, to: *mut f32, step: usize) {
        unsafe { turn(lists, at, to, step) }
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_min_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sqrt(a: __m256) -> __m256 {
        unsafe { _mm256_sqrt_ps(a) }
    }

    #[inline(always)]
    unsafe fn floor(a: __m256) -> __m256 {
        unsafe { _mm256_floor_ps(a) }
    }

    #[inline(always)]
    unsafe fn sum(a: __m256) -> f32 {
        unsafe {
            let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)))
        }
    }

    #[inline(always)]
    unsafe fn less(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
    }

    #[inline(always)]
    unsafe fn is_nan(a: __m256) -> __m256 {
        unsafe { _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a) }
    }

    #[inline(always)]
    unsafe fn select(m: __m256, a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_blendv_ps(b, a, m) }
    }

    #[inline(always)]
    unsafe fn any(m: __m256) -> bool {
        unsafe { _mm256_movemask_ps(m) != 0 }
    }

    #[inline(always)]
    unsafe fn bits(a: __m256) -> __m256i {
        unsafe { _mm256_castps_si256(a) }
    }

    #[inline(always)]
    unsafe fn of_bits(a: __m256i) -> __m256 {
        unsafe { _mm256_castsi256_ps(a) }
    }

    #[inline(always)]
    unsafe fn int(x: i32) -> __m256i {
        unsafe { _mm256_set1_epi32(x) }
    }

    #[inline(always)]
    unsafe fn int_add(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn int_and(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn int_xor(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    unsafe fn shift_left<const N: i32>(a: __m256i) -> __m256i {
        unsafe { _mm256_slli_epi32::<N>(a) }
    }

    #[inline(always)]
    unsafe fn shift_right<const N: i32>(a: __m256i) -> __m256i {
        unsafe { _mm256_srli_epi32::<N>(a) }
    }

    #[inline(always)]
    unsafe fn to_float(a: __m256i) -> __m256 {
        unsafe { _mm256_cvtepi32_ps(a) }
    }
}
