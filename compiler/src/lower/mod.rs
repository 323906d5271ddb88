//! From a checked model to graph programs: one for each entry point.
//!
//! A checked model says values for one sample at one point of its indices. Lowering lifts them: every index variable
//! becomes an axis, every sample an entry of the batch axis, and the order of computation that the checker found becomes
//! straight code and scans. Inner gradients are expanded on the way, so what comes out are plain operations.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | the graph under construction and the bodies of scans inside it |
//! | `family` | values of equations over boxes of subscripts |
//! | `stage`, `align`, `trim` | equations in order: how those of a loop run beside each other, and as far as they are read |
//! | `scan` | recurrences become scans |
//! | `segments` | recurrences whose equations hold over different ranges |
//! | `expr`, `leaves`, `arithmetic`, `arrays`, `inner` | expressions: all, leaves, elementwise, along axes, inner gradients |
//! | `diagonal` | entries picked along a variable by what varies with it |
//! | `entry` | the programs: `evaluate`, `record`, `schedules`, `init`, and by files of their own |
//! | `train`, `rule` | `train_step`: losses and gradients; update rules |
//! | `again` | optimisers that step one after the other: losses with changed parameters |
//! | `act` | `act` and `plan`: the present step, and what the next one remembers |
//! | `context` | `context`: what a segment remembers of the steps before it |
//! | `reads` | reads that depend on the program |

mod act;
mod again;
mod align;
mod arithmetic;
mod arrays;
mod context;
mod diagonal;
mod entry;
mod expr;
mod family;
mod frame;
mod inner;
mod leaves;
mod reads;
mod rule;
mod scan;
mod segments;
mod stage;
mod train;
mod trim;

use std::collections::{HashMap, HashSet};

use dsl::hir::{self, Model, VarId};
use dsl::source::Span;

use crate::ir::{AxisId, Graph, Op, Program, Role, ValueId};
use crate::memory::TooLarge;
use crate::stage::Lowered;
pub use act::FIRST;
use family::Families;
use frame::Frame;

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// The action while training, and the state for the next step.
    Act,
    /// The action while evaluating: the planner's loop, where the model has one.
    Plan,
    /// Losses, gradients, optimisers, slow copies, running statistics.
    TrainStep,
    /// Metrics and diagnostics on a segment.
    Evaluate,
    /// Values that are recorded when on-policy data is collected.
    Record,
    /// One step of what came before a segment: what the next one remembers.
    Context,
    /// Schedules as functions of the training's progress.
    Schedules,
    /// Initial values of parameters, carries and running statistics.
    Init,
}

impl Entry {
    pub const ALL: [Entry; 8] = [
        Entry::Act,
        Entry::Plan,
        Entry::TrainStep,
        Entry::Evaluate,
        Entry::Record,
        Entry::Context,
        Entry::Schedules,
        Entry::Init,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Entry::Act => "act",
            Entry::Plan => "plan",
            Entry::TrainStep => "train_step",
            Entry::Evaluate => "evaluate",
            Entry::Record => "record",
            Entry::Context => "context",
            Entry::Schedules => "schedules",
            Entry::Init => "init",
        }
    }

    pub fn parse(name: &str) -> Option<Entry> {
        Entry::ALL.into_iter().find(|e| e.name() == name)
    }
}

