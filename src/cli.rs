//! The command line: every subcommand and option, with the texts of `--help`.

mod bench;
mod runs;
mod shared;

use std::path::PathBuf;

pub(crate) use bench::{Bench, BenchCommand, Selftest, TrainLoop};
use clap::builder::styling::{AnsiColor, Styles};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use compiler::backend::cube::Numerics;
use compiler::kernel::fuse::Level;
pub(crate) use runs::{
    Diagnose, Doctor, Eval, Experiment, Export, Plan, Plot, ReportPage, Rollout, Runs, Tasks, TasksCommand, Train,
};
pub(crate) use shared::{Chosen, Computed, Episodes, ModelFile, Place, Roots, Sizes};
use shared::{level, level_named, size, threads};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

const AFTER: &str = "\
Exit codes:
  0    all is well
  1    the answer is no: `fmt --check` found files to change, `check --deny-warnings` found warnings
  2    bad input or usage: a model with errors, a file that cannot be read, an unknown option
  130  stopped by Ctrl-C, with what there was to save saved

Examples:
  wmc new pendulum                                   write a starter model to pendulum.wm
  wmc check pendulum.wm                              check it
  wmc show models/hamworld.wm --task cheetah-run     what is in it, at the sizes of a task
  wmc explain models/hamworld.wm --task cheetah-run  what its kernels do and cost
  wmc train models/hamworld_small.wm                 train it on its first task
  wmc help E0203                                     what an error code means
";

/// A compiler for world models written in `.wm` files.
///
/// A `.wm` file says everything about a world model: data, latents, networks, dynamics, losses, planner,
/// optimiser and training protocol. `wmc` checks such files, formats them and shows what is in them.
#[derive(Debug, Parser)]
#[command(name = "wmc", version, styles = STYLES, after_help = AFTER, disable_help_subcommand = true)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// Refuse models that need more memory, such as 500MB or 16GB; otherwise what the machine has
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub(crate) max_memory: Option<u64>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(Check),
    Fmt(Fmt),
    Show(Show),
    Run(Run),
    Compile(Compile),
    Snapshot(Snapshot),
    Explain(Explain),
    Selftest(Selftest),
    Bench(Box<Bench>),
    Train(Train),
    Eval(Eval),
    Plan(Plan),
    Rollout(Rollout),
    Diagnose(Diagnose),
    Experiment(Experiment),
    Export(Export),
    Runs(Runs),
    Plot(Plot),
    Report(ReportPage),
    Tasks(Tasks),
    Doctor(Doctor),
    New(New),
    Help(Help),
    Completions(Completions),
}

