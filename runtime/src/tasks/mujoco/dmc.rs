//! Four tasks of the DeepMind Control Suite: starts, observations and rewards as its Python code has them.

use std::f64::consts::{PI, TAU};

use super::library::{self, data, model};
use super::physics::Physics;
use super::{Installed, MujocoError};
use crate::tasks::scene::Scene;
use crate::tasks::shaping::{gaussian, quadratic};
use crate::tasks::{Outcome, Perturbation, Spec, Task, TaskError, draws};

/// What differs between the tasks, with the places of what they read.
#[derive(Debug, Clone)]
enum Kind {
    Cartpole { pole: usize },
    Reacher { target: usize, finger: usize },
    Finger { hinge: usize, spinner: usize, sensors: FingerSensors },
    Cheetah { speed: usize },
}

#[derive(Debug, Clone)]
struct FingerSensors {
    joints: [usize; 2],
    velocities: [usize; 3],
    tip: usize,
    spinner: usize,
    touch: [usize; 2],
}

/// How hard the spinner's hinge turns: the suite sets it at every reset.
const HINGE_DAMPING: f64 = 0.03;
/// How often the suite draws a pose before it gives up.
const TRIES: u64 = 1000;

#[derive(Debug)]
pub struct Dmc {
    spec: Spec,
    kind: Kind,
    physics: Physics,
    substeps: usize,
    damping: f64,
    kick: f64,
}

/// A start of one's own, such as that of a recorded trajectory.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub position: &'a [f64],
    pub velocity: &'a [f64],
    pub warm_start: &'a [f64],
    /// Of the reacher.
    pub target: [f64; 2],
}

impl Dmc {
    pub fn open(task: &str, installed: &Installed) -> Result<Dmc, TaskError> {
        let file = task.split('_').next().unwrap_or(task);
        let physics = Physics::open(installed, &installed.suite.join(format!("{file}.xml")))?;
        let sensor = |name: &str| physics.sensor(task, name).map(|place| place.start);
        let (observation, substeps, kind) = match task {
            "cartpole_swingup" => (5, 1, Kind::Cartpole { pole: physics.id(task, library::BODY, "body", "pole_1")? }),
            "reacher_easy" => {
                let geom = |name| physics.id(task, library::GEOM, "geom", name);
                (6, 1, Kind::Reacher { target: geom("target")?, finger: geom("finger")? })
            }
            "finger_spin" => {
                let sensors = FingerSensors {
                    joints: [sensor("proximal")?, sensor("distal")?],
                    velocities: [sensor("proximal_velocity")?, sensor("distal_velocity")?, sensor("hinge_velocity")?],
                    tip: sensor("tip")?,
                    spinner: sensor("spinner")?,
                    touch: [sensor("touchtop")?, sensor("touchbottom")?],
                };
                let hinge = physics.id(task, library::JOINT, "joint", "hinge")?;
                (9, 2, Kind::Finger { hinge, spinner: physics.id(task, library::BODY, "body", "spinner")?, sensors })
            }
            "cheetah_run" => (17, 1, Kind::Cheetah { speed: sensor("torso_subtreelinvel")? }),
            _ => return Err(MujocoError::Name { task: task.into(), what: "task", name: task.into() }.into()),
        };
        let spec = Spec { name: task.into(), observation, action: physics.count(model::NU) };
        let mut dmc = Dmc { spec, kind, physics, substeps, damping: 1.0, kick: 0.0 };
        dmc.reset(0)?;
        Ok(dmc)
    }

    /// Starts from a given state instead of a random one.
    pub fn start(&mut self, start: Start<'_>) {
        self.physics.reset();
        self.set_damping();
        if let Kind::Reacher { target, .. } = self.kind {
            self.set_target(target, start.target);
        }
        let put = |physics: &mut Physics, offset, numbers: &[f64]| {
            physics.of_data_mut(offset, numbers.len()).copy_from_slice(numbers);
        };
        put(&mut self.physics, data::QPOS, start.position);
        put(&mut self.physics, data::QVEL, start.velocity);
        put(&mut self.physics, data::QACC_WARMSTART, start.warm_start);
        self.physics.forward();
        put(&mut self.physics, data::QACC_WARMSTART, start.warm_start);
    }

    /// The cheetah's way from a drawn pose to its start: 200 steps without control.
    pub fn settle(&mut self, pose: &[f64]) {
        self.physics.reset();
        self.physics.of_data_mut(data::QPOS, pose.len()).copy_from_slice(pose);
        // The first of the steps uses what followed from the default pose, as it does in the suite.
        self.physics.step(200);
        self.physics.set_time(0.0);
        self.physics.forward();
    }

