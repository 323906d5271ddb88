//! Tasks by name.

use super::cartpole::Cartpole;
use super::mujoco::{self, Dmc, Mjcf};
use super::pendulum::Pendulum;
use super::reacher::Reacher;
use super::{Settings, Task, TaskError};

/// A task that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    pub name: &'static str,
    pub embedded: bool,
    pub mujoco: bool,
}

pub const TASKS: [Known; 5] = [
    Known { name: "pendulum_swingup", embedded: true, mujoco: false },
    Known { name: "cartpole_swingup", embedded: true, mujoco: true },
    Known { name: "reacher_easy", embedded: true, mujoco: true },
    Known { name: "finger_spin", embedded: false, mujoco: true },
    Known { name: "cheetah_run", embedded: false, mujoco: true },
];

/// The task of that name: the user's own model where the settings name one, else embedded where there is such a one and the settings do not say otherwise.
pub fn task(name: &str, settings: &Settings) -> Result<Box<dyn Task>, TaskError> {
    if let Some(rules) = &settings.mjcf {
        return Ok(Box::new(Mjcf::open(name, rules, &mujoco::installed()?)?));
    }
    let unknown = || TaskError::Unknown { name: name.to_string(), known: TASKS.map(|t| t.name).join(", ") };
    let known = TASKS.iter().find(|t| t.name == name).ok_or_else(unknown)?;
    let embedded = match settings.physics.as_deref() {
        Some("mujoco") => false,
        Some("embedded") => true,
        _ => known.embedded,
    };
    let lacks = |found: &str, wanted| TaskError::SettingValue {
        task: name.to_string(),
        setting: "physics".into(),
        found: found.into(),
        wanted,
    };
    match (embedded, name) {
        (true, "pendulum_swingup") => Ok(Box::new(Pendulum::default())),
        (true, "cartpole_swingup") => Ok(Box::new(Cartpole::default())),
        (true, "reacher_easy") => Ok(Box::new(Reacher::default())),
        (true, _) => Err(lacks("\"embedded\"", "\"mujoco\": it is not embedded")),
        (false, _) if known.mujoco => Ok(Box::new(Dmc::open(name, &mujoco::installed()?)?)),
        (false, _) => Err(lacks("\"mujoco\"", "\"embedded\": it is not one of MuJoCo's")),
    }
}
