//! `wmc experiment`: methods on tasks with seeds.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runtime::program::Compute;

use crate::cli::Experiment as Arguments;
use crate::experiment::builds::Builds;
use crate::experiment::file::{Experiment, Job, Part};
use crate::experiment::jobs::{self, Audience, End, How};
use crate::experiment::measured::Measured;
use crate::experiment::summary::{self, rows};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Arguments, out: &mut Output) -> Exit {
    let part = Part { stages: &arguments.stage, methods: &arguments.method, tasks: &arguments.task, seeds: &arguments.seed };
    let read = Experiment::read(&arguments.file).and_then(|mut experiment| {
        experiment.only(&part)?;
        Ok(experiment)
    });
    let experiment = match read {
        Ok(experiment) => experiment,
        Err(error) => {
            out.error(&format!("{}: {error}", arguments.file.display()), "models/experiments has examples");
            return Exit::Bad;
        }
    };
    let folder = arguments.out.clone().unwrap_or_else(|| experiment.folder());
    let stages = experiment.stages(&arguments.file, &folder, &arguments.set, arguments.until);
    let stop = Arc::new(AtomicBool::new(false));
    let signal = stop.clone();
    // Without a handler Ctrl-C ends the program, and the runs go on by themselves.
    let _ = ctrlc::set_handler(move || signal.store(true, Ordering::Relaxed));
    let total: usize = stages.iter().map(Vec::len).sum();
    let at_once = arguments.jobs.map_or(1, usize::from).min(total);
    let threads = arguments.threads.unwrap_or_else(|| (Compute::default().threads / at_once.max(1)).max(1));
    out.tell(format!("{}: {total} runs in {}, {at_once} at a time\n", experiment.name, folder.display()));
    let bar = Bar::new(total);
    let builds = Builds::new(&folder, arguments.new_build);
    let how = How { builds: &builds, at_once, threads, stop: &stop };
    let ends: Vec<End> = stages.iter().flat_map(|jobs| jobs::run(jobs, &how, &bar)).collect();
    let jobs: Vec<Job> = stages.concat();
    bar.bar.finish_and_clear();

    let mut runs = Vec::new();
    let mut folders: Vec<&Path> = Vec::new();
    for job in jobs.iter().filter(|job| job.folder.join("run.json").is_file()) {
        // Several stages may go on with one run.
        if folders.contains(&job.folder.as_path()) {
            continue;
        }
        folders.push(&job.folder);
        match Measured::read(&job.folder) {
            Ok((measured, warning)) => {
                warning.iter().for_each(|warning| out.tell(format!("warning: {warning}\n")));
                runs.push((measured, Some(job.label.published.clone())));
            }
            Err(error) => out.tell(format!("warning: {error}\n")),
        }
    }
    let rows = rows(&runs);
    out.say(summary::table(&rows));
    let failed: Vec<serde_json::Value> = (jobs.iter().zip(&ends))
        .filter_map(|(job, end)| match end {
            End::Failed(why) => Some(serde_json::json!({ "run": job.title, "why": why })),
            End::Done | End::Already | End::Stopped => None,
        })
        .collect();
    let runs: Vec<&Measured> = runs.iter().map(|(run, _)| run).collect();
    let document = serde_json::json!({ "experiment": experiment.name, "rows": rows, "runs": runs, "failed": failed });
    let path = folder.join(format!("{}.json", experiment.name));
    // A record of texts and numbers always has a JSON form.
    let text = serde_json::to_string_pretty(&document).expect("results as JSON") + "\n";
    if let Err(error) = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, text)) {
        out.error(&format!("cannot write `{}`: {error}", path.display()), "choose another folder with `--out`");
        return Exit::Bad;
    }
    out.say(format!("\n{}\n", path.display()));
    let mut exit = Exit::Fine;
    for (job, end) in jobs.iter().zip(&ends) {
        match end {
            End::Done | End::Already => {}
            End::Stopped => exit = exit.max(Exit::Stopped),
            End::Failed(why) => {
                out.error(&format!("{} failed", job.title), &why.replace('\n', "\n    "));
                exit = exit.max(Exit::Bad);
            }
        }
    }
    if exit == Exit::Stopped {
        out.tell("stopped; the same command goes on\n");
    }
    exit
}

/// Progress of all runs together: a bar of runs, the decisions of all of them beside it, a line where one ends.
struct Bar {
    bar: ProgressBar,
}

impl Bar {
    fn new(runs: usize) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(runs as u64), ProgressDrawTarget::stderr_with_hz(2));
        // A template that is known to be right.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} runs  {elapsed}  {msg}") {
            bar.set_style(style);
        }
        Bar { bar }
    }
}

impl Audience for Bar {
    fn ended(&self, job: &Job, end: &End) {
        let word = match end {
            End::Done => "done",
            End::Already => "was done",
            End::Stopped => "stopped",
            End::Failed(_) => "FAILED",
        };
        self.bar.inc(1);
        self.bar.suspend(|| eprintln!("{word:8}  {}", job.title));
    }

    fn progress(&self, steps: u64) {
        self.bar.set_message(format!("{steps} decisions"));
    }
}
