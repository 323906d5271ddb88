//! Diagnostics: what a model's `diagnose { .. }` names, along episodes of its task and around them.
//!
//! The values are those of the evaluation's equations. Those run over segments; the value of a step is taken at the end of a segment that
//! ends there, so that a memory has a past of a segment's length (less at an episode's start), as it has in training.

mod probe;

use std::collections::BTreeMap;

use compiler::ir::Role;
use compiler::lower::Entry;
use compiler::random::{Stream, key};

use crate::Error;
use crate::actor::{Actor, to_task};
use crate::context::Context;
use crate::experience::{Experience, Layout};
use crate::program::{Program, Schedules, State, acting};
use crate::tasks::Perturbation;
use crate::tasks::scene::Scene;
use crate::train::Config;

pub use probe::Expansion;
use probe::Probe;

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actions {
    Nobody,
    Random,
    Policy,
}

/// One episode. All lists are over its decisions.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// By the name in `diagnose`; each step has as many numbers as the value.
    pub values: BTreeMap<String, Vec<Vec<f32>>>,
    /// The simulator's own energy, where it knows it.
    pub energy: Vec<f64>,
    pub rewards: Vec<f64>,
    /// What was seen and done.
    seen: Experience,
}

#[derive(Debug)]
pub struct Diagnostics {
    config: Config,
    program: Program,
    schedules: Schedules,
    context: Option<Context>,
    probe: Option<Probe>,
    learnt: State,
    progress: f64,
}

const READ: [Role; 3] = [Role::Param, Role::Slow, Role::Running];

impl Diagnostics {
    /// Of what was learnt up to some part of the training.
    pub fn new(config: &Config, learnt: &State, progress: f64) -> Result<Diagnostics, Error> {
        let model = &config.model;
        if model.diagnose.is_empty() {
            return Err(Error::Unsupported("the model has no `diagnose { .. }`".into()));
        }
        let learnt = acting(model, learnt)?;
        let mut program = Program::part(model, Entry::Evaluate, "diagnose.", &[], config.compute)?;
        program.load(&learnt, &READ)?;
        program.begin(&learnt)?;
        program.executable.prepare()?;
        let schedules = Schedules::new(model)?;
        program.set_progress(&schedules, progress)?;
        let context = Context::new(model, &learnt, config.compute)?;
        let probe = Probe::new(model, &learnt, &schedules, progress, config.compute)?;
        Ok(Diagnostics { config: config.clone(), program, schedules, context, probe, learnt, progress })
    }

    /// The diagnosed values that are the model's state: arrays of the equation that `q` reads, each with its size.
    pub fn state(&self) -> Vec<(String, usize)> {
        self.probe.as_ref().map_or(Vec::new(), Probe::state)
    }

    /// Values at states that are put in place by hand, each the numbers of [`Diagnostics::state`] one after the other: for each of
    /// the names a list over the states. None where the model does not name them, or has no state.
    pub fn at(&mut self, states: &[Vec<f32>], names: &[&str]) -> Result<Option<Vec<Vec<Vec<f32>>>>, Error> {
        self.probe.as_mut().map_or(Ok(None), |probe| probe.at(states, names))
    }

    /// How far the model's step pulls states apart, at each decision of an episode. None where the model does not say what its state is
    /// one step later (`next_q` beside `q`).
    pub fn expansion(&mut self, trace: &Trace) -> Result<Option<Expansion>, Error> {
        let Some(mut probe) = self.probe.take() else { return Ok(None) };
        let found = self.expansion_of(trace, &mut probe);
        self.probe = Some(probe);
        found
    }

