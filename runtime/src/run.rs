//! The folder of a run: the model's text, what it was started with, its log and its checkpoints.
//!
//! ```text
//! run.json            the run's identity with its fingerprint, and a list of its starts
//! model/              the `.wm` files, as they were
//! log.jsonl           episodes, losses, evaluations
//! events.out.tfevents.*
//! checkpoints/000000005000/
//! checkpoints/best    the name of the checkpoint with the highest return
//! ```

use std::fs::{self, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use dsl::source::Sources;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::checkpoint::{self, Manifest, sha256};
use crate::disk;
use crate::policy::Policy;
use crate::records::{LOG, Line, Log};
use crate::tasks::mujoco::described;
use crate::train::{Config, Snapshot};

/// The format that is written. Format 1 has neither a fingerprint nor starts.
const FORMAT: u64 = 2;
const RUN: &str = "run.json";

/// The identity of a run. Runs with the same identity compute the same numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The main file in `model/`.
    pub file: String,
    pub model: String,
    /// The fingerprint of the model's texts at these sizes, as checkpoints have it.
    #[serde(default)]
    pub text: String,
    pub task: String,
    /// The `tasks` block that it was started under; runs of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    pub dims: Vec<(String, u64)>,
    pub set: Vec<(String, String)>,
    pub seed: u64,
    /// The hash of the parameters that it started with, where they came from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

/// When and how a run was started or resumed. Nothing that is computed depends on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// UTC, as `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The version of wmc, and the commit that it was built from.
    pub version: String,
    pub commit: String,
    pub host: String,
    pub device: String,
    pub threads: usize,
    pub command: String,
}

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Record {
    format: u64,
    identity: Identity,
    /// Of the identity.
    fingerprint: String,
    starts: Vec<Start>,
}

/// The text of a model, with the files that it uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts {
    /// `hamworld.wm`.
    pub file: String,
    pub text: String,
    /// By the name that `use` says.
    pub imports: Vec<(String, String)>,
}

/// The locks of a run that is being trained.
#[derive(Debug)]
pub struct Held {
    _file: fs::File,
    _folder: Option<fs::File>,
}

#[derive(Debug)]
pub struct Run {
    pub folder: PathBuf,
    pub identity: Identity,
    pub starts: Vec<Start>,
    /// What tells this model from others.
    pub fingerprint: String,
    pub config: Config,
    pub sources: Sources,
    /// The checkpoint that the path named, instead of the newest.
    chosen: Option<PathBuf>,
}

/// What tells a model at its sizes from others: its texts, the ones that it uses in order of their names.
pub fn fingerprint(
    model: &str,
    task: &str,
    dims: &[(String, u64)],
    text: String,
    imports: impl Iterator<Item = String>,
) -> String {
    let mut parts = vec![model.to_string(), task.to_string(), format!("{dims:?}"), text];
    parts.extend(imports);
    sha256(parts.join("\0").as_bytes())
}

impl Identity {
    /// The name of the protocol. Runs that do not say used what is called `long` now.
    pub fn protocol(&self) -> &str {
        self.protocol.as_deref().unwrap_or("long")
    }

    pub fn new(file: &str, config: &Config, dims: Vec<(String, u64)>, set: Vec<(String, String)>) -> Identity {
        let (model, task) = (config.model.name.clone(), config.task.clone());
        let protocol = Some(config.protocol.clone());
        Identity { file: file.into(), model, text: String::new(), task, protocol, dims, set, seed: config.seed, from: None }
    }
}

/// The fingerprint of an identity as it is in the file, so that a later version may know more fields.
fn fingerprint_of(identity: &serde_json::Value) -> String {
    sha256(identity.to_string().as_bytes())
}

impl Record {
    fn parse(json: &str) -> Result<Record, String> {
        let value: serde_json::Value = serde_json::from_str(json).map_err(|e| format!("run.json: {e}"))?;
        match value["format"].as_u64() {
            Some(1) => {
                let fingerprint = fingerprint_of(&value);
                let identity: Identity = serde_json::from_value(value).map_err(|e| format!("run.json: {e}"))?;
                Ok(Record { format: FORMAT, identity, fingerprint, starts: Vec::new() })
            }
            Some(FORMAT) if value["fingerprint"].as_str() != Some(&fingerprint_of(&value["identity"])) => {
                Err("run.json was edited: its identity does not have its fingerprint".into())
            }
            Some(FORMAT) => serde_json::from_value(value).map_err(|e| format!("run.json: {e}")),
            format => {
                let format = format.map_or("unknown".into(), |f| f.to_string());
                let start = value["starts"].as_array().and_then(|all| all.last());
                let version = start.and_then(|start| start["version"].as_str()).unwrap_or("another version");
                Err(format!("wmc {version} wrote it: its format is {format}, and this program reads 1 to {FORMAT}"))
            }
        }
    }
}

