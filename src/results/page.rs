//! The page of a report.

use std::fmt::Write;

use super::figures::{self, Figure};
use super::tables::{self, filled};
use super::{Results, diagnosis, kernels};
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
    for found in tables::all(results) {
        let (title, note) = (escaped(&found.title), escaped(&found.note).replace('`', ""));
        let _ = write!(body, "<h2>{title}</h2>\n{}<p>{note}</p>\n", table(&found.head, &found.rows));
    }
    for task in results.tasks() {
        let _ = writeln!(body, "<h2>{}</h2>", escaped(task));
        let found = [Some(figures::learning(results, task)), figures::rollouts(results, task), figures::changes(results, task)];
        for figure in found.into_iter().flatten().chain(figures::episodes(results, task, None)) {
            let (svg, caption) = (&figure.svg, escaped(&figure.caption));
            let _ = writeln!(body, "<figure id=\"{}\">{svg}<figcaption>{caption}</figcaption></figure>", escaped(&figure.name));
            all.push(figure);
        }
    }
    body += &diagnoses(results);
    body += &models(results);
    body += &runs(results);
    body
}

/// A table of text cells. Names between backticks are shown without them.
fn table(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let (head, rows) = filled(head, rows);
    let shown = |cell: &str| escaped(&cell.replace('`', ""));
    let mut text = "<div class=\"wide\"><table><thead><tr>".to_string();
    head.iter().for_each(|cell| _ = write!(text, "<th>{}</th>", shown(cell)));
    text += "</tr></thead><tbody>\n";
    for row in rows {
        text += "<tr>";
        row.iter().for_each(|cell| _ = write!(text, "<td>{}</td>", shown(cell)));
        text += "</tr>\n";
    }
    text + "</tbody></table></div>\n"
}

/// What `wmc diagnose` has left in the folders of runs.
fn diagnoses(results: &Results) -> String {
    let mut text = String::new();
    for ((run, published), folder) in results.runs.iter().zip(&results.folders) {
        let Some(found) = &run.diagnosis else { continue };
        let all = diagnosis::shown(found, published.as_ref());
        if !all.is_empty() {
            let _ = writeln!(text, "<h2>Diagnosis of {}</h2>", escaped(&diagnosis::title(run, found)));
        }
        for shown in all {
            let _ = writeln!(text, "<h3>{}</h3>", escaped(&shown.heading()));
            if let [head, rows @ ..] = &shown.table()[..] {
                let _ = writeln!(text, "{}<p>{}</p>", table(head, rows), escaped(&shown.note));
            }
            for (file, caption) in &shown.figures {
                let svg = folder.as_ref().and_then(|f| std::fs::read_to_string(f.join("diagnosis").join(file)).ok());
                if let Some(svg) = svg {
                    let _ = writeln!(text, "<figure>{svg}<figcaption>{}</figcaption></figure>", escaped(caption));
                }
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
            run.commits.join(", "),
        ]
    };
    let rows: Vec<Vec<String>> = results.runs.iter().map(row).collect();
    format!("<h2>Runs</h2>\n{}", table(&["method", "task", "seed", "decisions", "return", "area", "hours", "commit"], &rows))
}
