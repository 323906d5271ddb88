//! The whole state of a run, for checkpoints.

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
    #[serde(with = "crate::numbers")]
    pub gained: f64,
    pub evaluations: Vec<Evaluation>,
}

impl Counters {
    /// Whether the evaluation at this step has the highest return of all.
    pub fn is_best(&self) -> bool {
        let Some((last, before)) = self.evaluations.split_last() else { return false };
        let mean = last.mean();
        last.step == self.step && !mean.is_nan() && before.iter().all(|e| e.mean().is_nan() || e.mean() < mean)
    }
}

/// Sums of what updates showed since the last line of losses in the log.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Means {
    #[serde(with = "crate::numbers")]
    sums: Vec<(String, f64)>,
    count: u32,
}

impl Means {
    pub fn add<'n>(&mut self, numbers: impl Iterator<Item = (&'n str, f32)>) {
        for (i, (name, x)) in numbers.enumerate() {
            match self.sums.get_mut(i) {
                Some((_, sum)) => *sum += f64::from(x),
                None => self.sums.push((name.to_string(), f64::from(x))),
            }
        }
        self.count += 1;
    }

    /// The means so far, which start anew. None without an update.
    pub fn take(&mut self) -> Option<Vec<(String, f64)>> {
        let Means { sums, count } = std::mem::take(self);
        (count > 0).then(|| sums.into_iter().map(|(name, sum)| (name, sum / f64::from(count))).collect())
    }
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

impl Snapshot {
    /// The learner's state, without experience and environment.
    pub fn of(counters: Counters, learnt: State) -> Snapshot {
        let experience = Stored { rows: Vec::new(), places: Vec::new(), total: 0 };
        Snapshot { counters, learnt, memory: State::new(), environment: Vec::new(), experience }
    }
}
