//! Cartpole Swingup of the control suite, in closed form.
//!
//! A cart of 1 kg on a rail and a pole of 0.1 kg and 1 m on it, which starts hanging down. With `c = cos th`, `s = sin th`, `l` half
//! the pole's length and I its inertia about its middle,
//!
//! ```text
//! | M + m    m l c    | | x''  |   | 10 u - 5e-4 x' + m l th'^2 s |
//! | m l c    I + m l^2 | | th'' | = | m g l s - 2e-6 th'           |
//! ```
//!
//! integrated by the classical Runge-Kutta method in steps of 10 ms. The rail ends at +-1.8 m.

use super::limit::Limit;
use super::scene::{Part, Scene};
use super::shaping::{capsule_inertia, gaussian, quadratic};
use super::{Outcome, Perturbation, Spec, Task, TaskError, draws, saved};

const STEP: f64 = 0.01;
const HALF: f64 = 0.5;
const RADIUS: f64 = 0.045;
const GRAVITY: f64 = 9.81;
const RAIL: Limit = Limit { low: -1.8, high: 1.8, time_constant: 0.08 };

/// What perturbations change.
#[derive(Debug, Clone, Copy)]
struct Physics {
    cart: f64,
    pole: f64,
    damping: [f64; 2],
    gear: f64,
    kick: f64,
}

#[derive(Debug, Clone)]
pub struct Cartpole {
    spec: Spec,
    physics: Physics,
    position: [f64; 2],
    velocity: [f64; 2],
}

impl Default for Cartpole {
    fn default() -> Cartpole {
        Cartpole {
            spec: Spec { name: "cartpole_swingup".into(), observation: 5, action: 1 },
            physics: Physics { cart: 1.0, pole: 0.1, damping: [5e-4, 2e-6], gear: 10.0, kick: 0.0 },
            position: [0.0, std::f64::consts::PI],
            velocity: [0.0; 2],
        }
    }
}

impl Physics {
    /// The mass matrix at an angle: its entries 00, 01 and 11.
    fn mass(&self, angle: f64) -> [f64; 3] {
        let inertia = capsule_inertia(self.pole, 2.0 * HALF, RADIUS);
        [self.cart + self.pole, self.pole * HALF * angle.cos(), inertia + self.pole * HALF * HALF]
    }

    fn acceleration(&self, q: [f64; 2], v: [f64; 2], control: f64) -> [f64; 2] {
        let [a, b, d] = self.mass(q[1]);
        let determinant = a * d - b * b;
        let sin = q[1].sin();
        let force = [
            self.gear * control - self.damping[0] * v[0] + self.pole * HALF * v[1] * v[1] * sin,
            self.pole * GRAVITY * HALF * sin - self.damping[1] * v[1],
        ];
        let free = [(d * force[0] - b * force[1]) / determinant, (a * force[1] - b * force[0]) / determinant];
        let [a0, b0, d0] = self.mass(0.0);
        let weight = d0 / (a0 * d0 - b0 * b0);
        let push = RAIL.force(q[0], v[0], free[0], d / determinant, weight);
        [free[0] + d / determinant * push, free[1] - b / determinant * push]
    }
}

impl Task for Cartpole {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, seed: u64) -> Result<(), TaskError> {
        let stream = compiler::random::Stream::new("cartpole", seed, "reset", 0);
        let near = |i: u64| 0.01 * stream.gaussian(i);
        self.position = [near(0), std::f64::consts::PI + near(1)];
        self.velocity = [near(2), near(3)];
        let mut uniform = draws("cartpole.kick", seed);
        self.velocity.iter_mut().for_each(|v| *v += self.physics.kick * (2.0 * uniform() - 1.0));
        Ok(())
    }

    fn step(&mut self, action: &[f64]) -> Result<Outcome, TaskError> {
        let control = action[0].clamp(-1.0, 1.0);
        let at = |k: [[f64; 2]; 2], h: f64| {
            let q = [self.position[0] + h * k[0][0], self.position[1] + h * k[0][1]];
            let v = [self.velocity[0] + h * k[1][0], self.velocity[1] + h * k[1][1]];
            [v, self.physics.acceleration(q, v, control)]
        };
        let k1 = at([[0.0; 2]; 2], 0.0);
        let k2 = at(k1, STEP / 2.0);
        let k3 = at(k2, STEP / 2.0);
        let k4 = at(k3, STEP);
        for i in 0..2 {
            let slope = |part: usize| (k1[part][i] + 2.0 * k2[part][i] + 2.0 * k3[part][i] + k4[part][i]) / 6.0;
            let (dq, dv) = (slope(0), slope(1));
            self.position[i] += STEP * dq;
            self.velocity[i] += STEP * dv;
        }
        let upright = (self.position[1].cos() + 1.0) / 2.0;
        let centred = (1.0 + gaussian(self.position[0], 2.0)) / 2.0;
        let small_control = (4.0 + quadratic(action[0])) / 5.0;
        let small_velocity = (1.0 + gaussian(self.velocity[1], 5.0)) / 2.0;
        Ok(Outcome { reward: upright * small_control * small_velocity * centred, terminal: false })
    }

    fn observe(&self, observation: &mut [f64]) {
        let [x, angle] = self.position;
        observation.copy_from_slice(&[x, angle.cos(), angle.sin(), self.velocity[0], self.velocity[1]]);
    }

    fn save(&self) -> Vec<f64> {
        [self.position, self.velocity].concat()
    }

    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        let [x, angle, dx, turn] = saved(&self.spec, state)?;
        (self.position, self.velocity) = ([x, angle], [dx, turn]);
        Ok(())
    }

    fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        let p = &mut self.physics;
        match change {
            Perturbation::Mass(factor) => (p.cart, p.pole) = (p.cart * factor, p.pole * factor),
            Perturbation::Damping(factor) => p.damping = p.damping.map(|d| d * factor),
            Perturbation::Actuator(factor) => p.gear *= factor,
            Perturbation::Kick(speed) => p.kick = speed,
            _ => return Err(change.refused(&self.spec, "it has no contacts")),
        }
        Ok(())
    }

    fn scene(&mut self) -> Option<Scene> {
        let [x, angle] = self.position;
        let mut scene = Scene::default();
        scene.capsule(Part::World, [RAIL.low, 0.0], [RAIL.high, 0.0], 0.02);
        scene.rectangle(Part::Body, [x, 0.0], [0.2, 0.1]);
        let long = 2.0 * HALF;
        scene.capsule(Part::Body, [x, 0.0], [x + long * angle.sin(), long * angle.cos()], RADIUS);
        Some(scene)
    }

    fn energy(&mut self) -> Option<f64> {
        let [a, b, d] = self.physics.mass(self.position[1]);
        let [v, w] = self.velocity;
        let kinetic = 0.5 * (a * v * v + 2.0 * b * v * w + d * w * w);
        Some(kinetic + self.physics.pole * GRAVITY * HALF * self.position[1].cos())
    }
}
