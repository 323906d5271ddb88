//! A trained model as a library: an observation in, an action out, and the memory carried between them.

use std::path::Path;

use compiler::artefact::Artefact;
use compiler::lower::Entry;
use dsl::hir::Model;

use crate::actor::{Actor, to_task};
use crate::program::{Compute, Program, State, acting};
use crate::tasks::Transition;
use crate::{Error, checkpoint, device};

/// Decides for one environment. No file, no clock and no network is touched once it is there.
#[derive(Debug)]
pub struct Policy {
    model: Model,
    actor: Actor,
    seed: u64,
    step: u64,
    first: bool,
    /// What followed from the last decision has been told.
    told: bool,
}

impl Policy {
    /// From a checked model and what it learnt: parameters, slow copies and running statistics by name.
    pub fn new(model: &Model, learnt: &State, progress: f64, seed: u64, compute: Compute) -> Result<Policy, Error> {
        let state = acting(model, learnt)?;
        let mut actor = Actor::new(model, false, 1, &state, compute)?;
        actor.progress(progress)?;
        Ok(Policy { model: model.clone(), actor, seed, step: 0, first: true, told: true })
    }

    /// From a compiled model and a checkpoint of a training of the same model: no text is needed.
    pub fn load(artefact: &Path, checkpoint: &Path, seed: u64, compute: Compute) -> Result<Policy, Error> {
        let bytes = std::fs::read(artefact).map_err(|e| Error::file(artefact, e))?;
        let refused = |reason: &dyn std::fmt::Display| Error::file(artefact, reason);
        let other = |reason, target| Error::Compiled { path: artefact.to_path_buf(), reason, target };
        let compiled = Artefact::read(&bytes).map_err(|e| refused(&e))?;
        if let Some(batch) = compiled.about.batch.filter(|b| *b != 1) {
            return Err(other(format!("it was compiled for {batch} environments at once, and a policy acts in one"), None));
        }
        device::compiled_for(&compiled.about, compute.device).map_err(|(reason, target)| other(reason, Some(target)))?;
        let plan = compiled.entry(Entry::Plan).ok_or_else(|| other("it has no entry point `plan`".into(), None))?;
        let model = &compiled.model;
        let (manifest, snapshot) = checkpoint::read(&checkpoint::named(checkpoint)?, &compiled.about.fingerprint)?;
        let state = acting(model, &snapshot.learnt)?;
        let program = Program::compiled(plan, compute).map_err(|e| refused(&e))?;
        let mut actor = Actor::of(program, model, 1, &state)?;
        actor.progress((manifest.counters.step as f64 / model.settings.steps as f64).min(1.0))?;
        Ok(Policy { model: model.clone(), actor, seed, step: 0, first: true, told: true })
    }

    /// The action for an observation, in the task's range of -1..1. What was remembered of the observations before it counts.
    pub fn plan(&mut self, observation: &[f64]) -> Result<Vec<f64>, Error> {
        if !self.told && !self.first {
            return Err(Error::Untold);
        }
        self.actor.show(0, observation, self.first)?;
        self.actor.decide(self.seed, self.step)?;
        self.first = false;
        self.told = !self.actor.reads_outcomes();
        self.step += 1;
        Ok(to_task(&self.model, self.actor.action(0)).into_iter().map(|a| a.clamp(-1.0, 1.0)).collect())
    }

    /// Whether decisions depend on what followed from the one before, which [`Policy::outcome`] tells.
    pub fn needs_outcome(&self) -> bool {
        self.actor.reads_outcomes()
    }

    /// What followed from the last decision. Models that do not read it at t-1 need not be told.
    pub fn outcome(&mut self, reward: f64, terminal: bool) -> Result<(), Error> {
        if !(reward as f32).is_finite() {
            return Err(Error::RewardNotFinite(reward));
        }
        self.actor.outcome(0, &Transition::new(reward, terminal, terminal))?;
        self.told = true;
        Ok(())
    }

    /// Forgets the past: the next observation is an episode's first.
    pub fn reset(&mut self) -> Result<(), Error> {
        self.actor.begin(0)?;
        self.first = true;
        Ok(())
    }

    /// How many numbers an observation has.
    pub fn observation_size(&self) -> usize {
        self.actor.layout().observation
    }

    pub fn action_size(&self) -> usize {
        self.actor.layout().action
    }
}
