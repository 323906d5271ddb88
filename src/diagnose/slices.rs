//! Slices through a model's energy: two coordinates run, the others stay where they are on average.

use runtime::Error;
use runtime::diagnose::{Diagnostics, Trace};

use super::single;
use crate::figures::contours::{self, Field};
use crate::results::figures::Figure;

/// Points along each axis.
const POINTS: usize = 33;
/// Points of episodes that are drawn at most.
const DRAWN: usize = 500;

/// A conjugate slice (q and p of one index) and one that is not, of the coordinates that move most along episodes of the policy. None
/// where the model has no `q`, `p` and `energy` that its state decides.
pub(crate) fn slices(diagnostics: &mut Diagnostics, traces: &[Trace]) -> Result<Vec<Figure>, Error> {
    let state = diagnostics.state();
    let place = |name: &str| {
        let at = state.iter().position(|(n, _)| n == name)?;
        Some((state[..at].iter().map(|(_, size)| size).sum::<usize>(), state[at].1))
    };
    let (Some((q, size)), Some((p, other))) = (place("q"), place("p")) else { return Ok(Vec::new()) };
    let points: Vec<Vec<f32>> = traces.iter().flat_map(|t| states(t, &state)).collect();
    if points.is_empty() || size != other {
        return Ok(Vec::new());
    }
    let mut order: Vec<usize> = (0..size).collect();
    let moves = |i: usize| spread(&points, q + i) * spread(&points, p + i);
    order.sort_by(|a, b| moves(*b).total_cmp(&moves(*a)));
    let mut found = Vec::new();
    let first = order[0];
    let pairs = std::iter::once((first, first)).chain(order.get(1).map(|second| (first, *second)));
    for (i, j) in pairs {
        let kind = if i == j { "conjugate" } else { "other" };
        if let Some(field) = field(diagnostics, traces, &points, (q + i, p + j), (i, j))? {
            let also = if i == j { "a conjugate pair" } else { "no conjugate pair" };
            let flow = if field.flow.is_some() { ", lines of the Hamiltonian flow" } else { "" };
            found.push(Figure {
                name: format!("slice-{kind}"),
                caption: format!(
                    "The energy over q[{i}] and p[{j}], {also}; the other coordinates at their means along episodes of the policy. White: its contours{flow}. \
                     Points: these episodes, red where the action's push raises the energy, blue where it lowers it."
                ),
                svg: contours::draw(&field),
            });
        }
    }
    Ok(found)
}

/// The state at each decision.
fn states(trace: &Trace, state: &[(String, usize)]) -> Vec<Vec<f32>> {
    let parts: Option<Vec<&Vec<Vec<f32>>>> = state.iter().map(|(name, _)| trace.values.get(name)).collect();
    let Some(parts) = parts else { return Vec::new() };
    let steps = parts.iter().map(|p| p.len()).min().unwrap_or(0);
    (0..steps).map(|t| parts.iter().flat_map(|p| p[t].iter().copied()).collect()).collect()
}

fn mean(points: &[Vec<f32>], at: usize) -> f64 {
    points.iter().map(|p| f64::from(p[at])).sum::<f64>() / points.len() as f64
}

fn spread(points: &[Vec<f32>], at: usize) -> f64 {
    let mean = mean(points, at);
    (points.iter().map(|p| (f64::from(p[at]) - mean).powi(2)).sum::<f64>() / points.len() as f64).sqrt()
}

/// What points go from and to, with a margin.
fn range(points: &[Vec<f32>], at: usize) -> (f64, f64) {
    let (low, high) = points.iter().fold((f64::MAX, f64::MIN), |(a, b), p| (a.min(f64::from(p[at])), b.max(f64::from(p[at]))));
    let margin = 0.1 * (high - low).max(1e-3);
    (low - margin, high + margin)
}

fn field(
    diagnostics: &mut Diagnostics,
    traces: &[Trace],
    points: &[Vec<f32>],
    (x, y): (usize, usize),
    (i, j): (usize, usize),
) -> Result<Option<Field>, Error> {
    let centre: Vec<f32> = (0..points[0].len()).map(|at| mean(points, at) as f32).collect();
    let (across, up) = (range(points, x), range(points, y));
    let along = |(low, high): (f64, f64), n: usize| low + (high - low) * n as f64 / (POINTS - 1) as f64;
    let grid: Vec<Vec<f32>> = (0..POINTS * POINTS)
        .map(|n| {
            let mut state = centre.clone();
            (state[x], state[y]) = (along(across, n % POINTS) as f32, along(up, n / POINTS) as f32);
            state
        })
        .collect();
    let Some(energies) = diagnostics.at(&grid, &["energy"])? else { return Ok(None) };
    let heights: Option<Vec<f64>> = energies[0].iter().map(|e| if let [e] = e[..] { Some(f64::from(e)) } else { None }).collect();
    let Some(heights) = heights else { return Ok(None) };
    let flow = diagnostics.at(&grid, &["flow_q", "flow_p"])?.map(|flows| {
        let pair = |(q, p): (&Vec<f32>, &Vec<f32>)| (f64::from(q[i]), f64::from(p[j]));
        flows[0].iter().zip(&flows[1]).map(pair).collect()
    });
    let mut shown = Vec::new();
    for trace in traces {
        let (Some(q), Some(p)) = (trace.values.get("q"), trace.values.get("p")) else { continue };
        let push = single(trace, "push").unwrap_or_else(|| vec![0.0; q.len()]);
        shown.extend(q.iter().zip(p).zip(push).map(|((q, p), push)| (f64::from(q[i]), f64::from(p[j]), push)));
    }
    let every = shown.len().div_ceil(DRAWN).max(1);
    let points = shown.into_iter().step_by(every).collect();
    Ok(Some(Field { across, up, columns: POINTS, heights, flow, points, names: (format!("q[{i}]"), format!("p[{j}]")) }))
}
