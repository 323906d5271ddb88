//! Turns: in every round each variant runs for a moment, and the machine's limits are measured, so that what slows the
//! machine down for a while slows all of them down.

use std::path::Path;
use std::time::Instant;

use compiler::kernel::cost::Cost;
use runtime::device::Device;
use runtime::program::Compute;

use super::case::Case;
use super::others::Used;
use super::peak::{self, Peak};
use super::peers::{Peer, PeerError, Peers};
use super::ready::{self, Ready};
use super::report::{Kind, Limits, Measured, Variant};
use super::stats::{Spread, median};
use super::subject::Subject;
use super::{levels, most, peers, threads};
use crate::cli::Bench;
use crate::output::Output;

/// How long a turn should be, in milliseconds.
const TURN: f64 = 60.0;
const MOST_CALLS: f64 = 2_000.0;
/// A round counts as quiet where others kept less than this part of a processor busy.
const QUIET: f64 = 0.25;
/// How many rounds `--quiet` tries for each that it wants.
const TRIES: u32 = 4;

enum Runner {
    Own(Box<Ready>),
    Peer(Peer),
}

impl Runner {
    fn times(&mut self, n: usize) -> Result<Vec<f64>, PeerError> {
        match self {
            Runner::Own(ready) => Ok(ready.times(n)?),
            Runner::Peer(peer) => peer.times(n),
        }
    }

    fn process(&self) -> Option<u32> {
        match self {
            Runner::Own(_) => None,
            Runner::Peer(peer) => Some(peer.process()),
        }
    }
}

struct Entrant {
    runner: Runner,
    variant: Variant,
    calls: usize,
}

/// The matrix product of the peers' library.
struct Library {
    peer: Peer,
    /// Of a call, in billions.
    gflop: f64,
    rates: Vec<f64>,
}

/// Measures a case on a device, and says what computed it; returns `None` after reporting the error.
pub(crate) fn measure(subject: Subject, arguments: &Bench, device: Device, out: &mut Output) -> Option<(Measured, String)> {
    let (_, most_threads) = most(arguments);
    let model = subject.model.name.clone();
    // Peers are those of the user's model, whatever the case.
    let named = match (&arguments.file, subject.case.text()) {
        (Some(_), Some(_)) => Subject::new(Case::Plan, arguments, out)?.model.name,
        _ => model.clone(),
    };
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            out.error(&format!("cannot make a temporary folder: {error}"), "free some space");
            return None;
        }
    };
    let peers_of = arguments.python.as_ref().filter(|_| !peers(arguments).is_empty()).map(|python| Peers {
        python,
        scripts: &arguments.peers,
        model: &named,
        threads: most_threads,
        device,
        folder: folder.path(),
    });
    let exported = folder.path().join("inputs.safetensors");
    let subject = match (&peers_of, &arguments.params) {
        (Some(peers), _) => {
            if let Err(error) = peers.export(subject.case, &exported) {
                out.error(&format!("the peers' inputs: {error}"), "see benches/peers/README.md");
                return None;
            }
            subject.with_inputs(&exported, None, true, out)?
        }
        (None, Some(path)) => subject.with_inputs(path, arguments.map.as_deref(), true, out)?,
        (None, None) => subject,
    };

    let mut measured = Measured {
        case: subject.case.name(),
        model,
        gflop: 0.0,
        mexp: 0.0,
        rounds: 0,
        others: None,
        limits: Vec::new(),
        variants: Vec::new(),
        failed: Vec::new(),
    };
    let mut set = String::new();
    let mut entrants = own(&subject, arguments, device, &mut set, out)?;
    let base = entrants.len().saturating_sub(1);
    entrants.extend(doubled(&subject, arguments, device, out)?);
    let mut library = None;
    if let Some(peers) = &peers_of {
        entrants.extend(started_peers(peers, subject.case, arguments, &exported, &mut measured, out));
        library = peers.start_library(&super::peers(arguments)).ok().flatten().map(|(peer, greeting)| Library {
            peer,
            gflop: greeting.value.first().copied().unwrap_or(0.0),
            rates: Vec::new(),
        });
    }
    let cost = entrants[base].variant.cost.unwrap_or_default();
    (measured.gflop, measured.mexp) = (cost.products as f64 / 1e9, cost.transcendental as f64 / 1e6);
    turns(&mut entrants, library, arguments, device, &mut measured, out);
    measured.variants = entrants.into_iter().map(|e| e.variant).collect();
    measured.compare(base);
    Some((measured, set))
}