/// Check models: names, axes, time, gradients, optimisers
///
/// Diagnostics go to standard error and one line a file to standard output. Without `--task` and `--dim` the sizes
/// that a task gives (`O`, `A`) stay symbols, and what holds, holds for every task.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc check models/hamworld.wm
  wmc check models/*.wm --task cheetah-run
  wmc check models/hamworld.wm --dim O=17,A=6
  wmc check models/hamworld.wm --json          one JSON object a line for each diagnostic")]
pub(crate) struct Check {
    /// The `.wm` files to check
    #[arg(required = true, value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) sizes: Sizes,

    #[command(flatten)]
    pub(crate) roots: Roots,

    /// Write each diagnostic as one line of JSON to standard output, for editors
    #[arg(long)]
    pub(crate) json: bool,

    /// End with exit code 1 where there are warnings
    #[arg(long)]
    pub(crate) deny_warnings: bool,
}

/// Format files in place
///
/// A file is replaced as a whole or not at all, and only if its text changes. A file that cannot be read as a model
/// is reported and left alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc fmt models/*.wm
  wmc fmt --check models/*.wm        list what would change, exit code 1 if anything
  wmc fmt - < draft.wm               format standard input to standard output")]
pub(crate) struct Fmt {
    /// The `.wm` files to format; `-` formats standard input to standard output
    #[arg(required = true, value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,

    /// Change nothing: list the files that would change
    #[arg(long)]
    pub(crate) check: bool,
}

/// Show what is in a model: dims, nets, losses, optimisers, parameters
///
/// All models of the file, or the one that `--model` names. Sizes that a task gives (`O`, `A`) are shown as symbols and counts as polynomials in them, until `--task` or
/// `--dim` gives them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc show models/hamworld.wm
  wmc show models/hamworld.wm --task cheetah-run --params
  wmc show models/hamworld.wm --dim O=17,A=6 --json | jq '.models[0].params[].path'")]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) what: ModelFile,

    /// List every parameter, carry, draw and running value too
    #[arg(long)]
    pub(crate) params: bool,

    /// Write all of it as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Run one entry point of a model on given tensors
///
/// How to check a model against an implementation of one's own: parameters, data, carries, random draws, schedules and
/// values of equations go in under their names, every loss and every equation comes out, with `--grads`
/// every gradient. What is not given has its default: parameters start as the model says, slow copies as their
/// parameters, draws come from the seed. Data must be given.
#[derive(Debug, Args)]
#[command(after_help = "\
Names: param.core.0.weight, slow.value.0.bias, data.obs, draw.plan.noise, carry.m.0.h, running.R, schedule.alpha,
record.adv, slot.main.m.core.0.weight, value.z.q, progress, count.main. `wmc show FILE --params` lists them.

Examples:
  wmc run models/hamworld.wm --task cheetah-run --entry train_step --in batch.safetensors --out losses.safetensors
  wmc run models/hamworld.wm --dim O=17,A=6 --entry train_step --in x.safetensors --map names.json --grads --f64
  wmc run models/hamworld.wm --task cheetah-run --entry plan --in state.safetensors --set alpha=0.3")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) what: ModelFile,

    /// act, plan, train_step, evaluate, record, schedules or init
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: String,

    /// Tensors that go in; may be given several times
    #[arg(long = "in", value_name = "FILE.safetensors")]
    pub(crate) input: Vec<PathBuf>,

    /// Where the tensors that come out are written
    #[arg(long = "out", value_name = "FILE.safetensors")]
    pub(crate) output: Option<PathBuf>,

    /// A JSON map from our names to those of the files, which may cut, transpose and shape (see docs/guide/run.md):
    /// `{\"param.m.0.v.weight\": {\"tensor\": \"mem.0.in_proj\", \"rows\": [0, 128]}}`
    #[arg(long, value_name = "MAP.json")]
    pub(crate) map: Option<PathBuf>,

    /// Give out the gradient of each optimiser's objective for every parameter
    #[arg(long)]
    pub(crate) grads: bool,

    /// Compute in double precision
    #[arg(long)]
    pub(crate) f64: bool,

    /// How it is computed: `reference` is the interpreter, the default on the processor; kernels are `eager` (one for each
    /// operation), `fused` or `mega`, the default on devices
    #[arg(long, value_name = "LEVEL", value_parser = through())]
    pub(crate) level: Option<Through>,

    /// Threads that kernels run on; otherwise as many as the machine has
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,

    #[command(flatten)]
    pub(crate) place: Place,

    /// Give a schedule or a running value, or any other single number by its full name: `--set alpha=0.3`,
    /// `--set count.main=7`
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<(String, f64)>,

    /// How far the training has come, from 0 to 1: what schedules and warm-ups depend on
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    pub(crate) progress: f64,

    /// What random draws that are not given depend on
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Which update or decision it is, for random draws and the optimisers' count
    #[arg(long, default_value_t = 0)]
    pub(crate) step: u64,

    /// Go on with numbers that are not finite instead of reporting the first
    #[arg(long)]
    pub(crate) allow_nan: bool,

    /// Write the scalars as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Compile a model to an artefact that runs without its text
///
/// Writes DIR/NAME-TASK.wmx: the kernels of all entry points, with the tables of what goes in and out. Nothing is done where it is
/// there already, made by this build from the same text. `--emit` writes texts to read beside it; `--dump` only prints.
#[derive(Debug, Args)]
#[command(after_help = "\
Targets:
  cpu          kernels for every processor
  cuda:sm_86   CUDA C++ for a compute capability (sm_80 and up); with :tf32 or :bf16 behind it, large products with
               weights are on tensor cores, in that precision; with :atomic, sums over rows are shared out among
               cubes, and differ in their last bits from run to run
  vulkan       WGSL
  all          cpu, cuda:sm_86 and vulkan

Texts of --emit, a file for each entry point:
  ir           the graph program as it was lowered
  graph        the same, simplified
  kernels      tile programs
  cuda, wgsl   what devices compile
  ptx          what NVRTC makes of the CUDA text, where it is installed
  all          all that the targets have

Examples:
  wmc compile models/hamworld.wm --task cheetah-run -o build
  wmc compile models/hamworld.wm --task cheetah-run -o build --emit kernels
  wmc compile models/hamworld.wm --task cheetah-run --entry train_step --dump lower
  wmc compile models/hamworld.wm --task cheetah-run --entry plan --dump cse
  wmc compile models/hamworld.wm --task cheetah-run --entry plan --dump kernels --level fused")]
pub(crate) struct Compile {
    #[command(flatten)]
    pub(crate) what: ModelFile,

    /// One entry point; all of them otherwise
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,

    /// Samples in the batch, or environments that act at once
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<usize>,

    /// What it is compiled for, one or several
    #[arg(long, value_name = "TARGETS", value_delimiter = ',', default_value = "cpu", value_parser = wanted_target)]
    pub(crate) target: Vec<Target>,

    /// Texts to write beside the artefact
    #[arg(long, value_name = "TEXTS", value_delimiter = ',')]
    pub(crate) emit: Vec<Emit>,

    /// The folder that it goes to
    #[arg(short = 'o', long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,

    /// Print the program after this pass and write nothing: `lower` is the first, `simplify` and `prepare` are lists of them,
    /// `counts` counts its operations, `kernels` is what runs
    #[arg(long, value_name = "PASS", conflicts_with_all = ["emit", "out", "target"])]
    pub(crate) dump: Option<String>,

    /// How much goes into one kernel
    #[arg(long, value_name = "LEVEL", default_value = "mega", value_parser = level())]
    pub(crate) level: Level,

    /// Print how long the stages of `--dump` take
    #[arg(long, requires = "dump")]
    pub(crate) time: bool,
}

/// A device that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Cpu,
    /// Of a compute capability: 86.
    Cuda(u32, Numerics),
    Vulkan,
    All,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Cpu => f.write_str("cpu"),
            Target::Cuda(arch, numerics) => write!(f, "cuda:sm_{arch}{}", numerics.suffix()),
            Target::Vulkan => f.write_str("vulkan"),
            Target::All => f.write_str("all"),
        }
    }
}

impl Target {
    /// Itself, or all that there are.
    pub(crate) fn each(self) -> Vec<Target> {
        match self {
            Target::All => vec![Target::Cpu, Target::Cuda(86, Numerics::default()), Target::Vulkan],
            one => vec![one],
        }
    }
}

/// A text that `compile` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Emit {
    Ir,
    Graph,
    Kernels,
    Cuda,
    Ptx,
    Wgsl,
    All,
}

fn wanted_target(text: &str) -> Result<Target, String> {
    let cuda = |text: &str| {
        let (arch, numerics) = match text.split_once(':') {
            Some((arch, names)) => (arch, Numerics::named(names)?),
            None => (text, Numerics::default()),
        };
        let arch = arch.parse().ok().filter(|n| (80..=200).contains(n))?;
        Some(Target::Cuda(arch, numerics))
    };
    match text {
        "cpu" => Ok(Target::Cpu),
        "vulkan" => Ok(Target::Vulkan),
        "all" => Ok(Target::All),
        _ => text.strip_prefix("cuda:sm_").and_then(cuda).ok_or_else(|| {
            format!("`{text}` is no target; there are cpu, cuda:sm_86 (or another capability from 80 on; cuda:sm_86:tf32 for tensor cores, cuda:sm_86:atomic for sums in any order), vulkan and all")
        }),
    }
}

/// Keep a model's kernels as text, and see what a change did to them
///
/// Compares the kernels of a model with those that were accepted before, in the folder `snapshots` beside the file: tile programs, and
/// CUDA and WGSL text in builds that have it (`--features emit`). Where they differ, shows how and ends with exit code 1;
/// nothing is written without `--accept`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc snapshot models/hamworld.wm --task cheetah-run --accept      keep them
  wmc snapshot models/hamworld.wm --task cheetah-run               after a change: what it did to them
  wmc snapshot models/hamworld.wm --task cheetah-run --entry plan  one entry point alone")]
pub(crate) struct Snapshot {
    #[command(flatten)]
    pub(crate) what: ModelFile,

    /// One entry point; all of them otherwise
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,

    /// Keep the kernels as they are now
    #[arg(long)]
    pub(crate) accept: bool,

    /// The folder of the snapshots, if not the one beside the file
    #[arg(short = 'o', long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Unchanged lines that are shown around a change
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) context: usize,
}

/// Show what a model's kernels do and cost
///
/// For each kernel: its operations, the lines of the `.wm` text that they came from, why it ends where it ends, how much it
/// computes and moves. Costs are counted, not measured; docs/guide/explain.md says how, and defines the levels.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc explain models/hamworld.wm --task cheetah-run --entry plan --batch 1
  wmc explain models/hamworld.wm --task cheetah-run --entry plan --level fused --html plan.html
  wmc explain models/hamworld.wm --task cheetah-run --entry train_step --target cuda:sm_86
  wmc explain models/sac.wm --task cheetah-run --json | jq '.entries[] | {entry, launches: .steps.launches}'")]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) what: ModelFile,

    /// One entry point; all that the model has otherwise
    #[arg(long, value_name = "NAME")]
    pub(crate) entry: Option<String>,

    /// How much goes into one kernel
    #[arg(long, value_name = "LEVEL", default_value = "mega", value_parser = level())]
    pub(crate) level: Level,

    /// Samples in the batch, or environments that act at once
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<usize>,

    /// What becomes of it on a device too: its launches, and what does not fit there as it is
    #[arg(long, value_name = "TARGET", value_parser = wanted_target)]
    pub(crate) target: Option<Target>,

    /// Write all of it as one JSON document
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw the operations, coloured by kernel
    #[arg(long, value_name = "OUT.svg")]
    pub(crate) svg: Option<PathBuf>,

    /// The same as a page on which every operation says what it is
    #[arg(long, value_name = "OUT.html")]
    pub(crate) html: Option<PathBuf>,
}

/// Write a starter model
///
/// Writes NAME.wm: a small commented model of a pendulum that checks, and a place to start from. An existing file is
/// never overwritten.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc new pendulum       writes pendulum.wm with the model Pendulum
  wmc new my_world       writes my_world.wm with the model MyWorld")]
pub(crate) struct New {
    /// A name of letters, digits and underscores
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Explain an error code, or show the help of a subcommand
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc help E0203     what the code means, with a wrong and a right model
  wmc help codes     all codes
  wmc help tiny      the model that the examples of the codes extend
  wmc help check     the options of a subcommand")]
pub(crate) struct Help {
    /// A code (`E0203`), a subcommand (`check`), `codes` for the list of all codes, or `tiny` for the model of their examples
    #[arg(value_name = "TOPIC")]
    pub(crate) topic: Option<String>,
}

/// Write completions for a shell to standard output
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  wmc completions bash > ~/.local/share/bash-completion/completions/wmc
  wmc completions fish > ~/.config/fish/completions/wmc.fish")]
pub(crate) struct Completions {
    pub(crate) shell: Shell,
}

/// What computes an entry point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Through {
    Reference,
    Kernels(Level),
}

fn through() -> impl TypedValueParser<Value = Through> {
    let names = ["reference"].into_iter().chain(Level::ALL.map(Level::name));
    PossibleValuesParser::new(names).map(|name| level_named(&name).map_or(Through::Reference, Through::Kernels))
}

/// `alpha=0.3`.
fn setting(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write a value as NAME=VALUE, as in alpha=0.3")?;
    let value = value.trim().parse::<f64>().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((name.trim().to_string(), value))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    fn options(arguments: &[&str]) -> dsl::Options {
        let all = ["wmc", "check", "x.wm"].iter().chain(arguments);
        match Cli::try_parse_from(all).unwrap().command {
            Command::Check(check) => check.sizes.options(None),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn dims_in_one_argument_or_in_several() {
        let both = vec![("O".to_string(), 17), ("A".to_string(), 6)];
        assert_eq!(options(&["--dim", "O=17", "--dim", "A=6"]).dims, both);
        assert_eq!(options(&["--dim", "O=17,A=6"]).dims, both);
        assert_eq!(options(&["--dim", "O = 17, A = 6"]).dims, both);
        assert_eq!(options(&["--dim", "O=3", "--dim", "O=17,A=6"]).dims, both);
    }

    #[test]
    fn tasks_with_hyphens() {
        assert_eq!(options(&["--task", "cheetah-run"]).task.as_deref(), Some("cheetah_run"));
        assert_eq!(options(&["--task", "mjcf:a-b.toml"]).task.as_deref(), Some("mjcf:a-b.toml"));
    }

    #[test]
    fn bad_dims_are_usage_errors() {
        for bad in ["O", "O=x", "=3", "O=-1", "2O=3", "O=3,", "O=99999999999999999999"] {
            assert!(Cli::try_parse_from(["wmc", "check", "x.wm", "--dim", bad]).is_err(), "{bad}");
        }
    }
}
