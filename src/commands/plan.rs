//! `wmc plan`: actions of a trained model, for one observation or for a stream of them.

use std::io::BufRead;

use runtime::policy::Policy;
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
    let Some(run) = open_run(&arguments.run, out) else { return Exit::Bad };
    let Some((manifest, snapshot)) = newest(&run, out) else { return Exit::Bad };
    let progress = manifest.counters.step as f64 / run.config.train.steps as f64;
    let policy = Policy::new(&run.config.model, &snapshot.learnt, progress, run.config.seed, run.config.compute);
    let mut policy = match policy {
        Ok(policy) => policy,
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &run.sources));
            return Exit::Bad;
        }
    };
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
        if let Some((reward, terminal)) = followed {
            policy.outcome(reward, terminal);
        }
        if first {
            policy.reset();
        }
        if decide(&mut policy, &obs, Some(number), out) != Exit::Fine {
            return Exit::Bad;
        }
    }
    Exit::Fine
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
            let help = format!("an observation of this model has {} numbers", policy.observation_size());
            out.error(&format!("{place}{error}"), &help);
            Exit::Bad
        }
    }
}
