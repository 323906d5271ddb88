//! The figures of a diagnosis.

use runtime::diagnose::Trace;
use runtime::diagnose::measure;

use super::embed::principal;
use super::forms::Asked;
use crate::figures::lines::{self, Axes, Curve, Point};
use crate::figures::points::{self, Cloud};
use crate::results::figures::Figure;

/// One entry of a series along each episode.
pub(super) fn episodes_of(traces: &[Trace], name: &str, entry: usize) -> Vec<Vec<f64>> {
    let along = |trace: &Trace| trace.values.get(name).map(|x| x.iter().filter_map(|x| x.get(entry).copied()).collect());
    traces.iter().filter_map(along).collect()
}

/// `q[0]`, or the name alone where the series is one number.
pub(super) fn label(traces: &[Trace], name: &str, entry: usize) -> String {
    let several = traces.iter().filter_map(|t| t.values.get(name)).flatten().any(|x| x.len() > 1);
    if several { format!("{name}[{entry}]") } else { name.to_string() }
}

/// The mean over episodes with a band of one standard deviation, at each decision that all of them have.
fn spread(name: &str, episodes: &[Vec<f64>]) -> Curve {
    let decisions = episodes.iter().map(Vec::len).min().unwrap_or(0);
    let point = |t: usize| {
        let values: Vec<f64> = episodes.iter().map(|e| e[t]).collect();
        let (mean, std) = (measure::mean(values.iter().copied())?, measure::deviation(&values)?);
        // What is not finite has no place on the axis.
        mean.is_finite().then_some(Point { at: t as f64, least: mean - std, mean, most: mean + std })
    };
    Curve { name: name.to_string(), points: (0..decisions).filter_map(point).collect() }
}

/// A curve without a band, whose first number is at `from`.
fn line(name: &str, from: usize, numbers: &[f64]) -> Curve {
    let point = |(t, x): (usize, &f64)| x.is_finite().then_some(Point { at: (from + t) as f64, least: *x, mean: *x, most: *x });
    Curve { name: name.to_string(), points: numbers.iter().enumerate().filter_map(point).collect() }
}

fn figure(asked: &Asked<'_>, suffix: &str, caption: &str, x: &str, curves: &[Curve]) -> Figure {
    Figure {
        name: format!("{}{suffix}", asked.show.name),
        caption: caption.to_string(),
        svg: lines::draw(Axes { x, y: asked.unit() }, curves),
    }
}

pub(super) fn bands(asked: &Asked<'_>, suffix: &str, caption: &str, groups: &[(String, Vec<Vec<f64>>)]) -> (Figure, Vec<Curve>) {
    let curves: Vec<Curve> = groups.iter().map(|(name, episodes)| spread(name, episodes)).collect();
    (figure(asked, suffix, caption, "decisions", &curves), curves)
}

pub(super) fn lines_of(asked: &Asked<'_>, caption: &str, series: &[(String, Vec<f64>)]) -> Figure {
    let curves: Vec<Curve> = series.iter().map(|(name, numbers)| line(name, 0, numbers)).collect();
    figure(asked, "", caption, "decisions", &curves)
}

pub(super) fn from_decisions(asked: &Asked<'_>, caption: &str, series: &[(String, usize, Vec<f64>)]) -> Figure {
    let curves: Vec<Curve> = series.iter().map(|(name, from, numbers)| line(name, *from, numbers)).collect();
    figure(asked, "", caption, "decisions", &curves)
}

pub(super) fn over_steps(asked: &Asked<'_>, caption: &str, series: &[(String, usize, Vec<f64>)]) -> Figure {
    let curves: Vec<Curve> = series.iter().map(|(name, from, numbers)| line(name, *from, numbers)).collect();
    figure(asked, "", caption, "steps of the prediction", &curves)
}

/// Rates over the quantiles of a threshold.
pub(super) fn rates(asked: &Asked<'_>, suffix: &str, caption: &str, at: &[f64], rates: &[(&str, &Vec<f64>)]) -> Figure {
    let curve = |(name, rate): &(&str, &Vec<f64>)| {
        let point = |(at, x): (&f64, &f64)| Point { at: *at, least: *x, mean: *x, most: *x };
        Curve { name: name.to_string(), points: at.iter().zip(rate.iter()).map(point).collect() }
    };
    let curves: Vec<Curve> = rates.iter().map(curve).collect();
    Figure {
        name: format!("{}{suffix}", asked.show.name),
        caption: caption.to_string(),
        svg: lines::draw(Axes { x: "quantile of the threshold", y: "share of the steps" }, &curves),
    }
}

/// Points of a group that are drawn at most; the components are those of all.
const DRAWN: usize = 500;

/// The first two principal components of a series over all decisions, and the shares of its variance that they hold.
pub(super) fn components(asked: &Asked<'_>, name: &str, groups: &[(&str, &[Trace])]) -> Option<(Figure, [f64; 2])> {
    let of = |traces: &[Trace]| {
        let values = traces.iter().filter_map(|t| t.values.get(name)).flatten().filter(|x| !x.is_empty());
        values.cloned().collect::<Vec<Vec<f64>>>()
    };
    let counted: Vec<(&str, Vec<Vec<f64>>)> = groups.iter().map(|(label, traces)| (*label, of(traces))).collect();
    let all: Vec<Vec<f64>> = counted.iter().flat_map(|(_, points)| points.clone()).collect();
    if all.first().is_none_or(|p| p.len() < 2) {
        return None;
    }
    let (mut placed, shares) = principal(&all);
    let mut clouds = Vec::new();
    for (label, points) in &counted {
        let rest = placed.split_off(points.len());
        let every = placed.len().div_ceil(DRAWN).max(1);
        clouds.push(Cloud { name: label.to_string(), points: placed.into_iter().step_by(every).collect() });
        placed = rest;
    }
    let caption = format!(
        "{}: two principal components of `{name}`; they hold {:.0} % and {:.0} % of its variance.",
        asked.show.title(),
        100.0 * shares[0],
        100.0 * shares[1]
    );
    Some((Figure { name: asked.show.name.clone(), caption, svg: points::draw(&clouds) }, shares))
}
