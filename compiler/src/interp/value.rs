//! Arrays: what goes in and out, and what a running program holds.

use std::rc::Rc;

use dsl::source::Span;

use super::axes::{Axes, same_set};
use super::{Real, RunError, View};
use crate::ir::{AxisId, Program};

/// Numbers over named axes, row-major in the order of `axes`.
#[derive(Debug, Clone, PartialEq)]
pub struct Array<T> {
    pub axes: Vec<AxisId>,
    pub data: Vec<T>,
}

impl<T: Real> Array<T> {
    pub fn scalar(x: T) -> Array<T> {
        Array { axes: Vec::new(), data: vec![x] }
    }

    /// The same number everywhere.
    pub fn filled(program: &Program, axes: &[AxisId], x: T) -> Array<T> {
        Array { axes: axes.to_vec(), data: vec![x; program.len(axes)] }
    }

    /// The same array stored in another order of its axes. `name` is what the error calls it.
    pub fn arranged(&self, program: &Program, axes: &[AxisId], name: &str) -> Result<Array<T>, RunError> {
        let sizes = Axes(&program.axes);
        if !same_set(&self.axes, axes) {
            let (expected, found) = (sizes.describe(axes), sizes.describe(&self.axes));
            return Err(RunError::Axes { name: name.to_string(), expected, found });
        }
        self.check_length(sizes, name)?;
        Ok(Array { axes: axes.to_vec(), data: arrange(sizes, &self.axes, &self.data, axes) })
    }

    pub fn cast<U: Real>(&self) -> Array<U> {
        Array { axes: self.axes.clone(), data: self.data.iter().map(|x| U::from_f64(x.to_f64())).collect() }
    }

    pub(super) fn check_length(&self, sizes: Axes<'_>, name: &str) -> Result<(), RunError> {
        let (expected, found) = (sizes.len(&self.axes), self.data.len());
        if expected == found {
            return Ok(());
        }
        Err(RunError::Length { name: name.to_string(), expected, found, axes: sizes.describe(&self.axes) })
    }

    pub(super) fn check_finite(&self, name: &str) -> Result<(), RunError> {
        match first_not_finite(&self.data) {
            Some(place) => {
                let value = self.data[place].to_f64();
                Err(RunError::GivenNotFinite { name: name.to_string(), place, value })
            }
            None => Ok(()),
        }
    }
}

/// The place of the first number that is not finite. There mostly is none: the first pass makes no decisions, so that
/// it is quick.
pub(super) fn first_not_finite<T: Real>(data: &[T]) -> Option<usize> {
    if data.iter().fold(true, |finite, x| finite & x.is_finite()) {
        return None;
    }
    data.iter().position(|x| !x.is_finite())
}

/// The entries of an array over `from`, in the order of `to`: its axes, or more of them.
pub(crate) fn arrange<T: Copy>(sizes: Axes<'_>, from: &[AxisId], data: &[T], to: &[AxisId]) -> Vec<T> {
    let loops = sizes.loops(to, [from]);
    let mut out = Vec::with_capacity(sizes.len(to));
    let (n, [stride]) = (loops.inner.size, loops.inner.strides);
    loops.rows(|[at]| match stride {
        1 => out.extend_from_slice(&data[at..at + n]),
        0 => out.resize(out.len() + n, data[at]),
        _ => out.extend((0..n).map(|i| data[at + i * stride])),
    });
    out
}

/// Where a number that is not finite was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fault {
    pub(super) op: &'static str,
    pub(super) value: f64,
    /// An index that names no entry, and how many there are.
    pub(super) index: Option<(f64, usize)>,
    pub(super) span: Span,
}

impl Fault {
    pub(super) fn reaching(self, output: String) -> RunError {
        match self.index {
            Some((index, size)) => RunError::Index { output, index, size, span: self.span },
            None => RunError::NotFinite { output, op: self.op, value: self.value, span: self.span },
        }
    }
}

/// An array in a running program; copies share the numbers.
#[derive(Debug, Clone)]
pub(super) struct Value<T> {
    pub(super) axes: Vec<AxisId>,
    pub(super) data: Rc<Vec<T>>,
    /// Where its first number that is not finite comes from, if the run looks for these.
    pub(super) fault: Option<Fault>,
}

impl<T: Real> Value<T> {
    pub(super) fn new(axes: Vec<AxisId>, data: Vec<T>) -> Value<T> {
        Value { axes, data: Rc::new(data), fault: None }
    }

    /// The same numbers under other axes: no work.
    pub(super) fn relabelled(&self, axes: Vec<AxisId>) -> Value<T> {
        Value { axes, ..self.clone() }
    }

    /// Stored in the order of `axes`, along which it is repeated where it lacks one.
    pub(super) fn arranged(&self, sizes: Axes<'_>, axes: &[AxisId]) -> Value<T> {
        if self.axes == axes {
            return self.clone();
        }
        let data = arrange(sizes, &self.axes, &self.data, axes);
        Value { axes: axes.to_vec(), data: Rc::new(data), fault: self.fault }
    }

    pub(super) fn view(&self) -> View<'_, T> {
        View { axes: &self.axes, data: &self.data }
    }

    pub(super) fn into_array(self) -> Array<T> {
        Array { axes: self.axes, data: Rc::unwrap_or_clone(self.data) }
    }
}
