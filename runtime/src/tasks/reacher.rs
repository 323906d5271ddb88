//! Reacher Easy of the control suite, in closed form.
//!
//! Two links of 12 cm in a plane, a finger at the end, a target of 5 cm radius to be reached by it. Euler steps of 20 ms; the joints'
//! damping D is implicit: `(M + h D) a = f`. The wrist turns by +-160 degrees.

use std::f64::consts::{PI, TAU};

use super::limit::Limit;
use super::scene::{Part, Scene};
use super::shaping::capsule_inertia;
use super::{Outcome, Perturbation, Spec, Task, TaskError, draws, saved};

const STEP: f64 = 0.02;
/// From shoulder to wrist, and from wrist to finger.
const LINK: f64 = 0.12;
const RADIUS: f64 = 0.01;
const DENSITY: f64 = 1000.0;
/// The finger touches the target where their surfaces meet.
const REACH: f64 = 0.05 + RADIUS;
const WRIST: Limit = Limit { low: -160.0 * PI / 180.0, high: 160.0 * PI / 180.0, time_constant: 0.04 };

#[derive(Debug, Clone, Copy)]
struct Physics {
    mass: f64,
    damping: f64,
    gear: f64,
    kick: f64,
}

#[derive(Debug, Clone)]
pub struct Reacher {
    spec: Spec,
    physics: Physics,
    position: [f64; 2],
    velocity: [f64; 2],
    target: [f64; 2],
}

impl Default for Reacher {
    fn default() -> Reacher {
        Reacher {
            spec: Spec { name: "reacher_easy".into(), observation: 6, action: 2 },
            physics: Physics { mass: 1.0, damping: 0.01, gear: 0.05, kick: 0.0 },
            position: [0.0; 2],
            velocity: [0.0; 2],
            target: [0.1, 0.0],
        }
    }
}

/// A symmetric matrix of two by two: its entries 00, 01 and 11.
type Symmetric = [f64; 3];

fn solve([a, b, d]: Symmetric, f: [f64; 2]) -> [f64; 2] {
    let determinant = a * d - b * b;
    [(d * f[0] - b * f[1]) / determinant, (a * f[1] - b * f[0]) / determinant]
}

impl Physics {
    /// Mass of a link with the inertia about its middle; the finger's.
    fn bodies(&self, length: f64) -> (f64, f64) {
        let mass = self.mass * DENSITY * (PI * RADIUS * RADIUS * length + 4.0 / 3.0 * PI * RADIUS * RADIUS * RADIUS);
        (mass, capsule_inertia(mass, length, RADIUS))
    }

    /// The mass matrix, and the factor `l (m2 c2 + m3 l)` of what turns between the links.
    fn inertia(&self, wrist: f64) -> (Symmetric, f64) {
        let (arm, arm_inertia) = self.bodies(LINK);
        let (hand, hand_inertia) = self.bodies(0.1);
        let finger = self.mass * DENSITY * 4.0 / 3.0 * PI * RADIUS * RADIUS * RADIUS;
        let finger_inertia = 0.4 * finger * RADIUS * RADIUS;
        let coupling = LINK * (hand * 0.05 + finger * LINK);
        let d = hand_inertia + hand * 0.05 * 0.05 + finger_inertia + finger * LINK * LINK;
        let b = d + coupling * wrist.cos();
        let a =
            arm_inertia + arm * (LINK / 2.0) * (LINK / 2.0) + d + (hand + finger) * LINK * LINK + 2.0 * coupling * wrist.cos();
        ([a, b, d], coupling)
    }

    /// The acceleration over the next step.
    fn acceleration(&self, q: [f64; 2], v: [f64; 2], control: [f64; 2]) -> [f64; 2] {
        let (mass, coupling) = self.inertia(q[1]);
        let turn = coupling * q[1].sin();
        let mut force = [
            self.gear * control[0] - self.damping * v[0] + turn * (2.0 * v[0] * v[1] + v[1] * v[1]),
            self.gear * control[1] - self.damping * v[1] - turn * v[0] * v[0],
        ];
        let free = solve(mass, force);
        let inverse = solve(mass, [0.0, 1.0])[1];
        let weight = solve(self.inertia(0.0).0, [0.0, 1.0])[1];
        force[1] += WRIST.force(q[1], v[1], free[1], inverse, weight);
        let [a, b, d] = mass;
        solve([a + STEP * self.damping, b, d + STEP * self.damping], force)
    }
}

