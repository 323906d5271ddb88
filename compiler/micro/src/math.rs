//! Functions of a vector, by polynomials.
//!
//! | function | largest error | where |
//! |---|---|---|
//! | `exp` | 1.2 ulp | results under 2^-125.5 are 0, over the largest number infinity |
//! | `log` | 1.2 ulp | denormal numbers included; of 0 minus infinity, of negative numbers NaN |
//! | `sigmoid` | 2.5 ulp | results under 2^-127 are 0 |
//! | `silu` | 3 ulp | likewise |
//! | `softplus` | 3.5 ulp | results under 2^-125.5 are 0 |
//! | `tanh` | 3 ulp | |
//! | `sin` | 1.5e-7 absolute, for arguments up to 8,000; beyond, the standard library's | |
//!
//! The tests of this file check them against double precision on every instruction set of the machine; without fused
//! multiply-add the errors are up to twice as large. NaN stays NaN. `sqrt` and `1/x` are the machine's own and exact to
//! half an ulp.

#![allow(clippy::missing_safety_doc, reason = "one sentence for all: the machine has the instruction set `S`")]

use crate::simd::Simd;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// The natural logarithm of 2 in two parts; the first has so few bits that its products with exponents are exact.
const LN2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
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
        for i in (0..N - 1).rev() {
            p = S::fma(p, x, S::splat(c[i]));
        }
        p
    }
}

/// `x = n log 2 + r`: r, and n in the low bits of a number.
#[inline(always)]
unsafe fn reduced<S: Simd>(x: S::V) -> (S::V, S::I) {
    unsafe {
        let t = S::fma(x, S::splat(LOG2_E), S::splat(ROUND));
        let n = S::sub(t, S::splat(ROUND));
        let r = S::fma(n, S::splat(-LN2.0), x);
        (S::fma(n, S::splat(-LN2.1), r), S::bits(t))
    }
}

/// `2^(n + BY)`
#[inline(always)]
unsafe fn power<S: Simd, const BY: i32>(n: S::I) -> S::V {
    unsafe { S::of_bits(S::int_add(S::shift_left::<23>(n), S::int((127 + BY) << 23))) }
}

/// A polynomial of an even number of coefficients, the even and the odd powers by themselves: half as long a chain of
/// dependent steps.
#[inline(always)]
unsafe fn long_polynomial<S: Simd, const N: usize>(x: S::V, c: [f32; N]) -> S::V {
    unsafe {
        let square = S::mul(x, x);
        let mut part = [S::splat(c[N - 2]), S::splat(c[N - 1])];
        for i in (0..N / 2 - 1).rev() {
            part[0] = S::fma(part[0], square, S::splat(c[2 * i]));
            part[1] = S::fma(part[1], square, S::splat(c[2 * i + 1]));
        }
        S::fma(part[1], x, part[0])
    }
}

/// `exp x = 2^n exp r`
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::V) -> S::V {
    unsafe {
        // The bounds keep n in -126..=128; NaN goes through, by the order of the operands.
        let x = S::min(S::splat(89.0), S::max(S::splat(-87.5), x));
        let (r, n) = reduced::<S>(x);
        // Twice exp r, so that 2^(n-1) has an exponent for every n: 0 for -126 and no overflow for 128.
        let p = polynomial::<S, 7>(r, [2.0, 2.0, 0.999_999_9, 0.333_330_4, 0.083_336_78, 0.016_737_434, 0.002_762_919_8]);
        S::mul(p, power::<S, -1>(n))
    }
}

