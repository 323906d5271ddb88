//! Evaluation: episodes without exploration on environments of their own, and the model's metrics on what happened there.

use compiler::ir::Role;
use compiler::lower::Entry;
use compiler::random::{Stream, key};
use dsl::hir::Source;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::Error;
use crate::actor::{Actor, to_task};
use crate::context::Context;
use crate::experience::{Experience, Layout};
use crate::learner::Learner;
use crate::program::{Program, Schedules, State};
use crate::tasks::{Environments, Perturbation, Transition};

/// What came out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Evaluation {
    /// Decisions of the training so far.
    pub step: u64,
    /// Of each episode.
    #[serde(with = "crate::numbers")]
    pub returns: Vec<f64>,
    /// The model's metrics; those along an index have several numbers.
    #[serde(with = "crate::numbers")]
    pub metrics: Vec<(String, Vec<f32>)>,
}

impl Evaluation {
    pub fn mean(&self) -> f64 {
        self.returns.iter().sum::<f64>() / self.returns.len().max(1) as f64
    }
}

/// The area under the mean returns over steps (trapezoids), divided by the steps.
pub fn area(evaluations: &[Evaluation]) -> Option<f64> {
    let (first, last) = (evaluations.first()?, evaluations.last()?);
    if first.step == last.step {
        return Some(last.mean());
    }
    let area: f64 =
        evaluations.windows(2).map(|w| (w[1].step as f64 - w[0].step as f64) * (w[0].mean() + w[1].mean()) / 2.0).sum();
    Some(area / (last.step as f64 - first.step as f64))
}

#[derive(Debug)]
pub struct Evaluator {
    config: Config,
    actor: Actor,
    environments: Environments,
    metrics: Option<Metrics>,
}

/// A step of an episode.
#[derive(Debug, Clone)]
struct Seen {
    observation: Vec<f64>,
    action: Vec<f32>,
    outcome: Transition,
}

/// The program of a model's metrics, and the episodes that it reads.
#[derive(Debug)]
struct Metrics {
    program: Program,
    schedules: Schedules,
    context: Option<Context>,
    episodes: Experience,
}

impl Evaluator {
    pub fn new(config: &Config, state: &State) -> Result<Evaluator, Error> {
        let episodes = config.train.eval_episodes as usize;
        let actor = Actor::new(&config.model, false, episodes, state, config.compute)?;
        let environments = environments(config)?;
        // On-policy models have their metrics in the update.
        let has_metrics = !config.model.metrics.is_empty() && matches!(config.model.source, Source::Replay { .. });
        let metrics = if has_metrics { Some(Metrics::new(config, episodes, state)?) } else { None };
        Ok(Evaluator { config: config.clone(), actor, environments, metrics })
    }

    pub fn bytes(&self) -> usize {
        self.actor.bytes() + self.metrics.as_ref().map_or(0, |m| m.program.executable.bytes())
    }

    /// Copies the parameters of the learner.
    pub fn follow(&mut self, learner: &mut Learner) -> Result<(), Error> {
        self.actor.follow(learner)?;
        if let Some(metrics) = &mut self.metrics {
            learner.give(&mut metrics.program, &METRICS_READ)?;
            metrics.program.executable.prepare()?;
            metrics.context.as_mut().map_or(Ok(()), |context| context.follow(learner))?;
        }
        Ok(())
    }

    /// From now on the environments are the task with this change alone, or as it is.
    pub fn change(&mut self, change: Option<Perturbation>) -> Result<(), Error> {
        self.environments = environments(&self.config)?;
        Ok(change.map_or(Ok(()), |change| self.environments.perturb(change))?)
    }

