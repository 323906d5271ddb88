//! Diagnostics: what a model's `diagnose { .. }` names, along episodes of its task.
//!
//! The values are those of the evaluation's equations. Those run over segments; the value of a step is taken at the end of a segment that
//! ends there, so that a memory has a past of a segment's length (less at an episode's start), as it has in training.

use std::collections::BTreeMap;

use compiler::ir::Role;
use compiler::lower::Entry;
use compiler::random::{Stream, key};

use crate::Error;
use crate::actor::{Actor, to_task};
use crate::experience::{Experience, Layout};
use crate::program::{Program, Schedules, State, acting};
use crate::tasks::Perturbation;
use crate::train::Config;

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actions {
    Nobody,
    Random,
    Policy,
}

/// One episode. All lists are over its decisions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// By the name in `diagnose`; each step has as many numbers as the value.
    pub values: BTreeMap<String, Vec<Vec<f32>>>,
    /// The simulator's own energy, where it knows it.
    pub energy: Vec<f64>,
    pub rewards: Vec<f64>,
}

#[derive(Debug)]
pub struct Diagnostics {
    config: Config,
    program: Program,
    schedules: Schedules,
    learnt: State,
    progress: f64,
}

impl Diagnostics {
    /// Of what was learnt up to some part of the training.
    pub fn new(config: &Config, learnt: &State, progress: f64) -> Result<Diagnostics, Error> {
        let model = &config.model;
        if model.diagnose.is_empty() {
            return Err(Error::Unsupported("the model has no `diagnose { .. }`".into()));
        }
        let learnt = acting(model, learnt)?;
        let mut program = Program::new(model, Entry::Evaluate, None, config.compute)?;
        program.load(&learnt, &[Role::Param, Role::Slow, Role::Running])?;
        program.executable.prepare()?;
        Ok(Diagnostics { config: config.clone(), program, schedules: Schedules::new(model)?, learnt, progress })
    }

    /// Episodes of the task under some changes, one after the other.
    pub fn traces(&mut self, who: Actions, changes: &[Perturbation], episodes: u64) -> Result<Vec<Trace>, Error> {
        let mut environment = self.config.environment(0)?;
        changes.iter().try_for_each(|change| environment.perturb(*change))?;
        let mut actor = Actor::new(&self.config.model, false, 1, &self.learnt, self.config.compute)?;
        actor.progress(self.progress)?;
        let mut traces = Vec::new();
        for episode in 0..episodes {
            let seed = self.config.seed;
            environment.reset(key("diagnose", seed, "episode", episode) >> 11)?;
            actor.begin(0)?;
            let rows = self.config.environment.length as usize + 1;
            let mut seen = Experience::new(Layout::of(&self.config.model)?, rows, 1, true);
            seen.observe(environment.observation(), true);
            let mut trace = Trace::default();
            loop {
                let step = environment.elapsed();
                let action = match who {
                    Actions::Nobody => vec![0.0; environment.spec().action],
                    Actions::Random => {
                        let stream = Stream::new("diagnose", seed, "action", episode << 24 | step);
                        let (low, high) = (self.config.model.action.low, self.config.model.action.high);
                        let size = environment.spec().action as u64;
                        (0..size).map(|i| (low + (high - low) * stream.uniform(i)) as f32).collect()
                    }
                    Actions::Policy => {
                        actor.show(0, environment.observation(), step == 0)?;
                        actor.decide(seed, episode << 24 | step)?;
                        actor.action(0).to_vec()
                    }
                };
                trace.energy.extend(environment.energy());
                let outcome = environment.step(to_task(&self.config.model, &action))?;
                actor.outcome(0, outcome.reward, outcome.terminal)?;
                seen.follow(&action, outcome.reward, outcome.terminal);
                seen.observe(environment.observation(), false);
                trace.rewards.push(outcome.reward);
                if outcome.last {
                    break;
                }
            }
            trace.values = self.values(&seen)?;
            traces.push(trace);
        }
        Ok(traces)
    }

    /// The diagnosed values at each decision of an episode.
    fn values(&mut self, episode: &Experience) -> Result<BTreeMap<String, Vec<Vec<f32>>>, Error> {
        let inputs: Vec<(usize, String, Vec<usize>)> =
            self.program.with_role(Role::Data).map(|(n, name)| (n, name.to_string(), self.program.shape(n))).collect();
        let batch = inputs.first().map_or(1, |(.., shape)| shape[0]);
        let time = inputs.iter().map(|(.., shape)| shape[1]).max().unwrap_or(1);
        let decisions = episode.len() - 1;
        if episode.len() < time {
            return Err(Error::NoSegment { time, rows: episode.len() });
        }
        self.program.set_progress(&self.schedules, self.progress)?;
        let outputs = self.program.with_prefix("diagnose.");
        let mut values: BTreeMap<String, Vec<Vec<f32>>> =
            outputs.iter().map(|(name, _)| (name.clone(), Vec::with_capacity(decisions))).collect();
        // Segments that start at each row, as many at a time as the program takes. A segment has one decision fewer than observations.
        let starts: Vec<u64> = (0..=(episode.len() - time) as u64).collect();
        for chunk in starts.chunks(batch) {
            let padded: Vec<u64> = (0..batch).map(|i| chunk[i.min(chunk.len() - 1)]).collect();
            for (input, name, shape) in &inputs {
                let field = episode.layout().field(name).ok_or_else(|| Error::Field { field: name.clone() })?;
                episode.read(&padded, field, shape[1], self.program.executable.input_mut(*input)?);
            }
            self.program.executable.run(self.config.seed, 0)?;
            for (name, output) in &outputs {
                let shape = self.program.output_shape(*output);
                let numbers = self.program.output(*output)?;
                let (Some(&steps), true) = (shape.get(1), shape.first() == Some(&batch) && shape.len() > 1) else {
                    return Err(Error::Unsupported(format!("`{name}` of `diagnose` has no value at each step of a segment")));
                };
                let width: usize = shape[2..].iter().product();
                let last = (time - 2).min(steps - 1);
                let Some(kept) = values.get_mut(name) else { continue };
                for (row, start) in chunk.iter().enumerate() {
                    // The first segment tells the episode's start.
                    let from = if *start == 0 { 0 } else { last };
                    for t in from..=last {
                        let at = (row * steps + t) * width;
                        kept.push(numbers[at..at + width].to_vec());
                    }
                }
            }
        }
        Ok(values)
    }
}
