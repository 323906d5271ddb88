//! Expressions over named axes.

use serde::{Deserialize, Serialize};

use super::{AxisId, FamilyId, ParamId, Size, VarId};
use crate::source::Span;

/// Index into [`super::Model::exprs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExprId(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    Real,
    Bool,
}

/// A constant, equal to another where the bits are.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Real(pub f64);

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Real {}
impl std::hash::Hash for Real {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// An expression: its operation, the axes of its value in storage order, and its span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub op: Op,
    pub axes: Vec<AxisId>,
    pub dtype: Dtype,
    pub span: Span,
}

/// A subscript: a sum of index variables times whole numbers, and an offset.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Index {
    /// Sorted by variable; no coefficient is zero.
    pub terms: Vec<(VarId, i64)>,
    pub offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnaryOp {
    Neg,
    Not,
    Exp,
    Log,
    Sin,
    Cos,
    Sqrt,
    Abs,
    Sign,
    Floor,
    Tanh,
    Sigmoid,
    Softplus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Max,
    Min,
    Rem,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReduceOp {
    Sum,
    Mean,
    Max,
    Min,
    Prod,
    LogSumExp,
}

/// What a draw consists of before it is shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Standard normal.
    Gaussian,
    /// Uniform in `[0, 1)`.
    Uniform,
    /// The first entries of a random permutation of `0..of`.
    Subset { of: u32 },
}

/// What an expression does. Axes of operands line up by identity; an elementwise operation's value has the union of
/// its operands' axes, one of which contains the others'.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    // ---- leaves
    Const(Real),
    /// A size as a number, where a task binds it.
    Size(Size),
    /// The value of a subscript, as in `gamma^k`.
    Index(Index),
    /// How far the training has come, from 0 to 1, in environment steps.
    Progress,
    /// Whether an equation is computed for an update, and not for an action.
    Training,
    /// `0, 1, ..` along an axis.
    Iota(AxisId),
    /// A field of the data at a subscript.
    Input {
        input: usize,
        index: Index,
    },
    Param(ParamId),
    /// The slow copy of a parameter.
    Slow(ParamId),
    Schedule(usize),
    /// A running statistic: the updated value, or inside its own definition the old one.
    Running(usize),
    /// A carry as the entry point receives it.
    Carry(usize),
    /// A family of the same system at subscripts.
    Read {
        family: FamilyId,
        leaf: usize,
        index: Vec<Index>,
    },
    /// A family of the training system, read by the acting system.
    Outer {
        family: FamilyId,
        leaf: usize,
        index: Vec<Index>,
    },
    /// Random numbers of [`super::Model::draws`].
    Draw(usize),
    /// In an update rule: the parameter, its gradient, the norm of all gradients, the number of this update, the
    /// group's factor, a slot.
    Weight,
    Gradient,
    TotalNorm,
    Count,
    Scale,
    Slot(usize),
    /// Stands for a net's input while its parameters are found; never part of a finished model.
    Hole(u32),

    // ---- elementwise
    Unary(UnaryOp, ExprId),
    Binary(BinaryOp, ExprId, ExprId),
    /// `where` condition, one, other.
    Select(ExprId, ExprId, ExprId),

    // ---- axes
    /// The same value along more axes.
    Broadcast(ExprId),
    Reduce {
        op: ReduceOp,
        of: ExprId,
        over: Vec<AxisId>,
    },
    Softmax {
        of: ExprId,
        over: AxisId,
        log: bool,
    },
    /// Product summed over the listed shared axes.
    Dot {
        a: ExprId,
        b: ExprId,
        over: Vec<AxisId>,
    },
    Rename {
        of: ExprId,
        from: AxisId,
        to: AxisId,
    },
    /// One axis into several, row-major.
    Split {
        of: ExprId,
        axis: AxisId,
        into: Vec<AxisId>,
    },
    /// Several axes into one, row-major.
    Join {
        of: ExprId,
        axes: Vec<AxisId>,
        into: AxisId,
    },
    /// Values side by side along the new axis `into`; of each part the axes `along[i]` are flattened (none: one entry).
    Concat {
        parts: Vec<ExprId>,
        along: Vec<Vec<AxisId>>,
        into: AxisId,
    },
    /// Entries `start..start + size(into)` of an axis, as the axis `into`.
    Slice {
        of: ExprId,
        axis: AxisId,
        start: Size,
        into: AxisId,
    },
    /// The entry of an axis at a subscript; the axis goes.
    At {
        of: ExprId,
        axis: AxisId,
        index: Index,
    },
    /// Entries of an axis at computed places; the axes of `at` take the axis's place.
    Take {
        of: ExprId,
        axis: AxisId,
        at: ExprId,
    },
    /// Along an axis, in ascending order.
    Sort {
        of: ExprId,
        axis: AxisId,
    },
    /// Places of the `size(into)` largest entries of an axis, largest first.
    Top {
        of: ExprId,
        axis: AxisId,
        into: AxisId,
    },
    ArgMax {
        of: ExprId,
        axis: AxisId,
    },

    // ---- indices and the batch
    /// The values for all of a variable's range, along an axis of that size.
    Each {
        var: VarId,
        into: AxisId,
        body: ExprId,
    },
    /// Reduction over index variables and, if asked, over the samples of the batch.
    Fold {
        op: ReduceOp,
        vars: Vec<VarId>,
        batch: bool,
        body: ExprId,
    },
    /// All values over the batch and variables, in that order, along one axis.
    Collect {
        vars: Vec<VarId>,
        batch: bool,
        body: ExprId,
        into: AxisId,
    },

    // ---- gradients
    /// The same value, without a gradient.
    Stop(ExprId),
    /// The same value under a name of its own: what `grad` differentiates by. The number keeps two of them apart.
    Alias(ExprId, u32),
    /// The derivative of the scalar `of` by `wrt`, along every path from one to the other.
    Grad {
        of: ExprId,
        wrt: ExprId,
    },
}

