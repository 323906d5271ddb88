//! Turns: in every round each variant runs for a moment, and the machine's limits are measured, so that what slows the
//! machine down for a while slows all of them down.

use compiler::kernel::cost::Cost;

use super::case::Case;
use super::peak::{self, Peak};
use super::peers::{Peer, PeerError, Peers};
use super::ready::{self, Ready};
use super::report::{Limits, Measured, Variant};
use super::stats::{Spread, median};
use super::subject::Subject;
use super::{most, threads};
use crate::cli::Bench;
use crate::output::Output;

/// How long a turn should be, in milliseconds.
const TURN: f64 = 60.0;
const MOST_CALLS: f64 = 2_000.0;

enum Runner {
    Own(Box<Ready>),
    Peer(Peer),
}

impl Runner {
    fn times(&mut self, n: usize) -> Result<Vec<f64>, PeerError> {
        match self {
            Runner::Own(ready) => Ok(ready.times(n)),
            Runner::Peer(peer) => peer.times(n),
        }
    }
}

struct Entrant {
    runner: Runner,
    variant: Variant,
    calls: usize,
}

/// Measures a case, and says which instruction set ran it; none after what is wrong has been said.
pub(crate) fn measure(subject: Subject, arguments: &Bench, out: &mut Output) -> Option<(Measured, &'static str)> {
    let (_, most_threads) = most(arguments);
    let model = subject.model.name.clone();
    // Peers are those of the user's model, whatever the case.
    let named = match (&arguments.file, subject.case.text()) {
        (Some(_), Some(_)) => Subject::new(Case::Plan, arguments, out)?.model.name,
        _ => model.clone(),
    };
    let peers =
        arguments.python.as_ref().map(|python| Peers { python, scripts: &arguments.peers, model: &named, threads: most_threads });
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            out.error(&format!("cannot make a temporary folder: {error}"), "free some space");
            return None;
        }
    };
    let exported = folder.path().join("inputs.safetensors");
    let subject = match (&peers, &arguments.params) {
        (Some(peers), _) if !arguments.compare.is_empty() => {
            if let Err(error) = peers.export(subject.case, &exported) {
                out.error(&format!("the peers' inputs: {error}"), "see benches/peers/README.md");
                return None;
            }
            subject.with_inputs(&exported, None, true, out)?
        }
        (_, Some(path)) => subject.with_inputs(path, arguments.map.as_deref(), true, out)?,
        _ => subject,
    };

    let mut measured = Measured {
        case: subject.case.name(),
        model,
        gflop: 0.0,
        mexp: 0.0,
        limits: Vec::new(),
        variants: Vec::new(),
        failed: Vec::new(),
    };
    let mut set = "";
    let mut entrants = own(&subject, arguments, &mut set, out)?;
    let base = entrants.len().saturating_sub(1);
    entrants.extend(doubled(&subject, arguments, out)?);
    if let Some(peers) = &peers {
        for name in &arguments.compare {
            match peers.start(&subject.case.name(), name, &exported) {
                Ok((peer, greeting)) => {
                    out.tell(format!("  {name}: ready after {:.1} s\n", greeting.first_call_s));
                    let variant = started(name, false, most_threads, greeting.first_call_s, greeting.value, None);
                    entrants.push(Entrant { runner: Runner::Peer(peer), variant, calls: 1 });
                }
                Err(error) => {
                    out.tell(format!("  {name}: {error}\n"));
                    measured.failed.push((name.clone(), error.to_string()));
                }
            }
        }
    }
    let cost = entrants[base].variant.cost.unwrap_or_default();
    (measured.gflop, measured.mexp) = (cost.products as f64 / 1e9, cost.transcendental as f64 / 1e6);
    turns(&mut entrants, arguments, &mut measured, out);
    measured.variants = entrants.into_iter().map(|e| e.variant).collect();
    measured.compare(base);
    Some((measured, set))
}

