//! The side of an agent that learns: the program of an update, and the state that it changes.

use std::collections::BTreeMap;

use compiler::interp::{self, Array, Clock, RunOptions};
use compiler::ir::Role;
use compiler::lower::Entry;
use dsl::hir::Model;
use dsl::source::Span;

use crate::Error;
use crate::program::{Compute, Program, Schedules, State, Tensor};

/// What an update keeps for the next one.
const KEPT: [Role; 4] = [Role::Param, Role::Slow, Role::Slot, Role::Running];

#[derive(Debug)]
pub struct Learner {
    program: Program,
    /// Outputs that are the new values of inputs.
    next: Vec<(usize, usize)>,
    /// `loss.dyn`, `objective.main`, `metric.kl`: single numbers to look at.
    numbers: Vec<(String, usize)>,
    schedules: Schedules,
    /// State that the program does not touch, such as slow copies that nothing reads.
    rest: State,
    updates: u64,
}

impl Learner {
    pub fn new(model: &Model, state: &State, compute: Compute) -> Result<Learner, Error> {
        let mut program = Program::new(model, Entry::TrainStep, None, compute)?;
        program.load(state, &KEPT)?;
        program.instance.prepare();
        let outputs = program.graph.outputs.iter().enumerate();
        let next = outputs.filter_map(|(n, o)| Some((n, o.updates?))).collect();
        let mut numbers = Vec::new();
        for kind in ["loss", "objective", "metric"] {
            let found = program.with_prefix(&format!("{kind}.")).into_iter();
            numbers.extend(
                found.filter(|(_, n)| program.instance.output(*n).len() == 1).map(|(name, n)| (format!("{kind}.{name}"), n)),
            );
        }
        let rest = state.iter().filter(|(n, _)| program.graph.input(n).is_none()).map(|(n, t)| (n.clone(), t.clone())).collect();
        Ok(Learner { program, next, numbers, schedules: Schedules::new(model)?, rest, updates: 0 })
    }

    pub fn updates(&self) -> u64 {
        self.updates
    }

    pub fn bytes(&self) -> usize {
        self.program.instance.bytes()
    }

    pub fn instruction_set(&self) -> &'static str {
        self.program.instance.instruction_set()
    }

    /// Names and shapes of the data that an update reads.
    pub fn data(&self) -> Vec<(usize, String, Vec<usize>)> {
        let inputs = [Role::Data, Role::Record].into_iter().flat_map(|r| self.program.with_role(r));
        inputs.map(|(n, name)| (n, name.to_string(), self.program.shape(n))).collect()
    }

    /// The place of one of them.
    pub fn data_mut(&mut self, input: usize) -> &mut [f32] {
        self.program.instance.input_mut(input)
    }

    /// One update, on the data that was put in place.
    pub fn update(&mut self, seed: u64, progress: f64) -> Result<(), Error> {
        self.program.set("progress", progress);
        for (name, value) in self.schedules.at(progress)? {
            self.program.set(&name, value);
        }
        let counts: Vec<usize> =
            self.program.with_role(Role::Clock).filter(|(_, name)| name.starts_with("count.")).map(|(n, _)| n).collect();
        for input in counts {
            self.program.instance.input_mut(input).fill((self.updates + 1) as f32);
        }
        self.program.instance.run(seed, self.updates);
        let wrong = self.numbers().find(|(_, x)| !x.is_finite()).map(|(name, x)| (name.to_string(), f64::from(x)));
        if let Some((what, value)) = wrong {
            let (place, span) = self.blame(seed);
            return Err(Error::NotFinite { what, value, update: self.updates, place, span });
        }
        for (output, input) in &self.next {
            self.program.instance.copy_output_to_input(*output, *input);
        }
        self.program.instance.prepare();
        self.updates += 1;
        Ok(())
    }

    /// Losses, objectives and metrics of the last update.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f32)> {
        self.numbers.iter().map(|(name, n)| (name.as_str(), self.program.instance.output(*n)[0]))
    }

    /// The operation that made a number which is not finite: the interpreter goes through the same update.
    fn blame(&mut self, seed: u64) -> (String, Option<Span>) {
        let graph = &self.program.graph;
        let instance = &mut self.program.instance;
        let inputs: Vec<Array<f32>> = (graph.inputs.iter().enumerate())
            .map(|(n, i)| Array { axes: i.axes.clone(), data: instance.input_mut(n).to_vec() })
            .collect();
        let clock = Clock { seed, step: self.updates };
        match interp::run_with(graph, &inputs, &BTreeMap::new(), clock, RunOptions { check: true }) {
            Err(error) => (error.to_string(), error.span()),
            Ok(_) => ("the interpreter's numbers are finite".into(), None),
        }
    }

    /// Copies what another program shares with this one.
    pub(crate) fn give(&mut self, to: &mut Program, roles: &[Role]) {
        let wanted: Vec<(usize, String)> =
            roles.iter().flat_map(|r| to.with_role(*r)).map(|(n, name)| (n, name.to_string())).collect();
        for (input, name) in wanted {
            match self.program.graph.input(&name) {
                Some(own) => to.instance.input_mut(input).copy_from_slice(self.program.instance.input_mut(own)),
                None => {
                    if let Some(tensor) = self.rest.get(&name) {
                        to.instance.input_mut(input).copy_from_slice(&tensor.data);
                    }
                }
            }
        }
    }

    /// All that an update has changed so far.
    pub fn state(&mut self) -> State {
        let kept: Vec<(usize, String)> =
            KEPT.iter().flat_map(|r| self.program.with_role(*r)).map(|(n, name)| (n, name.to_string())).collect();
        let mut state = self.rest.clone();
        for (input, name) in kept {
            let shape = self.program.shape(input);
            state.insert(name, Tensor { shape, data: self.program.instance.input_mut(input).to_vec() });
        }
        state
    }

    /// Goes on from a state.
    pub fn restore(&mut self, state: &State, updates: u64) -> Result<(), Error> {
        self.program.load(state, &KEPT)?;
        self.program.instance.prepare();
        self.rest =
            state.iter().filter(|(n, _)| self.program.graph.input(n).is_none()).map(|(n, t)| (n.clone(), t.clone())).collect();
        self.updates = updates;
        Ok(())
    }
}
