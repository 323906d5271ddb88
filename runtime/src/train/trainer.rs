//! The loop: act, store, update, evaluate.
//!
//! Everything random is a function of the seed and of counters, so that what a run does from a step on is decided by its state
//! at that step.

use std::time::{Duration, Instant};

use compiler::backend::Device;
use compiler::lower::Entry;
use compiler::memory::{self, Reserved};
use compiler::random::{Stream, key};
use dsl::hir::Source;

use super::Config;
use super::evaluator::{Evaluation, Evaluator};
use super::latency::Latencies;
use super::on_policy::OnPolicy;
use super::snapshot::{Counters, Snapshot};
use crate::Error;
use crate::actor::{Actor, to_task};
use crate::context::Context;
use crate::experience::{Experience, Layout};
use crate::learner::Learner;
use crate::program::{Compute, Program, State, initial};
use crate::tasks::Environment;

/// The events of a decision.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// The return of the episode that ended.
    pub episode: Option<f64>,
    /// There were updates: [`Trainer::losses`] are new.
    pub updated: bool,
    pub evaluation: Option<Evaluation>,
}

/// Where the time went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    pub environment: Duration,
    pub act: Duration,
    pub replay: Duration,
    pub update: Duration,
    pub evaluate: Duration,
}

#[derive(Debug)]
pub struct Trainer {
    config: Config,
    environment: Environment,
    experience: Experience,
    /// What the experience counts against the process's limit when it is full.
    _reserved: Reserved,
    learner: Learner,
    actor: Actor,
    evaluator: Evaluator,
    on_policy: Option<OnPolicy>,
    context: Option<Context>,
    counters: Counters,
    /// The actor has not yet taken over what was learnt.
    behind: bool,
    times: Times,
    latencies: Latencies,
}

/// Whether a training fits into memory, before anything of it is allocated. Devices tell by themselves.
pub fn fits(config: &Config, compute: Compute) -> Result<(), Error> {
    let model = &config.model;
    compiler::run::check_initial(model)?;
    if compute.device != Device::Cpu {
        return Ok(());
    }
    let episodes = Some(config.train.eval_episodes as usize);
    let mut programs = vec![(Entry::TrainStep, None), (Entry::Act, Some(1)), (Entry::Plan, episodes), (Entry::Context, None)];
    match model.source {
        Source::Replay { .. } if model.metrics.is_empty() => {}
        Source::Replay { .. } => programs.push((Entry::Evaluate, None)),
        Source::Rollout { .. } => programs.push((Entry::Record, None)),
    }
    let mut held = vec![reserve(&Experience::of(model, Layout::of(model)?))?];
    for (entry, batch) in programs {
        held.extend(Program::reserve(model, entry, batch, compute)?);
    }
    Ok(())
}

/// The memory of a replay that is full.
fn reserve(experience: &Experience) -> Result<Reserved, Error> {
    Ok(memory::reserve("the replay", experience.bytes() as u64, Vec::new)?)
}

