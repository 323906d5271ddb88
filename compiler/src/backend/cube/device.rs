//! An opened device and its limits. Every limit is asked about before it is relied on: drivers tell too late, or not at all.

use cubecl::ir::HardwareProperties;
use cubecl::prelude::{ComputeClient, Runtime};

use super::builder::task::plane_width;
use super::emitted::{Numerics, Target};
use super::launch::{EmitError, Launch};
use super::plan::Limits;

pub use super::builder::task::Driver;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeviceError {
    #[error("there is no {kind} device {index}: {reason}")]
    NoDevice { kind: &'static str, index: usize, reason: String },
    #[error(transparent)]
    Emit(#[from] EmitError),
    #[error("launch `{launch}` needs {needed} {what}, the device has {has}")]
    Limit { launch: String, what: &'static str, needed: usize, has: usize },
    #[error("the arena `{arena}` needs {needed} bytes, a buffer of the device has at most {has}")]
    Memory { arena: &'static str, needed: usize, has: usize },
    #[error("the device failed: {0}")]
    Failed(String),
    #[error("the program draws no `{0}`")]
    NoDraw(String),
    #[error("the draw `{name}` has {expected} numbers, {found} were given")]
    DrawLength { name: String, expected: usize, found: usize },
}

/// A device that has been opened.
pub struct Device<R: Runtime> {
    pub(super) client: ComputeClient<R>,
    pub(super) target: Target,
    /// The driver with its version: what it compiled is of no use to another.
    pub(super) driver: String,
    pub(super) numerics: Numerics,
    pub(super) name: String,
}

impl<R: Runtime> std::fmt::Debug for Device<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("target", &self.target).field("driver", &self.driver).finish()
    }
}

impl<R: Runtime> Device<R> {
    /// What the device has; processors are counted where the driver tells.
    pub fn limits(&self) -> Limits {
        let hardware = &self.client.properties().hardware;
        Limits {
            processors: hardware.num_streaming_multiprocessors.map_or(32, |n| n as usize),
            shared_bytes: hardware.max_shared_memory_size,
            units: hardware.max_units_per_cube.min(256),
            cubes: hardware.max_cube_count.0 as usize,
            plane: plane_width(&self.client),
            precision: self.numerics.precision,
            sums: self.numerics.sums,
        }
    }
}

/// What a function gives, or nothing where it panics: what is wrong is said as an error, and by nobody else.
pub(super) fn quietly<T>(f: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let given = std::panic::catch_unwind(f);
    std::panic::set_hook(loud);
    given.ok()
}

/// Whether a device can do a launch.
pub(super) fn fits(launch: &Launch, hardware: &HardwareProperties) -> Result<(), DeviceError> {
    let needs = [
        ("bindings", launch.bindings.len() + 1, hardware.max_bindings as usize),
        ("bytes of shared memory", launch.shared_bytes(), hardware.max_shared_memory_size),
        ("units a cube", launch.units as usize, hardware.max_units_per_cube.min(hardware.max_cube_dim.0) as usize),
        ("cubes", launch.cubes(), hardware.max_cube_count.0 as usize),
    ];
    match needs.into_iter().find(|(_, needed, has)| needed > has) {
        None => Ok(()),
        Some((what, needed, has)) => Err(DeviceError::Limit { launch: launch.name.clone(), what, needed, has }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::launch::Planned;
    use super::*;
    use crate::backend::Resident;

    /// What a large device has.
    fn hardware() -> HardwareProperties {
        HardwareProperties {
            load_width: 128,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 32,
            max_shared_memory_size: 99 << 10,
            max_cube_count: (65535, 65535, 65535),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: 4,
        }
    }

    #[test]
    fn launches_that_a_device_cannot_take() {
        let programs = (0..20).map(crate::testing::random_kernels);
        let mut launches = 0;
        for program in programs {
            let Planned { launches: planned, .. } =
                Planned::new(&program, &Limits::wgsl(), &Resident::default()).unwrap_or_else(|e| panic!("{e}"));
            for launch in planned {
                launches += 1;
                assert_eq!(fits(&launch, &hardware()), Ok(()));
                let refused = |hardware: HardwareProperties, what: &str| {
                    let told = fits(&launch, &hardware).err().map(|e| e.to_string()).unwrap_or_default();
                    assert!(told.contains(&launch.name) && told.contains(what), "{told}");
                };
                refused(HardwareProperties { max_bindings: 1, ..hardware() }, "bindings, the device has 1");
                refused(HardwareProperties { max_units_per_cube: 128, ..hardware() }, "256 units a cube, the device has 128");
                refused(HardwareProperties { max_cube_count: (0, 1, 1), ..hardware() }, "cubes, the device has 0");
                if launch.shared_bytes() > 64 {
                    refused(
                        HardwareProperties { max_shared_memory_size: 64, ..hardware() },
                        "bytes of shared memory, the device has 64",
                    );
                }
            }
        }
        assert!(launches > 20, "{launches}");
    }
}
