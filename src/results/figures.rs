//! The figures of a report.

use std::path::Path;

use super::Results;
use crate::experiment::file::plain;
use crate::experiment::measured::{FRAMES, Measured};
use crate::experiment::summary::Row;
use crate::figures::Pen;
use crate::figures::bars::{self, Group};
use crate::figures::lines::{self, Axes, Curve, LEARNING, Point};

/// A drawing with a name that is also its file's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) caption: String,
    pub(crate) svg: String,
}

/// The learning curves of a task.
pub(crate) fn learning(results: &Results, task: &str) -> Figure {
    let curve = |row: &Row| {
        let own = |run: &Measured| run.task == task && run.method == row.method && run.steps() >= row.steps;
        let points = |run: &Measured| run.evaluations.iter().map(|seen| (seen.step as f64, seen.gained)).collect();
        let runs = results.runs.iter().filter(|(run, _)| own(run));
        Curve::of(results.name(row), &runs.map(|(run, _)| points(run)).collect::<Vec<_>>())
    };
    let curves: Vec<Curve> = results.of_task(task).map(curve).collect();
    let pens: Vec<Pen> = results.of_task(task).map(|row| results.pen(row)).collect();
    Figure {
        name: format!("learning-{task}-{}", plain(&results.protocol)),
        caption: "Evaluation return over decisions: the mean over seeds, and a band from the least to the most.".into(),
        svg: lines::draw_with(LEARNING, &curves, &pens),
    }
}

/// How errors grow along imagined steps; none where no method has them.
pub(crate) fn rollouts(results: &Results, task: &str) -> Option<Figure> {
    let curve = |row: &Row| {
        let mut points: Vec<Point> = row.relative.iter().filter_map(|(name, figure)| point(name, figure)).collect();
        points.sort_by(|a, b| a.at.total_cmp(&b.at));
        (!points.is_empty()).then(|| (Curve { name: results.name(row), points }, results.pen(row)))
    };
    let (curves, pens): (Vec<Curve>, Vec<Pen>) = results.of_task(task).filter_map(curve).unzip();
    (!curves.is_empty()).then(|| Figure {
        name: format!("rollouts-{task}-{}", plain(&results.protocol)),
        caption: "Error of imagined latents after k steps, divided by the latent's variance; bands of one deviation over seeds."
            .into(),
        svg: lines::draw_with(Axes { x: "imagined steps k", y: "error / variance" }, &curves, &pens),
    })
}

/// `mse[3]` is a point at 3.
fn point(name: &str, figure: &crate::experiment::summary::Figure) -> Option<Point> {
    let at: f64 = name.strip_prefix("mse[")?.strip_suffix(']')?.parse().ok()?;
    let std = figure.std.unwrap_or(0.0);
    Some(Point { at, least: figure.mean - std, mean: figure.mean, most: figure.mean + std })
}

/// Returns on changed tasks; none where nothing was changed.
pub(crate) fn changes(results: &Results, task: &str) -> Option<Figure> {
    let rows: Vec<&Row> = results.of_task(task).filter(|row| !row.changes.is_empty()).collect();
    let mut changes: Vec<&str> = Vec::new();
    for change in rows.iter().flat_map(|r| &r.changes) {
        if !changes.contains(&change.change.as_str()) {
            changes.push(&change.change);
        }
    }
    if changes.is_empty() {
        return None;
    }
    let height = |row: &&Row, change: &str| {
        let figure = row.changes.iter().find(|c| c.change == change)?.gained?;
        Some((figure.mean, figure.std.unwrap_or(0.0)))
    };
    let group = |change: &&str| Group { name: change.to_string(), bars: rows.iter().map(|row| height(row, change)).collect() };
    let names: Vec<(String, Pen)> = rows.iter().map(|row| (results.name(row), results.pen(row))).collect();
    Some(Figure {
        name: format!("changes-{task}-{}", plain(&results.protocol)),
        caption: "Return without further training on the task as it is and as it was changed; lines of one deviation over seeds."
            .into(),
        svg: bars::draw(&names, &changes.iter().map(group).collect::<Vec<_>>()),
    })
}

/// Moments of an episode of each method, of the seed with the highest return. Where the run itself is not there, as drawn before in
/// a folder of figures.
pub(crate) fn episodes(results: &Results, task: &str, kept: Option<&Path>) -> Vec<Figure> {
    let mut found = Vec::new();
    for method in results.methods() {
        let own = results.runs.iter().zip(&results.folders).filter(|((r, _), _)| r.task == task && r.method == method);
        let gained = |run: &Measured| run.last().map_or(f64::MIN, |seen| seen.gained);
        let best = own.max_by(|((a, _), _), ((b, _), _)| gained(a).total_cmp(&gained(b)));
        let Some(((run, _), folder)) = best else { continue };
        let name = format!("episode-{}-{task}-{}", plain(method), plain(&results.protocol));
        let drawn = folder.as_ref().map(|f| f.join(FRAMES)).or_else(|| Some(kept?.join(format!("{name}.svg"))));
        let Some(svg) = drawn.and_then(|path| std::fs::read_to_string(path).ok()) else { continue };
        found.push(Figure {
            name,
            caption: format!("An episode of {method}, seed {}: decisions, and the return so far.", run.seed),
            svg,
        });
    }
    found
}
