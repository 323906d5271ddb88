//! World models as a library: read a `.wm` file, train it in a world of your own, act with what it learnt.
//!
//! ```no_run
//! let model = wmc::Model::open("models/mpc.wm")?;
//! let mut trainer = wmc::Trainer::options(&model).seed(1).open("runs/mine")?;
//! trainer.run()?;
//! let mut policy = wmc::Run::open("runs/mine")?.policy()?;
//! let action = policy.act(&[0.0; 5])?;
//! # Ok::<(), wmc::Error>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Model`] | a checked model; [`Model::call`] evaluates an entry point on tensors that you give |
//! | [`World`] | what a model acts in: implement it for a world of your own |
//! | [`Trainer`] | trains in a folder, with a log and checkpoints, and goes on from them |
//! | [`Agent`] | the same without folder and loop: you call `act`, `observe` and `learn` |
//! | [`Run`], [`Policy`] | the folder of a run; what was learnt, ready to act |
//! | [`Device`] | where it computes |
//! | [`Error`] | what can go wrong, an error of your own among it |
//!
//! `examples/` has a program for each. [`command`] is the whole command `wmc`, for packages that ship it.
#![warn(missing_docs)]

mod bench;
mod cli;
mod commands;
mod diagnose;
mod experiment;
mod explain;
mod figures;
mod files;
mod library;
mod output;
mod remember;
mod report;
mod results;
mod show;
mod tensors;
mod train;
mod weights;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

pub use compiler::run::{Tensor, Tensors};
pub use library::{Agent, Error, Model, ModelOptions, Policy, Run, Trainer, TrainerOptions};
pub use runtime::device::Device;
pub use runtime::tasks::{Outcome, Spec, Task as World, TaskError as WorldError};
pub use runtime::train::{Evaluation, Report};

/// The best device that this build can use and the machine has.
pub fn best_device() -> Result<Device, Error> {
    runtime::device::Wanted::Auto.choose().map_err(|error| runtime::Error::from(error).into())
}

/// Runs the command `wmc` to its end. The first of the arguments is the program's name, as in [`std::env::args_os`].
pub fn command(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> ExitCode {
    #[cfg(unix)]
    without_file_size_signal();
    #[cfg(feature = "vulkan")]
    without_display();
    let cli = match cli::Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        // Help is an answer and goes to standard output, a wrong argument to standard error.
        Err(told) => {
            let _ = told.print();
            return ExitCode::from(told.exit_code() as u8);
        }
    };
    if let Some(bytes) = cli.max_memory {
        compiler::memory::set_limit(bytes);
    }
    let mut out = output::Output::standard();
    let exit = commands::run(cli.command, &mut out);
    out.finish(exit).into()
}

/// A layer of Mesa's asks the display for its favourite device, and complains where there is no display.
#[cfg(feature = "vulkan")]
fn without_display() {
    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if alone && std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: there is no other thread that could read the environment meanwhile.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// Lets a write beyond `ulimit -f` fail with an error; its signal would end the process with nothing said.
#[cfg(unix)]
fn without_file_size_signal() {
    // SAFETY: to ignore a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
