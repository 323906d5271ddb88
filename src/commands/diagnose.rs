//! `wmc diagnose`: the figures and numbers of a model's `diagnose { .. }`, for a trained model.

use std::collections::BTreeMap;

use runtime::Error;
use runtime::run::Run;
use runtime::train::Snapshot;
use serde::Serialize;

use crate::cli::Diagnose;
use crate::commands::report::draw;
use crate::commands::{help_for, newest, open_episodes};
use crate::diagnose::look;
use crate::diagnose::shown::Shown;
use crate::output::{Exit, Output};
use crate::results::figures::Figure;

#[derive(Debug, Serialize)]
struct Document {
    model: String,
    task: String,
    step: u64,
    /// What the model shows, in its order.
    shows: Vec<Shown>,
    /// Probes and things to show that there is nothing of, and why.
    left_out: BTreeMap<String, String>,
}

pub(crate) fn run(arguments: &Diagnose, out: &mut Output) -> Exit {
    let Some(run) = open_episodes(&arguments.of, out) else { return Exit::Bad };
    let Some((_, snapshot)) = newest(&run, out) else { return Exit::Bad };
    let (document, figures) = match diagnose(&run, &snapshot, arguments) {
        Ok(found) => found,
        Err(error) => {
            let help = match &error {
                Error::Unsupported(_) => "docs/guide/diagnose.md says what series, probes and forms are".into(),
                _ => help_for(&error, &run.sources),
            };
            out.error(&error.to_string(), &help);
            return Exit::Bad;
        }
    };
    // A record of texts and numbers always has a JSON form.
    let json = serde_json::to_string_pretty(&document).expect("a diagnosis as JSON") + "\n";
    let folder = arguments.out.clone().unwrap_or_else(|| run.folder.join("diagnosis"));
    let path = folder.join("diagnosis.json");
    let written = draw(&folder, &figures)
        .and_then(|()| std::fs::write(&path, &json).map_err(|e| format!("cannot write `{}`: {e}", path.display())));
    if let Err(error) = written {
        out.error(&error, "choose another folder with `--out`");
        return Exit::Bad;
    }
    out.say(if arguments.of.json { json } else { document.text() + &format!("{}\n", folder.display()) });
    Exit::Fine
}

fn diagnose(run: &Run, snapshot: &Snapshot, arguments: &Diagnose) -> Result<(Document, Vec<Figure>), Error> {
    let mut config = run.config.clone();
    config.seed = arguments.of.seed;
    let looked = look(&config, snapshot, arguments.of.episodes)?;
    let document = Document {
        model: run.identity.model.clone(),
        task: run.identity.task.clone(),
        step: snapshot.counters.step,
        shows: looked.shown,
        left_out: looked.left_out,
    };
    Ok((document, looked.figures))
}

impl Document {
    fn text(&self) -> String {
        let mut text = format!("{} on {} at step {}\n", self.model, self.task, self.step);
        for shown in &self.shows {
            let table = shown.table();
            if table.is_empty() {
                let files: Vec<&str> = shown.figures.iter().map(|(file, _)| file.as_str()).collect();
                text += &format!("\n{}: {}\n", shown.heading(), files.join(", "));
                continue;
            }
            text += &format!("\n{}\n", shown.heading());
            let widths: Vec<usize> =
                (0..table[0].len()).map(|i| table.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
            for row in &table {
                let cells = row.iter().zip(&widths).enumerate().map(|(i, (cell, width))| match i {
                    0 => format!("{cell:width$}"),
                    _ => format!("{cell:>width$}"),
                });
                text += &format!("  {}\n", cells.collect::<Vec<_>>().join("  "));
            }
        }
        if !self.left_out.is_empty() {
            text += "\nleft out\n";
        }
        for (name, why) in &self.left_out {
            text += &format!("  {name}: {why}\n");
        }
        text + "\n"
    }
}
