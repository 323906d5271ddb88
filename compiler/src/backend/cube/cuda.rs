//! CUDA devices.

use std::path::Path;

use cubecl::config::RuntimeConfig;
use cubecl::prelude::Runtime;
use cubecl_cuda::{CudaDevice, CudaRuntime};
use cubecl_runtime::config::CubeClRuntimeConfig;
use cubecl_runtime::config::cache::CacheConfig;
use libloading::Library;

use super::device::{Device, DeviceError, quietly};
use super::emitted::{Numerics, Precision, Target};

/// Compiled kernels are kept in a folder from now on, by their text, the device's architecture, the driver and our version.
/// To be called before a device is opened: nothing changes after that.
pub fn keep_compiled(folder: &Path) {
    let mut config = CubeClRuntimeConfig::storage().lock();
    if config.is_none() {
        let mut own = CubeClRuntimeConfig::default();
        own.compilation.cache = Some(CacheConfig::File(folder.to_path_buf()));
        *config = Some(own.into());
    }
}

fn missing(index: usize, reason: String) -> DeviceError {
    DeviceError::NoDevice { kind: "CUDA", index, reason }
}

/// What a device is called where the driver is not asked.
pub fn name(index: usize) -> String {
    format!("CUDA device {index}")
}

/// Asks the driver for a device: CubeCL ends the program where there is none.
pub fn probe(index: usize, precision: Precision) -> Result<(), DeviceError> {
    let arch = driver_of(index)?.arch(index).map_err(|reason| missing(index, reason))?;
    multiplies(index, arch, precision)
}

/// The first whose tensor cores take single precision, rounded.
const TENSOR_CORES: u32 = 80;

fn multiplies(index: usize, arch: u32, precision: Precision) -> Result<(), DeviceError> {
    if precision == Precision::F32 || arch >= TENSOR_CORES {
        return Ok(());
    }
    let name = precision.name();
    Err(missing(index, format!("tensor cores multiply in {name} from sm_{TENSOR_CORES} on, and this one is sm_{arch}")))
}

/// The driver, if it has a device of this number.
fn driver_of(index: usize) -> Result<Driver, DeviceError> {
    let driver = Driver::open().map_err(|reason| missing(index, reason))?;
    let count = driver.count().map_err(|reason| missing(index, reason))?;
    if index < count { Ok(driver) } else { Err(missing(index, format!("the driver has {count}, counted from 0"))) }
}

/// Opens a device. All that CubeCL needs is looked for first: it ends the program where something is missing.
pub fn open(index: usize, numerics: Numerics) -> Result<Device<CudaRuntime>, DeviceError> {
    let driver = driver_of(index)?;
    let told = |reason: String| missing(index, reason);
    let (arch, version) = (driver.arch(index).map_err(told)?, driver.version().map_err(told)?);
    multiplies(index, arch, numerics.precision)?;
    compiler().map_err(told)?;
    let opened = quietly(move || CudaRuntime::client(&CudaDevice::new(index)));
    let client = opened.ok_or_else(|| missing(index, "it cannot be opened".into()))?;
    let target = Target::Cuda { arch };
    Ok(Device { client, target, driver: format!("CUDA {version}"), numerics, name: name(index) })
}

/// NVRTC and its headers, which kernels are compiled with when they are launched first.
fn compiler() -> Result<(), String> {
    let names = if cfg!(windows) {
        ["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc.dll"]
    } else {
        ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]
    };
    // SAFETY: a library of NVIDIA's, whose initialisers ask for nothing.
    if !names.iter().any(|name| unsafe { Library::new(*name) }.is_ok()) {
        return Err(format!("NVIDIA's run-time compiler ({}) is not there; it comes with the CUDA toolkit", names[2]));
    }
    match cubecl_cuda::install::cuda_path() {
        Some(path) if path.join("include").is_dir() => Ok(()),
        _ => Err("the headers of the CUDA toolkit are not there; CUDA_PATH says where it is".into()),
    }
}

/// The driver's library.
struct Driver(Library);

type Init = unsafe extern "C" fn(u32) -> i32;
type Number = unsafe extern "C" fn(*mut i32) -> i32;
type Attribute = unsafe extern "C" fn(*mut i32, i32, i32) -> i32;

impl Driver {
    fn open() -> Result<Driver, String> {
        let names = if cfg!(windows) { &["nvcuda.dll"][..] } else { &["libcuda.so.1", "libcuda.so"] };
        // SAFETY: the driver's library runs nothing when it is loaded but its own set-up.
        let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let driver = Driver(library.ok_or_else(|| format!("the driver's library ({}) is not there", names[0]))?);
        // SAFETY: as the driver's interface has it.
        let init = unsafe { driver.0.get::<Init>(b"cuInit\0") };
        // SAFETY: it takes a number that has to be zero.
        match init.map(|init| unsafe { init(0) }) {
            Ok(0) => Ok(driver),
            Ok(code) => Err(format!("the driver does not start: error {code}")),
            Err(_) => Err("the driver's library is not CUDA's".into()),
        }
    }

    /// A number that a function of the driver gives.
    fn number(&self, function: &str) -> Result<usize, String> {
        let mut number = 0;
        // SAFETY: as the driver's interface has it; a number is written, nothing else is touched.
        let code = unsafe { self.0.get::<Number>(function).map(|f| f(&mut number)) };
        answer(code, number, function)
    }

    fn count(&self) -> Result<usize, String> {
        self.number("cuDeviceGetCount")
    }

    fn version(&self) -> Result<usize, String> {
        self.number("cuDriverGetVersion")
    }

    /// A device's compute capability: 86 for 8.6.
    fn arch(&self, index: usize) -> Result<u32, String> {
        let attribute = |which: i32| {
            let mut number = 0;
            // SAFETY: as the driver's interface has it; the first devices are numbered from zero.
            let code = unsafe { self.0.get::<Attribute>("cuDeviceGetAttribute").map(|f| f(&mut number, which, index as i32)) };
            answer(code, number, "cuDeviceGetAttribute")
        };
        const MAJOR: i32 = 75;
        const MINOR: i32 = 76;
        Ok((10 * attribute(MAJOR)? + attribute(MINOR)?) as u32)
    }
}

fn answer(code: Result<i32, libloading::Error>, number: i32, function: &str) -> Result<usize, String> {
    match code {
        Ok(0) => Ok(usize::try_from(number).unwrap_or(0)),
        Ok(code) => Err(format!("the driver's {function} fails: error {code}")),
        Err(_) => Err(format!("the driver has no {function}")),
    }
}
