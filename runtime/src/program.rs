//! An entry point that is ready to run, its inputs and outputs by name.

use std::collections::BTreeMap;

use compiler::artefact::EntryPoint;
use compiler::backend::{self, Device, DeviceError, Executable, Resident, cpu};
use compiler::interp::{self, Array, Clock};
use compiler::ir::{self, Op, Role};
use compiler::kernel;
use compiler::kernel::fuse::{Level, fuse};
use compiler::lower::{Entry, LowerError, Options, lower, lower_untrusted};
use compiler::memory::{self, Reserved};
use compiler::simplify::simplify;
use dsl::hir::Model;

use crate::Error;

/// How programs are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compute {
    pub level: Level,
    /// Of the processor.
    pub threads: usize,
    pub device: Device,
}

impl Default for Compute {
    fn default() -> Compute {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Compute { level: Level::Mega, threads, device: Device::Cpu }
    }
}

/// An array with its shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub data: Vec<f32>,
}

/// Arrays by name: parameters, slow copies, slots of optimisers, running statistics, carries.
pub type State = BTreeMap<String, Tensor>;

#[derive(Debug)]
pub(crate) struct Program {
    /// What is known of it beside its kernels; the graph itself is gone where it was compiled before.
    pub(crate) graph: ir::Program,
    pub(crate) executable: Box<dyn Executable>,
}

impl Program {
    /// Compiles an entry point for a device.
    pub(crate) fn new(model: &Model, entry: Entry, batch: Option<usize>, compute: Compute) -> Result<Program, Error> {
        let (graph, kernels) = kernels(model, entry, batch, compute)?;
        Program::open(graph, &kernels, compute).map_err(|error| located(error, model))
    }

    /// Takes the memory of an entry point that the model may have, without allocating it.
    pub(crate) fn reserve(
        model: &Model,
        entry: Entry,
        batch: Option<usize>,
        compute: Compute,
    ) -> Result<Option<Reserved>, Error> {
        match kernels(model, entry, batch, compute) {
            Err(Error::Lower(LowerError::NoEntry { .. })) => Ok(None),
            Err(error) => Err(error),
            Ok((_, kernels)) => {
                let reserved = memory::reserve_program(&kernels, cpu::needs(&kernels, compute.threads));
                Ok(Some(reserved.map_err(|refused| refused.located(model))?))
            }
        }
    }

    /// The part of an entry point whose outputs have a prefix. Values of equations in `given` are the caller's, by name.
    pub(crate) fn part(model: &Model, entry: Entry, prefix: &str, given: &[String], compute: Compute) -> Result<Program, Error> {
        let given = given.iter().cloned().collect();
        let mut graph = lower(model, entry, Options { given, ..Options::default() })?;
        let wanted: Vec<bool> = graph.outputs.iter().map(|o| o.name.starts_with(prefix)).collect();
        let mut kept = wanted.iter();
        graph.outputs.retain(|_| kept.next() == Some(&true));
        let mut kept = wanted.iter();
        graph.graph.results.retain(|_| kept.next() == Some(&true));
        let graph = simplify(graph);
        let kernels = fuse(&graph, &compute.device.target(), compute.level)?;
        Program::open(graph.into_program(), &kernels, compute).map_err(|error| located(error, model))
    }

    /// One that was compiled before.
    pub(crate) fn compiled(entry: &EntryPoint, compute: Compute) -> Result<Program, Error> {
        Program::open(entry.interface.clone(), &entry.kernels, compute)
    }

    fn open(graph: ir::Program, kernels: &kernel::Program, compute: Compute) -> Result<Program, Error> {
        let resident = Resident::of(&graph);
        let executable = backend::open(compute.device, kernels, &resident, compute.threads)?;
        Ok(Program { graph, executable })
    }

    pub(crate) fn shape(&self, input: usize) -> Vec<usize> {
        self.graph.inputs[input].axes.iter().map(|a| self.graph.size(*a)).collect()
    }

    pub(crate) fn output_shape(&self, output: usize) -> Vec<usize> {
        self.graph.graph.axes(self.graph.graph.results[output]).iter().map(|a| self.graph.size(*a)).collect()
    }

    /// Numbers of the inputs with a role.
    pub(crate) fn with_role(&self, role: Role) -> impl Iterator<Item = (usize, &str)> {
        let inputs = self.graph.inputs.iter().enumerate();
        inputs.filter(move |(_, i)| i.role == role).map(|(n, i)| (n, i.name.as_str()))
    }

    /// Which inputs any output depends on.
    pub(crate) fn read(&self) -> Vec<bool> {
        let graph = &self.graph.graph;
        let mut read = vec![false; self.graph.inputs.len()];
        let mut seen = vec![false; graph.nodes.len()];
        let mut open = graph.results.clone();
        while let Some(value) = open.pop() {
            if std::mem::replace(&mut seen[value.0 as usize], true) {
                continue;
            }
            let op = &graph.nodes[value.0 as usize].op;
            if let Op::Input(input) = op {
                read[*input as usize] = true;
            }
            op.operands(|operand| open.push(operand));
        }
        read
    }

    /// Outputs with a prefix, by what comes after it.
    pub(crate) fn with_prefix(&self, prefix: &str) -> Vec<(String, usize)> {
        let named = |(n, o): (usize, &ir::Output)| Some((o.name.strip_prefix(prefix)?.to_string(), n));
        self.graph.outputs.iter().enumerate().filter_map(named).collect()
    }

    /// Gives an input a single number, where the program has it.
    pub(crate) fn set(&mut self, name: &str, value: f64) -> Result<(), Error> {
        if let Some(input) = self.graph.input(name)
            // What is there already need not go to the device again.
            && self.executable.input(input)?.iter().any(|x| *x != value as f32)
        {
            self.executable.input_mut(input)?.fill(value as f32);
        }
        Ok(())
    }

