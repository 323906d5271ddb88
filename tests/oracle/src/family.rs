//! Families: equations as functions of sample and indices, evaluated when they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use dsl::ast::{
    ArgKind, BinaryOp, Clause, ClauseKind, Equation, Expr, ExprKind, File, Item, ListItem, MemberKind, Place, Stmt, StmtKind,
};

use crate::array::Array;
use crate::eval::Oracle;
use crate::number::Num;
use crate::value::*;

/// Under this name an equation sees its own: draws are called by it.
pub const DRAWS: &str = "draws of";
/// No index of a generated model goes further.
pub const FAR: i64 = 8;

impl<'a> Oracle<'a> {
    /// Where the family of a name lives, seen from a space.
    pub fn family_space(&self, space: &Rc<Space<'a>>, name: &str) -> Option<Rc<Space<'a>>> {
        let mut at = Some(space.clone());
        while let Some(s) = at {
            if s.equations.contains_key(name) || s.id.is_empty() && self.data.contains_key(name) {
                return Some(s);
            }
            at = s.parent.clone();
        }
        None
    }

    /// A read as it is written: with the resets and the range rules of the equation around it.
    pub fn read_in(&self, cx: &Cx<'a>, space: &Rc<Space<'a>>, name: &str, written: &'a [Expr], at: &[i64]) -> R<Val<'a>> {
        if let Some(resets) = &cx.resets {
            for (place, value) in &resets.cases {
                if place.name.text == name {
                    return self.eval(&Cx { env: resets.env.clone(), resets: None, ..cx.clone() }, value);
                }
            }
        }
        // An index that reads a family at its own point does not take in its base cases.
        let own = written.iter().any(|e| e.as_name().is_some_and(|n| cx.inferred.contains(&n.text)));
        if own && self.base_case(cx, space, name, at)?.is_some() {
            return Err(Stop::NoPoint(format!("{name}{at:?} is a base case")));
        }
        self.read(&cx.ctx, space, name, cx.sample, at)
    }

    /// A family at a point, as a context sees it.
    pub fn read(&self, ctx: &Rc<Ctx<'a>>, space: &Rc<Space<'a>>, name: &str, sample: usize, at: &[i64]) -> R<Val<'a>> {
        let key = Key { space: space.id.clone(), name: name.to_string(), sample, at: at.to_vec() };
        if let Some(known) = ctx.memo.borrow().get(&key) {
            return known.clone();
        }
        let value = match &ctx.parent {
            Some((parent, moved)) if moved.key == key => {
                self.read(parent, space, name, sample, at).and_then(|v| moved.change.of(&v))
            }
            // What cannot depend on the variable is the same outside.
            Some((parent, moved)) if !self.depends(name, &moved.key.name) => return self.read(parent, space, name, sample, at),
            _ => {
                let mut value = self.compute(ctx, space, name, sample, at);
                // Gradients further out may be by this very point.
                let mut outer = ctx;
                while let Some((parent, moved)) = &outer.parent {
                    if moved.key == key {
                        value = value.and_then(|v| moved.change.of(&v));
                    }
                    outer = parent;
                }
                value
            }
        };
        ctx.memo.borrow_mut().insert(key, value.clone());
        value
    }

    fn depends(&self, name: &str, on: &str) -> bool {
        name == on || self.reads.get(name).is_some_and(|r| r.contains(on))
    }

    pub fn base_case(&self, cx: &Cx<'a>, space: &Rc<Space<'a>>, name: &str, at: &[i64]) -> R<Option<(&'a Expr, Cx<'a>)>> {
        for rule in space.equations.values().flatten() {
            for clause in &rule.equation.clauses {
                let ClauseKind::With(cases) = &clause.kind else { continue };
                for (place, value) in cases.iter().filter(|(p, _)| p.name.text == name) {
                    let site = self.rule_site(&cx.ctx, space, rule, cx.sample);
                    if let Some(env) = self.matches(&site, place, at)? {
                        return Ok(Some((value, Cx { env, ..site })));
                    }
                }
            }
        }
        Ok(None)
    }

    fn rule_site(&self, ctx: &Rc<Ctx<'a>>, space: &Rc<Space<'a>>, rule: &Rule<'a>, sample: usize) -> Cx<'a> {
        Cx {
            env: rule.env.clone(),
            ctx: ctx.clone(),
            space: rule.space.clone().unwrap_or_else(|| space.clone()),
            visible: rule.visible,
            ..self.site(sample)
        }
    }

    fn compute(&self, ctx: &Rc<Ctx<'a>>, space: &Rc<Space<'a>>, name: &str, sample: usize, at: &[i64]) -> R<Val<'a>> {
        let here = Cx { ctx: ctx.clone(), ..self.site(sample) };
        if let Some((value, cx)) = self.base_case(&here, space, name, at)? {
            return self.eval(&cx, value);
        }
        let mut why = Stop::NoPoint(format!("{name}{at:?}"));
        for rule in space.equations.get(name).map_or(&[][..], |r| r) {
            let site = self.rule_site(ctx, space, rule, sample);
            let Some(env) = self.matches(&site, &rule.equation.place, at)? else { continue };
            let env = bind(&env, DRAWS, Val::Text(name.to_string()));
            let Some(inferred) = self.within(&site, &env, rule.equation)? else { continue };
            let mut cx = Cx { env, inferred: Rc::new(inferred), ..site };
            self.reset(&mut cx, rule.equation)?;
            match self.eval(&cx, &rule.equation.value) {
                Err(Stop::NoPoint(p)) => why = Stop::NoPoint(p),
                other => return other,
            }
        }
        if space.id.is_empty() && self.data.contains_key(name) {
            return self.datum(name, sample, at);
        }
        if at == [-1] && space.id.is_empty() && self.memories.iter().any(|m| m.name.text == name) {
            return self.carried(name, sample);
        }
        Err(why)
    }

    /// Whether an episode begins now, while acting.
    pub fn begins(&self, sample: usize) -> bool {
        let first = self.given.get("data.first").filter(|_| self.steps.is_none());
        first.is_some_and(|t| t.data[sample] != 0.0)
    }

    /// What the memory holds before the first step: as given, or its initial values.
    fn carried(&self, name: &str, sample: usize) -> R<Val<'a>> {
        let prefix = format!("carry.{name}.");
        let mut carries = Carries::new();
        if self.begins(sample) {
            return Ok(Val::Mem(Rc::new((Array::scalar(Num::ZERO), carries))));
        }
        for (path, t) in self.given.iter().filter(|(n, _)| n.starts_with(&prefix)) {
            let n: usize = t.shape[1..].iter().product();
            let axes = t.shape[1..].iter().map(|s| self.axis(*s)).collect();
            let data = t.data[sample * n..(sample + 1) * n].iter().map(|x| Num::Plain(*x)).collect();
            carries.insert(path["carry.".len()..].to_string(), Array { axes, data });
        }
        Ok(Val::Mem(Rc::new((Array::scalar(Num::ZERO), carries))))
    }

