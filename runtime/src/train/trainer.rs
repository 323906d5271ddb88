//! The loop: act, store, update, evaluate.
//!
//! What a run does from a step on is decided by its state at that step: the agent's, the environment's and the counters.

use std::time::Duration;

use compiler::backend::Device;
use compiler::lower::Entry;
use dsl::hir::Source;

use super::Config;
use super::agent::{Agent, episode_seed, reserve, timed};
use super::evaluator::{Evaluation, Evaluator};
use super::latency::Latencies;
use super::snapshot::{Counters, Snapshot};
use crate::Error;
use crate::actor::to_task;
use crate::experience::{Experience, Layout};
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

/// An agent in an environment, and episodes without exploration from time to time.
#[derive(Debug)]
pub struct Trainer {
    config: Config,
    environment: Environment,
    agent: Agent,
    evaluator: Evaluator,
    counters: Counters,
    /// Where the time went, but for the agent's.
    times: Times,
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

impl Trainer {
    pub fn new(config: Config) -> Result<Trainer, Error> {
        let environment = config.environment(episode_seed(config.seed, 0))?;
        let state = initial(&config.model, config.seed)?;
        let mut agent = Agent::with(&config, &state)?;
        let evaluator = Evaluator::new(&config, &state)?;
        agent.begin(environment.observation())?;
        Ok(Trainer { environment, agent, evaluator, counters: Counters::default(), times: Times::default(), config })
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
        self.agent.updates()
    }

    pub fn evaluations(&self) -> &[Evaluation] {
        &self.counters.evaluations
    }

    /// Whether the evaluation at this step has the highest return so far.
    pub fn is_best(&self) -> bool {
        self.counters.is_best()
    }

    pub fn times(&self) -> Times {
        let Times { act, replay, update, .. } = self.agent.times();
        Times { act, replay, update, ..self.times }
    }

    /// Of decisions of its own: those of seed steps are none.
    pub fn latencies(&self) -> &Latencies {
        self.agent.latencies()
    }

    /// An instruction set, or a device's name.
    pub fn computes_with(&self) -> &str {
        self.agent.computes_with()
    }

    /// Bytes of kernels' buffers, and of the replay when it is full.
    pub fn bytes(&self) -> (usize, usize) {
        let (kernels, replay) = self.agent.bytes();
        (kernels + self.evaluator.bytes(), replay)
    }

    /// Losses, objectives and metrics of the last update.
    pub fn losses(&self) -> impl Iterator<Item = (&str, f32)> {
        self.agent.losses()
    }

    /// Makes one decision, then the updates and the evaluation that are due.
    pub fn advance(&mut self) -> Result<Report, Error> {
        let mut report = Report::default();
        let moved = to_task(&self.config.model, self.agent.act()?);
        let outcome = timed(&mut self.times.environment, || self.environment.step(moved))?;
        self.agent.observe(&outcome, self.environment.observation())?;
        self.counters.step += 1;
        self.counters.gained += outcome.reward;
        if outcome.last {
            report.episode = Some(std::mem::take(&mut self.counters.gained));
            self.counters.episode += 1;
            let seed = episode_seed(self.config.seed, self.counters.episode);
            timed(&mut self.times.environment, || self.environment.reset(seed))?;
            self.agent.begin(self.environment.observation())?;
        }
        report.updated = self.agent.learn()?;
        if self.counters.step.is_multiple_of(self.config.train.eval_every) || self.done() {
            let evaluation = self.evaluate()?;
            self.counters.evaluations.push(evaluation.clone());
            report.evaluation = Some(evaluation);
        }
        Ok(report)
    }

    fn evaluate(&mut self) -> Result<Evaluation, Error> {
        let progress = self.agent.progress();
        timed(&mut self.times.evaluate, || {
            self.evaluator.follow(self.agent.learner())?;
            self.evaluator.run(self.counters.evaluations.len() as u64, self.counters.step, progress)
        })
    }

    /// Everything that the rest of the run depends on.
    pub fn save(&mut self) -> Result<Snapshot, Error> {
        let counters = Counters { updates: self.agent.updates(), ..self.counters.clone() };
        let learnt = self.agent.learnt()?;
        let (memory, experience) = self.agent.save()?;
        Ok(Snapshot { counters, learnt, memory, environment: self.environment.save(), experience })
    }

    /// Starts with this state instead of the initial one: parameters, slow copies, slots, running statistics.
    pub fn start(&mut self, state: &State) -> Result<(), Error> {
        self.agent.start(state)
    }

    /// Goes on from a snapshot, to the same bits.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        self.agent.restore(snapshot)?;
        self.environment.restore(&snapshot.environment)?;
        self.agent.see(self.environment.observation(), self.environment.elapsed() == 0)?;
        self.counters = snapshot.counters.clone();
        Ok(())
    }
}
