//! Tasks: worlds to act in.
//!
//! A [`Task`] is bare physics with a reward at each control step. What a `.wm` file says about it (`repeat`, `length`, ..)
//! is added by an [`Environment`]. Nothing here draws random numbers behind the caller's back: an episode is a
//! function of its seed and its actions, so that the state of a task is a plain list of numbers.
//!
//! | file | subject |
//! |---|---|
//! | [`cartpole`], [`reacher`], [`pendulum`] | embedded tasks, in closed form |
//! | [`mujoco`] | tasks of MuJoCo, opened at run time where it is installed |
//! | [`environment`] | action repeat, time limit, action delay, masks |
//! | [`many`] | several environments at once |
//! | [`perturb`] | changes to a task that a trained agent has not seen |
//! | [`scene`] | what a task looks like |
//! | [`suite`] | tasks by name |

pub mod cartpole;
pub mod environment;
mod limit;
pub mod many;
pub mod mujoco;
pub mod pendulum;
pub mod perturb;
pub mod reacher;
pub mod scene;
mod shaping;
pub mod suite;

pub use environment::{Environment, Length, Settings, Transition};
pub use many::Environments;
pub use perturb::Perturbation;

/// Sizes of a task. Actions lie in -1..1 along each of their entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// What messages and run folders call it.
    pub name: String,
    /// Numbers of an observation.
    pub observation: usize,
    /// Numbers of an action.
    pub action: usize,
}

/// What a control step leads to, besides the new state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Of this control step.
    pub reward: f64,
    /// The episode is over for good: nothing comes after it. A time limit is no such end.
    pub terminal: bool,
}

/// What is wrong with a task.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    #[error("there is no task `{name}`; there are {known}")]
    Unknown { name: String, known: String },
    #[error("the task `{task}` has no setting `{setting}`; there are {known}")]
    Setting { task: String, setting: String, known: String },
    #[error("the setting `{setting}` of the task `{task}` is {found} and should be {wanted}")]
    SettingValue { task: String, setting: String, found: String, wanted: &'static str },
    #[error("the task `{task}` has {what} of {found} numbers, and the model has {wanted}")]
    Size { task: String, what: &'static str, found: usize, wanted: usize },
    #[error("the task `{task}` cannot be changed by `{change}`: {why}")]
    Perturbation { task: String, change: String, why: &'static str },
    #[error("`{0}` is no change of a task: write mass=0.7, damping=2, actuator=1.3, friction=0.5, delay=2, mask=0.3, kick=5")]
    NoPerturbation(String),
    #[error("the task `{task}` gave {value:e} as {what} at step {step} of an episode")]
    NotFinite { task: String, what: String, value: f64, step: u64 },
    #[error("the physics of the task `{task}` diverged: MuJoCo found a number that is NaN or too large as {what}")]
    Diverged { task: String, what: String },
    #[error("the task's description `{path}`: {reason}")]
    Described { path: String, reason: String },
    #[error("the saved state of the task `{task}` has {found} numbers and should have {wanted}")]
    State { task: String, found: usize, wanted: usize },
    #[error("the task `{task}` found no start without contacts in {tries} tries")]
    NoStart { task: String, tries: u64 },
    #[error(transparent)]
    Mujoco(#[from] mujoco::MujocoError),
    #[error(transparent)]
    Own(#[from] OwnError),
}

impl TaskError {
    /// An error of a task that is not one of ours.
    pub fn own(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TaskError {
        TaskError::Own(OwnError(error.into().into()))
    }
}

/// An error that a user's own task gave. Two are equal if they are the same one.
#[derive(Debug, Clone)]
pub struct OwnError(std::sync::Arc<dyn std::error::Error + Send + Sync>);

impl OwnError {
    /// The error as it was given.
    pub fn inner(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl PartialEq for OwnError {
    fn eq(&self, other: &OwnError) -> bool {
        std::sync::Arc::ptr_eq(&self.0, &other.0)
    }
}

impl std::fmt::Display for OwnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OwnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// A world: physics and a reward.
pub trait Task: Send + std::fmt::Debug {
    /// Its name and sizes.
    fn spec(&self) -> &Spec;

    /// Starts an episode. The same seed gives the same episode.
    fn reset(&mut self, seed: u64) -> Result<(), TaskError>;

    /// One control step with an action in -1..1.
    fn step(&mut self, action: &[f64]) -> Result<Outcome, TaskError>;

    /// The present observation, of the size of the spec.
    fn observe(&self, observation: &mut [f64]);

    /// Everything that the rest of the episode depends on.
    fn save(&self) -> Vec<f64>;

    /// Goes on from a saved state, to the same bits.
    fn restore(&mut self, state: &[f64]) -> Result<(), TaskError>;

    /// Changes the physics, from the next [`Task::reset`] on. A task may have none of these changes.
    fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        Err(TaskError::Perturbation { task: self.spec().name.clone(), change: change.to_string(), why: "it knows no changes" })
    }

    /// Kinetic and potential energy, where the task knows them.
    fn energy(&mut self) -> Option<f64> {
        None
    }

    /// What it looks like now, where it knows.
    fn scene(&mut self) -> Option<scene::Scene> {
        None
    }
}

/// Numbers that are to be drawn at the start of an episode.
pub(crate) fn draws(task: &str, seed: u64) -> impl FnMut() -> f64 + use<> {
    let stream = compiler::random::Stream::new(task, seed, "reset", 0);
    let mut next = 0;
    move || {
        next += 1;
        stream.uniform(next - 1)
    }
}

/// As many numbers as the task saved, or an error.
pub(crate) fn saved<const N: usize>(task: &Spec, state: &[f64]) -> Result<[f64; N], TaskError> {
    state.try_into().map_err(|_| TaskError::State { task: task.name.clone(), found: state.len(), wanted: N })
}