/// Refuses a run folder with a link in it: reading or writing it could touch files elsewhere.
fn no_links(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(|e| Error::file(folder, e))? {
        let entry = entry.map_err(|e| Error::file(folder, e))?;
        disk::no_link(&entry.path())?;
        // The files of a checkpoint are looked at when it is read.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            no_links(&entry.path())?;
        }
    }
    Ok(())
}

impl Run {
    /// Makes the folder of a new run, which must not be there.
    pub fn create(folder: &Path, identity: &Identity, texts: &Texts) -> Result<Run, Error> {
        let model = folder.join("model");
        fs::create_dir_all(folder.join("checkpoints")).map_err(|e| Error::file(folder, e))?;
        fs::create_dir_all(&model).map_err(|e| Error::file(&model, e))?;
        disk::write_synced(&model.join(&texts.file), texts.text.as_bytes())?;
        for (name, text) in &texts.imports {
            disk::write_synced(&model.join(format!("{name}.wm")), text.as_bytes())?;
        }
        disk::sync_folder(&model)?;
        let mut run = Run::load(folder, identity.clone(), Vec::new())?;
        run.identity.text = run.fingerprint.clone();
        // Last, so that a folder with a run.json is whole.
        run.write()?;
        Ok(run)
    }

    /// Opens the folder of a run. `RUN/checkpoints/000000005000` and `RUN/checkpoints/best` choose a checkpoint.
    pub fn open(path: &Path) -> Result<Run, Error> {
        let no_run = |reason: String| Error::NoRun { path: path.to_path_buf(), reason };
        let is_run = |folder: &&Path| folder.join(RUN).is_file();
        let Some(folder) = path.ancestors().take(3).find(is_run) else {
            let told = "there is no run.json in it: another folder, or a run that was killed while it was created";
            return Err(no_run(if path.exists() { told.into() } else { "it is not there".into() }));
        };
        no_links(folder)?;
        let record = Record::parse(&disk::read_text(&folder.join(RUN))?).map_err(no_run)?;
        let mut run = Run::load(folder, record.identity, record.starts)?;
        if run.identity.text.is_empty() {
            run.identity.text = run.fingerprint.clone();
        }
        if path.ancestors().nth(2) == Some(folder) {
            run.chosen = Some(checkpoint::named(path)?);
        }
        Ok(run)
    }

