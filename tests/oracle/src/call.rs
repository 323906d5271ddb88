//! Calls: functions, nets, blocks and memories.

use std::cell::RefCell;
use std::rc::Rc;

use dsl::ast::{Arg, ArgKind, Block, Call, Expr, Function, Memory, Net, ParamDecl, Shape, Stmt, StmtKind, Type};

use crate::array::{Array, Ax};
use crate::eval::{Oracle, stack};
use crate::number::Num;
use crate::value::*;

type Named<'a> = Vec<(String, Val<'a>)>;

fn unknown<T>(what: impl Into<String>) -> R<T> {
    Err(Stop::Unknown(what.into()))
}

impl<'a> Oracle<'a> {
    pub fn call(&self, cx: &Cx<'a>, f: &'a Expr, args: &'a [Arg], arrow: Option<&'a Shape>) -> R<Val<'a>> {
        if let Some(n) = f.as_name()
            && find(&cx.env, &n.text).is_none()
        {
            match n.text.as_str() {
                "grad" => {
                    let (value, by) = self.two(args)?;
                    return self.grad(cx, value, by);
                }
                "partial" => {
                    let (value, by) = self.two(args)?;
                    return self.partial(cx, value, by);
                }
                "mean" | "sum" | "max" => {
                    if let Some(value) = self.statistic(cx, &n.text, args) {
                        return value;
                    }
                }
                "low" | "high" => return self.end(cx, args, n.text == "low"),
                "rename" => return self.rename(cx, args),
                "memory" => return self.remember(cx, args),
                _ => {}
            }
            if cx.visible
                && let Some(planner) = self.planner(&n.text)
            {
                return self.plan(cx, planner, &self.arguments(cx, args)?.0);
            }
        }
        let fun = match self.eval(cx, f)? {
            Val::Fun(fun) => fun,
            Val::Zeros => Fun::Builtin("zeros"),
            _ => return unknown("a call of what is no function"),
        };
        let (values, named) = self.arguments(cx, args)?;
        let mut made = cx.clone();
        let asked = match arrow {
            None => None,
            Some(shape) => {
                let mut axes = Vec::new();
                for axis in &shape.axes {
                    // `[F = hidden]` makes an axis: which one matters only inside this value.
                    let found = match &axis.size {
                        Some(size) => vec![self.made(&mut made, &axis.name.text, self.eval(cx, size)?.real()? as usize)],
                        None => self.name(&made, &axis.name.text)?.axes()?,
                    };
                    axes.extend(found);
                }
                Some(axes)
            }
        };
        self.apply(cx, fun, values, named, asked)
    }

    /// An end of a range, or of the action's.
    fn end(&self, cx: &Cx<'a>, args: &'a [Arg], low: bool) -> R<Val<'a>> {
        let [Arg { kind: ArgKind::Value(e), .. }] = args else { return unknown("an end of no range") };
        let range = if e.as_name().is_some_and(|n| n.text == self.action.0) { self.action.2 } else { e };
        match self.eval(cx, range)? {
            Val::Range(lo, hi, _) => Ok(Val::number(if low { lo } else { hi })),
            _ => unknown("an end of no range"),
        }
    }

    /// An axis that a body makes.
    fn made(&self, cx: &mut Cx<'a>, name: &str, size: usize) -> Ax {
        let axis = self.axis(size);
        cx.env = bind(&cx.env, name, Val::Axis(axis));
        axis
    }

    fn arguments(&self, cx: &Cx<'a>, args: &'a [Arg]) -> R<(Vec<Val<'a>>, Named<'a>)> {
        let (mut values, mut named) = (Vec::new(), Vec::new());
        for arg in args {
            match &arg.kind {
                ArgKind::Value(e) => values.push(self.eval(cx, e)?),
                ArgKind::Named(n, e) => named.push((n.text.clone(), self.eval(cx, e)?)),
                ArgKind::Rename(..) => return unknown("a renaming outside `rename`"),
            }
        }
        Ok((values, named))
    }

    pub fn apply(&self, cx: &Cx<'a>, fun: Fun<'a>, values: Vec<Val<'a>>, named: Named<'a>, asked: Option<Vec<Ax>>) -> R<Val<'a>> {
        match fun {
            Fun::Builtin(name) => self.builtin(cx, name, &values, &named),
            Fun::Item(f) => self.function(cx, f, values, named, false),
            Fun::Own(f) => self.function(cx, f, values, named, true),
            Fun::Net(net) => self.net(cx, net, &values, false),
            Fun::Frozen(net) => self.net(cx, net, &values, true),
            Fun::Block(block) => Ok(Val::Arr(self.block(cx, block, values, named, asked)?)),
        }
    }

    /// Binds parameters and the letters of their shapes.
    fn bind_all(&self, cx: &mut Cx<'a>, params: &'a [ParamDecl], values: Vec<Val<'a>>, named: Named<'a>) -> R<()> {
        let mut values = values.into_iter();
        for p in params {
            let by_name = named.iter().find(|(n, _)| *n == p.name.text).map(|(_, v)| v.clone());
            let value = match (by_name.or_else(|| values.next()), &p.default) {
                (Some(v), _) => v,
                (None, Some(e)) => self.eval(cx, e)?,
                (None, None) => return unknown(format!("argument {} is missing", p.name.text)),
            };
            if let Some(Type::Shape(shape)) = &p.ty {
                let array = value.array()?;
                let mut at = array.axes.iter();
                for (i, axis) in shape.axes.iter().enumerate() {
                    let fixed = cx.visible && self.dims.borrow().contains_key(&axis.name.text);
                    if axis.rest {
                        let n = array.axes.len() + 1 - shape.axes.len() + i - i;
                        let rest = at.by_ref().take(n).map(|a| Val::Axis(*a)).collect();
                        cx.env = bind(&cx.env, &axis.name.text, Val::List(Rc::new(rest)));
                    } else if let (Some(found), false) = (at.next(), fixed) {
                        cx.env = bind(&cx.env, &axis.name.text, Val::Axis(*found));
                    }
                }
            }
            cx.env = bind(&cx.env, &p.name.text, value);
        }
        Ok(())
    }

    fn function(&self, cx: &Cx<'a>, f: &'a Function, values: Vec<Val<'a>>, named: Named<'a>, visible: bool) -> R<Val<'a>> {
        let mut inner = Cx { env: None, visible, space: self.space.clone(), resets: None, ..cx.clone() };
        self.bind_all(&mut inner, &f.params, values, named)?;
        match self.body(&mut inner, &f.body)? {
            Some(v) => Ok(v),
            None => unknown("a body without `return`"),
        }
    }

    /// Runs statements; the scope of `cx` grows.
    fn body(&self, cx: &mut Cx<'a>, stmts: &'a [Stmt]) -> R<Option<Val<'a>>> {
        for s in stmts {
            match &s.kind {
                StmtKind::Let(n, e) => cx.env = later(&cx.env, &n.text, e, format!("{}.{}", cx.path, n.text).into()),
                StmtKind::Assign(n, e) => cx.env = later(&cx.env, &n.text, e, cx.path.clone()),
                StmtKind::Next(n, e) => cx.env = later(&cx.env, &format!("next {}", n.text), e, cx.path.clone()),
                StmtKind::Return(e) => return self.eval(cx, e).map(Some),
                StmtKind::Param(decl, _) => {
                    let axes = self.shape(cx, &decl.ty)?;
                    let member = cx.module.as_ref().and_then(|m| m.member);
                    // A parameter that nothing reads does not exist.
                    if let Ok(w) = self.weight(&format!("{}.{}", cx.path, decl.name.text), axes, member) {
                        let frozen = cx.module.as_ref().is_some_and(|m| m.frozen);
                        let w = if frozen { w.map(|x| Num::Plain(x.real())) } else { w };
                        cx.env = bind(&cx.env, &decl.name.text, Val::Arr(w));
                    }
                }
                StmtKind::Stack { index, item, over, body } => {
                    let outer = cx.path.clone();
                    for (i, at) in self.run_over(cx, over)?.0.into_iter().enumerate() {
                        cx.path = format!("{outer}.{i}").into();
                        if let Some(index) = index {
                            cx.env = bind(&cx.env, &index.text, Val::number(i as f64));
                        }
                        cx.env = bind(&cx.env, &item.text, Val::number(at));
                        if let Some(v) = self.body(cx, body)? {
                            return Ok(Some(v));
                        }
                    }
                    cx.path = outer;
                }
                StmtKind::Require(..) => {}
            }
        }
        Ok(None)
    }

    /// A block's scope before its body, and the axes of its output.
    fn enter(
        &self,
        cx: &Cx<'a>,
        block: &'a Block,
        values: Vec<Val<'a>>,
        named: Named<'a>,
        asked: Option<&[Ax]>,
    ) -> R<(Cx<'a>, Vec<Ax>)> {
        let mut inner = Cx { env: None, visible: false, resets: None, ..cx.clone() };
        self.bind_all(&mut inner, &block.params, values, named)?;
        for axis in block.carries.iter().flat_map(|c| &c.shape.axes) {
            if let Some(size) = &axis.size
                && find(&inner.env, &axis.name.text).is_none()
            {
                let size = self.eval(&inner, size)?.real()? as usize;
                self.made(&mut inner, &axis.name.text, size);
            }
        }
        let mut out = Vec::new();
        for axis in block.out.iter().flat_map(|s| &s.axes) {
            if let Some(node) = find(&inner.env, &axis.name.text) {
                let Bound::Value(v) = &node.bound else { return unknown("an axis that is no axis") };
                out.extend(v.axes()?);
            } else if let Some(size) = &axis.size {
                let size = self.eval(&inner, size)?.real()? as usize;
                out.push(self.made(&mut inner, &axis.name.text, size));
            } else {
                let Some(asked) = asked else { return unknown("a block without an output shape") };
                let list = asked.iter().map(|a| Val::Axis(*a)).collect();
                inner.env = bind(&inner.env, &axis.name.text, Val::List(Rc::new(list)));
                out.extend(asked);
            }
        }
        Ok((inner, out))
    }

    fn block(&self, cx: &Cx<'a>, block: &'a Block, values: Vec<Val<'a>>, named: Named<'a>, asked: Option<Vec<Ax>>) -> R<Array> {
        let Some(module) = cx.module.clone() else { return unknown("a block outside of nets") };
        // Inside, the output has axes of its own: they may be asked to be those of an input.
        let own: Option<Vec<Ax>> = asked.as_ref().map(|axes| axes.iter().map(|a| self.axis(a.size)).collect());
        let (mut inner, out) = self.enter(cx, block, values, named, own.as_deref())?;
        for carry in &block.carries {
            let axes = carry.shape.axes.iter().map(|a| self.name(&inner, &a.name.text)?.axes()).collect::<R<Vec<_>>>()?.concat();
            let value = match module.carries.get(&format!("{}.{}", cx.path, carry.name.text)) {
                Some(c) => Array { axes, data: c.data.clone() },
                None => self.eval(&inner, &carry.init)?.array()?.spread(&axes),
            };
            inner.env = bind(&inner.env, &carry.name.text, Val::Arr(value.clone()));
            inner.env = bind(&inner.env, &format!("next {}", carry.name.text), Val::Arr(value));
        }
        let Some(result) = self.body(&mut inner, &block.body)? else { return unknown("a body without `return`") };
        for carry in &block.carries {
            let Some(node) = find(&inner.env, &format!("next {}", carry.name.text)) else { continue };
            let axes = carry.shape.axes.iter().map(|a| self.name(&inner, &a.name.text)?.axes()).collect::<R<Vec<_>>>()?.concat();
            let next = self.node(&inner, &node)?.array()?.spread(&axes);
            module.next.borrow_mut().insert(format!("{}.{}", cx.path, carry.name.text), next);
        }
        let result = result.array()?.spread(&out);
        let open = own.is_some_and(|own| own == out);
        Ok(Array { axes: if open { asked.unwrap_or(out) } else { out }, data: result.data })
    }

    /// The vectors that a block reads: one, or one for each parameter.
    fn vectors(&self, block: &'a Block, params: &'a [ParamDecl], values: &[Val<'a>]) -> R<Vec<Val<'a>>> {
        if values.len() != params.len() {
            return unknown("another number of arguments");
        }
        let mut parts: Vec<Vec<Num>> = Vec::new();
        for (p, v) in params.iter().zip(values) {
            let v = match (&p.ty, v) {
                (Some(ty @ Type::Shape(_)), v) => Val::Arr(v.array()?.spread(&self.shape(&self.site(0), ty)?)),
                (_, v) => v.clone(),
            };
            parts.push(v.leaves()?.into_iter().flat_map(|a| a.data).collect());
        }
        if block.params.iter().filter(|p| p.default.is_none()).count() == 1 {
            parts = vec![parts.concat()];
        }
        Ok(parts.into_iter().map(|data| Val::Arr(Array { axes: vec![self.axis(data.len())], data })).collect())
    }

    /// Runs a net's or memory's block.
    fn instance(
        &self,
        cx: &Cx<'a>,
        name: &str,
        call: &'a Call,
        inputs: Vec<Val<'a>>,
        module: &Rc<Module>,
        width: Option<usize>,
    ) -> R<Array> {
        let Some(block) = self.item_block(&call.name.text) else { return unknown(format!("block {}", call.name.text)) };
        let site = Cx { env: None, path: name.into(), module: Some(module.clone()), resets: None, ..cx.clone() };
        let (settings, named) = self.arguments(&Cx { visible: true, space: self.space.clone(), ..site.clone() }, &call.args)?;
        let values = inputs.into_iter().chain(settings).collect();
        self.block(&site, block, values, named, width.map(|n| vec![self.axis(n)]))
    }

    fn net(&self, cx: &Cx<'a>, net: &'a Net, values: &[Val<'a>], frozen: bool) -> R<Val<'a>> {
        let Some(block) = self.item_block(&net.block.name.text) else { return unknown(format!("block {}", net.block.name.text)) };
        let inputs = self.vectors(block, &net.params, values)?;
        let width = self.width(net)?;
        let run = |member| {
            let module = Rc::new(Module { carries: Carries::new(), next: RefCell::default(), member, frozen });
            let flat = self.instance(cx, &net.name.text, &net.block, inputs.clone(), &module, Some(width))?;
            let cut = self.cut(net, &flat)?;
            match &net.via {
                None => Ok(cut),
                Some(via) => {
                    let Val::Fun(f) = self.name(&self.site(cx.sample), &via.name.text)? else {
                        return unknown("via what is no function");
                    };
                    let (rest, named) = self.arguments(&self.site(cx.sample), &via.args)?;
                    self.apply(cx, f, [vec![cut], rest].concat(), named, None)
                }
            }
        };
        match &net.ensemble {
            None => run(None),
            Some(axis) => {
                let axis = self.name(&self.site(0), &axis.text)?.axes()?[0];
                let members = (0..axis.size).map(|i| run(Some((i, axis.size)))).collect::<R<Vec<_>>>()?;
                stack(axis, &members)
            }
        }
    }

    /// `memory(inputs, remembered)`.
    fn remember(&self, cx: &Cx<'a>, args: &'a [Arg]) -> R<Val<'a>> {
        let [memory] = self.memories[..] else { return unknown("several memories") };
        let (mut values, _) = self.arguments(cx, args)?;
        let carries = match values.pop() {
            Some(Val::Mem(m)) if !cx.anew => m.1.clone(),
            Some(Val::Mem(_) | Val::Zeros) => Carries::new(),
            _ => return unknown("what a memory remembers"),
        };
        let Some(block) = self.item_block(&memory.block.name.text) else { return unknown("a memory's block") };
        let inputs = self.vectors(block, &memory.params, &values)?;
        let module = Rc::new(Module { carries, next: RefCell::default(), member: None, frozen: false });
        let out = self.instance(cx, &memory.name.text, &memory.block, inputs, &module, None)?;
        let axes = self.name(&self.site(0), &memory.out.axes[0].name.text)?.axes()?;
        let next = module.next.borrow().clone();
        Ok(Val::Mem(Rc::new((Array { axes, data: out.data }, next))))
    }

    pub fn memory_width(&self, memory: &'a Memory) -> R<usize> {
        let Some(block) = self.item_block(&memory.block.name.text) else { return unknown("a memory's block") };
        let site = self.site(0);
        let (settings, named) = self.arguments(&site, &memory.block.args)?;
        let fake = Val::Arr(Array::fill(vec![self.axis(1)], 0.0));
        let arrays = block.params.iter().filter(|p| p.default.is_none()).map(|_| fake.clone());
        let (_, out) = self.enter(&site, block, arrays.chain(settings).collect(), named, None)?;
        Ok(out.iter().map(|a| a.size).product())
    }

    fn rename(&self, cx: &Cx<'a>, args: &'a [Arg]) -> R<Val<'a>> {
        let mut array = None;
        for arg in args {
            match &arg.kind {
                ArgKind::Value(e) => array = Some(self.eval(cx, e)?.array()?),
                ArgKind::Rename(from, to) => {
                    let (from, to) = (self.name(cx, &from.text)?.axes()?, self.name(cx, &to.text)?.axes()?);
                    let Some(a) = &mut array else { return unknown("rename of nothing") };
                    a.axes.iter_mut().filter(|x| **x == from[0]).for_each(|x| *x = to[0]);
                }
                ArgKind::Named(..) => return unknown("a setting of `rename`"),
            }
        }
        array.map(Val::Arr).ok_or(Stop::Unknown("rename of nothing".into()))
    }

    /// The value of a name in scope.
    pub fn node(&self, cx: &Cx<'a>, node: &Node<'a>) -> R<Val<'a>> {
        match &node.bound {
            Bound::Value(v) => Ok(v.clone()),
            Bound::Later { expr, path, memo, changes } => {
                if let Some(v) = &*memo.borrow() {
                    return Ok(v.clone());
                }
                let inner = Cx { env: node.rest.clone(), path: path.clone(), ..cx.clone() };
                let v = changes.iter().try_fold(self.eval(&inner, expr)?, |v, c| c.of(&v))?;
                *memo.borrow_mut() = Some(v.clone());
                Ok(v)
            }
        }
    }
}
