//! Values of the elaborator: what an expression is while a model is being checked.
//!
//! Everything known when compiling (numbers, axes, functions, lists) is a value of its own; everything else is an
//! array in the expression table, or a record or distribution of such arrays.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use super::builtins::Builtin;
use super::system::FamilyRef;
use crate::ast;
use crate::hir::{AxisId, ExprId, Index, Size};
use crate::source::{FileId, Span};

#[derive(Clone)]
pub(super) enum Value<'a> {
    Num(f64),
    /// A number that depends on sizes which the task binds.
    Size(Size),
    /// An axis; its size where a number is wanted.
    Dim(AxisId),
    /// What `X..` stands for.
    Axes(Rc<[AxisId]>),
    /// A sum of index variables.
    Index(Index),
    Bool(bool),
    Text(Rc<str>),
    List(Rc<[Value<'a>]>),
    Range {
        lo: f64,
        hi: f64,
        inclusive: bool,
    },
    /// `zeros` without axes: takes those of whatever it meets.
    Zeros,
    Tensor(Tensor),
    Record(Rc<Record<'a>>),
    Memory(Rc<MemoryValue>),
    Dist(Rc<DistValue<'a>>),
    /// Records and distributions of an ensemble: every array has the axis first.
    Ensemble(AxisId, Rc<Value<'a>>),
    Callable(Callable<'a>),
    Family(FamilyRef),
    Instance(Rc<Instance>),
    /// A latent's name, which constructs a value of it.
    Latent(usize),
    /// The words `slow` and `memory`.
    Word(&'static str),
    /// Stands where something was reported already.
    Error,
}

/// Values by name; the names are mostly those of the syntax tree.
pub(super) type Named<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

/// An array, with what a draw was made from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Tensor {
    pub expr: ExprId,
    pub attached: Option<ExprId>,
}

#[derive(Clone)]
pub(super) struct Record<'a> {
    /// The latent that it is a value of.
    pub latent: Option<usize>,
    pub fields: Vec<(String, Value<'a>)>,
}

/// The value of a memory at a step: its output, and its carries in the order of the module's.
pub(super) struct MemoryValue {
    pub module: usize,
    pub out: ExprId,
    pub carries: Vec<ExprId>,
}

pub(super) struct DistValue<'a> {
    pub def: &'a ast::Dist,
    /// Parameters, settings, axes and `let`s.
    pub env: Env<'a>,
    /// All parameters in order, as they were given: enough to make the value again.
    pub args: Named<'a>,
    /// Axes that its letters are bound to.
    pub letters: Named<'a>,
    /// The head it belongs to, for its own parameters.
    pub module: Option<(usize, Mode)>,
}

#[derive(Clone)]
pub(super) enum Callable<'a> {
    Fn(&'a ast::Function),
    Block(&'a ast::Block),
    Dist(&'a ast::Dist),
    Builtin(Builtin),
    Net {
        module: usize,
        mode: Mode,
    },
    Memory {
        module: usize,
    },
    /// A method, in the scope of its distribution.
    Method {
        env: Env<'a>,
        method: &'a ast::Function,
    },
    Planner {
        planner: usize,
    },
}

/// Which copy of a net's parameters a call reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Fast,
    Slow,
    Frozen,
}

/// A run of a planner's rollout, with the subscripts given so far.
pub(super) struct Instance {
    pub name: String,
    pub families: Vec<(String, FamilyRef)>,
    /// How many subscripts the run itself has.
    pub arity: usize,
    pub given: Option<Vec<Index>>,
}

/// Names in scope, innermost first. Frames are shared by closures (distributions, lazy values).
#[derive(Clone)]
pub(super) struct Env<'a>(pub Rc<Frame<'a>>);

pub(super) struct Frame<'a> {
    pub parent: Option<Env<'a>>,
    pub vars: RefCell<Vec<(Cow<'a, str>, Slot<'a>)>>,
    /// The file whose items are visible here.
    pub file: FileId,
    pub sees: Sees,
}

/// What is visible beside the names in scope, the file's items and the prelude.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sees {
    /// A function, block or distribution of a file: nothing more.
    Items,
    /// A function of the model: the model's names.
    Model,
    /// An equation of the model: the model's names and the equation's indices.
    Equation,
    /// An equation of a planner: its own indices, and not the model's names.
    Planner,
}

/// A name's value, or how to find it when it is first wanted.
#[derive(Clone)]
pub(super) enum Slot<'a> {
    Value(Value<'a>),
    /// Evaluated in the frame that holds it (which it therefore does not hold itself).
    Lazy(Rc<Lazy<'a>>),
    Method(&'a ast::Function),
}

pub(super) struct Lazy<'a> {
    pub kind: LazyKind<'a>,
    pub state: RefCell<LazyState<'a>>,
}

/// The resolution of a name.
pub(super) enum Found<'a> {
    Value(Value<'a>),
    Lazy(Rc<Lazy<'a>>, Env<'a>),
}

pub(super) enum LazyKind<'a> {
    Let(&'a ast::Expr),
    /// A parameter, with the path that leads to it.
    Param {
        decl: &'a ast::Typed,
        init: &'a ast::Expr,
        path: String,
        span: Span,
    },
    /// A planner's carry.
    Carry {
        carry: &'a ast::Carry,
        path: String,
    },
}

pub(super) enum LazyState<'a> {
    Waiting,
    Busy,
    Done(Value<'a>),
}

impl<'a> Env<'a> {
    pub(super) fn root(file: FileId, sees: Sees) -> Env<'a> {
        Env(Rc::new(Frame { parent: None, vars: RefCell::default(), file, sees }))
    }

    pub(super) fn child(&self) -> Env<'a> {
        Env(Rc::new(Frame { parent: Some(self.clone()), vars: RefCell::default(), file: self.0.file, sees: self.0.sees }))
    }

    pub(super) fn sees_model(&self) -> bool {
        matches!(self.0.sees, Sees::Model | Sees::Equation)
    }

    pub(super) fn sees_indices(&self) -> bool {
        matches!(self.0.sees, Sees::Equation | Sees::Planner)
    }

    pub(super) fn set(&self, name: impl Into<Cow<'a, str>>, value: Value<'a>) {
        self.0.vars.borrow_mut().push((name.into(), Slot::Value(value)));
    }

    pub(super) fn set_lazy(&self, name: &'a str, kind: LazyKind<'a>) {
        let lazy = Lazy { kind, state: RefCell::new(LazyState::Waiting) };
        self.0.vars.borrow_mut().push((name.into(), Slot::Lazy(Rc::new(lazy))));
    }

    pub(super) fn set_method(&self, method: &'a ast::Function) {
        self.0.vars.borrow_mut().push((method.name.text.as_str().into(), Slot::Method(method)));
    }

    pub(super) fn get(&self, name: &str) -> Option<Found<'a>> {
        let mut env = Some(self);
        while let Some(here) = env {
            if let Some(found) = here.get_here(name) {
                return Some(found);
            }
            env = here.0.parent.as_ref();
        }
        None
    }

    /// The same in this frame alone.
    pub(super) fn get_here(&self, name: &str) -> Option<Found<'a>> {
        let slot = self.0.vars.borrow().iter().rev().find(|(n, _)| n == name).map(|(_, s)| s.clone())?;
        Some(match slot {
            Slot::Value(v) => Found::Value(v),
            Slot::Lazy(lazy) => Found::Lazy(lazy, self.clone()),
            Slot::Method(method) => Found::Value(Value::Callable(Callable::Method { env: self.clone(), method })),
        })
    }

    /// Gives a name that is already there a new value.
    pub(super) fn assign(&self, name: &str, value: Value<'a>) -> bool {
        let mut env = Some(self);
        while let Some(Env(frame)) = env {
            if let Some((_, slot)) = frame.vars.borrow_mut().iter_mut().rev().find(|(n, _)| n == name) {
                *slot = Slot::Value(value);
                return true;
            }
            env = frame.parent.as_ref();
        }
        false
    }

    pub(super) fn file(&self) -> FileId {
        self.0.file
    }

    /// All names in it, for suggestions.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut env = Some(self);
        while let Some(Env(frame)) = env {
            names.extend(frame.vars.borrow().iter().map(|(n, _)| n.to_string()));
            env = frame.parent.as_ref();
        }
        names
    }
}

