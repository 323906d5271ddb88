//! The measurements of one run: its log, `label.json` (its place in the experiment) and `tested.json` (returns on changed
//! tasks).

use std::collections::BTreeMap;
use std::path::Path;

use runtime::disk;
use runtime::records::Line;
use runtime::run::{Identity, Run};
use runtime::tasks::Perturbation;
use serde::{Deserialize, Serialize};

use super::file::Label;

const LABEL: &str = "label.json";
const TESTED: &str = "tested.json";
/// Moments of an episode.
pub(crate) const FRAMES: &str = "keyframes.svg";

/// The returns under a change of the task; `nominal` is the task as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) change: String,
    #[serde(with = "runtime::numbers")]
    pub(crate) mean: f64,
    #[serde(with = "runtime::numbers")]
    pub(crate) returns: Vec<f64>,
}

/// How a run did after so many steps on tasks that it was not trained on. An episode was drawn then, too.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Tested {
    pub(crate) step: u64,
    pub(crate) changes: Vec<Change>,
}

/// One evaluation of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) step: u64,
    /// The mean over its episodes.
    #[serde(rename = "return", with = "runtime::numbers")]
    pub(crate) gained: f64,
    /// The area under the curve so far.
    #[serde(with = "runtime::numbers")]
    pub(crate) auc: f64,
    /// Of training so far, over all resumptions; none where the log has lost it.
    pub(crate) hours: Option<f64>,
    /// The model's metrics; of those along an index the mean.
    #[serde(with = "runtime::numbers")]
    pub(crate) metrics: BTreeMap<String, f64>,
}

/// One run, as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The experiment's name for it, or the model's.
    pub(crate) method: String,
    /// The method that it is compared with at equal decisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) against: Option<String>,
    /// The builds that trained it.
    #[serde(default)]
    pub(crate) commits: Vec<String>,
    pub(crate) task: String,
    /// The protocol; runs kept before protocols had names used `long`.
    #[serde(default = "unnamed")]
    pub(crate) protocol: String,
    pub(crate) seed: u64,
    /// Steps that the run is to have.
    pub(crate) of: u64,
    pub(crate) evaluations: Vec<Seen>,
    pub(crate) tested: Tested,
    /// What `wmc diagnose` found.
    pub(crate) diagnosis: Option<serde_json::Value>,
    /// What starts the same run.
    pub(crate) command: String,
}

fn unnamed() -> String {
    "long".to_string()
}

/// Says what a run is for, once it has a folder. What other experiments that share it have published figures of is kept.
pub(crate) fn label(folder: &Path, label: &Label) -> Result<(), String> {
    if !folder.join("run.json").is_file() {
        return Ok(());
    }
    let others = label_of(folder).filter(|old| old.method == label.method).map(|old| old.published).unwrap_or_default();
    put(&folder.join(LABEL), &Label { published: label.published.clone().and(others), ..label.clone() })
}

/// Adds returns on changed tasks to those that are there, if these are of the same step.
pub(crate) fn add(folder: &Path, tested: Tested) -> Result<(), String> {
    let there: Option<Tested> = get(&folder.join(TESTED)).filter(|t: &Tested| t.step == tested.step);
    let mut all = there.unwrap_or(Tested { step: tested.step, changes: Vec::new() });
    for change in tested.changes {
        match all.changes.iter_mut().find(|c| c.change == change.change) {
            Some(place) => *place = change,
            None => all.changes.push(change),
        }
    }
    put(&folder.join(TESTED), &all)
}

/// Whether all was measured that is asked for, with so many episodes, and drawn, of what was learnt by this step or later.
pub(crate) fn is_there(folder: &Path, step: u64, task: &str, ood: &[String], episodes: u64) -> bool {
    let Some(found) = get(&folder.join(TESTED)).filter(|t: &Tested| t.step >= step) else { return false };
    let has = |name: &str| found.changes.iter().any(|c| c.change == name && c.returns.len() as u64 >= episodes);
    let there = |word: &String| match word.as_str() {
        "all" => has("nominal") && Perturbation::of_task(task).iter().all(|change| has(&change.to_string())),
        "nominal" => has("nominal"),
        word => Perturbation::parse(word).is_ok_and(|change| has(&change.to_string())),
    };
    folder.join(FRAMES).is_file() && ood.iter().all(there)
}

/// Whether `wmc diagnose` has looked at what was learnt by this step or later.
pub(crate) fn is_diagnosed(folder: &Path, step: u64) -> bool {
    diagnosis_of(folder).is_some_and(|found| found["step"].as_u64().is_some_and(|found| found >= step))
}

