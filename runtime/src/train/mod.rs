//! Training: a loop that does what the checked model says, one decision at a time.
//!
//! | file | subject |
//! |---|---|
//! | `agent` | acts, remembers, learns; the loop is the caller's |
//! | `config` | what to train, where, with which settings |
//! | `trainer` | the loop: act, store, update, evaluate |
//! | `evaluator` | episodes without exploration on environments of their own, metrics on them |
//! | `latency` | how long decisions take |
//! | `on_policy` | updates from rollouts: recorded values, epochs, minibatches |
//! | `snapshot` | everything a run depends on, to go on to the same bits |

mod agent;
mod config;
mod evaluator;
mod latency;
mod on_policy;
mod snapshot;
mod trainer;

pub use agent::Agent;
pub use config::{Change, Config, Own, sizes_of, task_of};
pub use evaluator::{Evaluation, Evaluator, area};
pub use latency::Latencies;
pub use snapshot::{Counters, Means, Snapshot};
pub use trainer::{Report, Times, Trainer, fits};
