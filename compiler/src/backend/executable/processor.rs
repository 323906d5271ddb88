//! Programs on the processor.

use std::any::Any;

use super::{DeviceError, Executable, Resident, first_not_finite, take_by_host};
use crate::backend::cpu::{self, Instance};
use crate::kernel::Program;
use crate::memory::{self, Reserved};

#[derive(Debug)]
pub(super) struct Processor {
    instance: Instance,
    /// What the instance counts against the process's limit.
    _reserved: Reserved,
    updates: Vec<(usize, usize)>,
}

impl Processor {
    pub(super) fn new(program: &Program, resident: &Resident, threads: usize) -> Result<Processor, DeviceError> {
        let reserved = memory::reserve_program(program, cpu::needs(program, threads))?;
        let instance = Instance::new(program, threads)?;
        Ok(Processor { instance, _reserved: reserved, updates: resident.updates.clone() })
    }
}

impl Executable for Processor {
    fn input(&mut self, input: usize) -> Result<&[f32], DeviceError> {
        Ok(self.instance.input_mut(input))
    }

    fn input_mut(&mut self, input: usize) -> Result<&mut [f32], DeviceError> {
        Ok(self.instance.input_mut(input))
    }

    fn outputs(&mut self, wanted: &[usize]) -> Result<Vec<Vec<f32>>, DeviceError> {
        Ok(wanted.iter().map(|output| self.instance.output(*output).to_vec()).collect())
    }

    fn not_finite(&mut self, wanted: &[usize]) -> Result<Option<(usize, f32)>, DeviceError> {
        let bad = |output: &usize| Some((*output, first_not_finite(self.instance.output(*output))?));
        Ok(wanted.iter().find_map(bad))
    }

    fn prepare(&mut self) -> Result<(), DeviceError> {
        self.instance.prepare();
        Ok(())
    }

    fn run(&mut self, seed: u64, step: u64) -> Result<(), DeviceError> {
        self.instance.run(seed, step);
        Ok(())
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn advance(&mut self) -> Result<(), DeviceError> {
        for (output, input) in &self.updates {
            self.instance.copy_output_to_input(*output, *input);
        }
        Ok(())
    }

    fn take(&mut self, from: &mut dyn Executable, pairs: &[(usize, usize)]) -> Result<(), DeviceError> {
        take_by_host(self, from, pairs)
    }

    fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError> {
        Ok(self.instance.set_draw(name, numbers)?)
    }

    fn bytes(&self) -> usize {
        self.instance.bytes()
    }

    fn computes_with(&self) -> &str {
        self.instance.instruction_set()
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
