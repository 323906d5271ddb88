//! The whole way to a CUDA device without one: `wmc` opens a stand-in for NVIDIA's driver and compiler (`tests/emulate`),
//! compiles and launches its kernels there, and compares the numbers with the interpreter's.
//!
//! `cube.rs` of the compiler runs emitted kernels under a race detector; this test is for what lies between them and a
//! caller: devices that are opened, memory, transfers, scalars, the order and the size of launches.

#![cfg(all(feature = "cuda", target_os = "linux"))]

use std::path::{Path, PathBuf};

use emulate::Standin;

/// `wmc selftest --device cuda:0`, with the stand-in in the place of CUDA and no compiled kernels of its own: all entry points
/// agree. How many cubes the largest launch had.
fn agrees(arguments: &[&str]) -> usize {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("standin");
    let standin = Standin::build(&folder).unwrap_or_else(|e| panic!("{e}"));
    let cache = tempfile::tempdir().unwrap();
    let mut command = standin.command(Path::new(env!("CARGO_BIN_EXE_wmc")));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env("WMC_CACHE", cache.path());
    let output = command.args(["selftest", "--device", "cuda:0"]).args(arguments).output().unwrap();
    let [said, told] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success() && said.contains("all agree"), "{said}{told}");
    // What the emulator finds wrong with a kernel.
    assert!(!told.contains("emulate: "), "{told}");
    let cubes = told.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse().ok());
    cubes.unwrap_or_else(|| panic!("{told}"))
}

/// Acting, planning, a training step; and acting with a memory.
#[test]
fn models() {
    agrees(&["models/mpc.wm"]);
    agrees(&["models/hamworld_small.wm", "--entry", "act"]);
}

/// More cubes than a device of another kind takes.
#[test]
fn a_large_grid() {
    let cubes = agrees(&["tests/models/wide.wm", "--entry", "plan", "--batch", "530000"]);
    assert!(cubes > 65_535, "{cubes}");
}
