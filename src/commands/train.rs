//! `wmc train`: a run from its start or from its last checkpoint to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dsl::hir::Model;
use dsl::source::Sources;
use runtime::Error;
use runtime::checkpoint;
use runtime::program::Compute;
use runtime::run::{Identity, Run, Texts};
use runtime::tasks::mujoco::described;
use runtime::tasks::suite;
use runtime::train::{Config, sizes_of, task_of};

use crate::cli::{Sizes, Train};
use crate::commands::{help_for, one_model, open_run};
use crate::files;
use crate::output::{Exit, Output};
use crate::train::start;
use crate::train::training::{Note, Options, Training};
use crate::train::view::{View, Voice};
use crate::weights::{self, Source, Weights};

pub(crate) fn run(arguments: &Train, out: &mut Output) -> Exit {
    let stop = Arc::new(AtomicBool::new(false));
    let signal = stop.clone();
    // Without a handler Ctrl-C ends the program, which loses at most what came after the last checkpoint.
    // The first one lets the present decision end and saves; a second one does not wait for that.
    let _ = ctrlc::set_handler(move || {
        if signal.swap(true, Ordering::Relaxed) {
            std::process::exit(Exit::Stopped as i32);
        }
    });
    let Some(compute) = arguments.computed.compute(out) else { return Exit::Bad };
    if let Some(path) = &arguments.resume {
        let Some(run) = open_run(path, out) else { return Exit::Bad };
        if run.is_chosen() {
            let help = format!("name the run: `wmc train --resume {}`", run.folder.display());
            out.error("a run is resumed from its newest checkpoint, and this is the path of one checkpoint", &help);
            return Exit::Bad;
        }
        return follow(run, arguments, compute, &stop, out);
    }
    let Some(file) = &arguments.file else { return Exit::Bad };
    let runs = match prepare(file, arguments, compute, out) {
        Some(Ok(runs)) => runs,
        Some(Err(error)) => {
            out.error(&error.to_string(), &help_for(&error, &Sources::default()));
            return Exit::Bad;
        }
        None => return Exit::Bad,
    };
    for run in runs {
        let exit = follow(run, arguments, compute, &stop, out);
        if exit != Exit::Fine {
            return exit;
        }
    }
    Exit::Fine
}

/// Folders of new runs. None after what is wrong with the model has been said.
pub(crate) fn prepare(file: &Path, arguments: &Train, compute: Compute, out: &mut Output) -> Option<Result<Vec<Run>, Error>> {
    let read = |sizes: &Sizes, out: &mut Output| one_model(file, &arguments.of.at(sizes), out);
    let (task, sizes) = match arguments.of.sizes.options(None).task {
        None => {
            let (_, model) = read(&arguments.of.sizes, out)?;
            match task_of(&model, None) {
                Ok(task) => (task.name.clone(), arguments.of.sizes.at(&task.name)),
                Err(error) => return Some(Err(error)),
            }
        }
        Some(task) => match described::path(&task) {
            None => (task.clone(), arguments.of.sizes.at(&task)),
            Some(path) => {
                let sizes = arguments.of.sizes.without_task();
                let (_, model) = read(&sizes, out)?;
                match described_task(path, &model) {
                    Ok((task, dims)) => (task, Sizes::default().with(&dims).with(&sizes.dims())),
                    Err(error) => return Some(Err(error)),
                }
            }
        },
    };
    let (checked, model) = read(&sizes, out)?;
    let texts = texts(file, arguments, &sizes)?;
    let seeds = match arguments.seed {
        Some(seed) => vec![seed],
        None if arguments.all_seeds => model.settings.seeds.clone(),
        None => model.settings.seeds.iter().take(1).copied().collect(),
    };
    let protocol = sizes.options(None).protocol;
    let hash = match weights(&model, seeds.first().copied().unwrap_or_default(), arguments) {
        Ok(weights) => weights.map(|weights| weights.hash),
        Err(error) => {
            unfit(&error, out);
            return None;
        }
    };
    let create = |seed: u64| -> Result<Run, Error> {
        let mut config = Config::new(model.clone(), &task, seed)?;
        for (name, value) in &arguments.set {
            config.set(name, value)?;
        }
        // What cannot work leaves no folder behind.
        config.environment(seed)?;
        runtime::train::fits(&config, compute)?;
        let folder = arguments.out.clone().unwrap_or_else(|| default_folder(&texts.file, &task, protocol.as_deref(), seed));
        if folder.exists() {
            let told = match folder.join("run.json").exists() {
                true => "it is already there: `--resume` goes on with it, `--out` chooses another folder",
                false => "it is already there, but it is no run: remove it, or choose another folder with `--out`",
            };
            return Err(Error::Damaged { path: folder, reason: told.into() });
        }
        let identity = Identity::new(&texts.file, &config, sizes.dims(), arguments.set.clone());
        Run::create(&folder, &Identity { from: hash.clone(), ..identity }, &texts)
    };
    let created: Result<Vec<Run>, Error> = seeds.into_iter().map(create).collect();
    if let Err(error) = &created
        && error.too_large().is_some()
    {
        out.error(&error.to_string(), &help_for(error, &checked.sources));
        return None;
    }
    Some(created)
}