    pub fn position(&self) -> &[f64] {
        self.physics.position()
    }

    pub fn velocity(&self) -> &[f64] {
        self.physics.velocity()
    }

    fn set_target(&mut self, geom: usize, [x, y]: [f64; 2]) {
        let geoms = self.physics.count(model::NGEOM);
        let place = &mut self.physics.of_model(model::GEOM_POS, 3 * geoms)[3 * geom..];
        (place[0], place[1]) = (x, y);
    }

    fn target(&self, geom: usize) -> [f64; 2] {
        let all = self.physics.of_data(data::GEOM_XPOS, 3 * self.physics.count(model::NGEOM));
        [all[3 * geom], all[3 * geom + 1]]
    }

    fn to_target(&self, target: usize, finger: usize) -> [f64; 2] {
        let ([a, b], [c, d]) = (self.target(target), self.target(finger));
        [a - c, b - d]
    }

    fn set_damping(&mut self) {
        if let Kind::Finger { hinge, .. } = self.kind {
            let count = self.physics.count(model::NV);
            self.physics.of_model(model::DOF_DAMPING, count)[hinge] = HINGE_DAMPING * self.damping;
        }
    }

    /// A pose with each joint anywhere in its range, or anywhere at all.
    fn draw_pose(&mut self, uniform: &mut impl FnMut() -> f64, turning: bool) {
        let ranges = self.physics.ranges();
        let q = self.physics.of_data_mut(data::QPOS, ranges.len());
        for (q, range) in q.iter_mut().zip(ranges) {
            match range {
                Some((low, high)) => *q = low + (high - low) * uniform(),
                None if turning => *q = PI * (2.0 * uniform() - 1.0),
                None => {}
            }
        }
    }

    fn reward(&self, action: &[f64]) -> f64 {
        match &self.kind {
            Kind::Cartpole { pole } => {
                let cos = self.physics.of_data(data::XMAT, 9 * self.physics.count(model::NBODY))[9 * pole + 8];
                let upright = (cos + 1.0) / 2.0;
                let centred = (1.0 + gaussian(self.position()[0], 2.0)) / 2.0;
                let small_control = (4.0 + quadratic(action[0])) / 5.0;
                let small_velocity = (1.0 + gaussian(self.velocity()[1], 5.0)) / 2.0;
                upright * small_control * small_velocity * centred
            }
            Kind::Reacher { target, finger } => {
                let [x, y] = self.to_target(*target, *finger);
                if x.hypot(y) <= 0.06 { 1.0 } else { 0.0 }
            }
            Kind::Finger { sensors, .. } => {
                if self.physics.sensors()[sensors.velocities[2]] <= -15.0 {
                    1.0
                } else {
                    0.0
                }
            }
            Kind::Cheetah { speed } => (1.0 - (10.0 - self.physics.sensors()[*speed]) / 10.0).clamp(0.0, 1.0),
        }
    }
}