impl<'a> Value<'a> {
    pub(super) fn tensor(expr: ExprId) -> Value<'a> {
        Value::Tensor(Tensor { expr, attached: None })
    }

    pub(super) fn record(fields: Vec<(String, Value<'a>)>) -> Value<'a> {
        Value::Record(Rc::new(Record { latent: None, fields }))
    }

    /// How many values it holds, counted no further than `most`: a value that holds another twice doubles it.
    pub(super) fn parts(&self, most: usize) -> usize {
        let sum = |values: &mut dyn Iterator<Item = &Value<'a>>| {
            let mut parts = 1;
            while parts < most
                && let Some(value) = values.next()
            {
                parts += value.parts(most - parts);
            }
            parts
        };
        match self {
            Value::Record(r) => sum(&mut r.fields.iter().map(|(_, v)| v)),
            Value::List(items) => sum(&mut items.iter()),
            Value::Ensemble(_, inner) => inner.parts(most),
            _ => 1,
        }
    }

    pub(super) fn is_error(&self) -> bool {
        matches!(self, Value::Error)
    }

    /// A description of its kind, a few words.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Value::Num(_) | Value::Size(_) => "a number",
            Value::Dim(_) | Value::Axes(_) => "an axis",
            Value::Index(_) => "an index",
            Value::Bool(_) => "a truth value",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Range { .. } => "a range",
            Value::Zeros => "zeros",
            Value::Tensor(_) => "an array",
            Value::Record(_) => "a record",
            Value::Memory(_) => "a memory's value",
            Value::Dist(_) => "a distribution",
            Value::Ensemble(..) => "an ensemble",
            Value::Callable(_) => "a function",
            Value::Family(_) => "a name with subscripts",
            Value::Instance(_) => "a rollout",
            Value::Latent(_) => "a latent's type",
            Value::Word(_) => "a word of the language",
            Value::Error => "an error",
        }
    }
}

impl<'a> Callable<'a> {
    /// Whether two are the same function: what `scale == symlog` asks.
    pub(super) fn same(&self, other: &Callable<'a>) -> bool {
        match (self, other) {
            (Callable::Fn(a), Callable::Fn(b)) => std::ptr::eq(*a, *b),
            (Callable::Block(a), Callable::Block(b)) => std::ptr::eq(*a, *b),
            (Callable::Dist(a), Callable::Dist(b)) => std::ptr::eq(*a, *b),
            (Callable::Builtin(a), Callable::Builtin(b)) => a == b,
            (Callable::Net { module: a, mode: x }, Callable::Net { module: b, mode: y }) => a == b && x == y,
            _ => false,
        }
    }
}
