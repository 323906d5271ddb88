//! Programs on graphics processors.

use std::any::Any;

use super::{DeviceError, Executable, Resident, take_by_host};
use crate::backend::cube::device::{Device, Driver, Instance};
use crate::kernel::Program;

#[derive(Debug)]
pub(super) struct Graphics<R: Driver> {
    instance: Instance<R>,
    name: String,
}

impl<R: Driver> Graphics<R> {
    pub(super) fn new(
        device: Device<R>,
        name: String,
        program: &Program,
        resident: &Resident,
    ) -> Result<Graphics<R>, DeviceError> {
        Ok(Graphics { instance: Instance::new(device, program, resident)?, name })
    }
}

impl<R: Driver> Executable for Graphics<R> {
    fn input(&mut self, input: usize) -> Result<&[f32], DeviceError> {
        Ok(self.instance.input(input)?)
    }

    fn input_mut(&mut self, input: usize) -> Result<&mut [f32], DeviceError> {
        Ok(self.instance.input_mut(input)?)
    }

    fn outputs(&mut self, wanted: &[usize]) -> Result<Vec<Vec<f32>>, DeviceError> {
        Ok(self.instance.outputs(wanted)?)
    }

    fn prepare(&mut self) -> Result<(), DeviceError> {
        Ok(self.instance.prepare()?)
    }

    fn run(&mut self, seed: u64, step: u64) -> Result<(), DeviceError> {
        Ok(self.instance.run(seed, step)?)
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(self.instance.wait()?)
    }

    fn advance(&mut self) -> Result<(), DeviceError> {
        Ok(self.instance.advance()?)
    }

    fn take(&mut self, from: &mut dyn Executable, pairs: &[(usize, usize)]) -> Result<(), DeviceError> {
        match from.as_any().downcast_mut::<Graphics<R>>() {
            Some(from) => self.instance.take(&mut from.instance, pairs),
            None => take_by_host(self, from, pairs)?,
        }
        Ok(())
    }

    fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError> {
        Ok(self.instance.set_draw(name, numbers)?)
    }

    fn bytes(&self) -> usize {
        self.instance.bytes()
    }

    fn computes_with(&self) -> &str {
        &self.name
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
