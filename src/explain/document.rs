//! What `wmc explain --json` writes. Fields are added at will; none is renamed or removed.

use compiler::kernel::cost::Cost;
use serde::Serialize;

use super::lines::Lines;

#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub(crate) file: String,
    pub(crate) model: String,
    pub(crate) level: &'static str,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    pub(crate) entry: String,
    /// Bytes of all buffers and of one worker's locals, allocated once.
    pub(crate) memory: u64,
    /// What is run when parameters have changed.
    pub(crate) prepare: Part,
    /// What is run at every call.
    pub(crate) steps: Part,
}

#[derive(Debug, Serialize)]
pub(crate) struct Part {
    /// Loops of steps multiplied, as are the costs.
    pub(crate) launches: u64,
    pub(crate) kernels: u64,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    pub(crate) intensity: Option<f64>,
    pub(crate) list: Vec<KernelView>,
}

#[derive(Debug, Serialize)]
pub(crate) struct KernelView {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Kernels of one launch run at the same time.
    pub(crate) launch: u64,
    /// Runs in one call; what follows is of one run.
    pub(crate) times: u64,
    pub(crate) rows: Vec<usize>,
    pub(crate) ops: Vec<OpCount>,
    pub(crate) lines: Vec<Lines>,
    pub(crate) reason: String,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    pub(crate) on_chip: u64,
    pub(crate) intensity: Option<f64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct OpCount {
    pub(crate) op: String,
    pub(crate) count: u64,
}
