//! Arguments of the commands that train models and use runs.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};

use super::{Chosen, Computed, Episodes, Place};

/// Train a model on a task
///
/// The loop does what the file says: `source`, `train`, `act`, `optimizer`, `tasks`. A run is a folder with the model's text, a log,
/// a learning curve and checkpoints; a run that was stopped or killed goes on from its last checkpoint to the same bits.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc train models/hamworld_small.wm                       the model's first task, its first seed
  wmc train models/sac.wm --task reacher-easy --seed 8
  wmc train models/hamworld.wm --set steps=20000 --set eval_every=2000 --out runs/long
  wmc train models/hamworld.wm --device auto               on a graphics processor, where there is one
  wmc train --resume runs/long                             go on
  wmc train --resume runs/long --set steps=40000           go on for longer
  wmc train models/hamworld.wm --until 10000               the first tenth of it; `--resume` goes on
  wmc train models/hamworld.wm --task reacher-easy --from theirs.safetensors --map names.json")]
pub(crate) struct Train {
    /// The `.wm` file; not with `--resume`
    #[arg(value_name = "FILE", required_unless_present = "resume", conflicts_with = "resume")]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) of: Chosen,

    /// The seed of the run; otherwise the model's first
    #[arg(long, conflicts_with_all = ["resume", "all_seeds"])]
    pub(crate) seed: Option<u64>,

    /// A run for each of the model's seeds, one after the other
    #[arg(long, conflicts_with_all = ["resume", "out"])]
    pub(crate) all_seeds: bool,

    /// The folder of the run; otherwise runs/MODEL-TASK-SEED
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub(crate) out: Option<PathBuf>,

    /// Go on with a run from its last checkpoint
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<PathBuf>,

    /// Start with the parameters of a file
    #[arg(long, value_name = "FILE.safetensors", conflicts_with = "resume")]
    pub(crate) from: Option<PathBuf>,

    /// A JSON map from our names to those of `--from`: {"param.core.0.weight": "net.0.weight"}
    #[arg(long, value_name = "NAMES.json", requires = "from")]
    pub(crate) map: Option<PathBuf>,

    /// Parameters that `--from` does not have keep their initial values
    #[arg(long, requires = "from")]
    pub(crate) keep_initial: bool,

    /// Change a setting of `train` or of the task: `--set steps=20000`, `--set repeat=2`, `--set reward=sum`
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,

    /// Stop after this decision, and save; schedules stay those of all steps
    #[arg(long, value_name = "STEP")]
    pub(crate) until: Option<u64>,

    /// Decisions between checkpoints; otherwise one at every evaluation
    #[arg(long, value_name = "STEPS")]
    pub(crate) save_every: Option<u64>,

    /// Checkpoints to keep beside the best one [default: 2]
    #[arg(long, value_name = "N")]
    pub(crate) keep: Option<NonZeroUsize>,

    #[command(flatten)]
    pub(crate) computed: Computed,

    /// Say nothing but how it ended
    #[arg(long)]
    pub(crate) quiet: bool,

    /// Write the log's lines to standard output
    #[arg(long, conflicts_with = "quiet")]
    pub(crate) json: bool,
}

/// Evaluate a trained model: episodes without exploration
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc eval runs/hamworld_small-cartpole_swingup-7 --episodes 10
  wmc eval runs/hamworld_small-cartpole_swingup-7 --ood all
  wmc eval runs/hamworld_small-cartpole_swingup-7 --ood mass=0.7 --ood delay=2
  wmc eval runs/hamworld_small-cartpole_swingup-7 --frames frames.svg")]
pub(crate) struct Eval {
    #[command(flatten)]
    pub(crate) of: Episodes,

    /// Another task with the same sizes
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Option<String>,

    /// Change the task: mass=0.7, damping=2, actuator=1.3, friction=0.5, kick=5, delay=2, mask=0.3, or `all` changes that the task is
    /// tested under, one after the other
    #[arg(long, value_name = "CHANGE")]
    pub(crate) ood: Vec<String>,

    /// Draw moments of an episode on the task as it is
    #[arg(long, value_name = "OUT.svg|OUT.png")]
    pub(crate) frames: Option<PathBuf>,
}