impl Reacher {
    fn to_target(&self) -> [f64; 2] {
        let [shoulder, wrist] = self.position;
        let outer = shoulder + wrist;
        [self.target[0] - LINK * shoulder.cos() - LINK * outer.cos(), self.target[1] - LINK * shoulder.sin() - LINK * outer.sin()]
    }
}

impl Task for Reacher {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, seed: u64) -> Result<(), TaskError> {
        let mut uniform = draws("reacher", seed);
        self.position = [PI * (2.0 * uniform() - 1.0), WRIST.high * (2.0 * uniform() - 1.0)];
        let (angle, radius) = (TAU * uniform(), 0.05 + 0.15 * uniform());
        self.target = [radius * angle.sin(), radius * angle.cos()];
        self.velocity = [0, 1].map(|_| self.physics.kick * (2.0 * uniform() - 1.0));
        Ok(())
    }

    fn step(&mut self, action: &[f64]) -> Result<Outcome, TaskError> {
        let control = [action[0].clamp(-1.0, 1.0), action[1].clamp(-1.0, 1.0)];
        let acceleration = self.physics.acceleration(self.position, self.velocity, control);
        for ((q, v), a) in self.position.iter_mut().zip(&mut self.velocity).zip(acceleration) {
            *v += STEP * a;
            *q += STEP * *v;
        }
        let [x, y] = self.to_target();
        Ok(Outcome { reward: if x.hypot(y) <= REACH { 1.0 } else { 0.0 }, terminal: false })
    }

    fn observe(&self, observation: &mut [f64]) {
        observation.copy_from_slice(&[self.position, self.to_target(), self.velocity].concat());
    }

    fn save(&self) -> Vec<f64> {
        [self.position, self.velocity, self.target].concat()
    }

    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        let [a, b, c, d, x, y] = saved(&self.spec, state)?;
        (self.position, self.velocity, self.target) = ([a, b], [c, d], [x, y]);
        Ok(())
    }

    fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        let p = &mut self.physics;
        match change {
            // Of all bodies, and so of their inertias.
            Perturbation::Mass(factor) => p.mass *= factor,
            Perturbation::Damping(factor) => p.damping *= factor,
            Perturbation::Actuator(factor) => p.gear *= factor,
            Perturbation::Kick(speed) => p.kick = speed,
            _ => return Err(change.refused(&self.spec, "it has no contacts")),
        }
        Ok(())
    }

    fn scene(&mut self) -> Option<Scene> {
        let ([shoulder, wrist], mut scene) = (self.position, Scene::default());
        let elbow = [LINK * shoulder.cos(), LINK * shoulder.sin()];
        let [x, y] = self.to_target();
        scene.capsule(Part::Target, self.target, self.target, REACH - RADIUS);
        scene.capsule(Part::Body, [0.0; 2], elbow, RADIUS);
        scene.capsule(
            Part::Body,
            elbow,
            [elbow[0] + 0.1 * (shoulder + wrist).cos(), elbow[1] + 0.1 * (shoulder + wrist).sin()],
            RADIUS,
        );
        scene.capsule(Part::Body, [self.target[0] - x, self.target[1] - y], [self.target[0] - x, self.target[1] - y], RADIUS);
        scene.capsule(Part::World, [0.0; 2], [0.0; 2], 1.2 * RADIUS);
        Some(scene)
    }

    fn energy(&mut self) -> Option<f64> {
        let ([a, b, d], _) = self.physics.inertia(self.position[1]);
        let [v, w] = self.velocity;
        Some(0.5 * (a * v * v + 2.0 * b * v * w + d * w * w))
    }
}
