//! The primitives. Every concern (axes, gradient, interpreter, text, lowering) matches on [`Op`] exhaustively, so an
//! operation without a gradient does not compile.

use serde::{Deserialize, Serialize};

use super::{AxisId, Graph, ValueId};

/// Elementwise functions of one operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unary {
    Exp,
    Log,
    Sin,
    Sqrt,
    Recip,
    Floor,
}

/// Functions with a name and a stable form of their own. What they mean is their body in primitives
/// (`crate::composite`); backends may compute them as they like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Composite {
    Tanh,
    Sigmoid,
    Softplus,
    Abs,
    Sign,
    /// Over one axis.
    Softmax(AxisId),
    LogSoftmax(AxisId),
    /// Over one axis, which goes.
    LogSumExp(AxisId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    Sum,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    Gaussian,
    Uniform,
    /// The first entries of a random permutation of `0..of`.
    Subset {
        of: u32,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Forward,
    Backward,
}

/// A loop along `axis`. The body's parameters are the carries, then one step of each of `xs`, then `consts`; its
/// results are the new carries, then one step of each output. The scan's values, taken by [`Op::Out`], are the final
/// carries, then the outputs with `axis` in front.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    pub axis: AxisId,
    pub direction: Direction,
    pub init: Vec<ValueId>,
    /// Each has `axis`.
    pub xs: Vec<ValueId>,
    pub consts: Vec<ValueId>,
    pub body: Graph,
}

/// What a node does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Op {
    // ---- leaves
    /// An array that the caller gives.
    Input(u32),
    /// A parameter of the scan body it stands in.
    Param(u32),
    Const(f64),
    /// `0, 1, ..` along its one axis.
    Iota(AxisId),
    /// Random numbers of a named draw; the axes are its counter.
    Random {
        draw: u32,
        noise: Noise,
    },

    // ---- elementwise: the value has the union of the operands' axes
    Unary(Unary, ValueId),
    Add(ValueId, ValueId),
    Mul(ValueId, ValueId),
    Max(ValueId, ValueId),
    /// 1 where the first is less than the second, else 0.
    Less(ValueId, ValueId),
    /// The second where the first is not zero, else the third.
    Where(ValueId, ValueId, ValueId),
    /// A named function; `Softmax` and its like see one axis as a whole.
    Composite(Composite, ValueId),

    // ---- axes
    /// The same value along more axes.
    Expand(ValueId),
    /// `from` under the name of `to`, which has its size.
    Rename {
        of: ValueId,
        from: AxisId,
        to: AxisId,
    },
    Reduce {
        op: Reduction,
        of: ValueId,
        over: Vec<AxisId>,
    },
    /// The product, summed over axes that both have; all other axes stay, shared ones once.
    Dot {
        a: ValueId,
        b: ValueId,
        over: Vec<AxisId>,
    },
    /// One axis into several, row-major, in its place.
    Split {
        of: ValueId,
        axis: AxisId,
        into: Vec<AxisId>,
    },
    /// Several axes into one, row-major, in the place of the first.
    Join {
        of: ValueId,
        axes: Vec<AxisId>,
        into: AxisId,
    },
    /// Entries `start..start + size(into)` of an axis.
    Slice {
        of: ValueId,
        axis: AxisId,
        start: usize,
        into: AxisId,
    },
    /// Zeros around: entry i of `axis` becomes entry `start + i` of `into`.
    Pad {
        of: ValueId,
        axis: AxisId,
        start: usize,
        into: AxisId,
    },
    /// Parts end to end along `into`; each part has the axis of `along` at its place, and all have the same other axes.
    Concat {
        parts: Vec<ValueId>,
        along: Vec<AxisId>,
        into: AxisId,
    },
    /// Entries of `axis` at the places `at` (whole numbers in range); its axes take the axis's place. An axis that both
    /// have lines up.
    Gather {
        of: ValueId,
        axis: AxisId,
        at: ValueId,
    },
    /// The adjoint: entries of `of` added up at the places `at` along the new axis `into`; the axes `over` of the
    /// places go.
    Scatter {
        of: ValueId,
        at: ValueId,
        over: Vec<AxisId>,
        into: AxisId,
    },
    /// Places along `axis` in the order that sorts it, ascending; ties in the order of their places.
    Argsort {
        of: ValueId,
        axis: AxisId,
    },

    // ---- loops
    Scan(Box<Scan>),
    /// One of a scan's values.
    Out {
        scan: ValueId,
        index: u32,
    },

    // ---- gradients
    /// The same value, without a gradient.
    Stop(ValueId),
    /// The same value under an identity of its own, which an inner gradient is taken by.
    Id(ValueId),
}

