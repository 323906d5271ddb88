//! A case made ready: compiled, with its inputs in place, to be called again and again.

use std::time::Instant;

use compiler::backend::{self, DeviceError, Executable, Resident};
use compiler::ir::{self, Role};
use compiler::kernel::cost::{self, Cost};
use compiler::kernel::fuse::{FuseError, fuse};
use compiler::run::{Call, CallError, Tensor, Tensors, arrays};
use dsl::hir::{Dtype, Model};
use runtime::program::Compute;

use super::case::Case;

/// Why a case cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadyError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

#[derive(Debug)]
pub(crate) struct Ready {
    executable: Box<dyn Executable>,
    /// Inputs that count updates.
    counts: Vec<usize>,
    advances: bool,
    step: u64,
}

/// Facts about the compiled case.
#[derive(Debug, Clone)]
pub(crate) struct First {
    /// Seconds from the model to ready kernels with inputs.
    pub(crate) build: f64,
    /// Seconds of the first call.
    pub(crate) call: f64,
    pub(crate) value: Vec<f64>,
    /// Of a call; packing weights and what depends on parameters alone left out.
    pub(crate) cost: Cost,
    /// An instruction set, or a device's name.
    pub(crate) computes_with: String,
}

/// Compiles a case, and calls it once.
pub(crate) fn ready(
    case: Case,
    model: &Model,
    batch: Option<usize>,
    given: Option<&Tensors>,
    compute: Compute,
) -> Result<(Ready, First), ReadyError> {
    let start = Instant::now();
    let call = Call { entry: case.entry(), batch, ..Call::default() };
    let nothing = Tensors::new();
    let program = compiler::run::program(model, &call, given.unwrap_or(&nothing))?;
    // `arrays` knows the samples of the batch by the program.
    let given = match given {
        Some(given) => completed(&program, model, given),
        None => completed(&program, model, &nothing),
    };
    let name = format!("{}.{}", model.name, program.name);
    let program = program.named(name);
    let kernels = fuse(&program, &compute.device.target(), compute.level)?;
    let mut executable = backend::open(compute.device, &kernels, &Resident::of(&program), compute.threads)?;
    let (inputs, draws) = arrays::<f32>(model, &call, &program, &given)?;
    for (i, array) in inputs.iter().enumerate() {
        executable.input_mut(i)?.copy_from_slice(&array.data);
    }
    for (name, array) in &draws {
        executable.set_draw(name, Some(&array.data))?;
    }
    executable.prepare()?;
    let counts = program.inputs.iter().enumerate().filter(|(_, i)| i.name.starts_with("count.")).map(|(n, _)| n).collect();
    let mut ready = Ready { executable, counts, advances: case.advances(), step: 0 };
    let build = start.elapsed().as_secs_f64();
    let start = Instant::now();
    ready.call()?;
    let call = start.elapsed().as_secs_f64();
    let value = case.value(&program, &ready.executable.outputs(&case.telling(&program))?);
    let computes_with = ready.executable.computes_with().to_string();
    let cost = cost::totals(&kernels, &kernels.steps).cost;
    Ok((ready, First { build, call, value, cost, computes_with }))
}

impl Ready {
    /// One call, with all that belongs to it: a train step goes on with the parameters of the last one.
    pub(crate) fn call(&mut self) -> Result<(), DeviceError> {
        if self.advances && self.step > 0 {
            self.executable.advance()?;
            for count in &self.counts {
                self.executable.input_mut(*count)?.fill((self.step + 1) as f32);
            }
            self.executable.prepare()?;
        }
        self.executable.run(0, self.step)?;
        self.step += 1;
        self.executable.wait()
    }

    /// Times of n calls, in milliseconds.
    pub(crate) fn times(&mut self, n: usize) -> Result<Vec<f64>, DeviceError> {
        (0..n)
            .map(|_| {
                let start = Instant::now();
                self.call()?;
                Ok(start.elapsed().as_secs_f64() * 1e3)
            })
            .collect()
    }
}

/// Data that nobody gave: numbers between 0 and 1, and flags that are not set.
pub(crate) fn completed(program: &ir::Program, model: &Model, given: &Tensors) -> Tensors {
    let mut all = given.clone();
    let flag = |name: &str| {
        let field = name.strip_prefix("data.").unwrap_or(name);
        model.inputs.iter().any(|i| i.name == field && i.dtype == Dtype::Bool)
    };
    for input in program.inputs.iter().filter(|i| matches!(i.role, Role::Data | Role::Record)) {
        let shape: Vec<usize> = input.axes.iter().map(|a| program.size(*a)).collect();
        let numbers = shape.iter().product();
        let data = match flag(&input.name) {
            true => vec![0.0; numbers],
            // Steps of the golden ratio fill the interval evenly.
            false => (1..=numbers).map(|i| (i as f64 * 0.618_033_988_749_894_9).fract()).collect(),
        };
        all.entry(input.name.clone()).or_insert(Tensor { shape, data });
    }
    all
}
