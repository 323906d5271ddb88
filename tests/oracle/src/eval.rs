//! Expressions.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::OnceLock;

use compiler::run::Tensors;
use dsl::ast::{
    BinaryOp, Bind, Block, Expr, ExprKind, File, Function, Item, ListItem, Member, MemberKind, Memory, Model, Net, OutType, Type,
    UnaryOp,
};

use crate::array::{Array, Ax};
use crate::number::Num;
use crate::value::*;

/// The prelude's items, parsed once.
fn prelude() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| {
        let text = [
            include_str!("../../../dsl/src/prelude/math.wm"),
            include_str!("../../../dsl/src/prelude/layers.wm"),
            include_str!("../../../dsl/src/prelude/planners.wm"),
        ]
        .join("\n");
        dsl::parse::parse(dsl::source::FileId(0), &text).0
    })
}

/// A model with its inputs, ready to be asked for values.
pub struct Oracle<'a> {
    pub model: &'a Model,
    pub items: Vec<&'a Item>,
    pub dims: RefCell<BTreeMap<String, Ax>>,
    pub consts: BTreeMap<&'a str, &'a Expr>,
    pub nets: BTreeMap<&'a str, &'a Net>,
    pub fns: BTreeMap<&'a str, &'a Function>,
    pub memories: Vec<&'a Memory>,
    pub latents: BTreeMap<&'a str, &'a [dsl::ast::Typed]>,
    pub params: BTreeMap<&'a str, &'a Type>,
    /// Running values: how they are renewed, and where they start.
    pub running: BTreeMap<&'a str, (&'a Expr, &'a Expr)>,
    /// Those that are being renewed, and those that are.
    pub updating: RefCell<Vec<&'a str>>,
    pub updated: RefCell<HashMap<&'a str, Array>>,
    /// Where the planner was last, for its carries.
    pub planned: RefCell<Option<Cx<'a>>>,
    /// Field, shape, and whether it is a consequence of the action.
    pub data: BTreeMap<&'a str, (&'a Type, bool)>,
    pub action: (&'a str, &'a Type, &'a Expr),
    pub given: Tensors,
    /// Parameters as numbers that may move.
    pub weights: RefCell<HashMap<String, Vec<Num>>>,
    pub space: Rc<Space<'a>>,
    pub root: Rc<Ctx<'a>>,
    /// Steps of a segment; one while acting.
    pub steps: Option<usize>,
    pub reads: BTreeMap<String, BTreeSet<String>>,
    pub axes: Cell<u32>,
    pub tags: Cell<u32>,
    pub progress: f64,
}

fn unknown<T>(what: impl Into<String>) -> R<T> {
    Err(Stop::Unknown(what.into()))
}

