//! The syntax tree: what was written, with spans, before any name is looked up.
//!
//! Invariant: no expression is deeper than [`MAX_DEPTH`], so every walk over the tree may recurse.

use crate::source::Span;

/// A tree printed without its spans: two texts of one meaning print the same.
pub fn without_spans(tree: &impl std::fmt::Debug) -> String {
    let printed = format!("{tree:?}");
    let mut parts = printed.split("Span {");
    let first = parts.next().unwrap_or_default();
    let rest = parts.map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    [first].into_iter().chain(rest).collect()
}

/// Deepest expression the parser builds; a deeper one is reported and cut.
pub const MAX_DEPTH: u32 = 256;

#[derive(Debug, Clone, PartialEq)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct File {
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Use(Use),
    Model(Model),
    Block(Block),
    Fn(Function),
    Dist(Dist),
    Planner(PlannerDef),
    Optimizer(OptimizerDef),
    Tasks(Tasks),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Use {
    pub path: Vec<Ident>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub name: Ident,
    pub extends: Option<Ident>,
    pub members: Vec<Member>,
    pub span: Span,
}

/// `block linear(x: [I], bias = true) carry .. -> [O] { .. }`: a layer with parameters of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub carries: Vec<Carry>,
    pub out: Option<Shape>,
    pub body: Vec<Stmt>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub out: Option<Shape>,
    pub body: Vec<Stmt>,
    pub span: Span,
}

/// A distribution: its parameters, the shape of its event, shared `let`s and methods.
#[derive(Debug, Clone, PartialEq)]
pub struct Dist {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub event: Option<Shape>,
    pub body: Vec<Stmt>,
    pub methods: Vec<Function>,
    pub span: Span,
}

/// A search over action sequences, written as equations around the user's `rollout`.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannerDef {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub carries: Vec<Carry>,
    pub dims: Vec<Bind>,
    pub requires: Vec<Stmt>,
    pub equations: Vec<Equation>,
    pub nexts: Vec<(Ident, Expr)>,
    pub returns: Option<Expr>,
    pub span: Span,
}

