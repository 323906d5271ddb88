//! Programs that launch kernels through NVIDIA's driver, on a machine without a GPU.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Error, root, succeed};

/// Two libraries in the place of NVIDIA's: a driver that runs kernels here (`standin/driver.cpp`) and a run-time compiler
/// (`standin/nvrtc.cpp`). A program that opens them runs unchanged.
#[derive(Debug)]
pub struct Standin {
    home: PathBuf,
}

impl Standin {
    /// Builds the libraries in a folder, unless they are there. Compiled kernels are kept in it as well.
    pub fn build(folder: &Path) -> Result<Standin, Error> {
        let mut hasher = DefaultHasher::new();
        let mut headers = Vec::new();
        for part in ["include", "machine", "standin"] {
            for file in files(&root().join(part))? {
                read(&file)?.hash(&mut hasher);
                headers.extend((part == "include").then_some(file));
            }
        }
        let home = folder.join(format!("{:016x}", hasher.finish()));
        if home.exists() {
            return Ok(Standin { home });
        }
        // Another test, of this process or of another, may build the same: a rename leaves no half of a folder.
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let partial = folder.join(format!("partial-{}-{count}", std::process::id()));
        let lib = partial.join("lib");
        for part in [&lib, &partial.join("include")] {
            std::fs::create_dir_all(part).map_err(|source| Error::File { path: part.clone(), source })?;
        }
        for header in headers {
            let to = partial.join("include").join(header.file_name().unwrap_or_default());
            std::fs::copy(&header, &to).map_err(|source| Error::File { path: to, source })?;
        }
        library(&lib, "libcuda", ".1", &["standin/driver.cpp", "machine/emulate.cpp", "machine/report.cpp"])?;
        library(&lib, "libnvrtc", ".12", &["standin/nvrtc.cpp"])?;
        match std::fs::rename(&partial, &home) {
            Err(source) if !home.exists() => Err(Error::File { path: home, source }),
            _ => Ok(Standin { home }),
        }
    }

    /// A program that finds the stand-in where it looks for CUDA.
    pub fn command(&self, program: &Path) -> Command {
        const LIBRARIES: &str = "LD_LIBRARY_PATH";
        let others = std::env::var_os(LIBRARIES).into_iter().flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>());
        let libraries: OsString = std::env::join_paths([self.home.join("lib")].into_iter().chain(others))
            .unwrap_or_else(|_| self.home.join("lib").into());
        let mut command = Command::new(program);
        command.env(LIBRARIES, libraries).env("CUDA_PATH", &self.home);
        command
    }
}

/// A shared library by its name and version, and by its name alone.
fn library(folder: &Path, name: &str, version: &str, sources: &[&str]) -> Result<(), Error> {
    let plain = format!("{name}.so");
    let versioned = format!("{plain}{version}");
    let mut compiler = Command::new("g++");
    compiler.current_dir(folder).args(["-std=c++20", "-O2", "-g1", "-fPIC", "-shared", "-w"]);
    for part in ["include", "machine"] {
        compiler.arg("-I").arg(root().join(part));
    }
    compiler.args(sources.iter().map(|source| root().join(source)));
    compiler.arg(format!("-Wl,-soname,{versioned}")).args(["-o", &versioned, "-ldl"]);
    succeed(&mut compiler)?;
    // One file: two would be two drivers.
    let path = folder.join(plain);
    std::fs::hard_link(folder.join(versioned), &path).map_err(|source| Error::File { path, source })
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File { path: folder.to_path_buf(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>().map_err(failed)?;
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File { path: path.to_path_buf(), source })
}
