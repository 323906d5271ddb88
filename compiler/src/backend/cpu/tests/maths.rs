//! The functions' stated errors, against double precision, on every instruction set of the machine.

use super::*;
use crate::kernel::{Binary, LANES, Unary};
use micro::kernels::{Kernels, Op};
use micro::strip::Arg;

/// One operation on whole lane vectors.
fn apply(kernels: &Kernels, op: Op, from: [&[f32]; 3]) -> Vec<f32> {
    let mut to = vec![0.0; from[0].len()];
    assert!(to.len().is_multiple_of(LANES) && from.iter().all(|x| x.len() == to.len()));
    let arg = |x: &[f32]| Arg { at: x.as_ptr().cast_mut(), step: LANES };
    let out = Arg { at: to.as_mut_ptr(), step: LANES };
    // SAFETY: all have the same whole number of lane vectors, and the kernels are of this machine.
    unsafe { (kernels.strip)(op, [false; 3])(to.len() / LANES, out, &from.map(arg)) };
    to
}

fn unary(kernels: &Kernels, f: Unary, x: &[f32]) -> Vec<f32> {
    apply(kernels, f.into(), [x; 3])
}

/// Distance in units of the last place of the exact result.
fn ulps(found: f32, exact: f64) -> f64 {
    let nearest = exact as f32;
    if found == nearest || (found.is_nan() && exact.is_nan()) {
        return ((f64::from(found) - exact) / ulp(exact)).abs().min(0.5);
    }
    ((f64::from(found) - exact) / ulp(exact)).abs()
}

fn ulp(exact: f64) -> f64 {
    2_f64.powi((exact.abs().log2().floor() as i32).max(-126) - 23)
}

/// About `count` numbers from `low` to `high`.
fn range(low: f32, high: f32, count: usize) -> Vec<f32> {
    let count = count.next_multiple_of(LANES);
    (0..count).map(|i| low + (high - low) * (i as f32 / (count - 1) as f32)).collect()
}

/// Numbers of all magnitudes from `low` to `high`, both positive.
fn magnitudes(low: f32, high: f32, count: usize) -> Vec<f32> {
    let (low, high) = (low.to_bits(), high.to_bits());
    let count = count.next_multiple_of(LANES);
    (0..count).map(|i| f32::from_bits(low + ((high - low) as f64 * (i as f64 / (count - 1) as f64)) as u32)).collect()
}

fn both_signs(mut x: Vec<f32>) -> Vec<f32> {
    x.extend(x.clone().iter().map(|x| -x));
    x
}

/// The largest error, and where.
fn worst(kernels: &Kernels, f: Unary, exact: impl Fn(f64) -> f64, x: &[f32]) -> (f64, f32) {
    let found = unary(kernels, f, x);
    let errors = x.iter().zip(found).map(|(x, found)| (ulps(found, exact(f64::from(*x))), *x));
    errors.fold((0.0, 0.0), |worst, error| if error.0 > worst.0 || error.0.is_nan() { error } else { worst })
}

#[test]
fn errors_are_as_stated() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let softplus = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    let small = || both_signs(magnitudes(1e-30, 1.0, 100_000));
    for kernels in available() {
        let slack = if kernels.name == "portable" { 2.0 } else { 1.0 };
        let check = |f: Unary, exact: &dyn Fn(f64) -> f64, x: Vec<f32>, limit: f64| {
            let (error, at) = worst(kernels, f, exact, &x);
            println!("{} {f:?}: {error:.2} ulp at {at:e}", kernels.name);
            assert!(error <= limit * slack, "{} {f:?}: {error} ulp at {at:e}", kernels.name);
        };
        check(Unary::Exp, &f64::exp, range(-86.9, 88.72, 400_000), 1.2);
        check(Unary::Exp, &f64::exp, small(), 1.2);
        check(Unary::Log, &f64::ln, magnitudes(f32::from_bits(1), f32::MAX, 400_000), 1.2);
        check(Unary::Log, &f64::ln, range(0.5, 2.0, 400_000), 1.2);
        check(Unary::Sigmoid, &sigmoid, range(-86.0, 30.0, 400_000), 2.5);
        check(Unary::Silu, &|x| x * sigmoid(x), range(-86.0, 30.0, 400_000), 3.0);
        check(Unary::Silu, &|x| x * sigmoid(x), small(), 3.0);
        check(Unary::Softplus, &softplus, range(-86.0, 100.0, 400_000), 3.5);
        check(Unary::Tanh, &f64::tanh, range(-12.0, 12.0, 400_000), 3.0);
        check(Unary::Tanh, &f64::tanh, small(), 3.0);
        let x = range(-8000.0, 8000.0, 400_000);
        let sine = unary(kernels, Unary::Sin, &x).into_iter().zip(&x);
        let error = sine.map(|(y, x)| (f64::from(y) - f64::from(*x).sin()).abs()).fold(0.0, f64::max);
        println!("{} Sin: {error:e}", kernels.name);
        assert!(error <= 1.5e-7 * slack, "{} sin: {error:e}", kernels.name);
        check(Unary::Sin, &f64::sin, both_signs(magnitudes(1e-30, 1.5, 100_000)), 1.5);
        check(Unary::Sin, &f64::sin, both_signs(magnitudes(8001.0, f32::MAX, 1000)), 0.6);
        check(Unary::Sqrt, &f64::sqrt, magnitudes(f32::from_bits(1), f32::MAX, 1000), 0.5);
        check(Unary::Recip, &f64::recip, both_signs(magnitudes(1e-37, 1e37, 1000)), 0.5);
    }
}

