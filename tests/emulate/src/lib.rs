//! CUDA on a processor: kernels' text, unchanged, compiled with `g++` and run.
//!
//! `include/` is the CUDA that kernels see, `machine/` what runs them: a fiber for each thread of a cube, barriers, warps. With
//! [`Build::watched`] every access to memory is checked: bounds, races in shared and in global memory, reads of shared memory that
//! nobody wrote. Whether the numbers are right is for the caller to say: a host program, in C++, fills the buffers, launches
//! kernels and writes what it wants known. `include/emulate.h` shows one. [`Standin`] is for programs that launch kernels
//! themselves, through NVIDIA's driver.

mod standin;

pub use standin::Standin;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A kernel as it was emitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// A C++ name; the host calls it as `NAME::FUNCTION(..)`, and findings name it.
    pub name: String,
    pub source: String,
}

impl Kernel {
    /// The same with barriers that [`Options::without`] can leave out, and how many it has.
    pub fn mutable(&self) -> (Kernel, usize) {
        const BARRIER: &str = "__syncthreads();";
        let parts: Vec<&str> = self.source.split(BARRIER).collect();
        let mut source = parts[0].to_string();
        for (number, part) in parts[1..].iter().enumerate() {
            source += &format!("EMULATE_BARRIER({number});{part}");
        }
        (Kernel { name: self.name.clone(), source }, parts.len() - 1)
    }
}

#[derive(Debug, Clone)]
pub struct Build {
    /// Where the program and all that it is made of goes. Folders in one folder share what is the same for all programs.
    pub folder: PathBuf,
    /// Check every access to memory: about ten times slower.
    pub watched: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`g++` does not start ({0}); it comes with `apt-get install g++`, `dnf install gcc-c++` or `pacman -S gcc`")]
    NoCompiler(std::io::Error),
    #[error("g++ refuses the text:\n{0}")]
    Refused(String),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// Not a finding: a signal, or a host program that says it failed.
    #[error("the program ended with {status}:\n{output}")]
    Failed { status: String, output: String },
}

/// A program that is ready to run.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    folder: PathBuf,
}

/// How to run it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads run in an order that this number decides; in their own order if it is 0.
    pub order: u64,
    /// Shared memory starts as NaN instead of zeros.
    pub poison: bool,
    /// Only the first cubes of each launch.
    pub cubes: Option<u32>,
    /// A barrier of a kernel with [`Kernel::mutable`] ones that is left out.
    pub without: Option<usize>,
    /// Report reads of shared memory that nobody wrote.
    pub uninitialised: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Race,
    OutOfBounds,
    Divergence,
    Uninitialised,
}

/// Something wrong with a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: Kind,
    /// Kernel, place and lines.
    pub text: String,
}

/// What a run said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub findings: Vec<Finding>,
    /// Standard output of the host program.
    pub output: String,
}

/// Compiles kernels together with the rest of a host program: its `main` and what that needs.
pub fn build(kernels: &[Kernel], main: &str, build: &Build) -> Result<Program, Error> {
    let folder = &build.folder;
    std::fs::create_dir_all(folder).map_err(|source| Error::File { path: folder.clone(), source })?;
    let machine = machine(folder.parent().unwrap_or(folder))?;
    // Before all namespaces, so that the includes of a kernel have nothing left to declare inside of one.
    let mut host = String::from("#include <cuda_runtime.h>\n");
    for header in ["cuda_fp16.h", "cuda_bf16.h", "mma.h"] {
        if kernels.iter().any(|k| k.source.contains(&format!("<{header}>"))) {
            host += &format!("#include <{header}>\n");
        }
    }
    for kernel in kernels {
        let file = format!("{}.cu", kernel.name);
        write(&folder.join(&file), &kernel.source)?;
        host += &format!("namespace {} {{ EMULATE_SHARED\n#include \"{file}\"\n}}\n", kernel.name);
    }
    host += main;
    write(&folder.join("host.cpp"), &host)?;
    let path = folder.join(if build.watched { "watched" } else { "plain" });
    let mut compiler = compiler(folder);
    compiler.arg("-c").arg("host.cpp").arg("-o").arg("host.o");
    // Accesses to memory become calls; machine/accesses.cpp has what is called instead of the sanitizer's library. More
    // optimisation would merge accesses that ought to be seen.
    compiler.args(if build.watched { &["-O1", "-fsanitize=thread"][..] } else { &["-O2"] });
    succeed(&mut compiler)?;
    let mut linker = Command::new("g++");
    linker.current_dir(folder).args(["-no-pie", "host.o"]).args(machine).arg("-o").arg(&path);
    succeed(&mut linker)?;
    Ok(Program { path, folder: folder.clone() })
}