/// The rounds. A peer that dies in one of them is out.
fn turns(entrants: &mut Vec<Entrant>, arguments: &Bench, measured: &mut Measured, out: &mut Output) {
    let counts = threads(arguments);
    let mut peaks: Vec<Vec<Peak>> = vec![Vec::new(); counts.len()];
    // Round zero warms up and says how many calls fill a turn.
    for round in 0..=arguments.rounds {
        out.tell(format!("\r  round {round}/{}", arguments.rounds));
        if round > 0 {
            for (threads, peaks) in counts.iter().zip(&mut peaks) {
                peaks.push(peak::measure(*threads));
            }
        }
        entrants.retain_mut(|entrant| match entrant.runner.times(entrant.calls.max(if round == 0 { 2 } else { 1 })) {
            Ok(times) if round == 0 => {
                let fastest = times.iter().copied().fold(f64::INFINITY, f64::min).max(1e-6);
                entrant.calls = (TURN / fastest).clamp(1.0, MOST_CALLS) as usize;
                true
            }
            Ok(times) => {
                entrant.variant.samples.push(median(&times));
                true
            }
            Err(error) => {
                measured.failed.push((entrant.variant.name.clone(), error.to_string()));
                false
            }
        });
    }
    out.tell("\n");
    for entrant in entrants.iter_mut() {
        entrant.variant.ms = Spread::of(&entrant.variant.samples);
    }
    measured.limits = counts.iter().zip(&peaks).map(|(threads, peaks)| Limits::of(*threads, peaks)).collect();
}

fn started(name: &str, own: bool, threads: usize, first_s: f64, value: Vec<f64>, cost: Option<Cost>) -> Variant {
    Variant {
        name: name.into(),
        own,
        threads,
        first_s,
        ms: Spread::default(),
        ratio: 1.0,
        differs: None,
        samples: Vec::new(),
        value,
        cost,
    }
}

/// Every level at every number of threads; the most of both comes last.
fn own(subject: &Subject, arguments: &Bench, set: &mut &'static str, out: &mut Output) -> Option<Vec<Entrant>> {
    let (mut levels, mut counts) = (arguments.levels.clone(), threads(arguments));
    let (level, most) = most(arguments);
    levels.sort_by_key(|l| *l == level);
    counts.sort_unstable();
    let mut entrants = Vec::new();
    for level in levels {
        for threads in &counts {
            let name = match counts.len() {
                1 => level.name().to_string(),
                _ => format!("{} x{threads}", level.name()),
            };
            let (entrant, instruction_set) = entrant(&name, subject, arguments.batch, level, *threads, out)?;
            *set = instruction_set;
            entrants.push(entrant);
        }
    }
    debug_assert!(entrants.last().is_some_and(|e| e.variant.threads == most));
    Some(entrants)
}

/// The highest level at twice and four times a size.
fn doubled(subject: &Subject, arguments: &Bench, out: &mut Output) -> Option<Vec<Entrant>> {
    let (level, threads) = most(arguments);
    let mut entrants = Vec::new();
    for name in &arguments.double {
        let batch = subject.is_batch(name);
        let own = if subject.case == Case::Plan && batch { Some(1) } else { subject.size(name) };
        let Some(size) = own.map(|own| arguments.batch.filter(|_| batch).map_or(own, |b| b as u64)) else {
            let names: Vec<&str> = subject.model.dims.iter().map(|d| d.name.as_str()).collect();
            out.error(&format!("{} has no size `{name}`", subject.model.name), &format!("its sizes: {}", names.join(", ")));
            return None;
        };
        for times in [2, 4] {
            let dims: &[(String, u64)] = if batch { &[] } else { &[(name.clone(), times * size)] };
            let larger = subject.resized(dims, out)?;
            let count = if batch { Some((times * size) as usize) } else { arguments.batch };
            let label = format!("{name} = {}", times * size);
            entrants.push(entrant(&label, &larger, count, level, threads, out)?.0);
        }
    }
    Some(entrants)
}

fn entrant(
    name: &str,
    subject: &Subject,
    batch: Option<usize>,
    level: compiler::kernel::fuse::Level,
    threads: usize,
    out: &mut Output,
) -> Option<(Entrant, &'static str)> {
    match ready::ready(subject.case, &subject.model, batch, subject.given.as_ref(), level, threads) {
        Ok((ready, first)) => {
            let seconds = first.build + first.call;
            out.tell(format!("  {name}: ready after {seconds:.2} s\n"));
            let variant = started(name, true, threads, seconds, first.value, Some(first.cost));
            Some((Entrant { runner: Runner::Own(Box::new(ready)), variant, calls: 1 }, first.instruction_set))
        }
        Err(error) => {
            out.error(&format!("{} of {}: {error}", subject.case.name(), subject.model.name), "see `wmc bench --help`");
            None
        }
    }
}