#[test]
fn beyond_numbers() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let tiny = f32::from_bits(1);
    let odd_nan = f32::from_bits(0x7fc0_01ff);
    let cases: [(Unary, f32, f32); 40] = [
        (Unary::Exp, 0.0, 1.0),
        (Unary::Exp, -0.0, 1.0),
        (Unary::Exp, tiny, 1.0),
        (Unary::Exp, INF, INF),
        (Unary::Exp, 88.73, INF),
        (Unary::Exp, 1e30, INF),
        (Unary::Exp, -INF, 0.0),
        (Unary::Exp, -104.0, 0.0),
        (Unary::Exp, -1e30, 0.0),
        (Unary::Exp, NAN, NAN),
        (Unary::Exp, odd_nan, NAN),
        (Unary::Log, 0.0, -INF),
        (Unary::Log, -0.0, -INF),
        (Unary::Log, 1.0, 0.0),
        (Unary::Log, INF, INF),
        (Unary::Log, -1.0, NAN),
        (Unary::Log, -tiny, NAN),
        (Unary::Log, -INF, NAN),
        (Unary::Log, NAN, NAN),
        (Unary::Sigmoid, INF, 1.0),
        (Unary::Sigmoid, -INF, 0.0),
        (Unary::Sigmoid, NAN, NAN),
        (Unary::Softplus, INF, INF),
        (Unary::Softplus, -INF, 0.0),
        (Unary::Softplus, 1e30, 1e30),
        (Unary::Softplus, NAN, NAN),
        (Unary::Tanh, INF, 1.0),
        (Unary::Tanh, -INF, -1.0),
        (Unary::Tanh, tiny, tiny),
        (Unary::Tanh, NAN, NAN),
        (Unary::Silu, INF, INF),
        (Unary::Silu, -INF, NAN),
        (Unary::Silu, NAN, NAN),
        (Unary::Sin, INF, NAN),
        (Unary::Sin, NAN, NAN),
        (Unary::Sqrt, -1.0, NAN),
        (Unary::Recip, 0.0, INF),
        (Unary::Sign, NAN, 0.0),
        (Unary::Abs, -INF, INF),
        (Unary::Floor, -0.5, -1.0),
    ];
    for kernels in available() {
        for (f, x, expected) in cases {
            let found = unary(kernels, f, &[x; LANES])[LANES - 1];
            let same = found == expected || (found.is_nan() && expected.is_nan());
            assert!(same, "{} {f:?} {x}: {found}, expected {expected}", kernels.name);
        }
        let binary = |f: Binary, a: f32, b: f32| apply(kernels, f.into(), [&[a; LANES], &[b; LANES], &[b; LANES]])[0];
        assert!(binary(Binary::Max, NAN, 1.0).is_nan() && binary(Binary::Max, 1.0, NAN).is_nan());
        assert_eq!(binary(Binary::Max, -INF, 1.0), 1.0);
        assert_eq!(binary(Binary::Less, NAN, 1.0), 0.0);
        assert_eq!(binary(Binary::Less, 0.5, 1.0), 1.0);
        let select = |c: f32| apply(kernels, Op::Select, [&[c; LANES], &[2.0; LANES], &[3.0; LANES]])[0];
        assert_eq!([1.0, tiny, -tiny, NAN, 0.0, -0.0].map(select), [2.0, 2.0, 2.0, 2.0, 3.0, 3.0]);
    }
}
