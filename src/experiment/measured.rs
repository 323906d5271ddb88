//! What one run showed: its log, and beside it `label.json` (what it is for) and `changes.json` (returns on changed tasks).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use runtime::records::{self, Line};
use runtime::run::Run;
use serde::{Deserialize, Serialize};

use super::file::Label;

const LABEL: &str = "label.json";
const CHANGES: &str = "changes.json";

/// The returns under a change of the task; `nominal` is the task as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) change: String,
    pub(crate) mean: f64,
    pub(crate) returns: Vec<f64>,
}

/// One run, as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Measured {
    /// The experiment's name for it, or the model's.
    pub(crate) method: String,
    pub(crate) task: String,
    pub(crate) seed: u64,
    pub(crate) steps: u64,
    /// Steps that the run is to have.
    pub(crate) of: u64,
    /// Evaluations: steps and mean returns.
    pub(crate) curve: Vec<(u64, f64)>,
    /// Of the last evaluation.
    #[serde(rename = "return")]
    pub(crate) gained: Option<f64>,
    pub(crate) auc: Option<f64>,
    /// The model's metrics at the last evaluation; of those along an index the mean.
    pub(crate) metrics: BTreeMap<String, f64>,
    /// `mse[3]` at each evaluation, and so on.
    pub(crate) metric_curves: BTreeMap<String, Vec<(u64, f64)>>,
    pub(crate) changes: Vec<Change>,
    /// Hours of training, over all resumptions, up to the last evaluation of each.
    pub(crate) hours: f64,
}

pub(crate) fn label(folder: &Path, label: &Label) -> Result<(), String> {
    put(&folder.join(LABEL), label)
}

pub(crate) fn write(folder: &Path, changes: Vec<Change>) -> Result<(), String> {
    put(&folder.join(CHANGES), &changes)
}

/// Whether all was measured that is asked for.
pub(crate) fn is_there(folder: &Path, ood: bool) -> bool {
    get::<Vec<Change>>(&folder.join(CHANGES)).is_some_and(|changes| !ood || !changes.is_empty())
}

pub(crate) fn label_of(folder: &Path) -> Option<Label> {
    get(&folder.join(LABEL))
}

fn put(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let json = serde_json::to_string_pretty(value).map_err(|e| fail(&e))?;
    let draft = path.with_extension("draft");
    fs::write(&draft, json + "\n").and_then(|()| fs::rename(&draft, path)).map_err(|e| fail(&e))
}

fn get<T: for<'d> Deserialize<'d>>(path: &Path) -> Option<T> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

impl Measured {
    pub(crate) fn read(folder: &Path) -> Result<Measured, runtime::Error> {
        let run = Run::open(folder)?;
        let lines = records::read(&run.folder)?;
        let mut measured = Measured {
            method: label_of(&run.folder).map_or_else(|| run.started.model.clone(), |label| label.method),
            task: run.started.task.clone(),
            seed: run.started.seed,
            steps: 0,
            of: run.config.train.steps,
            curve: Vec::new(),
            gained: None,
            auc: None,
            metrics: BTreeMap::new(),
            metric_curves: BTreeMap::new(),
            changes: get(&run.folder.join(CHANGES)).unwrap_or_default(),
            hours: 0.0,
        };
        let mut since = 0.0;
        for line in &lines {
            let Line::Evaluation { evaluation, mean, auc, seconds } = line else { continue };
            measured.steps = evaluation.step;
            measured.curve.push((evaluation.step, *mean));
            (measured.gained, measured.auc) = (Some(*mean), Some(*auc));
            measured.metrics.clear();
            for (name, numbers) in &evaluation.metrics {
                let mean = numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / numbers.len().max(1) as f64;
                measured.metrics.insert(name.clone(), mean);
                measured.metric_curves.entry(name.clone()).or_default().push((evaluation.step, mean));
            }
            // The clock starts anew with every resumption.
            measured.hours += if *seconds >= since { seconds - since } else { *seconds } / 3600.0;
            since = *seconds;
        }
        Ok(measured)
    }

    /// The return of the last evaluation up to a step.
    pub(crate) fn return_at(&self, step: u64) -> Option<f64> {
        self.curve.iter().rev().find(|(s, _)| *s <= step).map(|(_, x)| *x)
    }

    /// The return under each change as a part of the nominal one.
    pub(crate) fn retention(&self) -> Vec<(&str, f64)> {
        let Some(nominal) = self.changes.iter().find(|c| c.change == "nominal") else { return Vec::new() };
        let changed = self.changes.iter().filter(|c| c.change != "nominal");
        changed.map(|c| (c.change.as_str(), c.mean / nominal.mean)).collect()
    }
}
