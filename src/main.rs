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

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let mut out = output::Output::standard();
    let exit = commands::run(cli.command, &mut out);
    out.finish(exit).into()
}
