//! One node: the value of an operation on arrays.

use std::cmp::Ordering;

use super::axes::{Axes, except};
use super::dot::dot;
use super::value::Value;
use super::{Real, RunError};
use crate::ir::{AxisId, Composite, Node, Op, Reduction, Unary, ValueId};

/// A node about to run, and where its operands' values are found.
pub(super) struct Eval<'a, F> {
    pub(super) sizes: Axes<'a>,
    pub(super) node: &'a Node,
    pub(super) value: F,
}

impl<'a, F> Eval<'a, F> {
    pub(super) fn value<T: Real>(&self, op: &Op) -> Result<Value<T>, RunError>
    where
        F: Fn(ValueId) -> &'a Value<T>,
    {
        let of = &self.value;
        let axes = &self.node.axes[..];
        let data = match *op {
            Op::Input(_) | Op::Param(_) | Op::Random { .. } | Op::Scan(_) | Op::Out { .. } => {
                unreachable!("the machine runs these")
            }
            Op::Const(c) => vec![T::from_f64(c); self.sizes.len(axes)],
            Op::Iota(axis) => (0..self.sizes.size(axis)).map(|i| T::from_f64(i as f64)).collect(),

            Op::Unary(f, a) => match f {
                Unary::Exp => self.map(of(a), T::exp),
                Unary::Log => self.map(of(a), T::ln),
                Unary::Sin => self.map(of(a), T::sin),
                Unary::Sqrt => self.map(of(a), T::sqrt),
                Unary::Recip => self.map(of(a), T::recip),
                Unary::Floor => self.map(of(a), T::floor),
            },
            Op::Add(a, b) => self.map2(of(a), of(b), |x, y| x + y),
            Op::Mul(a, b) => self.map2(of(a), of(b), |x, y| x * y),
            Op::Max(a, b) => self.map2(of(a), of(b), T::larger),
            Op::Less(a, b) => self.map2(of(a), of(b), |x, y| if x < y { T::ONE } else { T::ZERO }),
            Op::Where(c, a, b) => self.select(of(c), of(a), of(b)),
            Op::Composite(f, a) => self.composite(f, of(a)),

            Op::Expand(a) | Op::Stop(a) | Op::Id(a) => return Ok(of(a).arranged(self.sizes, axes)),
            Op::Rename { of: a, from, to } => {
                let renamed = of(a).axes.iter().map(|x| if *x == from { to } else { *x }).collect();
                return Ok(of(a).relabelled(renamed).arranged(self.sizes, axes));
            }
            Op::Split { of: a, axis, ref into } => {
                let split = of(a).axes.iter().flat_map(|x| if *x == axis { into.clone() } else { vec![*x] }).collect();
                return Ok(of(a).relabelled(split).arranged(self.sizes, axes));
            }
            Op::Join { of: a, axes: ref joined, into } => {
                // The joined axes side by side, at the place that the one axis has.
                let apart: Vec<AxisId> = axes.iter().flat_map(|x| if *x == into { joined.clone() } else { vec![*x] }).collect();
                return Ok(of(a).arranged(self.sizes, &apart).relabelled(axes.to_vec()));
            }
            Op::Reduce { op, of: a, .. } => match op {
                Reduction::Sum => {
                    let sums = self.reduce(of(a), 0.0, |sum, x| sum + x.to_f64());
                    sums.into_iter().map(T::from_f64).collect()
                }
                Reduction::Max => self.reduce(of(a), T::NEG_INFINITY, T::larger),
            },
            Op::Dot { a, b, ref over } => dot(self.sizes, of(a), of(b), over, axes),

            Op::Slice { of: a, axis, start, into } => {
                let mut out = vec![T::ZERO; self.sizes.len(axes)];
                self.copy(of(a), [axis, into], Window { from: start, to: 0, len: self.sizes.size(into) }, &mut out);
                out
            }
            Op::Pad { of: a, axis, start, into } => {
                let mut out = vec![T::ZERO; self.sizes.len(axes)];
                self.copy(of(a), [axis, into], Window { from: 0, to: start, len: self.sizes.size(axis) }, &mut out);
                out
            }
            Op::Concat { ref parts, ref along, into } => {
                let mut out = vec![T::ZERO; self.sizes.len(axes)];
                let mut to = 0;
                for (part, axis) in parts.iter().zip(along) {
                    let len = self.sizes.size(*axis);
                    self.copy(of(*part), [*axis, into], Window { from: 0, to, len }, &mut out);
                    to += len;
                }
                out
            }
            Op::Gather { of: a, axis, at } => self.gather(of(a), axis, of(at)),
            Op::Scatter { of: a, at, ref over, into } => self.scatter(of(a), of(at), over, into),
            Op::Argsort { of: a, axis } => self.argsort(of(a), axis),
        };
        Ok(Value::new(axes.to_vec(), data))
    }

