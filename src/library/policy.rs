//! Trained models that act, and the folders of their runs.

use std::path::Path;

use runtime::device::Device;
use runtime::program::Compute;
use runtime::run::Run as Folder;
use runtime::train::Evaluation;

use super::Error;

/// A trained model that acts in one world: observations in, actions out. What it remembers of the past is in it.
#[derive(Debug)]
pub struct Policy(pub(super) runtime::policy::Policy);

impl Policy {
    /// From a compiled model (`wmc compile` writes it) and the folder of a checkpoint: the model's text is not needed.
    pub fn load(artefact: impl AsRef<Path>, checkpoint: impl AsRef<Path>, device: Device) -> Result<Policy, Error> {
        let compute = Compute { device, ..Compute::default() };
        Ok(Policy(runtime::policy::Policy::load(artefact.as_ref(), checkpoint.as_ref(), 0, compute)?))
    }

    /// The action for an observation, each entry in -1..1. What was observed before counts.
    pub fn act(&mut self, observation: &[f64]) -> Result<Vec<f64>, Error> {
        Ok(self.0.plan(observation)?)
    }

    /// What followed from the last action. Only models that decide by it need to be told.
    pub fn observe(&mut self, reward: f64, terminal: bool) -> Result<(), Error> {
        Ok(self.0.outcome(reward, terminal)?)
    }

    /// Whether it decides by what followed from its last action: then call [`observe`](Policy::observe) after each.
    pub fn needs_outcome(&self) -> bool {
        self.0.needs_outcome()
    }

    /// Forgets the past: the next observation is an episode's first.
    pub fn reset(&mut self) -> Result<(), Error> {
        Ok(self.0.reset()?)
    }

    /// How many numbers an observation has.
    pub fn observation_size(&self) -> usize {
        self.0.observation_size()
    }

    /// How many numbers an action has.
    pub fn action_size(&self) -> usize {
        self.0.action_size()
    }
}

/// The folder of a run: its model, its log, its checkpoints.
#[derive(Debug)]
pub struct Run(Folder);

impl Run {
    /// Opens a run's folder. `RUN/checkpoints/best` chooses a checkpoint; otherwise the newest counts.
    pub fn open(path: impl AsRef<Path>) -> Result<Run, Error> {
        Ok(Run(Folder::open(path.as_ref())?))
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The name of its model.
    pub fn model(&self) -> &str {
        &self.0.identity.model
    }

    /// The evaluations up to the checkpoint.
    pub fn evaluations(&self) -> Result<Vec<Evaluation>, Error> {
        let (_, manifest, ..) = self.0.chosen()?;
        Ok(manifest.counters.evaluations)
    }

    /// What was learnt, ready to act.
    pub fn policy(&self) -> Result<Policy, Error> {
        Ok(Policy(self.0.policy()?))
    }
}
