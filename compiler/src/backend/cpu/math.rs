//! Functions of a vector, by polynomials.
//!
//! | function | largest error | where |
//! |---|---|---|
//! | `exp` | 1.2 ulp | results under 2^-125.5 are 0, over the largest number infinity |
//! | `log` | 1.2 ulp | denormal numbers included; of 0 minus infinity, of negative numbers NaN |
//! | `sigmoid` | 2.5 ulp | results under 2^-127 are 0 |
//! | `silu` | 3 ulp | likewise |
//! | `softplus` | 2.5 ulp | results under 2^-125.5 are 0 |
//! | `tanh` | 3 ulp | |
//! | `sin` | 1.5e-7 absolute, for arguments up to 8,000; beyond, the standard library's | |
//!
//! The tests of this file check them against double precision on every instruction set of the machine; without fused
//! multiply-add the errors are up to twice as large. NaN stays NaN. `sqrt` and `1/x` are the machine's own and exact to
//! half an ulp.

use super::simd::Simd;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// The natural logarithm of 2 in two parts; the first has so few bits that its products with exponents are exact.
const LN2: (f32, f32) = (0.693_359_375, -2.121_944_4e-4);
/// Adding it leaves the nearest whole number in the low bits of the sum.
const ROUND: f32 = 12_582_912.0;

/// `c[0] + c[1] x + c[2] x^2 + ...`
///
/// # Safety
/// Of this and all functions below: the machine has the instruction set `S`.
#[inline(always)]
unsafe fn polynomial<S: Simd, const N: usize>(x: S::V, c: [f32; N]) -> S::V {
    unsafe {
        let mut p = S::splat(c[N - 1]);
        for c in c.iter().rev().skip(1) {
            p = S::fma(p, x, S::splat(*c));
        }
        p
    }
}

/// `exp x = 2^n exp r`, `r = x - n log 2`.
#[inline(always)]
pub(super) unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    unsafe {
        // The bounds keep n in -126..=128; NaN goes through, by the order of the operands.
        let x = S::min(S::splat(89.0), S::max(S::splat(-87.5), x));
        let t = S::fma(x, S::splat(LOG2_E), S::splat(ROUND));
        let n = S::sub(t, S::splat(ROUND));
        let r = S::fma(n, S::splat(-LN2.0), x);
        let r = S::fma(n, S::splat(-LN2.1), r);
        // Twice exp r, so that 2^(n-1) has an exponent for every n: 0 for -126 and no overflow for 128.
        let p = polynomial::<S, 7>(r, [2.0, 2.0, 0.999_999_87, 0.333_330_4, 0.083_336_78, 0.016_737_434, 0.002_762_919_8]);
        let scale = S::int_add(S::shift_left::<23>(S::bits(t)), S::int(126 << 23));
        S::mul(p, S::of_bits(scale))
    }
}

/// `log x = e log 2 + log m` with m from sqrt(1/2) to sqrt(2).
#[inline(always)]
pub(super) unsafe fn log<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let denormal = S::less(x, S::splat(f32::MIN_POSITIVE));
        let scaled = S::select(denormal, S::mul(x, S::splat(8_388_608.0)), x);
        let bias = S::select(denormal, S::splat(-150.0), S::splat(-127.0));
        const SQRT_HALF: i32 = 0x3f35_04f3;
        const ONE: i32 = 0x3f80_0000;
        let k = S::int_add(S::bits(scaled), S::int(ONE - SQRT_HALF));
        let e = S::add(S::to_float(S::shift_right::<23>(k)), bias);
        let m = S::int_add(S::int_and(k, S::int(0x007f_ffff)), S::int(SQRT_HALF));
        let f = S::sub(S::of_bits(m), S::splat(1.0));
        let p = polynomial::<S, 8>(
            f,
            [
                0.333_333_317_078,
                -0.250_008_210_285,
                0.200_012_268_731,
                -0.166_233_575_35,
                0.142_017_579_983,
                -0.131_601_804_663,
                0.127_615_773_481,
                -0.076_345_029_1,
            ],
        );
        let square = S::mul(f, f);
        let y = S::mul(S::mul(f, square), p);
        let y = S::fma(e, S::splat(LN2.1), y);
        let y = S::fma(square, S::splat(-0.5), y);
        let y = S::fma(e, S::splat(LN2.0), S::add(f, y));
        // Infinity and NaN are their own logarithm.
        let y = S::select(S::less(x, S::splat(f32::INFINITY)), y, x);
        let y = S::select(S::less(x, S::splat(f32::from_bits(1))), S::splat(f32::NEG_INFINITY), y);
        S::select(S::less(x, S::splat(0.0)), S::splat(f32::NAN), y)
    }
}

#[inline(always)]
pub(super) unsafe fn recip<S: Simd>(x: S::V) -> S::V {
    unsafe { S::div(S::splat(1.0), x) }
}

/// `1 + exp(-x)`
#[inline(always)]
unsafe fn one_and_exp<S: Simd>(x: S::V) -> S::V {
    unsafe { S::add(S::splat(1.0), exp::<S>(neg::<S>(x))) }
}

