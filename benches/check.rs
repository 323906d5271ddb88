//! What checking costs: generated models of 100, 1,000 and 10,000 equations, and the command itself.
//!
//! `cargo bench --bench check` prints what the processor spends on a run, the least of several batches, and the ratio to the model
//! a tenth as long, and ends with exit code 1 where a tenfold model costs more than 12 times as much. Without `--bench`
//! (as in `cargo test --benches`) it only runs the two smaller models once.

mod generate;
mod processor;

use std::hint::black_box;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use dsl::source::FileId;
use dsl::{NoLoader, Options};
use processor::cpu_time;

const SIZES: [usize; 3] = [100, 1_000, 10_000];
const LIMIT: f64 = 12.0;
/// A ratio to less than this says nothing.
const TOO_SHORT: Duration = Duration::from_micros(100);

/// A stage of the front end.
type Stage = (&'static str, fn(&str));

fn main() -> ExitCode {
    let measured = std::env::args().any(|word| word == "--bench");
    let sizes = if measured { &SIZES[..] } else { &SIZES[..2] };
    let texts: Vec<String> = sizes.iter().map(|n| generate::model(*n)).collect();

    let stages: [Stage; 3] = [("parse", parse), ("check", check), ("fmt", fmt)];
    let mut linear = true;
    for (name, stage) in stages {
        let times = least(measured, &texts, stage);
        for (i, time) in times.iter().enumerate() {
            let each = time.as_nanos() / sizes[i] as u128;
            let mut line = format!("{name:5}  {:>6} equations  {:>9.3} ms  {each:>6} ns each", sizes[i], millis(*time));
            if i > 0 {
                let ratio = time.as_secs_f64() / times[i - 1].as_secs_f64();
                linear &= ratio <= LIMIT || times[i - 1] < TOO_SHORT;
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

fn parse(text: &str) {
    black_box(dsl::parse::parse(FileId(0), text));
}

fn check(text: &str) {
    let checked = dsl::check("generated.wm", text, &NoLoader, &Options::default());
    if let Some(error) = checked.diagnostics.iter().find(|d| d.is_error()) {
        panic!("{}", dsl::diagnostics::render(&checked.sources, error, false));
    }
    black_box(checked);
}

fn fmt(text: &str) {
    black_box(dsl::fmt::format(text));
}

/// The command on a whole model against a command that does nothing.
fn process() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/hamworld.wm");
    let run = |words: &[&str]| {
        const RUNS: u32 = 100;
        let before = (children_time(), Instant::now());
        for _ in 0..RUNS {
            let status = Command::new(env!("CARGO_BIN_EXE_wmc")).args(words).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|s| s.success()), "wmc {words:?}");
        }
        let counted = children_time().zip(before.0).map(|(after, before)| after - before);
        let time = counted.unwrap_or_else(|| before.1.elapsed()) / RUNS;
        println!("wmc {:32} {:>9.3} ms", words.join(" ").replace(concat!(env!("CARGO_MANIFEST_DIR"), "/"), ""), millis(time));
    };
    run(&["--version"]);
    run(&["check", model]);
}

/// What a run on each text has of the processor, the least of several batches. The clock would count what else the machine
/// does, and the mean what that does to the caches; the texts take turns, so that all have their share of quiet moments.
fn least(measured: bool, texts: &[String], stage: fn(&str)) -> Vec<Duration> {
    let (rounds, long) = if measured { (12, Duration::from_millis(60)) } else { (1, Duration::ZERO) };
    let mut least = vec![Duration::MAX; texts.len()];
    for _ in 0..rounds {
        for (least, text) in least.iter_mut().zip(texts) {
            *least = batch(long, || stage(text)).min(*least);
        }
    }
    least
}

/// The mean of runs one after the other. The system counts in ticks of some milliseconds, so a batch takes many of them.
fn batch(long: Duration, run: impl Fn()) -> Duration {
    let start = cpu_time();
    let mut runs = 0;
    while runs == 0 || cpu_time() - start < long {
        run();
        runs += 1;
    }
    (cpu_time() - start) / runs
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
