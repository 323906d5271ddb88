//! The learning side of an agent: the program of an update, and the state that it changes.

use std::collections::BTreeMap;

use compiler::backend::Device;
use compiler::interp::{self, Array, Clock, RunOptions};
use compiler::ir::{Output, Role};
use compiler::lower::Entry;
use dsl::hir::Model;
use dsl::source::Span;

use crate::Error;
use crate::program::{Compute, Program, Schedules, State};

/// How outputs with metrics start.
const METRIC: &str = "metric.";
/// On a graphics device the state has to be brought to the host, so the watch looks at one update in so many. A checkpoint is
/// checked in any case.
const DEVICE_WATCH: u64 = 100;
/// What an update keeps for the next one.
const KEPT: [Role; 4] = [Role::Param, Role::Slow, Role::Slot, Role::Running];

#[derive(Debug)]
pub struct Learner {
    program: Program,
    /// `loss.dyn`, `objective.main`, `metric.kl`: single numbers to look at, and their outputs.
    numbers: Vec<(String, usize)>,
    /// Outputs that the next update starts from, and norms of gradients. A gradient that is not finite shows in them.
    watched: Vec<usize>,
    /// Updates from one look at them to the next.
    watch_every: u64,
    /// What the numbers were in the last update.
    told: Vec<f32>,
    schedules: Schedules,
    /// State that the program does not touch, such as slow copies that nothing reads.
    rest: State,
    updates: u64,
}

impl Learner {
    pub fn new(model: &Model, state: &State, compute: Compute) -> Result<Learner, Error> {
        let mut program = Program::new(model, Entry::TrainStep, None, compute)?;
        program.load(state, &KEPT)?;
        program.begin(state)?;
        program.executable.prepare()?;
        let mut numbers = Vec::new();
        for kind in ["loss", "objective", "metric"] {
            let found = program.with_prefix(&format!("{kind}.")).into_iter();
            let single = |n: usize| program.output_shape(n).iter().product::<usize>() == 1;
            numbers.extend(found.filter(|(_, n)| single(*n)).map(|(name, n)| (format!("{kind}.{name}"), n)));
        }
        let rest = state.iter().filter(|(n, _)| program.graph.input(n).is_none()).map(|(n, t)| (n.clone(), t.clone())).collect();
        let told = vec![0.0; numbers.len()];
        let is_norm = |o: &Output| o.name.starts_with("norm.");
        let is_kept = |o: &Output| o.updates.is_some_and(|input| KEPT.contains(&program.graph.inputs[input].role));
        let watched =
            program.graph.outputs.iter().enumerate().filter(|(_, o)| is_kept(o) || is_norm(o)).map(|(n, _)| n).collect();
        let watch_every = if compute.device == Device::Cpu { 1 } else { DEVICE_WATCH };
        Ok(Learner { program, numbers, watched, watch_every, told, schedules: Schedules::new(model)?, rest, updates: 0 })
    }

    pub fn updates(&self) -> u64 {
        self.updates
    }

    pub fn bytes(&self) -> usize {
        self.program.executable.bytes()
    }

    /// An instruction set, or a device's name.
    pub fn computes_with(&self) -> &str {
        self.program.executable.computes_with()
    }

    /// Names and shapes of the data that an update reads.
    pub fn data(&self) -> Vec<(usize, String, Vec<usize>)> {
        let inputs = [Role::Data, Role::Record].into_iter().flat_map(|r| self.program.with_role(r));
        inputs.map(|(n, name)| (n, name.to_string(), self.program.shape(n))).collect()
    }

    /// What segments start with.
    pub(crate) fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    /// The place of one of them.
    pub fn data_mut(&mut self, input: usize) -> Result<&mut [f32], Error> {
        Ok(self.program.executable.input_mut(input)?)
    }

