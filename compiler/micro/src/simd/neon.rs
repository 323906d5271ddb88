//! NEON: four numbers.

use std::arch::aarch64::*;

use super::Simd;

#[derive(Debug, Clone, Copy)]
pub struct Neon;

// SAFETY of all blocks: the trait's contract is that of the intrinsics: the machine has NEON, and pointers are good for
// what is read or written.
impl Simd for Neon {
    const W: usize = 4;
    type V = float32x4_t;
    type I = int32x4_t;
    type M = uint32x4_t;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> float32x4_t {
        unsafe { vld1q_f32(p) }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: float32x4_t) {
        unsafe { vst1q_f32(p, v) }
    }

    #[inline(always)]
    unsafe fn load_some(p: *const f32, n: usize) -> float32x4_t {
        let some: [f32; 4] = std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 });
        unsafe { vld1q_f32(some.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        unsafe { vdupq_n_f32(x) }
    }

    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vaddq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vsubq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vmulq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vdivq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcltq_f32(a, b), a, b) }
    }

    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) }
    }

    #[inline(always)]
    unsafe fn sqrt(a: float32x4_t) -> float32x4_t {
        unsafe { vsqrtq_f32(a) }
    }

    #[inline(always)]
    unsafe fn floor(a: float32x4_t) -> float32x4_t {
        unsafe { vrndmq_f32(a) }
    }

    #[inline(always)]
    unsafe fn sum(a: float32x4_t) -> f32 {
        unsafe { vaddvq_f32(a) }
    }

    #[inline(always)]
    unsafe fn less(a: float32x4_t, b: float32x4_t) -> uint32x4_t {
        unsafe { vcltq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn is_nan(a: float32x4_t) -> uint32x4_t {
        unsafe { vmvnq_u32(vceqq_f32(a, a)) }
    }

    #[inline(always)]
    unsafe fn select(m: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        unsafe { vbslq_f32(m, a, b) }
    }

    #[inline(always)]
    unsafe fn any(m: uint32x4_t) -> bool {
        unsafe { vmaxvq_u32(m) != 0 }
    }

    #[inline(always)]
    unsafe fn bits(a: float32x4_t) -> int32x4_t {
        unsafe { vreinterpretq_s32_f32(a) }
    }

    #[inline(always)]
    unsafe fn of_bits(a: int32x4_t) -> float32x4_t {
        unsafe { vreinterpretq_f32_s32(a) }
    }

    #[inline(always)]
    unsafe fn int(x: i32) -> int32x4_t {
        unsafe { vdupq_n_s32(x) }
    }

    #[inline(always)]
    unsafe fn int_add(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        unsafe { vaddq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn int_and(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        unsafe { vandq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn int_xor(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        unsafe { veorq_s32(a, b) }
    }

    #[inline(always)]
    unsafe fn shift_left<const N: i32>(a: int32x4_t) -> int32x4_t {
        unsafe { vshlq_s32(a, vdupq_n_s32(N)) }
    }

    #[inline(always)]
    unsafe fn shift_right<const N: i32>(a: int32x4_t) -> int32x4_t {
        unsafe { vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), vdupq_n_s32(-N))) }
    }

    #[inline(always)]
    unsafe fn to_float(a: int32x4_t) -> float32x4_t {
        unsafe { vcvtq_f32_s32(a) }
    }
}
