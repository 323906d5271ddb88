//! The checked model: a plain value that later crates consume.
//!
//! Functions, blocks, distributions and planners are gone: what is left is a table of expressions over named
//! axes ([`Node`]), systems of equations over index variables ([`System`]), and the declarations around them.
//! Equations are written for one sample; whoever lowers them adds the batch axis.
//!
//! Invariants
//! - The expression table is in dependency order: a node refers only to nodes before it.
//! - A value never carries one axis twice. Storage order is the order of `axes`.
//! - Every read lies in the domain of what it reads; every recurrence has one direction ([`Stage`]).
//! - Sizes may be symbolic in the sizes that a task binds (`O`, `A`); index ranges are always known.

mod diagnose;
mod expr;
mod size;
mod system;
mod valid;

use serde::{Deserialize, Serialize};

pub use diagnose::{Actions, Diagnosis, Form, Probe, Quantity, Show};
pub use expr::{BinaryOp, Dtype, ExprId, Index, Node, Noise, Op, Real, ReduceOp, UnaryOp};
pub use size::Size;
pub use system::{Def, DefId, Direction, Family, FamilyId, Leaf, Lhs, Stage, System, Var, VarId};

use crate::source::Span;

/// Index into [`Model::axes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AxisId(pub u32);

/// An axis: equal sizes or equal names do not make equal axes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
    pub size: Size,
}

/// A size that the model names: `dim Q = 8`, the sizes of the source, and those that the task binds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dim {
    pub name: String,
    pub axis: AxisId,
    /// Given by the task (`O`, `A`) and not by the model.
    pub task: bool,
    pub span: Span,
}

/// A field of the data: `obs`, `r`, `discount`, `first`, `terminal`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub name: String,
    pub axes: Vec<AxisId>,
    pub dtype: Dtype,
    /// A consequence of the action (`r`, `discount`, `terminal`, the action itself): there is one fewer than observations.
    pub outcome: bool,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Index into [`Model::inputs`]: the action is part of the data too.
    pub input: usize,
    pub low: f64,
    pub high: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latent {
    pub name: String,
    pub fields: Vec<(String, Vec<AxisId>)>,
}

/// Index into [`Model::params`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ParamId(pub u32);

/// One trained array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// `core.0.weight`: stable under every edit that does not move the parameter.
    pub path: String,
    /// In storage order; an ensemble's axis comes first.
    pub axes: Vec<AxisId>,
    /// The initial value: an expression over (some of) the axes, with draws of its own.
    pub init: ExprId,
    pub module: usize,
    pub span: Span,
}

/// What owns parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModuleKind {
    Net,
    Head,
    Memory,
    Param,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    pub name: String,
    pub kind: ModuleKind,
    /// `(z, a, m) -> [Q, A]`, as a person would write it.
    pub signature: String,
    pub params: Vec<ParamId>,
    pub ensemble: Option<AxisId>,
    /// Rate of its slow copy, where it has one.
    pub slow: Option<SlowCopy>,
    pub span: Span,
}

/// `slow <- (1 - tau) slow + tau fast`, after every update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SlowCopy {
    pub tau: f64,
}
impl Eq for SlowCopy {}

/// A value that a memory or a planner hands from one step to the next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carry {
    /// `m.0.h`.
    pub path: String,
    pub axes: Vec<AxisId>,
    pub init: ExprId,
}

/// A number that depends on how far the training has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub name: String,
    pub value: ExprId,
    pub span: Span,
}

/// A statistic that is updated before every use and carries no gradient.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub name: String,
    /// The axes of its start, in storage order.
    pub axes: Vec<AxisId>,
    /// The new value; `Op::Running` in it is the old one.
    pub value: ExprId,
    pub init: ExprId,
    /// Index variables that the value reduces over.
    pub vars: Vec<VarId>,
    pub span: Span,
}

