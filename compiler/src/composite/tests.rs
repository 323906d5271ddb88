use std::collections::BTreeMap;

use super::*;
use crate::interp::{Clock, Real, run};
use crate::testing::{Draft, NOWHERE};

const ELEMENTWISE: [Composite; 5] = [Composite::Tanh, Composite::Sigmoid, Composite::Softplus, Composite::Abs, Composite::Sign];

/// The named function of the numbers, and its body.
fn both<T: Real>(rows: usize, data: &[f64], f: impl Fn(AxisId) -> Composite) -> [Vec<T>; 2] {
    let mut d = Draft::new();
    let [n, axis] = [("n", rows), ("axis", data.len() / rows)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[n, axis]);
    let named = d.graph.composite(f(axis), x, NOWHERE);
    let primitives = body(f(axis), &mut d.graph, x, NOWHERE);
    let input = d.array(&[n, axis], data).cast::<T>();
    let found = run(&d.finish(&[named, primitives]), &[input], &BTreeMap::new(), Clock::default()).unwrap();
    [0, 1].map(|i: usize| found[i].data.clone())
}

fn direct(f: Composite, x: f64) -> f64 {
    both::<f64>(1, &[x], |_| f)[0][0]
}

/// Ordinary numbers, both sides of every threshold, and extremes.
fn arguments() -> Vec<f64> {
    let mut list: Vec<f64> = (-400..=400).map(|i| f64::from(i) * 0.1).collect();
    list.extend((-300..=300).map(|i| 10_f64.powi(i)));
    list.extend([1e4, 700.0, 745.0, 6.907, 6.908, f64::MIN_POSITIVE, 5e-324, 0.0, f64::MAX, f64::INFINITY]);
    let minus: Vec<f64> = list.iter().map(|x| -x).collect();
    list.extend(minus);
    list
}

#[test]
fn named_functions_are_their_bodies() {
    let list = arguments();
    for f in ELEMENTWISE {
        let [named, primitives] = both::<f64>(1, &list, |_| f);
        for ((x, a), b) in list.iter().zip(&named).zip(&primitives) {
            assert!(a == b || (a - b).abs() <= 1e-12 * a.abs().max(1.0), "{} {x:e}: {a:e}, body {b:e}", f.name());
        }
    }
    // Where a result is tiny it is right in proportion, too: a logarithm of it may follow.
    for f in [Composite::Sigmoid, Composite::Softplus] {
        let [named, primitives] = both::<f64>(1, &list, |_| f);
        for ((x, a), b) in list.iter().zip(&named).zip(&primitives) {
            assert!(a == b || (a - b).abs() <= 1e-12 * a.abs(), "{} {x:e}: {a:e}, body {b:e}", f.name());
        }
    }
    for f in ELEMENTWISE {
        let [named, primitives] = both::<f64>(1, &[f64::NAN], |_| f);
        assert_eq!(named[0].is_nan(), primitives[0].is_nan(), "{} of NaN", f.name());
    }
}

#[test]
fn bodies_hold_in_single_precision() {
    let list: Vec<f64> = arguments().into_iter().filter(|x| x.abs() < 1e38).map(|x| f64::from(x as f32)).collect();
    for f in ELEMENTWISE {
        let [named, primitives] = both::<f32>(1, &list, |_| f);
        let [exact, _] = both::<f64>(1, &list, |_| f);
        for (((x, a), b), exact) in list.iter().zip(&named).zip(&primitives).zip(&exact) {
            let limit = 3e-7 * exact.abs().max(1.0);
            assert!((f64::from(*a) - exact).abs() <= limit, "{} {x:e}: {a:e}, not {exact:e}", f.name());
            assert!((f64::from(*b) - exact).abs() <= limit, "{} {x:e}: body {b:e}, not {exact:e}", f.name());
        }
    }
}

