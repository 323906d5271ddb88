//! What checking costs: generated models of 100, 1,000 and 10,000 equations, and the command itself.
//!
//! `cargo bench --bench check` prints what the processor spends on a run, the least of several batches, and the ratio to the model
//! a tenth as long, and ends with exit code 1 where a tenfold model costs more than 12 times as much. Without `--bench`
//! (as in `cargo test --benches`) it only runs the two smaller models once.

mod generate;
mod processor;

use std::any::Any;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use dsl::source::FileId;
use dsl::{NoLoader, Options};
use processor::cpu_time;

const SIZES: [usize; 3] = [100, 1_000, 10_000];
const LIMIT: f64 = 12.0;
/// A ratio to less than this says nothing: the system counts in ticks of some milliseconds.
const TOO_SHORT: Duration = Duration::from_micros(100);

/// A stage of the front end.
type Stage = (&'static str, fn(&str) -> Box<dyn Any>);

fn main() -> ExitCode {
    let measured = std::env::args().any(|word| word == "--bench");
    let sizes = if measured { &SIZES[..] } else { &SIZES[..2] };
    let texts: Vec<String> = sizes.iter().map(|n| generate::model(*n)).collect();

    // Parsing is a part of checking and shown for that; what people wait for is judged.
    let stages: [Stage; 3] = [("parse", parse), ("check", check), ("fmt", fmt)];
    let mut linear = true;
    for (name, stage) in stages {
        let times = least(measured, sizes, &texts, stage);
        for (i, time) in times.iter().enumerate() {
            let each = time.as_nanos() / sizes[i] as u128;
            let mut line = format!("{name:5}  {:>6} equations  {:>9.3} ms  {each:>6} ns each", sizes[i], millis(*time));
            if i > 0 {
                let ratio = time.as_secs_f64() / times[i - 1].as_secs_f64();
                linear &= name == "parse" || ratio <= LIMIT || times[i - 1] < TOO_SHORT;
                line += &format!("  {ratio:>5.1} x the one before");
            }
            println!("{line}");
        }
    }
    if !measured {
        return ExitCode::SUCCESS;
    }
    process();
    if linear {
        println!("at most {LIMIT} x for each tenfold: yes");
        ExitCode::SUCCESS
    } else {
        println!("at most {LIMIT} x for each tenfold: NO");
        ExitCode::FAILURE
    }
}

fn parse(text: &str) -> Box<dyn Any> {
    Box::new(dsl::parse::parse(FileId(0), text))
}

fn check(text: &str) -> Box<dyn Any> {
    let checked = dsl::check("generated.wm", text, &NoLoader, &Options::default());
    if let Some(error) = checked.diagnostics.iter().find(|d| d.is_error()) {
        panic!("{}", dsl::diagnostics::render(&checked.sources, error, false));
    }
    Box::new(checked)
}

fn fmt(text: &str) -> Box<dyn Any> {
    Box::new(dsl::fmt::format(text))
}

/// The command on a whole model against a command that does nothing: when it is asked the first time, and when nothing has
/// changed since.
fn process() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/hamworld_s6.wm");
    let kept = tempfile::tempdir().expect("a temporary folder");
    let run = |words: &[&str], cache: &Path| {
        const RUNS: u32 = 100;
        let before = (children_time(), Instant::now());
        for _ in 0..RUNS {
            let status =
                Command::new(env!("CARGO_BIN_EXE_wmc")).args(words).env("WMC_CACHE", cache).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|s| s.success()), "wmc {words:?}");
        }
        let counted = children_time().zip(before.0).map(|(after, before)| after - before);
        let time = counted.unwrap_or_else(|| before.1.elapsed()) / RUNS;
        let again = if cache.as_os_str().is_empty() { "" } else { "  (unchanged)" };
        println!(
            "wmc {:32} {:>9.3} ms{again}",
            words.join(" ").replace(concat!(env!("CARGO_MANIFEST_DIR"), "/"), ""),
            millis(time)
        );
    };
    let none = Path::new("");
    run(&["--version"], none);
    run(&["check", model], none);
    run(&["check", model], kept.path());
}

/// What a run on each text has of the processor, the least of several batches. The clock would count what else the machine
/// does, and the mean what that does to the caches; the texts take turns, so that all have their share of quiet moments.
///
/// A batch is as many equations in all, whatever the size of the models, and holds what comes out to its end: so no size is
/// better off for fitting into a cache, or into memory that the process has already.
fn least(measured: bool, sizes: &[usize], texts: &[String], stage: fn(&str) -> Box<dyn Any>) -> Vec<Duration> {
    let (rounds, equations) = if measured { (15, SIZES[SIZES.len() - 1]) } else { (1, 0) };
    let mut least = vec![Duration::MAX; texts.len()];
    for _ in 0..rounds {
        for ((least, text), size) in least.iter_mut().zip(texts).zip(sizes) {
            let runs = (equations / size).max(1);
            let start = cpu_time();
            let held: Vec<_> = (0..runs).map(|_| stage(text)).collect();
            let time = cpu_time() - start;
            drop(held);
            *least = (time / runs as u32).min(*least);
        }
    }
    least
}

/// The processor time of all commands that were run, in the ticks of a hundredth of a second that the system counts in.
fn children_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which may hold anything, the 16th and 17th of all fields.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(10 * ticks))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