    fn map<T: Real>(&self, a: &Value<T>, f: impl Fn(T) -> T) -> Vec<T> {
        a.arranged(self.sizes, &self.node.axes).data.iter().map(|x| f(*x)).collect()
    }

    fn map2<T: Real>(&self, a: &Value<T>, b: &Value<T>, f: impl Fn(T, T) -> T) -> Vec<T> {
        let axes = &self.node.axes;
        let loops = self.sizes.loops(axes, [&a.axes, &b.axes]);
        let (a, b) = (&a.data[..], &b.data[..]);
        let mut out = Vec::with_capacity(self.sizes.len(axes));
        let n = loops.inner.size;
        let [step_a, step_b] = loops.inner.strides;
        loops.rows(|[i, j]| match [step_a, step_b] {
            [1, 1] => out.extend(a[i..i + n].iter().zip(&b[j..j + n]).map(|(x, y)| f(*x, *y))),
            [1, 0] => out.extend(a[i..i + n].iter().map(|x| f(*x, b[j]))),
            [0, 1] => out.extend(b[j..j + n].iter().map(|y| f(a[i], *y))),
            _ => out.extend((0..n).map(|k| f(a[i + k * step_a], b[j + k * step_b]))),
        });
        out
    }

    fn select<T: Real>(&self, c: &Value<T>, a: &Value<T>, b: &Value<T>) -> Vec<T> {
        let axes = &self.node.axes;
        let loops = self.sizes.loops(axes, [&c.axes, &a.axes, &b.axes]);
        let (c, a, b) = (&c.data[..], &a.data[..], &b.data[..]);
        let mut out = Vec::with_capacity(self.sizes.len(axes));
        let [step_c, step_a, step_b] = loops.inner.strides;
        loops.rows(|[h, i, j]| {
            let one = |k: usize| if c[h + k * step_c] != T::ZERO { a[i + k * step_a] } else { b[j + k * step_b] };
            out.extend((0..loops.inner.size).map(one));
        });
        out
    }

    /// Folds the entries that lie over one another, in the order in which the operand stores them.
    fn reduce<T: Real, A: Copy>(&self, a: &Value<T>, first: A, f: impl Fn(A, T) -> A) -> Vec<A> {
        let loops = self.sizes.loops(&a.axes, [&a.axes, &self.node.axes]);
        let mut out = vec![first; self.sizes.len(&self.node.axes)];
        let n = loops.inner.size;
        let [from, to] = loops.inner.strides;
        loops.rows(|[i, j]| match [from, to] {
            [1, 0] => out[j] = a.data[i..i + n].iter().fold(out[j], |acc, x| f(acc, *x)),
            [1, 1] => out[j..j + n].iter_mut().zip(&a.data[i..i + n]).for_each(|(acc, x)| *acc = f(*acc, *x)),
            _ => (0..n).for_each(|k| out[j + k * to] = f(out[j + k * to], a.data[i + k * from])),
        });
        out
    }

    fn composite<T: Real>(&self, f: Composite, a: &Value<T>) -> Vec<T> {
        match f {
            Composite::Tanh => self.map(a, T::tanh),
            Composite::Sigmoid => self.map(a, T::sigmoid),
            Composite::Softplus => self.map(a, T::softplus),
            Composite::Abs => self.map(a, T::abs),
            Composite::Sign => self.map(a, T::sign),
            Composite::Softmax(axis) => self.rows(a, axis, |row, out| {
                let largest = largest(row);
                let start = out.len();
                out.extend(row.iter().map(|x| (*x - largest).exp()));
                let total = total(&out[start..]);
                out[start..].iter_mut().for_each(|x| *x = *x / total);
            }),
            Composite::LogSoftmax(axis) => self.rows(a, axis, |row, out| {
                let largest = largest(row);
                let log_total = row.iter().map(|x| (*x - largest).exp().to_f64()).sum::<f64>().ln();
                out.extend(row.iter().map(|x| *x - largest - T::from_f64(log_total)));
            }),
            Composite::LogSumExp(axis) => self.rows(a, axis, |row, out| {
                let largest = largest(row);
                // Of nothing but minus infinity, of nothing at all, or with infinity among them.
                if !largest.is_finite() {
                    return out.push(largest);
                }
                let total = row.iter().map(|x| (*x - largest).exp().to_f64()).sum::<f64>();
                out.push(largest + T::from_f64(total.ln()));
            }),
        }
    }

