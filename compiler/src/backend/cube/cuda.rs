//! CUDA devices.

use cubecl::prelude::{ComputeClient, Runtime};
use cubecl_cuda::{CudaDevice, CudaRuntime};

use super::device::{DeviceError, quietly};

fn missing(index: usize, reason: String) -> DeviceError {
    DeviceError::NoDevice { kind: "CUDA", index, reason }
}

/// Asks the driver for a device: CubeCL ends the program where there is none.
pub fn probe(index: usize) -> Result<(), DeviceError> {
    let names = if cfg!(windows) { &["nvcuda.dll"][..] } else { &["libcuda.so.1", "libcuda.so"] };
    // SAFETY: the driver's library runs nothing when it is loaded but its own set-up.
    let driver = names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok());
    let driver = driver.ok_or_else(|| missing(index, format!("the driver's library ({}) is not there", names[0])))?;
    let count = count(&driver).map_err(|reason| missing(index, reason))?;
    if index < count { Ok(()) } else { Err(missing(index, format!("the driver has {count}, counted from 0"))) }
}

/// A client for a device.
pub fn open(index: usize) -> Result<ComputeClient<CudaRuntime>, DeviceError> {
    probe(index)?;
    quietly(move || CudaRuntime::client(&CudaDevice::new(index))).ok_or_else(|| missing(index, "it cannot be opened".into()))
}

/// Devices that the driver has.
fn count(driver: &libloading::Library) -> Result<usize, String> {
    type Init = unsafe extern "C" fn(u32) -> i32;
    type Count = unsafe extern "C" fn(*mut i32) -> i32;
    // SAFETY: the functions of the driver's interface, with the types that it documents.
    let (init, count) = unsafe { (driver.get::<Init>(b"cuInit\0"), driver.get::<Count>(b"cuDeviceGetCount\0")) };
    let (Ok(init), Ok(count)) = (init, count) else { return Err("the driver's library is not CUDA's".into()) };
    let mut devices = 0;
    // SAFETY: `devices` is written, nothing else is touched.
    match unsafe { (init(0), count(&mut devices)) } {
        (0, 0) => Ok(usize::try_from(devices).unwrap_or(0)),
        (code, _) => Err(format!("the driver does not start: error {code}")),
    }
}
