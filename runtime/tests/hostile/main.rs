//! Mutants of kernel programs and of artefacts: each is refused, or runs inside of its own memory and comes to an end.
//!
//! A child process has guards around every array (`compiler::backend::cpu::guard`) and goes through one mutant after the
//! other. If it is ended by a signal, panics or does not go on, the mutant that it was at is a finding. Machine code of
//! maps and strip operations take turns, and so do guards behind and before the arrays.
//!
//! | variable | meaning |
//! |---|---|
//! | `HOSTILE_SECONDS` | how long each of the two kinds is tried, in seconds (5) |
//! | `HOSTILE_FROM` | the first mutant (0): every number is a mutant of its own |
//! | `HOSTILE_MUTANT` | `kernels:123` or `artefacts:123`: that one alone, in this process |

mod artefacts;
mod campaign;
mod kernels;
mod text;

use std::time::Duration;

use campaign::{Kind, campaign};
use compiler::rules::Rule;

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn mutants_stay_inside() {
    if let Some((kind, number)) = variable::<String>("HOSTILE_MUTANT").as_deref().and_then(|m| m.split_once(':')) {
        let kind = Kind::named(kind).expect("`kernels` or `artefacts`");
        println!("{:?}", kind.runner().mutant(number.parse().expect("a number")));
        return;
    }
    let time = Duration::from_secs(variable("HOSTILE_SECONDS").unwrap_or(5));
    let both = [Kind::Kernels, Kind::Artefacts].map(|kind| std::thread::spawn(move || (kind, campaign(kind, time, None))));
    for thread in both {
        let (kind, outcome) = thread.join().expect("a campaign does not panic");
        println!("{kind:?}: {outcome:?}");
        assert!(outcome.tried > 0 && outcome.ran > 0, "{kind:?}: {outcome:?}");
        if let Some(finding) = outcome.finding {
            panic!("{finding}");
        }
    }
}

/// The fuzzer is able to find: each rule that keeps a known crash away is left out, and the crash comes.
#[test]
fn a_missing_rule_is_found() {
    for (name, _) in Rule::ALL {
        let outcome = campaign(Kind::Kernels, Duration::from_secs(120), Some(name));
        let finding = outcome.finding.unwrap_or_else(|| panic!("without `{name}`, nothing in {} mutants", outcome.tried));
        println!("without `{name}`: {finding}");
        // A build with debug assertions notices the overflow before it is an address.
        assert!(finding.is_memory() || cfg!(debug_assertions), "without `{name}`: {finding}");
    }
}

/// What a campaign starts.
#[test]
#[ignore = "the other tests start it in a process of its own"]
fn child() {
    let Some(kind) = variable::<String>("HOSTILE_KIND").and_then(|k| Kind::named(&k)) else { return };
    if let Some(wanted) = variable::<String>("HOSTILE_WITHOUT") {
        Rule::ALL.iter().filter(|(name, _)| *name == wanted).for_each(|(_, rule)| rule.leave_out());
    }
    let time = Duration::from_secs_f64(variable("HOSTILE_TIME").expect("a time"));
    campaign::child(kind, variable("HOSTILE_FROM").unwrap_or(0), time);
}