impl<'a> Oracle<'a> {
    /// `dims` gives the task's sizes.
    pub fn new(file: &'a File, dims: &[(&str, usize)], given: Tensors, steps: Option<usize>) -> R<Oracle<'a>> {
        let Some(model) = file.items.iter().find_map(|i| if let Item::Model(m) = i { Some(m) } else { None }) else {
            return unknown("no model");
        };
        let mut equations: HashMap<String, Vec<Rule<'a>>> = HashMap::new();
        let root = Rc::new(Ctx { parent: None, memo: RefCell::default() });
        let empty = Rc::new(Space { id: String::new(), equations: HashMap::new(), parent: None });
        let mut it = Oracle {
            model,
            items: file.items.iter().chain(&prelude().items).collect(),
            dims: RefCell::default(),
            consts: BTreeMap::new(),
            nets: BTreeMap::new(),
            fns: BTreeMap::new(),
            memories: Vec::new(),
            latents: BTreeMap::new(),
            params: BTreeMap::new(),
            running: BTreeMap::new(),
            updating: RefCell::default(),
            updated: RefCell::default(),
            planned: RefCell::default(),
            data: BTreeMap::new(),
            action: ("", &UNIT, &ZERO),
            given,
            weights: RefCell::default(),
            space: empty,
            root,
            steps,
            reads: crate::family::reads(file),
            axes: Cell::new(0),
            tags: Cell::new(1),
            progress: 0.0,
        };
        for (name, size) in dims {
            let axis = it.axis(*size);
            it.dims.borrow_mut().insert(name.to_string(), axis);
        }
        for member in &model.members {
            it.declare(member, &mut equations)?;
        }
        it.space = Rc::new(Space { id: String::new(), equations, parent: None });
        for memory in it.memories.clone() {
            let width = it.memory_width(memory)?;
            let axis = it.axis(width);
            it.dims.borrow_mut().insert(memory.out.axes[0].name.text.clone(), axis);
        }
        Ok(it)
    }

    fn declare(&mut self, member: &'a Member, equations: &mut HashMap<String, Vec<Rule<'a>>>) -> R<()> {
        let size = |it: &Oracle<'a>, bind: &'a Bind| -> R<()> {
            let value = it.eval(&it.site(0), &bind.value)?.real()?;
            let axis = it.axis(value as usize);
            it.dims.borrow_mut().insert(bind.name.text.clone(), axis);
            Ok(())
        };
        match &member.kind {
            MemberKind::Dims(binds) => binds.iter().try_for_each(|b| size(self, b))?,
            MemberKind::Source { over, .. } => over.iter().try_for_each(|b| size(self, b))?,
            MemberKind::Consts(binds) => self.consts.extend(binds.iter().map(|b| (b.name.text.as_str(), &b.value))),
            MemberKind::Schedule(b) => {
                self.consts.insert(&b.name.text, &b.value);
            }
            MemberKind::Net(n) => {
                self.nets.insert(&n.name.text, n);
            }
            MemberKind::Fn(f) => {
                self.fns.insert(&f.name.text, f);
            }
            MemberKind::Memory(m) => self.memories.push(m),
            MemberKind::Latent { name, fields } => {
                self.latents.insert(&name.text, fields);
            }
            MemberKind::Param { decl, .. } => {
                self.params.insert(&decl.name.text, &decl.ty);
            }
            MemberKind::Running { name, value, init } => {
                self.running.insert(&name.text, (value, init));
            }
            MemberKind::Input(fields) => {
                for f in fields {
                    self.data.insert(&f.name.text, (&f.ty, ["r", "discount", "terminal"].contains(&&*f.name.text)));
                }
            }
            MemberKind::Action { decl, range } => {
                self.data.insert(&decl.name.text, (&decl.ty, true));
                self.action = (&decl.name.text, &decl.ty, range);
            }
            MemberKind::Equation(e) => {
                let rule = Rule { equation: e, env: None, space: None, visible: true };
                equations.entry(e.place.name.text.clone()).or_default().push(rule);
            }
            _ => {}
        }
        Ok(())
    }

    pub fn axis(&self, size: usize) -> Ax {
        self.axes.set(self.axes.get() + 1);
        Ax { id: self.axes.get(), size }
    }

    /// A place outside of all bodies.
    pub fn site(&self, sample: usize) -> Cx<'a> {
        Cx {
            env: None,
            sample,
            ctx: self.root.clone(),
            space: self.space.clone(),
            visible: true,
            path: "".into(),
            module: None,
            resets: None,
            anew: false,
            inferred: Rc::default(),
        }
    }

