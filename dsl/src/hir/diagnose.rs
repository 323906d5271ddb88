//! The `diagnose { .. }` of a checked model: series, probes, and figures and numbers about them.

use serde::{Deserialize, Serialize};

use super::{ExprId, Setting, VarId};
use crate::source::Span;

/// A series: a value of the evaluation's equations for each decision, `size = norm(z[t])`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub name: String,
    pub value: ExprId,
    /// The decision, and behind it the step of a prediction, where there is one.
    pub vars: Vec<VarId>,
}

/// A series that the task measures: `total = task("..")`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity {
    pub name: String,
    /// The task's name for it.
    pub of: String,
}

/// Who acts in a probe's episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Actions {
    /// Nobody: the action is zero.
    Passive,
    /// Uniform over the action's range, a new one for each decision.
    Random,
    Policy,
    /// The episodes that the training has stored.
    Replay,
}

/// Episodes along which series are followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    pub name: String,
    pub title: Option<String>,
    pub actions: Actions,
    pub episodes: Option<u64>,
    /// Settings of the task that differ here: `repeat`, and `length` or `control_steps`.
    pub settings: Vec<(String, Setting)>,
    /// Changes of the task, as `mass = 0.7`.
    pub changes: Vec<(String, f64)>,
    pub span: Span,
}

/// Something to draw or to count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Show {
    pub name: String,
    pub form: Form,
    pub title: Option<String>,
    pub unit: Option<String>,
    /// Names of series by argument.
    pub series: Vec<(String, Vec<String>)>,
    /// Names of probes by argument.
    pub probes: Vec<(String, Vec<String>)>,
    pub numbers: Vec<(String, Vec<f64>)>,
    pub span: Span,
}

impl Show {
    /// The series of an argument; none where it was left out.
    pub fn series(&self, argument: &str) -> &[String] {
        of(&self.series, argument)
    }

    pub fn probes(&self, argument: &str) -> &[String] {
        of(&self.probes, argument)
    }

    pub fn numbers(&self, argument: &str) -> &[f64] {
        of(&self.numbers, argument)
    }

    /// A setting that is true or false.
    pub fn flag(&self, argument: &str) -> bool {
        self.numbers(argument).first().is_some_and(|x| *x != 0.0)
    }

    /// Its title in a report.
    pub fn title(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

fn of<'s, T>(all: &'s [(String, Vec<T>)], argument: &str) -> &'s [T] {
    all.iter().find(|(name, _)| name == argument).map_or(&[], |(_, found)| found)
}

macro_rules! forms {
    ($($variant:ident $name:literal,)*) => {
        /// What `show` can draw and count; `docs/guide/diagnose.md` defines each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Form { $($variant,)* }

        impl Form {
            pub const ALL: &[Form] = &[$(Form::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(Form::$variant => $name,)* }
            }
        }
    };
}

forms! {
    Trace "trace",
    Bands "bands",
    Slice "slice",
    Components "components",
    Expansion "expansion",
    Mean "mean",
    Fraction "fraction",
    Drift "drift",
    Departure "departure",
    Correlation "correlation",
    Balance "balance",
    Crossings "crossings",
    Horizon "horizon",
}
