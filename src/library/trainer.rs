//! Training in a folder that it can be resumed from.

use std::path::Path;
use std::sync::Arc;

use runtime::checkpoint;
use runtime::device::Device;
use runtime::program::Compute;
use runtime::run::{Identity, Run as Folder};
use runtime::tasks::Task;
use runtime::train::{Config, Evaluation, Own, Report};

use super::{Error, Model, Policy};
use crate::train::start;
use crate::train::training::{Options, Training};

/// A training: an agent that acts and learns in a world, with its log and its checkpoints in a folder.
///
/// It is in that folder after a crash, too: [`TrainerOptions::open`] goes on from the last checkpoint, to the same bits as if
/// nothing had happened.
#[derive(Debug)]
pub struct Trainer {
    training: Training,
}

type Make = Arc<dyn Fn() -> Box<dyn Task> + Send + Sync>;

/// How a training is set up.
#[derive(Clone)]
pub struct TrainerOptions<'m> {
    model: &'m Model,
    world: Option<Make>,
    seed: u64,
    compute: Compute,
    set: Vec<(String, String)>,
    save_every: Option<u64>,
    keep: usize,
}

impl std::fmt::Debug for TrainerOptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainerOptions").field("model", &self.model.name()).field("set", &self.set).finish()
    }
}

impl Trainer {
    /// A training of a model, in the task that gave it its sizes unless you give it a world of your own.
    pub fn options(model: &Model) -> TrainerOptions<'_> {
        let (compute, keep) = (Compute::default(), checkpoint::KEEP);
        TrainerOptions { model, world: None, seed: 0, compute, set: Vec::new(), save_every: None, keep }
    }

    /// Decisions so far.
    pub fn step(&self) -> u64 {
        self.training.trainer.step()
    }

    /// Updates so far.
    pub fn updates(&self) -> u64 {
        self.training.trainer.updates()
    }

    /// Whether it has made all its decisions.
    pub fn is_done(&self) -> bool {
        self.training.trainer.done()
    }

    /// One decision, with the updates and the evaluation that are due after it. None where all have been made.
    pub fn advance(&mut self) -> Result<Option<Report>, Error> {
        if self.is_done() {
            return Ok(None);
        }
        Ok(Some(self.training.advance()?.0))
    }

    /// All decisions that are left.
    pub fn run(&mut self) -> Result<(), Error> {
        while self.advance()?.is_some() {}
        Ok(())
    }

    /// Losses, objectives and metrics of the last update, by name.
    pub fn losses(&self) -> impl Iterator<Item = (&str, f32)> {
        self.training.trainer.losses()
    }

    /// Evaluations so far.
    pub fn evaluations(&self) -> &[Evaluation] {
        self.training.trainer.evaluations()
    }

    /// Writes a checkpoint now. There is one at each evaluation and at the end without it.
    pub fn save(&mut self) -> Result<(), Error> {
        Ok(self.training.save()?)
    }

    /// What it has learnt so far, ready to act: of the newest checkpoint.
    pub fn policy(&self) -> Result<Policy, Error> {
        Ok(Policy(self.training.run.policy()?))
    }
}

impl TrainerOptions<'_> {
    /// A world of your own. It is made anew for the training and for each episode of an evaluation.
    pub fn world<W: Task + 'static>(mut self, make: impl Fn() -> W + Send + Sync + 'static) -> Self {
        self.world = Some(Arc::new(move || Box::new(make())));
        self
    }

    /// Everything random follows from it. 0 otherwise.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Changes a setting of the model's `train` block (`steps`, `eval_every`, ..) or of its task (`length`, `repeat`, ..).
    pub fn set(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.set.push((name.into(), value.to_string()));
        self
    }

    /// Where it computes. The processor otherwise.
    pub fn device(mut self, device: Device) -> Self {
        self.compute.device = device;
        self
    }

    /// Threads of the processor. All of them otherwise.
    pub fn threads(mut self, threads: usize) -> Self {
        self.compute.threads = threads;
        self
    }

    /// Decisions between two checkpoints. Those between two evaluations otherwise.
    pub fn save_every(mut self, decisions: u64) -> Self {
        self.save_every = Some(decisions);
        self
    }

    /// How many of the newest checkpoints are kept, besides the best.
    pub fn keep(mut self, checkpoints: usize) -> Self {
        self.keep = checkpoints;
        self
    }

    /// Starts a run in a folder, or goes on with the run that is there from its last checkpoint.
    pub fn open(self, folder: impl AsRef<Path>) -> Result<Trainer, Error> {
        let folder = folder.as_ref();
        let resume = folder.join("run.json").is_file();
        let own = self.world.clone().map(|make| Own::new(move || make()));
        let mut run = if resume { Folder::open(folder)? } else { self.create(folder)? };
        run.config.own = own;
        let (compute, save_every, keep, set) = (self.compute, self.save_every, self.keep, self.set);
        let options = Options { resume, compute, set, save_every, keep, start: start::now(compute) };
        let (training, _) = Training::open(run, options)?;
        Ok(Trainer { training })
    }

    fn create(&self, folder: &Path) -> Result<Folder, Error> {
        let Model { hir, texts, task, dims } = self.model;
        let mut config = match (&self.world, task) {
            (Some(make), _) => {
                let (name, make) = (make().spec().name.clone(), make.clone());
                Config { own: Some(Own::new(move || make())), ..Config::of_world(hir.clone(), &name, self.seed)? }
            }
            (None, Some(task)) => Config::new(hir.clone(), task, self.seed)?,
            (None, None) => return Err(runtime::Error::NoTask.into()),
        };
        for (name, value) in &self.set {
            config.set(name, value)?;
        }
        // What cannot work leaves no folder behind.
        config.environment(self.seed)?;
        runtime::train::fits(&config, self.compute)?;
        let identity = Identity::new(&texts.file, &config, dims.clone(), self.set.clone());
        Ok(Folder::create(folder, &identity, texts)?)
    }
}
