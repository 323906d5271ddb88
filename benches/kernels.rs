//! The speed of compiled models: `cargo bench --bench kernels [-- ARGUMENTS]`.
//!
//! The cases of `wmc bench`, at all three levels, in a few rounds; other arguments go to the command. Without `--bench` (as
//! in `cargo test --benches`) every case but the longest runs in a single round.

use std::process::{Command, ExitCode};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/hamworld.wm");

fn main() -> ExitCode {
    let (flags, more): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word == "--bench");
    let mut command = Command::new(env!("CARGO_BIN_EXE_wmc"));
    command.args(["bench", MODEL, "--task", "cheetah-run"]);
    match flags.is_empty() {
        true => command.args(["--rounds", "1", "--levels", "mega", "--cases", "plan,train,scan8,scanback8,hgrad,elite"]),
        false => command.args(["--rounds", "5"]).args(more),
    };
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