    /// Runs an episode in each environment. `number` says which evaluation of the run it is.
    pub fn run(&mut self, number: u64, step: u64, progress: f64) -> Result<Evaluation, Error> {
        let seed = self.config.seed;
        let count = self.environments.len();
        self.actor.progress(progress)?;
        for row in 0..count {
            if let Some(environment) = self.environments.get_mut(row) {
                environment.reset(key("evaluation", seed, &row.to_string(), number) >> 11)?;
            }
            self.actor.begin(row)?;
        }
        let mut episodes: Vec<Vec<Seen>> = vec![Vec::new(); count];
        let mut returns = vec![0.0; count];
        let mut running = vec![true; count];
        let mut t = 0;
        while running.iter().any(|r| *r) {
            for (row, environment) in self.environments.iter().enumerate() {
                self.actor.show(row, environment.observation(), t == 0)?;
            }
            self.actor.decide(seed, number << 24 | t)?;
            let before: Vec<Vec<f64>> = self.environments.iter().map(|e| e.observation().to_vec()).collect();
            let action = |row| to_task(&self.config.model, self.actor.action(row));
            let actions = (0..count).map(|row| running[row].then(|| action(row))).collect();
            let outcomes = self.environments.step(actions)?;
            for (row, (observation, outcome)) in before.into_iter().zip(outcomes).enumerate() {
                let Some(outcome) = outcome else { continue };
                episodes[row].push(Seen { observation, action: self.actor.action(row).to_vec(), outcome });
                self.actor.outcome(row, &outcome)?;
                returns[row] += outcome.reward;
                running[row] = !outcome.last;
            }
            t += 1;
        }
        let metrics = match &mut self.metrics {
            None => Vec::new(),
            Some(metrics) => {
                metrics.episodes.forget(usize::MAX);
                for (episode, environment) in episodes.iter().zip(self.environments.iter()) {
                    for (t, seen) in episode.iter().enumerate() {
                        metrics.episodes.observe(&seen.observation, t == 0);
                        metrics.episodes.follow(&seen.action, &seen.outcome);
                    }
                    metrics.episodes.observe(environment.observation(), false);
                }
                metrics.run(seed, number, progress)?
            }
        };
        Ok(Evaluation { step, returns, metrics })
    }
}

fn environments(config: &Config) -> Result<Environments, Error> {
    let all = (0..config.train.eval_episodes).map(|_| config.environment(0)).collect::<Result<_, _>>()?;
    Ok(Environments::new(all, config.compute.threads))
}

const METRICS_READ: [Role; 3] = [Role::Param, Role::Slow, Role::Running];

impl Metrics {
    fn new(config: &Config, episodes: usize, state: &State) -> Result<Metrics, Error> {
        let mut program = Program::part(&config.model, Entry::Evaluate, "metric.", &[], config.compute)?;
        program.load(state, &METRICS_READ)?;
        program.begin(state)?;
        program.executable.prepare()?;
        let time = program.with_role(Role::Data).map(|(n, _)| program.shape(n)[1]).max().unwrap_or(1);
        let capacity = episodes * (config.environment.decisions() as usize + 1);
        let episodes = Experience::new(Layout::of(&config.model)?, capacity, time, false);
        let context = Context::new(&config.model, state, config.compute)?;
        Ok(Metrics { program, schedules: Schedules::new(&config.model)?, context, episodes })
    }

    /// None where no episode was long enough.
    fn run(&mut self, seed: u64, number: u64, progress: f64) -> Result<Vec<(String, Vec<f32>)>, Error> {
        let inputs: Vec<(usize, String)> = self.program.with_role(Role::Data).map(|(n, name)| (n, name.to_string())).collect();
        let batch = inputs.first().map_or(1, |(n, _)| self.program.shape(*n)[0]);
        let Ok(starts) = self.episodes.sample(Stream::new("segments", seed, "evaluate", number), batch) else {
            return Ok(Vec::new());
        };
        self.program.set_progress(&self.schedules, progress)?;
        for (input, name) in inputs {
            let steps = self.program.shape(input)[1];
            let field = self.episodes.layout().field(&name).ok_or_else(|| Error::Field { field: name.clone() })?;
            self.episodes.read(&starts, field, steps, self.program.executable.input_mut(input)?);
        }
        if let Some(context) = &mut self.context {
            context.put(&self.episodes, &starts, (seed, number, progress), &mut self.program)?;
        }
        self.program.executable.run(seed, number)?;
        let (names, outputs): (Vec<String>, Vec<usize>) = self.program.with_prefix("metric.").into_iter().unzip();
        Ok(names.into_iter().zip(self.program.executable.outputs(&outputs)?).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(step: u64, mean: f64) -> Evaluation {
        Evaluation { step, returns: vec![mean - 1.0, mean + 1.0], metrics: Vec::new() }
    }

    #[test]
    fn areas_are_means_over_steps() {
        assert_eq!(area(&[]), None);
        assert_eq!(area(&[at(5, 3.0)]), Some(3.0));
        assert_eq!(area(&[at(10, 0.0), at(20, 10.0), at(40, 10.0)]), Some((50.0 + 200.0) / 30.0));
    }
}
