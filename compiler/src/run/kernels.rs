//! A call through kernels on a device: the same names in and out as the interpreter's.

use dsl::hir::Model;

use super::{Call, CallError, Tensor, Tensors, arrays};
use crate::backend::{self, Device, DeviceError, Resident};
use crate::interp::{self, Array, Clock, RunError, RunOptions};
use crate::kernel::fuse::{Level, fuse};
use crate::stage::Simplified;

/// Kernels of a level on a device, the processor with some threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernels {
    pub level: Level,
    pub threads: usize,
    pub device: Device,
}

pub(super) fn run(model: &Model, call: &Call, how: Kernels, program: &Simplified, given: &Tensors) -> Result<Tensors, CallError> {
    let (inputs, draws) = arrays::<f32>(model, call, program, given)?;
    if call.check {
        let named = program.inputs.iter().map(|i| i.name.as_str()).zip(&inputs);
        named.chain(draws.iter().map(|(name, array)| (name.as_str(), array))).try_for_each(|(n, a)| finite(n, a))?;
    }
    let kernels = fuse(program, &how.device.target(), how.level)?;
    let opened = backend::open(how.device, &kernels, &Resident::of(program), how.threads);
    let mut executable = opened.map_err(|error| match error {
        DeviceError::TooLarge(refused) => CallError::TooLarge(refused.located(model)),
        other => other.into(),
    })?;
    for (i, array) in inputs.iter().enumerate() {
        executable.input_mut(i)?.copy_from_slice(&array.data);
    }
    for (name, array) in &draws {
        executable.set_draw(name, Some(&array.data))?;
    }
    executable.prepare()?;
    executable.run(call.seed, call.step)?;
    let all: Vec<usize> = (0..program.outputs.len()).collect();
    let numbers = executable.outputs(&all)?;
    let outputs: Tensors = program
        .outputs
        .iter()
        .zip(&program.graph.results)
        .zip(numbers)
        .map(|((output, v), numbers)| {
            let shape = program.graph.axes(*v).iter().map(|a| program.size(*a)).collect();
            (output.name.clone(), Tensor { shape, data: numbers.into_iter().map(f64::from).collect() })
        })
        .collect();
    if call.check
        && let Some((name, place, value)) = outputs.iter().find_map(|(name, tensor)| {
            let place = tensor.data.iter().position(|x| !x.is_finite())?;
            Some((name.clone(), place, tensor.data[place]))
        })
    {
        // Kernels do not watch what they compute; the interpreter can name the operation.
        interp::run_with(program, &inputs, &draws, Clock { seed: call.seed, step: call.step }, RunOptions { check: true })?;
        return Err(CallError::NotFinite { output: name, place, value });
    }
    Ok(outputs)
}

fn finite(name: &str, array: &Array<f32>) -> Result<(), RunError> {
    match array.data.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(place) => Err(RunError::GivenNotFinite { name: name.to_string(), place, value: f64::from(array.data[place]) }),
    }
}
