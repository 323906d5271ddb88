//! Artefacts (`.wmx`): a compiled model in one file, for those who have its parameters and not its text.
//!
//! ```text
//! wmx 1
//! sha256 2c26b46b68ffc68f..          of all that follows
//! {"about":{..},"model":{..},"entries":[..]}
//! ```
//!
//! The document has what was compiled for whom, the checked model, and for every entry point the table of its inputs and
//! outputs (parameters among them, with roles and shapes) and its kernels in their [text form](crate::kernel::text), which
//! has every buffer and the planned place of every local; for devices also the text that they compile, with their plan of
//! memory. What a program computes is known from the kernels alone; the
//! checked model says the rest: where parameters start, what a task gives, how long the training was meant to be.

use std::fmt::Write as _;

use dsl::hir::Model;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::backend::cpu;
use crate::backend::cube::Emitted;
use crate::ir::{self, Graph, Op};
use crate::kernel::fuse::{FuseError, Level, fuse};
use crate::kernel::verify::{VerifyError, verify};
use crate::kernel::{self, text};
use crate::lower::{Entry, LowerError, Options, lower};
use crate::memory;
use crate::simplify::simplify;
use crate::stage::Simplified;

/// The format that is written; others are refused.
pub const FORMAT: u32 = 1;
/// How the file's name ends.
pub const EXTENSION: &str = "wmx";

/// What was compiled, and for whom. Two that are equal have equal kernels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub model: String,
    /// Of the model's texts, name and sizes: what a checkpoint says too.
    pub fingerprint: String,
    /// Which build compiled it.
    pub compiler: String,
    pub targets: Vec<String>,
    pub level: String,
    /// Samples in the batch, or environments that act at once, where another number than the model's own was asked for.
    pub batch: Option<usize>,
    pub entries: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Artefact {
    pub about: About,
    pub model: Model,
    pub entries: Vec<EntryPoint>,
}

/// One entry point, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryPoint {
    /// Names, roles and shapes of inputs and outputs: the graph program, of whose graph only the results that are inputs are left.
    pub interface: ir::Program,
    /// Operations that the graph had.
    pub operations: usize,
    pub kernels: kernel::Program,
    /// For devices, one for each target that was asked for.
    pub emitted: Vec<Emitted>,
}

/// What cannot be compiled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CompileError {
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error("a kernel does not hold its invariants: {0}")]
    Verify(#[from] VerifyError),
}

/// Why a file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtefactError {
    #[error("it is no artefact")]
    Foreign,
    #[error("its format is {0}, and this program reads {FORMAT}: compile the model again")]
    Format(String),
    #[error("it is not as it was written: it was cut off or edited")]
    Edited,
    #[error("it is not what a compiler writes: {0}")]
    Content(String),
}

/// The document, with programs as text: a JSON number is never infinite.
#[derive(Serialize, Deserialize)]
struct Document {
    about: About,
    model: Model,
    entries: Vec<Stored>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    interface: ir::Program,
    operations: usize,
    kernels: String,
    /// Without their constants, which the kernels have.
    emitted: Vec<Emitted>,
}

/// What stays of a graph: which results are inputs as they are. Whoever calls the program must know it of `r[t-1]`, which it
/// brings along only afterwards.
fn passed_on(graph: &Graph) -> Graph {
    let mut kept = Graph::default();
    for result in &graph.results {
        let node = graph.node(*result);
        let op = if let Op::Input(n) = node.op { Op::Input(n) } else { Op::Const(0.0) };
        let id = kept.push(op, node.axes.clone(), node.span);
        kept.results.push(id);
    }
    kept
}

impl EntryPoint {
    /// Compiles an entry point of a model.
    pub fn compile(model: &Model, entry: Entry, batch: Option<usize>, level: Level) -> Result<EntryPoint, CompileError> {
        EntryPoint::of(simplify(lower(model, entry, Options { batch, ..Options::default() })?), level)
    }

    /// Compiles a graph program. Its kernels are the processor's; text for devices is made of them.
    pub fn of(program: Simplified, level: Level) -> Result<EntryPoint, CompileError> {
        let kernels = fuse(&program, &cpu::TARGET, level)?;
        // What does not fit into memory is described, and refused wherever it would run.
        if cpu::needs(&kernels, 1).bytes() <= memory::limit() {
            verify(&kernels)?;
        }
        let mut graph = program.into_program();
        let operations = graph.counts().values().sum();
        graph.graph = passed_on(&graph.graph);
        Ok(EntryPoint { interface: graph, operations, kernels, emitted: Vec::new() })
    }

    pub fn name(&self) -> &str {
        &self.kernels.name
    }
}

impl Artefact {
    pub fn entry(&self, entry: Entry) -> Option<&EntryPoint> {
        self.entries.iter().find(|e| e.name() == entry.name())
    }

    /// The file. Comments of kernels are not in it.
    pub fn write(&self) -> Result<Vec<u8>, ArtefactError> {
        let stored = |e: &EntryPoint| Stored {
            interface: e.interface.clone(),
            operations: e.operations,
            kernels: text::print(&e.kernels),
            emitted: e.emitted.iter().map(|d| Emitted { constants: Vec::new(), ..d.clone() }).collect(),
        };
        let document =
            Document { about: self.about.clone(), model: self.model.clone(), entries: self.entries.iter().map(stored).collect() };
        let body = serde_json::to_string(&document).map_err(|e| ArtefactError::Content(e.to_string()))?;
        Ok(format!("wmx {FORMAT}\nsha256 {}\n{body}", sha256(body.as_bytes())).into_bytes())
    }

