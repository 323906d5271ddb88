//! A case made ready: compiled, with its inputs in place, to be called again and again.

use std::time::Instant;

use compiler::backend::cpu::{Error as CpuError, Instance};
use compiler::ir::{self, Role};
use compiler::kernel::cost::{self, Cost};
use compiler::kernel::fuse::{FuseError, Level, fuse};
use compiler::kernel::verify::VerifyError;
use compiler::run::{Call, CallError, Tensor, Tensors, arrays};
use dsl::hir::{Dtype, Model};

use super::case::Case;

/// Why a case cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadyError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Fuse(#[from] FuseError),
    #[error("the kernels are wrong: {0:?}")]
    Verify(VerifyError),
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

#[derive(Debug)]
pub(crate) struct Ready {
    instance: Instance,
    /// Outputs that are the next call's inputs.
    state: Vec<(usize, usize)>,
    /// Inputs that count updates.
    counts: Vec<usize>,
    advances: bool,
    step: u64,
}

/// What was found on the way.
#[derive(Debug, Clone)]
pub(crate) struct First {
    /// Seconds from the model to ready kernels with inputs.
    pub(crate) build: f64,
    /// Seconds of the first call.
    pub(crate) call: f64,
    pub(crate) value: Vec<f64>,
    /// Of a call; packing weights and what depends on parameters alone left out.
    pub(crate) cost: Cost,
    pub(crate) instruction_set: &'static str,
}

/// Compiles a case at a level for so many threads, and calls it once.
pub(crate) fn ready(
    case: Case,
    model: &Model,
    batch: Option<usize>,
    given: Option<&Tensors>,
    level: Level,
    threads: usize,
) -> Result<(Ready, First), ReadyError> {
    let start = Instant::now();
    let call = Call { entry: case.entry(), batch, ..Call::default() };
    let nothing = Tensors::new();
    let mut program = compiler::run::program(model, &call, given.unwrap_or(&nothing))?;
    // `arrays` knows the samples of the batch by the program.
    let given = match given {
        Some(given) => completed(&program, model, given),
        None => completed(&program, model, &nothing),
    };
    program.name = format!("{}.{}", model.name, program.name);
    let kernels = fuse(&program, level)?;
    let mut instance = Instance::new(&kernels, threads).map_err(ReadyError::Verify)?;
    let (inputs, draws) = arrays::<f32>(model, &call, &program, &given)?;
    for (i, array) in inputs.iter().enumerate() {
        instance.input_mut(i).copy_from_slice(&array.data);
    }
    for (name, array) in &draws {
        instance.set_draw(name, Some(&array.data))?;
    }
    instance.prepare();
    let state = program.outputs.iter().enumerate().filter_map(|(o, output)| Some((o, output.updates?))).collect();
    let counts = program.inputs.iter().enumerate().filter(|(_, i)| i.name.starts_with("count.")).map(|(n, _)| n).collect();
    let mut ready = Ready { instance, state, counts, advances: case.advances(), step: 0 };
    let build = start.elapsed().as_secs_f64();
    let start = Instant::now();
    ready.call();
    let call = start.elapsed().as_secs_f64();
    let value = case.value(&program, |o| ready.instance.output(o));
    let instruction_set = ready.instance.instruction_set();
    let cost = cost::totals(&kernels, &kernels.steps).cost;
    Ok((ready, First { build, call, value, cost, instruction_set }))
}

impl Ready {
    /// One call, with all that belongs to it: a train step goes on with the parameters of the last one.
    pub(crate) fn call(&mut self) {
        if self.advances && self.step > 0 {
            for (output, input) in &self.state {
                self.instance.copy_output_to_input(*output, *input);
            }
            for count in &self.counts {
                self.instance.input_mut(*count).fill((self.step + 1) as f32);
            }
            self.instance.prepare();
        }
        self.instance.run(0, self.step);
        self.step += 1;
    }

    /// Times of n calls, in milliseconds.
    pub(crate) fn times(&mut self, n: usize) -> Vec<f64> {
        (0..n)
            .map(|_| {
                let start = Instant::now();
                self.call();
                start.elapsed().as_secs_f64() * 1e3
            })
            .collect()
    }
}

/// Data that nobody gave: numbers between 0 and 1, and flags that are not set.
fn completed(program: &ir::Program, model: &Model, given: &Tensors) -> Tensors {
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
