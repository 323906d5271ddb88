//! Statistics of the batch, and running values.

use dsl::ast::{Arg, ArgKind, BinaryOp, Expr, ExprKind, ListItem};

use crate::array::Array;
use crate::eval::{Oracle, binary, zip};
use crate::family::FAR;
use crate::number::Num;
use crate::value::*;

/// The name of the batch.
const BATCH: &str = "B";

impl<'a> Oracle<'a> {
    /// `mean(x, over = [B, t])`: over samples and indices, rather than axes. Nothing for other calls.
    pub fn statistic(&self, cx: &Cx<'a>, name: &str, args: &'a [Arg]) -> Option<R<Val<'a>>> {
        let [Arg { kind: ArgKind::Value(value), .. }, Arg { kind: ArgKind::Named(over, list), .. }] = args else { return None };
        let names: Vec<&'a str> = match &list.kind {
            ExprKind::Name(n) => vec![&n.text],
            ExprKind::List(items) => items.iter().filter_map(listed).collect(),
            _ => return None,
        };
        let index = |n: &&str| *n == BATCH || !self.dims.borrow().contains_key(*n);
        if over.text != "over" || !cx.visible || names.is_empty() || !names.iter().all(index) {
            return None;
        }
        Some(self.gathered(cx, name, value, &names))
    }

    fn gathered(&self, cx: &Cx<'a>, name: &str, value: &'a Expr, over: &[&'a str]) -> R<Val<'a>> {
        let batch = self.dims.borrow().get(BATCH).map_or(0, |a| a.size);
        let samples = if over.contains(&BATCH) { 0..batch } else { cx.sample..cx.sample + 1 };
        let indices: Vec<String> = over.iter().filter(|n| **n != BATCH).map(|n| n.to_string()).collect();
        let mut points: Vec<Vec<f64>> = vec![Vec::new()];
        for _ in &indices {
            points = points.into_iter().flat_map(|p| (0..=FAR).map(move |i| [p.clone(), vec![i as f64]].concat())).collect();
        }
        // What it runs over are the indices around it: it exists where its value does.
        if indices.iter().all(|i| find(&cx.env, i).is_some()) {
            self.eval(cx, value)?;
        }
        let mut found = Vec::new();
        for sample in samples {
            for point in &points {
                let here = self.at(&Cx { sample, ..cx.clone() }, &indices, point, &indices);
                match self.eval(&here, value) {
                    Ok(v) => found.push(v),
                    Err(Stop::NoPoint(_)) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        let n = found.len() as f64;
        let mut found = found.into_iter();
        let Some(first) = found.next() else { return Err(Stop::NoPoint("a statistic of nothing".into())) };
        let all = found.try_fold(first, |all, v| match name {
            "sum" | "mean" => binary(BinaryOp::Add, &all, &v),
            "max" => zip(&all, &v, &|a, b| if b.real() > a.real() { b.clone() } else { a.clone() }),
            _ => Err(Stop::Unknown(format!("the statistic {name}"))),
        })?;
        if name == "mean" { binary(BinaryOp::Div, &all, &Val::number(n)) } else { Ok(all) }
    }

    /// A running value: as an update leaves it, and as it was while acting or inside of its own definition.
    pub fn running_value(&self, name: &'a str) -> Option<R<Val<'a>>> {
        let (value, init) = *self.running.get(name)?;
        let updates = self.steps.is_some() && !self.updating.borrow().contains(&name);
        if !updates {
            return Some(self.before(name, init));
        }
        if let Some(known) = self.updated.borrow().get(name) {
            return Some(Ok(Val::Arr(known.clone())));
        }
        self.updating.borrow_mut().push(name);
        let new = self.eval(&self.site(0), value).and_then(|v| v.array());
        self.updating.borrow_mut().pop();
        Some(new.map(|a| {
            let a = a.map(|x| Num::Plain(x.real()));
            self.updated.borrow_mut().insert(name, a.clone());
            Val::Arr(a)
        }))
    }

    fn before(&self, name: &str, init: &'a Expr) -> R<Val<'a>> {
        let start = self.eval(&self.site(0), init)?.array()?;
        Ok(Val::Arr(match self.given.get(&format!("running.{name}")) {
            Some(t) => Array { axes: start.axes, data: t.data.iter().map(|x| Num::Plain(*x)).collect() },
            None => start,
        }))
    }
}

fn listed(item: &ListItem) -> Option<&str> {
    match item {
        ListItem::Value(e) => e.as_name().map(|n| &*n.text),
        _ => None,
    }
}
