//! `wmc plan`: actions of a trained model, for one observation or for a stream of them.

use std::io::BufRead;
use std::path::Path;

use runtime::Error;
use runtime::policy::Policy;
use runtime::program::Compute;
use serde::Deserialize;

use crate::cli::Plan;
use crate::commands::{help_for, newest, open_run};
use crate::output::{Exit, Output};

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
    let policy = match &arguments.artefact {
        Some(artefact) => compiled(artefact, arguments, out),
        None => of_run(arguments, out),
    };
    let Some(mut policy) = policy else { return Exit::Bad };
    if !arguments.stream {
        return decide(&mut policy, &arguments.obs, None, out);
    }
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let number = number + 1;
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                out.error(&format!("cannot read line {number}: {error}"), "give one JSON array of numbers a line");
                return Exit::Bad;
            }
        };
        if line.trim().is_empty() {
            continue;
        }
        let (obs, first, followed) = match serde_json::from_str(&line) {
            Ok(Seen::Numbers(obs)) => (obs, false, None),
            Ok(Seen::Marked { obs, first, reward, terminal }) => (obs, first, reward.map(|r| (r, terminal))),
            Err(_) => {
                let help = "write [0.1, -1, 0] or {\"obs\": [0.1, -1, 0], \"first\": true}";
                out.error(&format!("line {number} is no observation: {line}"), help);
                return Exit::Bad;
            }
        };
        let told = followed.map_or(Ok(()), |(reward, terminal)| policy.outcome(reward, terminal));
        if let Err(error) = told.and_then(|()| if first { policy.reset() } else { Ok(()) }) {
            let help = match error {
                Error::RewardNotFinite(_) => "give the reward of the action before",
                _ => "the device failed: try it again, or `--device cpu`",
            };
            out.error(&format!("line {number}: {error}"), help);
            return Exit::Bad;
        }
        if decide(&mut policy, &obs, Some(number), out) != Exit::Fine {
            return Exit::Bad;
        }
    }
    Exit::Fine
}

/// From the folder of a run. None after what is wrong has been said.
fn of_run(arguments: &Plan, out: &mut Output) -> Option<Policy> {
    let mut run = open_run(&arguments.run, out)?;
    run.config.compute.device = arguments.place.choose(out)?;
    let (manifest, snapshot) = newest(&run, out)?;
    let progress = manifest.counters.step as f64 / run.config.train.steps as f64;
    let policy = Policy::new(&run.config.model, &snapshot.learnt, progress, run.config.seed, run.config.compute);
    policy.map_err(|error| out.error(&error.to_string(), &help_for(&error, &run.sources))).ok()
}

/// From an artefact and a checkpoint. None after what is wrong has been said.
fn compiled(artefact: &Path, arguments: &Plan, out: &mut Output) -> Option<Policy> {
    let compute = Compute { device: arguments.place.choose(out)?, ..Compute::default() };
    let policy = Policy::load(artefact, &arguments.run, arguments.seed, compute);
    let help = "give what `wmc compile` wrote for the text, task and sizes of the run, and a folder of its `checkpoints`";
    policy.map_err(|error| out.error(&error.to_string(), help)).ok()
}

fn decide(policy: &mut Policy, obs: &[f64], line: Option<usize>, out: &mut Output) -> Exit {
    match policy.plan(obs) {
        Ok(action) => {
            out.say(format!("{}\n", serde_json::Value::from(action)));
            // Somebody waits for it.
            out.flush();
            Exit::Fine
        }
        Err(error) => {
            let place = line.map_or(String::new(), |n| format!("line {n}: "));
            let help = match error {
                Error::Untold => "write {\"obs\": [..], \"reward\": 0.5}: what the action before was rewarded with".to_string(),
                _ => format!("an observation of this model has {} numbers", policy.observation_size()),
            };
            out.error(&format!("{place}{error}"), &help);
            Exit::Bad
        }
    }
}
