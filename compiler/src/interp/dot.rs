//! Products: every [`Op::Dot`](crate::ir::Op::Dot) is a batch of matrix products `[m, k] x [k, n]`.

use super::Real;
use super::axes::Axes;
use super::gemm::Matrix;
use super::value::Value;
use crate::ir::AxisId;

/// Below so many multiplications, plain loops beat setting up a blocked product.
const SMALL: usize = 512;

/// The product of `a` and `b`, summed over `over`; the value has `axes`.
pub(super) fn dot<T: Real>(sizes: Axes<'_>, a: &Value<T>, b: &Value<T>, over: &[AxisId], axes: &[AxisId]) -> Vec<T> {
    let side = |in_a: bool, in_b: bool| -> Vec<AxisId> {
        axes.iter().copied().filter(|x| a.axes.contains(x) == in_a && b.axes.contains(x) == in_b).collect()
    };
    let (batch, rows, columns) = (side(true, true), side(true, false), side(false, true));
    let [m, k, n] = [&rows, over, &columns].map(|group| sizes.len(group));

    let (a, [a_row, a_column]) = as_matrices(sizes, a, &batch, [&rows, over]);
    let (b, [b_row, b_column]) = as_matrices(sizes, b, &batch, [over, &columns]);
    let grouped = [&batch[..], &rows, &columns].concat();
    let direct = strides(sizes, axes, [&rows, &columns]);
    let out_axes: &[AxisId] = if direct.is_some() { axes } else { &grouped };
    let [c_row, c_column] = direct.unwrap_or([n, 1]);

    let mut out = vec![T::ZERO; sizes.len(axes)];
    if k == 0 || out.is_empty() {
        return out;
    }
    let batches = sizes.loops(&batch, [&a.axes, &b.axes, out_axes]);
    batches.entries(|[at_a, at_b, at_c]| {
        let a = Matrix { data: &a.data[at_a..], row: a_row, column: a_column };
        let b = Matrix { data: &b.data[at_b..], row: b_row, column: b_column };
        let c = Matrix { data: &mut out[at_c..], row: c_row, column: c_column };
        if m * k * n <= SMALL { product([m, k, n], a, b, c) } else { T::gemm([m, k, n], a, b, c) }
    });
    match direct {
        Some(_) => out,
        None => super::value::arrange(sizes, &grouped, &out, axes),
    }
}

/// The definition of a matrix product.
pub(super) fn product<T: Real>([m, k, n]: [usize; 3], a: Matrix<&[T]>, b: Matrix<&[T]>, c: Matrix<&mut [T]>) {
    for i in 0..m {
        for j in 0..n {
            let term = |l: usize| a.data[i * a.row + l * a.column].to_f64() * b.data[l * b.row + j * b.column].to_f64();
            let sum: f64 = (0..k).map(term).sum();
            c.data[i * c.row + j * c.column] = T::from_f64(sum);
        }
    }
}

/// The value as a batch of matrices, with the strides of their rows and columns: as it lies if both groups of axes have
/// one stride, else copied.
fn as_matrices<T: Real>(sizes: Axes<'_>, value: &Value<T>, batch: &[AxisId], groups: [&[AxisId]; 2]) -> (Value<T>, [usize; 2]) {
    match strides(sizes, &value.axes, groups) {
        Some(strides) => (value.clone(), strides),
        None => {
            let order = [batch, groups[0], groups[1]].concat();
            (value.arranged(sizes, &order), [sizes.len(groups[1]), 1])
        }
    }
}

/// The strides of two groups of axes in an array over `axes`, if each has one.
fn strides(sizes: Axes<'_>, axes: &[AxisId], groups: [&[AxisId]; 2]) -> Option<[usize; 2]> {
    let one = |group: &[AxisId]| Some(sizes.loops(group, [axes]).single()?[0]);
    Some([one(groups[0])?, one(groups[1])?])
}
