//! Text for devices other than the processor, in builds that have it (`--features emit`).

use compiler::artefact::EntryPoint;
use compiler::backend::cube::{self, Emitted};

use crate::cli::{Emit, Target};

/// What to do about it.
pub(super) const BUILD: &str = "build it with `cargo build --release --features emit`";

/// Whether this build has texts for devices.
pub(super) const EMITS: bool = cfg!(feature = "emit");

/// Why this build cannot compile for a target.
pub(super) fn missing(target: Target) -> Option<String> {
    refused(&[target], &[], EMITS).map(|(told, _)| told)
}

/// Why texts for targets cannot be made, and what to do about it. `emits` is a build that has texts for devices.
pub(super) fn refused(targets: &[Target], texts: &[Emit], emits: bool) -> Option<(String, String)> {
    if let Some(target) = targets.iter().find(|target| !emits && **target != Target::Cpu) {
        return Some((format!("this build of wmc compiles for the processor alone, not for `{target}`"), BUILD.into()));
    }
    let cuda = targets.iter().any(|target| matches!(target, Target::Cuda(..)));
    let wanting = texts.iter().find_map(|text| match text {
        Emit::Cuda if !cuda => Some(("cuda", "cuda:sm_86")),
        Emit::Ptx if !cuda => Some(("ptx", "cuda:sm_86")),
        Emit::Wgsl if !targets.contains(&Target::Vulkan) => Some(("wgsl", "vulkan")),
        _ => None,
    });
    let (text, target) = wanting?;
    Some(match emits {
        true => (format!("no target has a text `{text}`"), format!("add `--target {target}`")),
        false => {
            let told = format!("this build of wmc compiles for the processor alone: it has no text `{text}`");
            (told, format!("{BUILD}, and add `--target {target}`"))
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_build_or_a_target_does_not_have() {
        let cuda = Target::Cuda(86, cube::Numerics::default());
        let cpu_alone = refused(&[Target::Cpu], &[Emit::Kernels, Emit::Cuda], false);
        let (told, fix) = cpu_alone.expect("a build without CUDA text");
        assert!(told.contains("no text `cuda`") && fix.contains("--features emit") && fix.contains("--target cuda:sm_86"));
        let (told, fix) = refused(&[cuda], &[], false).expect("a build without CUDA text");
        assert!(told.contains("not for `cuda:sm_86`") && fix.contains("--features emit"));
        let (told, fix) = refused(&[Target::Vulkan], &[Emit::Ptx], true).expect("no CUDA target");
        assert!(told.contains("`ptx`") && fix == "add `--target cuda:sm_86`");
        let (told, fix) = refused(&[cuda], &[Emit::Wgsl], true).expect("no Vulkan target");
        assert!(told.contains("`wgsl`") && fix == "add `--target vulkan`");
        assert_eq!(refused(&[Target::Cpu], &[Emit::Ir, Emit::All], false), None);
        assert_eq!(refused(&[Target::Cpu, cuda], &[Emit::Cuda, Emit::Ptx, Emit::All], true), None);
    }
}
