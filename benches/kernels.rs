//! The speed of compiled models: `cargo bench --bench kernels [-- ARGUMENTS]` prints the tables of docs/measurements/performance.md.
//!
//! Each section is a call of `wmc bench`; more arguments (`--rounds 5`, `--quiet`) go to every one of them. Where the
//! environment has `WMC_PYTHON`, a Python with what benches/peers/requirements.txt says, the peers are measured beside and
//! drawn into docs. Without `--bench` (as in `cargo test --benches`) a few cases run in a single round.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

struct Section {
    title: &'static str,
    arguments: &'static [&'static str],
    /// Who is measured beside us, and the name of the drawing.
    peers: Option<(&'static str, &'static str)>,
}

const HAMWORLD: &str = "models/hamworld.wm";
const S6: &str = "models/hamworld_s6.wm";
const LITERAL: &str = "models/hamworld_literal.wm";
const TASK: [&str; 2] = ["--task", "cheetah-run"];

#[rustfmt::skip]
const SECTIONS: &[Section] = &[
    Section { title: "Plan of the published model", arguments: &[HAMWORLD, "--cases", "plan"], peers: Some(("torch,compile,compile-cppwrap,jax,jax-scan", "plan-published")) },
    Section { title: "Train step of the published model", arguments: &[HAMWORLD, "--cases", "train"], peers: Some(("torch,compile,jax,jax-scan", "train-published")) },
    Section { title: "Plan", arguments: &[S6, "--cases", "plan"], peers: Some(("torch,compile,compile-cppwrap,jax,candle", "plan")) },
    Section { title: "Train step", arguments: &[S6, "--cases", "train"], peers: Some(("torch,compile,jax", "train")) },
    Section { title: "Scan, energy gradient, elite update", arguments: &[S6, "--cases", "scan,hgrad,elite"], peers: Some(("torch,compile,jax", "parts")) },
    Section { title: "Plan with 128 states a channel", arguments: &[LITERAL, "--cases", "plan"], peers: Some(("torch,compile,jax,candle", "plan128")) },
    Section { title: "Train step with 128 states a channel", arguments: &[LITERAL, "--cases", "train"], peers: Some(("torch,compile,jax", "train128")) },
    Section { title: "Horizon", arguments: &[S6, "--cases", "plan", "--levels", "mega", "--double", "H"], peers: None },
    Section { title: "Candidates", arguments: &["benches/candidates.wm", "--root", "models", "--cases", "plan", "--levels", "mega", "--double", "G"], peers: None },
    Section { title: "Batch and window of a train step", arguments: &[S6, "--cases", "train", "--levels", "mega", "--double", "B,T"], peers: None },
    Section { title: "Steps and batch of a scan", arguments: &["--cases", "scan64,scanback64", "--levels", "mega", "--double", "T,B"], peers: None },
    Section { title: "Threads", arguments: &[S6, "--cases", "plan,train,scan512,hgrad", "--levels", "mega", "--threads", "1,2"], peers: None },
];

fn main() -> ExitCode {
    let (flags, more): (Vec<String>, Vec<String>) = env::args().skip(1).partition(|word| word == "--bench");
    if flags.is_empty() {
        let cases = ["--rounds", "1", "--levels", "mega", "--cases", "plan,train,scan8,scanback8,hgrad,elite"];
        return if bench(&[&[HAMWORLD], &TASK[..], &cases].concat(), &[]) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let python = env::var_os("WMC_PYTHON").map(PathBuf::from);
    for section in SECTIONS {
        let task = if section.arguments[0].ends_with(".wm") { &TASK[..] } else { &[] };
        let shown = [section.arguments, task].concat();
        let mut extra = more.clone();
        let mut beside = String::new();
        if let (Some((peers, drawing)), Some(python)) = (section.peers, &python) {
            let drawing = format!("docs/measurements/performance-{drawing}.svg");
            beside = format!(" --compare {peers} --python PYTHON");
            let python = python.display().to_string();
            extra.extend(["--compare", peers, "--python", &python, "--plot", &drawing].map(String::from));
        }
        println!("### {}\n\n    wmc bench {}{beside}\n", section.title, shown.join(" "));
        if !bench(&shown, &extra) {
            return ExitCode::FAILURE;
        }
        println!();
    }
    ExitCode::SUCCESS
}

/// Runs the command in the project's folder.
fn bench(arguments: &[&str], more: &[String]) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wmc"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("bench").args(arguments).args(more);
    command.status().is_ok_and(|status| status.success())
}
