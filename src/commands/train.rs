//! `wmc train`: a run from its start or from its last checkpoint to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runtime::Error;
use runtime::checkpoint;
use runtime::program::Compute;
use runtime::records::{Line, Records};
use runtime::run::{Run, Started, Texts};
use runtime::train::{Config, Trainer, area, task_of};

use crate::cli::Train;
use crate::commands::{help_for, one_model, open_run};
use crate::files;
use crate::output::{Exit, Output};
use crate::train::curves::{Curve, draw};
use crate::train::view::{View, Voice};

/// Decisions between two lines of losses.
const LOSSES_EVERY: u64 = 100;

pub(crate) fn run(arguments: &Train, out: &mut Output) -> Exit {
    let stop = Arc::new(AtomicBool::new(false));
    let signal = stop.clone();
    // Without a handler Ctrl-C ends the program, which loses at most what came after the last checkpoint.
    let _ = ctrlc::set_handler(move || signal.store(true, Ordering::Relaxed));
    if let Some(path) = &arguments.resume {
        let Some(run) = open_run(path, out) else { return Exit::Bad };
        return follow(run, arguments, &stop, out);
    }
    let Some(file) = &arguments.file else { return Exit::Bad };
    let runs = match prepare(file, arguments, out) {
        Some(Ok(runs)) => runs,
        Some(Err(error)) => {
            out.error(&error.to_string(), "see `wmc help train`");
            return Exit::Bad;
        }
        None => return Exit::Bad,
    };
    for run in runs {
        let exit = follow(run, arguments, &stop, out);
        if exit != Exit::Fine || stop.load(Ordering::Relaxed) {
            return exit;
        }
    }
    Exit::Fine
}

/// Folders of new runs. None after what is wrong with the model has been said.
fn prepare(file: &Path, arguments: &Train, out: &mut Output) -> Option<Result<Vec<Run>, Error>> {
    let task = match arguments.sizes.options(None).task {
        Some(task) => task,
        None => {
            let (_, model) = one_model(file, arguments.model.clone(), &arguments.sizes, &arguments.roots, out)?;
            match task_of(&model, None) {
                Ok(task) => task.name.clone(),
                Err(error) => return Some(Err(error)),
            }
        }
    };
    let sizes = arguments.sizes.at(&task);
    let (_, model) = one_model(file, arguments.model.clone(), &sizes, &arguments.roots, out)?;
    let texts = texts(file, arguments, &task)?;
    let seeds = match arguments.seed {
        Some(seed) => vec![seed],
        None if arguments.all_seeds => model.settings.seeds.clone(),
        None => model.settings.seeds.iter().take(1).copied().collect(),
    };
    let create = |seed: u64| -> Result<Run, Error> {
        let mut config = Config::new(model.clone(), &task, seed)?;
        for (name, value) in &arguments.set {
            config.set(name, value)?;
        }
        // What cannot work leaves no folder behind.
        config.environment(seed)?;
        let stem = texts.file.trim_end_matches(".wm");
        let folder = arguments.out.clone().unwrap_or_else(|| PathBuf::from("runs").join(format!("{stem}-{task}-{seed}")));
        if folder.exists() {
            let told = "it is already there: `--resume` goes on with it, `--out` chooses another folder";
            return Err(Error::File { path: folder, reason: told.into() });
        }
        Run::create(&folder, &Started::new(&texts.file, &config, arguments.sizes.dims(), arguments.set.clone()), &texts)
    };
    Some(seeds.into_iter().map(create).collect())
}

/// The text of a model that was just read without errors, and of the files that it uses.
fn texts(file: &Path, arguments: &Train, task: &str) -> Option<Texts> {
    let text = files::read(file).ok()?;
    let folders = files::folders(file, &arguments.roots.roots).ok()?;
    let shown = file.display().to_string();
    dsl::check(&shown, &text, &folders, &arguments.sizes.at(task).options(arguments.model.clone()));
    let imports = folders.into_imports().into_iter().map(|(name, import)| (name, import.text)).collect();
    let name = file.file_name().map_or_else(|| "model.wm".into(), |n| n.to_string_lossy().into_owned());
    Some(Texts { file: name, text, imports })
}

/// Trains a run from where it is to its end.
fn follow(mut run: Run, arguments: &Train, stop: &AtomicBool, out: &mut Output) -> Exit {
    let sources = run.sources.clone();
    match train(&mut run, arguments, stop, out) {
        Ok(()) => Exit::Fine,
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &sources));
            Exit::Bad
        }
    }
}

