//! The subcommands, one file each.

mod check;
mod completions;
mod fmt;
mod help;
mod new;
mod show;

use crate::cli::Command;
use crate::output::{Exit, Output};

pub(crate) fn run(command: Command, out: &mut Output) -> Exit {
    match command {
        Command::Check(arguments) => check::run(&arguments, out),
        Command::Fmt(arguments) => fmt::run(&arguments, out),
        Command::Show(arguments) => show::run(&arguments, out),
        Command::New(arguments) => new::run(&arguments, out),
        Command::Help(arguments) => help::run(&arguments, out),
        Command::Completions(arguments) => completions::run(&arguments, out),
    }
}
