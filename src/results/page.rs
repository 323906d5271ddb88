//! The page of a report.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::figures::{self, Figure};
use super::{Results, Row};
use super::{energy, kernels};
use crate::experiment::file::Published;
use crate::experiment::summary::Figure as Number;
use crate::explain::count;
use crate::figures::escaped;

const PAGE: &str = include_str!("page.html");

/// The page, and its figures by themselves.
pub(crate) fn page(all: &[Results]) -> (String, Vec<Figure>) {
    let mut body = String::new();
    let mut figures = Vec::new();
    for results in all {
        let _ = writeln!(body, "<h2>Protocol: {}</h2>", escaped(&results.protocol));
        body += &part(results, &mut figures);
    }
    let mut methods: Vec<&str> = all.iter().flat_map(Results::methods).collect();
    methods.sort_unstable();
    methods.dedup();
    let runs: usize = all.iter().map(|results| results.runs.len()).sum();
    let title = format!("{runs} runs of {} methods", methods.len());
    (PAGE.replace("{{title}}", &escaped(&title)).replace("{{body}}", &body), figures)
}

/// Tables and figures of one protocol.
fn part(results: &Results, all: &mut Vec<Figure>) -> String {
    let mut body = String::new();
    let _ = write!(body, "<h2>Returns</h2>\n{}", returns(results));
    body += &areas(results).map_or_else(String::new, |rows| table(&AREAS, &rows));
    if let Some((head, rows)) = at_equal(results) {
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let _ = write!(body, "<h2>At equal decisions</h2>\n{}<p>{EQUAL}</p>\n", table(&head, &rows));
    }
    let errors = errors(results);
    if !errors.is_empty() {
        let _ = write!(body, "<h2>Imagined against real</h2>\n{errors}");
    }
    for task in results.tasks() {
        let _ = writeln!(body, "<h2>{}</h2>", escaped(task));
        let found = [Some(figures::learning(results, task)), figures::rollouts(results, task), figures::changes(results, task)];
        for figure in found.into_iter().flatten().chain(figures::episodes(results, task, None)) {
            let (svg, caption) = (&figure.svg, escaped(&figure.caption));
            let _ = writeln!(body, "<figure id=\"{}\">{svg}<figcaption>{caption}</figcaption></figure>", escaped(&figure.name));
            all.push(figure);
        }
        body += &changes(results, task);
    }
    body += &diagnoses(results);
    body += &models(results);
    body += &runs(results);
    body
}

/// A table of text cells.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let (head, rows) = filled(head, rows);
    let mut text = "<div class=\"wide\"><table><thead><tr>".to_string();
    head.iter().for_each(|cell| _ = write!(text, "<th>{}</th>", escaped(cell)));
    text += "</tr></thead><tbody>\n";
    for row in rows {
        text += "<tr>";
        row.iter().for_each(|cell| _ = write!(text, "<td>{}</td>", escaped(cell)));
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

pub(super) fn shown(number: Option<&Number>) -> String {
    number.map_or("–".into(), Number::to_string)
}

/// Leaves out columns without a single figure, such as published ones where an experiment names none.
pub(super) fn filled<'a>(head: &[&'a str], rows: &[Vec<String>]) -> (Vec<&'a str>, Vec<Vec<String>>) {
    let used: Vec<usize> =
        (0..head.len()).filter(|&column| rows.is_empty() || rows.iter().any(|row| row[column] != "–")).collect();
    let rows = rows.iter().map(|row| used.iter().map(|&column| row[column].clone()).collect()).collect();
    (used.iter().map(|&column| head[column]).collect(), rows)
}

pub(super) fn published(figure: Option<&Published>) -> String {
    figure.map_or("–".into(), Published::to_string)
}

fn returns(results: &Results) -> String {
    let row = |row: &Row| {
        vec![
            row.task.clone(),
            row.method.clone(),
            shown(row.gained.as_ref()),
            published(row.paper.returns.get(&row.task)),
            shown(row.auc.as_ref()),
            row.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
            row.steps.to_string(),
            shown(row.hours.as_ref()),
        ]
    };
    let rows: Vec<Vec<String>> = results.rows.iter().map(row).collect();
    let head = ["task", "method", "return", "paper", "area under the curve", "seeds", "decisions", "hours"];
    let note = "<p>Means over seeds with the standard deviation of the sample. The return is that of the last evaluation; where runs have come to different decisions there is a row for \
                each, with all runs that came that far. The area is the trapezoid of the evaluations' returns over decisions, divided by the decisions.</p>\n";
    table(&head, &rows) + note
}

pub(super) const AREAS: [&str; 5] =
    ["method", "tasks", "decisions", "area under the curve, mean over tasks", "paper, 100000 decisions on four tasks"];

/// The area under the curve of each method, averaged over tasks. Of several tasks only: else it says nothing new.
pub(super) fn areas(results: &Results) -> Option<Vec<Vec<String>>> {
    if results.tasks().len() < 2 {
        return None;
    }
    let row = |method: &&str| {
        // The longest runs on each task.
        let longest = |task: &&str| results.of_task(task).find(|row| row.method == **method);
        let own: Vec<&Row> = results.tasks().iter().filter_map(longest).collect();
        let paper = own.iter().find_map(|r| r.paper.auc.get("mean"));
        let mut lengths: Vec<u64> = own.iter().map(|r| r.steps).collect();
        lengths.sort_unstable();
        lengths.dedup();
        // Areas up to different decisions have no mean.
        let areas = own.iter().filter_map(|r| r.auc.map(|auc| auc.mean)).filter(|_| lengths.len() == 1);
        let mean = Number::of(areas).map(|n| format!("{:.1}", n.mean));
        let lengths = lengths.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        vec![method.to_string(), own.len().to_string(), lengths, mean.unwrap_or_else(|| "–".into()), published(paper)]
    };
    Some(results.methods().iter().map(row).collect())
}

