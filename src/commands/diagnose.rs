//! `wmc diagnose`: what a trained model does with its energy.

use std::collections::{BTreeMap, BTreeSet};

use runtime::Error;
use runtime::diagnose::{Actions, Diagnostics, Trace};
use runtime::run::Run;
use runtime::tasks::{Perturbation, TaskError};
use runtime::train::Snapshot;
use serde::Serialize;

use crate::cli::Diagnose;
use crate::commands::report::draw;
use crate::commands::{help_for, newest, open_episodes};
use crate::diagnose::energy::{self, Coupling, Drift, Pushed};
use crate::diagnose::stability::{self, Stability};
use crate::diagnose::{drawn, single, slices};
use crate::output::{Exit, Output};
use crate::results::figures::Figure;

/// What was found. Drifts are those of the model's energy and of the simulator's own.
#[derive(Debug, Serialize)]
struct Document {
    model: String,
    task: String,
    step: u64,
    episodes: u64,
    without_action: Pair,
    random_action: Pair,
    policy: Pair,
    /// Kinds of episodes that there are no figures of, and why.
    left_out: BTreeMap<String, String>,
    /// Means of all values that are one number, by name and kind of episodes.
    means: BTreeMap<String, BTreeMap<String, f64>>,
    /// Of the policy's steps; null where the model has no `push`.
    coupling: Option<Coupling>,
    /// By kind of episodes: what the model's step changes the energy by, and how far it pulls states apart.
    stability: BTreeMap<String, Stability>,
    /// Files beside this one, and what they show.
    figures: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
struct Pair {
    model: Option<Drift>,
    simulator: Option<Drift>,
}

/// Kinds of episodes: two of free motion, and the task as it is.
const KINDS: [&str; 3] = ["no action", "random actions", "policy"];

/// Of each kind, where nobody says how many.
const EPISODES: u64 = 10;

pub(crate) fn run(arguments: &Diagnose, out: &mut Output) -> Exit {
    let Some(run) = open_episodes(&arguments.of, out) else { return Exit::Bad };
    let Some((_, snapshot)) = newest(&run, out) else { return Exit::Bad };
    let (document, figures) = match diagnose(&run, &snapshot, arguments) {
        Ok(found) => found,
        Err(error) => {
            out.error(&error.to_string(), &help_for(&error, &run.sources));
            return Exit::Bad;
        }
    };
    // A record of texts and numbers always has a JSON form.
    let json = serde_json::to_string_pretty(&document).expect("a diagnosis as JSON") + "\n";
    let folder = arguments.out.clone().unwrap_or_else(|| run.folder.join("diagnosis"));
    let path = folder.join("diagnosis.json");
    let written = draw(&folder, &figures)
        .and_then(|()| std::fs::write(&path, &json).map_err(|e| format!("cannot write `{}`: {e}", path.display())));
    if let Err(error) = written {
        out.error(&error, "choose another folder with `--out`");
        return Exit::Bad;
    }
    out.say(if arguments.of.json { json } else { document.table() + &format!("{}\n", folder.display()) });
    Exit::Fine
}

fn diagnose(run: &Run, snapshot: &Snapshot, arguments: &Diagnose) -> Result<(Document, Vec<Figure>), Error> {
    let mut config = run.config.clone();
    config.seed = arguments.of.seed;
    let progress = snapshot.counters.step as f64 / config.train.steps as f64;
    let mut diagnostics = Diagnostics::new(&config, &snapshot.learnt, progress)?;
    let free = [Perturbation::Kick(arguments.kick), Perturbation::Damping(0.0)];
    let episodes = arguments.of.episodes.unwrap_or(EPISODES);
    let mut left_out = BTreeMap::new();
    let mut traces = |kind: &str, actions, changes| match diagnostics.traces(actions, changes, episodes) {
        // Without damping a task's own method may be too coarse for what actions drive it to.
        Err(Error::Task(reason @ (TaskError::NotFinite { .. } | TaskError::Diverged { .. }))) if !changes.is_empty() => {
            left_out.insert(kind.to_string(), reason.to_string());
            Ok(Vec::new())
        }
        found => found,
    };
    let nobody = traces(KINDS[0], Actions::Nobody, &free[..])?;
    let random = traces(KINDS[1], Actions::Random, &free[..])?;
    let policy = traces(KINDS[2], Actions::Policy, &[])?;
    if energies(&policy).is_empty() {
        return Err(Error::Unsupported("`diagnose` of the model names no `energy` that is one number".into()));
    }
    let pair = |traces: &[Trace]| Pair { model: energy::drift(&energies(traces)), simulator: energy::drift(&simulated(traces)) };
    let steps = pushed(&policy);
    let coupling = (!steps.is_empty()).then(|| energy::coupling(&steps));

    let groups: [(&str, &[Trace]); 3] = [(KINDS[0], &nobody), (KINDS[1], &random), (KINDS[2], &policy)];
    let of = |f: fn(&[Trace]) -> Vec<Vec<f64>>| groups.map(|(name, traces)| (name, f(traces)));
    let kicked =
        format!("joints kicked within ±{}, no damping; means over episodes and bands from the least to the most", arguments.kick);
    let mut figures = vec![
        drawn::over_time("energy", "energy", &format!("The model's energy: {kicked}."), &of(energies)[..2]),
        drawn::over_time("simulator", "energy", &format!("The simulator's own energy: {kicked}."), &of(simulated)[..2]),
        drawn::over_time(
            "energy-policy",
            "energy",
            "The model's energy along episodes of the policy, on the task as it is.",
            &of(energies)[2..],
        ),
    ];
    figures.extend(policy.first().and_then(|trace| drawn::traces(trace, &["q", "p"])));
    figures.extend(drawn::first_coordinates(&nobody, &["q", "p"], &format!("The first coordinates without action: {kicked}.")));
    figures.extend(slices::slices(&mut diagnostics, &policy)?);
    let names: BTreeSet<String> = policy.iter().flat_map(|t| t.values.keys().cloned()).collect();
    // Of what is the model's state; of all values where it does not say what that is.
    let state: BTreeSet<String> = diagnostics.state().into_iter().map(|(name, _)| name).collect();
    let embedded = if state.is_empty() { &names } else { &state };
    figures.extend(embedded.iter().filter_map(|name| drawn::embedding(name, &groups)));
    let mut means = BTreeMap::new();
    for name in names {
        let found = groups.map(|(kind, traces)| (kind, traces.iter().filter_map(|t| single(t, &name)).collect::<Vec<_>>()));
        let mean = |(kind, all): &(&str, Vec<Vec<f64>>)| Some((kind.to_string(), energy::mean(all.iter().flatten().copied())?));
        let by_kind: BTreeMap<String, f64> = found.iter().filter_map(mean).collect();
        if by_kind.is_empty() {
            continue;
        }
        // Those of the energy's balance have figures of their own.
        if name != "energy" && !stability::TERMS.contains(&name.as_str()) {
            figures.push(drawn::over_time(&format!("value-{name}"), &name, &format!("{name}: {kicked}."), &found));
        }
        means.insert(name, by_kind);
    }
    let mut stability = BTreeMap::new();
    let mut stretched = Vec::new();
    for (kind, file, traces) in [(KINDS[0], "free", &nobody), (KINDS[2], "policy", &policy)] {
        figures.extend(drawn::terms(file, kind, traces));
        let expansion = traces.first().map_or(Ok(None), |trace| diagnostics.expansion(trace))?;
        stability.extend(stability::stability(traces, expansion.as_ref()).map(|found| (kind.to_string(), found)));
        stretched.extend(expansion.map(|found| (kind, found)));
    }
    figures.extend(drawn::expansion(&stretched));
    figures.extend(coupling.as_ref().and_then(drawn::crossings));
    let document = Document {
        model: run.identity.model.clone(),
        task: run.identity.task.clone(),
        step: snapshot.counters.step,
        episodes,
        without_action: pair(&nobody),
        random_action: pair(&random),
        policy: pair(&policy),
        left_out,
        means,
        coupling,
        stability,
        figures: figures.iter().map(|f| (format!("{}.svg", f.name), f.caption.clone())).collect(),
    };
    Ok((document, figures))
}

fn energies(traces: &[Trace]) -> Vec<Vec<f64>> {
    traces.iter().filter_map(|t| single(t, "energy")).collect()
}

fn simulated(traces: &[Trace]) -> Vec<Vec<f64>> {
    traces.iter().map(|t| t.energy.clone()).filter(|e| !e.is_empty()).collect()
}

fn pushed(traces: &[Trace]) -> Vec<Pushed> {
    let mut steps = Vec::new();
    for trace in traces {
        let (Some(energy), Some(push)) = (single(trace, "energy"), single(trace, "push")) else { continue };
        steps.extend(energy.windows(2).zip(push).map(|(h, push)| Pushed { before: h[0], after: h[1], push }));
    }
    steps
}

impl Document {
    fn table(&self) -> String {
        let shown = |drift: Option<Drift>| {
            let part = |x: f64| format!(" ({:.2} % of |H(0)|)", 100.0 * x);
            drift.map_or("-".to_string(), |d| format!("{:.4}{}", d.absolute, d.relative.map_or_else(String::new, part)))
        };
        let mut text =
            format!("{} on {} at step {}, {} episodes: mean of |H(t) - H(0)|\n", self.model, self.task, self.step, self.episodes);
        for (name, pair) in KINDS.into_iter().zip([&self.without_action, &self.random_action, &self.policy]) {
            text += &format!("  {name:14}  model {:28}  simulator {}\n", shown(pair.model), shown(pair.simulator));
        }
        for (kind, why) in &self.left_out {
            text += &format!("left out: {kind}: {why}\n");
        }
        for (name, kinds) in self.means.iter().filter(|(name, _)| *name != "energy") {
            let shown: Vec<String> = kinds.iter().map(|(kind, x)| format!("{kind} {x:.4}")).collect();
            text += &format!("mean {name}: {}\n", shown.join(", "));
        }
        for (kind, found) in &self.stability {
            let terms: Vec<String> =
                stability::TERMS.iter().filter_map(|t| Some(format!("{t} {:.5}", found.terms.get(*t)?))).collect();
            if !terms.is_empty() {
                text += &format!("a step changes the energy by, {kind}: {}\n", terms.join(", "));
            }
            if let Some(e) = &found.expansion {
                text += &format!(
                    "a step pulls states apart by, {kind}: {:.3} at most on average, {:.3} along the episode\n",
                    e.largest, e.along
                );
            }
        }
        if let Some(coupling) = &self.coupling {
            let number = |x: Option<f64>| x.map_or("-".to_string(), |x| format!("{x:.3}"));
            text += &format!("corr(sign dH, push) {}, corr(|dH|, |push|) {}\n", number(coupling.sign), number(coupling.size));
            text += &format!("crossings: lift area {}, best lift {}\n", number(coupling.lift_area), number(coupling.best_lift));
        }
        text
    }
}