/// A place where random numbers are drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    /// `plan.noise`, `u`, `encoder.0.weight` (an initial value): what the key is made of and how it is overridden.
    pub name: String,
    pub noise: Noise,
    pub axes: Vec<AxisId>,
    /// Index variables it varies over, in the order of the counter.
    pub vars: Vec<VarId>,
    /// One draw for each sample of the batch, or one for all.
    pub per_sample: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    pub name: String,
    /// An expression without axes and indices.
    pub weight: ExprId,
    /// Fractions of the training between which the loss fades in.
    pub warmup: Option<(f64, f64)>,
    /// Index into [`Model::optimizers`], where the loss belongs to one alone.
    pub optimizer: Option<usize>,
    pub parts: Vec<LossPart>,
    pub span: Span,
}

/// The mean of `value` over the batch and `vars`, over the entries where `condition` holds (zero if nowhere).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossPart {
    /// `value.ce`, or the loss's own name where it has one part.
    pub name: String,
    pub value: ExprId,
    pub condition: Option<ExprId>,
    pub vars: Vec<VarId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// `mse[3]` where the index is a listed constant.
    pub name: String,
    pub value: ExprId,
    pub condition: Option<ExprId>,
    pub vars: Vec<VarId>,
    /// The variable that stays an index of the metric: `drift[t]`.
    pub kept: Vec<VarId>,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Source {
    /// Segments of `time` observations out of past experience, `batch` at a time.
    Replay {
        capacity: u64,
        cross: bool,
        /// A segment is drawn by drawing its episode first, all with the same chance.
        by_episode: bool,
        context: u32,
        batch: Dim,
        time: Dim,
    },
    /// `steps` fresh transitions, visited `epochs` times in parts of `minibatch`.
    Rollout { steps: u64, epochs: u32, minibatch: u64, time: Dim },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Train {
    pub steps: u64,
    pub seed_steps: u64,
    pub every: u64,
    pub updates: u64,
    pub eval_every: u64,
    pub eval_episodes: u64,
    /// Episodes of a trained model on each changed task; as many as of an evaluation where nobody says.
    pub ood_episodes: Option<u64>,
    pub seeds: Vec<u64>,
    /// Ends the epochs of an on-policy update early, where it exceeds zero.
    pub stop_epoch: Option<StopRule>,
}

impl Train {
    /// Episodes of an evaluation at most: each has an environment of its own, and all run at the same time.
    pub const MAX_EPISODES: u64 = 10_000;
    /// The settings that are numbers of episodes.
    pub const EPISODES: [&str; 2] = ["eval_episodes", "ood_episodes"];

    /// Episodes of a trained model on each changed task.
    pub fn changed_episodes(&self) -> u64 {
        self.ood_episodes.unwrap_or(self.eval_episodes)
    }
}

/// `kl > 0.05`: the mean of a metric against a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopRule {
    pub metric: String,
    /// Of the last minibatch of an epoch, instead of the mean over all.
    #[serde(default)]
    pub last: bool,
    pub above: f64,
}

/// The action of the agent at a step, given the equations up to now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Act {
    /// Its own equations, a planner's among them, over index variables of their own.
    pub system: System,
    /// The variable `t`: now.
    pub now: VarId,
    /// The action while training and while evaluating.
    pub train: ExprId,
    pub eval: ExprId,
    /// The values that `act` names, array by array: `found.mean`.
    pub values: Vec<(String, ExprId)>,
    /// Values of earlier steps that acting reads, or that computing them for the next step needs.
    pub state: Vec<ActState>,
    /// Families of the training system that parameters alone determine, and that acting reads as they are.
    pub timeless: Vec<FamilyId>,
    /// New values of the planner's carries: `(carry, value)`.
    pub next: Vec<(usize, ExprId)>,
}