/// `log x = e log 2 + log m` with m from sqrt(1/2) to sqrt(2).
#[inline(always)]
pub unsafe fn log<S: Simd>(x: S::V) -> S::V {
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
        let p = long_polynomial::<S, 8>(
            f,
            [0.333_333_3, -0.250_008_2, 0.200_012_27, -0.166_233_57, 0.142_017_57, -0.131_601_81, 0.127_615_78, -0.076_345_03],
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
pub unsafe fn recip<S: Simd>(x: S::V) -> S::V {
    unsafe { S::div(S::splat(1.0), x) }
}

/// `1 + exp(-x)`
#[inline(always)]
unsafe fn one_and_exp<S: Simd>(x: S::V) -> S::V {
    unsafe { S::add(S::splat(1.0), exp::<S>(neg::<S>(x))) }
}

#[inline(always)]
pub unsafe fn sigmoid<S: Simd>(x: S::V) -> S::V {
    unsafe { recip::<S>(one_and_exp::<S>(x)) }
}

#[inline(always)]
pub unsafe fn silu<S: Simd>(x: S::V) -> S::V {
    unsafe { S::div(x, one_and_exp::<S>(x)) }
}

/// `max(x, 0) + log(1 + u)`, `u = exp(-|x|)` from 0 to 1.
#[inline(always)]
pub unsafe fn softplus<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let u = exp::<S>(neg::<S>(abs::<S>(x)));
        let p = long_polynomial::<S, 10>(
            u,
            [
                0.999_999_995_287,
                -0.499_999_02,
                0.333_299_64,
                -0.249_541_33,
                0.196_759_36,
                -0.153_055_85,
                0.106_036_42,
                -0.056_959_413,
                0.019_851_4,
                -0.003_244_012,
            ],
        );
        S::fma(u, p, S::max(x, S::splat(0.0)))
    }
}

/// `e / (e + 2)`, `e = exp(2 |x|) - 1 = 2^n (exp r - 1) + 2^n - 1`, with the sign of x.
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let a = abs::<S>(x);
        // From 9.02 on the nearest number is 1.
        let (r, n) = reduced::<S>(S::min(S::splat(20.0), S::add(a, a)));
        let p = polynomial::<S, 5>(r, [0.499_999_93, 0.166_665_2, 0.041_668_39, 0.008_368_717, 0.001_381_459_9]);
        let scale = power::<S, 0>(n);
        let e = S::fma(S::fma(S::mul(r, r), p, r), scale, S::sub(scale, S::splat(1.0)));
        let y = S::div(e, S::add(e, S::splat(2.0)));
        let sign = S::int_and(S::bits(x), S::int(i32::MIN));
        S::of_bits(S::int_xor(S::bits(y), sign))
    }
}

/// `sin x = (-1)^n sin r`, `r = x - n pi` with pi in three parts.
#[inline(always)]
pub unsafe fn sin<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let t = S::fma(x, S::splat(std::f32::consts::FRAC_1_PI), S::splat(ROUND));
        let n = S::sub(t, S::splat(ROUND));
        let r = S::fma(n, S::splat(-3.140_625), x);
        let r = S::fma(n, S::splat(-9.675_026e-4), r);
        let r = S::fma(n, S::splat(-1.509_958e-7), r);
        let square = S::mul(r, r);
        let p = polynomial::<S, 4>(square, [-0.166_666_6, 0.008_333_066_5, -0.000_198_095_9, 2.605_750_8e-6]);
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
pub unsafe fn neg<S: Simd>(x: S::V) -> S::V {
    unsafe { S::of_bits(S::int_xor(S::bits(x), S::int(i32::MIN))) }
}

#[inline(always)]
pub unsafe fn abs<S: Simd>(x: S::V) -> S::V {
    unsafe { S::of_bits(S::int_and(S::bits(x), S::int(i32::MAX))) }
}

/// The larger, NaN if one is NaN.
#[inline(always)]
pub unsafe fn maximum<S: Simd>(a: S::V, b: S::V) -> S::V {
    unsafe { S::select(S::is_nan(a), a, S::max(a, b)) }
}

/// 1 where a is less than b, else 0.
#[inline(always)]
pub unsafe fn less<S: Simd>(a: S::V, b: S::V) -> S::V {
    unsafe { S::select(S::less(a, b), S::splat(1.0), S::splat(0.0)) }
}

/// -1, 0 or 1; 0 of NaN.
#[inline(always)]
pub unsafe fn sign<S: Simd>(x: S::V) -> S::V {
    unsafe {
        let zero = S::splat(0.0);
        S::sub(less::<S>(zero, x), less::<S>(x, zero))
    }
}

/// b where a is not zero (NaN is not), else c.
#[inline(always)]
pub unsafe fn select<S: Simd>(a: S::V, b: S::V, c: S::V) -> S::V {
    unsafe {
        // Not zero: some bit but the sign is set, so that |a| as a number is not less than the smallest one, or NaN.
        S::select(S::less(abs::<S>(a), S::splat(f32::from_bits(1))), c, b)
    }
}
