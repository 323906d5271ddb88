//! Many models, compared.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::compare::{Outcome, compare};
use crate::constructs::constructs;

/// What came of a batch of models.
#[derive(Debug, Default)]
pub struct Tally {
    pub models: usize,
    pub agree: usize,
    pub tensors: usize,
    /// Refused models by the first code.
    pub refused: BTreeMap<String, usize>,
    /// Seeds with the text and what is wrong: numbers, internal errors, gaps of the oracle.
    pub wrong: Vec<(u64, String, Outcome)>,
    /// How many models that run use each construct.
    pub constructs: BTreeMap<&'static str, usize>,
}

impl Tally {
    pub fn refusals(&self) -> usize {
        self.refused.values().sum()
    }

    fn add(&mut self, seed: u64, text: String, outcome: Outcome, found: BTreeSet<&'static str>) {
        self.models += 1;
        match outcome {
            Outcome::Refused(codes) => {
                let code = codes.first().map_or_else(String::new, |c| c.chars().take(5).collect());
                *self.refused.entry(code).or_default() += 1;
                return;
            }
            Outcome::Agree(n) => {
                self.agree += 1;
                self.tensors += n;
            }
            other => self.wrong.push((seed, text, other)),
        }
        for name in found {
            *self.constructs.entry(name).or_default() += 1;
        }
    }
}

/// Compares the models of these seeds on two threads.
pub fn run(seeds: Range<u64>) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let work = || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let text = crate::generate::model(seed);
                    let (file, _) = dsl::parse::parse(dsl::source::FileId(0), &text);
                    let found = constructs(&file);
                    let outcome = compare(&text, seed);
                    if let Ok(mut tally) = tally.lock() {
                        tally.add(seed, text, outcome, found);
                    }
                }
            };
            let made = std::thread::Builder::new().stack_size(64 << 20).spawn_scoped(scope, work);
            made.expect("a thread starts");
        }
    });
    let mut tally = tally.into_inner().unwrap_or_default();
    tally.wrong.sort_by_key(|w| w.0);
    tally
}