    fn expansion_of(&mut self, trace: &Trace, probe: &mut Probe) -> Result<Option<Expansion>, Error> {
        let Some(mut measured) = probe.stretch() else { return Ok(None) };
        let (batch, time) = self.segment();
        let starts = starts(&trace.seen, time)?;
        for chunk in starts.chunks(batch) {
            let padded = self.show(&trace.seen, chunk, batch)?;
            if let Some(context) = &mut self.context {
                context.put(&trace.seen, &padded, (self.config.seed, 0, self.progress), probe.program_mut())?;
            }
            probe.show(&trace.seen, &padded)?;
            self.program.executable.run(self.config.seed, 0)?;
            let mut states = Vec::new();
            for (name, _) in probe.state() {
                let output = self.program.graph.output(&format!("diagnose.{name}"));
                let output = output.ok_or_else(|| Error::Kernels(format!("`{name}` is not computed")))?;
                states.push(self.program.output(output)?);
            }
            probe.measure(&states, chunk.len(), time - 2, &mut measured)?;
        }
        // The first segment ends at this decision.
        measured.finish(time - 2);
        Ok(Some(measured))
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
            let rows = self.config.environment.decisions() as usize + 1;
            let mut seen = Experience::new(Layout::of(&self.config.model)?, rows, 1, true);
            seen.observe(environment.observation(), true);
            let (mut energy, mut rewards) = (Vec::new(), Vec::new());
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
                energy.extend(environment.energy());
                let outcome = environment.step(to_task(&self.config.model, &action))?;
                actor.outcome(0, outcome.reward, outcome.terminal)?;
                seen.follow(&action, outcome.reward, outcome.terminal);
                seen.observe(environment.observation(), false);
                rewards.push(outcome.reward);
                if outcome.last {
                    break;
                }
            }
            let values = self.values(&seen)?;
            traces.push(Trace { values, energy, rewards, seen });
        }
        Ok(traces)
    }

    /// Samples that the program takes at once, and observations of a segment.
    fn segment(&self) -> (usize, usize) {
        let shapes: Vec<Vec<usize>> = self.program.with_role(Role::Data).map(|(n, _)| self.program.shape(n)).collect();
        (shapes.first().map_or(1, |shape| shape[0]), shapes.iter().map(|shape| shape[1]).max().unwrap_or(1))
    }

    /// Puts segments in place, the last one again and again where there are too few. Gives all starts.
    fn show(&mut self, episode: &Experience, starts: &[u64], batch: usize) -> Result<Vec<u64>, Error> {
        let padded: Vec<u64> = (0..batch).map(|i| starts[i.min(starts.len() - 1)]).collect();
        put(&mut self.program, episode, &padded)?;
        if let Some(context) = &mut self.context {
            context.put(episode, &padded, (self.config.seed, 0, self.progress), &mut self.program)?;
        }
        Ok(padded)
    }

    /// The diagnosed values at each decision of an episode.
    fn values(&mut self, episode: &Experience) -> Result<BTreeMap<String, Vec<Vec<f32>>>, Error> {
        let (batch, time) = self.segment();
        self.program.set_progress(&self.schedules, self.progress)?;
        let outputs = self.program.with_prefix("diagnose.");
        let mut values: BTreeMap<String, Vec<Vec<f32>>> =
            outputs.iter().map(|(name, _)| (name.clone(), Vec::with_capacity(episode.len() - 1))).collect();
        for chunk in starts(episode, time)?.chunks(batch) {
            self.show(episode, chunk, batch)?;
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

/// Segments that start at each row. A segment has one decision fewer than observations.
fn starts(episode: &Experience, time: usize) -> Result<Vec<u64>, Error> {
    if episode.len() < time {
        return Err(Error::NoSegment { time, rows: episode.len() });
    }
    Ok((0..=(episode.len() - time) as u64).collect())
}

/// Gives a program's data the rows from each start on.
fn put(program: &mut Program, episode: &Experience, starts: &[u64]) -> Result<(), Error> {
    let inputs: Vec<(usize, String)> = program.with_role(Role::Data).map(|(n, name)| (n, name.to_string())).collect();
    for (input, name) in inputs.iter().filter(|(_, name)| name.starts_with("data.")) {
        let field = episode.layout().field(name).ok_or_else(|| Error::Field { field: name.clone() })?;
        let steps = program.shape(*input)[1];
        episode.read(starts, field, steps, program.executable.input_mut(*input)?);
    }
    Ok(())
}

/// A moment of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Decisions before it.
    pub step: u64,
    /// The return so far.
    pub gained: f64,
    pub scene: Scene,
}

/// Moments of one episode of the policy, evenly from the first to the last. None where the task does not know what it looks like.
pub fn frames(config: &Config, learnt: &State, progress: f64, count: usize) -> Result<Option<Vec<Moment>>, Error> {
    let mut environment = config.environment(key("frames", config.seed, "episode", 0) >> 11)?;
    let mut actor = Actor::new(&config.model, false, 1, &acting(&config.model, learnt)?, config.compute)?;
    actor.progress(progress)?;
    let (mut all, mut gained) = (Vec::new(), 0.0);
    loop {
        let step = environment.elapsed();
        let Some(scene) = environment.scene() else { return Ok(None) };
        all.push(Moment { step, gained, scene });
        actor.show(0, environment.observation(), step == 0)?;
        actor.decide(config.seed, step)?;
        let outcome = environment.step(to_task(&config.model, actor.action(0)))?;
        actor.outcome(0, outcome.reward, outcome.terminal)?;
        gained += outcome.reward;
        if outcome.last {
            let step = environment.elapsed();
            all.extend(environment.scene().map(|scene| Moment { step, gained, scene }));
            break;
        }
    }
    let chosen = |i: usize| all[i * (all.len() - 1) / (count.max(2) - 1)].clone();
    Ok(Some((0..count.max(2)).map(chosen).collect()))
}
