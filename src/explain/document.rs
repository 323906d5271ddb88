//! What `wmc explain --json` writes. Fields are added at will; none is renamed or removed.

use compiler::backend::cube::{Emitted, Note};
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
    /// Bytes of each thread's locals: more threads need so much more.
    pub(crate) thread: u64,
    /// The largest arrays, the largest first.
    pub(crate) largest: Vec<ArrayView>,
    /// The work after a change of parameters.
    pub(crate) prepare: Part,
    /// The work of every call.
    pub(crate) steps: Part,
    /// Where `--target` asks for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) devices: Vec<OnDevice>,
}

/// An array of the program.
#[derive(Debug, Serialize)]
pub(crate) struct ArrayView {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// Where it comes from.
    pub(crate) lines: Vec<Lines>,
}

/// What becomes of it on a device.
#[derive(Debug, Serialize)]
pub(crate) struct OnDevice {
    pub(crate) target: String,
    pub(crate) launches: u64,
    /// Units of a cube, and bytes of its shared memory: the most of any launch.
    pub(crate) units: u32,
    pub(crate) shared: u64,
    /// Decisions with their reasons, such as what does not fit on chip.
    pub(crate) notes: Vec<Note>,
}

impl OnDevice {
    pub(crate) fn of(target: String, emitted: &Emitted) -> OnDevice {
        OnDevice {
            target,
            launches: Emitted::launches(&emitted.steps) as u64,
            units: emitted.kernels.iter().map(|k| k.cube_dim).max().unwrap_or(0),
            shared: emitted.kernels.iter().map(|k| k.shared_bytes).max().unwrap_or(0) as u64,
            notes: emitted.notes.clone(),
        }
    }
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
