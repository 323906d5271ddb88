//! The episodes of a probe.

use std::collections::BTreeMap;

use compiler::random::{Stream, key};
use dsl::hir::{Actions, Probe};

use super::{Diagnostics, EPISODES};
use crate::Error;
use crate::actor::{Actor, to_task};
use crate::experience::{Experience, Layout, Stored};
use crate::tasks::Perturbation;
use crate::train::Config;

/// Episodes, one after the other.
#[derive(Debug)]
pub struct Episodes {
    pub(super) seen: Experience,
    /// The first row of each, and its rows: one more than decisions.
    pub(super) spans: Vec<(u64, usize)>,
    /// What the task measured before each decision, by name and episode.
    pub(super) quantities: BTreeMap<String, Vec<Vec<f64>>>,
}

impl Episodes {
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Decisions of the longest one.
    pub(super) fn longest(&self) -> usize {
        self.spans.iter().map(|(_, rows)| rows - 1).max().unwrap_or(0)
    }
}

impl Diagnostics {
    /// The episodes of a probe. `count` wins over what it says itself; of stored ones it takes the newest.
    pub fn episodes(&mut self, name: &str, count: Option<u64>, stored: Option<&Stored>) -> Result<Episodes, Error> {
        let probe = self.probe(name)?.clone();
        let count = count.or(probe.episodes);
        match probe.actions {
            Actions::Replay => self.stored(&probe, count, stored),
            _ => self.acted(&probe, count.unwrap_or(EPISODES)),
        }
    }

    fn stored(&self, probe: &Probe, count: Option<u64>, stored: Option<&Stored>) -> Result<Episodes, Error> {
        let model = &self.config.model;
        let missing = || Error::NotHere(format!("the probe `{}` needs the training's replay, which is not here", probe.name));
        let stored = stored.filter(|s| !s.places.is_empty()).ok_or_else(missing)?;
        let mut seen = Experience::of(model, Layout::of(model)?);
        seen.restore(stored)?;
        let mut spans = seen.whole(self.config.environment.decisions());
        if spans.is_empty() {
            return Err(Error::NotHere(format!("the probe `{}` finds no whole episode in the replay", probe.name)));
        }
        let keep = count.map_or(spans.len(), |n| spans.len().min(n as usize));
        spans.drain(..spans.len() - keep);
        Ok(Episodes { seen, spans, quantities: BTreeMap::new() })
    }

    /// The task as the probe has it.
    fn task(&self, probe: &Probe) -> Result<Config, Error> {
        let mut config = self.config.clone();
        for (name, value) in &probe.settings {
            let task = config.task.clone();
            config.environment.set(&task, name, value)?;
        }
        Ok(config)
    }

    fn acted(&self, probe: &Probe, count: u64) -> Result<Episodes, Error> {
        let config = self.task(probe)?;
        let model = &config.model;
        let mut environment = config.environment(0)?;
        for (name, value) in &probe.changes {
            environment.perturb(Perturbation::parse(&format!("{name}={value}"))?)?;
        }
        let mut actor = match probe.actions {
            Actions::Policy => {
                let mut actor = Actor::new(model, false, 1, &self.learnt, config.compute)?;
                actor.progress(self.progress)?;
                Some(actor)
            }
            _ => None,
        };
        let rows = (config.environment.decisions() as usize + 1) * count as usize;
        let mut seen = Experience::new(Layout::of(model)?, rows, 1, false);
        let mut spans = Vec::new();
        let mut quantities: BTreeMap<String, Vec<Vec<f64>>> = BTreeMap::new();
        let seed = config.seed;
        for episode in 0..count {
            environment.reset(key("diagnose", seed, "episode", episode) >> 11)?;
            if let Some(actor) = &mut actor {
                actor.begin(0)?;
            }
            let start = spans.last().map_or(0, |(start, rows): &(u64, usize)| start + *rows as u64);
            seen.observe(environment.observation(), true);
            let mut measured: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
            loop {
                let step = environment.elapsed();
                let action = match probe.actions {
                    Actions::Random => {
                        let stream = Stream::new("diagnose", seed, "action", episode << 24 | step);
                        let (low, high) = (model.action.low, model.action.high);
                        let size = environment.spec().action as u64;
                        (0..size).map(|i| (low + (high - low) * stream.uniform(i)) as f32).collect()
                    }
                    _ => match &mut actor {
                        Some(actor) => {
                            actor.show(0, environment.observation(), step == 0)?;
                            actor.decide(seed, episode << 24 | step)?;
                            actor.action(0).to_vec()
                        }
                        None => vec![0.0; environment.spec().action],
                    },
                };
                for quantity in &model.quantities {
                    measured.entry(&quantity.name).or_default().extend(environment.quantity(&quantity.of));
                }
                let outcome = environment.step(to_task(model, &action))?;
                if let Some(actor) = &mut actor {
                    actor.outcome(0, &outcome)?;
                }
                seen.follow(&action, &outcome);
                seen.observe(environment.observation(), false);
                if outcome.last {
                    break;
                }
            }
            for (name, numbers) in measured.into_iter().filter(|(_, numbers)| !numbers.is_empty()) {
                quantities.entry(name.to_string()).or_default().push(numbers);
            }
            spans.push((start, environment.elapsed() as usize + 1));
        }
        Ok(Episodes { seen, spans, quantities })
    }
}
