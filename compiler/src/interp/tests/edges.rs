//! Zero-size axes, infinities and NaN, ties, storage orders.

use super::super::dot::product;
use super::super::gemm::{Gemm, Matrix};
use super::*;
use crate::ir::{Composite, Op, Reduction, Unary};
use crate::testing::Rng;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn reductions_of_nothing() {
    let reduce = |op: Reduction| {
        of_one(&[2, 0], &[], move |d, x| {
            let over = d.graph.axes(x)[1];
            d.graph.reduce(op, x, &[over], NOWHERE)
        })
    };
    assert_same(&reduce(Reduction::Sum), &[0.0, 0.0]);
    assert_same(&reduce(Reduction::Max), &[-INF, -INF]);
    let log_sum_exp = of_one(&[2, 0], &[], |d, x| {
        let over = d.graph.axes(x)[1];
        d.graph.composite(Composite::LogSumExp(over), x, NOWHERE)
    });
    assert_same(&log_sum_exp, &[-INF, -INF]);
}

#[test]
fn everything_of_nothing_is_nothing() {
    let mut d = Draft::new();
    let [n, none, k] = [("n", 3), ("none", 0), ("k", 2)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[n, none]);
    let w = d.input("w", &[none, k]);
    let g = &mut d.graph;
    let dot = g.dot(x, w, &[none], NOWHERE);
    let batched = g.dot(x, x, &[n], NOWHERE);
    let sum = g.add(x, w, NOWHERE);
    let softmax = g.composite(Composite::Softmax(none), x, NOWHERE);
    let sorted = g.argsort(x, none, NOWHERE);
    let where_ = g.select(x, sum, w, NOWHERE);
    let padded = d.axis("padded", 2);
    let pad = d.graph.pad(x, none, 1, padded, NOWHERE);
    let slice = d.graph.slice(pad, padded, 1, none, NOWHERE);
    let both = d.axis("both", 2);
    let concat = d.graph.concat(vec![x, pad, x], vec![none, padded, none], both, NOWHERE);
    let scatter = d.graph.scatter(x, x, &[none], padded, NOWHERE);
    let gather = d.graph.gather(x, n, w, NOWHERE);
    let joined = d.axis("joined", 0);
    let join = d.graph.join(x, &[none, n], joined, NOWHERE);
    let split = d.graph.split(join, joined, &[none, n], NOWHERE);
    let inputs = [d.array(&[n, none], &[]), d.array(&[none, k], &[])];
    let list = [dot, batched, sum, softmax, sorted, where_, pad, slice, concat, scatter, gather, join, split];
    let program = d.finish(&list);
    let lengths: Vec<usize> = results(&program, &inputs).unwrap().iter().map(|a| a.data.len()).collect();
    assert_eq!(lengths, [6, 0, 0, 0, 0, 0, 6, 0, 6, 6, 0, 0, 0]);
    assert!(results(&program, &inputs).unwrap().iter().all(|a| a.data.iter().all(|x| *x == 0.0)));
}

#[test]
fn comparisons_and_choices_follow_ieee() {
    let values = [1.0, -1.0, 0.0, -0.0, INF, -INF, NAN];
    let mut d = Draft::new();
    let [i, j] = ["i", "j"].map(|name| d.axis(name, values.len()));
    let x = d.input("x", &[i]);
    let y = d.graph.rename(x, i, j, NOWHERE);
    let max = d.graph.push(Op::Max(x, y), vec![i, j], NOWHERE);
    let less = d.graph.push(Op::Less(x, y), vec![i, j], NOWHERE);
    let largest = d.graph.reduce(Reduction::Max, max, &[j], NOWHERE);
    let one = d.graph.constant(1.0, NOWHERE);
    let two = d.graph.constant(2.0, NOWHERE);
    let truth = d.graph.select(x, one, two, NOWHERE);
    let input = d.array(&[i], &values);
    let found = results(&d.finish(&[max, less, largest, truth]), &[input]).unwrap();
    for (n, (a, b)) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))).enumerate() {
        let expected = if a.is_nan() || b.is_nan() { NAN } else { a.max(b) };
        assert!(found[0].data[n] == expected || (found[0].data[n].is_nan() && expected.is_nan()), "max({a}, {b})");
        assert_eq!(found[1].data[n], f64::from(a < b), "{a} < {b}");
    }
    assert!(found[2].data.iter().all(|x| x.is_nan()));
    // Zero of either sign is false; anything else is true.
    assert_same(&found[3].data, &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 1.0]);
}

#[test]
fn argsort_is_stable_and_puts_nan_last() {
    let sorted = |list: &[f64]| {
        of_one(&[list.len()], list, |d, x| {
            let axis = d.graph.axes(x)[0];
            d.graph.argsort(x, axis, NOWHERE)
        })
    };
    assert_same(&sorted(&[2.0, NAN, 1.0, -INF, NAN, 1.0, INF]), &[3.0, 2.0, 5.0, 0.0, 6.0, 1.0, 4.0]);
    assert_same(&sorted(&[0.0, -0.0, 0.0]), &[0.0, 1.0, 2.0]);
    // Along the first of two axes.
    let columns = of_one(&[3, 2], &[3.0, 1.0, 1.0, 2.0, 2.0, 3.0], |d, x| {
        let axis = d.graph.axes(x)[0];
        d.graph.argsort(x, axis, NOWHERE)
    });
    assert_same(&columns, &[1.0, 0.0, 2.0, 1.0, 0.0, 2.0]);
}