    pub fn item_block(&self, name: &str) -> Option<&'a Block> {
        self.items.iter().find_map(|i| match i {
            Item::Block(b) if b.name.text == name => Some(b),
            _ => None,
        })
    }

    pub fn name(&self, cx: &Cx<'a>, name: &'a str) -> R<Val<'a>> {
        if let Some(node) = find(&cx.env, name) {
            return self.node(cx, &node);
        }
        if (cx.visible || !cx.space.id.is_empty())
            && let Some(space) = self.family_space(&cx.space, name)
        {
            return self.read(&cx.ctx, &space, name, cx.sample, &[]);
        }
        if cx.visible {
            if let Some(axis) = self.dims.borrow().get(name) {
                return Ok(Val::Axis(*axis));
            }
            if let Some(e) = self.consts.get(name) {
                return self.eval(&self.site(cx.sample), e);
            }
            if let Some(ty) = self.params.get(name) {
                let axes = self.shape(&self.site(0), ty)?;
                return Ok(Val::Arr(self.weight(name, axes, None)?));
            }
            if let Some(value) = self.running_value(name) {
                return value;
            }
            if let Some(f) = self.fns.get(name) {
                return Ok(Val::Fun(Fun::Own(f)));
            }
            if let Some(n) = self.nets.get(name) {
                return Ok(Val::Fun(Fun::Net(n)));
            }
        }
        for item in &self.items {
            match item {
                Item::Fn(f) if f.name.text == name => return Ok(Val::Fun(Fun::Item(f))),
                Item::Block(b) if b.name.text == name => return Ok(Val::Fun(Fun::Block(b))),
                _ => {}
            }
        }
        Ok(match name {
            "true" => Val::number(1.0),
            "false" => Val::number(0.0),
            "training" => Val::number(f64::from(self.steps.is_some())),
            "pi" => Val::number(std::f64::consts::PI),
            "progress" => Val::number(self.progress),
            "zeros" => Val::Zeros,
            _ => Val::Fun(Fun::Builtin(name)),
        })
    }

    /// The axes that a declared shape names.
    pub fn shape(&self, cx: &Cx<'a>, ty: &'a Type) -> R<Vec<Ax>> {
        match ty {
            Type::Shape(s) => {
                s.axes.iter().map(|a| self.name(cx, &a.name.text)?.axes()).collect::<R<Vec<_>>>().map(|l| l.concat())
            }
            Type::Name(_) => Ok(Vec::new()),
        }
    }

    /// A parameter's value along the axes that it has here.
    pub fn weight(&self, path: &str, axes: Vec<Ax>, member: Option<(usize, usize)>) -> R<Array> {
        let weights = self.weights.borrow();
        let Some(data) = weights.get(path) else { return unknown(format!("no parameter {path}")) };
        let n: usize = axes.iter().map(|a| a.size).product();
        let data = match member {
            Some((i, members)) if data.len() == n * members => data[i * n..(i + 1) * n].to_vec(),
            None if data.len() == n => data.clone(),
            _ => return unknown(format!("parameter {path} has {} entries, {n} wanted", data.len())),
        };
        Ok(Array { axes, data })
    }

    pub fn eval(&self, cx: &Cx<'a>, e: &'a Expr) -> R<Val<'a>> {
        match &e.kind {
            ExprKind::Number(x) | ExprKind::Percent(x) => Ok(Val::number(*x)),
            ExprKind::Text(t) => Ok(Val::Text(t.clone())),
            ExprKind::Name(n) => self.name(cx, &n.text),
            ExprKind::Next(n) => match find(&cx.env, &format!("next {}", n.text)) {
                Some(node) => self.node(cx, &node),
                None => unknown(format!("next {}", n.text)),
            },
            ExprKind::List(items) => {
                let mut list = Vec::new();
                for item in items {
                    match item {
                        ListItem::Value(e) => list.push(self.eval(cx, e)?),
                        ListItem::Rest(n) => list.push(self.name(cx, &n.text)?),
                        ListItem::Axis(..) => return unknown("an axis is made in a list"),
                    }
                }
                Ok(Val::List(Rc::new(list)))
            }
            ExprKind::Record(fields) => {
                let fields = fields.iter().map(|(n, e)| Ok((n.text.clone(), self.eval(cx, e)?))).collect::<R<Vec<_>>>()?;
                Ok(Val::Rec(Rc::new(fields)))
            }
            ExprKind::Fold { op, var, over, body } => self.fold(cx, &op.text, &var.text, over, body),
            ExprKind::If { cond, then, other } => {
                if self.eval(cx, cond)?.real()? != 0.0 {
                    self.eval(cx, then)
                } else {
                    self.eval(cx, other)
                }
            }
            ExprKind::Rollout(equations) => self.rollout(cx, equations),
            ExprKind::Index(base, at) => self.index(cx, base, at),
            ExprKind::Field(base, name) => match self.eval(cx, base)? {
                Val::Run(space) => self.run_field(cx, &space, &name.text),
                v => v.field(&name.text),
            },
            ExprKind::Call(f, args) => self.call(cx, f, args, None),
            ExprKind::Update(base, fields) => self.update(cx, base, fields),
            ExprKind::Arrow(call, shape) => match &call.kind {
                ExprKind::Call(f, args) => self.call(cx, f, args, Some(shape)),
                _ => unknown("an arrow behind what is no call"),
            },
            ExprKind::Unary(op, e) => {
                let v = self.eval(cx, e)?;
                match op {
                    UnaryOp::Neg => v.map(&|a| a.map(Num::neg)),
                    UnaryOp::Not => v.map(&|a| a.map(|x| Num::Plain(f64::from(x.real() == 0.0)))),
                }
            }
            ExprKind::Binary(op, l, r) => {
                let (l, r) = (self.eval(cx, l)?, self.eval(cx, r)?);
                binary(*op, &l, &r)
            }
            ExprKind::Range { lo, hi, inclusive } => {
                Ok(Val::Range(self.eval(cx, lo)?.real()?, self.eval(cx, hi)?.real()?, *inclusive))
            }
            ExprKind::Error => unknown("a mistake"),
        }
    }

    fn update(&self, cx: &Cx<'a>, base: &'a Expr, fields: &'a [(dsl::ast::Ident, Expr)]) -> R<Val<'a>> {
        let latent = base.as_name().filter(|n| find(&cx.env, &n.text).is_none()).and_then(|n| self.latents.get(n.text.as_str()));
        let mut old: Vec<(String, Val<'a>)> = match latent {
            Some(declared) => declared.iter().map(|f| (f.name.text.clone(), Val::Zeros)).collect(),
            None => match self.eval(cx, base)? {
                Val::Rec(fields) => (*fields).clone(),
                _ => return unknown("an update of what is no record"),
            },
        };
        for (name, e) in fields {
            let new = self.eval(cx, e)?;
            for (n, v) in &mut old {
                if *n == name.text {
                    // A number spreads along the field's axes.
                    *v = match (&*v, &new) {
                        (Val::Arr(a), Val::Arr(b)) if b.axes.len() < a.axes.len() => Val::Arr(b.spread(&a.axes)),
                        _ => new.clone(),
                    };
                }
            }
        }
        Ok(Val::Rec(Rc::new(old)))
    }

    /// The values that a fold or a clause runs over.
    pub fn run_over(&self, cx: &Cx<'a>, over: &'a Expr) -> R<(Vec<f64>, Option<Ax>)> {
        Ok(match self.eval(cx, over)? {
            Val::Axis(a) => ((0..a.size).map(|i| i as f64).collect(), Some(a)),
            Val::Range(lo, hi, inclusive) => {
                let end = if inclusive { hi as i64 + 1 } else { hi as i64 };
                ((lo as i64..end).map(|i| i as f64).collect(), None)
            }
            Val::List(l) => (l.iter().map(Val::real).collect::<R<_>>()?, None),
            v => ((0..v.real()? as i64).map(|i| i as f64).collect(), None),
        })
    }

    fn fold(&self, cx: &Cx<'a>, op: &str, var: &str, over: &'a Expr, body: &'a Expr) -> R<Val<'a>> {
        let (at, axis) = self.run_over(cx, over)?;
        let parts = at.iter().map(|i| self.eval(&cx.with(var, Val::number(*i)), body)).collect::<R<Vec<_>>>()?;
        if op == "each" {
            let Some(axis) = axis else { return unknown("`each` over what is no axis") };
            return stack(axis, &parts);
        }
        let n = parts.len() as f64;
        let mut parts = parts.into_iter();
        let Some(mut all) = parts.next() else { return unknown("an empty fold") };
        for part in parts {
            all = match op {
                "sum" | "mean" => binary(BinaryOp::Add, &all, &part)?,
                "prod" => binary(BinaryOp::Mul, &all, &part)?,
                "min" => zip(&all, &part, &|a, b| if b.real() < a.real() { b.clone() } else { a.clone() })?,
                "max" => zip(&all, &part, &|a, b| if b.real() > a.real() { b.clone() } else { a.clone() })?,
                _ => return unknown(format!("fold {op}")),
            };
        }
        if op == "mean" { binary(BinaryOp::Div, &all, &Val::number(n)) } else { Ok(all) }
    }

    fn index(&self, cx: &Cx<'a>, base: &'a Expr, at: &'a [Expr]) -> R<Val<'a>> {
        if let Some(n) = base.as_name()
            && find(&cx.env, &n.text).is_none()
            && let Some(space) = self.family_space(&cx.space, &n.text)
        {
            let places = at.iter().map(|e| Ok(self.eval(cx, e)?.real()? as i64)).collect::<R<Vec<_>>>()?;
            // What has no subscripts is an array, and these are its entries.
            if self.is_place(cx, base) {
                return self.read_in(cx, &space, &n.text, at, &places);
            }
        }
        let value = self.eval(cx, base)?;
        if let Val::Family(space, name) = &value {
            let places = at.iter().map(|e| Ok(self.eval(cx, e)?.real()? as i64)).collect::<R<Vec<_>>>()?;
            return self.read(&cx.ctx, space, name, cx.sample, &places);
        }
        let mut value = value;
        for e in at {
            let i = self.eval(cx, e)?.real()? as i64;
            value = match &value {
                Val::List(l) => usize::try_from(i)
                    .ok()
                    .and_then(|i| l.get(i))
                    .cloned()
                    .ok_or(Stop::Unknown("an entry outside a list".into()))?,
                v => Val::Arr(v.array()?.first(i)?),
            };
        }
        Ok(value)
    }

    /// The result of a net, cut as its declaration says.
    pub fn cut(&self, net: &'a Net, flat: &Array) -> R<Val<'a>> {
        let cx = self.site(0);
        let fields = |fields: &'a [dsl::ast::Typed]| -> R<Val<'a>> {
            let mut at = 0;
            let mut out = Vec::new();
            for f in fields {
                let axes = self.shape(&cx, &f.ty)?;
                let n: usize = axes.iter().map(|a| a.size).product();
                out.push((f.name.text.clone(), Val::Arr(Array { axes, data: flat.data[at..at + n].to_vec() })));
                at += n;
            }
            Ok(Val::Rec(Rc::new(out)))
        };
        match &net.out {
            OutType::Shape(s) => {
                let axes = s.axes.iter().map(|a| self.name(&cx, &a.name.text)?.axes()).collect::<R<Vec<_>>>()?.concat();
                Ok(Val::Arr(Array { axes, data: flat.data.clone() }))
            }
            OutType::Fields(list, _) => fields(list),
            OutType::Named(call) => match self.latents.get(call.name.text.as_str()) {
                Some(list) => fields(list),
                None => unknown(format!("output {}", call.name.text)),
            },
        }
    }

    /// How many numbers a net gives.
    pub fn width(&self, net: &'a Net) -> R<usize> {
        let cx = self.site(0);
        let of = |axes: Vec<Ax>| axes.iter().map(|a| a.size).product::<usize>();
        let list = |fields: &'a [dsl::ast::Typed]| fields.iter().map(|f| Ok(of(self.shape(&cx, &f.ty)?))).sum::<R<usize>>();
        match &net.out {
            OutType::Shape(s) => {
                Ok(of(s.axes.iter().map(|a| self.name(&cx, &a.name.text)?.axes()).collect::<R<Vec<_>>>()?.concat()))
            }
            OutType::Fields(fields, _) => list(fields),
            OutType::Named(call) => match self.latents.get(call.name.text.as_str()) {
                Some(fields) => list(fields),
                None => unknown(format!("output {}", call.name.text)),
            },
        }
    }
}

static UNIT: Type =
    Type::Shape(dsl::ast::Shape { axes: Vec::new(), span: dsl::source::Span { file: dsl::source::FileId(0), lo: 0, hi: 0 } });
static ZERO: Expr =
    Expr { kind: ExprKind::Number(0.0), span: dsl::source::Span { file: dsl::source::FileId(0), lo: 0, hi: 0 }, depth: 1 };

/// Arrays or records along a new first axis.
pub fn stack<'a>(axis: Ax, parts: &[Val<'a>]) -> R<Val<'a>> {
    match parts.first() {
        Some(Val::Rec(fields)) => {
            let fields = fields.iter().map(|(n, _)| {
                let column = parts.iter().map(|p| p.field(n)).collect::<R<Vec<_>>>()?;
                Ok((n.clone(), stack(axis, &column)?))
            });
            Ok(Val::Rec(Rc::new(fields.collect::<R<Vec<_>>>()?)))
        }
        _ => Ok(Val::Arr(Array::stack(axis, &parts.iter().map(Val::array).collect::<R<Vec<_>>>()?))),
    }
}

