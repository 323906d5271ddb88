//! The document of `wmc show --json`, described in `docs/guide/json.md`; the tables are printed from it too.
//!
//! Fields are added at will; none is renamed or removed.

use dsl::hir::{self, Dtype, ModuleKind, Setting};
use serde::{Serialize, Serializer};

#[derive(Debug, Serialize)]
pub(super) struct Document {
    pub(super) file: String,
    pub(super) models: Vec<ModelView>,
}

#[derive(Debug, Serialize)]
pub(super) struct ModelView {
    pub(super) name: String,
    pub(super) tensors: usize,
    pub(super) parameters: Size,
    pub(super) dims: Vec<Dim>,
    pub(super) inputs: Vec<Input>,
    pub(super) action: Action,
    pub(super) latents: Vec<Latent>,
    pub(super) modules: Vec<Module>,
    pub(super) schedules: Vec<Schedule>,
    pub(super) losses: Vec<Loss>,
    pub(super) metrics: Vec<String>,
    pub(super) diagnose: Vec<String>,
    pub(super) planners: Vec<Planner>,
    pub(super) act: Option<Act>,
    pub(super) optimizers: Vec<Optimizer>,
    pub(super) source: Source,
    pub(super) train: hir::Train,
    pub(super) tasks: Vec<Task>,
    pub(super) entry_points: Vec<EntryPoint>,
    pub(super) params: Vec<Param>,
    pub(super) carries: Vec<Carry>,
    pub(super) draws: Vec<Draw>,
    pub(super) running: Vec<Running>,
    pub(super) records: Vec<String>,
}

/// A number, or the text of a polynomial in the sizes that a task gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Size(pub(super) hir::Size);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.value() {
            Some(value) => serializer.serialize_i64(value),
            None => serializer.collect_str(&self.0),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) size: Size,
}

#[derive(Debug, Serialize)]
pub(super) struct Dim {
    pub(super) name: String,
    pub(super) size: Size,
    /// Given by the task and not by the model.
    pub(super) task: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Input {
    pub(super) name: String,
    pub(super) axes: Vec<Axis>,
    pub(super) dtype: Dtype,
    /// A consequence of the action: one fewer than observations.
    pub(super) outcome: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Action {
    pub(super) input: String,
    pub(super) low: f64,
    pub(super) high: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Latent {
    pub(super) name: String,
    pub(super) size: Size,
    pub(super) fields: Vec<Field>,
}

#[derive(Debug, Serialize)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) axes: Vec<Axis>,
}

#[derive(Debug, Serialize)]
pub(super) struct Module {
    pub(super) name: String,
    pub(super) kind: ModuleKind,
    pub(super) signature: String,
    pub(super) ensemble: Option<Axis>,
    /// The rate of its slow copy.
    pub(super) slow: Option<f64>,
    pub(super) tensors: usize,
    pub(super) parameters: Size,
}

#[derive(Debug, Serialize)]
pub(super) struct Schedule {
    pub(super) name: String,
    pub(super) written: String,
    /// `[progress, value]`, where the value depends on nothing else.
    pub(super) values: Option<Vec<(f64, f64)>>,
}

#[derive(Debug, Serialize)]
pub(super) struct Loss {
    pub(super) name: String,
    /// The weight where it is the same at all times.
    pub(super) weight: Option<f64>,
    pub(super) written: String,
    /// Fractions of the training.
    pub(super) warmup: Option<(f64, f64)>,
    /// The one optimiser it is for; all otherwise.
    pub(super) optimizer: Option<String>,
    pub(super) parts: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Planner {
    pub(super) name: String,
    pub(super) written: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Act {
    /// What it reads from earlier steps.
    pub(super) state: Vec<ActState>,
    /// Carries of the planner that it hands on.
    pub(super) carries: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ActState {
    /// `m.carry.0.h`.
    pub(super) value: String,
    pub(super) axes: Vec<Axis>,
    /// How many steps ago.
    pub(super) lag: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct Optimizer {
    pub(super) name: String,
    pub(super) written: String,
    /// State per parameter.
    pub(super) slots: Vec<String>,
    pub(super) tensors: usize,
    pub(super) parameters: Size,
    pub(super) trains: Vec<Trained>,
    /// Optimisers that step before it.
    pub(super) after: Vec<String>,
}

/// Parameters of one module at one factor of the learning rate.
#[derive(Debug, Serialize)]
pub(super) struct Trained {
    pub(super) module: String,
    pub(super) scale: f64,
    pub(super) tensors: usize,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Source {
    Replay { capacity: u64, cross: bool, by_episode: bool, context: u32, batch: Axis, time: Axis },
    Rollout { steps: u64, epochs: u32, minibatch: u64, time: Axis },
}

#[derive(Debug, Serialize)]
pub(super) struct Task {
    pub(super) name: String,
    pub(super) protocol: String,
    #[serde(serialize_with = "object")]
    pub(super) dims: Vec<(String, u64)>,
    #[serde(serialize_with = "object")]
    pub(super) settings: Vec<(String, Setting)>,
}

/// A list of names and values as an object, in its order.
fn object<V: Serialize, S: Serializer>(entries: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}

#[derive(Debug, Serialize)]
pub(super) struct EntryPoint {
    pub(super) name: &'static str,
    pub(super) gives: Vec<String>,
    /// Bytes with one thread, and work of a call. None where a size is not known.
    pub(super) memory: Option<u64>,
    pub(super) flops: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Param {
    pub(super) path: String,
    pub(super) module: String,
    /// In storage order: the last axis is contiguous.
    pub(super) axes: Vec<Axis>,
    pub(super) count: Size,
}

#[derive(Debug, Serialize)]
pub(super) struct Carry {
    pub(super) path: String,
    pub(super) axes: Vec<Axis>,
}

#[derive(Debug, Serialize)]
pub(super) struct Draw {
    pub(super) name: String,
    pub(super) noise: &'static str,
    /// Of `subset`: how many places it chooses from.
    pub(super) of: Option<u32>,
    pub(super) indices: Vec<Index>,
    pub(super) axes: Vec<Axis>,
    pub(super) per_sample: bool,
}

/// An index variable with its range `from..to`.
#[derive(Debug, Serialize)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) from: i64,
    pub(super) to: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct Running {
    pub(super) name: String,
    pub(super) axes: Vec<Axis>,
}
