//! Kernels' text through NVRTC and its assembler: does it compile, with how many registers, and would it run.
//!
//! `nvrtc.py` does it, with a compiler that it fetches into the user's cache once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// What kernels are compiled for, and what a cube may use there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arch {
    pub name: &'static str,
    /// Bytes of shared memory that one cube may ask for.
    pub shared: usize,
    /// Shared memory of a multiprocessor, a kilobyte of which every cube costs beside its own.
    pub all_shared: usize,
    /// Registers of a multiprocessor, all of which one cube may take.
    pub registers: usize,
    /// Threads that a multiprocessor holds.
    pub threads: usize,
}

/// From NVIDIA's table of compute capabilities.
pub const ARCHS: [Arch; 4] = [
    Arch { name: "sm_80", shared: 163 << 10, all_shared: 164 << 10, registers: 64 << 10, threads: 2048 },
    Arch { name: "sm_86", shared: 99 << 10, all_shared: 100 << 10, registers: 64 << 10, threads: 1536 },
    Arch { name: "sm_90", shared: 227 << 10, all_shared: 228 << 10, registers: 64 << 10, threads: 2048 },
    Arch { name: "sm_100", shared: 227 << 10, all_shared: 228 << 10, registers: 64 << 10, threads: 2048 },
];

/// A kernel as it was emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// Unique among those that are checked together.
    pub name: String,
    pub source: String,
    /// Threads of a cube.
    pub threads: usize,
    /// Bytes of shared memory; CubeCL's is dynamic, so that the assembler does not know it.
    pub shared: usize,
}

/// What became of a text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Figures {
    #[serde(rename = "file")]
    pub name: String,
    pub arch: String,
    pub registers: usize,
    /// Bytes of registers that did not fit, stored and loaded.
    pub spills: usize,
    /// Bytes of local memory: spills, and arrays that are indexed.
    pub stack: usize,
    /// Of the processor.
    pub ms: u64,
    pub ptx_bytes: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("python3 does not start: {0}")]
    NoPython(std::io::Error),
    #[error("NVIDIA's compiler could not be fetched:\n{0}")]
    NoCompiler(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("nvrtc.py answers what is not understood: {0}")]
    Answer(String),
    #[error("`{name}` does not compile for {arch}: {message}")]
    Refused { name: String, arch: String, message: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Fine(Figures),
    Refused { file: String, arch: String, error: String },
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("nvrtc.py")).args(arguments);
    command
}

/// Fetches NVIDIA's compiler, unless it is there.
pub fn install() -> Result<(), Error> {
    let done = python(&["install"]).output().map_err(Error::NoPython)?;
    if done.status.success() { Ok(()) } else { Err(Error::NoCompiler(String::from_utf8_lossy(&done.stderr).into_owned())) }
}

/// Whether NVIDIA's compiler is there. Where it is not and cannot be fetched, says so past the test runner, which shows nothing
/// of a test that passes; with `WMC_REQUIRE_NVRTC` it is an error.
pub fn available() -> Result<bool, Error> {
    match install() {
        Ok(()) => Ok(true),
        Err(error) if std::env::var_os("WMC_REQUIRE_NVRTC").is_some() => Err(error),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "\nSKIPPED, no kernel was compiled with NVRTC: {error}\n");
            Ok(false)
        }
    }
}

/// Compiles texts for architectures; files go to a folder, where they can be looked at.
pub fn compile(texts: &[Text], archs: &[Arch], folder: &Path) -> Result<Vec<Figures>, Error> {
    install()?;
    std::fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.to_path_buf(), source })?;
    for text in texts {
        let path = folder.join(&text.name);
        std::fs::write(&path, &text.source).map_err(|source| Error::File { path, source })?;
    }
    let names: Vec<&str> = archs.iter().map(|a| a.name).collect();
    let mut command = python(&["check", &names.join(",")]);
    command.current_dir(folder).args(texts.iter().map(|t| &t.name));
    let done = command.output().map_err(Error::NoPython)?;
    let said = String::from_utf8_lossy(&done.stdout);
    let mut figures = Vec::new();
    for line in said.lines() {
        match serde_json::from_str(line).map_err(|e| Error::Answer(format!("{e}: {line}")))? {
            Line::Fine(f) => figures.push(f),
            Line::Refused { file, arch, error } => return Err(Error::Refused { name: file, arch, message: error }),
        }
    }
    if figures.len() == texts.len() * archs.len() {
        Ok(figures)
    } else {
        Err(Error::Answer(format!("{said}{}", String::from_utf8_lossy(&done.stderr))))
    }
}

/// Registers that a cube takes: they are given to warps, 8 a lane at a time.
fn registers(text: &Text, figures: &Figures) -> usize {
    figures.registers.next_multiple_of(8) * text.threads.next_multiple_of(32)
}

/// Cubes that a multiprocessor holds at the same time, by registers, shared memory and threads.
pub fn resident(text: &Text, figures: &Figures, arch: &Arch) -> usize {
    let by_shared = arch.all_shared / (text.shared + 1024);
    by_shared.min(arch.registers / registers(text, figures)).min(arch.threads / text.threads.next_multiple_of(32))
}

/// Why a kernel would not run, or not well.
pub fn over_budget(text: &Text, figures: &Figures, arch: &Arch) -> Vec<String> {
    let mut reasons = Vec::new();
    if figures.spills > 0 {
        reasons.push(format!("{} bytes of registers are spilled", figures.spills));
    }
    if text.shared > arch.shared {
        reasons.push(format!("{} bytes of shared memory are asked for and a cube may have {}", text.shared, arch.shared));
    }
    if registers(text, figures) > arch.registers {
        reasons
            .push(format!("{} threads with {} registers are more than {} hold", text.threads, figures.registers, arch.registers));
    }
    reasons
}