/// Decide with a trained model
///
/// One observation gives one action. With `--stream`, every line of standard input is an observation (a JSON array of numbers, or
/// `{"obs": [..], "first": true}` where an episode starts) and every line of standard output its action; what the model
/// remembers is carried from line to line. A line that is no observation is answered by `{"error": ".."}` and forgotten; the command
/// then ends with exit code 2.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("source").args(["artefact", "params"])))]
#[command(after_help = "\
Examples:
  wmc plan runs/hamworld_small-cartpole_swingup-7 --obs 0,-1,0,0,0
  robot | wmc plan runs/hamworld_small-cartpole_swingup-7 --stream | robot-motors
  wmc plan runs/RUN/checkpoints/000000005000 --artefact hamworld-cartpole_swingup.wmx --stream
  wmc plan models/hamworld.wm --task reacher-easy --params theirs.safetensors --map names.json --obs 0,0,0.1,0,0,0")]
pub(crate) struct Plan {
    /// The folder of a run; with `--artefact`, of a checkpoint; with `--params`, of a run, or a `.wm` file
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// Decide with the parameters of a file instead of a run's own
    #[arg(long, value_name = "FILE.safetensors", conflicts_with = "artefact")]
    pub(crate) params: Option<PathBuf>,

    /// A JSON map from our names to those of `--params`: {"param.core.0.weight": "net.0.weight"}
    #[arg(long, value_name = "NAMES.json", requires = "params")]
    pub(crate) map: Option<PathBuf>,

    /// With `--params`, how far the training had come, from 0 to 1: what schedules depend on
    #[arg(long, value_name = "FRACTION", requires = "params", default_value_t = 1.0)]
    pub(crate) progress: f64,

    #[command(flatten)]
    pub(crate) of: Chosen,

    /// The compiled model (see `wmc compile`): then nothing but the checkpoint is needed of the run
    #[arg(long, value_name = "FILE.wmx")]
    pub(crate) artefact: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// What the planner's random numbers depend on, with `--artefact` and `--params`; the run knows its own
    #[arg(long, default_value_t = 0, requires = "source")]
    pub(crate) seed: u64,

    /// The numbers of an observation
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        allow_hyphen_values = true,
        required_unless_present = "stream",
        conflicts_with = "stream"
    )]
    pub(crate) obs: Vec<f64>,

    /// Observations from standard input, one a line
    #[arg(long)]
    pub(crate) stream: bool,
}

/// Compare what a trained model imagines with what happens: its metrics on fresh episodes
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc rollout runs/hamworld_small-cartpole_swingup-7 --episodes 10")]
pub(crate) struct Rollout {
    #[command(flatten)]
    pub(crate) of: Episodes,
}

/// List runs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc runs                             those in ./runs
  wmc runs /data/runs --json | jq .return")]
pub(crate) struct Runs {
    /// The folder that they are in
    #[arg(value_name = "DIR", default_value = "runs")]
    pub(crate) folder: PathBuf,

    /// Write one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Draw learning curves; runs that differ in their seed alone share a curve, with a band from the least to the most
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc plot runs/sac-cartpole_swingup-* -o sac.svg
  wmc plot runs/sac-* runs/ppo-* -o both.png")]
pub(crate) struct Plot {
    /// Folders of runs
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Where the drawing is written: an SVG or, by its name, a PNG
    #[arg(long, short, value_name = "OUT.svg|OUT.png", default_value = "curves.svg")]
    pub(crate) out: PathBuf,
}

/// Show what a model's `diagnose { .. }` declares
///
/// The model says which values to follow (series), along which episodes (probes), and what to make of them (`show`): figures, means,
/// correlations, errors over horizons. Writes figures and diagnosis.json, which `wmc report` takes in. docs/guide/diagnose.md has all forms.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc diagnose runs/hamworld-cartpole_swingup-7
  wmc diagnose runs/hamworld-cartpole_swingup-7 --episodes 3 --json")]
pub(crate) struct Diagnose {
    #[command(flatten)]
    pub(crate) of: Episodes,

