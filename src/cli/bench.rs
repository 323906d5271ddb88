//! Arguments of `wmc bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use compiler::kernel::fuse::Level;

use super::runs::pair;
use super::{Chosen, Computed, ModelFile, Place, level};

/// Measure how fast a model runs on this machine
///
/// Planning and training of the model in FILE; a selective scan, the gradient of an energy and an elite update as small
/// models of their own. All variants of a case take turns, round by round, with the machine's own limits measured in
/// between; medians over the rounds are shown, with quartiles.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Cases: plan, train, scan (forward and backward over 8, 64 and 512 steps; also scan512, scanback64), hgrad, elite.

Peers: torch, torch-autograd, compile, compile-cppwrap, jax, jax-scan, candle. They run with a C allocator that keeps its memory,
which is faster; `torch-plain` is torch as it comes. The scripts and what they need are described in benches/peers/README.md.

Examples:
  wmc bench models/hamworld.wm --task cheetah-run
  wmc bench models/hamworld.wm --task cheetah-run --cases plan --levels mega --threads 1,2
  wmc bench models/hamworld.wm --task cheetah-run --cases train --levels mega --double B,T
  wmc bench models/hamworld.wm --task cheetah-run --compare torch,compile,jax --python venv/bin/python --plot peers.svg
  wmc bench models/hamworld.wm --task cheetah-run --device cuda --compare eager,torch --python venv/bin/python
  wmc bench train-loop models/hamworld.wm --task cheetah-run
  wmc bench --worker scan --params scan512.safetensors"
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(crate) command: Option<BenchCommand>,

    /// The `.wm` file, for the cases `plan` and `train`
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) of: Chosen,

    /// Samples in the batch of `train`, environments that plan at once
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<usize>,

    /// How much goes into one kernel: eager, fused, mega
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', value_parser = level(), default_value = "eager,fused,mega")]
    pub(crate) levels: Vec<Level>,

    /// What to measure; all that FILE has, otherwise
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    pub(crate) cases: Vec<String>,

    /// Threads of the processor; several counts make several variants. As many as there are processors, otherwise
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Vec<u16>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// Rounds in which every variant has a turn
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,

    /// Count only rounds in which other programs take less than a quarter of a processor; up to four times as many are tried
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Also at twice and four times a size of the model (`B` is the batch), to see how the cost grows
    #[arg(long, value_name = "DIMS", value_delimiter = ',')]
    pub(crate) double: Vec<String>,

    /// What else computes the same, measured in the same rounds: `eager`, or other programs, which need `--python`
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    pub(crate) compare: Vec<String>,

    /// A Python that has what the peers need
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,

    /// Where the peers' scripts are
    #[arg(long, value_name = "DIR", default_value = "benches/peers")]
    pub(crate) peers: PathBuf,

    /// Write all of it as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw the medians as bars
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) plot: Option<PathBuf>,

    /// Measure one case for another program: a JSON line when ready, then for each number n on standard input a JSON line of n
    /// times in ms
    #[arg(long, value_name = "CASE")]
    pub(crate) worker: Option<String>,

    /// Parameters and inputs; random ones otherwise
    #[arg(long, value_name = "FILE.safetensors")]
    pub(crate) params: Option<PathBuf>,

    /// Whose names the tensors of `--params` have (see `wmc run --map`); a file may also bring a map in its metadata, as `wmc.map`
    #[arg(long, value_name = "MAP.json", requires = "params")]
    pub(crate) map: Option<PathBuf>,
}

/// Test a device: kernels of models against the reference interpreter
///
/// Every entry point of every model, at the sizes of its first task unless others are given, on made-up data. Shows the largest difference
/// from what the interpreter computes in double precision, and ends with exit code 1 where one is too large.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc selftest --device cuda                                  the models that come with wmc, in its folder
  wmc selftest --device vulkan --batch 2 models/sac.wm
  wmc selftest --device vulkan models/hamworld_small.wm --entry plan --json")]
pub(crate) struct Selftest {
    /// The `.wm` files; otherwise those of the folder `models`
    #[arg(value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) of: Chosen,

    /// One entry point; all that the models have otherwise
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,

    /// Samples in the batch, or environments that act at once
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<usize>,

    #[command(flatten)]
    pub(crate) computed: Computed,

    /// The largest difference that passes, relative to the largest number of an output
    #[arg(long, value_name = "FRACTION", default_value_t = 1e-3)]
    pub(crate) tolerance: f64,

    /// Write all of it as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    TrainLoop(TrainLoop),
}

/// Measure where a decision's time goes while a model is trained
///
/// Trains in a folder that is thrown away: random actions first, then decisions of the model with the updates that are due. An evaluation
/// and a checkpoint are measured once and counted as often as they come.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc bench train-loop models/hamworld.wm --task cartpole-swingup
  wmc bench train-loop models/sac.wm --task reacher-easy --steps 1000 --fill 100000 --json")]
pub(crate) struct TrainLoop {
    #[command(flatten)]
    pub(crate) what: ModelFile,

    /// Decisions to measure
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) steps: u64,

    /// Random decisions before them, which fill the experience; otherwise the model's `seed_steps`
    #[arg(long, value_name = "N")]
    pub(crate) fill: Option<u64>,

    /// Change a setting of `train` or of the task, as in `wmc train`
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) computed: Computed,

    /// Write one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}
