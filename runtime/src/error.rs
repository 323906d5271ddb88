//! Errors of the runtime.

use std::path::PathBuf;

use compiler::backend::DeviceError;
use compiler::kernel::fuse::FuseError;
use compiler::lower::LowerError;
use compiler::memory::TooLarge;
use compiler::run::CallError;

use crate::tasks::TaskError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Task(#[from] TaskError),
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("a fault of the compiler: {0}")]
    Kernels(String),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(
        "the data has a field `{field}`, which no task gives: tasks give obs, r, discount, first, terminal and take the action"
    )]
    Field { field: String },
    #[error("the size of {0} is not known")]
    Unbound(String),
    #[error("{0}")]
    Unsupported(String),
    #[error("`{model}` shows nothing in `diagnose {{ .. }}`")]
    NothingToShow { model: String },
    /// Something that a folder of a run may lack.
    #[error("{0}")]
    NotHere(String),
    #[error("the model lists no tasks, and none is given")]
    NoTask,
    #[error("there is no task `{name}` in the model; there are {known}")]
    UnknownTask { name: String, known: String },
    #[error("`{task}` is a world of the program that trained in it, and this program has no such world")]
    NoWorld { task: String },
    #[error("there is no setting `{name}`; there are {known}")]
    Setting { name: String, known: String },
    #[error("the setting `{name}` is `{found}` and should be {wanted}")]
    SettingValue { name: String, found: String, wanted: &'static str },
    #[error("[E0702] `{name}` is {found}, and at most {most} are possible")]
    TooMany { name: String, found: u64, most: u64 },
    #[error(transparent)]
    TooLarge(#[from] Box<TooLarge>),
    #[error("no episode has the {time} observations of a segment: there are {rows} in all, in shorter ones")]
    NoSegment { time: usize, rows: usize },
    #[error("the stored experience has {rows} rows, which do not fit a capacity of {capacity}")]
    Stored { rows: usize, capacity: usize },
    #[error("`{what}` is not finite ({value}) at update {update}: {place}")]
    NotFinite { what: String, value: f64, update: u64, place: String, span: Option<dsl::source::Span> },
    #[error("the observation has {found} numbers and should have {wanted}")]
    Observation { found: usize, wanted: usize },
    #[error("the observation is not finite: its entry {0} is no number")]
    ObservationNotFinite(usize),
    #[error("the reward is not finite: {0}")]
    RewardNotFinite(f64),
    #[error("the model decides by the reward of the step before, which was not told")]
    Untold,
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    /// An artefact cannot do what it is to do; the target that it would have to be compiled for, if that is why.
    #[error("{}: {reason}", path.display())]
    Compiled { path: PathBuf, reason: String, target: Option<&'static str> },
    /// A file or folder of a run is not what this program wrote.
    #[error("{}: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    #[error("`{}` is no run: {reason}", path.display())]
    NoRun { path: PathBuf, reason: String },
    #[error("{}: it was exported: it has no replay and no state of an optimiser, so its training cannot go on", path.display())]
    Exported { path: PathBuf },
    #[error("`{}` is being trained by another process", path.display())]
    Busy { path: PathBuf },
    #[error("no checkpoint of `{}` can be used:\n{reasons}", path.display())]
    NoCheckpoint { path: PathBuf, reasons: String },
    #[error("the checkpoint does not fit the model: {0}")]
    Misfit(String),
}

impl From<FuseError> for Error {
    fn from(error: FuseError) -> Error {
        match error {
            FuseError::TooLarge(refused) => Error::TooLarge(refused),
            fault @ (FuseError::Fault { .. } | FuseError::Pass(_)) => Error::Kernels(fault.to_string()),
        }
    }
}

impl Error {
    /// The refusal of something that does not fit into memory, whoever refused it.
    pub fn too_large(&self) -> Option<&TooLarge> {
        match self {
            Error::TooLarge(refused) | Error::Device(DeviceError::TooLarge(refused)) => Some(refused),
            Error::Call(error) => error.too_large(),
            _ => None,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, reason: impl std::fmt::Display) -> Error {
        Error::File { path: path.into(), reason: reason.to_string() }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, reason: impl std::fmt::Display) -> Error {
        Error::Damaged { path: path.into(), reason: reason.to_string() }
    }
}