    /// One update, on the data that was put in place.
    pub fn update(&mut self, seed: u64, progress: f64) -> Result<(), Error> {
        self.program.set_progress(&self.schedules, progress)?;
        let counts: Vec<String> = self.program.with_role(Role::Clock).map(|(_, name)| name.to_string()).collect();
        for name in counts.iter().filter(|name| name.starts_with("count.")) {
            self.program.set(name, (self.updates + 1) as f64)?;
        }
        self.program.executable.run(seed, self.updates)?;
        let wanted: Vec<usize> = self.numbers.iter().map(|(_, n)| *n).collect();
        self.told = self.program.executable.outputs(&wanted)?.into_iter().flatten().collect();
        // A metric is for people; nothing is computed from it.
        let wrong = self.numbers().find(|(name, x)| !name.starts_with(METRIC) && !x.is_finite());
        let mut wrong = wrong.map(|(name, x)| (name.to_string(), x));
        if wrong.is_none() && (self.updates + 1).is_multiple_of(self.watch_every) {
            let found = self.program.executable.not_finite(&self.watched)?;
            wrong = found.map(|(n, x)| (self.program.graph.outputs[n].name.trim_start_matches("next.").to_string(), x));
        }
        if let Some((what, value)) = wrong {
            let (place, span) = self.blame(seed)?;
            return Err(Error::NotFinite { what, value: f64::from(value), update: self.updates, place, span });
        }
        self.program.executable.advance()?;
        self.program.executable.prepare()?;
        self.updates += 1;
        Ok(())
    }

    /// Losses, objectives and metrics of the last update.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f32)> {
        self.numbers.iter().zip(&self.told).map(|((name, _), x)| (name.as_str(), *x))
    }

    /// The operation that made a number which is not finite: the interpreter goes through the same update.
    fn blame(&mut self, seed: u64) -> Result<(String, Option<Span>), Error> {
        let mut graph = self.program.graph.clone();
        let is_metric: Vec<bool> = graph.outputs.iter().map(|o| o.name.starts_with(METRIC)).collect();
        let mut left_out = is_metric.iter();
        graph.outputs.retain(|_| left_out.next() == Some(&false));
        let mut left_out = is_metric.iter();
        graph.graph.results.retain(|_| left_out.next() == Some(&false));
        let mut inputs: Vec<Array<f32>> = Vec::new();
        for (n, input) in graph.inputs.iter().enumerate() {
            inputs.push(Array { axes: input.axes.clone(), data: self.program.executable.input(n)?.to_vec() });
        }
        let clock = Clock { seed, step: self.updates };
        Ok(match interp::run_with(&graph, &inputs, &BTreeMap::new(), clock, RunOptions { check: true }) {
            Err(error) => (error.to_string(), error.span()),
            Ok(_) => ("the interpreter's numbers are finite".into(), None),
        })
    }

    /// Copies what another program shares with this one.
    pub(crate) fn give(&mut self, to: &mut Program, roles: &[Role]) -> Result<(), Error> {
        let wanted: Vec<(usize, String)> =
            roles.iter().flat_map(|r| to.with_role(*r)).map(|(n, name)| (n, name.to_string())).collect();
        let mut shared = Vec::new();
        for (input, name) in wanted {
            match (self.program.graph.input(&name), self.rest.get(&name)) {
                (Some(own), _) => shared.push((input, own)),
                (None, Some(tensor)) => to.executable.input_mut(input)?.copy_from_slice(&tensor.data),
                (None, None) => {}
            }
        }
        Ok(to.executable.take(self.program.executable.as_mut(), &shared)?)
    }

    /// All that an update has changed so far.
    pub fn state(&mut self) -> Result<State, Error> {
        let kept: Vec<(usize, String)> =
            KEPT.iter().flat_map(|r| self.program.with_role(*r)).map(|(n, name)| (n, name.to_string())).collect();
        let mut state = self.rest.clone();
        for (input, name) in kept {
            state.insert(name, self.program.tensor(input)?);
        }
        Ok(state)
    }

    /// Goes on from a state.
    pub fn restore(&mut self, state: &State, updates: u64) -> Result<(), Error> {
        self.program.load(state, &KEPT)?;
        self.program.executable.prepare()?;
        self.rest =
            state.iter().filter(|(n, _)| self.program.graph.input(n).is_none()).map(|(n, t)| (n.clone(), t.clone())).collect();
        self.updates = updates;
        Ok(())
    }
}