/// The direct forms against what they must be.
#[test]
fn direct_forms_at_the_extremes() {
    let bits = |f: Composite, x: f64, expected: f64| {
        let found = direct(f, x);
        assert_eq!(found.to_bits(), expected.to_bits(), "{}({x:e}) = {found:e}, not {expected:e}", f.name());
    };
    let tiny = 5e-324;
    for x in [0.0, -0.0, tiny, -tiny, f64::MIN_POSITIVE, 1e-300] {
        bits(Composite::Tanh, x, x);
        bits(Composite::Sigmoid, x, 0.5);
        bits(Composite::Softplus, x, std::f64::consts::LN_2);
        bits(Composite::Abs, x, x.abs());
    }
    bits(Composite::Tanh, 1e4, 1.0);
    bits(Composite::Tanh, -1e4, -1.0);
    bits(Composite::Sigmoid, 1e4, 1.0);
    bits(Composite::Sigmoid, -1e4, 0.0);
    bits(Composite::Sigmoid, -700.0, (-700_f64).exp());
    bits(Composite::Softplus, 1e4, 1e4);
    bits(Composite::Softplus, -1e4, 0.0);
    bits(Composite::Softplus, -700.0, (-700_f64).exp());
    bits(Composite::Sign, tiny, 1.0);
    bits(Composite::Sign, -tiny, -1.0);
    bits(Composite::Sign, 0.0, 0.0);
    bits(Composite::Sign, -0.0, 0.0);
    bits(Composite::Sign, -f64::INFINITY, -1.0);
    // Correct digits, from a table.
    for (f, x, expected) in [
        (Composite::Tanh, 0.5, 0.462_117_157_260_009_76),
        (Composite::Sigmoid, 2.0, 0.880_797_077_977_882_4),
        (Composite::Sigmoid, -40.0, 4.248_354_255_291_589e-18),
        (Composite::Softplus, 1.0, 1.313_261_687_518_222_8),
        (Composite::Softplus, -10.0, 4.539_889_921_686_465e-5),
    ] {
        assert!((direct(f, x) / expected - 1.0).abs() < 1e-15, "{}({x})", f.name());
    }
}

#[test]
fn functions_of_rows_are_their_bodies() {
    let rows: [&[f64]; 7] = [
        &[0.0, 0.0, 0.0],
        &[1.0, 2.0, 3.0],
        &[1e4, -1e4, 0.0],
        &[-1e4, -1e4 - 1.0, -1e4 + 2.0],
        &[1e4, 1e4, 1e4 + 1e-3],
        &[5e-324, -5e-324, -0.0],
        &[f64::NEG_INFINITY, 1.0, 2.0],
    ];
    for make in [Composite::Softmax, Composite::LogSoftmax, Composite::LogSumExp] {
        let [named, primitives] = both::<f64>(rows.len(), &rows.concat(), make);
        for (i, (a, b)) in named.iter().zip(&primitives).enumerate() {
            assert!(a == b || (a - b).abs() <= 1e-12 * a.abs().max(1.0), "{} {i}: {a} {b}", make(AxisId(0)).name());
        }
    }
}

#[test]
fn rows_at_the_extremes() {
    let inf = f64::INFINITY;
    let row = |data: &[f64], make: fn(AxisId) -> Composite| both::<f64>(1, data, make);
    for found in row(&[1e4, -1e4, 1e4], Composite::Softmax) {
        assert_eq!(found, [0.5, 0.0, 0.5]);
    }
    for found in row(&[1e4, -1e4], Composite::LogSoftmax) {
        assert_eq!(found, [0.0, -2e4]);
    }
    for found in row(&[-inf, -inf], Composite::LogSumExp) {
        assert_eq!(found, [-inf]);
    }
    assert_eq!(row(&[inf, 0.0], Composite::LogSumExp)[0], [inf]);
    for found in row(&[-1e4, -1e4], Composite::LogSumExp) {
        assert!((found[0] - (-1e4 + std::f64::consts::LN_2)).abs() < 1e-11);
    }
    for found in row(&[-7.0], Composite::LogSumExp) {
        assert_eq!(found, [-7.0]);
    }
    // Numbers that add up to one, whatever was added to all of them.
    let [a, _] = row(&[0.1, 0.2, 0.3], Composite::Softmax);
    let [b, _] = row(&[100.1, 100.2, 100.3], Composite::Softmax);
    assert!((a.iter().sum::<f64>() - 1.0).abs() < 1e-15 && a.iter().zip(&b).all(|(x, y)| (x - y).abs() < 1e-13));
}
