//! `wmc completions`: the completion script of a shell.

use clap::CommandFactory;

use crate::cli::{Cli, Completions};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Completions, out: &mut Output) -> Exit {
    // Into memory first: the generator panics on a stream that nobody reads.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "wmc", &mut script);
    out.say(String::from_utf8_lossy(&script));
    Exit::Fine
}