    /// Reads a file that is whole, and whose kernels hold their invariants.
    pub fn read(bytes: &[u8]) -> Result<Artefact, ArtefactError> {
        let Document { about, model, entries } = document(bytes)?;
        model.validate().map_err(ArtefactError::Content)?;
        let entry = |stored: Stored| {
            let content = |e: &dyn std::fmt::Display| ArtefactError::Content(e.to_string());
            let kernels = text::parse(&stored.kernels).map_err(|e| content(&e))?;
            verify(&kernels).map_err(|e| content(&e))?;
            table(&stored.interface, &kernels).map_err(|e| content(&e))?;
            let mut emitted = stored.emitted;
            emitted.iter_mut().for_each(|e| e.constants = kernels.constants());
            Ok(EntryPoint { interface: stored.interface, operations: stored.operations, kernels, emitted })
        };
        Ok(Artefact { about, model, entries: entries.into_iter().map(entry).collect::<Result<_, _>>()? })
    }
}

/// Whether the table of inputs and outputs is that of the kernels: as many arrays, of the same lengths.
fn table(interface: &ir::Program, kernels: &kernel::Program) -> Result<(), String> {
    let (name, graph) = (&kernels.name, &interface.graph);
    if *name != interface.name {
        return Err(format!("the kernels of `{}` are those of `{name}`", interface.name));
    }
    if (kernels.inputs.len(), kernels.outputs.len()) != (interface.inputs.len(), interface.outputs.len())
        || graph.results.len() != interface.outputs.len()
    {
        return Err(format!("`{name}` and its table of inputs and outputs differ"));
    }
    let same_length = |what: &str, axes: &[ir::AxisId], id: &kernel::BufferId| {
        let sizes = axes.iter().map(|axis| interface.axes.get(axis.0 as usize).map(|axis| axis.size));
        let len = sizes.into_iter().try_fold(1usize, |n, size| n.checked_mul(size?));
        let buffer = &kernels.buffers[id.0 as usize];
        match len {
            Some(len) if len == buffer.len => Ok(()),
            Some(len) => Err(format!("`{name}`: {what} has {len} numbers in the table and {} in the kernels", buffer.len)),
            None => Err(format!("`{name}`: {what} has an axis that is not there, or one that is too long")),
        }
    };
    for (input, id) in interface.inputs.iter().zip(&kernels.inputs) {
        same_length(&format!("the input `{}`", input.name), &input.axes, id)?;
    }
    for ((output, id), result) in interface.outputs.iter().zip(&kernels.outputs).zip(&graph.results) {
        let what = format!("the output `{}`", output.name);
        let node = graph.nodes.get(result.0 as usize).ok_or_else(|| format!("`{name}`: {what} is no value of its graph"))?;
        same_length(&what, &node.axes, id)?;
        if let Op::Input(input) = node.op
            && input as usize >= interface.inputs.len()
        {
            return Err(format!("`{name}`: {what} is the input {input}, which is not there"));
        }
        let Some(updated) = output.updates else { continue };
        let Some(input) = kernels.inputs.get(updated) else {
            return Err(format!("`{name}`: {what} updates the input {updated}, which is not there"));
        };
        if kernels.buffers[input.0 as usize].len != kernels.buffers[id.0 as usize].len {
            return Err(format!("`{name}`: {what} updates an input of another length"));
        }
    }
    Ok(())
}

/// What a file says of itself, if it is whole.
pub fn about(bytes: &[u8]) -> Result<About, ArtefactError> {
    /// The first part alone: the rest is read past.
    #[derive(Deserialize)]
    struct Head {
        about: About,
    }
    let head: Head = serde_json::from_str(body(bytes)?).map_err(|e| ArtefactError::Content(e.to_string()))?;
    Ok(head.about)
}

fn document(bytes: &[u8]) -> Result<Document, ArtefactError> {
    let body = body(bytes)?;
    serde_json::from_str(body).map_err(|e| ArtefactError::Content(format!("{e}{}", written_by(body))))
}

/// Which build wrote a document, as far as it can be read: the first that is asked of a file that cannot.
fn written_by(body: &str) -> String {
    #[derive(Deserialize)]
    struct Head {
        about: Build,
    }
    #[derive(Deserialize)]
    struct Build {
        compiler: String,
    }
    let Ok(Head { about: Build { compiler } }) = serde_json::from_str(body) else { return String::new() };
    let compiler: String = compiler.chars().filter(|c| !c.is_control()).take(60).collect();
    format!(", written by `{compiler}`")
}

/// The document of a file whose format is ours and whose sum is right.
fn body(bytes: &[u8]) -> Result<&str, ArtefactError> {
    let after = bytes.strip_prefix(b"wmx ").ok_or(ArtefactError::Foreign)?;
    let text = std::str::from_utf8(after).map_err(|_| ArtefactError::Edited)?;
    let (format, text) = text.split_once('\n').ok_or(ArtefactError::Edited)?;
    if format != FORMAT.to_string() {
        let format: String = format.chars().filter(|c| !c.is_control()).take(20).collect();
        let by = text.split_once('\n').map_or(String::new(), |(_, body)| written_by(body));
        return Err(ArtefactError::Format(format + &by));
    }
    let (sum, body) = text.split_once('\n').ok_or(ArtefactError::Edited)?;
    if sum.strip_prefix("sha256 ") == Some(&sha256(body.as_bytes())) { Ok(body) } else { Err(ArtefactError::Edited) }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
