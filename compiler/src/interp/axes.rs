//! Sizes and strides of arrays over named axes.

use super::loops::{Dim, Loops};
use crate::ir::{Axis, AxisId};

/// The axes of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axes<'p>(pub(crate) &'p [Axis]);

impl Axes<'_> {
    pub(crate) fn size(self, axis: AxisId) -> usize {
        self.0[axis.0 as usize].size
    }

    /// Number of entries of an array over these axes.
    pub(crate) fn len(self, axes: &[AxisId]) -> usize {
        axes.iter().map(|a| self.size(*a)).product()
    }

    /// The distance between neighbours along `axis` in a row-major array over `axes`; 0 if it has no such axis.
    pub(crate) fn stride(self, axes: &[AxisId], axis: AxisId) -> usize {
        match axes.iter().position(|a| *a == axis) {
            Some(place) => self.len(&axes[place + 1..]),
            None => 0,
        }
    }

    /// Loops over the axes `over`, with strides through arrays over `arrays`.
    pub(crate) fn loops<const N: usize>(self, over: &[AxisId], arrays: [&[AxisId]; N]) -> Loops<N> {
        Loops::new(over.iter().map(|a| self.dim(*a, arrays)))
    }

    pub(crate) fn dim<const N: usize>(self, axis: AxisId, arrays: [&[AxisId]; N]) -> Dim<N> {
        Dim { size: self.size(axis), strides: arrays.map(|axes| self.stride(axes, axis)) }
    }

    /// `[b 4, t 16]`, for messages.
    pub(crate) fn describe(self, axes: &[AxisId]) -> String {
        let one = |a: &AxisId| match self.0.get(a.0 as usize) {
            Some(axis) => format!("{} {}", axis.name, axis.size),
            None => format!("axis {} that the program does not have", a.0),
        };
        format!("[{}]", axes.iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

/// The axes of `axes` that are not among `without`.
pub(crate) fn except(axes: &[AxisId], without: &[AxisId]) -> Vec<AxisId> {
    axes.iter().copied().filter(|a| !without.contains(a)).collect()
}

/// The same axes, in whatever order.
pub(crate) fn same_set(a: &[AxisId], b: &[AxisId]) -> bool {
    a.len() == b.len() && a.iter().all(|x| b.contains(x))
}
