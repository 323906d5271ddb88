//! What the named functions mean: each as primitives.
//!
//! The bodies are stable: exponentials are taken of what is not positive, and the two halves of a function meet at zero
//! as branches of which each is the function itself, so that derivatives of any order agree there too.
//! Shifts by a maximum are constants to a gradient; the functions do not depend on them.

use dsl::source::Span;

use crate::ir::{AxisId, Composite, Graph, Reduction, Unary, ValueId};

/// Appends the body of a composite of `x` to a graph.
pub fn body(composite: Composite, graph: &mut Graph, x: ValueId, span: Span) -> ValueId {
    match composite {
        Composite::Tanh => tanh(graph, x, span),
        Composite::Sigmoid => sigmoid(graph, x, span),
        Composite::Softplus => softplus(graph, x, span),
        // x sign(x): like the gradient of the absolute value, 0 at 0.
        Composite::Abs => {
            let sign = sign(graph, x, span);
            graph.mul(x, sign, span)
        }
        Composite::Sign => sign(graph, x, span),
        Composite::Softmax(axis) => {
            let shifted = shifted(graph, x, axis, span);
            let e = graph.unary(Unary::Exp, shifted, span);
            let total = graph.sum(e, &[axis], span);
            graph.div(e, total, span)
        }
        Composite::LogSoftmax(axis) => {
            let shifted = shifted(graph, x, axis, span);
            let log_total = log_total(graph, shifted, axis, span);
            graph.sub(shifted, log_total, span)
        }
        // Of nothing but minus infinity, or of nothing at all, it is minus infinity: the shift stays finite.
        Composite::LogSumExp(axis) => {
            let largest = graph.reduce(Reduction::Max, x, &[axis], span);
            let lowest = graph.constant(f64::from(f32::MIN), span);
            let largest = graph.max(largest, lowest, span);
            let largest = graph.stop(largest, span);
            let shifted = graph.sub(x, largest, span);
            let log_total = log_total(graph, shifted, axis, span);
            graph.add(largest, log_total, span)
        }
    }
}

/// With `e = exp(-2 |x|)`: `(1 - e) / (1 + e)`, and minus that where x is negative.
fn tanh(graph: &mut Graph, x: ValueId, span: Span) -> ValueId {
    let (negative, below) = minus_abs(graph, x, span);
    let twice = graph.scale(below, 2.0, span);
    let e = graph.unary(Unary::Exp, twice, span);
    let numerator = graph.not(e, span);
    let denominator = one_plus(graph, e, span);
    let t = graph.div(numerator, denominator, span);
    let minus = graph.neg(t, span);
    graph.select(negative, minus, t, span)
}

/// With `e = exp(-|x|)`: `1 / (1 + e)`, and `e / (1 + e)` where x is negative.
fn sigmoid(graph: &mut Graph, x: ValueId, span: Span) -> ValueId {
    let (negative, below) = minus_abs(graph, x, span);
    let e = graph.unary(Unary::Exp, below, span);
    let one = graph.constant(1.0, span);
    let numerator = graph.select(negative, e, one, span);
    let denominator = one_plus(graph, e, span);
    graph.div(numerator, denominator, span)
}

/// With `e = exp(-|x|)`: `x + log(1 + e)`, and `log(1 + e)` where x is negative. The logarithm of a small e is its
/// series, so that the result is not 0 where it is small.
fn softplus(graph: &mut Graph, x: ValueId, span: Span) -> ValueId {
    let (negative, below) = minus_abs(graph, x, span);
    let e = graph.unary(Unary::Exp, below, span);
    let zero = graph.constant(0.0, span);
    let positive_part = graph.select(negative, zero, x, span);
    let one_plus_e = one_plus(graph, e, span);
    let log = graph.unary(Unary::Log, one_plus_e, span);
    // e (1 - e (1/2 - e (1/3 - e / 4))): off by less than e^4 / 5, in proportion.
    let mut series = graph.constant(0.25, span);
    for c in [1.0 / 3.0, 0.5, 1.0] {
        let c = graph.constant(c, span);
        let step = graph.mul(e, series, span);
        series = graph.sub(c, step, span);
    }
    let series = graph.mul(e, series, span);
    let limit = graph.constant(1e-3, span);
    let small = graph.less(e, limit, span);
    let log = graph.select(small, series, log, span);
    graph.add(positive_part, log, span)
}

/// `(0 < x) - (x < 0)`
fn sign(graph: &mut Graph, x: ValueId, span: Span) -> ValueId {
    let zero = graph.constant(0.0, span);
    let positive = graph.less(zero, x, span);
    let negative = graph.less(x, zero, span);
    graph.sub(positive, negative, span)
}

/// Whether x is negative, and `-|x|`.
fn minus_abs(graph: &mut Graph, x: ValueId, span: Span) -> (ValueId, ValueId) {
    let zero = graph.constant(0.0, span);
    let negative = graph.less(x, zero, span);
    let minus = graph.neg(x, span);
    (negative, graph.select(negative, x, minus, span))
}

fn one_plus(graph: &mut Graph, e: ValueId, span: Span) -> ValueId {
    let one = graph.constant(1.0, span);
    graph.add(one, e, span)
}

/// `x` less its largest entry along the axis.
fn shifted(graph: &mut Graph, x: ValueId, axis: AxisId, span: Span) -> ValueId {
    let largest = graph.reduce(Reduction::Max, x, &[axis], span);
    let largest = graph.stop(largest, span);
    graph.sub(x, largest, span)
}

fn log_total(graph: &mut Graph, shifted: ValueId, axis: AxisId, span: Span) -> ValueId {
    let e = graph.unary(Unary::Exp, shifted, span);
    let total = graph.sum(e, &[axis], span);
    graph.unary(Unary::Log, total, span)
}

#[cfg(test)]
mod tests;