impl Op {
    /// Calls `f` with every operand.
    pub fn operands(&self, mut f: impl FnMut(ExprId)) {
        match self {
            Op::Const(_)
            | Op::Size(_)
            | Op::Index(_)
            | Op::Progress
            | Op::Training
            | Op::Iota(_)
            | Op::Input { .. }
            | Op::Param(_)
            | Op::Slow(_)
            | Op::Schedule(_)
            | Op::Running(_)
            | Op::Carry(_)
            | Op::Read { .. }
            | Op::Outer { .. }
            | Op::Draw(_)
            | Op::Weight
            | Op::Gradient
            | Op::TotalNorm
            | Op::Count
            | Op::Scale
            | Op::Slot(_)
            | Op::Hole(_) => {}
            Op::Unary(_, a) | Op::Broadcast(a) | Op::Stop(a) | Op::Alias(a, _) => f(*a),
            Op::Reduce { of, .. }
            | Op::Softmax { of, .. }
            | Op::Rename { of, .. }
            | Op::Split { of, .. }
            | Op::Join { of, .. }
            | Op::Slice { of, .. }
            | Op::At { of, .. }
            | Op::Sort { of, .. }
            | Op::Top { of, .. }
            | Op::ArgMax { of, .. } => f(*of),
            Op::Each { body, .. } | Op::Fold { body, .. } | Op::Collect { body, .. } => f(*body),
            Op::Binary(_, a, b) | Op::Dot { a, b, .. } => {
                f(*a);
                f(*b);
            }
            Op::Take { of, at, .. } => {
                f(*of);
                f(*at);
            }
            Op::Grad { of, wrt } => {
                f(*of);
                f(*wrt);
            }
            Op::Select(a, b, c) => {
                f(*a);
                f(*b);
                f(*c);
            }
            Op::Concat { parts, .. } => parts.iter().for_each(|p| f(*p)),
        }
    }

    /// The same operation on other operands.
    pub fn map_operands(mut self, mut f: impl FnMut(ExprId) -> ExprId) -> Op {
        match &mut self {
            Op::Const(_)
            | Op::Size(_)
            | Op::Index(_)
            | Op::Progress
            | Op::Training
            | Op::Iota(_)
            | Op::Input { .. }
            | Op::Param(_)
            | Op::Slow(_)
            | Op::Schedule(_)
            | Op::Running(_)
            | Op::Carry(_)
            | Op::Read { .. }
            | Op::Outer { .. }
            | Op::Draw(_)
            | Op::Weight
            | Op::Gradient
            | Op::TotalNorm
            | Op::Count
            | Op::Scale
            | Op::Slot(_)
            | Op::Hole(_) => {}
            Op::Unary(_, a) | Op::Broadcast(a) | Op::Stop(a) | Op::Alias(a, _) => *a = f(*a),
            Op::Reduce { of, .. }
            | Op::Softmax { of, .. }
            | Op::Rename { of, .. }
            | Op::Split { of, .. }
            | Op::Join { of, .. }
            | Op::Slice { of, .. }
            | Op::At { of, .. }
            | Op::Sort { of, .. }
            | Op::Top { of, .. }
            | Op::ArgMax { of, .. } => *of = f(*of),
            Op::Each { body, .. } | Op::Fold { body, .. } | Op::Collect { body, .. } => *body = f(*body),
            Op::Binary(_, a, b) | Op::Dot { a, b, .. } | Op::Take { of: a, at: b, .. } | Op::Grad { of: a, wrt: b } => {
                *a = f(*a);
                *b = f(*b);
            }
            Op::Select(a, b, c) => {
                *a = f(*a);
                *b = f(*b);
                *c = f(*c);
            }
            Op::Concat { parts, .. } => parts.iter_mut().for_each(|p| *p = f(*p)),
        }
        self
    }
}
