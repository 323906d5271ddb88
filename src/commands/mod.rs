//! The subcommands, one file each.

mod check;
mod compile;
mod completions;
mod device;
mod diagnose;
mod doctor;
mod eval;
mod experiment;
mod explain;
mod export;
mod fmt;
mod help;
mod new;
#[cfg(feature = "emit")]
mod nvrtc;
mod plan;
mod plot;
mod report;
mod rollout;
mod run;
mod runs;
mod selftest;
mod show;
mod snapshot;
mod tasks;
pub(crate) mod train;

use std::path::Path;

use compiler::lower::Entry;
use compiler::memory::{Array, TooLarge, bytes};
use dsl::Checked;
use dsl::diagnostics::{Diagnostic, closest};
use dsl::hir::Model;
use dsl::source::{Sources, Span};
use runtime::checkpoint::Manifest;
use runtime::run::Run;
use runtime::tasks::TaskError;
use runtime::train::Snapshot;

use crate::bench;
use crate::cli::{Chosen, Command, Episodes, ModelFile};
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
        Command::Snapshot(arguments) => snapshot::run(&arguments, out),
        Command::Explain(arguments) => explain::run(&arguments, out),
        Command::Selftest(arguments) => selftest::run(&arguments, out),
        Command::Bench(arguments) => bench::run(&arguments, out),
        Command::Train(arguments) => train::run(&arguments, out),
        Command::Eval(arguments) => eval::run(&arguments, out),
        Command::Plan(arguments) => plan::run(&arguments, out),
        Command::Rollout(arguments) => rollout::run(&arguments, out),
        Command::Diagnose(arguments) => diagnose::run(&arguments, out),
        Command::Experiment(arguments) => experiment::run(&arguments, out),
        Command::Export(arguments) => export::run(&arguments, out),
        Command::Runs(arguments) => runs::run(&arguments, out),
        Command::Plot(arguments) => plot::run(&arguments, out),
        Command::Report(arguments) => report::run(&arguments, out),
        Command::Tasks(arguments) => tasks::run(&arguments, out),
        Command::Doctor(_) => doctor::run(out),
        Command::New(arguments) => new::run(&arguments, out),
        Command::Help(arguments) => help::run(&arguments, out),
        Command::Completions(arguments) => completions::run(&arguments, out),
    }
}

