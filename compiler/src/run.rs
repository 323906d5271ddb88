//! One entry point on named tensors: how anyone compares a model with an implementation of their own.
//!
//! Everything that goes in has a stable name (`param.core.0.weight`, `slow.value.0.bias`, `data.obs`, `draw.plan.noise`,
//! `carry.m.0.h`, `running.R`, `schedule.alpha`, `record.adv`, `slot.main.m.core.0.weight`, `progress`, `count.main`) and may be given; so may the values of an equation
//! (`value.z.q`, and `value.plan.mean`: where a planner starts). What
//! is not given has a value of its own: parameters start as the language says, slow copies as their parameters, slots at
//! zero, schedules from `progress`, draws from the seed. Data is always given.

mod kernels;

use std::collections::{BTreeMap, BTreeSet};

use dsl::hir::Model;
pub use kernels::Kernels;

use crate::backend::DeviceError;
use crate::interp::{self, Array, Clock, Real, RunError, RunOptions};
use crate::ir::{Program, Role};
use crate::kernel::fuse::FuseError;
use crate::lower::{self, Entry, LowerError, Options};
use crate::memory::{self, TooLarge};
use crate::simplify::simplify;
use crate::stage::Simplified;

/// An array with a shape, in double precision whatever it was stored as.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub data: Vec<f64>,
}

pub type Tensors = BTreeMap<String, Tensor>;

/// What to run, and how.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    pub entry: Entry,
    /// Give out gradients and the values of all equations.
    pub observe: bool,
    /// Double precision.
    pub double: bool,
    pub seed: u64,
    /// Which update or decision it is: part of the keys of random draws.
    pub step: u64,
    /// How far the training has come, from 0 to 1.
    pub progress: f64,
    /// Samples in the batch; taken from the data otherwise.
    pub batch: Option<usize>,
    /// Report numbers that are not finite.
    pub check: bool,
    /// Simplify the program before it runs.
    pub simplify: bool,
    /// What computes it; the interpreter otherwise.
    pub kernels: Option<Kernels>,
}

impl Default for Call {
    fn default() -> Call {
        Call {
            entry: Entry::TrainStep,
            observe: false,
            double: false,
            seed: 0,
            step: 0,
            progress: 0.0,
            batch: None,
            check: true,
            simplify: true,
            kernels: None,
        }
    }
}

/// What is wrong with the given tensors, each named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Misfit {
    pub missing: Vec<String>,
    pub unknown: Vec<String>,
    /// Name, wanted shape, given shape.
    pub misshapen: Vec<(String, Vec<usize>, Vec<usize>)>,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut lines = Vec::new();
        lines.extend(self.missing.iter().map(|n| format!("missing: {n}")));
        lines.extend(self.unknown.iter().map(|n| format!("unknown: {n}")));
        lines.extend(
            self.misshapen
                .iter()
                .map(|(n, want, have)| format!("misshapen: {n} has the shape {have:?} and should have {want:?}")),
        );
        write!(f, "{}", lines.join("\n"))
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the given tensors do not fit the model:\n{0}")]
    Misfit(Misfit),
    #[error("kernels compute in single precision")]
    Double,
    #[error(transparent)]
    TooLarge(#[from] Box<TooLarge>),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("`{output}` is not finite: the number at place {place} is {value}, and the interpreter's is finite")]
    NotFinite { output: String, place: usize, value: f64 },
}

impl CallError {
    /// The refusal of a program that does not fit into memory, whoever refused it.
    pub fn too_large(&self) -> Option<&TooLarge> {
        match self {
            CallError::TooLarge(refused)
            | CallError::Lower(LowerError::TooLarge(refused))
            | CallError::Fuse(FuseError::TooLarge(refused))
            | CallError::Device(DeviceError::TooLarge(refused)) => Some(refused),
            _ => None,
        }
    }
}

/// Lowers an entry point for the sizes of the given data.
pub fn program(model: &Model, call: &Call, given: &Tensors) -> Result<Simplified, CallError> {
    let batch = call.batch.or_else(|| batch_of(model, given));
    let values = given.keys().filter_map(|n| n.strip_prefix("value.")).map(str::to_string).collect();
    let lowered = lower::lower(model, call.entry, Options { batch, observe: call.observe, given: values })?;
    Ok(if call.simplify { simplify(lowered) } else { Simplified::as_it_is(lowered.into_program()) })
}

/// The batch that the given data has: the first dimension of any field of it.
fn batch_of(model: &Model, given: &Tensors) -> Option<usize> {
    model.inputs.iter().find_map(|i| given.get(&format!("data.{}", i.name))).and_then(|t| t.shape.first().copied())
}

/// Runs an entry point.
pub fn call(model: &Model, call: &Call, given: &Tensors) -> Result<Tensors, CallError> {
    if call.double && call.kernels.is_some() {
        return Err(CallError::Double);
    }
    let program = program(model, call, given)?;
    match call.kernels {
        Some(kernels) => kernels::run(model, call, kernels, &program, given),
        None if call.double => run::<f64>(model, call, &program, given),
        None => run::<f32>(model, call, &program, given),
    }
}