impl Trainer {
    pub fn new(config: Config) -> Result<Trainer, Error> {
        let model = &config.model;
        let layout = Layout::of(model)?;
        let environment = config.environment(episode_seed(config.seed, 0))?;
        let state = initial(model, config.seed)?;
        let learner = Learner::new(model, &state, config.compute)?;
        let actor = Actor::new(model, true, 1, &state, config.compute)?;
        let evaluator = Evaluator::new(&config, &state)?;
        let on_policy = OnPolicy::new(&config, &state)?;
        let context = Context::new(model, &state, config.compute)?;
        let mut experience = Experience::of(model, layout);
        let reserved = reserve(&experience)?;
        experience.observe(environment.observation(), true);
        Ok(Trainer {
            environment,
            experience,
            _reserved: reserved,
            learner,
            actor,
            evaluator,
            on_policy,
            context,
            counters: Counters::default(),
            behind: false,
            times: Times::default(),
            latencies: Latencies::default(),
            config,
        })
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Decisions so far.
    pub fn step(&self) -> u64 {
        self.counters.step
    }

    pub fn done(&self) -> bool {
        self.counters.step >= self.config.train.steps
    }

    pub fn updates(&self) -> u64 {
        self.learner.updates()
    }

    pub fn evaluations(&self) -> &[Evaluation] {
        &self.counters.evaluations
    }

    /// Whether the evaluation at this step has the highest return so far.
    pub fn is_best(&self) -> bool {
        self.counters.is_best()
    }

    pub fn times(&self) -> Times {
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
        (self.learner.bytes() + self.actor.bytes() + self.evaluator.bytes() + record, self.experience.bytes())
    }

    /// Losses, objectives and metrics of the last update.
    pub fn losses(&self) -> impl Iterator<Item = (&str, f32)> {
        self.learner.numbers()
    }

    fn progress(&self) -> f64 {
        self.counters.step as f64 / self.config.train.steps as f64
    }

    /// Makes one decision, then the updates and the evaluation that are due.
    pub fn advance(&mut self) -> Result<Report, Error> {
        let mut report = Report::default();
        let before = self.times.act;
        let action = timed(&mut self.times.act, || {
            choose(&self.config, &self.counters, &mut self.actor, &mut self.learner, &mut self.behind, &self.environment)
        })?;
        if self.counters.step >= self.config.train.seed_steps {
            self.latencies.add(self.times.act - before);
        }
        let moved = to_task(&self.config.model, &action);
        let outcome = timed(&mut self.times.environment, || self.environment.step(moved))?;
        timed(&mut self.times.replay, || {
            self.experience.follow(&action, &outcome);
            self.experience.observe(self.environment.observation(), false);
        });
        // What came before the first decision of its own is none of the actor's.
        if self.counters.step >= self.config.train.seed_steps {
            self.actor.outcome(0, &outcome)?;
        }
        self.counters.step += 1;
        self.counters.gained += outcome.reward;
        if outcome.last {
            report.episode = Some(std::mem::take(&mut self.counters.gained));
            self.counters.episode += 1;
            let seed = episode_seed(self.config.seed, self.counters.episode);
            timed(&mut self.times.environment, || self.environment.reset(seed))?;
            self.experience.observe(self.environment.observation(), true);
            self.actor.begin(0)?;
        }
        report.updated = self.learn()?;
        if self.counters.step.is_multiple_of(self.config.train.eval_every) || self.done() {
            let evaluation = self.evaluate()?;
            self.counters.evaluations.push(evaluation.clone());
            report.evaluation = Some(evaluation);
        }
        Ok(report)
    }

    /// The updates that are due.
    fn learn(&mut self) -> Result<bool, Error> {
        let (seed, progress) = (self.config.seed, self.progress());
        let before = self.learner.updates();
        if let Some(on_policy) = &mut self.on_policy {
            if self.experience.len() > on_policy.steps {
                timed(&mut self.times.update, || on_policy.learn(&self.experience, &mut self.learner, seed, progress))?;
                self.experience.forget(on_policy.steps);
            }
        } else {
            let train = &self.config.train;
            let due = self.counters.step > train.seed_steps && self.counters.step.is_multiple_of(train.every);
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

    fn evaluate(&mut self) -> Result<Evaluation, Error> {
        let progress = self.progress();
        timed(&mut self.times.evaluate, || {
            self.evaluator.follow(&mut self.learner)?;
            self.evaluator.run(self.counters.evaluations.len() as u64, self.counters.step, progress)
        })
    }

    /// Everything that the rest of the run depends on.
    pub fn save(&mut self) -> Result<Snapshot, Error> {
        let counters = Counters { updates: self.learner.updates(), ..self.counters.clone() };
        Ok(Snapshot {
            counters,
            learnt: self.learner.state()?,
            memory: self.actor.memory()?,
            environment: self.environment.save(),
            experience: self.experience.store(),
        })
    }

    /// Starts with this state instead of the initial one: parameters, slow copies, slots, running statistics.
    pub fn start(&mut self, state: &State) -> Result<(), Error> {
        self.behind = true;
        self.learner.restore(state, 0)
    }

    /// Goes on from a snapshot, to the same bits.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        self.learner.restore(&snapshot.learnt, snapshot.counters.updates)?;
        self.actor.restore(&snapshot.memory)?;
        self.environment.restore(&snapshot.environment)?;
        self.experience.restore(&snapshot.experience)?;
        self.counters = snapshot.counters.clone();
        self.behind = true;
        Ok(())
    }
}

fn episode_seed(seed: u64, episode: u64) -> u64 {
    key("episode", seed, "train", episode) >> 11
}

fn timed<T>(total: &mut Duration, f: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = f();
    *total += start.elapsed();
    value
}

/// The next action: anything at first, then the model's.
fn choose(
    config: &Config,
    counters: &Counters,
    actor: &mut Actor,
    learner: &mut Learner,
    behind: &mut bool,
    environment: &Environment,
) -> Result<Vec<f32>, Error> {
    if counters.step < config.train.seed_steps {
        let stream = Stream::new("seed_steps", config.seed, "act", counters.step);
        let (low, high) = (config.model.action.low, config.model.action.high);
        let size = environment.spec().action as u64;
        return Ok((0..size).map(|i| (low + (high - low) * stream.uniform(i)) as f32).collect());
    }
    if std::mem::take(behind) {
        actor.follow(learner)?;
    }
    // The schedules of the decision that is being made, as updates after it have them.
    actor.progress((counters.step + 1) as f64 / config.train.steps as f64)?;
    actor.show(0, environment.observation(), environment.elapsed() == 0)?;
    actor.decide(config.seed, counters.step)?;
    Ok(actor.action(0).to_vec())
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
