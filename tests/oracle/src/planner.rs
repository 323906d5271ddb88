//! Planners and acting: an algorithm's equations around runs of the model's.

use std::collections::HashMap;
use std::rc::Rc;

use dsl::ast::{Equation, Item, MemberKind, Planner};

use crate::array::Array;
use crate::eval::Oracle;
use crate::number::Num;
use crate::value::*;

fn unknown<T>(what: impl Into<String>) -> R<T> {
    Err(Stop::Unknown(what.into()))
}

impl<'a> Oracle<'a> {
    pub fn planner(&self, name: &str) -> Option<&'a Planner> {
        self.model.members.iter().find_map(|m| match &m.kind {
            MemberKind::Planner(p) if p.name.text == name => Some(p),
            _ => None,
        })
    }

    /// The result of a planner at what it is given.
    pub fn plan(&self, cx: &Cx<'a>, planner: &'a Planner, values: &[Val<'a>]) -> R<Val<'a>> {
        let algorithm = self.items.iter().find_map(|i| match i {
            Item::Planner(p) if p.name.text == planner.algorithm.name.text => Some(p),
            _ => None,
        });
        let Some(algorithm) = algorithm else { return unknown("a planner's algorithm") };
        // What the model's equations see: the planner's parameters, bound for the runs below.
        let mut given: Env<'a> = None;
        for (p, v) in planner.params.iter().zip(values) {
            given = bind(&given, &p.name.text, v.clone());
        }
        let mut env: Env<'a> = None;
        for p in &algorithm.params {
            let setting = planner.algorithm.args.iter().find_map(|a| match &a.kind {
                dsl::ast::ArgKind::Named(n, e) if n.text == p.name.text => Some(e),
                _ => None,
            });
            let value = match (setting, &p.default) {
                (Some(e), _) => self.eval(&self.site(cx.sample), e)?,
                (None, Some(e)) => self.eval(&Cx { env: env.clone(), ..self.site(cx.sample) }, e)?,
                (None, None) => return unknown("a setting is missing"),
            };
            env = bind(&env, &p.name.text, Val::number(value.real()?));
        }
        for axis in self.shape(&self.site(0), self.action.1)? {
            env = bind(&env, "A", Val::Axis(axis));
        }
        for d in &algorithm.dims {
            let size = self.eval(&Cx { env: env.clone(), visible: false, ..self.site(cx.sample) }, &d.value)?.real()? as usize;
            env = bind(&env, &d.name.text, Val::Axis(self.axis(size)));
        }
        for carry in &algorithm.carries {
            let site = Cx { env: env.clone(), visible: false, ..self.site(cx.sample) };
            let axes = carry.shape.axes.iter().map(|a| self.name(&site, &a.name.text)?.axes()).collect::<R<Vec<_>>>()?.concat();
            let n: usize = axes.iter().map(|a| a.size).product();
            let value = match self.given.get(&format!("carry.{}.{}", planner.name.text, carry.name.text)) {
                Some(t) if !self.begins(cx.sample) => {
                    let data = t.data[cx.sample * n..(cx.sample + 1) * n].iter().map(|x| Num::Plain(*x)).collect();
                    Val::Arr(Array { axes, data })
                }
                _ => Val::Arr(self.eval(&site, &carry.init)?.array()?.spread(&axes)),
            };
            env = bind(&env, &carry.name.text, value);
        }
        // The runs find the planner's equations and parameters through the scope.
        env = bind(&env, "the planner", Val::Text(planner.name.text.clone()));
        let mut at = &given;
        let mut hidden = Vec::new();
        while let Some(node) = at {
            if let Bound::Value(v) = &node.bound {
                hidden.push((format!("given {}", node.name), v.clone()));
            }
            at = &node.rest;
        }
        for (name, v) in hidden {
            env = bind(&env, &name, v);
        }
        let mut equations: HashMap<String, Vec<Rule<'a>>> = HashMap::new();
        for e in &algorithm.equations {
            let rule = Rule { equation: e, env: env.clone(), space: None, visible: false };
            equations.entry(e.place.name.text.clone()).or_default().push(rule);
        }
        let space = Rc::new(Space { id: planner.name.text.clone(), equations, parent: None });
        let site = Cx { env, space, visible: false, ..cx.clone() };
        *self.planned.borrow_mut() = Some(site.clone());
        match &algorithm.returns {
            Some(e) => self.eval(&site, e),
            None => unknown("a planner without a result"),
        }
    }

    /// What the planner that was last asked keeps for the next decision.
    pub fn nexts(&self) -> R<Vec<(String, Array)>> {
        let Some(site) = self.planned.borrow().clone() else { return Ok(Vec::new()) };
        let Some(planner) = self.planner(&site.space.id) else { return Ok(Vec::new()) };
        let items = self.items.iter().filter_map(|i| if let Item::Planner(p) = i { Some(p) } else { None });
        let nexts = items.filter(|p| p.name.text == planner.algorithm.name.text).flat_map(|p| &p.nexts);
        nexts.map(|(n, e)| Ok((format!("next.carry.{}.{}", planner.name.text, n.text), self.eval(&site, e)?.array()?))).collect()
    }

    /// `rollout { u[k] = .. }`: the model's equations under these actions.
    pub fn rollout(&self, cx: &Cx<'a>, actions: &'a [Equation]) -> R<Val<'a>> {
        let Some(Bound::Value(Val::Text(name))) = find(&cx.env, "the planner").map(|n| n.bound.clone()) else {
            return unknown("a rollout outside of planners");
        };
        let Some(planner) = self.planner(&name) else { return unknown("a planner") };
        let mut env: Env<'a> = None;
        for p in &planner.params {
            if let Some(Bound::Value(v)) = find(&cx.env, &format!("given {}", p.name.text)).map(|n| n.bound.clone()) {
                env = bind(&env, &p.name.text, v);
            }
        }
        let mut equations: HashMap<String, Vec<Rule<'a>>> = HashMap::new();
        for e in &planner.equations {
            let rule = Rule { equation: e, env: env.clone(), space: None, visible: true };
            equations.entry(e.place.name.text.clone()).or_default().push(rule);
        }
        for e in actions {
            let rule = Rule { equation: e, env: cx.env.clone(), space: Some(cx.space.clone()), visible: false };
            equations.entry(e.place.name.text.clone()).or_default().push(rule);
        }
        // A run is named by where it stands and by the values of the indices around it.
        let mut id = format!("{name} {}", actions.first().map_or(0, |e| e.span.lo));
        let mut at = &cx.env;
        while let Some(node) = at {
            if let Bound::Value(v) = &node.bound
                && let Ok(x) = v.real()
            {
                id += &format!(" {}={x}", node.name);
            }
            at = &node.rest;
        }
        Ok(Val::Run(Rc::new(Space { id, equations, parent: Some(self.space.clone()) })))
    }

    pub fn run_field(&self, cx: &Cx<'a>, space: &Rc<Space<'a>>, name: &str) -> R<Val<'a>> {
        let Some(rules) = space.equations.get(name) else { return unknown(format!("{name} of a rollout")) };
        if rules.iter().all(|r| r.equation.place.indices.is_empty()) {
            return self.read(&cx.ctx, space, name, cx.sample, &[]);
        }
        Ok(Val::Family(space.clone(), name.to_string()))
    }

    /// What is done now: `train` or `eval` of `act`.
    pub fn act(&self, which: &str, sample: usize) -> R<Val<'a>> {
        let mut equations: HashMap<String, Vec<Rule<'a>>> = HashMap::new();
        for m in &self.model.members {
            let MemberKind::Act(list) = &m.kind else { continue };
            for e in list {
                let rule = Rule { equation: e, env: bind(&None, "t", Val::number(0.0)), space: None, visible: true };
                equations.entry(e.place.name.text.clone()).or_default().push(rule);
            }
        }
        let space = Rc::new(Space { id: "act".into(), equations, parent: Some(self.space.clone()) });
        self.read(&self.root, &space, which, sample, &[])
    }
}
