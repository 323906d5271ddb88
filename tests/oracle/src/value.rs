//! Values, scopes and the state of an evaluation.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use dsl::ast::{Block, Equation, Expr, Function, Net, Place};

use crate::array::{Array, Ax};
use crate::number::Num;

/// Why there is no value.
#[derive(Debug, Clone)]
pub enum Stop {
    /// A family is read where it does not exist.
    NoPoint(String),
    /// Something that this evaluator does not know.
    Unknown(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Stop {
        Stop::Unknown(text)
    }
}

pub type R<T> = Result<T, Stop>;

#[derive(Clone)]
pub enum Val<'a> {
    Arr(Array),
    /// Fields in order; of a latent, in the order of its declaration.
    Rec(Rc<Vec<(String, Val<'a>)>>),
    /// A memory's output and its carries by path.
    Mem(Rc<(Array, Carries)>),
    Axis(Ax),
    List(Rc<Vec<Val<'a>>>),
    Fun(Fun<'a>),
    Text(String),
    /// From, to, and whether the end is counted in.
    Range(f64, f64, bool),
    /// `zeros` without axes.
    Zeros,
    /// One run of the model's equations in a planner.
    Run(Rc<Space<'a>>),
    /// A family of a run, still without its subscripts.
    Family(Rc<Space<'a>>, String),
}

pub type Carries = BTreeMap<String, Array>;

#[derive(Clone, Copy)]
pub enum Fun<'a> {
    Item(&'a Function),
    /// A model's own, which sees the model.
    Own(&'a Function),
    Block(&'a Block),
    Net(&'a Net),
    /// A net whose parameters are stopped.
    Frozen(&'a Net),
    Builtin(&'a str),
}

impl<'a> Val<'a> {
    pub fn number(x: f64) -> Val<'a> {
        Val::Arr(Array::scalar(Num::Plain(x)))
    }

    /// The array that a value stands for where one is wanted.
    pub fn array(&self) -> R<Array> {
        match self {
            Val::Arr(a) => Ok(a.clone()),
            Val::Mem(m) => Ok(m.0.clone()),
            Val::Axis(a) => Ok(Array::scalar(Num::Plain(a.size as f64))),
            Val::Zeros => Ok(Array::scalar(Num::ZERO)),
            _ => Err(Stop::Unknown("an array is wanted".into())),
        }
    }

    pub fn real(&self) -> R<f64> {
        let a = self.array()?;
        if a.axes.is_empty() { Ok(a.data[0].real()) } else { Err(Stop::Unknown("a number is wanted".into())) }
    }

    pub fn axes(&self) -> R<Vec<Ax>> {
        match self {
            Val::Axis(a) => Ok(vec![*a]),
            Val::List(l) => l.iter().map(Val::axes).collect::<R<Vec<_>>>().map(|l| l.concat()),
            _ => Err(Stop::Unknown("axes are wanted".into())),
        }
    }

    /// Applies a function to all arrays.
    pub fn map(&self, f: &impl Fn(&Array) -> Array) -> R<Val<'a>> {
        Ok(match self {
            Val::Rec(fields) => Val::Rec(Rc::new(fields.iter().map(|(n, v)| Ok((n.clone(), v.map(f)?))).collect::<R<Vec<_>>>()?)),
            Val::Mem(m) => Val::Mem(Rc::new((f(&m.0), m.1.iter().map(|(n, c)| (n.clone(), f(c))).collect()))),
            other => Val::Arr(f(&other.array()?)),
        })
    }

    pub fn field(&self, name: &str) -> R<Val<'a>> {
        match self {
            Val::Rec(fields) => match fields.iter().find(|(n, _)| n == name) {
                Some((_, v)) => Ok(v.clone()),
                None => Err(Stop::Unknown(format!("no field {name}"))),
            },
            Val::Mem(m) if name == "out" => Ok(Val::Arr(m.0.clone())),
            _ => Err(Stop::Unknown(format!("field {name} of what has none"))),
        }
    }

    /// The value with the part at a path replaced.
    pub fn replaced(&self, path: &[String], new: &Val<'a>) -> R<Val<'a>> {
        let Some((name, rest)) = path.split_first() else { return Ok(new.clone()) };
        match self {
            Val::Rec(fields) => {
                let mut fields = (**fields).clone();
                for (n, v) in &mut fields {
                    if n == name {
                        *v = v.replaced(rest, new)?;
                    }
                }
                Ok(Val::Rec(Rc::new(fields)))
            }
            Val::Mem(m) if name == "out" => Ok(Val::Mem(Rc::new((new.array()?, m.1.clone())))),
            _ => Err(Stop::Unknown(format!("field {name} of what has none"))),
        }
    }

    /// All arrays, in order.
    pub fn leaves(&self) -> R<Vec<Array>> {
        match self {
            Val::Rec(fields) => fields.iter().map(|(_, v)| v.leaves()).collect::<R<Vec<_>>>().map(|l| l.concat()),
            other => Ok(vec![other.array()?]),
        }
    }
}

/// Names in scope, the innermost first.
pub type Env<'a> = Option<Rc<Node<'a>>>;

pub struct Node<'a> {
    pub name: String,
    pub bound: Bound<'a>,
    pub rest: Env<'a>,
}

#[derive(Clone)]
pub enum Bound<'a> {
    Value(Val<'a>),
    /// A `let`: computed from the names before it when it is first read, and again where a gradient replaces one of them.
    /// Gradients by the `let` itself move its value wherever it is computed.
    Later {
        expr: &'a Expr,
        path: Rc<str>,
        memo: RefCell<Option<Val<'a>>>,
        changes: Vec<Change>,
    },
}

pub fn bind<'a>(env: &Env<'a>, name: &str, value: Val<'a>) -> Env<'a> {
    Some(Rc::new(Node { name: name.to_string(), bound: Bound::Value(value), rest: env.clone() }))
}

pub fn later<'a>(env: &Env<'a>, name: &str, expr: &'a Expr, path: Rc<str>) -> Env<'a> {
    let bound = Bound::Later { expr, path, memo: RefCell::new(None), changes: Vec::new() };
    Some(Rc::new(Node { name: name.to_string(), bound, rest: env.clone() }))
}

pub fn find<'a>(env: &Env<'a>, name: &str) -> Option<Rc<Node<'a>>> {
    let mut at = env.clone();
    while let Some(node) = at {
        if node.name == name {
            return Some(node);
        }
        at = node.rest.clone();
    }
    None
}

/// The scope in which the value of a name moves, and everything behind it is computed anew.
pub fn rebound<'a>(env: &Env<'a>, name: &str, change: &Change) -> R<Env<'a>> {
    let Some(node) = env else { return Ok(None) };
    let here = node.name == name;
    let bound = match &node.bound {
        Bound::Value(v) if here => Bound::Value(change.of(v)?),
        Bound::Value(v) => Bound::Value(v.clone()),
        Bound::Later { expr, path, changes, .. } => {
            let mut changes = changes.clone();
            changes.extend(here.then(|| change.clone()));
            Bound::Later { expr, path: path.clone(), memo: RefCell::new(None), changes }
        }
    };
    let rest = if here { node.rest.clone() } else { rebound(&node.rest, name, change)? };
    Ok(Some(Rc::new(Node { name: node.name.clone(), bound, rest })))
}

/// A variable of a gradient: an infinitesimal step that is added to every entry of a value, or of a part of it.
///
/// It is added to the value, not put in its place: what stands behind the value still moves it, so that a gradient
/// inside another one follows every path.
#[derive(Clone, Debug)]
pub struct Change {
    pub tag: u32,
    pub path: Vec<String>,
}

impl Change {
    pub fn of<'a>(&self, value: &Val<'a>) -> R<Val<'a>> {
        let part = self.path.iter().try_fold(value.clone(), |v, f| v.field(f))?;
        let part = if let Val::Mem(m) = part { Val::Arr(m.0.clone()) } else { part };
        let total: usize = part.leaves()?.iter().map(|a| a.data.len()).sum();
        let at = Cell::new(0);
        let moved = part.map(&|a: &Array| {
            a.map(|x| {
                let mut tangents = vec![Num::ZERO; total];
                tangents[at.get()] = Num::Plain(1.0);
                at.set(at.get() + 1);
                x.add(&Num::variable(self.tag, Num::ZERO, tangents))
            })
        })?;
        value.replaced(&self.path, &moved)
    }
}

/// Equations that see each other.
pub struct Space<'a> {
    pub id: String,
    pub equations: HashMap<String, Vec<Rule<'a>>>,
    pub parent: Option<Rc<Space<'a>>>,
}

#[derive(Clone)]
pub struct Rule<'a> {
    pub equation: &'a Equation,
    /// What the equation sees beside its indices.
    pub env: Env<'a>,
    /// Where it looks for families, if not where it stands.
    pub space: Option<Rc<Space<'a>>>,
    pub visible: bool,
}

