//! `wmc plan`: actions of a trained model, for one observation or for a stream of them.

use std::io::{BufRead, Read};
use std::path::Path;

use runtime::Error;
use runtime::policy::Policy;
use runtime::program::Compute;
use serde::Deserialize;

use crate::cli::Plan;
use crate::commands::{help_for, newest, one_model, open_run};
use crate::output::{Exit, Output};
use crate::weights::{self, Source};

/// The longest line in bytes, enough for an observation of half a million numbers.
const LONGEST: u64 = 16 << 20;

/// A line of the stream.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Seen {
    Numbers(Vec<f64>),
    Marked {
        obs: Vec<f64>,
        /// An episode starts here.
        #[serde(default)]
        first: bool,
        /// What followed from the action before.
        reward: Option<f64>,
        #[serde(default)]
        terminal: bool,
    },
}

pub(crate) fn run(arguments: &Plan, out: &mut Output) -> Exit {
    if !arguments.of.is_empty() && (arguments.params.is_none() || arguments.run.is_dir()) {
        let help = "a `.wm` file decides with `--params FILE.safetensors`; a run has a model and sizes of its own";
        out.error("`--model`, `--task`, `--dim`, `--protocol` and `--root` are for a `.wm` file with `--params`", help);
        return Exit::Bad;
    }
    let policy = match (&arguments.artefact, &arguments.params) {
        (Some(artefact), _) => compiled(artefact, arguments, out),
        (_, Some(params)) => of_file(params, arguments, out),
        _ => of_run(arguments, out),
    };
    let Some(mut policy) = policy else { return Exit::Bad };
    if !arguments.stream {
        return match policy.plan(&arguments.obs) {
            Ok(action) => {
                out.say(format!("{}\n", serde_json::Value::from(action)));
                Exit::Fine
            }
            Err(error) => {
                let (error, help) = failed(&policy, &error);
                out.error(&error, &help);
                Exit::Bad
            }
        };
    }
    stream(&mut policy, &mut std::io::stdin().lock(), out)
}

/// Answers every line of a stream, with an action or with an error. The model remembers what it saw before a line that failed.
fn stream(policy: &mut Policy, input: &mut impl BufRead, out: &mut Output) -> Exit {
    let mut exit = Exit::Fine;
    let mut line = Vec::new();
    for number in 1.. {
        let answer = match next_line(input, &mut line) {
            Ok(Line::End) => break,
            Ok(Line::Whole) if line.trim_ascii().is_empty() => continue,
            Ok(Line::Whole) => answer(policy, &line),
            Ok(Line::TooLong) => {
                Err((format!("it has more than {LONGEST} bytes"), "give one JSON array of numbers a line".to_string()))
            }
            Err(error) => {
                out.error(&format!("cannot read line {number}: {error}"), "give one JSON array of numbers a line");
                return Exit::Bad;
            }
        };
        match answer {
            Ok(action) => out.say(format!("{}\n", serde_json::Value::from(action))),
            Err((error, help)) => {
                let told = format!("line {number}: {error}");
                out.say(format!("{}\n", serde_json::json!({ "error": told })));
                out.error(&told, &help);
                exit = Exit::Bad;
            }
        }
        // Somebody waits for it.
        out.flush();
    }
    exit
}

enum Line {
    Whole,
    /// Skipped up to its end.
    TooLong,
    End,
}

/// Reads a line of at most [`LONGEST`] bytes, without its end.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<Line> {
    line.clear();
    let read = input.by_ref().take(LONGEST + 1).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(Line::Whole);
    }
    if read as u64 <= LONGEST {
        return Ok(if read == 0 { Line::End } else { Line::Whole });
    }
    line.clear();
    input.skip_until(b'\n')?;
    Ok(Line::TooLong)
}

