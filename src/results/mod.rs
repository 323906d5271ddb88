//! `wmc report`: the results of runs, as one page without external resources.
//!
//! | file | subject |
//! |---|---|
//! | [`tables`] | the tables, as cells |
//! | [`page`] | the page: tables and figures in their order |
//! | [`figures`] | the figures, which are also files of their own |
//! | [`diagnosis`] | what was found by a diagnosis |
//! | [`markdown`] | the same tables as Markdown, for a repository |
//! | [`kernels`] | the table of a model's kernels |

pub(crate) mod diagnosis;
pub(crate) mod figures;
pub(crate) mod kernels;
pub(crate) mod markdown;
pub(crate) mod page;
pub(crate) mod tables;

use std::path::{Path, PathBuf};

use runtime::Error;
use runtime::run::Run;
use serde::{Deserialize, Serialize};

use crate::experiment::measured::{Measured, label_of};
use crate::experiment::published::Published;
use crate::experiment::summary::{self, Row};
use crate::figures::Pen;

/// What runs of one protocol showed. Figures under different protocols cannot be compared, so a report has one of these for
/// each, and no table or figure has runs of two.
#[derive(Debug, Default)]
pub(crate) struct Results {
    pub(crate) protocol: String,
    pub(crate) runs: Vec<(Measured, Option<Published>)>,
    /// Where each run is; none for those that are known by what was kept of them.
    pub(crate) folders: Vec<Option<PathBuf>>,
    pub(crate) rows: Vec<Row>,
    /// One run of each method, with its model.
    pub(crate) models: Vec<(String, Run)>,
    pub(crate) warnings: Vec<String>,
}

/// What is kept of a run: enough for all tables and curves.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    measured: Measured,
    published: Option<Published>,
}

impl Results {
    /// Reads folders of runs, folders that have runs in them, or a file that [`Results::kept`] was written to, by protocol. A run that comes
    /// twice, by what was kept of it and by its folder, counts once: as it came furthest.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Results>, Error> {
        let mut all: Vec<Results> = Vec::new();
        for path in paths {
            if path.extension().is_some_and(|e| e == "json") {
                let fail = |reason: String| Error::File { path: path.clone(), reason };
                let text = std::fs::read_to_string(path).map_err(|e| fail(e.to_string()))?;
                let kept: Vec<Kept> = serde_json::from_str(&text).map_err(|e| fail(e.to_string()))?;
                kept.into_iter().for_each(|k| under(&mut all, &k.measured.protocol).add(k.measured, k.published, None));
                continue;
            }
            for folder in runs_in(path) {
                let (measured, warning) = Measured::read(&folder)?;
                let results = under(&mut all, &measured.protocol);
                results.warnings.extend(warning);
                if !results.models.iter().any(|(method, _)| *method == measured.method) {
                    results.models.push((measured.method.clone(), Run::open(&folder)?));
                }
                results.add(measured, label_of(&folder).map(|label| label.published), Some(folder));
            }
        }
        all.iter_mut().for_each(|results| results.rows = summary::rows(&results.runs));
        Ok(all)
    }

    fn add(&mut self, measured: Measured, published: Option<Published>, folder: Option<PathBuf>) {
        let same = |(known, _): &(Measured, _)| known.is_same(&measured);
        match self.runs.iter().position(same) {
            Some(known) if self.runs[known].0.steps() > measured.steps() => {}
            Some(known) => {
                self.runs[known] = (measured, published);
                self.folders[known] = folder;
            }
            None => {
                self.runs.push((measured, published));
                self.folders.push(folder);
            }
        }
    }

    /// What is needed to write the same tables again, as JSON.
    pub(crate) fn kept(all: &[Results]) -> String {
        let runs = all.iter().flat_map(|results| &results.runs);
        let kept: Vec<Kept> =
            runs.map(|(measured, published)| Kept { measured: measured.clone(), published: published.clone() }).collect();
        // A record of texts and numbers always has a JSON form.
        serde_json::to_string_pretty(&kept).expect("results as JSON") + "\n"
    }

    /// Methods in the order in which they come.
    pub(crate) fn methods(&self) -> Vec<&str> {
        let mut methods: Vec<&str> = Vec::new();
        for (run, _) in &self.runs {
            if !methods.contains(&run.method.as_str()) {
                methods.push(&run.method);
            }
        }
        methods
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

    /// What a row is called beside others of its task: its method, with the decisions where there are several of that.
    pub(crate) fn name(&self, row: &Row) -> String {
        let several = self.of_task(&row.task).filter(|other| other.method == row.method).count() > 1;
        if several { format!("{} at {}", row.method, row.steps) } else { row.method.clone() }
    }

    /// A method has one colour in all figures; where it is there several times, the one that came furthest comes first.
    pub(crate) fn pen(&self, row: &Row) -> Pen {
        let number = self.methods().iter().position(|method| *method == row.method).unwrap_or(0);
        let further = |other: &Row| other.method == row.method && other.steps > row.steps;
        Pen::new(number, self.of_task(&row.task).any(further))
    }
}

/// The results of a protocol, which is added where it is new.
fn under<'r>(all: &'r mut Vec<Results>, protocol: &str) -> &'r mut Results {
    let place = all.iter().position(|results| results.protocol == protocol).unwrap_or_else(|| {
        all.push(Results { protocol: protocol.to_string(), ..Results::default() });
        all.len() - 1
    });
    &mut all[place]
}

/// The folder itself where it is a run, or else those in it.
fn runs_in(folder: &Path) -> Vec<PathBuf> {
    if folder.join("run.json").is_file() || !folder.is_dir() {
        return vec![folder.to_path_buf()];
    }
    let entries = std::fs::read_dir(folder).map(|all| all.flatten().map(|e| e.path()).collect::<Vec<_>>()).unwrap_or_default();
    let mut runs: Vec<PathBuf> = entries.into_iter().filter(|p| p.join("run.json").is_file()).collect();
    runs.sort();
    runs
}