/// A family at a point.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    pub space: String,
    pub name: String,
    pub sample: usize,
    pub at: Vec<i64>,
}

/// Values as they are while a gradient follows one variable; the outermost has none.
pub struct Ctx<'a> {
    pub parent: Option<(Rc<Ctx<'a>>, Moved)>,
    pub memo: RefCell<HashMap<Key, R<Val<'a>>>>,
}

/// The variable of a gradient: a family's point and how it moves.
pub struct Moved {
    pub key: Key,
    pub change: Change,
}

/// A block's instance while it runs.
pub struct Module {
    pub carries: Carries,
    pub next: RefCell<Carries>,
    /// Which member of an ensemble.
    pub member: Option<(usize, usize)>,
    /// Nothing differentiates by its parameters.
    pub frozen: bool,
}

/// Base cases that an equation sees where it resets.
pub struct Resets<'a> {
    pub cases: Vec<(&'a Place, &'a Expr)>,
    pub env: Env<'a>,
}

/// Where an expression stands.
#[derive(Clone)]
pub struct Cx<'a> {
    pub env: Env<'a>,
    pub sample: usize,
    pub ctx: Rc<Ctx<'a>>,
    pub space: Rc<Space<'a>>,
    /// The model's names are seen.
    pub visible: bool,
    pub path: Rc<str>,
    pub module: Option<Rc<Module>>,
    pub resets: Option<Rc<Resets<'a>>>,
    /// The memory starts anew here.
    pub anew: bool,
    /// Indices whose range follows from what is read.
    pub inferred: Rc<Vec<String>>,
}

impl<'a> Cx<'a> {
    pub fn with(&self, name: &str, value: Val<'a>) -> Cx<'a> {
        Cx { env: bind(&self.env, name, value), ..self.clone() }
    }
}
