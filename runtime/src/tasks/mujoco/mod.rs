//! MuJoCo, opened at run time: building never needs it, and one command installs it.
//!
//! | file | subject |
//! |---|---|
//! | [`install`] | fetches the pinned library and the control suite's models |
//! | `library` | the shared library: its functions, and where the fields lie that we read |
//! | `physics` | a model and its state |
//! | `dmc` | the control suite's tasks |
//! | `mjcf` | any other model |
//! | [`described`] | its rules in a file of their own |

pub mod described;
mod dmc;
pub mod install;
mod library;
mod mjcf;
mod physics;

use std::path::PathBuf;

use crate::cache;

pub use dmc::{Dmc, Start};
pub use install::{Installed, installed};
pub use mjcf::{Mjcf, Rules};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MujocoError {
    #[error("MuJoCo is not installed: there is no `{missing}`; `wmc tasks install` fetches it")]
    Missing { missing: String },
    #[error("there is no folder for MuJoCo: set HOME, or WMC_MUJOCO to a folder")]
    NoFolder,
    #[error("cannot open `{path}`: {reason}")]
    Open { path: String, reason: String },
    #[error("`{path}` is MuJoCo {found}, and {wanted} is needed: `wmc tasks install` fetches it")]
    Version { path: String, found: String, wanted: String },
    #[error("cannot read the model `{path}`: {reason}")]
    Model { path: String, reason: String },
    #[error("the model of `{task}` has no {what} `{name}`")]
    Name { task: String, what: &'static str, name: String },
    #[error("MuJoCo: {0}")]
    Install(String),
}

/// Where MuJoCo is or would be: `WMC_MUJOCO`, or a folder of the user's cache.
pub fn folder() -> Result<PathBuf, MujocoError> {
    let own = || cache::folder().map(|cache| cache.join(format!("mujoco-{}", install::VERSION)));
    cache::set("WMC_MUJOCO").or_else(own).ok_or(MujocoError::NoFolder)
}

/// The version of an installation that opens.
pub fn version(installed: &Installed) -> Result<&'static str, MujocoError> {
    library::library(installed).map(|_| install::VERSION)
}
