//! Text for devices other than the processor, in builds that have it (`--features emit`).

use compiler::artefact::EntryPoint;
use compiler::backend::cube::{self, Emitted};

use crate::cli::{Emit, Target};

/// What to do about it.
pub(super) const BUILD: &str = "build it with `cargo build --release --features emit`";

/// Why this build cannot compile for a target.
pub(super) fn missing(target: Target) -> Option<String> {
    let can = cfg!(feature = "emit") || target == Target::Cpu;
    (!can).then(|| format!("this build of wmc compiles for the processor alone, not for `{target}`"))
}

/// An entry point as text for a device; none for the processor, which runs tile programs as they are.
#[cfg(feature = "emit")]
pub(super) fn emitted(entry: &EntryPoint, target: Target) -> Result<Option<Emitted>, cube::EmitError> {
    use compiler::backend::Resident;
    use cube::Limits;
    let (target, limits) = match target {
        Target::Cuda(arch, numerics) => (cube::Target::Cuda { arch }, Limits::cuda(arch).with(numerics)),
        Target::Vulkan => (cube::Target::Wgsl, Limits::wgsl()),
        Target::Cpu | Target::All => return Ok(None),
    };
    cube::emit(&entry.kernels, target, &limits, &Resident::of(&entry.interface)).map(Some)
}

/// Nothing: [`missing`] has said so before.
#[cfg(not(feature = "emit"))]
pub(super) fn emitted(_: &EntryPoint, _: Target) -> Result<Option<Emitted>, std::convert::Infallible> {
    Ok(None)
}

/// What it was emitted for.
pub(super) fn target(emitted: &Emitted) -> Target {
    match emitted.target {
        cube::Target::Cuda { arch } => Target::Cuda(arch, emitted.numerics),
        cube::Target::Wgsl => Target::Vulkan,
    }
}

/// The text's language, and how its files end.
pub(super) fn language(emitted: &Emitted) -> (Emit, &'static str) {
    match emitted.target {
        cube::Target::Cuda { .. } => (Emit::Cuda, "cu"),
        cube::Target::Wgsl => (Emit::Wgsl, "wgsl"),
    }
}

/// What NVRTC makes of a kernel, where it is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assembled {
    pub(super) ptx: String,
    pub(super) registers: usize,
    /// Bytes of registers that did not fit.
    pub(super) spills: usize,
}

/// Of every kernel of a CUDA program. None where it is for another device or NVRTC is not there; an error names the kernel.
#[cfg(feature = "emit")]
pub(super) fn assembled(emitted: &Emitted) -> Result<Option<Vec<Assembled>>, String> {
    let cube::Target::Cuda { arch } = emitted.target else { return Ok(None) };
    let Some(nvrtc) = super::nvrtc::Nvrtc::open() else { return Ok(None) };
    let each = emitted.kernels.iter().map(|k| nvrtc.compile(&k.source, arch).map_err(|e| format!("`{}`: {e}", k.name)));
    each.collect::<Result<_, _>>().map(Some)
}

#[cfg(not(feature = "emit"))]
pub(super) fn assembled(_: &Emitted) -> Result<Option<Vec<Assembled>>, String> {
    Ok(None)
}