/// An update rule: slots of state per parameter, and the new parameter as the returned value.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerDef {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub slots: Vec<Ident>,
    pub body: Vec<Stmt>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tasks {
    pub name: Ident,
    /// Settings that all of its tasks share.
    pub args: Vec<Arg>,
    pub tasks: Vec<Call>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ParamDecl {
    pub name: Ident,
    pub ty: Option<Type>,
    pub default: Option<Expr>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Carry {
    pub name: Ident,
    pub shape: Shape,
    pub init: Expr,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    Shape(Shape),
    Name(Ident),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub axes: Vec<Axis>,
    pub span: Span,
}

/// `Q`, `N = 16` (introduces the axis), or `X..` (any number of axes).
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub name: Ident,
    pub size: Option<Expr>,
    pub rest: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    pub name: Ident,
    pub ty: Type,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bind {
    pub name: Ident,
    pub value: Expr,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub name: Ident,
    pub args: Vec<Arg>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum OutType {
    Shape(Shape),
    Fields(Vec<Typed>, Span),
    /// A latent, an input or the action by name, or a distribution.
    Named(Call),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub kind: MemberKind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum MemberKind {
    Input(Vec<Typed>),
    Action { decl: Typed, range: Expr },
    Dims(Vec<Bind>),
    Consts(Vec<Bind>),
    Latent { name: Ident, fields: Vec<Typed> },
    Schedule(Bind),
    Memory(Memory),
    Net(Net),
    Param { decl: Typed, init: Expr },
    Slow { nets: Vec<Ident>, setting: Bind },
    Running { name: Ident, value: Expr, init: Expr },
    Fn(Function),
    Source { call: Call, over: Vec<Bind> },
    Loss(Loss),
    Metric(Equation),
    Record(Equation),
    Planner(Planner),
    Act(Vec<Equation>),
    Optimizer(Optimizer),
    Train(Vec<Bind>),
    Evaluate(Vec<Bind>),
    Diagnose(Diagnose),
    Tasks(Tasks),
    TasksUse(Call),
    Drop { kind: Ident, names: Vec<Ident> },
    Equation(Equation),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub out: Shape,
    pub block: Call,
    pub reset: Option<Expr>,
}

/// A `diagnose` block.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnose {
    /// `size = norm(z[t])`: a value for each decision.
    pub series: Vec<Equation>,
    /// `probe free = passive(repeat = 1)`: episodes.
    pub probes: Vec<Declared>,
    /// `show sizes = bands(size, along = free)`: figures and numbers.
    pub shows: Vec<Declared>,
}

/// A name for a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    pub name: Ident,
    pub call: Call,
}

/// A `net` or a `head`: a block instantiated once, which every call shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Net {
    pub head: bool,
    pub name: Ident,
    pub ensemble: Option<Ident>,
    pub params: Vec<ParamDecl>,
    pub out: OutType,
    pub via: Option<Call>,
    pub block: Call,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    pub name: Ident,
    pub weight: Expr,
    /// Start and end of the ramp, in percent.
    pub warmup: Option<(Expr, Expr)>,
    pub optimizer: Option<Ident>,
    /// One unnamed part, or several named ones.
    pub parts: Vec<LossPart>,
    /// Clauses behind the closing brace, shared by all parts.
    pub clauses: Vec<Clause>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LossPart {
    pub name: Option<Ident>,
    pub value: Expr,
    pub clauses: Vec<Clause>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Planner {
    pub name: Ident,
    pub params: Vec<ParamDecl>,
    pub algorithm: Call,
    pub equations: Vec<Equation>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Optimizer {
    pub name: Ident,
    pub rule: Call,
    pub on: Vec<Ident>,
    pub except: Vec<Ident>,
    pub scale: Vec<Bind>,
    /// Optimisers that step first.
    pub after: Vec<Ident>,
    /// What its losses see of their steps; everything where it is empty.
    pub only: Vec<Ident>,
}

/// `x[t] = e` or `x[t] ~ D`, with its clauses.
#[derive(Debug, Clone, PartialEq)]
pub struct Equation {
    pub place: Place,
    pub draw: bool,
    pub value: Expr,
    pub clauses: Vec<Clause>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    pub name: Ident,
    pub indices: Vec<Expr>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Clause {
    pub kind: ClauseKind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ClauseKind {
    With(Vec<(Place, Expr)>),
    For(Vec<(Ident, Expr)>),
    Where(Expr),
    Reset(Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Stmt {
    pub kind: StmtKind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum StmtKind {
    Let(Ident, Expr),
    Next(Ident, Expr),
    Param(Typed, Expr),
    Return(Expr),
    /// `stack l, n in list { .. }`: index, element (or just the element), values, body.
    Stack {
        index: Option<Ident>,
        item: Ident,
        over: Expr,
        body: Vec<Stmt>,
    },
    Require(Expr, String),
    Assign(Ident, Expr),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
    pub depth: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    Number(f64),
    /// `30%`, held as 0.3.
    Percent(f64),
    Text(String),
    Name(Ident),
    /// `next h`: the new value of a carry.
    Next(Ident),
    List(Vec<ListItem>),
    Record(Vec<(Ident, Expr)>),
    Fold {
        op: Ident,
        var: Ident,
        over: Box<Expr>,
        body: Box<Expr>,
    },
    If {
        cond: Box<Expr>,
        then: Box<Expr>,
        other: Box<Expr>,
    },
    Rollout(Vec<Equation>),
    Index(Box<Expr>, Vec<Expr>),
    Field(Box<Expr>, Ident),
    Call(Box<Expr>, Vec<Arg>),
    Update(Box<Expr>, Vec<(Ident, Expr)>),
    Arrow(Box<Expr>, Shape),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Range {
        lo: Box<Expr>,
        hi: Box<Expr>,
        inclusive: bool,
    },
    /// Stands where something was reported already.
    Error,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ListItem {
    Value(Expr),
    /// `N = 16` in a shape.
    Axis(Ident, Expr),
    /// `X..` in a shape.
    Rest(Ident),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Arg {
    pub kind: ArgKind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ArgKind {
    Value(Expr),
    Named(Ident, Expr),
    /// `Q -> Q2`.
    Rename(Ident, Ident),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    Neg,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Or,
    And,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Add,
    Sub,
    Mul,
    Div,
    Dot,
    Pow,
}

impl Expr {
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        let depth = 1 + kind.child_depth();
        Expr { kind, span, depth }
    }

    pub fn as_name(&self) -> Option<&Ident> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }
}

impl ExprKind {
    fn child_depth(&self) -> u32 {
        fn args(args: &[Arg]) -> u32 {
            args.iter()
                .map(|a| match &a.kind {
                    ArgKind::Value(e) | ArgKind::Named(_, e) => e.depth,
                    ArgKind::Rename(..) => 0,
                })
                .max()
                .unwrap_or(0)
        }
        fn all<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> u32 {
            exprs.into_iter().map(|e| e.depth).max().unwrap_or(0)
        }
        match self {
            ExprKind::Number(_)
            | ExprKind::Percent(_)
            | ExprKind::Text(_)
            | ExprKind::Name(_)
            | ExprKind::Next(_)
            | ExprKind::Error => 0,
            ExprKind::List(items) => all(items.iter().filter_map(|i| match i {
                ListItem::Value(e) | ListItem::Axis(_, e) => Some(e),
                ListItem::Rest(_) => None,
            })),
            ExprKind::Record(fields) => all(fields.iter().map(|(_, e)| e)),
            ExprKind::Fold { over, body, .. } => over.depth.max(body.depth),
            ExprKind::If { cond, then, other } => cond.depth.max(then.depth).max(other.depth),
            ExprKind::Rollout(equations) => all(equations.iter().map(|e| &e.value)),
            ExprKind::Index(e, indices) => e.depth.max(all(indices)),
            ExprKind::Field(e, _) | ExprKind::Arrow(e, _) | ExprKind::Unary(_, e) => e.depth,
            ExprKind::Call(e, a) => e.depth.max(args(a)),
            ExprKind::Update(e, fields) => e.depth.max(all(fields.iter().map(|(_, e)| e))),
            ExprKind::Binary(_, l, r) => l.depth.max(r.depth),
            ExprKind::Range { lo, hi, .. } => lo.depth.max(hi.depth),
        }
    }
}
