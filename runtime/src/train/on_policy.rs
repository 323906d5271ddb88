//! Updates from rollouts: recorded values once, then epochs of minibatches in a random order.

use compiler::ir::Role;
use compiler::lower::Entry;
use compiler::random::Stream;
use dsl::hir::{Source, StopRule};

use super::Config;
use crate::Error;
use crate::experience::Experience;
use crate::learner::Learner;
use crate::program::{Program, State};

#[derive(Debug)]
pub(super) struct OnPolicy {
    /// Computes recorded values; models without any need no program for it.
    record: Option<Program>,
    /// The name of each recorded value, its output, and the step of its first row.
    recorded: Vec<(String, usize, i64)>,
    pub(super) steps: usize,
    epochs: u32,
    minibatch: usize,
    stop: Option<StopRule>,
}

impl OnPolicy {
    /// None for models that learn from replay.
    pub(super) fn new(config: &Config, state: &State) -> Result<Option<OnPolicy>, Error> {
        let model = &config.model;
        let Source::Rollout { steps, epochs, minibatch, .. } = model.source else { return Ok(None) };
        let mut record = None;
        let mut recorded = Vec::new();
        if !model.records.is_empty() {
            let mut program = Program::new(model, Entry::Record, None, config.compute)?;
            program.load(state, &[Role::Param, Role::Slow, Role::Running])?;
            for (name, output) in program.with_prefix("record.") {
                let is_it = |f: &&dsl::hir::Family| {
                    name == f.name || name.strip_prefix(f.name.as_str()).is_some_and(|r| r.starts_with('.'))
                };
                let family = model.records.iter().map(|id| model.train.family(*id)).find(is_it);
                let first = family.and_then(|f| f.domain.first()).map_or(0, |(lo, _)| *lo);
                recorded.push((format!("record.{name}"), output, first));
            }
            record = Some(program);
        }
        let stop = config.train.stop_epoch.clone();
        Ok(Some(OnPolicy { record, recorded, steps: steps as usize, epochs, minibatch: minibatch as usize, stop }))
    }

    pub(super) fn bytes(&self) -> usize {
        self.record.as_ref().map_or(0, |p| p.executable.bytes())
    }

    /// Learns from the oldest `steps` rows, and the observation behind them.
    pub(super) fn learn(
        &mut self,
        experience: &Experience,
        learner: &mut Learner,
        seed: u64,
        progress: f64,
    ) -> Result<(), Error> {
        // Recorded values, in the order of `recorded`.
        let mut values: Vec<Vec<f32>> = Vec::new();
        if let Some(program) = &mut self.record {
            learner.give(program, &[Role::Param, Role::Slow, Role::Running])?;
            program.executable.prepare()?;
            let inputs: Vec<(usize, String)> = program.with_role(Role::Data).map(|(n, name)| (n, name.to_string())).collect();
            for (input, name) in inputs {
                let rows = program.shape(input)[0];
                let field = experience.layout().field(&name).ok_or_else(|| Error::Field { field: name.clone() })?;
                experience.read(&[0], field, rows, program.executable.input_mut(input)?);
            }
            program.executable.run(seed, learner.updates())?;
            let outputs: Vec<usize> = self.recorded.iter().map(|(_, output, _)| *output).collect();
            values = program.executable.outputs(&outputs)?;
        }
        let data = learner.data();
        for _ in 0..self.epochs {
            let order = Stream::new("minibatches", seed, "train_step", learner.updates());
            let order: Vec<u64> = order.subset(0, self.steps, self.steps as u32).into_iter().map(u64::from).collect();
            let (mut watched, mut batches) = (0.0, 0);
            for rows in order.chunks_exact(self.minibatch) {
                for (input, name, shape) in &data {
                    let width: usize = shape[1..].iter().product();
                    let numbers = learner.data_mut(*input)?;
                    if let Some(field) = experience.layout().field(name) {
                        experience.read(rows, field, 1, numbers);
                    } else if let Some(((.., first), all)) = self.recorded.iter().zip(&values).find(|(r, _)| r.0 == *name) {
                        for (to, row) in numbers.chunks_exact_mut(width.max(1)).zip(rows) {
                            let at = (*row as i64 - first) as usize * width;
                            to.copy_from_slice(&all[at..at + width]);
                        }
                    } else {
                        return Err(Error::Field { field: name.clone() });
                    }
                }
                learner.update(seed, progress)?;
                if let Some(stop) = &self.stop {
                    let name = format!("metric.{}", stop.metric);
                    let told = learner.numbers().find(|(n, _)| *n == name).map_or(0.0, |(_, x)| f64::from(x));
                    (watched, batches) = if stop.last { (told, 1) } else { (watched + told, batches + 1) };
                }
            }
            if self.stop.as_ref().is_some_and(|s| watched / f64::from(batches.max(1)) > s.above) {
                break;
            }
        }
        Ok(())
    }
}
