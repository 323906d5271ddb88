//! What can go wrong.

use std::path::PathBuf;

use compiler::run::CallError;
use runtime::tasks::{OwnError, TaskError};

/// What went wrong. Its text says what, and where there is one, what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model's text has mistakes. The text shows each of them with its place, as `wmc check` does.
    #[error("{0}")]
    Model(String),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no such entry point.
    #[error("there is no entry point `{name}`; there are {known}")]
    Entry {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// An entry point cannot be evaluated: the model does not have it, or the given tensors do not fit.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A training, a run or a policy fails.
    #[error(transparent)]
    Runtime(runtime::Error),
    /// An error of your own: what a [`World`](crate::World) gave, or what your code makes with [`Error::own`].
    #[error(transparent)]
    Own(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error of your own, so that one type goes through your program.
    pub fn own(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Own(error.into())
    }
}

impl From<runtime::Error> for Error {
    fn from(error: runtime::Error) -> Error {
        match error {
            runtime::Error::Task(TaskError::Own(own)) => Error::Own(Box::new(own)),
            runtime::Error::Call(error) => Error::Call(error),
            other => Error::Runtime(other),
        }
    }
}

impl From<TaskError> for Error {
    fn from(error: TaskError) -> Error {
        runtime::Error::from(error).into()
    }
}

impl From<OwnError> for Error {
    fn from(error: OwnError) -> Error {
        Error::Own(Box::new(error))
    }
}
