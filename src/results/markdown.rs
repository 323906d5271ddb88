//! Results as a page of a repository: Markdown, with figures and numbers in a folder beside it.

use std::fmt::Write;
use std::path::Path;

use super::figures::{self, Figure};
use super::page::{AREAS, EQUAL, areas, at_equal, filled, published, shown};
use super::{Results, Row, energy};
use crate::experiment::file::plain;

/// Of a diagnosis, the figures that a repository keeps.
const KEPT: [&str; 9] = [
    "energy",
    "simulator",
    "energy-policy",
    "traces-free",
    "slice-conjugate",
    "slice-other",
    "crossings",
    "stability-free",
    "expansion",
];

/// The page and its figures. `folder` is where these go, by its name as the page says it, and where those of earlier reports are;
/// what people have to say about it all is its `account.md`.
pub(crate) fn page(all: &[Results], folder: &Path) -> (String, Vec<Figure>) {
    let beside = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut figures: Vec<Figure> = Vec::new();
    let mut text = "# Results\n\n".to_string();
    let _ = writeln!(
        text,
        "`wmc report RUNS.. --markdown docs/results.md` writes this page; from what it keeps it is written again by"
    );
    let _ = writeln!(
        text,
        "`wmc report docs/{beside}/results.json --markdown docs/results.md`. What the figures are: [experiments.md](experiments.md).\n"
    );
    if let Ok(account) = std::fs::read_to_string(folder.join("account.md")) {
        let _ = writeln!(text, "{}\n", account.trim());
    }
    for results in all {
        let _ = writeln!(text, "# Protocol `{}`\n", results.protocol);
        text += &part(results, folder, &beside, &mut figures);
    }
    text += "## Commands\n\nEach run by itself; `wmc experiment` starts them in turn.\n\n```sh\n";
    for (run, _) in all.iter().flat_map(|results| &results.runs) {
        let until = if run.steps() < run.of { format!(" --until {}", run.steps()) } else { String::new() };
        let _ = writeln!(text, "{}{until}    # {}: {} of {} decisions", run.command, run.method, run.steps(), run.of);
    }
    text += "```\n";
    (text, figures)
}

/// Tables and figures of one protocol.
fn part(results: &Results, folder: &Path, beside: &str, all: &mut Vec<Figure>) -> String {
    let mut text = String::new();
    text += &returns(results);
    if let Some((head, rows)) = at_equal(results) {
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let _ = write!(text, "## At equal decisions\n\n{EQUAL}\n\n{}", table(&head, &rows));
    }
    text += &errors(results);
    text += &changes(results);
    for task in results.tasks() {
        let drawn = [Some(figures::learning(results, task)), figures::rollouts(results, task), figures::changes(results, task)];
        let _ = writeln!(text, "## {task}\n");
        for figure in drawn.into_iter().flatten().chain(figures::episodes(results, task, Some(folder))) {
            let _ = writeln!(text, "![{}]({beside}/{}.svg)\n\n{}\n", figure.name, figure.name, figure.caption);
            all.push(figure);
        }
    }
    for ((run, paper), from) in results.runs.iter().zip(&results.folders) {
        let Some(found) = &run.diagnosis else { continue };
        let _ = writeln!(text, "## Energy: {}\n", energy::title(run, found));
        for (head, rows) in energy::tables(found, paper.as_ref()) {
            text += &table(&head, &rows);
        }
        for (file, caption) in energy::figures(found) {
            let Some(name) = file.strip_suffix(".svg").filter(|name| KEPT.contains(name)) else { continue };
            let kept = format!("{}-{}-{}-{}-{name}", plain(&run.method), plain(&run.task), plain(&run.protocol), run.seed);
            let svg = from.as_ref().map_or(folder.join(format!("{kept}.svg")), |f| f.join("diagnosis").join(file));
            let Ok(svg) = std::fs::read_to_string(svg) else { continue };
            let _ = writeln!(text, "![{name}]({beside}/{kept}.svg)\n\n{caption}\n");
            all.push(Figure { name: kept, caption: caption.to_string(), svg });
        }
    }
    text
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let (head, rows) = filled(head, rows);
    let line =
        |cells: &[String]| format!("| {} |\n", cells.iter().map(|c| c.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
    let head: Vec<String> = head.iter().map(|h| h.to_string()).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(&head) + &rule + &rows.iter().map(|r| line(r)).collect::<String>() + "\n"
}

fn returns(results: &Results) -> String {
    let row = |row: &Row| {
        vec![
            row.task.clone(),
            row.method.clone(),
            published(row.paper.returns.get(&row.task)),
            shown(row.gained.as_ref()),
            shown(row.auc.as_ref()),
            row.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
            row.steps.to_string(),
            shown(row.hours.as_ref()),
        ]
    };
    let head = ["task", "method", "paper", "ours", "area under the curve", "seeds", "decisions", "hours"];
    let note = "Returns of the last evaluation; means over seeds with the standard deviation of the sample. \
                Where runs have come to different decisions there is a row for each, with all runs that came that far. Hours are those of one run.\n\n";
    let areas = areas(results).map_or_else(String::new, |rows| table(&AREAS, &rows));
    format!("## Returns\n\n{note}{}{areas}", table(&head, &results.rows.iter().map(row).collect::<Vec<_>>()))
}

fn errors(results: &Results) -> String {
    let mut rows = Vec::new();
    for row in &results.rows {
        for name in row.metrics.keys().filter(|n| n.starts_with("mse")) {
            rows.push(vec![
                row.task.clone(),
                row.method.clone(),
                row.steps.to_string(),
                format!("`{name}`"),
                published(row.paper.metrics.get(name).and_then(|tasks| tasks.get(&row.task))),
                shown(row.metrics.get(name)),
                shown(row.relative.get(name)),
            ]);
        }
    }
    let head = ["task", "method", "decisions", "metric", "paper", "ours", "divided by the latent's variance"];
    if rows.is_empty() { String::new() } else { format!("## Imagined against real\n\n{}", table(&head, &rows)) }
}

fn changes(results: &Results) -> String {
    let mut rows = Vec::new();
    for row in &results.rows {
        for change in &row.changes {
            rows.push(vec![
                row.task.clone(),
                row.method.clone(),
                row.steps.to_string(),
                change.change.clone(),
                published(row.paper.ood.get(&change.change).and_then(|tasks| tasks.get(&row.task))),
                shown(change.gained.as_ref()),
                shown(change.retention.as_ref()),
            ]);
        }
    }
    let head = ["task", "method", "decisions", "change", "paper", "ours", "retention"];
    if rows.is_empty() { String::new() } else { format!("## Changed tasks\n\n{}", table(&head, &rows)) }
}