fn run<T: Real>(model: &Model, call: &Call, program: &Program, given: &Tensors) -> Result<Tensors, CallError> {
    memory::check_graph(program, size_of::<T>() as u64, model)?;
    let (inputs, draws) = arrays::<T>(model, call, program, given)?;
    let clock = Clock { seed: call.seed, step: call.step };
    let outputs = interp::run_with(program, &inputs, &draws, clock, RunOptions { check: call.check })?;
    Ok(program
        .outputs
        .iter()
        .zip(outputs)
        .map(|(o, a)| {
            let shape = a.axes.iter().map(|x| program.size(*x)).collect();
            (o.name.clone(), Tensor { shape, data: a.data.iter().map(|x| x.to_f64()).collect() })
        })
        .collect())
}

/// A program's inputs in order, and the draws that are given, by name.
pub type Arrays<T> = (Vec<Array<T>>, BTreeMap<String, Array<T>>);

/// What a program reads: the given tensors, and values of their own for those that may be left out.
pub fn arrays<T: Real>(model: &Model, call: &Call, program: &Program, given: &Tensors) -> Result<Arrays<T>, CallError> {
    let defaults = defaults(model, call, program, given)?;
    let mut misfit = Misfit::default();
    let mut inputs: Vec<Array<T>> = Vec::new();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for input in &program.inputs {
        let shape: Vec<usize> = input.axes.iter().map(|a| program.size(*a)).collect();
        let tensor = match given.get_key_value(&input.name) {
            Some((name, t)) => {
                used.insert(name);
                Some(t)
            }
            None => defaults.get(&input.name),
        };
        match tensor {
            None => misfit.missing.push(input.name.clone()),
            Some(t) if t.shape != shape && !(shape.is_empty() && t.data.len() == 1) => {
                misfit.misshapen.push((input.name.clone(), shape, t.shape.clone()));
            }
            Some(t) => inputs.push(Array { axes: input.axes.clone(), data: t.data.iter().map(|x| T::from_f64(*x)).collect() }),
        }
    }
    let mut draws: BTreeMap<String, Array<T>> = BTreeMap::new();
    for (name, axes) in draw_axes(program) {
        let key = format!("draw.{name}");
        let Some((full, t)) = given.get_key_value(&key) else { continue };
        used.insert(full);
        let shape: Vec<usize> = axes.iter().map(|a| program.size(*a)).collect();
        if t.shape == shape {
            draws.insert(name, Array { axes, data: t.data.iter().map(|x| T::from_f64(*x)).collect() });
        } else {
            misfit.misshapen.push((key, shape, t.shape.clone()));
        }
    }
    let known = known_names(model);
    misfit.unknown.extend(given.keys().filter(|n| !used.contains(n.as_str()) && !known.contains(n.as_str())).cloned());
    if misfit != Misfit::default() {
        return Err(CallError::Misfit(misfit));
    }
    Ok((inputs, draws))
}

/// Names and axes of the program's draws.
pub fn draw_axes(program: &Program) -> Vec<(String, Vec<crate::ir::AxisId>)> {
    let mut found: BTreeMap<String, Vec<crate::ir::AxisId>> = BTreeMap::new();
    for node in &program.graph.nodes {
        if let crate::ir::Op::Random { draw, .. } = node.op {
            found.entry(program.draws[draw as usize].clone()).or_insert_with(|| node.axes.clone());
        }
    }
    found.into_iter().collect()
}

/// Everything that the model gives a name to, whether or not this entry point needs it.
pub fn known_names(model: &Model) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for p in &model.params {
        names.insert(format!("param.{}", p.path));
        names.insert(format!("slow.{}", p.path));
        for o in &model.optimizers {
            names.extend(o.rule.slots.iter().map(|s| format!("slot.{}.{s}.{}", o.name, p.path)));
        }
    }
    names.extend(model.inputs.iter().map(|i| format!("data.{}", i.name)));
    names.extend(model.inputs.iter().map(|i| format!("carry.{}", i.name)));
    names.extend(model.carries.iter().map(|c| format!("carry.{}", c.path)));
    names.extend(model.draws.iter().map(|d| format!("draw.{}", d.name)));
    names.extend(model.running.iter().map(|r| format!("running.{}", r.name)));
    names.extend(model.schedules.iter().map(|s| format!("schedule.{}", s.name)));
    names.insert("progress".to_string());
    names.insert(lower::FIRST.to_string());
    names.extend(model.optimizers.iter().map(|o| format!("count.{}", o.name)));
    for id in &model.records {
        let f = model.train.family(*id);
        names.extend(
            f.leaves
                .iter()
                .map(|l| if l.path.is_empty() { format!("record.{}", f.name) } else { format!("record.{}.{}", f.name, l.path) }),
        );
    }
    names
}

