//! The library's surface: small types over the crates that do the work.

mod agent;
mod error;
mod model;
mod policy;
mod trainer;

pub use agent::Agent;
pub use error::Error;
pub use model::{Model, ModelOptions};
pub use policy::{Policy, Run};
pub use trainer::{Trainer, TrainerOptions};