fn diagnosis_of(folder: &Path) -> Option<serde_json::Value> {
    get(&folder.join("diagnosis/diagnosis.json"))
}

pub(crate) fn label_of(folder: &Path) -> Option<Label> {
    get(&folder.join(LABEL))
}

fn put(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let json = serde_json::to_string_pretty(value).map_err(|e| fail(&e))?;
    disk::replace(path, (json + "\n").as_bytes()).map_err(|e| e.to_string())
}

fn get<T: for<'d> Deserialize<'d>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&disk::read(path).ok()?).ok()
}

/// `wmc train models/paper/sac.wm --task reacher_easy --seed 7 --set steps=20000`. `file` is where the model is in `models`.
pub(crate) fn command(identity: &Identity, file: Option<&str>) -> String {
    let file = file.unwrap_or(&identity.file);
    let mut words = format!("wmc train models/{file} --model {} --task {}", identity.model, identity.task);
    if let Some(protocol) = &identity.protocol {
        words += &format!(" --protocol {protocol}");
    }
    words += &format!(" --seed {}", identity.seed);
    for (name, size) in &identity.dims {
        words += &format!(" --dim {name}={size}");
    }
    for (name, value) in &identity.set {
        words += &format!(" --set {name}={value}");
    }
    words
}

impl Measured {
    /// A run and a warning where its log has lost lines.
    pub(crate) fn read(folder: &Path) -> Result<(Measured, Option<String>), runtime::Error> {
        let run = Run::open(folder)?;
        let (lines, warning) = run.log()?;
        let label = label_of(&run.folder);
        let mut measured = Measured {
            method: label.as_ref().map_or_else(|| run.identity.model.clone(), |label| label.method.clone()),
            against: label.as_ref().and_then(|label| label.against.clone()),
            commits: Vec::new(),
            task: run.identity.task.clone(),
            protocol: run.identity.protocol().to_string(),
            seed: run.identity.seed,
            of: run.config.train.steps,
            evaluations: Vec::new(),
            tested: get(&run.folder.join(TESTED)).unwrap_or_default(),
            diagnosis: diagnosis_of(&run.folder),
            command: command(&run.identity, label.and_then(|label| label.file).as_deref()),
        };
        for start in &run.starts {
            let commit: String = start.commit.chars().take(8).collect();
            if !measured.commits.contains(&commit) {
                measured.commits.push(commit);
            }
        }
        for line in &lines {
            let Line::Evaluation { evaluation, mean, auc, seconds } = line else { continue };
            let mean_of = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x)).sum::<f64>() / numbers.len().max(1) as f64;
            measured.evaluations.push(Seen {
                step: evaluation.step,
                gained: *mean,
                auc: *auc,
                hours: seconds.map(|s| s / 3600.0),
                metrics: evaluation.metrics.iter().map(|(name, numbers)| (name.clone(), mean_of(numbers))).collect(),
            });
        }
        Ok((measured, warning))
    }

    /// Whether it is the same run, perhaps at another time.
    pub(crate) fn is_same(&self, other: &Measured) -> bool {
        (&self.method, &self.task, &self.protocol, self.seed, &self.command)
            == (&other.method, &other.task, &other.protocol, other.seed, &other.command)
    }

    /// The last evaluation.
    pub(crate) fn last(&self) -> Option<&Seen> {
        self.evaluations.last()
    }

    /// The step of the last evaluation.
    pub(crate) fn steps(&self) -> u64 {
        self.last().map_or(0, |seen| seen.step)
    }

    /// The last evaluation up to a step.
    pub(crate) fn at(&self, step: u64) -> Option<&Seen> {
        self.evaluations.iter().rev().find(|seen| seen.step <= step)
    }

    /// Whether returns on changed tasks are of what was learnt by the evaluation at this step.
    pub(crate) fn was_tested_at(&self, step: u64) -> bool {
        self.at(self.tested.step).is_some_and(|seen| seen.step == step)
    }

    /// The return under each change as a part of the nominal one; none where that is nothing.
    pub(crate) fn retention(&self) -> Vec<(&str, f64)> {
        let changes = &self.tested.changes;
        let Some(nominal) = changes.iter().find(|c| c.change == "nominal" && c.mean != 0.0) else { return Vec::new() };
        let changed = changes.iter().filter(|c| c.change != "nominal");
        changed.map(|c| (c.change.as_str(), c.mean / nominal.mean)).collect()
    }
}
