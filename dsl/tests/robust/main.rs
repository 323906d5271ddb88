//! The front end holds under any text: no panic, no overflow of the stack, no input that takes long.
//!
//! Two hundred thousand damaged texts go through the parser, many of them on through the checker, the formatter and the
//! renderer, on threads with a small stack; then come the shapes that grow ([`cases`]). Everything is seeded. An input
//! that fails is named by its number: `ROBUST_INPUT=1234 cargo test -p wmc-dsl --test robust -- --nocapture` runs it alone
//! and prints it.

mod cases;
#[path = "../fmt/generate.rs"]
#[expect(dead_code, reason = "the formatter's tests use the rest")]
mod generate;
mod mutate;
#[path = "../../../benches/processor.rs"]
mod processor;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mutate::Corpus;
use processor::cpu_time;
use wmc_dsl::diagnostics::{json, render};
use wmc_dsl::source::{FileId, Sources};
use wmc_dsl::{MapLoader, Options};

/// `ROBUST_INPUTS` asks for another number.
const INPUTS: u64 = 200_000;
/// The smallest stack that a thread has anywhere by default.
const STACK: usize = 2 << 20;
/// What no input may take of a processor: what the budget of the checker comes to in a debug build.
const LIMIT: Duration = Duration::from_secs(20);
/// When an input that takes no end is given up, with all that it takes with it.
const HANG: Duration = Duration::from_secs(300);

#[test]
fn damaged_texts() {
    let corpus = Corpus::new();
    if let Some(number) = std::env::var("ROBUST_INPUT").ok().and_then(|n| n.parse().ok()) {
        println!("{}", corpus.input(number));
        println!("{:?}", on_small_stack(|| timed(&corpus, number)));
        return;
    }
    let inputs = std::env::var("ROBUST_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(INPUTS);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let slowest = Mutex::new((Duration::ZERO, 0));
    let counts = [const { AtomicU64::new(0) }; 4];
    let busy: Vec<Mutex<Option<(u64, Instant)>>> = (0..workers).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for slot in &busy {
            let work = || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= inputs {
                        break *slot.lock().unwrap() = None;
                    }
                    *slot.lock().unwrap() = Some((number, Instant::now()));
                    match timed(&corpus, number) {
                        Ok((time, done)) => {
                            if time > LIMIT {
                                failures.lock().unwrap().push(format!("input {number} takes {time:?}"));
                            }
                            let mut slowest = slowest.lock().unwrap();
                            *slowest = (*slowest).max((time, number));
                            for (count, done) in counts.iter().zip(done) {
                                count.fetch_add(u64::from(done), Ordering::Relaxed);
                            }
                        }
                        Err(message) => failures.lock().unwrap().push(format!("input {number} panics: {message}")),
                    }
                }
            };
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).unwrap();
        }
        while next.load(Ordering::Relaxed) < inputs || busy.iter().any(|slot| slot.lock().unwrap().is_some()) {
            std::thread::sleep(Duration::from_millis(100));
            for (number, since) in busy.iter().filter_map(|slot| *slot.lock().unwrap()) {
                if since.elapsed() > HANG {
                    eprintln!("input {number} takes no end:\n{}", corpus.input(number));
                    std::process::exit(1);
                }
            }
        }
    });
    let [parsed, checked, clean, formatted] = counts.map(AtomicU64::into_inner);
    let (time, number) = slowest.into_inner().unwrap();
    println!("{parsed} texts: {checked} checked ({clean} with a model), {formatted} formatted");
    println!("slowest: input {number}, {time:?}");
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {parsed}:\n{}", failures.len(), failures.join("\n"));
    assert!(parsed == inputs && checked >= inputs / 5 && formatted >= inputs / 5);
}

/// How long an input took, and what was done with it: parsed, checked, found to be a model, formatted.
fn timed(corpus: &Corpus, number: u64) -> Result<(Duration, [bool; 4]), String> {
    let text = corpus.input(number);
    let start = cpu_time();
    let done = catch_unwind(AssertUnwindSafe(|| run(corpus, number, &text))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        text.unwrap_or("something that is no text").to_string()
    })?;
    Ok((cpu_time() - start, done))
}

fn run(corpus: &Corpus, number: u64, text: &str) -> [bool; 4] {
    let mut sources = Sources::default();
    let file = sources.add("damaged.wm", text, false);
    let (_, diagnostics) = wmc_dsl::parse::parse(file, text);
    let reads = diagnostics.is_empty();
    for d in diagnostics.iter().filter(|_| !number.is_multiple_of(4)) {
        json(&sources, d);
    }
    match number / 16 % 4 {
        0 | 2 => {
            let mut loader = MapLoader::default();
            loader.0.insert("tasks".into(), include_str!("../../../models/tasks.wm").into());
            loader.0.insert("hamworld_s6".into(), include_str!("../../../models/hamworld_s6.wm").into());
            loader.0.insert("itself".into(), text.into());
            loader.0.insert("other".into(), format!("use itself\nuse tasks::dmc\n{}", corpus.input(number ^ 1)));
            let dims = if number.is_multiple_of(3) { vec![("O".to_string(), 5), ("A".to_string(), 2)] } else { Vec::new() };
            let checked = wmc_dsl::check("damaged.wm", text, &loader, &Options { dims, ..Options::default() });
            for d in &checked.diagnostics {
                render(&checked.sources, d, number.is_multiple_of(5));
            }
            [true, true, !checked.models.is_empty(), false]
        }
        1 => {
            let once = wmc_dsl::fmt::format(text);
            let reads_again = wmc_dsl::parse::parse(FileId(0), &once).1.is_empty();
            assert!(!reads || reads_again, "what was formatted can no longer be read:\n{once}");
            if reads {
                assert_eq!(wmc_dsl::fmt::format(&once), once, "formatting twice is not formatting once");
            }
            [true, false, false, true]
        }
        _ => [true, false, false, false],
    }
}

/// Runs on a thread of its own with a small stack.
fn on_small_stack<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, f).unwrap();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
