//! A kernel program that is ready to run, on whichever device.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::cpu;
use super::cube::{self, Numerics};
use crate::ir::{self, Op, Role};
use crate::kernel::verify::VerifyError;
use crate::kernel::{Program, Target};
use crate::memory::TooLarge;

/// Where kernels run. Devices of a kind are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    #[default]
    Cpu,
    /// `cuda:0`; `cuda:0:tf32` multiplies with weights on tensor cores, `cuda:0:atomic` adds up rows in any order.
    Cuda(usize, Numerics),
    Vulkan(usize),
}

impl Device {
    /// What kernels for it are made for.
    pub fn target(self) -> Target {
        match self {
            Device::Cpu => cpu::TARGET,
            Device::Cuda(..) => cube::CUDA,
            Device::Vulkan(_) => cube::WGSL,
        }
    }

    /// `cuda`, whichever of them it is.
    pub fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(..) => "cuda",
            Device::Vulkan(_) => "vulkan",
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(index, numerics) => write!(f, "cuda:{index}{}", numerics.suffix()),
            Device::Vulkan(index) => write!(f, "vulkan:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Device, String> {
        let unknown = || {
            format!(
                "`{text}` is no device; there are cpu, cuda and vulkan, cuda:1 for the second of several, cuda:0:tf32 for tensor cores, cuda:0:atomic for sums in any order"
            )
        };
        let (kind, index) = text.split_once(':').unwrap_or((text, "0"));
        let (index, numerics) = match index.split_once(':') {
            Some((index, names)) if kind == "cuda" => (index, Numerics::named(names).ok_or_else(unknown)?),
            _ => (index, Numerics::default()),
        };
        let index = index.parse().map_err(|_| unknown())?;
        match kind {
            "cpu" if text == "cpu" => Ok(Device::Cpu),
            "cuda" => Ok(Device::Cuda(index, numerics)),
            "vulkan" => Ok(Device::Vulkan(index)),
            _ => Err(unknown()),
        }
    }
}

/// Why a program cannot run on a device, or did not.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeviceError {
    #[error("this build cannot run kernels on {0} devices: build it with `cargo build --release --features {0}`")]
    Build(&'static str),
    #[error("a kernel does not hold its invariants: {0}")]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Draw(#[from] cpu::Error),
    #[error(transparent)]
    TooLarge(#[from] Box<TooLarge>),
    #[cfg(any(feature = "cuda", feature = "vulkan"))]
    #[error(transparent)]
    Device(#[from] super::cube::device::DeviceError),
}

/// What of a program's inputs and outputs stays on a device from call to call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resident {
    /// Inputs that stay there.
    pub inputs: Vec<usize>,
    /// Outputs that become inputs, of the same size, when the caller says so.
    pub updates: Vec<(usize, usize)>,
}

impl Resident {
    /// What a call does not bring along, and what it leaves for the next. A carry that is what a call brings (`r[t-1]`) is
    /// brought as well: the caller knows it only afterwards.
    pub fn of(interface: &ir::Program) -> Resident {
        let stays = |role: Role| matches!(role, Role::Param | Role::Slow | Role::Slot | Role::Running | Role::Carry);
        let is_data = |op: &Op| matches!(op, Op::Input(i) if interface.inputs[*i as usize].role == Role::Data);
        let graph = &interface.graph;
        let passed_on = graph.results.iter().zip(&interface.outputs).filter(|(id, _)| is_data(&graph.node(**id).op));
        let brought: Vec<usize> = passed_on.filter_map(|(_, output)| output.updates).collect();
        let inputs = interface.inputs.iter().enumerate();
        let inputs = inputs.filter(|(n, input)| stays(input.role) && !brought.contains(n)).map(|(n, _)| n);
        let inputs: Vec<usize> = inputs.collect();
        let outputs = interface.outputs.iter().enumerate();
        let updates = outputs.filter_map(|(n, output)| Some((n, output.updates.filter(|i| inputs.contains(i))?))).collect();
        Resident { inputs, updates }
    }
}

/// A program on a device, with the memory that it needs. Inputs and outputs go by their numbers.
pub trait Executable: Any + fmt::Debug + Send {
    /// The numbers of an input as they are now, row-major.
    fn input(&mut self, input: usize) -> Result<&[f32], DeviceError>;

    /// The same, to be written: they count from the next call on.
    fn input_mut(&mut self, input: usize) -> Result<&mut [f32], DeviceError>;

    /// The numbers of outputs, when all that was asked for is done.
    fn outputs(&mut self, wanted: &[usize]) -> Result<Vec<Vec<f32>>, DeviceError>;

    /// The first of these outputs with a number that is not finite, and that number.
    fn not_finite(&mut self, wanted: &[usize]) -> Result<Option<(usize, f32)>, DeviceError> {
        let numbers = self.outputs(wanted)?;
        Ok(wanted.iter().zip(&numbers).find_map(|(output, numbers)| Some((*output, first_not_finite(numbers)?))))
    }

    /// Computes what depends on parameters alone: to be called once, and when they have changed.
    fn prepare(&mut self) -> Result<(), DeviceError>;

    /// Runs the program. Random draws depend on the seed and on the step.
    fn run(&mut self, seed: u64, step: u64) -> Result<(), DeviceError>;

    /// Returns when all that was asked for is done.
    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Outputs become the inputs that they update.
    fn advance(&mut self) -> Result<(), DeviceError>;

    /// Takes over inputs of another program: pairs of our input and of theirs. They go by way of the host where the two
    /// are on different devices.
    fn take(&mut self, from: &mut dyn Executable, pairs: &[(usize, usize)]) -> Result<(), DeviceError> {
        take_by_host(self, from, pairs)
    }

    /// Gives a draw's numbers instead of generating them, or generates them again.
    fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError>;

    /// Bytes that the device keeps for it.
    fn bytes(&self) -> usize;

    /// What computes: an instruction set, a device's name.
    fn computes_with(&self) -> &str;
}

/// A device that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub name: String,
    /// It computes on the processor.
    pub software: bool,
}

