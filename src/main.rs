//! The command `wmc`: arguments in, one subcommand called, an exit code out.

mod bench;
mod cli;
mod commands;
mod diagnose;
mod experiment;
mod explain;
mod figures;
mod files;
mod output;
mod remember;
mod report;
mod results;
mod show;
mod tensors;
mod train;
mod weights;

use std::process::ExitCode;

use clap::Parser;

/// A layer of Mesa's asks the display for its favourite device, and complains where there is no display.
#[cfg(feature = "vulkan")]
fn without_display() {
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: no other thread has been started.
        unsafe { std::env::set_var("NODEVICE_SELECT", "1") };
    }
}

/// Lets a write beyond `ulimit -f` fail with an error; its signal would end the process with nothing said.
#[cfg(unix)]
fn without_file_size_signal() {
    // SAFETY: to ignore a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

fn main() -> ExitCode {
    #[cfg(unix)]
    without_file_size_signal();
    #[cfg(feature = "vulkan")]
    without_display();
    let cli = cli::Cli::parse();
    if let Some(bytes) = cli.max_memory {
        compiler::memory::set_limit(bytes);
    }
    let mut out = output::Output::standard();
    let exit = commands::run(cli.command, &mut out);
    out.finish(exit).into()
}
