//! Everything a run depends on.

use serde::{Deserialize, Serialize};

use super::Evaluation;
use crate::experience::Stored;
use crate::program::State;

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Decisions, updates, episodes.
    pub step: u64,
    pub updates: u64,
    pub episode: u64,
    /// Rewards of the present episode.
    pub gained: f64,
    pub evaluations: Vec<Evaluation>,
}

/// A run at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub counters: Counters,
    /// Parameters, slow copies, slots of optimisers, running statistics.
    pub learnt: State,
    /// What acting remembers: carries of memories, the planner's mean.
    pub memory: State,
    pub environment: Vec<f64>,
    pub experience: Stored,
}