fn train(run: &mut Run, arguments: &Train, stop: &AtomicBool, out: &mut Output) -> Result<(), Error> {
    let voice = match (arguments.quiet, arguments.json) {
        (true, _) => Voice::Quiet,
        (_, true) => Voice::Json,
        _ => Voice::People,
    };
    let threads = arguments.threads.unwrap_or(Compute::default().threads);
    run.config.compute = Compute { level: arguments.level, threads };
    let said = run.started.set.clone();
    for (name, value) in &arguments.set {
        let change = if said.contains(&(name.clone(), value.clone())) { None } else { Some(run.config.set(name, value)?) };
        if let (Some(change), true) = (change, voice == Voice::People) {
            out.tell(format!("{}: {} instead of {}\n", change.name, change.to, change.from));
        }
    }
    if arguments.resume.is_some() && !arguments.set.is_empty() {
        run.keep(&arguments.set)?;
    }
    checkpoint::clean(&run.checkpoints());
    let mut trainer = Trainer::new(run.config.clone())?;
    let mut log = 0;
    if arguments.resume.is_some() {
        match run.newest() {
            Ok((place, manifest, snapshot, unused)) => {
                unused.iter().for_each(|reason| out.tell(format!("warning: {reason}\n")));
                if manifest.instruction_set != trainer.instruction_set() {
                    let (was, is) = (&manifest.instruction_set, trainer.instruction_set());
                    out.tell(format!("warning: it was trained with {was} and goes on with {is}: other bits\n"));
                }
                trainer.restore(&snapshot)?;
                log = manifest.log;
                if voice == Voice::People {
                    out.tell(format!("going on from step {} ({})\n", trainer.step(), place.display()));
                }
            }
            Err(error) if checkpoint::list(&run.checkpoints()).is_empty() => {
                out.tell(format!("warning: {error}; starting anew\n"));
            }
            Err(error) => return Err(error),
        }
    }
    let mut records = Records::open(&run.folder, log)?;
    let view = View::new(voice, run.config.train.steps, trainer.step());
    let save_every = arguments.save_every.unwrap_or(run.config.train.eval_every).max(1);
    let first_step = trainer.step();
    let mut means = Means::default();
    let mut recording = Duration::ZERO;
    while !trainer.done() && !stop.load(Ordering::Relaxed) {
        let report = trainer.advance()?;
        let start = Instant::now();
        if report.updated {
            means.add(&trainer);
        }
        let step = trainer.step();
        let mut lines = Vec::new();
        if let Some(gained) = report.episode {
            lines.push(Line::Episode { step, r#return: gained });
        }
        if step.is_multiple_of(LOSSES_EVERY)
            && let Some(means) = means.take()
        {
            lines.push(Line::Losses { step, updates: trainer.updates(), means });
        }
        let evaluated = report.evaluation.is_some();
        if let Some(evaluation) = report.evaluation {
            let auc = area(trainer.evaluations()).unwrap_or(0.0);
            lines.push(Line::Evaluation { mean: evaluation.mean(), evaluation, auc, seconds: view.seconds() });
        }
        for line in &lines {
            records.write(line)?;
            view.line(line, out);
        }
        view.step(&trainer, report.episode);
        if evaluated {
            let path = run.folder.join("curve.svg");
            let points = trainer.evaluations().iter().map(|e| (e.step as f64, e.mean())).collect();
            let name = format!("{} on {}", run.started.model, run.started.task);
            std::fs::write(&path, draw(&[Curve::of(name, &[points])]))
                .map_err(|e| Error::File { path, reason: e.to_string() })?;
        }
        if step.is_multiple_of(save_every) || trainer.done() {
            save(run, &mut trainer, &mut records)?;
        }
        recording += start.elapsed();
    }
    if !trainer.done() {
        save(run, &mut trainer, &mut records)?;
        let told = format!("stopped at step {}; `wmc train --resume {}` goes on", trainer.step(), run.folder.display());
        view.notice(&told, out);
    }
    view.end(&trainer, first_step, &run.folder.display().to_string(), recording, out);
    Ok(())
}

fn save(run: &Run, trainer: &mut Trainer, records: &mut Records) -> Result<(), Error> {
    let log = records.flush()?;
    let snapshot = trainer.save();
    let manifest = checkpoint::manifest(&snapshot, &run.fingerprint, trainer.instruction_set(), log);
    checkpoint::write(&run.checkpoints(), &manifest, &snapshot).map(|_| ())
}

/// Means of what updates showed since the last line of the log.
#[derive(Debug, Default)]
struct Means {
    sums: Vec<(String, f64)>,
    count: u32,
}

impl Means {
    fn add(&mut self, trainer: &Trainer) {
        for (i, (name, x)) in trainer.losses().enumerate() {
            match self.sums.get_mut(i) {
                Some((_, sum)) => *sum += f64::from(x),
                None => self.sums.push((name.to_string(), f64::from(x))),
            }
        }
        self.count += 1;
    }

    fn take(&mut self) -> Option<Vec<(String, f64)>> {
        let Means { sums, count } = std::mem::take(self);
        (count > 0).then(|| sums.into_iter().map(|(name, sum)| (name, sum / f64::from(count))).collect())
    }
}
