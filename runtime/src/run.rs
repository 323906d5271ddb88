//! The folder of a run: the model's text, what it was started with, its log and its checkpoints.
//!
//! ```text
//! run.json            what was started: task, sizes, settings, seed
//! model/              the `.wm` files, as they were
//! log.jsonl           episodes, losses, evaluations
//! events.out.tfevents.*
//! checkpoints/000000005000/
//! ```

use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use dsl::source::Sources;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::checkpoint::{self, Manifest, sha256};
use crate::policy::Policy;
use crate::tasks::mujoco::described;
use crate::train::{Config, Snapshot};

const FORMAT: u32 = 1;

/// What a run was started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub format: u32,
    /// The main file in `model/`.
    pub file: String,
    pub model: String,
    pub task: String,
    /// The `tasks` block that it was started under; runs of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    pub dims: Vec<(String, u64)>,
    pub set: Vec<(String, String)>,
    pub seed: u64,
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

#[derive(Debug)]
pub struct Run {
    pub folder: PathBuf,
    pub started: Started,
    /// What tells this model from others.
    pub fingerprint: String,
    pub config: Config,
    pub sources: Sources,
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

impl Started {
    /// The name of the protocol. Runs that do not say used what is called `long` now.
    pub fn protocol(&self) -> &str {
        self.protocol.as_deref().unwrap_or("long")
    }

    pub fn new(file: &str, config: &Config, dims: Vec<(String, u64)>, set: Vec<(String, String)>) -> Started {
        let (model, task) = (config.model.name.clone(), config.task.clone());
        let protocol = Some(config.protocol.clone());
        Started { format: FORMAT, file: file.into(), model, task, protocol, dims, set, seed: config.seed }
    }
}

impl Run {
    /// Makes the folder of a new run, which must not be there.
    pub fn create(folder: &Path, started: &Started, texts: &Texts) -> Result<Run, Error> {
        let model = folder.join("model");
        fs::create_dir_all(folder.join("checkpoints")).map_err(|e| Error::file(folder, e))?;
        fs::create_dir_all(&model).map_err(|e| Error::file(&model, e))?;
        let put = |path: PathBuf, text: &str| fs::write(&path, text).map_err(|e| Error::file(path, e));
        put(model.join(&texts.file), &texts.text)?;
        for (name, text) in &texts.imports {
            put(model.join(format!("{name}.wm")), text)?;
        }
        let json = serde_json::to_string_pretty(started).map_err(|e| Error::file(folder, e))?;
        put(folder.join("run.json"), &(json + "\n"))?;
        Run::open(folder)
    }

    /// Opens the folder of a run; a checkpoint's own folder will do.
    pub fn open(path: &Path) -> Result<Run, Error> {
        let no_run = |reason: String| Error::NoRun { path: path.to_path_buf(), reason };
        let is_run = |folder: &&Path| folder.join("run.json").is_file();
        let Some(folder) = path.ancestors().take(3).find(is_run) else {
            return Err(no_run(if path.exists() { "there is no run.json in it".into() } else { "it is not there".into() }));
        };
        let json = fs::read_to_string(folder.join("run.json")).map_err(|e| Error::file(folder.join("run.json"), e))?;
        let started: Started = serde_json::from_str(&json).map_err(|e| no_run(format!("run.json: {e}")))?;
        if started.format != FORMAT {
            return Err(no_run(format!("its format is {}, and this program reads {FORMAT}", started.format)));
        }
        let file = folder.join("model").join(&started.file);
        let text = fs::read_to_string(&file).map_err(|e| Error::file(&file, e))?;
        let mut folders = dsl::folders::Folders::default();
        folders.add(&folder.join("model"), folder.join("model")).map_err(|e| Error::file(folder.join("model"), e))?;
        let mut options = dsl::Options {
            dims: started.dims.clone(),
            task: Some(started.task.clone()),
            protocol: started.protocol.clone(),
            model: Some(started.model.clone()),
        };
        let described = described::path(&started.task);
        if described.is_some() {
            (options.task, options.protocol) = (None, None);
        }
        let mut checked = dsl::check(&started.file, &text, &folders, &options);
        if checked.has_errors() {
            let first = checked.diagnostics.iter().find(|d| d.is_error()).map_or(String::new(), |d| d.message.clone());
            return Err(no_run(format!("its model has errors: {first}")));
        }
        if checked.models.is_empty() {
            return Err(no_run(format!("there is no model `{}` in it", started.model)));
        }
        let mut others: Vec<String> = folders.into_imports().into_values().map(|import| import.text).collect();
        if let Some(path) = described {
            others.extend(described::texts(&started.task, path)?);
        }
        let fingerprint = fingerprint(&started.model, &started.task, &started.dims, text, others.into_iter());
        let mut config = Config::new(checked.models.remove(0), &started.task, started.seed)?;
        for (name, value) in &started.set {
            config.set(name, value)?;
        }
        Ok(Run { folder: folder.to_path_buf(), started, fingerprint, config, sources: checked.sources })
    }

    /// Remembers settings that were changed on the way.
    pub fn keep(&mut self, set: &[(String, String)]) -> Result<(), Error> {
        self.started.set.retain(|(name, _)| !set.iter().any(|(n, _)| n == name));
        self.started.set.extend(set.iter().cloned());
        let path = self.folder.join("run.json");
        let json = serde_json::to_string_pretty(&self.started).map_err(|e| Error::file(&path, e))? + "\n";
        let draft = path.with_extension("draft");
        fs::write(&draft, json).and_then(|()| fs::rename(&draft, &path)).map_err(|e| Error::file(path, e))
    }

    /// For as long as the file is held, nobody else trains this run.
    pub fn hold(&self) -> Result<File, Error> {
        let path = self.folder.join("lock");
        let file = File::create(&path).map_err(|e| Error::file(&path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::Busy { path: self.folder.clone() }),
            // Some disks have no locks: then nobody is kept out.
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => Ok(file),
            Err(TryLockError::Error(e)) => Err(Error::file(path, e)),
        }
    }

    pub fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    /// The newest checkpoint that is whole, and why newer ones were not used.
    pub fn newest(&self) -> Result<(PathBuf, Manifest, Snapshot, Vec<String>), Error> {
        checkpoint::newest(&self.checkpoints(), &self.fingerprint)
    }

    /// What was learnt, ready to act.
    pub fn policy(&self) -> Result<Policy, Error> {
        let (_, manifest, snapshot, _) = self.newest()?;
        let progress = manifest.counters.step as f64 / self.config.train.steps as f64;
        Policy::new(&self.config.model, &snapshot.learnt, progress, self.config.seed, self.config.compute)
    }
}
