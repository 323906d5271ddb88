//! Plain Rust: four numbers, which any compiler turns into the vectors of the machine's baseline.

use super::Simd;

#[derive(Debug, Clone, Copy)]
pub struct Portable;

const W: usize = 4;

type V = [f32; W];
type I = [u32; W];
type M = [bool; W];

/// Written out, as this is inlined some thousand times.
#[inline(always)]
fn each<T>(f: impl Fn(usize) -> T) -> [T; W] {
    [f(0), f(1), f(2), f(3)]
}

// SAFETY of all blocks: pointers are good for what is read or written, by the trait's contract.
impl Simd for Portable {
    const W: usize = W;
    type V = V;
    type I = I;
    type M = M;

    #[inline(always)]
    unsafe fn load(p: *const f32) -> V {
        unsafe { p.cast::<V>().read() }
    }

    #[inline(always)]
    unsafe fn store(p: *mut f32, v: V) {
        unsafe { p.cast::<V>().write(v) }
    }

    #[inline(always)]
    unsafe fn load_some(p: *const f32, n: usize) -> V {
        each(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 })
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        [x; W]
    }

    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        each(|i| a[i] - b[i])
    }

    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    unsafe fn div(a: V, b: V) -> V {
        each(|i| a[i] / b[i])
    }

    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        each(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn sqrt(a: V) -> V {
        each(|i| a[i].sqrt())
    }

    #[inline(always)]
    unsafe fn floor(a: V) -> V {
        each(|i| a[i].floor())
    }

    #[inline(always)]
    unsafe fn sum(a: V) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }

    #[inline(always)]
    unsafe fn less(a: V, b: V) -> M {
        each(|i| a[i] < b[i])
    }

    #[inline(always)]
    unsafe fn is_nan(a: V) -> M {
        each(|i| a[i].is_nan())
    }

    #[inline(always)]
    unsafe fn select(m: M, a: V, b: V) -> V {
        each(|i| if m[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn any(m: M) -> bool {
        m.contains(&true)
    }

    #[inline(always)]
    unsafe fn bits(a: V) -> I {
        each(|i| a[i].to_bits())
    }

    #[inline(always)]
    unsafe fn of_bits(a: I) -> V {
        each(|i| f32::from_bits(a[i]))
    }

    #[inline(always)]
    unsafe fn int(x: i32) -> I {
        [x as u32; W]
    }

    #[inline(always)]
    unsafe fn int_add(a: I, b: I) -> I {
        each(|i| a[i].wrapping_add(b[i]))
    }

    #[inline(always)]
    unsafe fn int_and(a: I, b: I) -> I {
        each(|i| a[i] & b[i])
    }

    #[inline(always)]
    unsafe fn int_xor(a: I, b: I) -> I {
        each(|i| a[i] ^ b[i])
    }

    #[inline(always)]
    unsafe fn shift_left<const N: i32>(a: I) -> I {
        each(|i| a[i] << N)
    }

    #[inline(always)]
    unsafe fn shift_right<const N: i32>(a: I) -> I {
        each(|i| a[i] >> N)
    }

    #[inline(always)]
    unsafe fn to_float(a: I) -> V {
        each(|i| a[i] as i32 as f32)
    }
}
