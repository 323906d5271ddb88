//! `wmc runs`: a table of the runs in a folder.

use std::path::{Path, PathBuf};

use runtime::checkpoint;
use runtime::numbers::value as number;
use runtime::records::Line;
use runtime::run::Run;

use crate::cli::Runs;
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Runs, out: &mut Output) -> Exit {
    let folders = match folders(&arguments.folder) {
        Ok(folders) => folders,
        Err(error) => {
            let told = format!("cannot look into `{}`: {error}", arguments.folder.display());
            out.error(&told, "name the folder that the runs are in");
            return Exit::Bad;
        }
    };
    if folders.is_empty() && !arguments.json {
        out.say(format!("no runs in {}\n", arguments.folder.display()));
    }
    let mut rows = Vec::new();
    for folder in folders {
        match row(&folder) {
            Ok(row) if arguments.json => out.say(format!("{row}\n")),
            Ok(row) => rows.push(row),
            Err(error) => out.tell(format!("warning: {error}\n")),
        }
    }
    let columns = ["run", "model", "task", "protocol", "seed", "step", "of", "return", "auc"];
    let text = |row: &serde_json::Value, column: &str| match &row[column] {
        serde_json::Value::String(s) => s.clone(),
        serde_json::Value::Number(n) if n.is_f64() => format!("{:.1}", n.as_f64().unwrap_or(0.0)),
        serde_json::Value::Null => "-".into(),
        other => other.to_string(),
    };
    if !rows.is_empty() {
        let width = |c: &str| rows.iter().map(|r| text(r, c).len()).max().unwrap_or(0).max(c.len());
        let line = |cell: &dyn Fn(&str) -> String| {
            let cells: Vec<String> = columns.iter().map(|c| format!("{:w$}", cell(c), w = width(c))).collect();
            format!("{}\n", cells.join("  ").trim_end())
        };
        out.say(line(&|c| c.to_string()));
        for row in &rows {
            out.say(line(&|c| text(row, c)));
        }
    }
    Exit::Fine
}

/// Runs directly in a folder, in order of their names.
fn folders(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder)?.flatten().map(|e| e.path()).filter(|p| p.join("run.json").is_file()).collect();
    all.sort();
    Ok(all)
}

fn row(folder: &Path) -> Result<serde_json::Value, runtime::Error> {
    let run = Run::open(folder)?;
    let saved = checkpoint::list(&run.checkpoints()).pop().and_then(|p| p.file_name()?.to_str()?.parse::<u64>().ok());
    let (lines, _) = run.log()?;
    let last = lines.iter().rev().find_map(|line| match line {
        Line::Evaluation { mean, auc, .. } => Some((*mean, *auc)),
        Line::Episode { .. } | Line::Losses { .. } => None,
    });
    Ok(serde_json::json!({
        "run": folder.display().to_string(),
        "model": run.identity.model,
        "task": run.identity.task,
        "protocol": run.identity.protocol(),
        "seed": run.identity.seed,
        "step": saved.unwrap_or(0),
        "of": run.config.train.steps,
        "return": last.map(|(mean, _)| number(mean)),
        "auc": last.map(|(_, auc)| number(auc)),
    }))
}
