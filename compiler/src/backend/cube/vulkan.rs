//! Vulkan devices, by way of wgpu.

use std::sync::{Mutex, PoisonError};

use cubecl::prelude::Runtime;
use cubecl_wgpu::{RuntimeOptions, Vulkan, WgpuDevice, WgpuRuntime, init_setup};

use super::device::{Device, DeviceError};
use super::emitted::Target;

/// A Vulkan device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VulkanDevice {
    pub name: String,
    /// A driver that computes on the processor.
    pub software: bool,
    which: WgpuDevice,
}

/// The devices that there are; none where there is no driver.
pub fn devices() -> Vec<VulkanDevice> {
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

/// Opens a device, by its place in [`devices`].
pub fn open(index: usize) -> Result<Device<WgpuRuntime>, DeviceError> {
    let found = devices();
    let missing = |reason: String| DeviceError::NoDevice { kind: "Vulkan", index, reason };
    let device = found.get(index).ok_or_else(|| match found.len() {
        0 => missing(
            "no Vulkan driver has one; on Debian `apt-get install mesa-vulkan-drivers libvulkan1` has one in software".into(),
        ),
        n => missing(format!("there are {n}, counted from 0")),
    })?;
    // A device that is there may still refuse to be opened, which wgpu's runtime answers with a panic.
    let which = device.which.clone();
    let opened = std::panic::catch_unwind(move || {
        // A device is set up once.
        static OPENED: Mutex<Vec<WgpuDevice>> = Mutex::new(Vec::new());
        let mut set_up = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if !set_up.contains(&which) {
            init_setup::<Vulkan>(&which, RuntimeOptions::default());
            set_up.push(which.clone());
        }
        WgpuRuntime::client(&which)
    });
    let client = opened.map_err(|_| missing("it cannot be opened".into()))?;
    Ok(Device { client, target: Target::Wgsl, driver: device.name.clone() })
}
