//! An instance as an [`Executable`]: it counts its memory against the process's limit, and nothing of it fails later.

use super::{Instance, needs};
use crate::backend::executable::first_not_finite;
use crate::backend::{DeviceError, Executable, Resident};
use crate::kernel::Program;
use crate::memory;

impl Instance {
    /// [`Instance::new`] with outputs that become inputs, if the memory is there.
    pub fn open(program: &Program, resident: &Resident, threads: usize) -> Result<Instance, DeviceError> {
        let reserved = memory::reserve_program(program, needs(program, threads))?;
        let instance = Instance::new(program, threads)?;
        Ok(Instance { _reserved: Some(reserved), updates: resident.updates.clone(), ..instance })
    }
}

impl Executable for Instance {
    fn input(&mut self, input: usize) -> Result<&[f32], DeviceError> {
        Ok(self.input_mut(input))
    }

    fn input_mut(&mut self, input: usize) -> Result<&mut [f32], DeviceError> {
        Ok(self.input_mut(input))
    }

    fn outputs(&mut self, wanted: &[usize]) -> Result<Vec<Vec<f32>>, DeviceError> {
        Ok(wanted.iter().map(|output| self.output(*output).to_vec()).collect())
    }

    fn not_finite(&mut self, wanted: &[usize]) -> Result<Option<(usize, f32)>, DeviceError> {
        Ok(wanted.iter().find_map(|output| Some((*output, first_not_finite(self.output(*output))?))))
    }

    fn prepare(&mut self) -> Result<(), DeviceError> {
        self.prepare();
        Ok(())
    }

    fn run(&mut self, seed: u64, step: u64) -> Result<(), DeviceError> {
        self.run(seed, step);
        Ok(())
    }

    fn advance(&mut self) -> Result<(), DeviceError> {
        for (output, input) in self.updates.clone() {
            self.copy_output_to_input(output, input);
        }
        Ok(())
    }

    fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError> {
        Ok(self.set_draw(name, numbers)?)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn computes_with(&self) -> &str {
        self.instruction_set()
    }
}
