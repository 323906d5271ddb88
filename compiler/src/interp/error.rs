//! What can go wrong in a run that is not the compiler's fault.

use dsl::source::Span;
use thiserror::Error;

#[derive(Debug, Clone, PartialEq, Error)]
pub enum RunError {
    #[error("the input `{name}` of `{program}` is missing")]
    MissingInput { program: String, name: String },
    #[error("`{program}` takes {expected} inputs, not {found}")]
    TooManyInputs { program: String, expected: usize, found: usize },
    #[error("`{name}` has the axes {found}, but {expected} are needed")]
    Axes { name: String, expected: String, found: String },
    #[error("`{name}` has {found} numbers, but {expected} are needed: {axes}")]
    Length { name: String, expected: usize, found: usize, axes: String },
    #[error("`{program}` has no random draw `{name}`{known}")]
    UnknownDraw {
        program: String,
        name: String,
        /// `: it has ..`, or nothing.
        known: String,
    },
    #[error("{count} distinct places out of {of} do not exist")]
    Subset { count: usize, of: u32, span: Span },
    #[error("`{output}` is not finite: the index {index} names none of {size} entries")]
    Index { output: String, index: f64, size: usize, span: Span },
    #[error("`{name}` is not finite: the number at place {place} is {value}")]
    GivenNotFinite { name: String, place: usize, value: f64 },
    #[error("`{output}` is not finite: `{op}` made {value} of finite numbers")]
    NotFinite { output: String, op: &'static str, value: f64, span: Span },
}

impl RunError {
    /// The text that the error came from, where there is one.
    pub fn span(&self) -> Option<Span> {
        match self {
            RunError::Subset { span, .. } | RunError::Index { span, .. } | RunError::NotFinite { span, .. } => Some(*span),
            RunError::MissingInput { .. }
            | RunError::TooManyInputs { .. }
            | RunError::Axes { .. }
            | RunError::Length { .. }
            | RunError::UnknownDraw { .. }
            | RunError::GivenNotFinite { .. } => None,
        }
    }
}