/// A value of the training system `lag` steps ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ActState {
    pub value: StateValue,
    pub lag: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StateValue {
    Family { family: FamilyId, leaf: usize },
    Input(usize),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optimizer {
    pub name: String,
    pub rule: Rule,
    /// Parameters with the factor of their learning rate.
    pub params: Vec<(ParamId, f64)>,
    /// Optimisers that step before it, by index.
    #[serde(default)]
    pub after: Vec<usize>,
    /// Parameters of these whose new values its losses see.
    #[serde(default)]
    pub sees: Vec<ParamId>,
    pub span: Span,
}

/// An update rule over the one abstract axis `entries` of a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub entries: AxisId,
    pub slots: Vec<String>,
    /// New values of the slots.
    pub next: Vec<ExprId>,
    /// The new parameter.
    pub value: ExprId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    /// The protocol (the `tasks` block) that it belongs to.
    pub protocol: String,
    /// Sizes it binds.
    pub dims: Vec<(String, u64)>,
    pub settings: Vec<(String, Setting)>,
}

/// A setting that is handed on to a task as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    Number(f64),
    Flag(bool),
    Text(String),
    List(Vec<Setting>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Model {
    pub name: String,
    pub axes: Vec<Axis>,
    pub dims: Vec<Dim>,
    pub inputs: Vec<Input>,
    pub action: Action,
    pub latents: Vec<Latent>,
    pub modules: Vec<Module>,
    pub params: Vec<Param>,
    pub carries: Vec<Carry>,
    pub schedules: Vec<Schedule>,
    pub draws: Vec<Draw>,
    pub exprs: Vec<Node>,
    /// All index variables, of all systems.
    pub vars: Vec<Var>,
    /// Equations at the training's sizes, with running statistics and losses.
    pub train: System,
    pub running: Vec<Running>,
    pub losses: Vec<Loss>,
    /// Families that are computed once, when the data is collected.
    pub records: Vec<FamilyId>,
    /// The equations again at the evaluation's sizes, for the metrics.
    pub evaluate: System,
    pub metrics: Vec<Metric>,
    /// Series of `diagnose`: those of the equations, and those of the task.
    pub diagnose: Vec<Diagnosis>,
    #[serde(default)]
    pub quantities: Vec<Quantity>,
    #[serde(default)]
    pub probes: Vec<Probe>,
    #[serde(default)]
    pub shows: Vec<Show>,
    pub act: Option<Act>,
    pub optimizers: Vec<Optimizer>,
    pub source: Source,
    pub settings: Train,
    pub tasks: Vec<Task>,
}

impl Model {
    pub fn node(&self, id: ExprId) -> &Node {
        &self.exprs[id.0 as usize]
    }

    pub fn axis(&self, id: AxisId) -> &Axis {
        &self.axes[id.0 as usize]
    }

    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.0 as usize]
    }

    /// Whether segments start with what was remembered before them.
    pub fn has_context(&self) -> bool {
        matches!(self.source, Source::Replay { context, .. } if context > 0)
    }

    /// Whether acting runs a planner: equations of its own are a planner's.
    pub fn plans(&self) -> bool {
        self.act.as_ref().is_some_and(|act| !act.system.families.is_empty())
    }

    /// The optimisers as they step: in the order of the text, each after those that it waits for. A circle is left out.
    pub fn optimizers_in_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        let ready =
            |order: &[usize], i: &usize| !order.contains(i) && self.optimizers[*i].after.iter().all(|o| order.contains(o));
        while let Some(next) = (0..self.optimizers.len()).find(|i| ready(&order, i)) {
            order.push(next);
        }
        order
    }

    /// The entry points of the compiled model.
    pub fn entry_points(&self) -> Vec<&'static str> {
        let points = [
            ("act", self.act.is_some()),
            ("plan", self.plans()),
            ("train_step", !self.losses.is_empty()),
            ("evaluate", !self.metrics.is_empty() || !self.diagnose.is_empty()),
            ("record", !self.records.is_empty()),
            ("context", self.has_context()),
        ];
        points.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
    }
}
