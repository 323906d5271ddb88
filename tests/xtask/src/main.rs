//! Tasks of the project that are no tests.
//!
//! - `cargo xtask verify [NAME..]` runs the checks that take too long for `cargo test`, with a table at the end. A check is a line of
//!   [`CHECKS`]: its name, what it shows, and the command, run from the root of the project.
//! - `cargo xtask notices [--check]` writes or compares the licences of our dependencies.

mod notices;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

struct Check {
    name: &'static str,
    shows: &'static str,
    command: &'static [&'static str],
}

#[rustfmt::skip]
const CHECKS: &[Check] = &[
    Check { name: "decisions", shows: "every entry point of all models runs at all tasks", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--test", "models", "--", "--ignored", "--nocapture"] },
    Check { name: "gradients", shows: "gradients of 20,000 random programs", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--test", "gradients", "--", "--ignored"] },
    Check { name: "oracle", shows: "20,000 generated models with gradients against an evaluator of the language definition", command: &["cargo", "test", "--release", "-p", "wmc-oracle", "--test", "generated", "--", "--ignored", "--nocapture"] },
    Check { name: "kernels", shows: "every entry point of all models as kernels, at all levels, on the CPU", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--test", "kernels", "--", "--ignored", "--nocapture"] },
    Check { name: "cuda", shows: "every entry point of all models as CUDA, run on the processor, against the interpreter", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--features", "emit", "--test", "cube", "--", "--ignored", "--nocapture"] },
    Check { name: "barriers", shows: "every barrier of TD-MPC2's rollout is needed: a race is found where one is left out", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--features", "emit", "--test", "gpu", "--", "--ignored", "--nocapture", "barrier"] },
    Check { name: "nvrtc", shows: "every entry point of all models as CUDA through NVIDIA's compiler: the table of docs/measurements/gpu.md", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--features", "emit", "--test", "gpu", "--", "--ignored", "--nocapture", "nvrtc"] },
    Check { name: "differ", shows: "100,000 mutants of all models from `check` to `mega`, reference against kernels", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--test", "differ", "many", "--", "--ignored", "--nocapture"] },
    Check { name: "graphs", shows: "16,000 random graph programs as kernels, at all levels, on the CPU", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--test", "random_graphs", "--", "--ignored"] },
    Check { name: "artefacts", shows: "mutants of artefacts and of kernel text for an hour, guards around every array: each is refused or stays inside", command: &["env", "HOSTILE_SECONDS=3600", "cargo", "test", "--release", "-p", "wmc-runtime", "--test", "hostile", "--", "--nocapture"] },
    Check { name: "asan", shows: "the same for ten minutes under the address sanitizer (nightly): strip operations, products, copies, sorts", command: &["env", "HOSTILE_SECONDS=600", "RUSTFLAGS=-Zsanitizer=address --cfg asan", "CARGO_TARGET_DIR=target/asan", "cargo", "+nightly", "test", "-p", "wmc-runtime", "--test", "hostile", "--target", "x86_64-unknown-linux-gnu", "mutants", "--", "--nocapture"] },
    Check { name: "valgrind", shows: "the processor's backend, its generated code included, touches no memory that is not its own", command: &["env", "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=valgrind -q --error-exitcode=9 --smc-check=all-non-file", "cargo", "test", "-p", "wmc-compiler", "--lib", "backend::cpu::tests", "--", "--test-threads", "1"] },
    Check { name: "compile-time", shows: "a net of 1,000 layers compiles in at most ten times the time of 125; 80 substeps with gradients in 3 s", command: &["cargo", "test", "--release", "-p", "wmc-compiler", "--test", "compile_time", "--", "--include-ignored", "--nocapture", "--test-threads", "1"] },
    Check { name: "tutorial", shows: "the pages for newcomers, from a clone to trained models, the build included, in 15 minutes", command: &["cargo", "test", "--release", "-p", "wmc", "--test", "docs", "from_a_clone", "--", "--ignored", "--nocapture"] },
    Check { name: "deny", shows: "licences, sources and advisories of all dependencies (needs cargo-deny)", command: &["cargo", "deny", "check"] },
    Check { name: "machete", shows: "no dependency is unused (needs cargo-machete)", command: &["cargo", "machete"] },
    Check { name: "package", shows: "every crate builds from its package, unpacked", command: &["cargo", "package", "--workspace", "--allow-dirty"] },
    Check { name: "bench", shows: "the tables of docs/measurements/performance.md", command: &["cargo", "bench", "--bench", "kernels"] },
    Check { name: "loop", shows: "environment, replay and records take less than 10 % of a decision at paper size", command: &["cargo", "test", "--release", "-p", "wmc", "--test", "bench", "a_loop_at_paper_size", "--", "--ignored", "--nocapture"] },
    Check { name: "memory", shows: "a run at paper size stays below 1 GiB and does not grow once the replay is full", command: &["cargo", "test", "--release", "-p", "wmc", "--test", "bench", "memory_at_paper_size", "--", "--ignored", "--nocapture"] },
    Check { name: "resume", shows: "a training that is killed 20 times ends with the same bits, the same log and the same best checkpoint", command: &["cargo", "test", "--release", "-p", "wmc", "--test", "train", "--", "--ignored"] },
];

struct Outcome {
    passed: bool,
    time: Duration,
    /// The test runner's own summary, or why there is none.
    summary: String,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((command, names)) if command == "verify" => verify(names),
        Some((command, rest)) if command == "notices" && (rest.is_empty() || rest == ["--check"]) => {
            match notices::run(&root(), !rest.is_empty()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("error: {error}");
                    ExitCode::FAILURE
                }
            }
        }
        _ => usage(),
    }
}

/// The root of the project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask verify [NAME..]\n       cargo xtask notices [--check]\n");
    for check in CHECKS {
        eprintln!("  {:12}  {}", check.name, check.shows);
    }
    ExitCode::from(2)
}

fn verify(names: &[String]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|n| !CHECKS.iter().any(|c| c.name == *n)) {
        eprintln!("there is no check `{unknown}`");
        return usage();
    }
    let chosen: Vec<&Check> = CHECKS.iter().filter(|c| names.is_empty() || names.iter().any(|n| n == c.name)).collect();
    let mut rows = Vec::new();
    for (i, check) in chosen.iter().enumerate() {
        println!("[{}/{}] {}: {}", i + 1, chosen.len(), check.name, check.shows);
        println!("      {}", check.command.join(" "));
        let outcome = run(check);
        println!("      {} after {:.0} s", if outcome.passed { "passed" } else { "FAILED" }, outcome.time.as_secs_f64());
        rows.push((check, outcome));
    }
    println!("\n| check | shows | outcome | seconds | |\n|---|---|---|---|---|");
    for (check, o) in &rows {
        let outcome = if o.passed { "passed" } else { "FAILED" };
        println!("| {} | {} | {outcome} | {:.0} | {} |", check.name, check.shows, o.time.as_secs_f64(), o.summary);
    }
    if rows.iter().all(|(_, o)| o.passed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a check. What it says on standard error goes through; its standard output is shown and searched for a summary.
fn run(check: &Check) -> Outcome {
    let start = Instant::now();
    let mut command = Command::new(check.command[0]);
    command.args(&check.command[1..]).current_dir(root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    match command.output() {
        Ok(output) => {
            let _ = std::io::stdout().write_all(&output.stdout);
            let text = String::from_utf8_lossy(&output.stdout);
            let results: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("test result: ")).collect();
            let summary = match results.is_empty() {
                true => output.status.to_string(),
                false => results.join("; "),
            };
            Outcome { passed: output.status.success(), time: start.elapsed(), summary }
        }
        Err(error) => Outcome { passed: false, time: start.elapsed(), summary: format!("did not start: {error}") },
    }
}