/// The peers that came up; why others did not is noted.
fn started_peers(
    peers: &Peers<'_>,
    case: Case,
    arguments: &Bench,
    inputs: &Path,
    measured: &mut Measured,
    out: &mut Output,
) -> Vec<Entrant> {
    let mut entrants = Vec::new();
    for name in super::peers(arguments) {
        match peers.start(case, &name, inputs) {
            Ok((peer, greeting)) => {
                out.tell(format!("  {name}: ready after {:.1} s\n", greeting.first_call_s));
                let variant = started(&name, Kind::Peer, peers.threads, greeting.first_call_s, greeting.value, None);
                entrants.push(Entrant { runner: Runner::Peer(peer), variant, calls: 1 });
            }
            Err(error) => {
                out.tell(format!("  {name}: {error}\n"));
                measured.failed.push((name.clone(), error.to_string()));
            }
        }
    }
    entrants
}

/// The rounds. A peer that dies in one of them is out.
fn turns(
    entrants: &mut Vec<Entrant>,
    mut library: Option<Library>,
    arguments: &Bench,
    device: Device,
    measured: &mut Measured,
    out: &mut Output,
) {
    // The limits are the processor's.
    let counts = if device == Device::Cpu { threads(arguments) } else { Vec::new() };
    let mut peaks: Vec<Vec<Peak>> = vec![Vec::new(); counts.len()];
    let mut others: Vec<Option<f64>> = Vec::new();
    warm_up(entrants, measured);
    let tries = arguments.rounds * if arguments.quiet { TRIES } else { 1 };
    for _ in 0..tries {
        let counted = if arguments.quiet { others.iter().filter(|o| is_quiet(o)).count() } else { others.len() };
        out.tell(format!("\r  round {counted}/{}", arguments.rounds));
        if counted >= arguments.rounds as usize {
            break;
        }
        let processes: Vec<u32> =
            entrants.iter().filter_map(|e| e.runner.process()).chain(library.iter().map(|l| l.peer.process())).collect();
        let (start, used) = (Instant::now(), Used::now(processes.iter().copied()));
        for (threads, peaks) in counts.iter().zip(&mut peaks) {
            peaks.push(peak::measure(*threads));
        }
        if let Some(library) = &mut library {
            let ms = library.peer.times(3).map_or(f64::INFINITY, |times| median(&times));
            library.rates.push(library.gflop / ms * 1e3);
        }
        entrants.retain_mut(|entrant| match entrant.runner.times(entrant.calls) {
            Ok(times) => {
                entrant.variant.samples.push(median(&times));
                true
            }
            Err(error) => {
                measured.failed.push((entrant.variant.name.clone(), error.to_string()));
                false
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        let end = Used::now(processes);
        others.push(end.zip(used).map(|(end, start)| end.others_since(start, seconds)));
    }
    out.tell("\n");
    // Where no round was quiet, all count, and the note below says how busy the others were.
    let any = others.iter().any(is_quiet);
    let kept: Vec<bool> = others.iter().map(|o| !(arguments.quiet && any) || is_quiet(o)).collect();
    let shares: Vec<f64> = chosen(&others, &kept).into_iter().flatten().collect();
    measured.rounds = kept.iter().filter(|k| **k).count();
    measured.others = (!shares.is_empty()).then(|| median(&shares));
    for entrant in entrants.iter_mut() {
        entrant.variant.samples = chosen(&entrant.variant.samples, &kept);
        entrant.variant.ms = Spread::of(&entrant.variant.samples);
    }
    measured.limits = counts.iter().zip(&peaks).map(|(threads, peaks)| limits(*threads, &chosen(peaks, &kept))).collect();
    // The library runs with as many threads as the peers.
    if let (Some(library), Some(most)) = (library, measured.limits.iter_mut().max_by_key(|l| l.threads)) {
        most.library = Some(Spread::of(&chosen(&library.rates, &kept)));
    }
}

fn is_quiet(others: &Option<f64>) -> bool {
    others.is_none_or(|share| share <= QUIET)
}

fn chosen<T: Clone>(all: &[T], kept: &[bool]) -> Vec<T> {
    all.iter().zip(kept).filter(|(_, kept)| **kept).map(|(x, _)| x.clone()).collect()
}

/// Two calls of each, which say how many fill a turn.
fn warm_up(entrants: &mut Vec<Entrant>, measured: &mut Measured) {
    entrants.retain_mut(|entrant| match entrant.runner.times(2) {
        Ok(times) => {
            let fastest = times.iter().copied().fold(f64::INFINITY, f64::min).max(1e-6);
            entrant.calls = (TURN / fastest).clamp(1.0, MOST_CALLS) as usize;
            true
        }
        Err(error) => {
            measured.failed.push((entrant.variant.name.clone(), error.to_string()));
            false
        }
    });
}

fn limits(threads: usize, peaks: &[Peak]) -> Limits {
    let all = |f: fn(&Peak) -> f64| peaks.iter().map(f).collect::<Vec<f64>>();
    let fma = all(|p| p.fma);
    Limits {
        threads,
        fma: Spread::of(&fma),
        sgemm: Spread::of(&all(|p| p.sgemm)),
        library: None,
        exp: Spread::of(&all(|p| p.exp)),
        fma_samples: fma,
    }
}

fn started(name: &str, kind: Kind, threads: usize, first_s: f64, value: Vec<f64>, cost: Option<Cost>) -> Variant {
    Variant {
        name: name.into(),
        kind,
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
fn own(subject: &Subject, arguments: &Bench, device: Device, set: &mut String, out: &mut Output) -> Option<Vec<Entrant>> {
    let (mut levels, counts) = (levels(arguments), if device == Device::Cpu { threads(arguments) } else { vec![1] });
    let (level, _) = most(arguments);
    levels.sort_by_key(|l| *l == level);
    let mut entrants = Vec::new();
    for level in levels {
        for threads in &counts {
            let name = match counts.len() {
                1 => level.name().to_string(),
                _ => format!("{} x{threads}", level.name()),
            };
            let compute = Compute { level, threads: *threads, device };
            let (entrant, computes_with) = entrant((&name, Kind::Own), subject, arguments.batch, compute, out)?;
            *set = computes_with;
            entrants.push(entrant);
        }
    }
    Some(entrants)
}

/// The highest level at twice and four times a size.
fn doubled(subject: &Subject, arguments: &Bench, device: Device, out: &mut Output) -> Option<Vec<Entrant>> {
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
            entrants.push(entrant((&label, Kind::Larger), &larger, count, Compute { level, threads, device }, out)?.0);
        }
    }
    Some(entrants)
}

fn entrant(
    (name, kind): (&str, Kind),
    subject: &Subject,
    batch: Option<usize>,
    compute: Compute,
    out: &mut Output,
) -> Option<(Entrant, String)> {
    match ready::ready(subject.case, &subject.model, batch, subject.given.as_ref(), compute) {
        Ok((ready, first)) => {
            let seconds = first.build + first.call;
            out.tell(format!("  {name}: ready after {seconds:.2} s\n"));
            let variant = started(name, kind, compute.threads, seconds, first.value, Some(first.cost));
            Some((Entrant { runner: Runner::Own(Box::new(ready)), variant, calls: 1 }, first.computes_with))
        }
        Err(error) => {
            out.error(&format!("{} of {}: {error}", subject.case.name(), subject.model.name), "see `wmc bench --help`");
            None
        }
    }
}
