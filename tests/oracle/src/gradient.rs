//! `grad`, `partial` and `sg`: the definition, one point at a time.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use dsl::ast::{Arg, ArgKind, Expr, ExprKind};

use crate::array::Array;
use crate::eval::Oracle;
use crate::value::*;

impl<'a> Oracle<'a> {
    /// A fresh variable.
    fn variable(&self, path: Vec<String>) -> Change {
        let tag = self.tags.get();
        self.tags.set(tag + 1);
        Change { tag, path }
    }

    /// The derivative of a number by the variable, in the variable's shape.
    fn slope(&self, of: &Val<'a>, tag: u32, like: &Val<'a>) -> R<Val<'a>> {
        let of = of.array()?;
        if !of.axes.is_empty() {
            return Err(Stop::Unknown("the gradient of an array".into()));
        }
        let at = RefCell::new(0);
        like.map(&|a: &Array| {
            a.map(|_| {
                let i = *at.borrow();
                *at.borrow_mut() += 1;
                of.data[0].tangent(tag, i)
            })
        })
    }

    pub fn grad(&self, cx: &Cx<'a>, value: &'a Expr, by: &'a Expr) -> R<Val<'a>> {
        // By an entry: everything else about the array is held, so it is that entry of the whole gradient.
        if let ExprKind::Index(array, at) = &by.kind
            && !self.is_place(cx, array)
        {
            let mut slope = self.grad(cx, value, array)?.array()?;
            for e in at {
                slope = slope.first(self.eval(cx, e)?.real()? as i64)?;
            }
            return Ok(Val::Arr(slope));
        }
        let mut path = Vec::new();
        let mut base = by;
        while let ExprKind::Field(inner, name) = &base.kind {
            path.insert(0, name.text.clone());
            base = inner;
        }
        let old = self.eval(cx, by)?;
        let change = self.variable(path);
        let tag = change.tag;
        let (name, at) = match &base.kind {
            ExprKind::Name(n) => (&n.text, &[][..]),
            ExprKind::Index(inner, at) => match inner.as_name() {
                Some(n) => (&n.text, &at[..]),
                None => return Err(Stop::Unknown("a gradient by an entry".into())),
            },
            _ => return Err(Stop::Unknown("a gradient by what is no name".into())),
        };
        // A name of the body, and what the body computes from it.
        if let Some(node) = find(&cx.env, name) {
            if !at.is_empty() {
                return Err(Stop::Unknown("a gradient by an entry".into()));
            }
            // `let w = u` is another name for the same value.
            let (mut node, mut name, mut change) = (node, name.as_str(), change);
            while let Bound::Later { expr, .. } = &node.bound {
                let mut of = *expr;
                let mut path = Vec::new();
                while let ExprKind::Field(inner, field) = &of.kind {
                    path.insert(0, field.text.clone());
                    of = inner;
                }
                let Some((n, found)) = of.as_name().and_then(|n| Some((n, find(&node.rest, &n.text)?))) else { break };
                change.path.splice(0..0, path);
                (name, node) = (&n.text, found);
            }
            let inner = Cx { env: rebound(&cx.env, name, &change)?, ..cx.clone() };
            return self.slope(&self.eval(&inner, value)?, tag, &old);
        }
        let Some(space) = self.family_space(&cx.space, name) else {
            return Err(Stop::Unknown(format!("a gradient by {name}")));
        };
        let at = at.iter().map(|e| Ok(self.eval(cx, e)?.real()? as i64)).collect::<R<Vec<_>>>()?;
        let key = Key { space: space.id.clone(), name: name.clone(), sample: cx.sample, at };
        let moved = Moved { key, change };
        let ctx = Rc::new(Ctx { parent: Some((cx.ctx.clone(), moved)), memo: RefCell::new(HashMap::new()) });
        let inner = Cx { ctx, ..cx.clone() };
        self.slope(&self.eval(&inner, value)?, tag, &old)
    }

    /// Whether brackets behind an expression are subscripts of a family.
    pub fn is_place(&self, cx: &Cx<'a>, e: &'a Expr) -> bool {
        let Some(name) = e.as_name().filter(|n| find(&cx.env, &n.text).is_none()) else { return false };
        let Some(space) = self.family_space(&cx.space, &name.text) else { return false };
        let rules = space.equations.get(&name.text).map_or(&[][..], |rules| rules);
        rules.is_empty() || rules.iter().any(|r| !r.equation.place.indices.is_empty())
    }

    /// The derivative of a call by one of its arguments, or by a field of one.
    pub fn partial(&self, cx: &Cx<'a>, call: &'a Expr, by: &'a Expr) -> R<Val<'a>> {
        let ExprKind::Call(f, args) = &call.kind else { return Err(Stop::Unknown("partial of no call".into())) };
        let old = self.eval(cx, by)?;
        let tag = self.variable(Vec::new()).tag;
        let mut values = Vec::new();
        let mut found = false;
        for arg in args {
            let ArgKind::Value(e) = &arg.kind else { return Err(Stop::Unknown("partial with settings".into())) };
            let mut path = Vec::new();
            let mut base = by;
            let mut value = self.eval(cx, e)?;
            loop {
                if same(base, e) {
                    value = Change { tag, path: path.clone() }.of(&value)?;
                    found = true;
                    break;
                }
                let ExprKind::Field(inner, name) = &base.kind else { break };
                path.insert(0, name.text.clone());
                base = inner;
            }
            values.push(value);
        }
        if !found {
            return Err(Stop::Unknown("partial by what is no argument".into()));
        }
        let result = match self.eval(cx, f)? {
            Val::Fun(f) => self.apply(cx, f, values, Vec::new(), None)?,
            _ => return Err(Stop::Unknown("a call of what is no function".into())),
        };
        self.slope(&result, tag, &old)
    }

    /// The two arguments of `grad` and `partial`.
    pub fn two(&self, args: &'a [Arg]) -> R<(&'a Expr, &'a Expr)> {
        match args {
            [Arg { kind: ArgKind::Value(a), .. }, Arg { kind: ArgKind::Value(b), .. }] => Ok((a, b)),
            _ => Err(Stop::Unknown("two arguments are wanted".into())),
        }
    }
}

/// The same text, wherever it stands.
fn same(a: &Expr, b: &Expr) -> bool {
    let alike = |a: &Arg, b: &Arg| matches!((&a.kind, &b.kind), (ArgKind::Value(a), ArgKind::Value(b)) if same(a, b));
    match (&a.kind, &b.kind) {
        (ExprKind::Call(f, x), ExprKind::Call(g, y)) => {
            same(f, g) && x.len() == y.len() && x.iter().zip(y).all(|(a, b)| alike(a, b))
        }
        (ExprKind::Name(a), ExprKind::Name(b)) => a.text == b.text,
        (ExprKind::Number(a), ExprKind::Number(b)) => a == b,
        (ExprKind::Field(a, n), ExprKind::Field(b, m)) => n.text == m.text && same(a, b),
        (ExprKind::Index(a, i), ExprKind::Index(b, j)) => {
            same(a, b) && i.len() == j.len() && i.iter().zip(j).all(|(a, b)| same(a, b))
        }
        (ExprKind::Binary(o, a, b), ExprKind::Binary(p, c, d)) => o == p && same(a, c) && same(b, d),
        _ => false,
    }
}