/// What the caller may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Samples in the batch, or environments that act at once; the model's own batch, or one, otherwise.
    pub batch: Option<usize>,
    /// Give out gradients, and every named equation.
    pub observe: bool,
    /// Values of equations that the caller gives instead, by name: `z.q`, `plan.mean`. Of a recurrence it is the start
    /// that is given.
    pub given: std::collections::BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    #[error("the size of `{0}` is not known: bind it with a task or `--dim {0}=..`")]
    Unbound(String),
    #[error("{what}")]
    Unsupported { what: String, span: Span },
    #[error(
        "a batch of {given} does not fit `{model}`, whose text counts on the {declared} samples that it declares: set the size with `--dim {name}={given}`"
    )]
    Batch { model: String, name: String, declared: usize, given: usize, span: Span },
    #[error("[E0703] an array of `{entry}` has more entries than can be counted")]
    Uncountable { entry: &'static str, span: Span },
    #[error(transparent)]
    TooLarge(#[from] Box<TooLarge>),
    #[error("`{model}` has no {entry}: {why}")]
    NoEntry { model: String, entry: &'static str, why: &'static str },
}

/// Lowers one entry point of a model whose sizes are all known.
pub fn lower(model: &Model, entry: Entry, options: Options) -> Result<Lowered> {
    let program = lowered(model, entry, options)?;
    debug_assert_eq!(crate::ir::verify::verify(&program), Ok(()), "{} of {}", entry.name(), model.name);
    Ok(Lowered(program))
}

/// [`lower`] for a model that may come out of somebody's artefact: what comes out is verified, and small enough for the
/// interpreter to run it here.
pub fn lower_untrusted(model: &Model, entry: Entry, options: Options) -> Result<Program> {
    let program = lowered(model, entry, options)?;
    let invalid =
        |what: String, span| LowerError::Unsupported { what: format!("the model does not hold together: {what}"), span };
    crate::ir::verify::verify(&program).map_err(|e| invalid(e.to_string(), e.span))?;
    crate::budget::interpreted(&program)?;
    Ok(program)
}

fn lowered(model: &Model, entry: Entry, options: Options) -> Result<Program> {
    let batch = options.batch;
    let mut lower = Lower::new(model, entry, options)?;
    lower.run(entry)?;
    let mut program = lower.program;
    program.graph = lower.frames.remove(0).graph;
    if let Some(span) = uncountable(&program, &program.graph) {
        return Err(LowerError::Uncountable { entry: entry.name(), span });
    }
    other_batch(model, &program, batch)?;
    Ok(program)
}

/// A model that lays its samples along an axis can name one of them, which a smaller batch does not have.
fn other_batch(model: &Model, program: &Program, given: Option<usize>) -> Result<()> {
    let hir::Source::Replay { batch, .. } = &model.source else { return Ok(()) };
    let axis = model.axis(batch.axis);
    let (Some(given), Some(declared)) = (given, axis.size.value()) else { return Ok(()) };
    let collects = model.exprs.iter().any(|node| matches!(node.op, hir::Op::Collect { batch: true, .. }));
    if given as i64 == declared || !collects {
        return Ok(());
    }
    crate::ir::verify::verify(program).map_err(|e| LowerError::Batch {
        model: model.name.clone(),
        name: axis.name.clone(),
        declared: declared.max(0) as usize,
        given,
        span: e.span,
    })
}

/// Entries of an array at most, so that later passes can multiply sizes and strides.
const MOST_ENTRIES: usize = 1 << 46;

/// The text of a value with more entries than [`MOST_ENTRIES`].
fn uncountable(program: &Program, graph: &Graph) -> Option<Span> {
    let countable = |axes: &[AxisId]| {
        let len = axes.iter().try_fold(1usize, |len, a| len.checked_mul(program.size(*a).max(1)));
        len.is_some_and(|len| len <= MOST_ENTRIES)
    };
    graph.nodes.iter().find_map(|node| match &node.op {
        _ if !countable(&node.axes) => Some(node.span),
        Op::Scan(scan) => uncountable(program, &scan.body),
        _ => None,
    })
}

/// Which of a model's systems a read belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Which {
    Train,
    Evaluate,
    Act,
}

/// What an index variable stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// All its values at once, from `lo` on. From the scan at depth `scan` inwards it is the loop's present value.
    Axis { axis: AxisId, lo: i64, size: i64, scan: Option<usize> },
    /// The present step of an acting agent.
    Now,
}

pub(crate) struct Lower<'m> {
    pub(crate) model: &'m Model,
    pub(crate) options: Options,
    pub(crate) entry: Entry,
    pub(crate) program: Program,
    pub(crate) frames: Vec<Frame>,
    pub(crate) axis_of: HashMap<hir::AxisId, AxisId>,
    pub(crate) bindings: HashMap<hir::VarId, Binding>,
    /// Ranges of variables cut down to what is read.
    pub(crate) trimmed: HashMap<hir::VarId, (i64, i64)>,
    pub(crate) families: Families,
    /// Expressions that gradients are taken by.
    pub(crate) variables: HashSet<hir::ExprId>,
    /// The system whose expressions are being lowered.
    pub(crate) which: Which,
    /// The batch axis; none for on-policy data, whose rows are the steps themselves.
    pub(crate) batch: Option<AxisId>,
    /// On-policy updates: how many rows there are instead of the steps of the rollout.
    pub(crate) rows: Option<i64>,
    /// On-policy updates: the first subscripts of equations, losses and metrics.
    pub(crate) steps: HashSet<VarId>,
    /// Draws whose indices were cut down, each with all its axes: several parts of the program read it.
    pub(crate) whole_draws: HashMap<usize, ValueId>,
    /// Values of inputs by name.
    pub(crate) inputs: HashMap<String, ValueId>,
    /// The running statistic being updated, which sees its old value.
    pub(crate) updating: Option<usize>,
    /// Running statistics that have their new value.
    pub(crate) updated: HashMap<usize, ValueId>,
    /// Values of earlier steps that the present one reads.
    pub(crate) remembers: Vec<(hir::StateValue, i64)>,
    /// Remembered values as the present step sees them: their starts where an episode begins.
    pub(crate) begun: HashMap<String, ValueId>,
    /// The executed action, once it is known.
    pub(crate) action: Option<ValueId>,
    /// In an update rule: the parameter's axes, and what the rule's names mean.
    pub(crate) rule: Option<rule::RuleValues>,
}

pub(crate) type Result<T> = std::result::Result<T, LowerError>;

