//! The reference interpreter: what a graph program means, in single and in double precision.
//!
//! It runs one node after the other, scans step by step, and is the oracle for everything faster: it is written to be
//! read. [`run`] takes a program that holds the invariants of [`crate::ir`]; what a caller can get wrong (inputs, draws,
//! places to gather at) is a [`RunError`].
//!
//! - An array's storage order is that of its axes. Every operation works for any order of its operands' axes; the
//!   node says in which order its value is stored.
//! - Sums are taken in double precision in a fixed order, products by one thread: same inputs, same bits.
//! - A reduction over an axis of size zero is 0 for a sum and minus infinity for a maximum.
//! - `max` of a NaN is NaN; a comparison with a NaN is false; a NaN sorts last.
//! - A value nobody needs is not computed, and one that nobody needs any more is dropped.

mod axes;
mod dot;
mod error;
mod eval;
mod gemm;
mod loops;
mod machine;
mod real;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;

#[cfg(any(test, feature = "testing"))]
pub(crate) use axes::Axes;
pub use error::RunError;
pub(crate) use eval::{ascending, place};
pub use real::Real;
pub use value::Array;
#[cfg(any(test, feature = "testing"))]
pub(crate) use value::arrange;

use crate::ir::{AxisId, Node, Program};

/// What random numbers depend on, with the names of the draw and of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clock {
    pub seed: u64,
    pub step: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Inputs and draws that are not finite are errors, and so is an output that is not finite: the error names the
    /// operation that first made such a number out of finite ones. Numbers that a `where` leaves out do no harm.
    pub check: bool,
}

/// An array to look at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a, T> {
    pub axes: &'a [AxisId],
    pub data: &'a [T],
}

/// One node that ran: what a watcher sees. Nodes of a scan's body come once a step; a scan itself does not come.
#[derive(Debug)]
pub struct Ran<'a, T> {
    pub node: &'a Node,
    pub operands: &'a [View<'a, T>],
    pub value: View<'a, T>,
}

/// Runs a program on inputs in the order of [`Program::inputs`], each with the program's axes in the program's order
/// ([`Array::arranged`] brings it there). Random numbers come from the clock, or from `draws` by the draw's name; the
/// axes of a draw inside scans begin with the axes of these scans, the outermost first.
pub fn run<T: Real>(
    program: &Program,
    inputs: &[Array<T>],
    draws: &BTreeMap<String, Array<T>>,
    clock: Clock,
) -> Result<Vec<Array<T>>, RunError> {
    run_with(program, inputs, draws, clock, RunOptions::default())
}

/// [`run`], with options.
pub fn run_with<T: Real>(
    program: &Program,
    inputs: &[Array<T>],
    draws: &BTreeMap<String, Array<T>>,
    clock: Clock,
    options: RunOptions,
) -> Result<Vec<Array<T>>, RunError> {
    machine::run(program, inputs, draws, clock, options, None)
}

/// [`run_with`], showing every node that ran to a watcher.
pub fn run_watched<T: Real>(
    program: &Program,
    inputs: &[Array<T>],
    draws: &BTreeMap<String, Array<T>>,
    clock: Clock,
    options: RunOptions,
    watch: &mut dyn FnMut(&Ran<'_, T>),
) -> Result<Vec<Array<T>>, RunError> {
    machine::run(program, inputs, draws, clock, options, Some(watch))
}