    fn datum(&self, name: &str, sample: usize, at: &[i64]) -> R<Val<'a>> {
        let (ty, consequence) = self.data[name];
        let steps = self.steps.map_or(1, |t| if consequence { t - 1 } else { t });
        let t = match at {
            [t] if (0..steps as i64).contains(t) => *t as usize,
            _ => return Err(Stop::NoPoint(format!("{name}{at:?}"))),
        };
        let Some(tensor) = self.given.get(&format!("data.{name}")) else {
            return Err(Stop::Unknown(format!("no data {name}")));
        };
        let axes = self.shape(&self.site(0), ty)?;
        let n: usize = axes.iter().map(|a| a.size).product();
        let from = (sample * steps + t) * n;
        Ok(Val::Arr(Array { axes, data: tensor.data[from..from + n].iter().map(|x| Num::Plain(*x)).collect() }))
    }

    /// The indices that put a place at a point.
    fn matches(&self, site: &Cx<'a>, place: &'a Place, at: &[i64]) -> R<Option<Env<'a>>> {
        if place.indices.len() != at.len() {
            return Ok(None);
        }
        let known = |name: &str| {
            self.dims.borrow().contains_key(name) || self.consts.contains_key(name) || find(&site.env, name).is_some()
        };
        let mut env = site.env.clone();
        for (written, at) in place.indices.iter().zip(at) {
            let index = match &written.kind {
                ExprKind::Name(n) if !known(&n.text) => Some((&n.text, 0.0)),
                ExprKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), l, r) => match l.as_name() {
                    Some(n) if !known(&n.text) => {
                        let by = self.eval(site, r)?.real()?;
                        Some((&n.text, if *op == BinaryOp::Add { by } else { -by }))
                    }
                    _ => None,
                },
                _ => None,
            };
            match index {
                Some((name, by)) => env = bind(&env, name, Val::number(*at as f64 - by)),
                None if self.eval(site, written)?.real()? as i64 == *at => {}
                None => return Ok(None),
            }
        }
        Ok(Some(env))
    }

    /// Whether a point lies in the ranges that an equation gives; the indices that have none.
    fn within(&self, site: &Cx<'a>, env: &Env<'a>, equation: &'a Equation) -> R<Option<Vec<String>>> {
        let mut given = Vec::new();
        // A range may depend on the indices before it.
        let inside = Cx { env: env.clone(), ..site.clone() };
        for (name, range) in ranges(&equation.clauses) {
            let Some(node) = find(env, name) else { continue };
            let Bound::Value(at) = &node.bound else { continue };
            if !self.run_over(&inside, range)?.0.contains(&at.real()?) {
                return Ok(None);
            }
            given.push(name.to_string());
        }
        let mut inferred = Vec::new();
        for name in index_names(&equation.place) {
            if given.contains(&name) || find(&site.env, &name).is_some() {
                continue;
            }
            let Some(node) = find(env, &name) else { continue };
            let Bound::Value(at) = &node.bound else { continue };
            if at.real()? < 0.0 || at.real()? > FAR as f64 {
                return Ok(None);
            }
            inferred.push(name);
        }
        Ok(Some(inferred))
    }

    /// What the equation sees where it resets.
    fn reset(&self, cx: &mut Cx<'a>, equation: &'a Equation) -> R<()> {
        let own = self.memories.iter().find(|m| cx.space.id.is_empty() && m.name.text == equation.place.name.text);
        if let Some(reset) = own.and_then(|m| m.reset.as_ref()) {
            cx.anew = self.flag(cx, equation, reset)?;
        }
        for clause in &equation.clauses {
            let ClauseKind::Reset(condition) = &clause.kind else { continue };
            if self.flag(cx, equation, condition)? {
                let cases = equation.clauses.iter().flat_map(|c| match &c.kind {
                    ClauseKind::With(cases) => cases.iter().map(|(p, e)| (p, e)).collect(),
                    _ => Vec::new(),
                });
                cx.resets = Some(Rc::new(Resets { cases: cases.collect(), env: cx.env.clone() }));
            }
        }
        Ok(())
    }

    /// A condition; a field of the data alone is meant at the equation's own step.
    fn flag(&self, cx: &Cx<'a>, equation: &'a Equation, condition: &'a Expr) -> R<bool> {
        let value = match condition.as_name() {
            Some(n) if self.data.contains_key(n.text.as_str()) => {
                let own = index_names(&equation.place).into_iter().next().and_then(|n| find(&cx.env, &n));
                let Some(Bound::Value(at)) = own.map(|n| n.bound.clone()) else {
                    return Err(Stop::Unknown("a reset without a step".into()));
                };
                self.read(&cx.ctx, &self.space, &n.text, cx.sample, &[at.real()? as i64])?
            }
            _ => self.eval(cx, condition)?,
        };
        Ok(value.real()? != 0.0)
    }

    /// The points of an expression's free indices: as its clauses say, or wherever everything that it reads exists. First
    /// come the names of the indices, of which those with a range that others depend on stand before these.
    pub fn points(&self, clauses: &[&'a Clause], value: &'a Expr) -> R<Points> {
        let site = self.site(0);
        let given: Vec<(&str, &Expr)> = clauses.iter().flat_map(|c| ranges(std::slice::from_ref(c))).collect();
        let mut names: Vec<String> = given.iter().map(|(n, _)| n.to_string()).collect();
        let inferred: Vec<String> = self.free(value).into_iter().filter(|n| !names.contains(n)).collect();
        let mut all: Vec<Vec<f64>> = vec![Vec::new()];
        for (i, (_, range)) in given.iter().enumerate() {
            let mut next = Vec::new();
            for point in all {
                let run = self.run_over(&self.at(&site, &names[..i], &point, &[]), range)?.0;
                next.extend(run.into_iter().map(|at| [point.clone(), vec![at]].concat()));
            }
            all = next;
        }
        names.extend(inferred.iter().cloned());
        for _ in &inferred {
            all = all.into_iter().flat_map(|p| (0..=FAR).map(move |i| [p.clone(), vec![i as f64]].concat())).collect();
        }
        if inferred.is_empty() {
            return Ok((names, all, inferred));
        }
        let mut kept = Vec::new();
        for point in all {
            let cx = self.at(&site, &names, &point, &inferred);
            match self.eval(&cx, value) {
                Ok(_) => kept.push(point),
                Err(Stop::NoPoint(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok((names, kept, inferred))
    }

    pub fn at(&self, site: &Cx<'a>, free: &[String], point: &[f64], inferred: &[String]) -> Cx<'a> {
        let mut cx = Cx { inferred: Rc::new(inferred.to_vec()), ..site.clone() };
        for (name, i) in free.iter().zip(point) {
            cx = cx.with(name, Val::number(*i));
        }
        cx
    }

    /// Names in subscripts of families that nothing binds.
    pub fn free(&self, value: &'a Expr) -> Vec<String> {
        let mut free = Vec::new();
        walk(value, &mut |e| {
            if let ExprKind::Index(_, at) = &e.kind {
                for e in at {
                    walk(e, &mut |e| {
                        if let Some(n) = e.as_name() {
                            free.push(n.text.clone());
                        }
                    });
                }
            }
        });
        let mut bound = BTreeSet::new();
        walk(value, &mut |e| {
            if let ExprKind::Fold { var, .. } = &e.kind {
                bound.insert(var.text.clone());
            }
        });
        let mut seen = BTreeSet::new();
        free.retain(|n| {
            !bound.contains(n)
                && !self.dims.borrow().contains_key(n)
                && !self.consts.contains_key(n.as_str())
                && seen.insert(n.clone())
        });
        free
    }
}

/// Names of indices, points, and the names that have no range.
pub type Points = (Vec<String>, Vec<Vec<f64>>, Vec<String>);

pub fn ranges(clauses: &[Clause]) -> Vec<(&str, &Expr)> {
    let lists = clauses.iter().filter_map(|c| if let ClauseKind::For(list) = &c.kind { Some(list) } else { None });
    lists.flatten().map(|(n, e)| (n.text.as_str(), e)).collect()
}

/// Names in the indices of a place.
fn index_names(place: &Place) -> Vec<String> {
    let mut names = Vec::new();
    for e in &place.indices {
        walk(e, &mut |e| {
            if let Some(n) = e.as_name() {
                names.push(n.text.clone());
            }
        });
    }
    names
}

/// Visits an expression and all that are in it.
pub fn walk<'e>(e: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    visit(e);
    children(e, &mut |c| walk(c, visit));
}

/// Visits the parts of an expression.
pub fn children<'e>(e: &'e Expr, visit: &mut dyn FnMut(&'e Expr)) {
    match &e.kind {
        ExprKind::List(items) => {
            for item in items {
                if let ListItem::Value(e) | ListItem::Axis(_, e) = item {
                    visit(e);
                }
            }
        }
        ExprKind::Record(fields) => fields.iter().for_each(|(_, e)| visit(e)),
        ExprKind::Fold { over, body, .. } => [over, body].into_iter().for_each(|e| visit(e)),
        ExprKind::If { cond, then, other } => [cond, then, other].into_iter().for_each(|e| visit(e)),
        ExprKind::Rollout(equations) => equations.iter().for_each(|e| visit(&e.value)),
        ExprKind::Index(e, at) => {
            visit(e);
            at.iter().for_each(visit);
        }
        ExprKind::Field(e, _) | ExprKind::Arrow(e, _) | ExprKind::Unary(_, e) => visit(e),
        ExprKind::Call(e, args) => {
            visit(e);
            for a in args {
                if let ArgKind::Value(e) | ArgKind::Named(_, e) = &a.kind {
                    visit(e);
                }
            }
        }
        ExprKind::Update(e, fields) => {
            visit(e);
            fields.iter().for_each(|(_, e)| visit(e));
        }
        ExprKind::Binary(_, l, r) => [l, r].into_iter().for_each(|e| visit(e)),
        ExprKind::Range { lo, hi, .. } => [lo, hi].into_iter().for_each(|e| visit(e)),
        ExprKind::Number(_)
        | ExprKind::Percent(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Next(_)
        | ExprKind::Error => {}
    }
}

/// For each name, all names that its equations or its body may read, however indirectly.
pub fn reads(file: &File) -> BTreeMap<String, BTreeSet<String>> {
    let mut direct: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut note = |name: &str, e: &Expr| {
        let into = direct.entry(name.to_string()).or_default();
        walk(e, &mut |e| match &e.kind {
            ExprKind::Name(n) | ExprKind::Field(_, n) => {
                into.insert(n.text.clone());
            }
            ExprKind::Rollout(equations) => into.extend(equations.iter().map(|e| e.place.name.text.clone())),
            _ => {}
        });
    };
    fn equation(e: &Equation, note: &mut dyn FnMut(&str, &Expr)) {
        note(&e.place.name.text, &e.value);
        walk(&e.value, &mut |v| {
            if let ExprKind::Rollout(inner) = &v.kind {
                inner.iter().for_each(|i| note(&i.place.name.text, &i.value));
            }
        });
        for clause in &e.clauses {
            match &clause.kind {
                ClauseKind::With(cases) => cases.iter().for_each(|(p, v)| {
                    note(&p.name.text, v);
                    note(&e.place.name.text, v);
                }),
                ClauseKind::Reset(c) | ClauseKind::Where(c) => note(&e.place.name.text, c),
                ClauseKind::For(_) => {}
            }
        }
    }
    fn body(name: &str, stmts: &[Stmt], note: &mut dyn FnMut(&str, &Expr)) {
        for s in stmts {
            match &s.kind {
                StmtKind::Let(_, e) | StmtKind::Next(_, e) | StmtKind::Return(e) | StmtKind::Assign(_, e) => note(name, e),
                StmtKind::Stack { body: inner, .. } => body(name, inner, note),
                StmtKind::Param(..) | StmtKind::Require(..) => {}
            }
        }
    }
    for item in &file.items {
        match item {
            Item::Planner(p) => p.equations.iter().for_each(|e| equation(e, &mut note)),
            Item::Model(m) => {
                for member in &m.members {
                    match &member.kind {
                        MemberKind::Equation(e) => equation(e, &mut note),
                        MemberKind::Act(list) => list.iter().for_each(|e| equation(e, &mut note)),
                        MemberKind::Planner(p) => p.equations.iter().for_each(|e| equation(e, &mut note)),
                        MemberKind::Fn(f) => body(&f.name.text, &f.body, &mut note),
                        _ => {}
                    }
                }
            }
            Item::Fn(f) => body(&f.name.text, &f.body, &mut note),
            _ => {}
        }
    }
    let mut all = direct.clone();
    loop {
        let mut grew = false;
        for name in direct.keys() {
            let more: BTreeSet<String> = all[name].iter().filter_map(|n| all.get(n)).flatten().cloned().collect();
            let into = all.get_mut(name).expect("a name of the map");
            let before = into.len();
            into.extend(more);
            grew |= into.len() > before;
        }
        if !grew {
            return all;
        }
    }
}