impl<'m> Lower<'m> {
    fn new(model: &'m Model, entry: Entry, options: Options) -> Result<Lower<'m>> {
        let mut lower = Lower {
            model,
            options,
            entry,
            program: Program { name: entry.name().to_string(), ..Program::default() },
            frames: vec![Frame::default()],
            axis_of: HashMap::new(),
            bindings: HashMap::new(),
            trimmed: HashMap::new(),
            families: Families::default(),
            variables: inner::variables(model),
            which: Which::Train,
            batch: None,
            rows: None,
            steps: HashSet::new(),
            whole_draws: HashMap::new(),
            inputs: HashMap::new(),
            updating: None,
            updated: HashMap::new(),
            remembers: Vec::new(),
            begun: HashMap::new(),
            action: None,
            rule: None,
        };
        lower.set_batch()?;
        Ok(lower)
    }

    fn set_batch(&mut self) -> Result<()> {
        let acting = matches!(self.entry, Entry::Act | Entry::Plan);
        let size = match &self.model.source {
            hir::Source::Replay { batch, .. } => {
                let own = self.size_of(&self.model.axis(batch.axis).size.clone())?;
                Some(self.options.batch.unwrap_or(if acting { 1 } else { own }))
            }
            hir::Source::Rollout { minibatch, .. } => {
                if matches!(self.entry, Entry::TrainStep | Entry::Evaluate) {
                    self.rows = Some(self.options.batch.map_or(*minibatch as i64, |b| b as i64));
                    self.steps = first_subscripts(self.model);
                }
                if acting { Some(self.options.batch.unwrap_or(1)) } else { None }
            }
        };
        if let Some(size) = size {
            let axis = self.program.new_axis("B", size);
            self.batch = Some(axis);
            if let hir::Source::Replay { batch, .. } = &self.model.source {
                self.axis_of.insert(batch.axis, axis);
            }
            // The samples as an axis: as many as there are, whatever the model declares.
            let collected = self.model.exprs.iter().find_map(|node| match &node.op {
                hir::Op::Collect { vars, batch: true, into, .. } if vars.is_empty() => Some(*into),
                _ => None,
            });
            if let Some(into) = collected {
                let all = self.program.new_axis("all", size);
                self.axis_of.insert(into, all);
            }
        }
        Ok(())
    }

    pub(crate) fn system(&self) -> &'m hir::System {
        match self.which {
            Which::Train => &self.model.train,
            Which::Evaluate => &self.model.evaluate,
            Which::Act => self.model.act.as_ref().map_or(&self.model.train, |a| &a.system),
        }
    }

    /// Whether `training` holds: in updates only. Records and the steps before a segment see the model as the agent does.
    pub(crate) fn trains(&self) -> bool {
        self.entry == Entry::TrainStep
    }

    pub(crate) fn size_of(&self, size: &hir::Size) -> Result<usize> {
        match size.value() {
            Some(n) if n >= 0 => Ok(n as usize),
            _ => Err(LowerError::Unbound(size.symbols().first().unwrap_or(&"?").to_string())),
        }
    }

    /// The program's axis for an axis of the model.
    pub(crate) fn axis(&mut self, axis: hir::AxisId) -> Result<AxisId> {
        if let Some(id) = self.axis_of.get(&axis) {
            return Ok(*id);
        }
        let info = self.model.axis(axis);
        let size = self.size_of(&info.size.clone())?;
        let id = self.program.new_axis(&info.name.clone(), size);
        self.axis_of.insert(axis, id);
        Ok(id)
    }

    pub(crate) fn axes(&mut self, axes: &[hir::AxisId]) -> Result<Vec<AxisId>> {
        axes.iter().map(|a| self.axis(*a)).collect()
    }

    /// An array that the caller gives, as a value of the outermost graph.
    pub(crate) fn input(&mut self, name: String, role: Role, axes: Vec<AxisId>, span: Span) -> ValueId {
        if let Some(v) = self.inputs.get(&name) {
            return *v;
        }
        let number = self.program.inputs.len() as u32;
        self.program.inputs.push(crate::ir::Input { name: name.clone(), role, axes: axes.clone() });
        let v = self.frames[0].graph.push(crate::ir::Op::Input(number), axes, span);
        self.inputs.insert(name, v);
        v
    }

    pub(crate) fn unsupported<T>(&self, what: impl Into<String>, span: Span) -> Result<T> {
        Err(LowerError::Unsupported { what: what.into(), span })
    }

    pub(crate) fn output(&mut self, name: impl Into<String>, value: ValueId, updates: Option<String>) {
        let updates = updates.and_then(|n| self.program.input(&n));
        self.program.outputs.push(crate::ir::Output { name: name.into(), updates });
        self.frames[0].graph.results.push(value);
    }
}

/// The first subscript of every equation, loss, metric and statistic of a model.
fn first_subscripts(model: &hir::Model) -> HashSet<VarId> {
    let systems = [&model.train, &model.evaluate];
    let equations = systems.into_iter().flat_map(|s| &s.defs).map(|d| &d.vars);
    let losses = model.losses.iter().flat_map(|l| &l.parts).map(|p| &p.vars);
    let metrics = model.metrics.iter().map(|m| &m.vars).chain(model.diagnose.iter().map(|d| &d.vars));
    let running = model.running.iter().map(|r| &r.vars);
    equations.chain(losses).chain(metrics).chain(running).filter_map(|vars| vars.first().copied()).collect()
}
