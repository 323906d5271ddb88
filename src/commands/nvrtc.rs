//! NVIDIA's compiler, where it is installed: CUDA text to PTX, with the register counts of its assembler.
//!
//! It is opened at run time, so that neither building nor running wmc needs it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};

use libloading::Library;

use super::device::Assembled;

#[derive(Debug)]
pub(super) struct Nvrtc {
    library: Library,
    includes: Vec<PathBuf>,
}

type Program = *mut c_void;
type Create =
    unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char) -> c_int;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int;
type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

impl Nvrtc {
    /// The one of the system, of `CUDA_PATH`, or that `tests/nvrtc/nvrtc.py` has fetched.
    pub(super) fn open() -> Option<Nvrtc> {
        let named = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from);
        let cuda = std::env::var_os("CUDA_PATH").map_or_else(|| PathBuf::from("/usr/local/cuda"), PathBuf::from);
        let installed = named.iter().flat_map(|name| [name.clone(), cuda.join("lib64").join(name)]);
        let fetched = fetched();
        let of_cache = fetched.iter().map(|home| home.join("cuda_nvrtc/lib/libnvrtc.so.12"));
        for path in installed.chain(of_cache) {
            // SAFETY: a library of NVIDIA's, whose initialisers ask for nothing.
            if let Ok(library) = unsafe { Library::new(&path) } {
                let parts = ["cuda_runtime", "cuda_cccl", "cuda_nvcc"];
                let own = fetched.iter().filter(|home| path.starts_with(home));
                let mut includes: Vec<PathBuf> = own.flat_map(|home| parts.map(|part| home.join(part).join("include"))).collect();
                includes.push(cuda.join("include"));
                return Some(Nvrtc { library, includes });
            }
        }
        None
    }

    /// Compiles one kernel. The log of what NVRTC refuses is the error.
    pub(super) fn compile(&self, source: &str, arch: u32) -> Result<Assembled, String> {
        let text = |s: String| CString::new(s).map_err(|e| e.to_string());
        let source = text(source.to_string())?;
        // As CubeCL does it: from 9.0 on with the features of that one architecture.
        let exact = if arch >= 90 { "a" } else { "" };
        let mut options = vec![text(format!("--gpu-architecture=sm_{arch}{exact}"))?, text("--ptxas-options=-v".into())?];
        for include in &self.includes {
            options.push(text(format!("--include-path={}", include.display()))?);
        }
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = null_mut();
        // SAFETY: the functions have the types of nvrtc.h; texts end with a zero and outlive the calls; the program is
        // destroyed once and not used afterwards.
        unsafe {
            let create = self.function::<Create>(b"nvrtcCreateProgram")?;
            let compile = self.function::<Compile>(b"nvrtcCompileProgram")?;
            let destroy = self.function::<Destroy>(b"nvrtcDestroyProgram")?;
            if create(&raw mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, null(), null()) != 0 {
                return Err("NVRTC makes no program".into());
            }
            let failed = compile(program, pointers.len() as c_int, pointers.as_ptr()) != 0;
            let log = self.text(program, b"nvrtcGetProgramLogSize", b"nvrtcGetProgramLog");
            let ptx = self.text(program, b"nvrtcGetPTXSize", b"nvrtcGetPTX");
            destroy(&raw mut program);
            let log = log?;
            if failed {
                return Err(log);
            }
            let (registers, spills) = figures(&log);
            Ok(Assembled { ptx: ptx?, registers, spills })
        }
    }

    /// # Safety
    /// `F` is the type that nvrtc.h gives the function.
    unsafe fn function<F: Copy>(&self, name: &[u8]) -> Result<F, String> {
        // SAFETY: as the caller promises; the library lives as long as the borrow of it.
        unsafe { self.library.get::<F>(name) }.map(|f| *f).map_err(|e| e.to_string())
    }

    /// # Safety
    /// `program` is one of this library, and the names are of a pair of functions for a size and a text.
    unsafe fn text(&self, program: Program, size: &[u8], get: &[u8]) -> Result<String, String> {
        let mut length = 0;
        // SAFETY: as the caller promises; the buffer has the room that the first function asks for.
        unsafe {
            if self.function::<Size>(size)?(program, &raw mut length) != 0 {
                return Ok(String::new());
            }
            let mut bytes = vec![0u8; length];
            self.function::<Text>(get)?(program, bytes.as_mut_ptr().cast());
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
        }
    }
}

/// Folders of compilers that were fetched for tests.
fn fetched() -> Vec<PathBuf> {
    let Some(Ok(entries)) = runtime::cache::folder().map(std::fs::read_dir) else { return Vec::new() };
    let of_nvrtc = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("nvrtc-");
    entries.flatten().filter(|e| of_nvrtc(&e.file_name())).map(|e| e.path().join("nvidia")).collect()
}

/// Registers and bytes of spills, from `Used 40 registers` and `0 bytes spill stores, 0 bytes spill loads`.
fn figures(log: &str) -> (usize, usize) {
    let before = |words: &str| -> usize {
        let numbers = log.match_indices(words).filter_map(|(at, _)| log[..at].rsplit(' ').next()?.parse::<usize>().ok());
        numbers.sum()
    };
    (before(" registers"), before(" bytes spill stores") + before(" bytes spill loads"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_the_assembler_says() {
        let log = "ptxas info    : Function properties for k\n    24 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 388 bytes cmem[0]\n";
        assert_eq!(super::figures(log), (40, 36));
    }
}
