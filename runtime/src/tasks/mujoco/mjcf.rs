//! Any MJCF model as a task, with a reward that is said in the settings of the task.
//!
//! It observes positions, velocities and all sensors, in this order, or what `observe` lists. The reward of a control step is the weighted sum of sensors (the first
//! number of each), less `control_cost` times the squared action. An episode is over where a sensor falls below its bound. What cannot be
//! said this way is an implementation of [`Task`].

use std::ops::Range;
use std::path::Path;

use super::library::{data, model};
use super::physics::Physics;
use super::{Installed, MujocoError};
use crate::tasks::scene::Scene;
use crate::tasks::{Outcome, Perturbation, Spec, Task, TaskError, draws};

/// What the settings say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules {
    /// The model's file.
    pub file: String,
    /// Parts of an observation: `positions`, `velocities`, `sensors` or a sensor's name. All of them where it is empty.
    pub observe: Vec<String>,
    /// Physics steps of a control step.
    pub substeps: usize,
    /// Sensors with their weights.
    pub rewards: Vec<(String, f64)>,
    pub control_cost: f64,
    /// Sensors with the bounds below which an episode is over.
    pub ends_below: Vec<(String, f64)>,
    /// Positions and velocities start within plus or minus this of the model's own.
    pub noise: f64,
}

#[derive(Debug)]
pub struct Mjcf {
    spec: Spec,
    rules: Rules,
    physics: Physics,
    parts: Vec<Part>,
    /// Places of the sensors.
    rewards: Vec<(usize, f64)>,
    ends_below: Vec<(usize, f64)>,
    kick: f64,
}

/// A part of an observation.
#[derive(Debug, Clone)]
enum Part {
    Positions,
    Velocities,
    Sensors(Range<usize>),
}

impl Part {
    fn of<'p>(&self, physics: &'p Physics) -> &'p [f64] {
        match self {
            Part::Positions => physics.position(),
            Part::Velocities => physics.velocity(),
            Part::Sensors(place) => &physics.sensors()[place.clone()],
        }
    }
}

impl Mjcf {
    pub fn open(name: &str, rules: &Rules, installed: &Installed) -> Result<Mjcf, TaskError> {
        let physics = Physics::open(installed, Path::new(&rules.file))?;
        let places = |all: &[(String, f64)]| -> Result<Vec<(usize, f64)>, MujocoError> {
            all.iter().map(|(sensor, x)| Ok((physics.sensor(name, sensor)?.start, *x))).collect()
        };
        let (rewards, ends_below) = (places(&rules.rewards)?, places(&rules.ends_below)?);
        let part = |name_of: &str| -> Result<Part, MujocoError> {
            Ok(match name_of {
                "positions" => Part::Positions,
                "velocities" => Part::Velocities,
                "sensors" => Part::Sensors(0..physics.sensors().len()),
                sensor => Part::Sensors(physics.sensor(name, sensor)?),
            })
        };
        let parts: Vec<Part> = match rules.observe.is_empty() {
            true => ["positions", "velocities", "sensors"].into_iter().map(part).collect::<Result<_, _>>()?,
            false => rules.observe.iter().map(|p| part(p)).collect::<Result<_, _>>()?,
        };
        let observation = parts.iter().map(|p| p.of(&physics).len()).sum();
        let spec = Spec { name: name.into(), observation, action: physics.count(model::NU) };
        let mut task = Mjcf { spec, rules: rules.clone(), physics, parts, rewards, ends_below, kick: 0.0 };
        task.reset(0)?;
        Ok(task)
    }
}

impl Task for Mjcf {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, seed: u64) -> Result<(), TaskError> {
        let mut uniform = draws(&self.spec.name, seed);
        self.physics.reset();
        for (field, count, size) in
            [(data::QPOS, model::NQ, self.rules.noise), (data::QVEL, model::NV, self.rules.noise + self.kick)]
        {
            let count = self.physics.count(count);
            self.physics.of_data_mut(field, count).iter_mut().for_each(|x| *x += size * (2.0 * uniform() - 1.0));
        }
        self.physics.forward();
        Ok(())
    }

    fn step(&mut self, action: &[f64]) -> Result<Outcome, TaskError> {
        self.physics.of_data_mut(data::CTRL, action.len()).copy_from_slice(action);
        self.physics.step(self.rules.substeps.max(1));
        self.physics.diverged(&self.spec.name)?;
        let sensors = self.physics.sensors();
        let gained: f64 = self.rewards.iter().map(|(at, weight)| weight * sensors[*at]).sum();
        let effort: f64 = action.iter().map(|a| a * a).sum();
        let terminal = self.ends_below.iter().any(|(at, bound)| sensors[*at] < *bound);
        Ok(Outcome { reward: gained - self.rules.control_cost * effort, terminal })
    }

    fn observe(&self, observation: &mut [f64]) {
        let all = self.parts.iter().flat_map(|p| p.of(&self.physics));
        observation.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
    }

    fn save(&self) -> Vec<f64> {
        self.physics.save()
    }

    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        let wanted = self.physics.saved_len();
        if state.len() != wanted {
            return Err(TaskError::State { task: self.spec.name.clone(), found: state.len(), wanted });
        }
        self.physics.restore(state);
        Ok(())
    }

    fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        match change {
            Perturbation::Kick(speed) => self.kick = speed,
            change if self.physics.change(change) => {}
            _ => return Err(change.refused(&self.spec, "that is a change of the environment around it")),
        }
        Ok(())
    }

    fn scene(&mut self) -> Option<Scene> {
        Some(self.physics.scene([0, 2], None))
    }

    fn energy(&mut self) -> Option<f64> {
        Some(self.physics.energy())
    }
}
