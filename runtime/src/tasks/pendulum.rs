//! A pendulum that is too heavy for its motor to lift at once: the task for first steps.
//!
//! A rod of 1 kg and 1 m at g = 10, a motor of at most 2 Nm, steps of 50 ms: `th'' = 15 sin th + 3 tau`, semi-implicit Euler,
//! speed held within +-8. The reward is 1 while it stands still at the top and falls with the square of angle and speed.

use std::f64::consts::PI;

use super::scene::{Part, Scene};
use super::{Outcome, Perturbation, Spec, Task, TaskError, draws, saved};

const STEP: f64 = 0.05;
const FASTEST: f64 = 8.0;

#[derive(Debug, Clone)]
pub struct Pendulum {
    spec: Spec,
    mass: f64,
    torque: f64,
    kick: f64,
    angle: f64,
    speed: f64,
}

impl Default for Pendulum {
    fn default() -> Pendulum {
        Pendulum {
            spec: Spec { name: "pendulum_swingup".into(), observation: 3, action: 1 },
            mass: 1.0,
            torque: 2.0,
            kick: 0.0,
            angle: PI,
            speed: 0.0,
        }
    }
}

impl Task for Pendulum {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, seed: u64) -> Result<(), TaskError> {
        let mut uniform = draws("pendulum", seed);
        self.angle = PI * (2.0 * uniform() - 1.0);
        self.speed = 2.0 * uniform() - 1.0 + self.kick * (2.0 * uniform() - 1.0);
        Ok(())
    }

    fn step(&mut self, action: &[f64]) -> Result<Outcome, TaskError> {
        let control = action[0].clamp(-1.0, 1.0);
        let upright = (self.angle + PI).rem_euclid(2.0 * PI) - PI;
        let cost = upright * upright + 0.1 * self.speed * self.speed + 0.004 * control * control;
        let torque = self.torque * control;
        self.speed = (self.speed + STEP * (15.0 * self.angle.sin() + 3.0 * torque / self.mass)).clamp(-FASTEST, FASTEST);
        self.angle += STEP * self.speed;
        let worst = PI * PI + 0.1 * FASTEST * FASTEST + 0.004;
        Ok(Outcome { reward: 1.0 - cost / worst, terminal: false })
    }

    fn observe(&self, observation: &mut [f64]) {
        observation.copy_from_slice(&[self.angle.cos(), self.angle.sin(), self.speed]);
    }

    fn save(&self) -> Vec<f64> {
        vec![self.angle, self.speed]
    }

    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        [self.angle, self.speed] = saved(&self.spec, state)?;
        Ok(())
    }

    fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        match change {
            Perturbation::Mass(factor) => self.mass *= factor,
            // There is none to begin with.
            Perturbation::Damping(0.0) => {}
            Perturbation::Damping(_) => return Err(change.refused(&self.spec, "it has no damping")),
            Perturbation::Actuator(factor) => self.torque *= factor,
            Perturbation::Kick(speed) => self.kick = speed,
            _ => return Err(change.refused(&self.spec, "it has no contacts")),
        }
        Ok(())
    }

    fn scene(&mut self) -> Option<Scene> {
        let mut scene = Scene::default();
        scene.capsule(Part::Body, [0.0; 2], [self.angle.sin(), self.angle.cos()], 0.05);
        scene.capsule(Part::World, [0.0; 2], [0.0; 2], 0.07);
        Some(scene)
    }

    fn energy(&mut self) -> Option<f64> {
        Some(self.mass * (self.speed * self.speed / 6.0 + 5.0 * self.angle.cos()))
    }
}