    /// Where figures and numbers are written; otherwise RUN/diagnosis
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// Write what a run has learnt to a folder to share, with a model card
///
/// The folder opens like a run: `eval`, `plan`, `rollout` and `diagnose` take it. It has the model's text, parameters, slow copies and
/// running statistics, the evaluations of the training, and a README.md with the return over fresh episodes. It has no replay and no
/// state of an optimiser, so training cannot go on from it; `wmc train --from` starts another one. The names of this machine and its
/// folders are left out.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc export runs/hamworld_small-cartpole_swingup-7 models/trained/cartpole_swingup
  wmc export runs/hamworld_small-cartpole_swingup-7/checkpoints/best best --episodes 100")]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) of: Episodes,

    /// The folder to write, which is not there yet
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// Run an experiment: methods on tasks with seeds
///
/// Each run is a `wmc train` in a folder of its own. What is in the folders decides what is left to do: after a stop, a crash or a failure
/// the same command goes on, and runs that came to their end are not run again. A run that fails does not stop the others. The folder
/// keeps a copy of the build that starts a run, and the run goes on with that copy after `wmc` was built again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc experiment models/experiments/smoke.toml
  wmc experiment models/experiments/main.toml --jobs 2
  wmc experiment models/experiments/main.toml --method SAC --method PPO --task cartpole-swingup
  wmc experiment models/experiments/main.toml --set steps=20000 --out runs/short
  wmc experiment models/experiments/main.toml --until 10000            the first tenth of every run; again without it goes on
  wmc experiment models/experiments/published.toml --stage b           one stage of it
  wmc report runs/main -o report.html")]
pub(crate) struct Experiment {
    /// The file of the experiment
    #[arg(value_name = "FILE.toml")]
    pub(crate) file: PathBuf,

    /// These stages alone; otherwise all
    #[arg(long, value_name = "NAME")]
    pub(crate) stage: Vec<String>,

    /// These methods alone; otherwise all
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Vec<String>,

    /// These tasks alone
    #[arg(long, value_name = "NAME")]
    pub(crate) task: Vec<String>,

    /// These seeds alone
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Vec<u64>,

    /// Run each to this decision for now, and measure what it has learnt by then
    #[arg(long, value_name = "STEP")]
    pub(crate) until: Option<u64>,

    /// Go on with this build where another one started a run
    #[arg(long)]
    pub(crate) new_build: bool,

    /// Runs at a time
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,

    /// The folder of the runs; otherwise runs/NAME
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Change a setting of all runs that are not there yet
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) set: Vec<(String, String)>,

    /// Threads of each run; otherwise the machine's, shared out
    #[arg(long, value_name = "N", value_parser = super::shared::threads)]
    pub(crate) threads: Option<usize>,
}

/// Write a page about runs: tables, learning curves, rollout errors, changed tasks, the models
///
/// One file that needs no network, light or dark as the reader has it. Figures of the runs of an experiment stand beside the published ones.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc report runs/main -o report.html
  wmc report runs/sac-* runs/ppo-* -o both.html --figures figures      each figure also as SVG and PNG
  wmc report runs/main --markdown docs/results.md                      for a repository: docs/results has figures and numbers
  wmc report docs/results/results.json --markdown docs/results.md      the same again")]
pub(crate) struct ReportPage {
    /// Folders of runs, folders that have runs in them, or a results.json of `--markdown`
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Where the page is written; otherwise report.html, or nowhere with `--markdown`
    #[arg(long, short, value_name = "OUT.html")]
    pub(crate) out: Option<PathBuf>,

    /// Write the tables as Markdown, too, with figures and what the page can be written from again in a folder of the same name
    #[arg(long, value_name = "OUT.md")]
    pub(crate) markdown: Option<PathBuf>,

    /// A folder for the figures by themselves
    #[arg(long, value_name = "DIR")]
    pub(crate) figures: Option<PathBuf>,
}

/// List tasks, or install MuJoCo for those that need it
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  wmc tasks            which there are, and what they need
  wmc tasks install    fetch MuJoCo"
)]
pub(crate) struct Tasks {
    #[command(subcommand)]
    pub(crate) command: Option<TasksCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCommand {
    /// List tasks and what they need
    List,
    /// Fetch MuJoCo and the control suite's models with pip into the cache folder, and check their hashes
    Install,
}

/// Say what this machine has for training and planning, and what to do about what is missing
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc doctor")]
pub(crate) struct Doctor {}

/// `steps=2000`.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write a setting as NAME=VALUE, as in steps=20000")?;
    Ok((name.trim().to_string(), value.trim().to_string()))
}
