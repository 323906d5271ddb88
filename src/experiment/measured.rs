//! What one run showed: its log, and beside it `label.json` (what it is for) and `changes.json` (returns on changed tasks).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use runtime::records::{self, Line};
use runtime::run::{Run, Started};
use runtime::tasks::Perturbation;
use serde::{Deserialize, Serialize};

use super::file::Label;

const LABEL: &str = "label.json";
const CHANGES: &str = "changes.json";
/// Moments of an episode.
pub(crate) const FRAMES: &str = "keyframes.svg";

/// The returns under a change of the task; `nominal` is the task as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) change: String,
    pub(crate) mean: f64,
    pub(crate) returns: Vec<f64>,
}

/// One run, as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// What `wmc diagnose` found.
    pub(crate) diagnosis: Option<serde_json::Value>,
    /// What starts the same run.
    pub(crate) command: String,
    /// Hours of training up to the last evaluation, over all resumptions.
    pub(crate) hours: f64,
}

/// Says what a run is for. What other experiments that share it have published figures of is kept.
pub(crate) fn label(folder: &Path, label: &Label) -> Result<(), String> {
    let others = label_of(folder).filter(|old| old.method == label.method).map(|old| old.paper).unwrap_or_default();
    put(&folder.join(LABEL), &Label { paper: label.paper.clone().and(others), ..label.clone() })
}

/// Adds returns on changed tasks to those that are there.
pub(crate) fn add(folder: &Path, changes: Vec<Change>) -> Result<(), String> {
    let mut all: Vec<Change> = get(&folder.join(CHANGES)).unwrap_or_default();
    for change in changes {
        match all.iter_mut().find(|c| c.change == change.change) {
            Some(place) => *place = change,
            None => all.push(change),
        }
    }
    put(&folder.join(CHANGES), &all)
}

/// Whether all was measured that is asked for, and drawn.
pub(crate) fn is_there(folder: &Path, task: &str, ood: &[String]) -> bool {
    let found: Vec<Change> = get(&folder.join(CHANGES)).unwrap_or_default();
    let has = |name: &str| found.iter().any(|c| c.change == name);
    let there = |word: &String| match word.as_str() {
        "all" => Perturbation::of_task(task).iter().all(|change| has(&change.to_string())),
        "nominal" => has("nominal"),
        word => Perturbation::parse(word).is_ok_and(|change| has(&change.to_string())),
    };
    folder.join(FRAMES).is_file() && ood.iter().all(there)
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

/// `wmc train models/sac.wm --task reacher_easy --seed 7 --set steps=20000`.
fn command(started: &Started) -> String {
    let mut words = format!("wmc train models/{} --model {} --task {}", started.file, started.model, started.task);
    words += &format!(" --seed {}", started.seed);
    for (name, size) in &started.dims {
        words += &format!(" --dim {name}={size}");
    }
    for (name, value) in &started.set {
        words += &format!(" --set {name}={value}");
    }
    words
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
            diagnosis: get(&run.folder.join("diagnosis/diagnosis.json")),
            command: command(&run.started),
            hours: 0.0,
        };
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
            measured.hours = seconds / 3600.0;
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