/// Applies a function of two numbers, field by field.
pub fn zip<'a>(l: &Val<'a>, r: &Val<'a>, f: &impl Fn(&Num, &Num) -> Num) -> R<Val<'a>> {
    match (l, r) {
        (Val::Rec(a), Val::Rec(b)) => {
            let fields = a.iter().map(|(n, x)| {
                let y = b.iter().find(|(m, _)| m == n).ok_or(Stop::Unknown("fields differ".into()))?;
                Ok((n.clone(), zip(x, &y.1, f)?))
            });
            Ok(Val::Rec(Rc::new(fields.collect::<R<Vec<_>>>()?)))
        }
        (Val::Rec(a), b) => Ok(Val::Rec(Rc::new(a.iter().map(|(n, x)| Ok((n.clone(), zip(x, b, f)?))).collect::<R<Vec<_>>>()?))),
        (a, Val::Rec(b)) => Ok(Val::Rec(Rc::new(b.iter().map(|(n, x)| Ok((n.clone(), zip(a, x, f)?))).collect::<R<Vec<_>>>()?))),
        (a, b) => Ok(Val::Arr(a.array()?.zip(&b.array()?, f)?)),
    }
}

pub fn binary<'a>(op: BinaryOp, l: &Val<'a>, r: &Val<'a>) -> R<Val<'a>> {
    if let (Val::Fun(a), Val::Fun(b)) = (l, r) {
        let same = match (a, b) {
            (Fun::Item(a), Fun::Item(b)) => std::ptr::eq(*a, *b),
            _ => false,
        };
        return Ok(Val::number(f64::from(same == (op == BinaryOp::Eq))));
    }
    let truth = |f: fn(f64, f64) -> bool| zip(l, r, &move |a, b| Num::Plain(f64::from(f(a.real(), b.real()))));
    match op {
        BinaryOp::Add => zip(l, r, &Num::add),
        BinaryOp::Sub => zip(l, r, &Num::sub),
        BinaryOp::Mul => zip(l, r, &Num::mul),
        BinaryOp::Div => zip(l, r, &Num::div),
        BinaryOp::Pow => zip(l, r, &Num::pow),
        BinaryOp::Dot => Ok(Val::Arr(l.array()?.dot(&r.array()?)?)),
        BinaryOp::Lt => truth(|a, b| a < b),
        BinaryOp::Le => truth(|a, b| a <= b),
        BinaryOp::Gt => truth(|a, b| a > b),
        BinaryOp::Ge => truth(|a, b| a >= b),
        BinaryOp::Eq => truth(|a, b| a == b),
        BinaryOp::Ne => truth(|a, b| a != b),
        BinaryOp::Or => truth(|a, b| a != 0.0 || b != 0.0),
        BinaryOp::And => truth(|a, b| a != 0.0 && b != 0.0),
    }
}