#[test]
fn functions_at_the_ends_of_their_ranges() {
    let unary = |f: Unary, x: f64| of_one(&[], &[x], move |d, v| d.graph.unary(f, v, NOWHERE))[0];
    assert_same(&[unary(Unary::Exp, -INF), unary(Unary::Exp, 1e4), unary(Unary::Log, 0.0)], &[0.0, INF, -INF]);
    assert_same(&[unary(Unary::Log, -1.0), unary(Unary::Sqrt, -1.0), unary(Unary::Sqrt, -0.0)], &[NAN, NAN, -0.0]);
    assert_same(&[unary(Unary::Recip, 0.0), unary(Unary::Recip, -0.0), unary(Unary::Recip, INF)], &[INF, -INF, 0.0]);
    assert_same(&[unary(Unary::Floor, -0.5), unary(Unary::Floor, 2.0), unary(Unary::Floor, NAN)], &[-1.0, 2.0, NAN]);
}

/// A node may store its value in any order.
#[test]
fn the_node_says_the_order() {
    let mut d = Draft::new();
    let [a, b, c] = [("a", 2), ("b", 3), ("c", 2)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[a, b]);
    let turned = d.graph.push(Op::Expand(x), vec![b, a], NOWHERE);
    let w = d.input("w", &[b, c]);
    let dot = d.graph.push(Op::Dot { a: x, b: w, over: vec![b] }, vec![c, a], NOWHERE);
    let joined = d.axis("joined", 6);
    let join = d.graph.join(x, &[b, a], joined, NOWHERE);
    let split = d.graph.push(Op::Split { of: join, axis: joined, into: vec![b, a] }, vec![a, b], NOWHERE);
    let data = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let inputs = [d.array(&[a, b], &data), d.array(&[b, c], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0])];
    let found = results(&d.finish(&[turned, dot, join, split]), &inputs).unwrap();
    assert_same(&found[0].data, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_same(&found[1].data, &[4.0, 10.0, 5.0, 11.0]);
    assert_same(&found[2].data, &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    assert_same(&found[3].data, &data);
}

/// Places may have the axis that they are places of: what is gathered then lies along theirs.
#[test]
fn gathering_along_an_axis_by_itself() {
    let mut d = Draft::new();
    let [b, n] = [("b", 2), ("n", 3)].map(|(name, size)| d.axis(name, size));
    let x = d.input("x", &[b, n]);
    let order = d.graph.argsort(x, n, NOWHERE);
    let sorted = d.graph.push(Op::Gather { of: x, axis: n, at: order }, vec![b, n], NOWHERE);
    let input = d.array(&[b, n], &[3.0, 1.0, 2.0, -1.0, -2.0, -3.0]);
    let found = results(&d.finish(&[sorted]), &[input]).unwrap();
    assert_same(&found[0].data, &[1.0, 2.0, 3.0, -3.0, -2.0, -1.0]);
}

/// Sums are taken in double precision also of single-precision numbers.
#[test]
fn long_sums_keep_their_small_terms() {
    let mut d = Draft::new();
    let n = d.axis("n", 100_001);
    let x = d.input("x", &[n]);
    let sum = d.graph.sum(x, &[n], NOWHERE);
    let program = d.finish(&[sum]);
    let mut data = vec![1.0_f32; 100_001];
    data[0] = 1e8;
    let found = run(&program, &[Array { axes: vec![n], data }], &BTreeMap::new(), Clock::default()).unwrap();
    assert_eq!(found[0].data[0], (1e8_f64 + 1e5) as f32);
}

/// The foreign matrix product against the plain one, over sizes and strides.
#[test]
fn the_blocked_product_is_the_product() {
    fn compare<T: super::super::Real>(tolerance: f64) {
        let mut rng = Rng::new(1);
        for size in
            [[1, 1, 1], [3, 5, 7], [17, 33, 9], [64, 1, 64], [1, 100, 1], [1, 40, 30], [30, 40, 1], [65, 70, 66], [0, 3, 2]]
        {
            let [m, k, n] = size;
            let mut random = |len: usize| (0..len).map(|_| T::from_f64(rng.between(-1.0, 1.0))).collect::<Vec<T>>();
            let (a, b) = (random(m * k * 2), random(k * n * 2));
            for turned in 0..8 {
                let matrix = |rows: usize, columns: usize, turn: bool| if turn { (1, rows) } else { (columns, 1) };
                let (ar, ac) = matrix(m, k, turned & 1 > 0);
                let (br, bc) = matrix(k, n, turned & 2 > 0);
                let (cr, cc) = matrix(m, n, turned & 4 > 0);
                let mut out = [vec![T::ZERO; m * n], vec![T::ZERO; m * n]];
                let a = Matrix { data: &a[..], row: 2 * ar, column: 2 * ac };
                let b = Matrix { data: &b[..], row: br, column: bc };
                let [plain, blocked] = &mut out;
                product(size, a, b, Matrix { data: &mut plain[..], row: cr, column: cc });
                T::gemm(size, a, b, Matrix { data: &mut blocked[..], row: cr, column: cc });
                for (x, y) in out[0].iter().zip(&out[1]) {
                    assert!((x.to_f64() - y.to_f64()).abs() < tolerance, "{size:?} {turned}: {x} {y}");
                }
            }
        }
    }
    compare::<f64>(1e-13);
    compare::<f32>(1e-4);
}

#[test]
#[should_panic(expected = "fits")]
fn the_blocked_product_stays_inside_its_slices() {
    let a = [0.0; 5];
    let mut c = [0.0; 9];
    let inside = Matrix { data: &a[..], row: 1, column: 1 };
    f64::gemm([3, 4, 3], inside, inside, Matrix { data: &mut c[..], row: 3, column: 1 });
}