/// The action for a line, or what is wrong with it and what helps.
fn answer(policy: &mut Policy, line: &[u8]) -> Result<Vec<f64>, (String, String)> {
    let (obs, first, followed) = match serde_json::from_slice(line) {
        Ok(Seen::Numbers(obs)) => (obs, false, None),
        Ok(Seen::Marked { obs, first, reward, terminal }) => (obs, first, reward.map(|r| (r, terminal))),
        Err(_) => {
            let help = "write [0.1, -1, 0] or {\"obs\": [0.1, -1, 0], \"first\": true}";
            let shown: String = String::from_utf8_lossy(line).chars().take(80).collect();
            return Err((format!("this is no observation: {shown}"), help.to_string()));
        }
    };
    if let Some((reward, terminal)) = followed {
        policy.outcome(reward, terminal).map_err(|e| failed(policy, &e))?;
    }
    if first {
        policy.reset().map_err(|e| failed(policy, &e))?;
    }
    policy.plan(&obs).map_err(|e| failed(policy, &e))
}

fn failed(policy: &Policy, error: &Error) -> (String, String) {
    let help = match error {
        Error::Untold => "write {\"obs\": [..], \"reward\": 0.5}: what the action before was rewarded with".to_string(),
        Error::RewardNotFinite(_) => "give the reward of the action before".to_string(),
        Error::Observation { .. } | Error::ObservationNotFinite(_) => {
            format!("an observation of this model has {} finite numbers", policy.observation_size())
        }
        Error::NotFinite { .. } => "the model gives no action for this observation; its memory is as before".to_string(),
        _ => "the device failed: try it again, or `--device cpu`".to_string(),
    };
    (error.to_string(), help)
}

/// From the folder of a run. Returns `None` after reporting the error.
fn of_run(arguments: &Plan, out: &mut Output) -> Option<Policy> {
    let mut run = open_run(&arguments.run, out)?;
    run.config.compute.device = arguments.place.choose(out)?;
    let (manifest, snapshot) = newest(&run, out)?;
    let progress = manifest.counters.step as f64 / run.config.train.steps as f64;
    let policy = Policy::new(&run.config.model, &snapshot.learnt, progress, run.config.seed, run.config.compute);
    policy.map_err(|error| out.error(&error.to_string(), &help_for(&error, &run.sources))).ok()
}

/// From a model, or that of a run, and the parameters of a file. Returns `None` after reporting the error.
fn of_file(params: &Path, arguments: &Plan, out: &mut Output) -> Option<Policy> {
    let compute = Compute { device: arguments.place.choose(out)?, ..Compute::default() };
    let (model, sources) = if arguments.run.is_dir() {
        let run = open_run(&arguments.run, out)?;
        (run.config.model, run.sources)
    } else {
        let (checked, model) = one_model(&arguments.run, &arguments.of, out)?;
        (model, checked.sources)
    };
    let from = Source { file: params, map: arguments.map.as_deref(), keep_initial: false };
    let weights = weights::read(&model, arguments.seed, from);
    let weights = weights
        .map_err(|error| {
            out.error(&error, "`wmc show FILE --params` lists the model's parameters; `--map` names those of the file")
        })
        .ok()?;
    weights.notes.iter().for_each(|note| out.tell(format!("note: {note}\n")));
    let policy = Policy::new(&model, &weights.state, arguments.progress, arguments.seed, compute);
    policy.map_err(|error| out.error(&error.to_string(), &help_for(&error, &sources))).ok()
}

/// From an artefact and a checkpoint. Returns `None` after reporting the error.
fn compiled(artefact: &Path, arguments: &Plan, out: &mut Output) -> Option<Policy> {
    let compute = Compute { device: arguments.place.choose(out)?, ..Compute::default() };
    let policy = Policy::load(artefact, &arguments.run, arguments.seed, compute);
    let help = |error: &Error| match error {
        Error::Compiled { target: Some(target), .. } => format!("compile it with `--target {target}` as well"),
        Error::Compiled { .. } => "compile it without `--batch` and `--entry`".to_string(),
        _ => "give what `wmc compile` wrote for the text, task and sizes of the run, and a folder of its `checkpoints`".into(),
    };
    policy.map_err(|error| out.error(&error.to_string(), &help(&error))).ok()
}
