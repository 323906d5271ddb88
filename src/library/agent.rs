//! An agent in a loop of the caller's own.

use runtime::actor::to_task;
use runtime::tasks::Transition;
use runtime::train::{Agent as Inner, Config};

use super::{Error, Model};

/// An agent that acts and learns where you say: the loop, the world and the clock are yours.
///
/// For each episode call [`begin`](Agent::begin) with its first observation; for each decision [`act`](Agent::act),
/// [`observe`](Agent::observe) and [`learn`](Agent::learn). Nothing is written to the disk.
#[derive(Debug)]
pub struct Agent {
    inner: Inner,
}

impl Agent {
    /// An agent with the parameters that the model starts with, on the processor. Everything random follows from the seed.
    pub fn new(model: &Model, seed: u64) -> Result<Agent, Error> {
        Ok(Agent { inner: Inner::new(&Config::of_world(model.hir.clone(), "caller", seed)?)? })
    }

    /// Decisions so far.
    pub fn step(&self) -> u64 {
        self.inner.step()
    }

    /// Updates so far.
    pub fn updates(&self) -> u64 {
        self.inner.updates()
    }

    /// Starts an episode with its first observation.
    pub fn begin(&mut self, observation: &[f64]) -> Result<(), Error> {
        Ok(self.inner.begin(observation)?)
    }

    /// The next action, each entry in -1..1: random during the model's `seed_steps`, then the model's own with exploration.
    pub fn act(&mut self) -> Result<Vec<f64>, Error> {
        self.inner.act()?;
        Ok(to_task(self.inner.model(), self.inner.action()))
    }

    /// What followed from the action: its reward, whether the episode is over for good, and the next observation. Where an
    /// episode ends, by a terminal state or because you stop it, [`begin`](Agent::begin) starts the next.
    pub fn observe(&mut self, reward: f64, terminal: bool, observation: &[f64]) -> Result<(), Error> {
        if !(reward as f32).is_finite() {
            return Err(runtime::Error::RewardNotFinite(reward).into());
        }
        Ok(self.inner.observe(&Transition::new(reward, terminal, terminal), observation)?)
    }

    /// Makes the updates that are due after this decision, as the model's `train` block says. Whether there were any.
    pub fn learn(&mut self) -> Result<bool, Error> {
        Ok(self.inner.learn()?)
    }

    /// Losses, objectives and metrics of the last update, by name.
    pub fn losses(&self) -> impl Iterator<Item = (&str, f32)> {
        self.inner.losses()
    }
}
