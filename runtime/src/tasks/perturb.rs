//! Changes to a task that a trained agent has not seen: out-of-distribution tests, and the diagnostic regime of a Hamiltonian.

use super::{Spec, TaskError};

/// One change. Factors multiply what the task has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Perturbation {
    /// Masses, and inertias with them.
    Mass(f64),
    /// The joints' damping, also where a reset sets it.
    Damping(f64),
    /// The motors' strength.
    Actuator(f64),
    /// Friction of both sides of a contact: the larger one counts.
    Friction(f64),
    /// After a reset every joint gets a velocity within plus or minus this.
    Kick(f64),
    /// Actions arrive this many decisions late.
    Delay(usize),
    /// This part of the entries of an observation is zero, chosen anew at every step.
    Mask(f64),
}

impl Perturbation {
    /// `mass=0.7`.
    pub fn parse(text: &str) -> Result<Perturbation, TaskError> {
        let wrong = || TaskError::NoPerturbation(text.to_string());
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let value: f64 = value.trim().parse().map_err(|_| wrong())?;
        let factor = value.is_finite() && value >= 0.0;
        Ok(match name.trim() {
            "mass" if factor && value > 0.0 => Perturbation::Mass(value),
            "damping" if factor => Perturbation::Damping(value),
            "actuator" if factor => Perturbation::Actuator(value),
            "friction" if factor => Perturbation::Friction(value),
            "kick" if factor => Perturbation::Kick(value),
            "delay" if (0.0..=1000.0).contains(&value) && value.fract() == 0.0 => Perturbation::Delay(value as usize),
            "mask" if (0.0..=1.0).contains(&value) => Perturbation::Mask(value),
            _ => return Err(wrong()),
        })
    }

    /// The changes that a task is tested under. Those of Reacher and Finger are the paper's.
    pub fn of_task(task: &str) -> Vec<Perturbation> {
        use Perturbation::{Actuator, Damping, Delay, Friction, Mask, Mass};
        match task {
            "finger_spin" => vec![Friction(0.5), Friction(1.5), Mass(1.3), Mass(1.5), Delay(2), Mask(0.3)],
            "pendulum_swingup" => vec![Mass(0.7), Mass(1.3), Actuator(0.7), Actuator(1.3)],
            _ => vec![Mass(0.7), Mass(1.3), Damping(0.5), Damping(2.0), Actuator(0.7), Actuator(1.3)],
        }
    }

    pub(crate) fn refused(self, task: &Spec, why: &'static str) -> TaskError {
        TaskError::Perturbation { task: task.name.clone(), change: self.to_string(), why }
    }
}

impl std::fmt::Display for Perturbation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Perturbation::Mass(x) => write!(f, "mass={x}"),
            Perturbation::Damping(x) => write!(f, "damping={x}"),
            Perturbation::Actuator(x) => write!(f, "actuator={x}"),
            Perturbation::Friction(x) => write!(f, "friction={x}"),
            Perturbation::Kick(x) => write!(f, "kick={x}"),
            Perturbation::Delay(n) => write!(f, "delay={n}"),
            Perturbation::Mask(x) => write!(f, "mask={x}"),
        }
    }
}