/// Looks for a device, without opening it.
pub fn probe(device: Device) -> Result<Found, DeviceError> {
    match device {
        Device::Cpu => Ok(Found { name: "the processor".into(), software: true }),
        #[cfg(feature = "cuda")]
        Device::Cuda(index, numerics) => {
            super::cube::cuda::probe(index, numerics.precision)?;
            Ok(Found { name: super::cube::cuda::name(index), software: false })
        }
        #[cfg(feature = "vulkan")]
        Device::Vulkan(index) => {
            let found = super::cube::vulkan::probe(index)?;
            Ok(Found { name: found.name, software: found.software })
        }
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        other => Err(DeviceError::Build(other.kind())),
    }
}

/// What a device compiles is kept in a folder from now on, where the device is one that compiles for long. To be called before it is opened.
pub fn keep_compiled(device: Device, folder: &Path) {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(..) = device {
        super::cube::cuda::keep_compiled(folder);
    }
    #[cfg(not(feature = "cuda"))]
    let _ = (device, folder);
}

/// How many Vulkan devices there are; none in a build that cannot use them.
pub fn count_vulkan() -> usize {
    #[cfg(feature = "vulkan")]
    return super::cube::vulkan::devices().len();
    #[cfg(not(feature = "vulkan"))]
    0
}

/// Makes a program ready to run. `threads` are the processor's.
pub fn open(device: Device, program: &Program, resident: &Resident, threads: usize) -> Result<Box<dyn Executable>, DeviceError> {
    match device {
        Device::Cpu => Ok(Box::new(cpu::Instance::open(program, resident, threads)?)),
        #[cfg(feature = "cuda")]
        Device::Cuda(index, numerics) => {
            let opened = super::cube::cuda::open(index, numerics)?;
            Ok(Box::new(super::cube::instance::Instance::new(opened, program, resident)?))
        }
        #[cfg(feature = "vulkan")]
        Device::Vulkan(index) => {
            let opened = super::cube::vulkan::open(index)?;
            Ok(Box::new(super::cube::instance::Instance::new(opened, program, resident)?))
        }
        #[cfg(not(all(feature = "cuda", feature = "vulkan")))]
        other => Err(DeviceError::Build(other.kind())),
    }
}

/// [`Executable::take`] by way of the host.
pub(super) fn take_by_host<E: Executable + ?Sized>(
    to: &mut E,
    from: &mut dyn Executable,
    pairs: &[(usize, usize)],
) -> Result<(), DeviceError> {
    for (own, theirs) in pairs {
        to.input_mut(*own)?.copy_from_slice(from.input(*theirs)?);
    }
    Ok(())
}

/// The first number that is not finite. A number is finite unless all bits of its exponent are set; then adding one to the
/// exponent carries into the sign. The first pass has no branches, so that it becomes vector code.
pub(super) fn first_not_finite(numbers: &[f32]) -> Option<f32> {
    const EXPONENT: u32 = 0x7f80_0000;
    const ONE: u32 = 0x0080_0000;
    let carries = numbers.iter().fold(0, |all, x| all | ((x.to_bits() & EXPONENT) + ONE));
    if carries >> 31 == 0 { None } else { numbers.iter().copied().find(|x| !x.is_finite()) }
}

#[cfg(test)]
mod tests {
    use super::super::cube::{Precision, Sums};
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_found() {
        let mut numbers = vec![0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, -1.5, 3.0, 1e38];
        assert_eq!(first_not_finite(&numbers), None);
        for (place, bad) in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN].into_iter().enumerate() {
            let kept = std::mem::replace(&mut numbers[place], bad);
            assert_eq!(first_not_finite(&numbers).map(f32::to_bits), Some(bad.to_bits()));
            numbers[place] = kept;
        }
        assert_eq!(first_not_finite(&[]), None);
    }

    #[test]
    fn devices_by_name() {
        for (text, device) in [
            ("cpu", Device::Cpu),
            ("cuda", Device::Cuda(0, Numerics::default())),
            ("cuda:1:bf16", Device::Cuda(1, Numerics { precision: Precision::Bf16, sums: Sums::Ordered })),
            ("cuda:0:atomic", Device::Cuda(0, Numerics { precision: Precision::F32, sums: Sums::Atomic })),
            ("cuda:0:atomic:tf32", Device::Cuda(0, Numerics { precision: Precision::Tf32, sums: Sums::Atomic })),
            ("vulkan:2", Device::Vulkan(2)),
        ] {
            assert_eq!(text.parse(), Ok(device));
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for wrong in
            ["", "gpu", "cpu:0", "cuda:", "cuda:x", "vulkan:-1", "vulkan:0:0", "vulkan:0:tf32", "cuda:0:f16", "cuda:tf32"]
        {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}
