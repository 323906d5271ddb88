//! The subcommands, one file each.

mod check;
mod compile;
mod completions;
mod explain;
mod fmt;
mod help;
mod new;
mod run;
mod show;

use std::path::Path;

use compiler::lower::Entry;
use dsl::Checked;
use dsl::diagnostics::{Diagnostic, closest};
use dsl::hir::Model;

use crate::bench;
use crate::cli::{Command, Roots, Sizes};
use crate::files;
use crate::output::{Exit, Output};
use crate::report::Report;

pub(crate) fn run(command: Command, out: &mut Output) -> Exit {
    match command {
        Command::Check(arguments) => check::run(&arguments, out),
        Command::Fmt(arguments) => fmt::run(&arguments, out),
        Command::Show(arguments) => show::run(&arguments, out),
        Command::Run(arguments) => run::run(&arguments, out),
        Command::Compile(arguments) => compile::run(&arguments, out),
        Command::Explain(arguments) => explain::run(&arguments, out),
        Command::Bench(arguments) => bench::run(&arguments, out),
        Command::New(arguments) => new::run(&arguments, out),
        Command::Help(arguments) => help::run(&arguments, out),
        Command::Completions(arguments) => completions::run(&arguments, out),
    }
}

/// The one model of a file that a command works on. None after what is wrong has been said.
pub(crate) fn one_model(
    path: &Path,
    name: Option<String>,
    sizes: &Sizes,
    roots: &Roots,
    out: &mut Output,
) -> Option<(Checked, Model)> {
    let file = path.display().to_string();
    let mut report = Report::new(false);
    let checked = files::read(path)
        .and_then(|text| Ok(dsl::check(&file, &text, &files::folders(path, &roots.roots)?, &sizes.options(name.clone()))));
    let mut checked = match checked {
        Ok(checked) => checked,
        Err(unread) => {
            report.unread(out, &file, unread);
            return None;
        }
    };
    if checked.has_errors() {
        let errors: Vec<Diagnostic> = checked.diagnostics.into_iter().filter(Diagnostic::is_error).collect();
        report.diagnostics(out, &checked.sources, &errors);
        report.finish(out);
        return None;
    }
    let mut models = std::mem::take(&mut checked.models);
    match models.len() {
        1 => models.pop().map(|model| (checked, model)),
        0 => {
            out.error(&format!("there is no model in `{file}`"), "give a file with a `model NAME { .. }`");
            None
        }
        _ => {
            let names: Vec<&str> = models.iter().map(|m| m.name.as_str()).collect();
            out.error(&format!("`{file}` has several models"), &format!("choose one with `--model`: {}", names.join(", ")));
            None
        }
    }
}

/// The entry point of that name. None after what is wrong has been said.
fn entry_named(name: &str, out: &mut Output) -> Option<Entry> {
    let found = Entry::parse(name);
    if found.is_none() {
        let names = Entry::ALL.map(Entry::name);
        let help = match closest(name, names) {
            Some(best) => format!("did you mean `{best}`?"),
            None => format!("the entry points are {}", names.join(", ")),
        };
        out.error(&format!("there is no entry point `{name}`"), &help);
    }
    found
}

/// The one entry point that was named, or all.
fn entries(name: Option<&str>, out: &mut Output) -> Option<Vec<Entry>> {
    match name {
        Some(name) => entry_named(name, out).map(|entry| vec![entry]),
        None => Some(Entry::ALL.to_vec()),
    }
}
