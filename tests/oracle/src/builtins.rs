//! The functions that the language itself knows.

use crate::array::{Array, Ax, ascending, largest, log_sum_exp, place_of_largest, places, total};
use crate::eval::{Oracle, zip};
use crate::family::DRAWS;
use crate::number::Num;
use crate::value::*;

fn unknown<T>(what: impl Into<String>) -> R<T> {
    Err(Stop::Unknown(what.into()))
}

impl<'a> Oracle<'a> {
    pub fn builtin(&self, cx: &Cx<'a>, name: &str, values: &[Val<'a>], named: &[(String, Val<'a>)]) -> R<Val<'a>> {
        let Some(first) = values.first() else { return unknown(format!("{name} of nothing")) };
        let each = |f: fn(&Num) -> Num| first.map(&|a: &Array| a.map(f));
        match name {
            "exp" => return each(Num::exp),
            "log" => return each(Num::log),
            "sin" => return each(Num::sin),
            "cos" => return each(Num::cos),
            "sqrt" => return each(Num::sqrt),
            "abs" => return each(Num::abs),
            "tanh" => return each(Num::tanh),
            "sigmoid" => return each(Num::sigmoid),
            "softplus" => return each(Num::softplus),
            "sg" => return each(|x| Num::Plain(x.real())),
            "sign" => return each(|x| Num::Plain(if x.real() == 0.0 { 0.0 } else { x.real().signum() })),
            "floor" => return each(|x| Num::Plain(x.real().floor())),
            "select" => return self.select(values),
            "zeros" => return Ok(Val::Arr(Array::fill(first.axes()?, 0.0))),
            "ones" => return Ok(Val::Arr(Array::fill(first.axes()?, 1.0))),
            "size" => return Ok(Val::number(first.axes()?.iter().map(|a| a.size).product::<usize>() as f64)),
            "iota" => {
                let axes = first.axes()?;
                let data = (0..axes[0].size).map(|i| Num::Plain(i as f64)).collect();
                return Ok(Val::Arr(Array { axes, data }));
            }
            "len" => match first {
                Val::List(l) => return Ok(Val::number(l.len() as f64)),
                _ => return unknown("len of no list"),
            },
            "outer" => return Ok(Val::Arr(first.array()?.outer(&values[1].array()?))),
            "hot" => {
                let (at, axis) = (first.array()?, values[1].axes()?[0]);
                let one = |x: &Num| (0..axis.size).map(|i| Num::Plain(f64::from(i as f64 == x.real()))).collect::<Vec<_>>();
                let data = at.data.iter().flat_map(one).collect();
                return Ok(Val::Arr(Array { axes: [&at.axes[..], &[axis]].concat(), data }));
            }
            "concat" => {
                let Val::List(parts) = first else { return unknown("concat of no list") };
                let parts = parts.iter().map(Val::array).collect::<R<Vec<_>>>()?;
                return Ok(Val::Arr(Array::concat(&parts, values[1].axes()?[0])));
            }
            "slice" => {
                let (Val::Range(from, ..), [axis], [to]) = (&values[2], &values[1].axes()?[..], &values[3].axes()?[..]) else {
                    return unknown("a slice without an axis of its own");
                };
                let from = *from as usize;
                return Ok(Val::Arr(first.array()?.along(*axis, *to, |xs| xs[from..from + to.size].to_vec())));
            }
            "ahead" => {
                let axis = values[1].axes()?[0];
                let moved = |xs: &[Num]| xs.iter().skip(1).cloned().chain([Num::ZERO]).collect();
                return Ok(Val::Arr(first.array()?.along(axis, axis, moved)));
            }
            "join" | "split" => {
                let (array, from, to) = (first.array()?, values[1].axes()?, values[2].axes()?);
                let keep: Vec<Ax> = array.axes.iter().filter(|a| !from.contains(a)).copied().collect();
                let data = array.spread(&[&keep[..], &from[..]].concat()).data;
                return Ok(Val::Arr(Array { axes: [keep, to].concat(), data }));
            }
            "frozen" => match first {
                Val::Fun(Fun::Net(net)) => return Ok(Val::Fun(Fun::Frozen(net))),
                _ => return unknown("frozen of no net"),
            },
            "bounded" => return self.bounded(cx, first),
            "gaussian" => return self.drawn(cx, first.axes()?),
            "max" if values.len() == 2 => {
                return zip(first, &values[1], &|a, b| if b.real() > a.real() { b.clone() } else { a.clone() });
            }
            "min" if values.len() == 2 => {
                return zip(first, &values[1], &|a, b| if b.real() < a.real() { b.clone() } else { a.clone() });
            }
            "rem" => return zip(first, &values[1], &|a, b| Num::Plain(a.real().rem_euclid(b.real()))),
            _ => {}
        }
        if name == "sum"
            && let Val::Rec(_) = first
        {
            let sum = first.leaves()?.iter().map(|a| total(&a.data)).collect::<Vec<_>>();
            return Ok(Val::Arr(Array::scalar(total(&sum))));
        }
        let x = first.array()?;
        let over: Vec<Ax> = match named.iter().find(|(n, _)| n == "over") {
            Some((_, v)) => v.axes()?,
            None => x.axes.clone(),
        };
        let n: usize = over.iter().map(|a| a.size).product();
        Ok(Val::Arr(match name {
            "sum" => x.reduce(&over, total),
            "mean" => x.reduce(&over, |xs| total(xs).div(&Num::Plain(n as f64))),
            "prod" => x.reduce(&over, |xs| xs.iter().fold(Num::Plain(1.0), |a, b| a.mul(b))),
            "max" => x.reduce(&over, largest),
            "min" => x.reduce(&over, |xs| largest(&xs.iter().map(Num::neg).collect::<Vec<_>>()).neg()),
            "logsumexp" => x.reduce(&over, log_sum_exp),
            "softmax" => x.zip(&x.reduce(&over, log_sum_exp), |a, b| a.sub(b).exp())?,
            "log_softmax" => x.zip(&x.reduce(&over, log_sum_exp), Num::sub)?,
            "take" => x.take(over[0], &values[1].array()?),
            "sort" => x.along(over[0], over[0], |xs| ascending(xs).into_iter().map(|i| xs[i].clone()).collect()),
            "argmax" => x.reduce(&over, place_of_largest),
            "top" => {
                let to = values[1].axes()?[0];
                let places = |xs: &[Num]| {
                    let falling = ascending(&xs.iter().map(Num::neg).collect::<Vec<_>>()).into_iter();
                    falling.take(to.size).map(|i| Num::Plain(i as f64)).collect()
                };
                x.along(over[0], to, places)
            }
            _ => return unknown(format!("function {name}")),
        }))
    }

    fn select(&self, values: &[Val<'a>]) -> R<Val<'a>> {
        let [condition, yes, no] = values else { return unknown("select of other than three") };
        let condition = condition.array()?;
        if condition.axes.is_empty() {
            // Both sides have the same shape; a number spreads.
            let pick = if condition.data[0].real() != 0.0 { yes } else { no };
            return zip(pick, &zip(yes, no, &|_, _| Num::ZERO)?, &|a, _| a.clone());
        }
        let (yes, no) = (yes.array()?, no.array()?);
        let both = yes.zip(&no, |_, _| Num::ZERO)?.zip(&condition, |_, _| Num::ZERO)?;
        let axes = both.axes;
        let (c, y, n) = (condition.spread(&axes), yes.spread(&axes), no.spread(&axes));
        let data = (0..places(&axes).len())
            .map(|i| if c.data[i].real() != 0.0 { y.data[i].clone() } else { n.data[i].clone() })
            .collect();
        Ok(Val::Arr(Array { axes, data }))
    }

    /// The draw of an equation over steps, which starts at step 0: for each sample and step, as given.
    fn drawn(&self, cx: &Cx<'a>, axes: Vec<Ax>) -> R<Val<'a>> {
        let (Some(name), Some(at)) = (find(&cx.env, DRAWS), find(&cx.env, "t")) else { return unknown("a draw elsewhere") };
        let (Bound::Value(Val::Text(name)), Bound::Value(at)) = (&name.bound, &at.bound) else { return unknown("a draw") };
        let Some(t) = self.given.get(&format!("draw.{name}")) else { return unknown(format!("no draw {name}")) };
        let n: usize = axes.iter().map(|a| a.size).product();
        let batch = self.dims.borrow().get("B").map_or(1, |a| a.size);
        let steps = t.data.len() / n / batch;
        let from = (cx.sample * steps + at.real()? as usize) * n;
        Ok(Val::Arr(Array { axes, data: t.data[from..from + n].iter().map(|x| Num::Plain(*x)).collect() }))
    }

    /// Clipped to the range of the action.
    fn bounded(&self, _: &Cx<'a>, value: &Val<'a>) -> R<Val<'a>> {
        let Val::Range(lo, hi, _) = self.eval(&self.site(0), self.action.2)? else { return unknown("a range") };
        value.map(&|a: &Array| {
            a.map(|x| {
                if x.real() < lo {
                    Num::Plain(lo)
                } else if x.real() > hi {
                    Num::Plain(hi)
                } else {
                    x.clone()
                }
            })
        })
    }
}