    /// Calls `f` with each row along `axis`; it appends what takes the row's place: as many numbers, or one.
    fn rows<T: Real>(&self, a: &Value<T>, axis: AxisId, f: impl Fn(&[T], &mut Vec<T>)) -> Vec<T> {
        let rest = except(&a.axes, &[axis]);
        let last = [rest.clone(), vec![axis]].concat();
        let rows = a.arranged(self.sizes, &last);
        let n = self.sizes.size(axis);
        let mut out = Vec::with_capacity(rows.data.len());
        for row in 0..self.sizes.len(&rest) {
            f(&rows.data[row * n..][..n], &mut out);
        }
        let axes = if self.node.axes.contains(&axis) { &last } else { &rest };
        super::value::arrange(self.sizes, axes, &out, &self.node.axes)
    }

    /// Writes a window of an operand's axis into a window of the value's axis, lined up along all others.
    fn copy<T: Real>(&self, a: &Value<T>, [axis, into]: [AxisId; 2], window: Window, out: &mut [T]) {
        let axes = &self.node.axes;
        let strides = [self.sizes.stride(&a.axes, axis), self.sizes.stride(axes, into)];
        let dims = axes.iter().map(|x| {
            let mut dim = self.sizes.dim(*x, [&a.axes, axes]);
            if *x == into {
                dim.size = window.len;
                dim.strides = strides;
            }
            dim
        });
        let loops = super::loops::Loops::new(dims);
        let n = loops.inner.size;
        let [from, to] = loops.inner.strides;
        loops.rows(|[i, j]| {
            let (i, j) = (i + window.from * strides[0], j + window.to * strides[1]);
            match [from, to] {
                [1, 1] => out[j..j + n].copy_from_slice(&a.data[i..i + n]),
                _ => (0..n).for_each(|k| out[j + k * to] = a.data[i + k * from]),
            }
        });
    }

    fn gather<T: Real>(&self, a: &Value<T>, axis: AxisId, at: &Value<T>) -> Vec<T> {
        let axes = &self.node.axes;
        let stride = self.sizes.stride(&a.axes, axis);
        // An axis of the places that has the name of the gathered one is the places' own.
        let loops = super::loops::Loops::new(axes.iter().map(|x| {
            let mut dim = self.sizes.dim(*x, [&a.axes, &at.axes]);
            if *x == axis {
                dim.strides[0] = 0;
            }
            dim
        }));
        let mut out = Vec::with_capacity(self.sizes.len(axes));
        let size = self.sizes.size(axis);
        loops.entries(|[i, j]| {
            out.push(place(at.data[j].to_f64(), size).map_or(T::from_f64(f64::NAN), |place| a.data[i + place * stride]));
        });
        out
    }

    fn scatter<T: Real>(&self, a: &Value<T>, at: &Value<T>, over: &[AxisId], into: AxisId) -> Vec<T> {
        let axes = &self.node.axes;
        let stride = self.sizes.stride(axes, into);
        let read: Vec<AxisId> = [&at.axes[..], &except(&a.axes, &at.axes)].concat();
        let loops = super::loops::Loops::new(read.iter().map(|x| {
            let mut dim = self.sizes.dim(*x, [&a.axes, &at.axes, axes]);
            if over.contains(x) {
                dim.strides[2] = 0;
            }
            dim
        }));
        let mut sums = vec![0.0; self.sizes.len(axes)];
        let size = self.sizes.size(into);
        loops.entries(|[i, j, k]| {
            if let Some(place) = place(at.data[j].to_f64(), size) {
                sums[k + place * stride] += a.data[i].to_f64();
            }
        });
        sums.into_iter().map(T::from_f64).collect()
    }

    fn argsort<T: Real>(&self, a: &Value<T>, axis: AxisId) -> Vec<T> {
        self.rows(a, axis, |row, out| {
            let mut places: Vec<usize> = (0..row.len()).collect();
            places.sort_by(|i, j| ascending(row[*i], row[*j]));
            out.extend(places.into_iter().map(|place| T::from_f64(place as f64)));
        })
    }
}

/// Which entries of an axis go to which of another.
#[derive(Debug, Clone, Copy)]
struct Window {
    from: usize,
    to: usize,
    len: usize,
}

fn largest<T: Real>(row: &[T]) -> T {
    row.iter().fold(T::NEG_INFINITY, |a, b| a.larger(*b))
}

fn total<T: Real>(row: &[T]) -> T {
    T::from_f64(row.iter().map(|x| x.to_f64()).sum())
}

/// NaN after all numbers; zeros of either sign are equal.
pub(crate) fn ascending<T: Real>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The entry that a number names, of `size`: the nearest whole number, halves upwards. None where there is no such entry;
/// a gather reads NaN there, and a scatter adds nothing. All backends follow this rule.
pub(crate) fn place(at: f64, size: usize) -> Option<usize> {
    let below = at.floor();
    let nearest = if at - below >= 0.5 { below + 1.0 } else { below };
    (nearest >= 0.0 && nearest < size as f64).then_some(nearest as usize)
}
