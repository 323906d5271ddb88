//! Kernels as CubeCL's runtimes are handed them: code is made when a runtime asks for it.

use std::sync::Arc;

use cubecl::InfoBuilder;
use cubecl::ir::AddressType;
use cubecl::ir::features::Plane;
use cubecl::prelude::{ComputeClient, CubeDim, KernelId, Runtime, StorageType};
use cubecl::server::{Handle, KernelArguments};
use cubecl_runtime::compiler::CubeTask;
use cubecl_runtime::kernel::{CubeKernel, KernelDefinition, KernelMetadata};

use super::super::emitted::Binding;
use super::super::launch::Launch;
use super::super::plan::Buffers;
use super::{address_type, binding_type};

/// A runtime that programs run on.
pub trait Driver: Runtime {
    #[doc(hidden)]
    fn task(task: Task) -> Box<dyn CubeTask<Self::Compiler>>;
}

/// A launch.
#[derive(Debug, Clone)]
pub struct Task {
    pub(in super::super) launch: Arc<Launch>,
    pub(in super::super) buffers: Arc<Buffers>,
    /// Of all that shapes the code: runtimes keep by it what they have compiled.
    pub(in super::super) key: [u8; 32],
}

impl KernelMetadata for Task {
    fn id(&self) -> KernelId {
        // Code out of a cache is launched with the units that are told here.
        KernelId::new::<Self>().info((self.launch.name.clone(), self.key)).cube_dim(CubeDim::new_1d(self.launch.units))
    }

    fn address_type(&self) -> StorageType {
        address_type()
    }
}

impl CubeKernel for Task {
    fn define(&self) -> KernelDefinition {
        self.launch.code(&self.buffers).finish(&self.launch.name)
    }
}

/// What a launch is called with: arenas with their lengths in numbers, then scalars.
pub(in super::super) fn arguments(
    bound: impl Iterator<Item = (Handle, usize, Binding)>,
    scalars: impl Iterator<Item = u32>,
) -> KernelArguments {
    let mut info = InfoBuilder::default();
    let mut arguments = KernelArguments::new();
    for (handle, numbers, binding) in bound {
        let length = (numbers / binding.vector as usize) as u64;
        let stored = handle.size_in_used() / binding_type(&binding).size() as u64;
        info.metadata.register_array(stored, length, AddressType::U32);
        arguments.buffers.push(handle.binding());
    }
    scalars.for_each(|scalar| info.scalars.push(scalar));
    arguments.info = info.finish(AddressType::U32);
    arguments
}

/// Units of a plane, where it can be used and has the same width throughout; else 1.
pub(in super::super) fn plane_width<R: Runtime>(client: &ComputeClient<R>) -> u32 {
    let properties = client.properties();
    let (least, most) = (properties.hardware.plane_size_min, properties.hardware.plane_size_max);
    let usable = properties.features.plane.contains(Plane::Ops) && least == most && least.is_power_of_two();
    if usable { least } else { 1 }
}

#[cfg(feature = "vulkan")]
impl Driver for cubecl_wgpu::WgpuRuntime {
    fn task(task: Task) -> Box<dyn CubeTask<Self::Compiler>> {
        Box::new(cubecl_runtime::kernel::KernelTask::new(task))
    }
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::super::text;
    use super::*;
    use cubecl::prelude::ExecutionMode;
    use cubecl_cpp::shared::CompilationOptions;
    use cubecl_cuda::{CudaCompiler, CudaRuntime};
    use cubecl_runtime::compiler::CompilationError;
    use cubecl_runtime::kernel::CompiledKernel;

    impl Driver for CudaRuntime {
        fn task(task: Task) -> Box<dyn CubeTask<Self::Compiler>> {
            Box::new(CudaTask(task))
        }
    }

    /// Compiled as the text that is emitted is.
    struct CudaTask(Task);

    impl KernelMetadata for CudaTask {
        fn id(&self) -> KernelId {
            self.0.id()
        }

        fn address_type(&self) -> StorageType {
            self.0.address_type()
        }
    }

    impl CubeTask<CudaCompiler> for CudaTask {
        fn compile(
            &self,
            _: &mut CudaCompiler,
            options: &CompilationOptions,
            _: ExecutionMode,
            _: StorageType,
        ) -> Result<CompiledKernel<CudaCompiler>, CompilationError> {
            let kernel = self.0.define();
            let cube_dim = kernel.cube_dim;
            let (compiled, source) = text::cuda(kernel, options)?;
            let entrypoint_name = self.0.launch.name.clone();
            Ok(CompiledKernel { entrypoint_name, debug_name: None, source, repr: Some(compiled), cube_dim, debug_info: None })
        }
    }
}
