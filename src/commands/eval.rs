//! `wmc eval`: episodes of a trained model, on its task or on one that was changed.

use std::path::Path;

use runtime::Error;
use runtime::diagnose::Moment;
use runtime::numbers::value as number;
use runtime::run::Run;
use runtime::tasks::Perturbation;
use runtime::train::{Evaluation, Evaluator, Snapshot};

use crate::cli::Eval;
use crate::commands::{help_for, newest, open_episodes};
use crate::figures::frames::{self, Frame};
use crate::figures::picture;
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Eval, out: &mut Output) -> Exit {
    let Some(mut run) = open_episodes(&arguments.of, out) else { return Exit::Bad };
    let Some((_, snapshot)) = newest(&run, out) else { return Exit::Bad };
    if let Some(task) = &arguments.task {
        run.config.task = task.replace('-', "_");
    }
    let changes = match changes(&run.config.task, &arguments.ood) {
        Ok(changes) => changes,
        Err(error) => {
            out.error(&error.to_string(), "see `wmc help eval`");
            return Exit::Bad;
        }
    };
    let train = &run.config.train;
    let usual = if arguments.ood.is_empty() { train.eval_episodes } else { train.changed_episodes() };
    let episodes = Some(arguments.of.episodes.unwrap_or(usual));
    let mut evaluated = |change, evaluation: &Evaluation| say(&run, change, evaluation, arguments.of.json, out);
    match evaluate(&run, &snapshot, episodes, arguments.of.seed, &changes, &mut evaluated) {
        Ok(()) => {}
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &run.sources));
            return Exit::Bad;
        }
    }
    match &arguments.frames {
        Some(path) => draw_frames(&run, &snapshot, arguments.of.seed, path, out),
        None => Exit::Fine,
    }
}

/// Moments of an episode, of which there are this many.
const FRAMES: usize = 8;

/// Draws one episode.
fn draw_frames(run: &Run, snapshot: &Snapshot, seed: u64, path: &Path, out: &mut Output) -> Exit {
    let mut config = run.config.clone();
    config.seed = seed;
    let progress = snapshot.counters.step as f64 / config.train.steps as f64;
    let found = match runtime::diagnose::frames(&config, &snapshot.learnt, progress, FRAMES) {
        Ok(Some(found)) => found,
        Ok(None) => {
            out.error(&format!("the task `{}` does not say what it looks like", config.task), "leave `--frames` out");
            return Exit::Bad;
        }
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &run.sources));
            return Exit::Bad;
        }
    };
    let frame = |m: Moment| Frame { label: format!("{}: {:.1}", m.step, m.gained), scene: m.scene };
    let frames: Vec<Frame> = found.into_iter().map(frame).collect();
    match picture::write(path, &frames::draw(&frames)) {
        Ok(()) => Exit::Fine,
        Err(error) => {
            out.error(&format!("cannot write `{}`: {error}", path.display()), "choose another place with `--frames`");
            Exit::Bad
        }
    }
}

/// The task as it is, or each of the changes.
fn changes(task: &str, asked: &[String]) -> Result<Vec<Option<Perturbation>>, Error> {
    if asked.is_empty() {
        return Ok(vec![None]);
    }
    let mut all = Vec::new();
    for text in asked {
        match text.as_str() {
            "all" => all.extend(std::iter::once(None).chain(Perturbation::of_task(task).into_iter().map(Some))),
            "nominal" => all.push(None),
            text => all.push(Some(Perturbation::parse(text)?)),
        }
    }
    Ok(all)
}

/// Runs episodes of what was learnt under each of the changes.
pub(super) fn evaluate(
    run: &Run,
    snapshot: &Snapshot,
    episodes: Option<u64>,
    seed: u64,
    changes: &[Option<Perturbation>],
    evaluated: &mut dyn FnMut(Option<Perturbation>, &Evaluation),
) -> Result<(), Error> {
    let mut config = run.config.clone();
    config.train.eval_episodes = episodes.unwrap_or(config.train.eval_episodes).max(1);
    config.seed = seed;
    let state = runtime::program::acting(&config.model, &snapshot.learnt)?;
    let mut evaluator = Evaluator::new(&config, &state)?;
    let progress = snapshot.counters.step as f64 / config.train.steps as f64;
    for change in changes {
        evaluator.change(*change)?;
        evaluated(*change, &evaluator.run(0, snapshot.counters.step, progress)?);
    }
    Ok(())
}

fn say(run: &Run, change: Option<Perturbation>, evaluation: &Evaluation, json: bool, out: &mut Output) {
    let change = change.map_or("nominal".to_string(), |c| c.to_string());
    if json {
        let line = serde_json::json!({ "task": run.config.task, "change": change, "step": evaluation.step, "mean": number(evaluation.mean()), "returns": evaluation.returns.iter().copied().map(number).collect::<Vec<_>>() });
        out.say(format!("{line}\n"));
        return;
    }
    let returns: Vec<String> = evaluation.returns.iter().map(|r| format!("{r:.1}")).collect();
    let line = format!("{} {change:14}  return {:7.2}  of {}\n", run.config.task, evaluation.mean(), returns.join(" "));
    out.say(line);
}