impl Unary {
    pub fn name(self) -> &'static str {
        match self {
            Unary::Exp => "exp",
            Unary::Log => "log",
            Unary::Sin => "sin",
            Unary::Sqrt => "sqrt",
            Unary::Recip => "recip",
            Unary::Floor => "floor",
        }
    }
}

impl Composite {
    pub fn name(self) -> &'static str {
        match self {
            Composite::Tanh => "tanh",
            Composite::Sigmoid => "sigmoid",
            Composite::Softplus => "softplus",
            Composite::Abs => "abs",
            Composite::Sign => "sign",
            Composite::Softmax(_) => "softmax",
            Composite::LogSoftmax(_) => "log_softmax",
            Composite::LogSumExp(_) => "logsumexp",
        }
    }
}

impl Op {
    pub fn name(&self) -> &'static str {
        match self {
            Op::Input(_) => "input",
            Op::Param(_) => "param",
            Op::Const(_) => "const",
            Op::Iota(_) => "iota",
            Op::Random { .. } => "random",
            Op::Unary(op, _) => op.name(),
            Op::Add(..) => "add",
            Op::Mul(..) => "mul",
            Op::Max(..) => "max",
            Op::Less(..) => "less",
            Op::Where(..) => "where",
            Op::Composite(op, _) => op.name(),
            Op::Expand(_) => "expand",
            Op::Rename { .. } => "rename",
            Op::Reduce { op: Reduction::Sum, .. } => "sum",
            Op::Reduce { op: Reduction::Max, .. } => "reduce_max",
            Op::Dot { .. } => "dot",
            Op::Split { .. } => "split",
            Op::Join { .. } => "join",
            Op::Slice { .. } => "slice",
            Op::Pad { .. } => "pad",
            Op::Concat { .. } => "concat",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Argsort { .. } => "argsort",
            Op::Scan(_) => "scan",
            Op::Out { .. } => "out",
            Op::Stop(_) => "stop",
            Op::Id(_) => "id",
        }
    }

    /// Calls `f` with every operand, in order.
    pub fn operands(&self, mut f: impl FnMut(ValueId)) {
        match self {
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Random { .. } => {}
            Op::Unary(_, a) | Op::Composite(_, a) | Op::Expand(a) | Op::Stop(a) | Op::Id(a) => f(*a),
            Op::Rename { of, .. }
            | Op::Reduce { of, .. }
            | Op::Split { of, .. }
            | Op::Join { of, .. }
            | Op::Slice { of, .. }
            | Op::Pad { of, .. }
            | Op::Argsort { of, .. } => f(*of),
            Op::Add(a, b) | Op::Mul(a, b) | Op::Max(a, b) | Op::Less(a, b) | Op::Dot { a, b, .. } => {
                f(*a);
                f(*b);
            }
            Op::Where(c, a, b) => [c, a, b].into_iter().for_each(|v| f(*v)),
            Op::Concat { parts, .. } => parts.iter().for_each(|v| f(*v)),
            Op::Gather { of, at, .. } | Op::Scatter { of, at, .. } => {
                f(*of);
                f(*at);
            }
            Op::Scan(scan) => scan.init.iter().chain(&scan.xs).chain(&scan.consts).for_each(|v| f(*v)),
            Op::Out { scan, .. } => f(*scan),
        }
    }

    /// The same operation on other operands.
    pub fn map_operands(mut self, mut f: impl FnMut(ValueId) -> ValueId) -> Op {
        match &mut self {
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Iota(_) | Op::Random { .. } => {}
            Op::Unary(_, a) | Op::Composite(_, a) | Op::Expand(a) | Op::Stop(a) | Op::Id(a) => *a = f(*a),
            Op::Rename { of, .. }
            | Op::Reduce { of, .. }
            | Op::Split { of, .. }
            | Op::Join { of, .. }
            | Op::Slice { of, .. }
            | Op::Pad { of, .. }
            | Op::Argsort { of, .. } => *of = f(*of),
            Op::Add(a, b) | Op::Mul(a, b) | Op::Max(a, b) | Op::Less(a, b) | Op::Dot { a, b, .. } => {
                *a = f(*a);
                *b = f(*b);
            }
            Op::Where(c, a, b) => {
                *c = f(*c);
                *a = f(*a);
                *b = f(*b);
            }
            Op::Concat { parts, .. } => parts.iter_mut().for_each(|p| *p = f(*p)),
            Op::Gather { of, at, .. } | Op::Scatter { of, at, .. } => {
                *of = f(*of);
                *at = f(*at);
            }
            Op::Scan(scan) => {
                let Scan { init, xs, consts, .. } = &mut **scan;
                init.iter_mut().chain(xs).chain(consts).for_each(|v| *v = f(*v));
            }
            Op::Out { scan, .. } => *scan = f(*scan),
        }
        self
    }
}
