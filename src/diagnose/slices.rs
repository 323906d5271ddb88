//! Slices through a function: two coordinates vary, the others stay at their medians.

use runtime::Error;
use runtime::diagnose::measure::{deviation, quantile};
use runtime::diagnose::{Diagnostics, Trace};
use serde_json::json;

use super::forms::Asked;
use super::shown::Found;
use crate::figures::contours::{self, Field};
use crate::results::figures::Figure;

/// Points along each axis.
const POINTS: usize = 41;
/// Points of episodes that are drawn at most.
const DRAWN: usize = 500;
/// An axis goes from this quantile of the coordinate to that of the rest, and this part of it further on each side.
const TAIL: f64 = 0.02;
const MARGIN: f64 = 0.18;

/// One slice of the coordinates that move most among those with the same index in both arrays, and one of another index.
pub(super) fn slices(asked: &Asked<'_>, diagnostics: &mut Diagnostics) -> Result<Result<Found, String>, Error> {
    let over = asked.show.series("over");
    let state = diagnostics.state(over)?;
    let place = |name: &String| {
        let at = state.iter().position(|(n, _)| n == name)?;
        Some((state[..at].iter().map(|(_, size)| size).sum::<usize>(), state[at].1))
    };
    let [Some((x, width)), Some((y, height))] = [0, 1].map(|side| over.get(side).and_then(place)) else {
        return Ok(Err("the state does not have both arrays".into()));
    };
    let traces = &asked.along[0].traces;
    let points: Vec<Vec<f64>> = traces.iter().flat_map(|trace| states(trace, &state)).collect();
    if points.is_empty() {
        return Ok(Err("there are no states to draw it around".into()));
    }
    let moves = |(i, j): (usize, usize)| spread(&points, x + i) * spread(&points, y + j);
    let most = |pairs: Vec<(usize, usize)>| pairs.into_iter().max_by(|a, b| moves(*a).total_cmp(&moves(*b)));
    let same = most((0..width.min(height)).map(|i| (i, i)).collect());
    let other = most((0..width).flat_map(|i| (0..height).map(move |j| (i, j))).filter(|(i, j)| i != j).collect());
    let (mut figures, mut detail) = (Vec::new(), Vec::new());
    for (suffix, pair) in [("", same), ("-other", other)] {
        let Some((i, j)) = pair else { continue };
        let field = field(asked, diagnostics, &points, &state, (x + i, y + j), (i, j))?;
        let flow = if field.flow.is_some() { ", and lines of the flow" } else { "" };
        let colour = match asked.show.series("colour").first() {
            Some(name) => format!(" Points: these episodes, red where `{name}` is above zero, blue where it is below."),
            None => " Points: these episodes.".into(),
        };
        detail.push(json!({ "names": field.names, "across": field.across, "up": field.up, "columns": field.columns, "values": field.heights }));
        figures.push(Figure {
            name: format!("{}{suffix}", asked.show.name),
            caption: format!(
                "{} over {} and {}; the other coordinates at their medians, {}. White: contours{flow}.{colour}",
                asked.show.title(),
                field.names.0,
                field.names.1,
                asked.along[0].title
            ),
            svg: contours::draw(&field),
        });
    }
    let note = figures.first().map_or_else(String::new, |f| f.caption.clone());
    Ok(Ok(Found { columns: Vec::new(), rows: Vec::new(), note, detail: json!(detail), figures }))
}

/// The state at each decision that has it.
fn states(trace: &Trace, state: &[(String, usize)]) -> Vec<Vec<f64>> {
    let parts: Option<Vec<&Vec<Vec<f64>>>> = state.iter().map(|(name, _)| trace.values.get(name)).collect();
    let Some(parts) = parts else { return Vec::new() };
    let steps = parts.iter().map(|p| p.len()).min().unwrap_or(0);
    let whole = (0..steps).filter(|t| parts.iter().all(|p| !p[*t].is_empty()));
    whole.map(|t| parts.iter().flat_map(|p| p[t].iter().copied()).collect()).collect()
}

fn spread(points: &[Vec<f64>], at: usize) -> f64 {
    deviation(&points.iter().map(|p| p[at]).collect::<Vec<f64>>()).unwrap_or(0.0)
}

fn in_order(points: &[Vec<f64>], at: usize) -> Vec<f64> {
    let mut all: Vec<f64> = points.iter().map(|p| p[at]).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// What an axis goes from and to.
fn range(points: &[Vec<f64>], at: usize) -> (f64, f64) {
    let all = in_order(points, at);
    let (low, high) = (quantile(&all, TAIL).unwrap_or(0.0), quantile(&all, 1.0 - TAIL).unwrap_or(0.0));
    let margin = MARGIN * (high - low).max(1e-3);
    (low - margin, high + margin)
}

fn field(
    asked: &Asked<'_>,
    diagnostics: &mut Diagnostics,
    points: &[Vec<f64>],
    state: &[(String, usize)],
    (x, y): (usize, usize),
    (i, j): (usize, usize),
) -> Result<Field, Error> {
    let centre: Vec<f32> = (0..points[0].len()).map(|at| quantile(&in_order(points, at), 0.5).unwrap_or(0.0) as f32).collect();
    let (across, up) = (range(points, x), range(points, y));
    let along = |(low, high): (f64, f64), n: usize| low + (high - low) * n as f64 / (POINTS - 1) as f64;
    let grid: Vec<Vec<f32>> = (0..POINTS * POINTS)
        .map(|n| {
            let mut state = centre.clone();
            (state[x], state[y]) = (along(across, n % POINTS) as f32, along(up, n / POINTS) as f32);
            state
        })
        .collect();
    let parts: Vec<String> = state.iter().map(|(name, _)| name.clone()).collect();
    let flow = asked.show.series("flow");
    let names = [&[asked.one("series").to_string()], flow].concat();
    let found = diagnostics.at(&parts, &grid, &names)?;
    let heights = found[0].iter().filter_map(|x| x.first().copied()).collect();
    let flow = (flow.len() == 2).then(|| found[1].iter().zip(&found[2]).map(|(a, b)| (a[i], b[j])).collect());
    let over = asked.show.series("over");
    let colour = asked.show.series("colour").first();
    let mut shown = Vec::new();
    for trace in &asked.along[0].traces {
        let (Some(a), Some(b)) = (trace.values.get(&over[0]), trace.values.get(&over[1])) else { continue };
        let signs = colour.and_then(|name| trace.values.get(name));
        for (t, (a, b)) in a.iter().zip(b).enumerate() {
            let sign = signs.and_then(|s| s.get(t)?.first().copied()).unwrap_or(0.0);
            if let (Some(a), Some(b)) = (a.get(i), b.get(j)) {
                shown.push((*a, *b, sign));
            }
        }
    }
    let every = shown.len().div_ceil(DRAWN).max(1);
    let points = shown.into_iter().step_by(every).collect();
    let names = (format!("{}[{i}]", over[0]), format!("{}[{j}]", over[1]));
    Ok(Field { across, up, columns: POINTS, heights, flow, points, names })
}
