//! What is known of a value whatever the inputs are: how large it can get, and whether it is a truth value.

use crate::ir::{Axis, AxisId, Composite, Graph, Op, Reduction, Unary, ValueId};

/// Beyond this, a number of single precision may be on its way to infinity.
const LARGE: f64 = 1e30;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Facts {
    /// No entry is farther from zero than this; infinity if nothing is known, NaN included.
    bound: f64,
    /// Every entry is 0 or 1.
    pub(super) truth: bool,
    /// Every entry is a whole number from 0 to below this; infinity if that is not known.
    pub(super) places: f64,
}

impl Facts {
    const UNKNOWN: Facts = Facts { bound: f64::INFINITY, truth: false, places: f64::INFINITY };

    fn within(bound: f64) -> Facts {
        // Written so that a NaN bound is no bound.
        if bound <= LARGE { Facts { bound, ..Facts::UNKNOWN } } else { Facts::UNKNOWN }
    }

    pub(super) fn is_finite(self) -> bool {
        self.bound.is_finite()
    }
}

/// The facts of an operation, from those of its operands.
pub(super) fn facts(axes: &[Axis], graph: &Graph, op: &Op, of: impl Fn(ValueId) -> Facts) -> Facts {
    let size = |a: &AxisId| axes[a.0 as usize].size as f64;
    let count = |over: &[AxisId]| over.iter().map(size).product::<f64>();
    let both = |a: ValueId, b: ValueId, bound: fn(f64, f64) -> f64| {
        let (a, b) = (of(a), of(b));
        Facts { truth: a.truth && b.truth, ..Facts::within(bound(a.bound, b.bound)) }
    };
    match op {
        Op::Input(_) | Op::Param(_) | Op::Random { .. } | Op::Scan(_) | Op::Out { .. } => Facts::UNKNOWN,
        Op::Const(c) => {
            let places = if *c >= 0.0 && c.fract() == 0.0 { c + 1.0 } else { f64::INFINITY };
            Facts { truth: *c == 0.0 || *c == 1.0, places, ..Facts::within(c.abs()) }
        }
        Op::Iota(axis) => Facts { truth: size(axis) <= 2.0, places: size(axis), ..Facts::within(size(axis)) },
        Op::Unary(f, a) => match f {
            Unary::Exp => Facts::within(of(*a).bound.exp()),
            Unary::Sin if of(*a).is_finite() => Facts::within(1.0),
            Unary::Floor => Facts { truth: of(*a).truth, ..Facts::within(of(*a).bound + 1.0) },
            Unary::Log | Unary::Sin | Unary::Sqrt | Unary::Recip => Facts::UNKNOWN,
        },
        // The negation of a truth value, `c (-1) + 1`, is one.
        Op::Add(a, b) => {
            let negation = graph.as_const(*b) == Some(1.0)
                && matches!(graph.node(*a).op, Op::Mul(c, n) if of(c).truth && graph.as_const(n) == Some(-1.0));
            let places = of(*a).places + of(*b).places - 1.0;
            Facts { truth: negation, places, ..both(*a, *b, |a, b| a + b) }
        }
        Op::Mul(a, b) => both(*a, *b, |a, b| a * b),
        Op::Max(a, b) => both(*a, *b, f64::max),
        Op::Less(..) => Facts { bound: 1.0, truth: true, places: 2.0 },
        Op::Where(_, a, b) => both(*a, *b, f64::max),
        Op::Composite(f, a) => {
            let a = of(*a);
            match f {
                Composite::Sign => Facts::within(1.0),
                Composite::Tanh | Composite::Sigmoid | Composite::Softmax(_) if a.is_finite() => Facts::within(1.0),
                Composite::Abs => Facts { truth: a.truth, ..Facts::within(a.bound) },
                Composite::Softplus => Facts::within(a.bound + 1.0),
                Composite::Tanh
                | Composite::Sigmoid
                | Composite::Softmax(_)
                | Composite::LogSoftmax(_)
                | Composite::LogSumExp(_) => Facts::UNKNOWN,
            }
        }
        Op::Expand(a) | Op::Stop(a) | Op::Id(a) => of(*a),
        Op::Rename { of: a, .. }
        | Op::Split { of: a, .. }
        | Op::Join { of: a, .. }
        | Op::Slice { of: a, .. }
        | Op::Pad { of: a, .. } => of(*a),
        // An index that names no entry reads NaN.
        Op::Gather { of: a, at, axis } if of(*at).places <= size(axis) => of(*a),
        Op::Gather { .. } => Facts::UNKNOWN,
        Op::Reduce { op: Reduction::Sum, of: a, over } => {
            let one = over.iter().all(|a| size(a) == 1.0);
            Facts { truth: one && of(*a).truth, ..Facts::within(of(*a).bound * count(over)) }
        }
        // Of no entries, the largest is minus infinity.
        Op::Reduce { op: Reduction::Max, of: a, over } if count(over) > 0.0 => of(*a),
        Op::Reduce { op: Reduction::Max, .. } => Facts::UNKNOWN,
        Op::Dot { a, b, over } => {
            let product = both(*a, *b, |a, b| a * b);
            Facts::within(product.bound * count(over))
        }
        Op::Concat { parts, .. } => parts
            .iter()
            .map(|p| of(*p))
            .reduce(|a, b| Facts { bound: a.bound.max(b.bound), truth: a.truth && b.truth, places: a.places.max(b.places) })
            .unwrap_or(Facts::UNKNOWN),
        Op::Scatter { of: a, over, .. } => Facts::within(of(*a).bound * count(over)),
        Op::Argsort { axis, .. } => Facts { places: size(axis), ..Facts::within(size(axis)) },
    }
}
