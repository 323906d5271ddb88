//! Generated models in the reference interpreter, against the oracle.
//!
//! `ORACLE_SEED=7` prints the model of one seed and its outcome, with `ORACLE_SHRINK=1` made small first; `ORACLE_FILE=x.wm`
//! does the same for a text. `ORACLE_MODELS` and `ORACLE_FROM` choose other seeds.

use wmc_oracle::compare::{Outcome, compare};
use wmc_oracle::constructs::WANTED;
use wmc_oracle::run::{Tally, run};
use wmc_oracle::shrink::shrink;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Prints one model and what comes of it, if one is asked for.
fn one() -> bool {
    let seed = number("ORACLE_SEED");
    let given = std::env::var("ORACLE_FILE").ok().map(|f| std::fs::read_to_string(f).expect("a readable file"));
    if seed.is_none() && given.is_none() {
        return false;
    }
    let seed = seed.unwrap_or(1);
    let mut text = given.unwrap_or_else(|| wmc_oracle::generate::model(seed));
    if number("ORACLE_SHRINK").is_some() {
        text = shrink(&text, seed, 3000);
    }
    println!("{text}\n{:#?}", compare(&text, seed));
    true
}

/// Prints the figures, the smallest of the first few disagreements first, and fails if there are any.
fn judge(tally: &Tally) {
    println!("{} models, {} agree in {} tensors, refused: {:?}", tally.models, tally.agree, tally.tensors, tally.refused);
    for (name, n) in &tally.constructs {
        println!("{n:6} {name}");
    }
    let mut small: Vec<(u64, String)> =
        tally.wrong.iter().take(5).map(|(seed, text, _)| (*seed, shrink(text, *seed, 1500))).collect();
    small.sort_by_key(|(_, text)| text.len());
    for (seed, text) in &small {
        println!("\nORACLE_SEED={seed}, made small:\n{text}{:?}", compare(text, *seed));
    }
    for (seed, _, outcome) in &tally.wrong {
        let what = match outcome {
            Outcome::Wrong(w) => format!("{} differs by {:.1e}, {} tensors differ", w[0].name, w[0].apart, w.len()),
            Outcome::Broken(b) => b.chars().take(150).collect(),
            Outcome::Refused(_) | Outcome::Agree(_) => String::new(),
        };
        println!("ORACLE_SEED={seed}: {what}");
    }
    let seeds: Vec<u64> = tally.wrong.iter().map(|w| w.0).collect();
    assert!(seeds.is_empty(), "{} of {} models are wrong: seeds {seeds:?}", seeds.len(), tally.models);
    for name in WANTED {
        let n = tally.constructs.get(name).copied().unwrap_or(0);
        assert!(n * 50 >= tally.models, "`{name}` is in {n} of {} models only", tally.models);
    }
    assert!(tally.refusals() * 5 < tally.models, "{} of {} models are refused", tally.refusals(), tally.models);
}

#[test]
fn five_hundred_models() {
    if !one() {
        let from = number("ORACLE_FROM").unwrap_or(0);
        judge(&run(from..from + number("ORACLE_MODELS").unwrap_or(500)));
    }
}

/// `cargo xtask verify oracle`.
#[test]
#[ignore = "takes minutes"]
fn twenty_thousand_models() {
    judge(&run(0..20_000));
}