/// The parameters of a file that a training starts with.
fn weights(model: &Model, seed: u64, arguments: &Train) -> Result<Option<Weights>, String> {
    let Some(file) = &arguments.from else { return Ok(None) };
    let from = Source { file, map: arguments.map.as_deref(), keep_initial: arguments.keep_initial };
    weights::read(model, seed, from).map(Some)
}

/// Says why the parameters of a file cannot be taken.
fn unfit(error: &str, out: &mut Output) {
    out.error(error, "`wmc show FILE --params` lists the model's parameters; `--map` names those of the file; `--keep-initial` trains the rest from its initial values");
}

/// The task of a description by its whole path, so that a run finds it from anywhere, and the sizes that it gives to a model.
fn described_task(path: &Path, model: &Model) -> Result<(String, Vec<(String, u64)>), Error> {
    let whole = path.canonicalize().map_err(|e| Error::File { path: path.to_path_buf(), reason: e.to_string() })?;
    let task = format!("mjcf:{}", whole.display());
    let settings = described::settings(&task, &whole)?;
    let spec = suite::task(&task, &settings)?.spec().clone();
    Ok((task, sizes_of(model, &spec)))
}

/// `runs/MODEL-TASK-SEED`.
fn default_folder(file: &str, task: &str, protocol: Option<&str>, seed: u64) -> PathBuf {
    let task = described::path(task).and_then(Path::file_stem).map_or(task.into(), |stem| stem.to_string_lossy());
    let protocol = protocol.map_or(String::new(), |name| format!("-{name}"));
    PathBuf::from("runs").join(format!("{}-{task}{protocol}-{seed}", file.trim_end_matches(".wm")))
}

/// The text of a model that was just read without errors, and of the files that it uses.
fn texts(file: &Path, arguments: &Train, sizes: &Sizes) -> Option<Texts> {
    let text = files::read(file).ok()?;
    let folders = files::folders(file, &arguments.of.roots.roots).ok()?;
    let shown = file.display().to_string();
    dsl::check(&shown, &text, &folders, &sizes.options(arguments.of.model.clone()));
    let imports = folders.into_imports().into_iter().map(|(name, import)| (name, import.text)).collect();
    let name = file.file_name().map_or_else(|| "model.wm".into(), |n| n.to_string_lossy().into_owned());
    Some(Texts { file: name, text, imports })
}

/// Trains a run from where it is to its end.
fn follow(run: Run, arguments: &Train, compute: Compute, stop: &AtomicBool, out: &mut Output) -> Exit {
    let sources = run.sources.clone();
    match train(run, arguments, compute, stop, out) {
        Ok(true) => Exit::Fine,
        Ok(false) => Exit::Stopped,
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &sources));
            Exit::Bad
        }
    }
}

/// Whether it came to its end, or as far as was asked for.
fn train(run: Run, arguments: &Train, compute: Compute, stop: &AtomicBool, out: &mut Output) -> Result<bool, Error> {
    let voice = match (arguments.quiet, arguments.json) {
        (true, _) => Voice::Quiet,
        (_, true) => Voice::Json,
        _ => Voice::People,
    };
    let options = Options {
        resume: arguments.resume.is_some(),
        compute,
        set: arguments.set.clone(),
        save_every: arguments.save_every,
        keep: arguments.keep.map_or(checkpoint::KEEP, usize::from),
        start: start::now(compute),
    };
    let (mut training, notes) = Training::open(run, options)?;
    for note in notes {
        match note {
            Note::Warning(warning) => out.tell(format!("warning: {warning}\n")),
            _ if voice != Voice::People => {}
            Note::Changed(change) => out.tell(format!("{}: {} instead of {}\n", change.name, change.to, change.from)),
            Note::Resumed(step, place) => out.tell(format!("going on from step {step} ({})\n", place.display())),
        }
    }
    let config = training.trainer.config();
    if let Some(weights) = weights(&config.model, config.seed, arguments).map_err(Error::Misfit)? {
        if voice == Voice::People {
            weights.notes.iter().for_each(|note| out.tell(format!("note: {note}\n")));
        }
        training.start(&weights.state)?;
    }
    let folder = training.run.folder.display().to_string();
    let until = arguments.until.unwrap_or(u64::MAX);
    let first_step = training.trainer.step();
    let view = View::new(voice, training.trainer.config().train.steps.min(until), first_step);
    while !training.trainer.done() && training.trainer.step() < until && !stop.load(Ordering::Relaxed) {
        let (report, lines) = training.advance()?;
        lines.iter().for_each(|line| view.line(line, out));
        training.journal.warnings().iter().for_each(|warning| out.tell(format!("warning: {warning}\n")));
        view.step(&training.trainer, report.episode);
    }
    if !training.trainer.done() {
        training.save()?;
        let told = format!("stopped at step {}; `wmc train --resume {folder}` goes on", training.trainer.step());
        view.notice(&told, out);
    }
    view.end(&training.trainer, first_step, &folder, training.journal.spent(), out);
    Ok(training.trainer.done() || training.trainer.step() >= until)
}
