//! An agent: how it acts, what it remembers of the past, how it learns. The world and the loop are the caller's.

use std::time::{Duration, Instant};

use compiler::memory::{self, Reserved};
use compiler::random::{Stream, key};
use dsl::hir::Model;

use super::latency::Latencies;
use super::on_policy::OnPolicy;
use super::{Config, Snapshot, Times};
use crate::Error;
use crate::actor::Actor;
use crate::context::Context;
use crate::experience::{Experience, Layout};
use crate::learner::Learner;
use crate::program::{State, initial};
use crate::tasks::Transition;

/// Everything random in it is a function of the seed and of counters, so that what an agent does from a step on is decided by
/// its state at that step and by what it is shown.
#[derive(Debug)]
pub struct Agent {
    config: Config,
    experience: Experience,
    /// What the experience counts against the process's limit when it is full.
    _reserved: Reserved,
    learner: Learner,
    actor: Actor,
    on_policy: Option<OnPolicy>,
    context: Option<Context>,
    /// Decisions so far.
    step: u64,
    /// What is seen now, and whether an episode starts with it.
    observation: Vec<f64>,
    first: bool,
    /// What was decided for it.
    action: Vec<f32>,
    /// The actor has not yet taken over what was learnt.
    behind: bool,
    times: Times,
    latencies: Latencies,
}

/// The memory of a replay that is full.
pub(super) fn reserve(experience: &Experience) -> Result<Reserved, Error> {
    Ok(memory::reserve("the replay", experience.bytes() as u64, Vec::new)?)
}

impl Agent {
    /// An agent that has seen nothing, with the parameters that the model starts with.
    pub fn new(config: &Config) -> Result<Agent, Error> {
        Agent::with(config, &initial(&config.model, config.seed)?)
    }

    pub(super) fn with(config: &Config, state: &State) -> Result<Agent, Error> {
        let model = &config.model;
        let layout = Layout::of(model)?;
        let learner = Learner::new(model, state, config.compute)?;
        let actor = Actor::new(model, true, 1, state, config.compute)?;
        let on_policy = OnPolicy::new(config, state)?;
        let context = Context::new(model, state, config.compute)?;
        let experience = Experience::of(model, layout);
        let reserved = reserve(&experience)?;
        Ok(Agent {
            experience,
            _reserved: reserved,
            learner,
            actor,
            on_policy,
            context,
            step: 0,
            observation: Vec::new(),
            first: true,
            action: Vec::new(),
            behind: false,
            times: Times::default(),
            latencies: Latencies::default(),
            config: config.clone(),
        })
    }

    /// The checked model.
    pub fn model(&self) -> &Model {
        &self.config.model
    }

    /// Decisions so far.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Updates so far.
    pub fn updates(&self) -> u64 {
        self.learner.updates()
    }