/// Values of inputs that may be left out.
fn defaults(model: &Model, call: &Call, program: &Program, given: &Tensors) -> Result<Tensors, CallError> {
    let mut out = Tensors::new();
    let scalar = |x: f64| Tensor { shape: Vec::new(), data: vec![x] };
    out.insert("progress".into(), scalar(call.progress));
    for o in &model.optimizers {
        out.insert(format!("count.{}", o.name), scalar((call.step + 1) as f64));
    }
    let wants = |role: Role| program.inputs.iter().any(|i| i.role == role && !given.contains_key(&i.name));
    if wants(Role::Schedule) {
        let schedules = lower::lower(model, Entry::Schedules, Options::default())?;
        let inputs: Vec<Array<f64>> = schedules
            .inputs
            .iter()
            .map(|i| {
                let value = given.get(&i.name).or(out.get(&i.name)).and_then(|t| t.data.first().copied()).unwrap_or(0.0);
                Array { axes: Vec::new(), data: vec![value] }
            })
            .collect();
        let values = interp::run(&schedules, &inputs, &BTreeMap::new(), Clock { seed: 0, step: 0 })?;
        for (o, a) in schedules.outputs.iter().zip(values) {
            out.insert(o.name.clone(), Tensor { shape: Vec::new(), data: a.data });
        }
    }
    // A file with some of the parameters is a file that lacks the others.
    let some = given.keys().any(|n| n.starts_with("param."));
    if !some && (wants(Role::Param) || wants(Role::Slow)) || wants(Role::Carry) || wants(Role::Running) {
        for (name, tensor) in initial(model, call.seed)? {
            if !(some && name.starts_with("param.")) {
                out.insert(name, tensor);
            }
        }
    }
    for input in &program.inputs {
        let shape: Vec<usize> = input.axes.iter().map(|a| program.size(*a)).collect();
        match input.role {
            Role::Slow => {
                let fast = input.name.replacen("slow.", "param.", 1);
                if let Some(t) = given.get(&fast).or(out.get(&fast)).cloned() {
                    out.insert(input.name.clone(), t);
                }
            }
            Role::Slot => {
                let data = vec![0.0; shape.iter().product()];
                out.insert(input.name.clone(), Tensor { shape, data });
            }
            Role::Carry => {
                let one = out.get(&input.name).cloned();
                let len: usize = shape.iter().product();
                let data = match one {
                    // The same start for every sample.
                    Some(t) if !t.data.is_empty() && len.is_multiple_of(t.data.len()) => {
                        t.data.iter().copied().cycle().take(len).collect()
                    }
                    _ => vec![0.0; len],
                };
                out.insert(input.name.clone(), Tensor { shape, data });
            }
            // Who gives a memory goes on with an episode; who gives none starts one.
            Role::Data if input.name == lower::FIRST && matches!(call.entry, Entry::Act | Entry::Plan) => {
                let starts = !given.keys().any(|name| name.starts_with("carry."));
                let data = vec![f64::from(u8::from(starts)); shape.iter().product()];
                out.insert(input.name.clone(), Tensor { shape, data });
            }
            Role::Data | Role::Param | Role::Running | Role::Record | Role::Schedule | Role::Clock | Role::Draw => {}
        }
    }
    Ok(out)
}

/// Refuses a model whose initial state does not fit into memory.
pub fn check_initial(model: &Model) -> Result<(), CallError> {
    let program = lower::lower(model, Entry::Init, Options::default())?;
    Ok(memory::check_graph(&program, size_of::<f64>() as u64, model)?)
}

/// Initial parameters, carries and running statistics.
pub fn initial(model: &Model, seed: u64) -> Result<Tensors, CallError> {
    initial_with(model, seed, "")
}

/// Initial values whose names have a prefix: `carry.` for what acting starts with. The model may be somebody else's.
pub fn initial_with(model: &Model, seed: u64, prefix: &str) -> Result<Tensors, CallError> {
    let mut program = lower::lower_untrusted(model, Entry::Init, Options::default()).or_else(|error| match error {
        // The refusal that names the largest arrays and their lines, where it is one.
        LowerError::TooLarge(_) => check_initial(model).and(Err(CallError::from(error))),
        other => Err(other.into()),
    })?;
    let wanted: Vec<bool> = program.outputs.iter().map(|o| o.name.starts_with(prefix)).collect();
    let mut kept = wanted.iter();
    program.outputs.retain(|_| kept.next() == Some(&true));
    let mut kept = wanted.iter();
    program.graph.results.retain(|_| kept.next() == Some(&true));
    memory::check_graph(&program, size_of::<f64>() as u64, model)?;
    let values = interp::run::<f64>(&program, &[], &BTreeMap::new(), Clock { seed, step: 0 })?;
    Ok(program
        .outputs
        .iter()
        .zip(values)
        .map(|(o, a)| {
            let shape = a.axes.iter().map(|x| program.size(*x)).collect();
            (o.name.clone(), Tensor { shape, data: a.data })
        })
        .collect())
}
