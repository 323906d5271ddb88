//! Kernels as text.

use std::sync::{Mutex, PoisonError};

use cubecl::Compiler;
use cubecl::ir::{Branch, Operation, Scope};
use cubecl::prelude::ExecutionMode;
use cubecl_cpp::ComputeKernel;
use cubecl_cpp::cuda::{CudaDialect, mma::CudaWmmaCompiler};
use cubecl_cpp::shared::{
    CompilationOptions, CppCompiler, CppSupportedFeatures, CubeIndexFlags, Flags, Instruction, SharedMemory,
};
use cubecl_runtime::compiler::CompilationError;
use cubecl_runtime::kernel::KernelDefinition;

use super::super::emitted::Target;
use super::address_type;

type Dialect = CudaDialect<CudaWmmaCompiler>;

/// Text of a kernel, and the bytes of shared memory that it needs.
pub(in super::super) fn text(kernel: KernelDefinition, target: Target) -> Result<(String, usize), String> {
    match target {
        Target::Cuda { arch } => {
            let options = CompilationOptions {
                warp_size: 32,
                supports_features: CppSupportedFeatures {
                    fast_math: true,
                    grid_constants: arch >= 70,
                    fast_tanh: arch >= 75,
                    clusters: arch >= 90,
                    elect_sync: arch >= 90,
                },
            };
            let (compiled, text) = cuda(kernel, &options).map_err(|e| format!("{e:?}"))?;
            Ok((text, compiled.shared_memory_size()))
        }
        Target::Wgsl => {
            let mut compiler = cubecl_wgpu::WgslCompiler::default();
            let compiled = compiler
                .compile(kernel, &Default::default(), ExecutionMode::Unchecked, address_type())
                .map_err(|e| format!("{e:?}"))?;
            let shared = compiled.shared_memory_bytes();
            Ok((compiled.to_string(), shared))
        }
    }
}

/// A kernel for CUDA, and its text.
pub(super) fn cuda(
    kernel: KernelDefinition,
    options: &CompilationOptions,
) -> Result<(ComputeKernel<Dialect>, String), CompilationError> {
    // CubeCL numbers temporary variables with one counter for all threads.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _mine = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = scope_by_scope(kernel, options)?;
    let text = with_hints(&compiled.to_string());
    Ok((compiled, text))
}

/// As a whole, CubeCL would look for shared arrays that may overlap, in time that grows with the square of a kernel's length;
/// ours do not.
fn scope_by_scope(kernel: KernelDefinition, options: &CompilationOptions) -> Result<ComputeKernel<Dialect>, CompilationError> {
    let mut scopes = Vec::new();
    let mut hollow = kernel.body.clone();
    hollow.instructions.clear();
    let mut body = kernel.body;
    for instruction in &mut body.instructions {
        if let Operation::Branch(branch) = &mut instruction.operation {
            scopes.push(std::mem::replace(inside(branch), hollow.child()));
        }
    }
    let frame = KernelDefinition { body: hollow, ..kernel };
    let mut compiler = CppCompiler::<Dialect>::default();
    let mut whole =
        compiler.compile(KernelDefinition { body, ..frame.clone() }, options, ExecutionMode::Unchecked, address_type())?;
    let mut instructions = std::mem::take(&mut whole.body.instructions);
    let mut scopes = scopes.into_iter();
    for instruction in &mut instructions {
        let (Instruction::If { instructions: inner, .. } | Instruction::RangeLoop { instructions: inner, .. }) = instruction
        else {
            continue;
        };
        let body = scopes.next().expect("a branch for every branch");
        let part = scope_by_scope(KernelDefinition { body, ..frame.clone() }, options)?;
        *inner = part.body.instructions;
        whole.items.extend(part.items);
        for extension in part.extensions {
            if !whole.extensions.contains(&extension) {
                whole.extensions.push(extension);
            }
        }
        whole.body.const_arrays.extend(part.body.const_arrays);
        whole.body.shared_memories.extend(part.body.shared_memories);
        unite(&mut whole.flags, &part.flags);
    }
    whole.body.instructions = instructions;
    side_by_side(&mut whole.body.shared_memories);
    Ok(whole)
}

/// Every array of shared memory once, in the order in which they were made, one behind the other; CubeCL's order is chance.
fn side_by_side(arrays: &mut Vec<SharedMemory<Dialect>>) {
    let of = |array: &SharedMemory<Dialect>| match array {
        SharedMemory::Array { index, .. } | SharedMemory::Value { index, .. } => *index,
    };
    arrays.sort_by_key(of);
    arrays.dedup_by_key(|array| of(array));
    let mut end = 0usize;
    for array in arrays {
        let at = end.next_multiple_of(array.align());
        end = at + array.size();
        let (SharedMemory::Array { offset, .. } | SharedMemory::Value { offset, .. }) = array;
        *offset = at;
    }
}

/// The scope of a branch; the builder makes no others.
fn inside(branch: &mut Branch) -> &mut Scope {
    match branch {
        Branch::If(branch) => &mut branch.scope,
        Branch::RangeLoop(branch) => &mut branch.scope,
        _ => unreachable!("the builder has conditions and ranges"),
    }
}

/// What either needs.
fn unite(flags: &mut Flags<Dialect>, other: &Flags<Dialect>) {
    let CubeIndexFlags { cube_pos_tuple, unit_pos_tuple, unit_pos, cube_pos, unit_pos_plane, plane_dim, plane_pos, .. } =
        other.indexes;
    let indexes = &mut flags.indexes;
    for (flag, other) in [
        (&mut indexes.cube_pos_tuple, cube_pos_tuple),
        (&mut indexes.unit_pos_tuple, unit_pos_tuple),
        (&mut indexes.cube_pos, cube_pos),
        (&mut indexes.unit_pos, unit_pos),
        (&mut indexes.unit_pos_plane, unit_pos_plane),
        (&mut indexes.plane_dim, plane_dim),
        (&mut indexes.plane_pos, plane_pos),
        (&mut flags.inst_wmma, other.inst_wmma),
        (&mut flags.elem_bf16, other.elem_bf16),
        (&mut flags.elem_f16, other.elem_f16),
        (&mut flags.elem_tf32, other.elem_tf32),
    ] {
        *flag |= other;
    }
}

/// Before a loop, with a number; the form has no word for it.
pub(super) const UNROLL: &str = "unroll ";

/// What CubeCL cannot say. A cube has a processor to itself: with more cubes in mind, the assembler would rather spill than take
/// registers.
fn with_hints(text: &str) -> String {
    let text = text.replace(&format!("// {UNROLL}"), &format!("#pragma {UNROLL}"));
    match text.split_once("__launch_bounds__(").and_then(|(before, after)| Some((before, after.split_once(')')?))) {
        Some((before, (units, after))) => format!("{before}__launch_bounds__({units}, 1) {after}"),
        None => text,
    }
}
