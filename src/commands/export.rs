//! `wmc export`: a trained model as a folder to share, with a model card.

use std::path::Path;

use runtime::checkpoint::Manifest;
use runtime::numbers::value as number;
use runtime::run::Run;
use runtime::train::Evaluation;

use crate::cli::Export;
use crate::commands::eval::evaluate;
use crate::commands::{help_for, newest, open_episodes};
use crate::experiment::measured::{command, label_of};
use crate::experiment::summary::Figure;
use crate::output::{Exit, Output};

/// Of the card's return, where nobody says how many.
const EPISODES: u64 = 30;

pub(crate) fn run(arguments: &Export, out: &mut Output) -> Exit {
    let Some(run) = open_episodes(&arguments.of, out) else { return Exit::Bad };
    let Some((manifest, snapshot)) = newest(&run, out) else { return Exit::Bad };
    if arguments.folder.exists() {
        out.error(&format!("`{}` is already there", arguments.folder.display()), "remove it, or name another folder");
        return Exit::Bad;
    }
    let mut evaluation = Evaluation::default();
    let episodes = arguments.of.episodes.unwrap_or(EPISODES);
    let mut keep = |_, found: &Evaluation| evaluation = found.clone();
    let evaluated = evaluate(&run, &snapshot, Some(episodes), arguments.of.seed, &[None], &mut keep);
    let written = evaluated.and_then(|()| {
        let command = command(&run.identity, label_of(&run.folder).and_then(|label| label.file).as_deref());
        let numbers = run.export(&arguments.folder, &manifest, &snapshot, &command)?;
        let observation = run.config.environment(0)?.observation().len();
        let about = About { evaluation: &evaluation, seed: arguments.of.seed, command: &command, numbers, observation };
        let card = card(&run, &manifest, &arguments.folder, &about);
        runtime::disk::write_synced(&arguments.folder.join("README.md"), card.as_bytes())
    });
    if let Err(error) = written {
        out.error(&error.to_string(), &help_for(&error, &run.sources));
        return Exit::Bad;
    }
    if arguments.of.json {
        let returns: Vec<serde_json::Value> = evaluation.returns.iter().copied().map(number).collect();
        let folder = arguments.folder.display().to_string();
        out.say(format!("{}\n", serde_json::json!({ "folder": folder, "mean": number(evaluation.mean()), "returns": returns })));
        return Exit::Fine;
    }
    let gained = Figure::of(evaluation.returns.iter().copied()).map_or_else(String::new, |figure| figure.to_string());
    out.say(format!("{}: return {gained} over {episodes} episodes\n", arguments.folder.display()));
    Exit::Fine
}

/// What a card says beside what the run knows.
struct About<'a> {
    evaluation: &'a Evaluation,
    /// What the episodes of the evaluation started from.
    seed: u64,
    command: &'a str,
    /// How many numbers the folder keeps.
    numbers: usize,
    /// Numbers of an observation.
    observation: usize,
}

/// `README.md` of an exported model. It names no place on this machine.
fn card(run: &Run, manifest: &Manifest, folder: &Path, about: &About<'_>) -> String {
    let About { evaluation, command, numbers, .. } = about;
    let identity = &run.identity;
    let place = match folder.is_absolute() {
        true => folder.file_name().map_or_else(|| "DIR".into(), |name| name.to_string_lossy().into_owned()),
        false => folder.display().to_string(),
    };
    let returns = &evaluation.returns;
    let (least, most) = returns.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    let gained = Figure::of(returns.iter().copied()).map_or_else(String::new, |figure| figure.to_string());
    let trained = match manifest.counters.evaluations.last() {
        Some(last) => format!("{:.1} over {} episodes, after {} decisions", last.mean(), last.returns.len(), last.step),
        None => "none".into(),
    };
    let mut commits: Vec<&str> = run.starts.iter().map(|start| start.commit.as_str()).collect();
    commits.dedup();
    let step = manifest.counters.step;
    let until = if step < run.config.train.steps { format!(" --until {step}") } else { String::new() };
    let obs = vec!["0"; about.observation].join(",");
    format!(
        "# {model} on {task}\n\n\
         A trained model. `wmc export` wrote this folder; commands open it like a run.\n\n\
         | | |\n|---|---|\n\
         | model | `{model}` of `model/{file}` |\n\
         | task | `{task}`, protocol `{protocol}` |\n\
         | seed | {seed} |\n\
         | decisions | {step} of {of} |\n\
         | return | {gained} over {n} episodes (± is the standard deviation of an episode), from {least:.1} to {most:.1} |\n\
         | last evaluation of the training | {trained} |\n\
         | numbers | {numbers} |\n\
         | hours of training | {hours:.2} |\n\
         | commit | {commits} |\n\n\
         Use it:\n\n\
         ```sh\n\
         wmc eval {place} --episodes {n} --seed {episodes_seed}\n\
         wmc plan {place} --obs {obs}\n\
         ```\n\n\
         The command that trained it:\n\n\
         ```sh\n{command}{until}\n```\n\n\
         The folder has what acting needs: parameters, slow copies and running statistics. It has no replay and no state\n\
         of an optimiser, so its training cannot go on. Another one can start from it:\n\n\
         ```sh\n\
         {command} --from {place}/checkpoints/{step:012}/learnt.safetensors\n\
         ```\n",
        model = identity.model,
        task = identity.task,
        file = identity.file,
        protocol = identity.protocol(),
        seed = identity.seed,
        of = run.config.train.steps,
        n = returns.len(),
        hours = manifest.seconds / 3600.0,
        commits = commits.join(", "),
        episodes_seed = about.seed,
    )
}
