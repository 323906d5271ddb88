//! AVX-512F: sixteen numbers.

use std::arch::x86_64::*;

use super::Simd;

#[derive(Debug, Clone, Copy)]
pub struct Avx512;

#[inline(always)]
fn first(n: usize) -> __mmask16 {
    (1 << n) - 1
}

// SAFETY of all blocks: the trait's contract is that of the intrinsics: the machine has AVX-512F, and pointers are
// good for what is read or written.
impl Simd for Avx512 {
    const W: usize = 16;
    type V = __m512;
    type I = __m512i;
    type M = __mmask16;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        unsafe { _mm512_storeu_ps(p, v) }
    }

    #[inline(always)]
    unsafe fn load_some(p: *const f32, n: usize) -> __m512 {
        unsafe { _mm512_maskz_loadu_ps(first(n), p) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn turn(lists: &[*const f32], at: usize, to: *mut f32, step: usize) {
        for place in [0, 8] {
            for list in [0, 8] {
                unsafe { super::avx2::turn(&lists[list..list + 8], at + place, to.add(place * step + list), step) };
            }
        }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn sqrt(a: __m512) -> __m512 {
        unsafe { _mm512_sqrt_ps(a) }
    }

    #[inline(always)]
    unsafe fn floor(a: __m512) -> __m512 {
        unsafe { _mm512_roundscale_ps::<0x09>(a) }
    }

    #[inline(always)]
    unsafe fn sum(a: __m512) -> f32 {
        unsafe { _mm512_reduce_add_ps(a) }
    }

    #[inline(always)]
    unsafe fn less(a: __m512, b: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }

    #[inline(always)]
    unsafe fn is_nan(a: __m512) -> __mmask16 {
        unsafe { _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a) }
    }

    #[inline(always)]
    unsafe fn select(m: __mmask16, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }

    #[inline(always)]
    unsafe fn any(m: __mmask16) -> bool {
        m != 0
    }

    #[inline(always)]
    unsafe fn bits(a: __m512) -> __m512i {
        unsafe { _mm512_castps_si512(a) }
    }

    #[inline(always)]
    unsafe fn of_bits(a: __m512i) -> __m512 {
        unsafe { _mm512_castsi512_ps(a) }
    }

    #[inline(always)]
    unsafe fn int(x: i32) -> __m512i {
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    unsafe fn int_add(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn int_and(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn int_xor(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_xor_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn shift_left<const N: i32>(a: __m512i) -> __m512i {
        unsafe { _mm512_sllv_epi32(a, _mm512_set1_epi32(N)) }
    }

    #[inline(always)]
    unsafe fn shift_right<const N: i32>(a: __m512i) -> __m512i {
        unsafe { _mm512_srlv_epi32(a, _mm512_set1_epi32(N)) }
    }

    #[inline(always)]
    unsafe fn to_float(a: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(a) }
    }
}