#[inline(always)]
pub(super) unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    unsafe { recip::<S>(one_and_exp::<S>(x)) }
}

#[inline(always)]
pub(super) unsafe fn silu<S: Simd>(x: S::V) -> S::V {
    unsafe { S::div(x, one_and_exp::<S>(x)) }
}

/// `max(x, 0) + log(1 + u)`, `u = exp(-|x|)` from 0 to 1.
#[inline(always)]
pub(super) unsafe fn softplus<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let u = exp::<S>(neg::<S>(abs::<S>(x)));
        let p = polynomial::<S, 10>(
            u,
            [
                0.999_999_995_287,
                -0.499_999_024_201,
                0.333_299_623_477,
                -0.249_541_330_169,
                0.196_759_362_536,
                -0.153_055_845_131,
                0.106_036_420_165,
                -0.056_959_413_253,
                0.019_851_400_494,
                -0.003_244_011_912,
            ],
        );
        S::fma(u, p, S::max(x, S::splat(0.0)))
    }
}

/// A quotient of polynomials, `x p(x^2) / q(x^2)`, up to where the single-precision result is 1. (The coefficients are
/// Eigen's.)
#[inline(always)]
pub(super) unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    unsafe {
        const LIMIT: f32 = 7.905_311;
        let x = S::min(S::splat(LIMIT), S::max(S::splat(-LIMIT), x));
        let square = S::mul(x, x);
        let p = polynomial::<S, 7>(
            square,
            [4.893_524_6e-3, 6.372_619_3e-4, 1.485_722_36e-5, 5.122_297_1e-8, -8.604_672e-11, 2.000_187_9e-13, -2.760_768_5e-16],
        );
        let q = polynomial::<S, 4>(square, [4.893_525e-3, 2.268_434_6e-3, 1.185_347_06e-4, 1.198_258_4e-6]);
        let y = S::div(S::mul(x, p), q);
        // Where x^2 gets lost the answer is x.
        S::select(S::less(abs::<S>(x), S::splat(4e-4)), x, y)
    }
}

/// `sin x = (-1)^n sin r`, `r = x - n pi` with pi in three parts.
#[inline(always)]
pub(super) unsafe fn sin<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let t = S::fma(x, S::splat(std::f32::consts::FRAC_1_PI), S::splat(ROUND));
        let n = S::sub(t, S::splat(ROUND));
        let r = S::fma(n, S::splat(-3.140_625), x);
        let r = S::fma(n, S::splat(-9.675_026e-4), r);
        let r = S::fma(n, S::splat(-1.509_958e-7), r);
        let square = S::mul(r, r);
        let p = polynomial::<S, 4>(square, [-0.166_666_595_446, 0.008_333_066_08, -0.000_198_095_9, 2.605_750_8e-6]);
        let y = S::fma(S::mul(r, square), p, r);
        let y = S::of_bits(S::int_xor(S::bits(y), S::shift_left::<31>(S::bits(t))));
        let far = S::less(S::splat(8000.0), abs::<S>(x));
        if !S::any(far) {
            return y;
        }
        let mut numbers = [0.0; 16];
        S::store(numbers.as_mut_ptr(), x);
        numbers.iter_mut().for_each(|x| *x = x.sin());
        S::select(far, S::load(numbers.as_ptr()), y)
    }
}

#[inline(always)]
pub(super) unsafe fn neg<S: Simd>(x: S::V) -> S::V {
    unsafe { S::of_bits(S::int_xor(S::bits(x), S::int(i32::MIN))) }
}

#[inline(always)]
pub(super) unsafe fn abs<S: Simd>(x: S::V) -> S::V {
    unsafe { S::of_bits(S::int_and(S::bits(x), S::int(i32::MAX))) }
}

/// The larger, NaN if one is NaN.
#[inline(always)]
pub(super) unsafe fn maximum<S: Simd>(a: S::V, b: S::V) -> S::V {
    unsafe { S::select(S::is_nan(a), a, S::max(a, b)) }
}

/// 1 where a is less than b, else 0.
#[inline(always)]
pub(super) unsafe fn less<S: Simd>(a: S::V, b: S::V) -> S::V {
    unsafe { S::select(S::less(a, b), S::splat(1.0), S::splat(0.0)) }
}

/// -1, 0 or 1; 0 of NaN.
#[inline(always)]
pub(super) unsafe fn sign<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let zero = S::splat(0.0);
        S::sub(less::<S>(zero, x), less::<S>(x, zero))
    }
}

/// b where a is not zero (NaN is not), else c.
#[inline(always)]
pub(super) unsafe fn select<S: Simd>(a: S::V, b: S::V, c: S::V) -> S::V {
    unsafe {
        // Not zero: some bit but the sign is set, so that |a| as a number is not less than the smallest one, or NaN.
        S::select(S::less(abs::<S>(a), S::splat(f32::from_bits(1))), c, b)
    }
}