impl Task for Dmc {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, seed: u64) -> Result<(), TaskError> {
        let mut uniform = draws(&self.spec.name, seed);
        self.physics.reset();
        self.set_damping();
        match self.kind {
            Kind::Cartpole { .. } => {
                let stream = compiler::random::Stream::new("cartpole", seed, "reset", 0);
                let near = |i: u64| 0.01 * stream.gaussian(i);
                self.physics.of_data_mut(data::QPOS, 2).copy_from_slice(&[near(0), PI + near(1)]);
                self.physics.of_data_mut(data::QVEL, 2).copy_from_slice(&[near(2), near(3)]);
            }
            Kind::Reacher { target, .. } => {
                self.draw_pose(&mut uniform, true);
                let (angle, radius) = (TAU * uniform(), 0.05 + 0.15 * uniform());
                self.set_target(target, [radius * angle.sin(), radius * angle.cos()]);
            }
            Kind::Finger { .. } => {
                let mut tries = 0;
                loop {
                    self.draw_pose(&mut uniform, true);
                    self.physics.forward();
                    tries += 1;
                    if self.physics.contacts() == 0 {
                        break;
                    }
                    if tries == TRIES {
                        return Err(TaskError::NoStart { task: self.spec.name.clone(), tries });
                    }
                }
            }
            Kind::Cheetah { .. } => {
                self.draw_pose(&mut uniform, false);
                let pose = self.position().to_vec();
                self.settle(&pose);
            }
        }
        if self.kick > 0.0 {
            let (kick, count) = (self.kick, self.physics.count(model::NV));
            self.physics.of_data_mut(data::QVEL, count).iter_mut().for_each(|v| *v += kick * (2.0 * uniform() - 1.0));
        }
        self.physics.forward();
        Ok(())
    }

    fn step(&mut self, action: &[f64]) -> Result<Outcome, TaskError> {
        self.physics.of_data_mut(data::CTRL, action.len()).copy_from_slice(action);
        self.physics.step(self.substeps);
        self.physics.diverged(&self.spec.name)?;
        Ok(Outcome { reward: self.reward(action), terminal: false })
    }

    fn observe(&self, observation: &mut [f64]) {
        let (q, v) = (self.position(), self.velocity());
        match &self.kind {
            Kind::Cartpole { pole } => {
                let turn = &self.physics.of_data(data::XMAT, 9 * self.physics.count(model::NBODY))[9 * pole..];
                observation.copy_from_slice(&[q[0], turn[8], turn[2], v[0], v[1]]);
            }
            Kind::Reacher { target, finger } => {
                let [x, y] = self.to_target(*target, *finger);
                observation.copy_from_slice(&[q[0], q[1], x, y, v[0], v[1]]);
            }
            Kind::Finger { sensors, .. } => {
                let s = self.physics.sensors();
                let tip = [0, 2].map(|i| s[sensors.tip + i] - s[sensors.spinner + i]);
                let [a, b] = sensors.joints.map(|i| s[i]);
                let [c, d, e] = sensors.velocities.map(|i| s[i]);
                let [top, bottom] = sensors.touch.map(|i| s[i].ln_1p());
                observation.copy_from_slice(&[a, b, tip[0], tip[1], c, d, e, top, bottom]);
            }
            Kind::Cheetah { .. } => {
                let (positions, velocities) = observation.split_at_mut(8);
                positions.copy_from_slice(&q[1..]);
                velocities.copy_from_slice(v);
            }
        }
    }

    fn save(&self) -> Vec<f64> {
        let mut state = self.physics.save();
        if let Kind::Reacher { target, .. } = self.kind {
            state.extend(self.target(target));
        }
        state
    }

    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError> {
        let own = self.physics.saved_len();
        let wanted = own + if matches!(self.kind, Kind::Reacher { .. }) { 2 } else { 0 };
        if state.len() != wanted {
            return Err(TaskError::State { task: self.spec.name.clone(), found: state.len(), wanted });
        }
        if let Kind::Reacher { target, .. } = self.kind {
            self.set_target(target, [state[own], state[own + 1]]);
        }
        self.set_damping();
        self.physics.restore(&state[..own]);
        Ok(())
    }

    fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        let touches = matches!(self.kind, Kind::Finger { .. } | Kind::Cheetah { .. });
        match (change, &self.kind) {
            (Perturbation::Kick(speed), _) => self.kick = speed,
            (Perturbation::Friction(_), _) if !touches => return Err(change.refused(&self.spec, "it has no contacts")),
            // The hinge goes through the spinner's middle: without its inertia the mass changes nothing.
            (Perturbation::Mass(factor), &Kind::Finger { spinner, .. }) => {
                let bodies = self.physics.count(model::NBODY);
                self.physics.of_model(model::BODY_MASS, bodies)[spinner] *= factor;
                let inertia = &mut self.physics.of_model(model::BODY_INERTIA, 3 * bodies)[3 * spinner..3 * spinner + 3];
                inertia.iter_mut().for_each(|x| *x *= factor);
                self.physics.set_const();
            }
            _ if self.physics.change(change) => {
                // A reset sets the hinge's damping.
                if let Perturbation::Damping(factor) = change {
                    self.damping *= factor;
                }
            }
            _ => return Err(change.refused(&self.spec, "that is a change of the environment around it")),
        }
        Ok(())
    }

    fn scene(&mut self) -> Option<Scene> {
        // The reacher lies on the ground, the others stand.
        let (axes, target) = match self.kind {
            Kind::Reacher { target, .. } => ([0, 1], Some(target)),
            _ => ([0, 2], None),
        };
        let mut scene = self.physics.scene(axes, target);
        if let Kind::Cheetah { .. } = self.kind {
            scene.centre[0] = self.position()[0];
        }
        Some(scene)
    }

    fn energy(&mut self) -> Option<f64> {
        Some(self.physics.energy())
    }
}
