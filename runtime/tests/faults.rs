//! Tasks at fault: each is an error that says what was wrong, and what had been learnt before it is still there.

mod common;

use common::starter;
use wmc_runtime::tasks::{Outcome, Perturbation, Spec, Task, TaskError};
use wmc_runtime::train::{Config, Own, Trainer};
use wmc_runtime::{Error, checkpoint};

/// What a task does wrong, and from which control step of its life on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    Reward(f64),
    Observation(f64),
    EndsAtOnce,
    Sizes(usize, usize),
}

#[derive(Debug)]
struct Faulty {
    spec: Spec,
    fault: Fault,
    from: u64,
    step: u64,
}

impl Task for Faulty {
    fn spec(&self) -> &Spec {
        &self.spec
    }
    fn reset(&mut self, _: u64) -> Result<(), TaskError> {
        Ok(())
    }
    fn step(&mut self, _: &[f64]) -> Result<Outcome, TaskError> {
        self.step += 1;
        let now = self.step >= self.from;
        let reward = match self.fault {
            Fault::Reward(x) if now => x,
            _ => 1.0,
        };
        Ok(Outcome { reward, terminal: now && self.fault == Fault::EndsAtOnce })
    }
    fn observe(&self, observation: &mut [f64]) {
        observation.fill(0.5);
        if let (Fault::Observation(x), true) = (self.fault, self.step >= self.from) {
            observation[1] = x;
        }
    }
    fn save(&self) -> Vec<f64> {
        vec![self.step as f64]
    }
    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        self.step = state[0] as u64;
        Ok(())
    }
    fn perturb(&mut self, _: Perturbation) -> Result<(), TaskError> {
        Ok(())
    }
}

fn faulty(fault: Fault, from: u64) -> Config {
    let mut config = starter();
    config.own = Some(Own::new(move || {
        let (observation, action) = if let Fault::Sizes(o, a) = fault { (o, a) } else { (3, 1) };
        let spec = Spec { name: "faulty".into(), observation, action };
        Box::new(Faulty { spec, fault, from, step: 0 })
    }));
    config
}

/// Trains until it goes wrong, with a checkpoint every ten decisions.
fn goes_wrong(config: Config) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = match Trainer::new(config.clone()) {
        Ok(trainer) => trainer,
        Err(error) => return error.to_string(),
    };
    let mut saved = None;
    let error: Error = loop {
        match trainer.advance() {
            Err(error) => break error,
            Ok(_) => assert!(!trainer.done(), "it went well"),
        }
        if trainer.step().is_multiple_of(10) {
            let snapshot = trainer.save().unwrap();
            let manifest = checkpoint::manifest(&snapshot, "m", trainer.computes_with(), 0);
            checkpoint::write(folder.path(), &manifest, &snapshot, 2).unwrap();
            saved = Some(snapshot);
        }
    };
    if let Some(saved) = saved {
        let (.., found, unused) = checkpoint::newest(folder.path(), "m").unwrap();
        assert_eq!((&found, unused.len()), (&saved, 0));
        // A run goes on from there.
        Trainer::new(config).unwrap().restore(&found).unwrap();
    }
    error.to_string()
}

#[test]
fn rewards_that_are_no_numbers_are_refused() {
    // A decision is two control steps, an episode fifteen decisions: the 73rd control step is in the 37th decision.
    let told = goes_wrong(faulty(Fault::Reward(f64::NAN), 73));
    assert_eq!(told, "the task `faulty` gave NaN as reward at step 7 of an episode");
    assert!(goes_wrong(faulty(Fault::Reward(f64::INFINITY), 73)).contains("gave inf as reward"));
    // Experience is single precision.
    assert!(goes_wrong(faulty(Fault::Reward(1e300), 73)).contains("as reward at step 7"));
}

#[test]
fn observations_that_are_no_numbers_are_refused() {
    let told = goes_wrong(faulty(Fault::Observation(f64::NAN), 73));
    assert_eq!(told, "the task `faulty` gave NaN as entry 1 of the observation at step 7 of an episode");
    assert!(goes_wrong(faulty(Fault::Observation(-1e39), 73)).contains("entry 1 of the observation"));
    // Before the first decision.
    assert!(goes_wrong(faulty(Fault::Observation(f64::NAN), 0)).contains("at step 0 of an episode"));
}

#[test]
fn a_task_that_ends_at_once_leaves_nothing_to_learn_from() {
    let mut config = faulty(Fault::EndsAtOnce, 0);
    config.set("steps", "1000").unwrap();
    assert!(goes_wrong(config).starts_with("no episode has the 4 observations of a segment"));
    // Where some episodes were longer, it is no fault.
    let mut trainer = Trainer::new(faulty(Fault::EndsAtOnce, 60)).unwrap();
    while !trainer.done() {
        trainer.advance().unwrap();
    }
    assert_eq!(trainer.updates(), 60);
}

#[test]
fn sizes_that_are_not_the_models_are_refused() {
    let told = goes_wrong(faulty(Fault::Sizes(4, 1), 0));
    assert_eq!(told, "the task `faulty` has observations of 4 numbers, and the model has 3");
    let told = goes_wrong(faulty(Fault::Sizes(3, 2), 0));
    assert_eq!(told, "the task `faulty` has actions of 2 numbers, and the model has 1");
}