/// The one model of a file that a command works on. Returns `None` after reporting the error.
pub(crate) fn one_model(path: &Path, of: &Chosen, out: &mut Output) -> Option<(Checked, Model)> {
    let file = path.display().to_string();
    let mut report = Report::new(false);
    let checked = files::read(path).and_then(|text| {
        Ok(dsl::check(&file, &text, &files::folders(path, &of.roots.roots)?, &of.sizes.options(of.model.clone())))
    });
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

/// The run in a folder. Returns `None` after reporting the error.
fn open_run(path: &Path, out: &mut Output) -> Option<Run> {
    Run::open(path).map_err(|error| out.error(&error.to_string(), "`wmc runs` lists runs; `wmc train` starts one")).ok()
}

/// The run whose episodes are asked for, on the device that they are to run on. Returns `None` after reporting the error.
fn open_episodes(of: &Episodes, out: &mut Output) -> Option<Run> {
    let mut run = open_run(&of.run, out)?;
    run.config.compute.device = of.place.choose(out)?;
    run.config.compute.threads = of.threads.unwrap_or(run.config.compute.threads);
    Some(run)
}

/// The checkpoint that was named, or the newest that is whole. Returns `None` after reporting the error.
fn newest(run: &Run, out: &mut Output) -> Option<(Manifest, Snapshot)> {
    match run.chosen() {
        Ok((place, manifest, snapshot, unused)) => {
            for reason in unused {
                out.tell(format!("warning: {reason}; using {}\n", place.display()));
            }
            Some((manifest, snapshot))
        }
        Err(error) => {
            out.error(&error.to_string(), "train the run anew with `wmc train MODEL --out OTHER`");
            None
        }
    }
}

/// Where in the text a failure came from, or what may help.
pub(crate) fn help_for(error: &runtime::Error, sources: &Sources) -> String {
    use runtime::Error;
    if let Some(refused) = error.too_large() {
        return largest(refused, sources);
    }
    match error {
        Error::NotFinite { span: Some(span), .. } => {
            let at = sources.line_col(span.file, span.lo);
            let file = sources.file(span.file);
            let text = sources.text(*span).lines().next().unwrap_or_default();
            format!("at {}:{}:{}, in `{text}` or its gradient; the last checkpoint is as it was", file.name, at.line, at.column)
        }
        Error::NotFinite { .. } => "a smaller learning rate or a gradient clip may help; the last checkpoint is as it was".into(),
        Error::Damaged { .. } => {
            "checkpoints that are whole are as they were: `wmc train --resume RUN` uses the newest of them".into()
        }
        Error::Unbound(_) => "bind it with `--task` or `--dim`".into(),
        Error::NoTask => "give one with `--task`".into(),
        Error::Exported { .. } => "`wmc train MODEL --from` starts another one with its parameters".into(),
        Error::NoWorld { .. } => "only the program that trained in it can make this world; `wmc plan` needs none".into(),
        Error::File { .. } => "check the path, its permissions and the free space; what was saved before is as it was".into(),
        Error::Task(TaskError::NotFinite { .. }) => "the task is at fault; the last checkpoint is as it was".into(),
        Error::Task(TaskError::Diverged { .. }) => {
            "a smaller `timestep` or smaller forces in the MJCF model may help; the last checkpoint is as it was".into()
        }
        Error::Task(TaskError::Mujoco(_)) => "`wmc doctor` says what is missing".into(),
        Error::Task(TaskError::Size { .. }) => "give the model the task's sizes with `--task`".into(),
        Error::TooMany { .. } => "they run at the same time; ten are usual".into(),
        Error::NoSegment { .. } => "shorten the segments (`--dim T=..`), or lengthen the episodes (`--set length=..`)".into(),
        Error::Device(compiler::backend::DeviceError::Verify(_)) => {
            "this is a fault of wmc, not of your model: please report it with the model; `--level eager` may go around it".into()
        }
        Error::Device(_) => "`--device cpu` needs nothing; `wmc doctor` says what this machine has".into(),
        Error::Kernels(_) => "`--level fused` or `--level eager` may go around it".into(),
        Error::NothingToShow { .. } => "declare what to look at, for example\n  \
             diagnose {\n    size = norm(z[t])\n    probe trained = policy()\n    show size_over_time = bands(size, along = trained)\n  }\n\
             docs/guide/diagnose.md has all forms"
            .into(),
        _ => "see `wmc help train`".into(),
    }
}

/// The largest arrays of what does not fit into memory, and what to do.
pub(crate) fn largest(refused: &TooLarge, sources: &Sources) -> String {
    let place = |span: Span| {
        let at = sources.line_col(span.file, span.lo);
        format!(" ({}:{}:{})", sources.file(span.file).name, at.line, at.column)
    };
    let known = |span: &Span| span.lo < span.hi && (span.file.0 as usize) < sources.files.len();
    let array = |a: &Array| format!("`{}` {}{}", a.name, bytes(a.bytes), a.origin.filter(known).map(place).unwrap_or_default());
    let arrays: Vec<String> = refused.largest.iter().map(array).collect();
    let named = if arrays.is_empty() { String::new() } else { format!("the largest arrays are {}; ", arrays.join(", ")) };
    format!("{named}make a dim, the batch or the replay smaller, or raise `--max-memory`")
}

/// The entry point of that name. Returns `None` after reporting the error.
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

/// `hamworld-cheetah_run`: a name for what is made of a model at the sizes of a task.
fn stem(what: &ModelFile) -> String {
    let file = what.file.file_stem().map_or_else(|| "model".into(), |s| s.to_string_lossy().into_owned());
    let task = what.of.sizes.options(None).task;
    [Some(file), what.of.model.clone(), task].into_iter().flatten().collect::<Vec<_>>().join("-")
}

/// Writes beside the place and renames, so that nobody ever reads half of it. Returns `None` after reporting the error.
fn write_whole(path: &Path, bytes: &[u8], out: &mut Output) -> Option<()> {
    let draft = path.with_extension(format!("draft-{}", std::process::id()));
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    let written = folder.and_then(|()| std::fs::write(&draft, bytes)).and_then(|()| std::fs::rename(&draft, path));
    let failed = |error: std::io::Error| {
        let _ = std::fs::remove_file(&draft);
        out.error(&format!("cannot write `{}`: {error}", path.display()), "choose another folder with `-o`");
    };
    written.map_err(failed).ok()
}

/// The one entry point that was named, or all.
fn entries(name: Option<&str>, out: &mut Output) -> Option<Vec<Entry>> {
    match name {
        Some(name) => entry_named(name, out).map(|entry| vec![entry]),
        None => Some(Entry::ALL.to_vec()),
    }
}
