//! The choice of a device.

use std::fmt;
use std::str::FromStr;

use compiler::artefact::About;
use compiler::backend::cube::Numerics;
use compiler::backend::{self, DeviceError};

pub use compiler::backend::Device;

/// A device as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The best that this build can use and the machine has.
    Auto,
    This(Device),
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted::This(Device::Cpu)
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        if text == "auto" {
            return Ok(Wanted::Auto);
        }
        text.parse().map(Wanted::This).map_err(|told: String| format!("{told}; `auto` takes the best of them"))
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Auto => f.write_str("auto"),
            Wanted::This(device) => device.fmt(f),
        }
    }
}

impl Wanted {
    /// The device, which is there. `auto` takes CUDA, then Vulkan on hardware, else the processor.
    pub fn choose(self) -> Result<Device, DeviceError> {
        match self {
            Wanted::This(device) => backend::probe(device).map(|_| device),
            Wanted::Auto => {
                let hardware = |device: &Device| backend::probe(*device).is_ok_and(|found| !found.software);
                let all =
                    [Device::Cuda(0, Numerics::default())].into_iter().chain((0..backend::count_vulkan()).map(Device::Vulkan));
                Ok(all.into_iter().find(hardware).unwrap_or(Device::Cpu))
            }
        }
    }
}

/// Whether an artefact was compiled for a device; else what it was compiled for, and the target that it lacks.
pub(crate) fn compiled_for(about: &About, device: Device) -> Result<(), (String, &'static str)> {
    let kind = |target: &str| target.split(':').next() == Some(device.kind());
    if about.targets.iter().any(|target| kind(target)) {
        return Ok(());
    }
    let (targets, wanted) = (about.targets.join(", "), if device.kind() == "cuda" { "cuda:sm_86" } else { device.kind() });
    Err((format!("it was compiled for {targets} and is to run on {device}"), wanted))
}
