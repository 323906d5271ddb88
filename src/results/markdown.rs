//! Results as a page of a repository: Markdown, with figures and numbers in a folder beside it.

use std::fmt::Write;
use std::path::Path;

use super::figures::{self, Figure};
use super::tables::{self, filled};
use super::{Results, diagnosis};
use crate::experiment::file::plain;

/// Where tables stand among what people have to say.
const HERE: &str = "<!-- tables -->";

/// The page at `place` and its figures, which go into the folder beside it, named after the page.
///
/// What people have to say is the `account.md` of the folder: what stands before its line `<!-- tables -->` comes first,
/// the rest behind the tables.
pub(crate) fn page(all: &[Results], place: &Path) -> (String, Vec<Figure>) {
    let folder = &place.with_extension("");
    let beside = folder.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut figures: Vec<Figure> = Vec::new();
    let mut text = "# Results\n\n".to_string();
    let account = std::fs::read_to_string(folder.join("account.md")).unwrap_or_default();
    let (first, last) = account.split_once(HERE).unwrap_or((&account, ""));
    text += &paragraph(first);
    for results in all {
        let _ = writeln!(text, "# Protocol `{}`\n", results.protocol);
        text += &part(results, folder, &beside, &mut figures);
    }
    text += &paragraph(last);
    text += "## Commands\n\nEach run by itself; `wmc experiment` starts them in turn.\n\n```sh\n";
    for (run, _) in all.iter().flat_map(|results| &results.runs) {
        let until = if run.steps() < run.of { format!(" --until {}", run.steps()) } else { String::new() };
        let of = if run.commits.is_empty() { String::new() } else { format!(", commit {}", run.commits.join(", ")) };
        let _ = writeln!(text, "{}{until}    # {}: {} of {} decisions{of}", run.command, run.method, run.steps(), run.of);
    }
    text += "```\n\n";
    let place = place.display();
    let kept = folder.join("results.json");
    let _ = writeln!(text, "`wmc report RUNS.. --markdown {place}` writes this page. To write it again from what it keeps:");
    let _ = writeln!(text, "`wmc report {} --markdown {place}`.", kept.display());
    (text, figures)
}

/// Lines of at most 100 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > 100 {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            *line += if line.is_empty() { "" } else { " " };
            *line += word;
        }
    }
    lines.join("\n") + "\n"
}

fn paragraph(text: &str) -> String {
    if text.trim().is_empty() { String::new() } else { format!("{}\n\n", text.trim()) }
}

/// Tables and figures of one protocol.
fn part(results: &Results, folder: &Path, beside: &str, all: &mut Vec<Figure>) -> String {
    let mut text = String::new();
    for found in tables::all(results) {
        let _ = write!(text, "## {}\n\n{}\n{}", found.title, wrapped(&found.note), table(&found.head, &found.rows));
    }
    for task in results.tasks() {
        let drawn = [Some(figures::learning(results, task)), figures::rollouts(results, task), figures::changes(results, task)];
        let _ = writeln!(text, "## {task}\n");
        for figure in drawn.into_iter().flatten().chain(figures::episodes(results, task, Some(folder))) {
            let _ = writeln!(text, "![{}]({beside}/{}.svg)\n\n{}\n", figure.name, figure.name, figure.caption);
            all.push(figure);
        }
    }
    for ((run, published), from) in results.runs.iter().zip(&results.folders) {
        let Some(found) = &run.diagnosis else { continue };
        let looks = diagnosis::shown(found, published.as_ref());
        if !looks.is_empty() {
            let _ = writeln!(text, "## Diagnosis: {}\n", diagnosis::title(run, found));
        }
        for shown in looks {
            let _ = writeln!(text, "### {}\n", shown.heading());
            if let [head, rows @ ..] = &shown.table()[..] {
                let _ = writeln!(text, "{}{}\n", table(head, rows), shown.note);
            }
            for (file, caption) in &shown.figures {
                let name = file.strip_suffix(".svg").unwrap_or(file);
                let kept = format!("{}-{}-{}-{}-{name}", plain(&run.method), plain(&run.task), plain(&run.protocol), run.seed);
                let svg = from.as_ref().map_or(folder.join(format!("{kept}.svg")), |f| f.join("diagnosis").join(file));
                let Ok(svg) = std::fs::read_to_string(svg) else { continue };
                let _ = writeln!(text, "![{name}]({beside}/{kept}.svg)\n\n{caption}\n");
                all.push(Figure { name: kept, caption: caption.to_string(), svg });
            }
        }
    }
    text
}

fn table(head: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    let (head, rows) = filled(head, rows);
    let line = |cells: &[&str]| format!("| {} |\n", cells.iter().map(|c| c.replace('|', "\\|")).collect::<Vec<_>>().join(" | "));
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    line(&head) + &rule + &rows.iter().map(|row| line(row)).collect::<String>() + "\n"
}
