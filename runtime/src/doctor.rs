//! Lists the devices and libraries of a machine.

use compiler::backend::cube::Numerics;
use compiler::backend::{self, Device, DeviceError};

use crate::tasks::mujoco::{self, install};

/// Something that was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub found: String,
    /// What to do, where something is missing.
    pub advice: Option<String>,
}

pub fn examine() -> Vec<Finding> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let fine = |what, found: String| Finding { what, found, advice: None };
    let mut all = vec![
        fine("wmc", env!("CARGO_PKG_VERSION").into()),
        fine("system", format!("{} on {}", std::env::consts::OS, std::env::consts::ARCH)),
        fine("processor", format!("{threads} threads; kernels use {}", instruction_set())),
    ];
    all.push(fine("CUDA", graphics(&[Device::Cuda(0, Numerics::default())], &["libcuda.so.1", "nvcuda.dll"])));
    let vulkan: Vec<Device> = (0..backend::count_vulkan().max(1)).map(Device::Vulkan).collect();
    all.push(fine("Vulkan", graphics(&vulkan, &["libvulkan.so.1", "vulkan-1.dll", "libvulkan.1.dylib"])));
    let compilers = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
    let compiler = compilers.iter().find(|name| opens(name)).map_or("not found; not needed", |name| name);
    all.push(fine("CUDA compiler", compiler.to_string()));
    all.push(match mujoco::installed() {
        Ok(places) => match mujoco::version(&places) {
            Ok(version) => fine("MuJoCo", format!("{version} in {}", places.library.display())),
            Err(error) => Finding { what: "MuJoCo", found: error.to_string(), advice: Some(advice()) },
        },
        Err(error) => Finding { what: "MuJoCo", found: error.to_string(), advice: Some(advice()) },
    });
    all
}

/// Devices of a kind, and what this build can do with them.
fn graphics(devices: &[Device], libraries: &[&str]) -> String {
    let told = |device: &Device| match backend::probe(*device) {
        Ok(found) => format!("{device} is {}{}", found.name, if found.software { " (in software)" } else { "" }),
        Err(DeviceError::Build(kind)) => {
            let driver = if libraries.iter().any(|name| opens(name)) { "the driver is there" } else { "no driver" };
            format!("{driver}; this build runs kernels on the processor (`--features {kind}` builds one that does more)")
        }
        Err(error) => format!("{error}; not needed"),
    };
    devices.iter().map(told).collect::<Vec<_>>().join(", ")
}

fn advice() -> String {
    format!("`wmc tasks install` fetches {}; the embedded tasks need nothing", install::VERSION)
}

/// What kernels are made of here: the smallest program there is tells.
fn instruction_set() -> &'static str {
    let instance = compiler::backend::cpu::Instance::new(&compiler::kernel::Program::default(), 1);
    instance.map_or("unknown", |i| i.instruction_set())
}

fn opens(name: &str) -> bool {
    // SAFETY: libraries of drivers, whose initialisers have no conditions.
    unsafe { libloading::Library::new(name) }.is_ok()
}
