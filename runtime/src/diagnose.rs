//! Computes the series of a model's `diagnose { .. }` along episodes of a trained model.
//!
//! | file | subject |
//! |---|---|
//! | `episodes` | the episodes of a probe |
//! | `follow` | series along episodes |
//! | `state` | values at states that are put in place by hand |
//! | [`measure`] | numbers about series |
//! | [`frames`](frames()) | moments of an episode, as the task draws itself |
//!
//! A series is computed by the evaluation's equations, over segments of an episode. Each segment starts with what the model
//! remembers of the whole episode before it, so that a value does not depend on where a segment starts.

mod episodes;
mod follow;
mod frames;
pub mod measure;
mod state;

use std::collections::BTreeMap;

use compiler::ir::Role;
use compiler::lower::Entry;
use dsl::hir::{Diagnosis, Model, Op, Probe, Source};

use crate::Error;
use crate::experience::Experience;
use crate::program::{Program, Schedules, State, acting};
use crate::train::Config;

pub use episodes::Episodes;
pub use frames::{Moment, frames};
pub use state::Expansion;

/// Episodes of a probe that does not say how many.
pub const EPISODES: u64 = 10;

/// One episode. A series has a list of numbers for each decision; an empty one where it has no value there.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    pub values: BTreeMap<String, Vec<Vec<f64>>>,
}

impl Trace {
    /// A series of one number, at the decisions where it has one.
    pub fn single(&self, name: &str) -> Vec<f64> {
        self.values.get(name).into_iter().flatten().filter_map(|x| x.first().copied()).collect()
    }

    /// Series of one number each, at the decisions where all of them have one.
    pub fn together(&self, names: &[&str]) -> Vec<Vec<f64>> {
        let all: Option<Vec<&Vec<Vec<f64>>>> = names.iter().map(|name| self.values.get(*name)).collect();
        let Some(all) = all else { return Vec::new() };
        let decisions = all.iter().map(|x| x.len()).min().unwrap_or(0);
        (0..decisions).filter_map(|t| all.iter().map(|x| x[t].first().copied()).collect()).collect()
    }
}

#[derive(Debug)]
pub struct Diagnostics {
    config: Config,
    schedules: Schedules,
    learnt: State,
    progress: f64,
}

const READ: [Role; 3] = [Role::Param, Role::Slow, Role::Running];

impl Diagnostics {
    /// Of what was learnt up to some part of the training.
    pub fn new(config: &Config, learnt: &State, progress: f64) -> Result<Diagnostics, Error> {
        let model = &config.model;
        if model.shows.is_empty() {
            return Err(Error::NothingToShow { model: model.name.clone() });
        }
        let learnt = acting(model, learnt)?;
        Ok(Diagnostics { schedules: Schedules::new(model)?, config: config.clone(), learnt, progress })
    }

    /// A probe of the model by its name.
    pub fn probe(&self, name: &str) -> Result<&Probe, Error> {
        let found = self.config.model.probes.iter().find(|probe| probe.name == name);
        found.ok_or_else(|| Error::Unsupported(format!("`diagnose` has no probe `{name}`")))
    }

    fn series(&self, name: &str) -> Result<&Diagnosis, Error> {
        series(&self.config.model, name)
    }

    /// What the first step of a series of predictions is.
    pub fn first_step(&self, name: &str) -> Result<i64, Error> {
        let model = &self.config.model;
        Ok(self.series(name)?.vars.get(1).map_or(0, |var| model.var(*var).lo))
    }

    /// The model with some of its series alone, whose segments have a past of so many decisions.
    fn model(&self, names: &[String], past: usize) -> Model {
        let mut model = self.config.model.clone();
        model.diagnose.retain(|d| names.contains(&d.name));
        if let Source::Replay { context, .. } = &mut model.source {
            *context = u32::try_from(past).unwrap_or(u32::MAX);
        }
        model
    }

    /// The program of a model's series; values of equations in `given` are the caller's.
    fn program(&self, model: &Model, given: &[String]) -> Result<Program, Error> {
        let mut program = Program::part(model, Entry::Evaluate, "diagnose.", given, self.config.compute)?;
        program.load(&self.learnt, &READ)?;
        program.begin(&self.learnt)?;
        program.executable.prepare()?;
        program.set_progress(&self.schedules, self.progress)?;
        Ok(program)
    }
}

fn series<'m>(model: &'m Model, name: &str) -> Result<&'m Diagnosis, Error> {
    let found = model.diagnose.iter().find(|d| d.name == name);
    found.ok_or_else(|| Error::Unsupported(format!("`diagnose` has no series `{name}`")))
}

/// The equation that a series is a plain read of at its decision, and the array of it.
fn read(model: &Model, d: &Diagnosis) -> Option<(dsl::hir::FamilyId, usize)> {
    match &model.node(d.value).op {
        Op::Read { family, leaf, index } => match &index[..] {
            [index] if index.offset == 0 && d.vars.len() == 1 && index.terms == [(d.vars[0], 1)] => Some((*family, *leaf)),
            _ => None,
        },
        _ => None,
    }
}

/// Gives a program's data the rows that are asked for: one for each step of each segment.
fn put(program: &mut Program, experience: &Experience, rows: impl Fn(usize) -> Vec<u64>) -> Result<(), Error> {
    let inputs: Vec<(usize, String)> = program.with_role(Role::Data).map(|(n, name)| (n, name.to_string())).collect();
    for (input, name) in inputs.iter().filter(|(_, name)| name.starts_with("data.")) {
        let field = experience.layout().field(name).ok_or_else(|| Error::Field { field: name.clone() })?;
        let steps = program.shape(*input)[1];
        experience.read_rows(rows(steps).into_iter(), field, program.executable.input_mut(*input)?);
    }
    Ok(())
}

/// Samples that a program takes at once, and observations of a segment.
fn segment(program: &Program) -> (usize, usize) {
    let shapes: Vec<Vec<usize>> = program.with_role(Role::Data).map(|(n, _)| program.shape(n)).collect();
    (shapes.first().map_or(1, |shape| shape[0]), shapes.iter().filter_map(|shape| shape.get(1).copied()).max().unwrap_or(1))
}