pub(super) const EQUAL: &str = "Returns of the evaluation at those decisions, or the last one before them: means over all seeds that came that far, how many in brackets, with the standard deviation of the sample.";

/// Returns of all methods after the same decisions: those at which runs have ended. None where all have the same length: it would
/// say nothing new.
pub(super) fn at_equal(results: &Results) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let lengths: BTreeSet<u64> = results.rows.iter().map(|row| row.steps).collect();
    if lengths.len() < 2 {
        return None;
    }
    let head = ["task", "method"].map(String::from).into_iter().chain(lengths.iter().map(u64::to_string)).collect();
    let mut rows = Vec::new();
    for (task, method) in results.tasks().iter().flat_map(|task| results.methods().into_iter().map(move |m| (*task, m))) {
        let own = || results.runs.iter().map(|(run, _)| run).filter(|run| run.task == task && run.method == method);
        if own().all(|run| run.last().is_none()) {
            continue;
        }
        let cell = |at: &u64| {
            let found = own().filter(|run| run.steps() >= *at).filter_map(|run| Some(run.at(*at)?.gained));
            Number::of(found).map_or("–".into(), |figure| format!("{figure} ({})", figure.n))
        };
        rows.push([task, method].map(String::from).into_iter().chain(lengths.iter().map(cell)).collect());
    }
    Some((head, rows))
}

/// Of methods with metrics.
fn errors(results: &Results) -> String {
    let mut names: Vec<&String> = results.rows.iter().flat_map(|r| r.metrics.keys()).filter(|n| n.starts_with("mse")).collect();
    names.sort();
    names.dedup();
    let mut rows = Vec::new();
    for row in &results.rows {
        for name in names.iter().filter(|n| row.metrics.contains_key(**n)) {
            rows.push(vec![
                row.task.clone(),
                row.method.clone(),
                row.steps.to_string(),
                name.to_string(),
                shown(row.metrics.get(*name)),
                published(row.paper.metrics.get(*name).and_then(|tasks| tasks.get(&row.task))),
                shown(row.relative.get(*name)),
            ]);
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let note = "<p><code>mse[k]</code> is the squared error of the latent after k imagined steps, summed over its coordinates, each method in its own latent; divided by the variance \
                (also summed) it can be compared between methods. <code>mse6</code> is that of six steps for each coordinate.</p>\n";
    table(&["task", "method", "decisions", "metric", "error", "paper", "error / variance"], &rows) + note
}

fn changes(results: &Results, task: &str) -> String {
    let mut rows = Vec::new();
    for row in results.of_task(task) {
        for change in &row.changes {
            rows.push(vec![
                row.method.clone(),
                row.steps.to_string(),
                change.change.clone(),
                shown(change.gained.as_ref()),
                published(row.paper.ood.get(&change.change).and_then(|tasks| tasks.get(task))),
                shown(change.retention.as_ref()),
            ]);
        }
    }
    if rows.is_empty() { String::new() } else { table(&["method", "decisions", "change", "return", "paper", "retention"], &rows) }
}

/// What `wmc diagnose` has left in the folders of runs.
fn diagnoses(results: &Results) -> String {
    let mut text = String::new();
    for ((run, paper), folder) in results.runs.iter().zip(&results.folders) {
        let Some(found) = &run.diagnosis else { continue };
        let _ = writeln!(text, "<h2>Energy of {}</h2>", escaped(&energy::title(run, found)));
        for (head, rows) in energy::tables(found, paper.as_ref()) {
            text += &table(&head, &rows);
        }
        for (file, caption) in energy::figures(found) {
            let svg = folder.as_ref().and_then(|f| std::fs::read_to_string(f.join("diagnosis").join(file)).ok());
            if let Some(svg) = svg {
                let _ = writeln!(text, "<figure>{svg}<figcaption>{}</figcaption></figure>", escaped(caption));
            }
        }
    }
    text
}

/// Text and kernels of every model.
fn models(results: &Results) -> String {
    let mut text = "<h2>Models</h2>\n".to_string();
    for (method, run) in &results.models {
        let file = run.folder.join("model").join(&run.identity.file);
        let written = std::fs::read_to_string(file).unwrap_or_default();
        let rows: Vec<Vec<String>> = kernels::table(&run.config.model)
            .into_iter()
            .map(|r| vec![r.entry.into(), r.kernels.to_string(), r.launches.to_string(), count(r.flops).trim().to_string()])
            .collect();
        let title = format!("{method}: {} on {}", run.identity.file, run.identity.task);
        let _ = writeln!(text, "<details><summary>{}</summary>", escaped(&title));
        text += &table(&["entry point", "kernels", "launches", "flop"], &rows);
        let _ = writeln!(text, "<pre>{}</pre></details>", escaped(&written));
    }
    text
}

fn runs(results: &Results) -> String {
    let row = |(run, _): &(crate::experiment::measured::Measured, _)| {
        let number = |x: Option<f64>| x.map_or("–".into(), |x| format!("{x:.1}"));
        vec![
            run.method.clone(),
            run.task.clone(),
            run.seed.to_string(),
            format!("{} of {}", run.steps(), run.of),
            number(run.last().map(|seen| seen.gained)),
            number(run.last().map(|seen| seen.auc)),
            run.last().and_then(|seen| seen.hours).map_or("–".into(), |hours| format!("{hours:.2}")),
        ]
    };
    let rows: Vec<Vec<String>> = results.runs.iter().map(row).collect();
    format!("<h2>Runs</h2>\n{}", table(&["method", "task", "seed", "decisions", "return", "area", "hours"], &rows))
}