    pub(super) fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }

    /// Where its time went.
    pub(super) fn times(&self) -> Times {
        self.times
    }

    /// Of decisions of its own: those of seed steps are none.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// An instruction set, or a device's name.
    pub fn computes_with(&self) -> &str {
        self.learner.computes_with()
    }

    /// Bytes of kernels' buffers, and of the replay when it is full.
    pub fn bytes(&self) -> (usize, usize) {
        let record = self.on_policy.as_ref().map_or(0, OnPolicy::bytes) + self.context.as_ref().map_or(0, Context::bytes);
        (self.learner.bytes() + self.actor.bytes() + record, self.experience.bytes())
    }

    /// Losses, objectives and metrics of the last update.
    pub fn losses(&self) -> impl Iterator<Item = (&str, f32)> {
        self.learner.numbers()
    }

    /// How far the training has come, from 0 to 1: what schedules depend on.
    pub(super) fn progress(&self) -> f64 {
        self.step as f64 / self.config.train.steps as f64
    }

    /// Whether it still acts at random, to have something to learn from.
    fn is_seeding(&self) -> bool {
        self.step < self.config.train.seed_steps
    }

    /// An episode starts with this observation.
    pub fn begin(&mut self, observation: &[f64]) -> Result<(), Error> {
        let start = Instant::now();
        self.see(observation, true)?;
        self.experience.observe(observation, true);
        self.times.replay += start.elapsed();
        self.actor.begin(0)
    }

    /// What is seen from now on, without a record of it.
    pub(super) fn see(&mut self, observation: &[f64], first: bool) -> Result<(), Error> {
        let wanted = self.experience.layout().observation;
        if observation.len() != wanted {
            return Err(Error::Observation { found: observation.len(), wanted });
        }
        self.observation.clear();
        self.observation.extend_from_slice(observation);
        self.first = first;
        Ok(())
    }

    /// The next action, in the model's range: random at first, then the model's.
    pub fn act(&mut self) -> Result<&[f32], Error> {
        let start = Instant::now();
        self.action = self.choose()?;
        let took = start.elapsed();
        self.times.act += took;
        if !self.is_seeding() {
            self.latencies.add(took);
        }
        Ok(&self.action)
    }

    /// What was decided last, in the model's range.
    pub fn action(&self) -> &[f32] {
        &self.action
    }

    fn choose(&mut self) -> Result<Vec<f32>, Error> {
        if self.is_seeding() {
            let stream = Stream::new("seed_steps", self.config.seed, "act", self.step);
            let (low, high) = (self.config.model.action.low, self.config.model.action.high);
            let size = self.experience.layout().action as u64;
            return Ok((0..size).map(|i| (low + (high - low) * stream.uniform(i)) as f32).collect());
        }
        if std::mem::take(&mut self.behind) {
            self.actor.follow(&mut self.learner)?;
        }
        // The schedules of the decision that is being made, as updates after it have them.
        self.actor.progress((self.step + 1) as f64 / self.config.train.steps as f64)?;
        self.actor.show(0, &self.observation, self.first)?;
        self.actor.decide(self.config.seed, self.step)?;
        Ok(self.actor.action(0).to_vec())
    }

    /// What followed from the last action, and the observation after it. Where an episode ends, [`Agent::begin`] comes next.
    pub fn observe(&mut self, outcome: &Transition, observation: &[f64]) -> Result<(), Error> {
        let start = Instant::now();
        self.see(observation, false)?;
        self.experience.follow(&self.action, outcome);
        self.experience.observe(observation, false);
        self.times.replay += start.elapsed();
        // What came before the first decision of its own is none of the actor's.
        if !self.is_seeding() {
            self.actor.outcome(0, outcome)?;
        }
        self.step += 1;
        Ok(())
    }

    /// The updates that are due; whether there were any.
    pub fn learn(&mut self) -> Result<bool, Error> {
        let (seed, progress) = (self.config.seed, self.progress());
        let before = self.learner.updates();
        if let Some(on_policy) = &mut self.on_policy {
            if self.experience.len() > on_policy.steps {
                timed(&mut self.times.update, || on_policy.learn(&self.experience, &mut self.learner, seed, progress))?;
                self.experience.forget(on_policy.steps);
            }
        } else {
            let train = &self.config.train;
            let due = self.step > train.seed_steps && self.step.is_multiple_of(train.every);
            if due && self.experience.ready()? {
                for _ in 0..train.updates {
                    let starts = timed(&mut self.times.replay, || draw(&self.experience, &mut self.learner, seed))?;
                    if let Some(context) = &mut self.context {
                        timed(&mut self.times.update, || {
                            recall(context, &self.experience, &starts, &mut self.learner, seed, progress)
                        })?;
                    }
                    timed(&mut self.times.update, || self.learner.update(seed, progress))?;
                }
            }
        }
        let updated = self.learner.updates() > before;
        self.behind |= updated;
        Ok(updated)
    }

    /// Parameters, slow copies, slots of optimisers and running statistics, by name.
    pub fn learnt(&mut self) -> Result<State, Error> {
        self.learner.state()
    }

    /// What the actor remembers, by name, and what was seen so far.
    pub(super) fn save(&mut self) -> Result<(State, crate::experience::Stored), Error> {
        Ok((self.actor.memory()?, self.experience.store()))
    }

    /// Starts with this state instead of the initial one: parameters, slow copies, slots, running statistics.
    pub fn start(&mut self, state: &State) -> Result<(), Error> {
        self.behind = true;
        self.learner.restore(state, 0)
    }

    /// Goes on from a snapshot, to the same bits; what is seen is told by [`Agent::see`].
    pub(super) fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        self.learner.restore(&snapshot.learnt, snapshot.counters.updates)?;
        self.actor.restore(&snapshot.memory)?;
        self.experience.restore(&snapshot.experience)?;
        self.step = snapshot.counters.step;
        self.behind = true;
        Ok(())
    }
}

pub(super) fn episode_seed(seed: u64, episode: u64) -> u64 {
    key("episode", seed, "train", episode) >> 11
}

pub(super) fn timed<T>(total: &mut Duration, f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = f();
    *total += start.elapsed();
    value
}

/// Puts segments of the past in place for an update, and says where they start.
fn draw(experience: &Experience, learner: &mut Learner, seed: u64) -> Result<Vec<u64>, Error> {
    let data = learner.data();
    let batch = data.first().map_or(1, |(.., shape)| shape[0]);
    let starts = experience.sample(Stream::new("segments", seed, "train_step", learner.updates()), batch)?;
    for (input, name, shape) in data {
        let field = experience.layout().field(&name).ok_or_else(|| Error::Field { field: name.clone() })?;
        experience.read(&starts, field, shape[1], learner.data_mut(input)?);
    }
    Ok(starts)
}

/// Lets segments start with what is remembered of the steps before them.
fn recall(
    context: &mut Context,
    experience: &Experience,
    starts: &[u64],
    learner: &mut Learner,
    seed: u64,
    progress: f64,
) -> Result<(), Error> {
    context.follow(learner)?;
    let number = learner.updates();
    context.put(experience, starts, (seed, number, progress), learner.program_mut())
}