    /// Gives the inputs that depend on the training's progress their numbers.
    pub(crate) fn set_progress(&mut self, schedules: &Schedules, progress: f64) -> Result<(), Error> {
        self.set("progress", progress)?;
        schedules.at(progress)?.into_iter().try_for_each(|(name, value)| self.set(&name, value))
    }

    /// The numbers of one output.
    pub(crate) fn output(&mut self, output: usize) -> Result<Vec<f32>, Error> {
        Ok(self.executable.outputs(&[output])?.swap_remove(0))
    }

    /// The numbers of an input with its shape.
    pub(crate) fn tensor(&mut self, input: usize) -> Result<Tensor, Error> {
        Ok(Tensor { shape: self.shape(input), data: self.executable.input(input)?.to_vec() })
    }

    /// Gives the inputs of these roles the numbers of a state.
    pub(crate) fn load(&mut self, state: &State, roles: &[Role]) -> Result<(), Error> {
        let wanted: Vec<(usize, String)> =
            roles.iter().flat_map(|r| self.with_role(*r)).map(|(n, name)| (n, name.to_string())).collect();
        for (input, name) in wanted {
            let shape = self.shape(input);
            let found = state.get(&name).ok_or_else(|| Error::Misfit(format!("it has no `{name}`")))?;
            if found.shape != shape {
                return Err(Error::Misfit(format!("`{name}` has the shape {:?} and should have {shape:?}", found.shape)));
            }
            let numbers = self.executable.input_mut(input)?;
            if found.data.len() != numbers.len() {
                let (has, wanted) = (found.data.len(), numbers.len());
                return Err(Error::Misfit(format!("`{name}` has {has} numbers and should have {wanted}")));
            }
            numbers.copy_from_slice(&found.data);
        }
        Ok(())
    }
}

/// An entry point as kernels, and the graph they come from.
fn kernels(model: &Model, entry: Entry, batch: Option<usize>, compute: Compute) -> Result<(ir::Program, kernel::Program), Error> {
    let graph = simplify(lower(model, entry, Options { batch, ..Options::default() })?);
    let kernels = fuse(&graph, &compute.device.target(), compute.level)?;
    Ok((graph.into_program(), kernels))
}

/// A refusal names the places where the model declares what is too large.
fn located(error: Error, model: &Model) -> Error {
    match error {
        Error::Device(DeviceError::TooLarge(refused)) => Error::TooLarge(refused.located(model)),
        other => other,
    }
}

impl Program {
    /// Gives every sample the carries that the model starts with.
    pub(crate) fn begin(&mut self, state: &State) -> Result<(), Error> {
        let carries: Vec<(usize, String)> = self.with_role(Role::Carry).map(|(n, name)| (n, name.to_string())).collect();
        for (input, name) in carries {
            let Some(start) = state.get(&name).filter(|t| !t.data.is_empty()) else { continue };
            self.executable.input_mut(input)?.chunks_mut(start.data.len()).for_each(|row| row.copy_from_slice(&start.data));
        }
        Ok(())
    }
}

/// The state that a model starts with: what the language says about parameters, slow copies like their parameters, empty slots.
pub fn initial(model: &Model, seed: u64) -> Result<State, Error> {
    let mut state = singles(compiler::run::initial(model, seed)?);
    let params: Vec<(String, Tensor)> =
        state.iter().filter_map(|(n, t)| Some((n.strip_prefix("param.")?.to_string(), t.clone()))).collect();
    for (path, tensor) in params {
        for optimizer in &model.optimizers {
            let trains = optimizer.params.iter().any(|(p, _)| model.params[p.0 as usize].path == path);
            for slot in optimizer.rule.slots.iter().filter(|_| trains) {
                let empty = Tensor { shape: tensor.shape.clone(), data: vec![0.0; tensor.data.len()] };
                state.insert(format!("slot.{}.{slot}.{path}", optimizer.name), empty);
            }
        }
        state.insert(format!("slow.{path}"), tensor);
    }
    Ok(state)
}

fn singles(tensors: compiler::run::Tensors) -> State {
    let single = |t: compiler::run::Tensor| Tensor { shape: t.shape, data: t.data.iter().map(|x| *x as f32).collect() };
    tensors.into_iter().map(|(name, t)| (name, single(t))).collect()
}

/// What acting starts from: what was learnt, and carries as the language says.
pub fn acting(model: &Model, learnt: &State) -> Result<State, Error> {
    let mut state = singles(compiler::run::initial_with(model, 0, "carry.")?);
    state.extend(learnt.iter().map(|(name, t)| (name.clone(), t.clone())));
    Ok(state)
}

/// Schedules as functions of the training's progress.
#[derive(Debug)]
pub(crate) struct Schedules(ir::Program);

impl Schedules {
    pub(crate) fn new(model: &Model) -> Result<Schedules, Error> {
        Ok(Schedules(lower_untrusted(model, Entry::Schedules, Options::default())?))
    }

    /// Names with their values.
    pub(crate) fn at(&self, progress: f64) -> Result<Vec<(String, f64)>, Error> {
        let inputs: Vec<Array<f64>> = self.0.inputs.iter().map(|_| Array { axes: Vec::new(), data: vec![progress] }).collect();
        let values = interp::run(&self.0, &inputs, &BTreeMap::new(), Clock { seed: 0, step: 0 })
            .map_err(compiler::run::CallError::from)?;
        let values = self.0.outputs.iter().zip(values);
        Ok(values.filter_map(|(o, a)| Some((o.name.clone(), *a.data.first()?))).collect())
    }
}