impl Program {
    /// Runs it in its folder.
    pub fn run(&self, options: &Options, arguments: &[&str]) -> Result<Outcome, Error> {
        let mut list = vec![format!("order={}", options.order)];
        list.extend(options.cubes.map(|n| format!("cubes={n}")));
        list.extend(options.without.map(|n| format!("without={n}")));
        list.extend(options.poison.then(|| "poison".to_string()));
        list.extend(options.uninitialised.then(|| "uninitialised".to_string()));
        let mut command = Command::new(&self.path);
        command.current_dir(&self.folder).env("EMULATE", list.join(",")).args(arguments);
        let done = command.output().map_err(|source| Error::File { path: self.path.clone(), source })?;
        let said = String::from_utf8_lossy(&done.stderr);
        let findings: Vec<Finding> = said.lines().filter_map(finding).collect();
        match done.status.code() {
            Some(0) => {}
            Some(3) if !findings.is_empty() => {}
            _ => return Err(Error::Failed { status: done.status.to_string(), output: said.into_owned() }),
        }
        Ok(Outcome { findings, output: String::from_utf8_lossy(&done.stdout).into_owned() })
    }
}

fn finding(line: &str) -> Option<Finding> {
    let (kind, text) = line.strip_prefix("emulate: ")?.split_once(": ")?;
    let kind = match kind {
        "race" => Kind::Race,
        "out of bounds" => Kind::OutOfBounds,
        "divergence" => Kind::Divergence,
        "uninitialised" => Kind::Uninitialised,
        _ => return None,
    };
    Some(Finding { kind, text: text.to_string() })
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compiler(folder: &Path) -> Command {
    let mut command = Command::new("g++");
    command.current_dir(folder).args([
        "-std=c++20",
        "-g1",
        "-no-pie",
        "-fno-pie",
        "-fno-strict-aliasing",
        "-ffp-contract=off",
        "-w",
    ]);
    // Without it, every fma is a call.
    if cfg!(target_arch = "x86_64") {
        command.arg("-march=native");
    }
    command.arg("-I").arg(root().join("include"));
    command
}

/// The objects that every program needs, compiled once for a folder.
fn machine(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let sources = ["machine/emulate.cpp", "machine/accesses.cpp", "machine/report.cpp"];
    let mut hasher = DefaultHasher::new();
    for file in sources.iter().chain(&["machine/machine.h", "include/emulate.h"]) {
        let path = root().join(file);
        std::fs::read(&path).map_err(|source| Error::File { path, source })?.hash(&mut hasher);
    }
    let mut objects = Vec::new();
    for source in sources {
        let stem = Path::new(source).file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        let object = folder.join(format!("{stem}-{:016x}.o", hasher.finish()));
        if !object.exists() {
            // Another test, of this process or of another, may compile the same: a rename leaves no half of a file.
            static COUNT: AtomicUsize = AtomicUsize::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let partial = folder.join(format!("{stem}-{}-{count}.o", std::process::id()));
            succeed(compiler(folder).arg("-O2").arg("-c").arg(root().join(source)).arg("-o").arg(&partial))?;
            std::fs::rename(&partial, &object).map_err(|source| Error::File { path: object.clone(), source })?;
        }
        objects.push(object);
    }
    Ok(objects)
}

fn succeed(command: &mut Command) -> Result<(), Error> {
    let Output { status, stderr, .. } = command.output().map_err(Error::NoCompiler)?;
    if status.success() { Ok(()) } else { Err(Error::Refused(String::from_utf8_lossy(&stderr).into_owned())) }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(|source| Error::File { path: path.to_path_buf(), source })
}
