//! The standing fuzzer from `check` to `mega`: mutants of every `.wm` file of the project, reference against kernels.
//!
//! What checks clean must lower, fuse and verify without an internal error, and compute what the reference computes. A mutant
//! is a pure function of its number: `DIFFER_MODEL=1234 cargo test -p wmc-compiler --test differ one -- --ignored --nocapture`
//! runs one and prints it; `DIFFER_FILE=x.wm` runs every entry point of a text of your own. `DIFFER_MODELS`, `DIFFER_FROM` and `DIFFER_SECONDS` bound the long run.

mod corpus;
mod judge;
mod mutate;
#[path = "../support/mod.rs"]
mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corpus::{Loader, Texts};
use judge::{Count, judge, judge_entry};
use wmc_compiler::testing::Rng;

/// The sizes of a task.
const DIMS: [(&str, u64); 2] = [("O", 3), ("A", 2)];

fn options(text: &str) -> dsl::Options {
    let has = |name: &str| text.contains(&format!("[{name}]"));
    let dims = DIMS.iter().filter(|(name, _)| has(name) || text.contains("extends"));
    dsl::Options { dims: dims.map(|(n, s)| (n.to_string(), *s)).collect(), ..dsl::Options::default() }
}

/// Mutant `number`: its text, and what is wrong with it.
fn mutant(texts: &Texts, number: u64, count: &mut Count) -> (String, Vec<String>) {
    let mut rng = Rng::new(number);
    let names: Vec<&String> = texts.keys().filter(|n| texts[*n].contains("model ")).collect();
    let name = names[rng.below(names.len())];
    let seed = &texts[name];
    let models = dsl::check(&format!("{name}.wm"), seed, &Loader(texts), &options(seed)).models;
    let mut text = mutate::mutate(&mut rng, seed, &models);
    let mut options = options(&text);
    if let Some((dim, size)) = mutate::size(&mut rng, &models) {
        text += &format!("// --dim {dim}={size}\n");
        options.dims.retain(|(name, _)| *name != dim);
        options.dims.push((dim, size));
    }
    let checked = dsl::check(&format!("{name}.wm"), &text, &Loader(texts), &options);
    count.texts += 1;
    let mut wrong = Vec::new();
    if checked.diagnostics.iter().any(|d| d.is_error()) || checked.models.is_empty() {
        return (text, wrong);
    }
    count.clean += 1;
    let model = &checked.models[rng.below(checked.models.len())];
    judge(model, &mut rng, count, &mut wrong);
    (text, wrong)
}

/// Mutants `from..to` on some threads, until the time is up. The smallest that is wrong comes first.
fn run(from: u64, to: u64, seconds: u64, threads: usize) -> (Count, Vec<(u64, String, Vec<String>)>) {
    let texts = corpus::texts();
    let (next, start) = (AtomicU64::new(from), Instant::now());
    let work = || {
        let (mut count, mut wrong) = (Count::default(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= to || start.elapsed() > Duration::from_secs(seconds) {
                return (count, wrong);
            }
            let outcome = std::panic::catch_unwind(|| {
                let mut own = Count::default();
                let found = mutant(&texts, number, &mut own);
                (own, found)
            });
            match outcome {
                Ok((own, (text, found))) => {
                    count.add(&own);
                    if !found.is_empty() {
                        eprintln!("      model {number}: {}", found.join("; "));
                        wrong.push((number, text, found));
                    }
                }
                Err(_) => wrong.push((number, String::new(), vec!["a panic".to_string()])),
            }
            if number % 1000 == 999 {
                eprintln!("      {} models, {:.0} s", number + 1 - from, start.elapsed().as_secs_f64());
            }
        }
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let build = || std::thread::Builder::new().stack_size(16 << 20).spawn_scoped(scope, work).expect("a thread");
        let handles: Vec<_> = (0..threads).map(|_| build()).collect();
        handles.into_iter().map(|h| h.join().expect("a worker")).collect()
    });
    let (mut count, mut wrong) = (Count::default(), Vec::new());
    for (own, found) in parts {
        count.add(&own);
        wrong.extend(found);
    }
    wrong.sort_by_key(|(_, text, _)| text.len());
    (count, wrong)
}

fn report(count: &Count, wrong: &[(u64, String, Vec<String>)]) {
    eprintln!("      {count:?}");
    let told: Vec<String> = wrong.iter().map(|(n, _, found)| format!("model {n}: {}", found.join("; "))).collect();
    if let Some((number, text, _)) = wrong.first() {
        panic!("{} models are wrong\n{}\n---- model {number}\n{text}", wrong.len(), told.join("\n"));
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn three_hundred() {
    let (count, wrong) = run(0, 300, 600, 2);
    report(&count, &wrong);
    // A generator that produces nothing to compare would pass for ever.
    assert!(count.texts == 300 && count.clean >= 60 && count.compared >= 40, "{count:?}");
}

/// Every model in which the fuzzer once found a fault, at all entry points. They are also seeds of mutants.
#[test]
fn found_before() {
    let texts = corpus::texts();
    let files = std::fs::read_dir(support::project("compiler/tests/differ/found")).expect("the folder");
    let (mut count, mut wrong, mut models) = (Count::default(), Vec::new(), 0);
    for path in files.map(|f| f.expect("a file").path()) {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let checked = dsl::check("found.wm", &text, &Loader(&texts), &options(&text));
        assert!(!checked.has_errors(), "{}: {:?}", path.display(), checked.diagnostics);
        for (model, entry) in checked.models.iter().flat_map(|m| wmc_compiler::lower::Entry::ALL.map(|e| (m, e))) {
            (0..4).for_each(|seed| judge_entry(model, entry, &mut Rng::new(seed), &mut count, &mut wrong));
        }
        models += checked.models.len();
    }
    assert!(wrong.is_empty() && models > 0 && count.compared >= 4 * models, "{count:?} {wrong:#?}");
}

/// `cargo xtask verify differ`
#[test]
#[ignore = "hours: 100,000 models"]
fn many() {
    let from = number("DIFFER_FROM", 300);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let (count, wrong) = run(from, from + number("DIFFER_MODELS", 100_000), number("DIFFER_SECONDS", 6 * 3600), threads);
    report(&count, &wrong);
}

#[test]
#[ignore = "shows one model"]
fn one() {
    let (mut count, texts) = (Count::default(), corpus::texts());
    if let Ok(path) = std::env::var("DIFFER_FILE") {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let checked = dsl::check(&path, &text, &Loader(&texts), &options(&text));
        checked.diagnostics.iter().for_each(|d| eprintln!("{}", dsl::diagnostics::render(&checked.sources, d, false)));
        for entry in wmc_compiler::lower::Entry::ALL {
            let mut wrong = Vec::new();
            for (model, seed) in checked.models.iter().flat_map(|m| (0..32).map(move |seed| (m, seed))) {
                judge_entry(model, entry, &mut Rng::new(seed), &mut count, &mut wrong);
            }
            eprintln!("{}: {wrong:#?}", entry.name());
        }
        return eprintln!("{count:?}");
    }
    let (text, wrong) = mutant(&texts, number("DIFFER_MODEL", 0), &mut count);
    eprintln!("{text}\n{count:?}\n{wrong:#?}");
}
