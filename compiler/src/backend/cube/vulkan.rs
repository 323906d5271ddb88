//! Vulkan devices, by way of wgpu.

use std::sync::{Mutex, OnceLock, PoisonError};

use cubecl::prelude::Runtime;
use cubecl_wgpu::{RuntimeOptions, Vulkan, WgpuDevice, WgpuRuntime, init_setup};

use super::device::{Device, DeviceError, quietly};
use super::emitted::{Numerics, Target};

/// A Vulkan device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VulkanDevice {
    pub name: String,
    /// A driver that computes on the processor.
    pub software: bool,
    which: WgpuDevice,
}

/// The devices that there are; none where there is no driver. The driver is asked once.
pub fn devices() -> &'static [VulkanDevice] {
    static FOUND: OnceLock<Vec<VulkanDevice>> = OnceLock::new();
    FOUND.get_or_init(enumerate)
}

fn enumerate() -> Vec<VulkanDevice> {
    let descriptor =
        wgpu::InstanceDescriptor { backends: wgpu::Backends::VULKAN, ..wgpu::InstanceDescriptor::new_without_display_handle() };
    let instance = wgpu::Instance::new(descriptor);
    let adapters = cubecl::future::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let mut found: Vec<VulkanDevice> = Vec::new();
    let mut counts = [0; 3];
    let mut next = |kind: usize| {
        counts[kind] += 1;
        counts[kind] - 1
    };
    for adapter in adapters {
        let info = adapter.get_info();
        let which = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => WgpuDevice::DiscreteGpu(next(0)),
            wgpu::DeviceType::IntegratedGpu => WgpuDevice::IntegratedGpu(next(1)),
            wgpu::DeviceType::VirtualGpu => WgpuDevice::VirtualGpu(next(2)),
            wgpu::DeviceType::Cpu => WgpuDevice::Cpu,
            wgpu::DeviceType::Other => continue,
        };
        found.push(VulkanDevice { name: info.name, software: which == WgpuDevice::Cpu, which });
    }
    found
}

fn missing(index: usize, reason: String) -> DeviceError {
    DeviceError::NoDevice { kind: "Vulkan", index, reason }
}

/// A device by its place in [`devices`].
pub fn probe(index: usize) -> Result<VulkanDevice, DeviceError> {
    let found = devices();
    match found.len() {
        0 => {
            let software = "on Debian `apt-get install mesa-vulkan-drivers libvulkan1` has one in software";
            Err(missing(index, format!("no Vulkan driver has one; {software}")))
        }
        n if index >= n => Err(missing(index, format!("there are {n}, counted from 0"))),
        _ => Ok(found[index].clone()),
    }
}

/// Opens a device, by its place in [`devices`].
pub fn open(index: usize) -> Result<Device<WgpuRuntime>, DeviceError> {
    let device = probe(index)?;
    // A device that is there may still refuse to be opened, which wgpu's runtime answers with a panic.
    let which = device.which.clone();
    let opened = quietly(move || {
        // A device is set up once.
        static OPENED: Mutex<Vec<WgpuDevice>> = Mutex::new(Vec::new());
        let mut set_up = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if !set_up.contains(&which) {
            init_setup::<Vulkan>(&which, RuntimeOptions::default());
            set_up.push(which.clone());
        }
        WgpuRuntime::client(&which)
    });
    let client = opened.ok_or_else(|| missing(index, "it cannot be opened".into()))?;
    let name = device.name.clone();
    Ok(Device { client, target: Target::Wgsl, driver: device.name, numerics: Numerics::default(), name })
}
