//! `wmc report`: what runs showed, as one page that needs nothing else.
//!
//! | file | subject |
//! |---|---|
//! | [`page`] | the page: tables and figures in their order |
//! | [`figures`] | the figures, which are also files of their own |
//! | [`kernels`] | the table of a model's kernels |

pub(crate) mod figures;
pub(crate) mod kernels;
pub(crate) mod page;

use std::path::{Path, PathBuf};

use runtime::run::Run;

use crate::experiment::file::Paper;
use crate::experiment::measured::{Measured, label_of};
use crate::experiment::summary::{self, Row};

/// All that a report is made of.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) runs: Vec<(Measured, Option<Paper>)>,
    pub(crate) rows: Vec<Row>,
    /// One run of each method, with its model.
    pub(crate) models: Vec<(String, Run)>,
}

impl Results {
    /// Of folders of runs, or of folders that have runs in them.
    pub(crate) fn read(folders: &[PathBuf]) -> Result<Results, runtime::Error> {
        let mut results = Results { runs: Vec::new(), rows: Vec::new(), models: Vec::new() };
        for folder in folders.iter().flat_map(|folder| runs_in(folder)) {
            let measured = Measured::read(&folder)?;
            if !results.models.iter().any(|(method, _)| *method == measured.method) {
                results.models.push((measured.method.clone(), Run::open(&folder)?));
            }
            results.runs.push((measured, label_of(&folder).map(|label| label.paper)));
        }
        results.rows = summary::rows(&results.runs);
        Ok(results)
    }

    /// Tasks in the order in which they come.
    pub(crate) fn tasks(&self) -> Vec<&str> {
        let mut tasks: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !tasks.contains(&row.task.as_str()) {
                tasks.push(&row.task);
            }
        }
        tasks
    }

    pub(crate) fn of_task(&self, task: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.task == task)
    }
}

/// The folder itself where it is a run, or else those in it that have a log.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    if folder.join("run.json").is_file() || !folder.is_dir() {
        return vec![folder.to_path_buf()];
    }
    let entries = std::fs::read_dir(folder).map(|all| all.flatten().map(|e| e.path()).collect::<Vec<_>>()).unwrap_or_default();
    let mut runs: Vec<PathBuf> =
        entries.into_iter().filter(|p| p.join("run.json").is_file() && p.join("log.jsonl").is_file()).collect();
    runs.sort();
    runs
}
