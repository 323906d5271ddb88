//! The figures of a diagnosis.

use runtime::diagnose::{Expansion, Trace};

use super::embed::principal;
use super::energy::Coupling;
use super::stability::{self, TERMS};
use crate::figures::lines::{self, Axes, Curve, Point};
use crate::figures::points::{self, Cloud};
use crate::results::figures::Figure;

/// A number over time: a line for the mean over episodes, a band from the least to the most.
pub(crate) fn over_time(name: &str, what: &str, caption: &str, groups: &[(&str, Vec<Vec<f64>>)]) -> Figure {
    let curve = |(name, episodes): &(&str, Vec<Vec<f64>>)| {
        let over_time = |e: &Vec<f64>| e.iter().enumerate().map(|(t, h)| (t as f64, *h)).collect();
        Curve::band(name.to_string(), &episodes.iter().map(over_time).collect::<Vec<_>>())
    };
    let curves: Vec<Curve> = groups.iter().filter(|(_, e)| !e.is_empty()).map(curve).collect();
    let svg = lines::draw(Axes { x: "decisions", y: what }, &curves);
    Figure { name: name.into(), caption: caption.into(), svg }
}

/// The first coordinates of some values over time, of several episodes.
pub(crate) fn first_coordinates(traces: &[Trace], names: &[&str], caption: &str) -> Option<Figure> {
    let first = |trace: &Trace, name: &str| -> Option<Vec<f64>> {
        trace.values.get(name)?.iter().map(|x| x.first().map(|x| f64::from(*x))).collect()
    };
    let labels: Vec<(String, &str)> = names.iter().map(|name| (format!("{name}[0]"), *name)).collect();
    let groups: Vec<(&str, Vec<Vec<f64>>)> =
        labels.iter().map(|(label, name)| (label.as_str(), traces.iter().filter_map(|t| first(t, name)).collect())).collect();
    let there = groups.iter().any(|(_, e)| !e.is_empty());
    there.then(|| over_time("traces-free", "value", caption, &groups))
}

/// The sizes of the terms that a step changes the energy by, over time.
pub(crate) fn terms(name: &str, kind: &str, traces: &[Trace]) -> Option<Figure> {
    let all: Vec<[Vec<f64>; 5]> = traces.iter().filter_map(stability::terms).collect();
    let sizes = |i: usize| all.iter().map(|t| t[i].iter().map(|x| x.abs()).collect()).collect();
    let groups: Vec<(&str, Vec<Vec<f64>>)> = TERMS.iter().enumerate().map(|(i, term)| (*term, sizes(i))).collect();
    let caption = format!(
        "What one step of the model changes its energy by, {kind}: the sizes of the change itself, of the action's push, of the leak of the network's branch, \
         of the curvature, and of what is left. Means over episodes, bands from the least to the most."
    );
    (!all.is_empty()).then(|| over_time(&format!("stability-{name}"), "size", &caption, &groups))
}

/// How far steps pull states apart along an episode.
pub(crate) fn expansion(found: &[(&str, Expansion)]) -> Option<Figure> {
    let curve = |name: String, from: usize, numbers: &[f64]| {
        let point = |(t, x): (usize, &f64)| Point { at: (from + t) as f64, least: *x, mean: *x, most: *x };
        Curve { name, points: numbers.iter().enumerate().map(point).collect() }
    };
    let curves: Vec<Curve> = found
        .iter()
        .flat_map(|(kind, e)| {
            [curve(format!("{kind}: largest"), e.from, &e.largest), curve(format!("{kind}: along"), e.from, &e.along)]
        })
        .collect();
    (!curves.is_empty()).then(|| Figure {
        name: "expansion".into(),
        caption: "How far one step of the model pulls nearby states apart, along one episode: at most (the largest singular value of the step's derivative), and \
                  for a difference that is carried along. Below 1 it brings them together."
            .into(),
        svg: lines::draw(Axes { x: "decisions", y: "factor" }, &curves),
    })
}

/// The first coordinates of some values along one episode.
pub(crate) fn traces(trace: &Trace, names: &[&str]) -> Option<Figure> {
    let curve = |name: &&str| {
        let values = trace.values.get(*name)?;
        let point = |(t, x): (usize, &Vec<f32>)| {
            let x = f64::from(*x.first()?);
            Some(Point { at: t as f64, least: x, mean: x, most: x })
        };
        Some(Curve { name: format!("{name}[0]"), points: values.iter().enumerate().filter_map(point).collect() })
    };
    let curves: Vec<Curve> = names.iter().filter_map(curve).collect();
    (!curves.is_empty()).then(|| Figure {
        name: "traces".into(),
        caption: "The first coordinates along an episode of the policy.".into(),
        svg: lines::draw(Axes { x: "decisions", y: "value" }, &curves),
    })
}

/// Points of a group that are drawn at most; the components are those of all.
const DRAWN: usize = 500;

/// Principal components of the values of a name, over all steps of some groups of episodes.
pub(crate) fn embedding(name: &str, groups: &[(&str, &[Trace])]) -> Option<Figure> {
    let of = |traces: &[Trace]| traces.iter().filter_map(|t| t.values.get(name)).flatten().cloned().collect::<Vec<_>>();
    let counted: Vec<(&str, Vec<Vec<f32>>)> = groups.iter().map(|(label, traces)| (*label, of(traces))).collect();
    let all: Vec<Vec<f32>> = counted.iter().flat_map(|(_, points)| points.clone()).collect();
    if all.first().is_none_or(|p| p.len() < 2) {
        return None;
    }
    let (mut placed, parts) = principal(&all);
    let mut clouds = Vec::new();
    for (label, points) in &counted {
        let rest = placed.split_off(points.len());
        let every = placed.len().div_ceil(DRAWN).max(1);
        clouds.push(Cloud { name: label.to_string(), points: placed.into_iter().step_by(every).collect() });
        placed = rest;
    }
    Some(Figure {
        name: format!("embedding-{name}"),
        caption: format!(
            "Two principal components of {name}; they hold {:.0} % and {:.0} % of its variance.",
            100.0 * parts[0],
            100.0 * parts[1]
        ),
        svg: points::draw(&clouds),
    })
}

/// How often strong and weak pushes cross energy levels.
pub(crate) fn crossings(coupling: &Coupling) -> Option<Figure> {
    let curve = |name: &str, rate: fn(&super::energy::Crossing) -> f64| {
        let point = |c: &super::energy::Crossing| Point { at: c.threshold, least: rate(c), mean: rate(c), most: rate(c) };
        Curve { name: name.into(), points: coupling.crossings.iter().map(point).collect() }
    };
    (!coupling.crossings.is_empty()).then(|| Figure {
        name: "crossings".into(),
        caption: "Steps that change the energy by more than a threshold, the distance between contours: of those with strong pushes (from the median of their sizes on) and of those with weak ones.".into(),
        svg: lines::draw(
            Axes { x: "threshold", y: "part of the steps" },
            &[curve("strong pushes", |c| c.strong), curve("weak pushes", |c| c.weak)],
        ),
    })
}