    fn load(folder: &Path, identity: Identity, starts: Vec<Start>) -> Result<Run, Error> {
        let no_run = |reason: String| Error::NoRun { path: folder.to_path_buf(), reason };
        let is_name = matches!(Path::new(&identity.file).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
        if !is_name {
            return Err(no_run(format!("its model is `{}`, which is no name of a file in `model`", identity.file)));
        }
        let text = disk::read_text(&folder.join("model").join(&identity.file))?;
        let mut folders = dsl::folders::Folders::default();
        folders.add(&folder.join("model"), folder.join("model")).map_err(|e| Error::file(folder.join("model"), e))?;
        let (task, model) = (Some(identity.task.clone()), Some(identity.model.clone()));
        let mut options = dsl::Options { dims: identity.dims.clone(), task, protocol: identity.protocol.clone(), model };
        if Config::is_outside(&identity.task) {
            (options.task, options.protocol) = (None, None);
        }
        let mut checked = dsl::check(&identity.file, &text, &folders, &options);
        if checked.has_errors() {
            let first = checked.diagnostics.iter().find(|d| d.is_error()).map_or(String::new(), |d| d.message.clone());
            return Err(no_run(format!("its model has errors: {first}")));
        }
        if checked.models.is_empty() {
            return Err(no_run(format!("there is no model `{}` in it", identity.model)));
        }
        let mut others: Vec<String> = folders.into_imports().into_values().map(|import| import.text).collect();
        if let Some(path) = described::path(&identity.task) {
            others.extend(described::texts(&identity.task, path)?);
        }
        let fingerprint = fingerprint(&identity.model, &identity.task, &identity.dims, text, others.into_iter());
        let mut config = Config::new(checked.models.remove(0), &identity.task, identity.seed)?;
        for (name, value) in &identity.set {
            config.set(name, value)?;
        }
        let (folder, sources) = (folder.to_path_buf(), checked.sources);
        Ok(Run { folder, identity, starts, fingerprint, config, sources, chosen: None })
    }

    /// Writes a folder that opens like this run and has what acting needs alone: the model, the evaluations, and of a checkpoint the
    /// parameters, slow copies and running statistics. It names neither this machine nor its folders: `command` is what starts such a
    /// run. Gives how many numbers it keeps.
    pub fn export(&self, folder: &Path, manifest: &Manifest, snapshot: &Snapshot, command: &str) -> Result<usize, Error> {
        let model = folder.join("model");
        fs::create_dir_all(folder.join("checkpoints")).map_err(|e| Error::file(folder, e))?;
        fs::create_dir_all(&model).map_err(|e| Error::file(&model, e))?;
        let from = self.folder.join("model");
        for entry in fs::read_dir(&from).map_err(|e| Error::file(&from, e))? {
            let entry = entry.map_err(|e| Error::file(&from, e))?;
            disk::write_synced(&model.join(entry.file_name()), &disk::read(&entry.path())?)?;
        }
        let mut log = String::new();
        for line in self.log()?.0 {
            if let Line::Evaluation { evaluation, .. } = &line
                && evaluation.step <= manifest.counters.step
            {
                log += &(serde_json::to_string(&line).map_err(|e| Error::file(folder, e))? + "\n");
            }
        }
        disk::write_synced(&folder.join(LOG), log.as_bytes())?;
        let numbers = checkpoint::export(&folder.join("checkpoints"), manifest, snapshot, log.len() as u64)?;
        let start = |start: &Start| Start { host: String::new(), command: command.into(), ..start.clone() };
        // Last, so that a folder with a run.json is whole.
        Run::record(folder, &self.identity, &self.starts.iter().map(start).collect::<Vec<_>>())?;
        Ok(numbers)
    }

    fn write(&self) -> Result<(), Error> {
        Run::record(&self.folder, &self.identity, &self.starts)
    }

    fn record(folder: &Path, identity: &Identity, starts: &[Start]) -> Result<(), Error> {
        let path = folder.join(RUN);
        let fail = |e: serde_json::Error| Error::file(&path, e);
        let (identity, starts) = (identity.clone(), starts.to_vec());
        let fingerprint = fingerprint_of(&serde_json::to_value(&identity).map_err(fail)?);
        let record = Record { format: FORMAT, fingerprint, identity, starts };
        disk::replace(&path, (serde_json::to_string_pretty(&record).map_err(fail)? + "\n").as_bytes())
    }

    /// Notes a start, and settings that were changed with it.
    pub fn start(&mut self, start: Start, set: &[(String, String)]) -> Result<(), Error> {
        if self.identity.text != self.fingerprint {
            return Err(Error::damaged(
                self.folder.join("model"),
                "it was edited: it is another model than the one that was started",
            ));
        }
        self.identity.set.retain(|(name, _)| !set.iter().any(|(n, _)| n == name));
        self.identity.set.extend(set.iter().cloned());
        self.starts.push(start);
        self.write()
    }

    /// Nobody else trains this run until the result is dropped.
    ///
    /// Both the file `lock` and the folder itself are locked: the file works on shared disks, and the folder's lock holds
    /// when somebody deletes the file.
    pub fn hold(&self) -> Result<Held, Error> {
        let path = self.folder.join("lock");
        let file = disk::open(&path, OpenOptions::new().create(true).truncate(false).write(true))?;
        let folder = fs::File::open(&self.folder).ok();
        match (file.try_lock(), folder.as_ref().map(fs::File::try_lock)) {
            (Err(TryLockError::WouldBlock), _) | (_, Some(Err(TryLockError::WouldBlock))) => {
                Err(Error::Busy { path: self.folder.clone() })
            }
            // Some disks have no locks: then nobody is kept out.
            (Err(TryLockError::Error(e)), _) if e.kind() != ErrorKind::Unsupported => Err(Error::file(path, e)),
            _ => Ok(Held { _file: file, _folder: folder }),
        }
    }

    pub fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    /// The log, and a warning where it has lost lines.
    pub fn log(&self) -> Result<(Vec<Line>, Option<String>), Error> {
        let log = Log::read(&self.folder, checkpoint::reached(&self.checkpoints()).as_ref())?;
        let told = format!("{}: {} lines of its log were lost or edited", self.folder.display(), log.lost);
        Ok((log.lines, (log.lost > 0).then_some(told)))
    }

    /// The newest checkpoint that is whole, and why newer ones were not used.
    pub fn newest(&self) -> Result<(PathBuf, Manifest, Snapshot, Vec<String>), Error> {
        checkpoint::newest(&self.checkpoints(), &self.fingerprint)
    }

    /// Whether the path named a checkpoint.
    pub fn is_chosen(&self) -> bool {
        self.chosen.is_some()
    }

    /// The checkpoint that the path named, or the newest.
    pub fn chosen(&self) -> Result<(PathBuf, Manifest, Snapshot, Vec<String>), Error> {
        match &self.chosen {
            Some(place) => checkpoint::read(place, &self.fingerprint).map(|(m, s)| (place.clone(), m, s, Vec::new())),
            None => self.newest(),
        }
    }

    /// What was learnt, ready to act.
    pub fn policy(&self) -> Result<Policy, Error> {
        let (_, manifest, snapshot, _) = self.chosen()?;
        let progress = manifest.counters.step as f64 / self.config.train.steps as f64;
        Policy::new(&self.config.model, &snapshot.learnt, progress, self.config.seed, self.config.compute)
    }
}
