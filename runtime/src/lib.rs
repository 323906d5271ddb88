//! Runs compiled models: tasks, replay, training, evaluation, checkpoints, planning.
//!
//! No code here knows a particular model. What a training loop does comes from the checked model: its `source`, `train`, `act`,
//! `optimizer` and `tasks`.
//!
//! | module | subject |
//! |---|---|
//! | [`tasks`] | worlds to act in |
//! | [`experience`] | what was seen and done: replay and rollouts |
//! | [`device`] | where kernels run |
//! | [`program`] | entry points that are ready to run, and the state they work on |
//! | [`actor`], [`learner`] | the two sides of an agent |
//! | [`train`] | the loop |
//! | [`run`], [`checkpoint`], [`records`] | what is on the disk |
//! | [`disk`], [`numbers`] | the file layer, and JSON for numbers that are not finite |
//! | [`diagnose`] | what a model says about itself, along episodes |
//! | [`doctor`] | what the machine has |
//! | [`policy`] | a trained model as a library |

pub mod actor;
pub mod cache;
pub mod checkpoint;
mod context;
pub mod device;
pub mod diagnose;
pub mod disk;
pub mod doctor;
mod error;
mod events;
pub mod experience;
pub mod learner;
pub mod numbers;
pub mod policy;
pub mod program;
pub mod records;
pub mod run;
pub mod tasks;
pub mod train;

pub use error::Error;
