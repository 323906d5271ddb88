//! The outcome of a diagnosis: for each `show` a table, numbers, figures.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::results::figures::Figure;

/// One thing that a model shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) form: String,
    pub(crate) title: String,
    pub(crate) unit: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// What the numbers are.
    pub(crate) note: String,
    /// All numbers behind figures and table.
    pub(crate) detail: Value,
    /// Files beside this one, and what they show.
    pub(crate) figures: Vec<(String, String)>,
}

/// A line of a table: a number for each column, where there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) values: Vec<Option<f64>>,
}

/// What a form makes of series.
pub(crate) struct Found {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    pub(crate) note: String,
    pub(crate) detail: Value,
    pub(crate) figures: Vec<Figure>,
}

impl Shown {
    /// Its title with its unit.
    pub(crate) fn heading(&self) -> String {
        self.unit.as_ref().map_or_else(|| self.title.clone(), |unit| format!("{} ({unit})", self.title))
    }

    /// The table as text cells, its head first; empty where there are no numbers.
    pub(crate) fn table(&self) -> Vec<Vec<String>> {
        if self.rows.is_empty() {
            return Vec::new();
        }
        let head = std::iter::once(String::new()).chain(self.columns.iter().cloned()).collect();
        let line = |row: &Row| std::iter::once(row.label.clone()).chain(row.values.iter().map(|x| number(*x))).collect();
        std::iter::once(head).chain(self.rows.iter().map(line)).collect()
    }
}

/// A number as people read it.
pub(crate) fn number(x: Option<f64>) -> String {
    match x {
        None => "–".into(),
        Some(x) if x.fract() == 0.0 && x.abs() < 1e6 => format!("{x}"),
        Some(x) if x.abs() < 1e-3 => format!("{x:.1e}"),
        Some(x) => format!("{x:.4}"),
    }
}
