//! Describes the tokens that the grammar expected, in words. It never shows the name of a rule.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use pest::Parser;

use super::{Grammar, Rule};
use crate::lex;

/// Where the grammar stops in a text that it does not take, and what would have let it go on.
#[derive(Debug, Default)]
pub(super) struct Stop {
    pub at: usize,
    pub expected: Vec<String>,
}

/// Reads a text again, this time noting every token that is tried.
pub(super) fn stop(rule: Rule, text: &str) -> Stop {
    // The switch is one for all threads: only one at a time may turn it.
    static DETAIL: Mutex<()> = Mutex::new(());
    let guard = DETAIL.lock().unwrap_or_else(PoisonError::into_inner);
    pest::set_error_detail(true);
    let parsed = Grammar::parse(rule, text);
    pest::set_error_detail(false);
    drop(guard);
    let Some(attempts) = parsed.err().and_then(|error| error.parse_attempts()) else { return Stop::default() };
    Stop { at: attempts.max_position, expected: words(attempts.expected_tokens().iter().map(ToString::to_string)) }
}

/// `a, b or c`.
pub(super) fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [init @ .., last] => format!("{} or {last}", init.join(", ")),
    }
}

/// What may stand somewhere, gathered from the tokens that were tried there.
#[derive(Default)]
struct Tried {
    words: BTreeSet<String>,
    signs: BTreeSet<String>,
    letter: bool,
    digit: bool,
}

impl Tried {
    /// Tokens as pest writes them: literals as they are, ranges as `a..z`.
    fn new(tokens: impl Iterator<Item = String>) -> Tried {
        let mut tried = Tried::default();
        for token in tokens {
            match token.as_str() {
                "0..9" => tried.digit = true,
                "a..z" | "A..Z" => tried.letter = true,
                "_" | "'" | " " | "BUILTIN_RULE" => {}
                // Words have a space behind them, and reserved ones a mark before.
                text => {
                    let (set, text) = match text.strip_suffix(' ') {
                        Some(word) => (&mut tried.words, word.trim_start_matches('\'')),
                        None => (&mut tried.signs, text),
                    };
                    set.insert(text.to_string());
                }
            }
        }
        tried
    }

    fn has_words(&self, words: &[&str]) -> bool {
        words.iter().all(|word| self.words.contains(*word))
    }

    fn without_words(&mut self, words: &[&str]) {
        self.words.retain(|word| !words.contains(&word.as_str()));
    }

    fn without_signs(&mut self, signs: &[&str]) {
        self.signs.retain(|sign| !signs.contains(&sign.as_str()));
    }
}

const OPERATORS: [&str; 16] = ["+", "*", "-", "/", "^", "@", "<=", "<", ">=", ">", "==", "!=", "..=", "..", "&&", "||"];
const CLAUSES: [&str; 4] = ["with", "for", "where", "reset"];
const STATEMENTS: [&str; 6] = ["let", "next", "return", "stack", "require", "param"];

/// A few words for the tokens that were tried; what must stand there says more than what may.
fn words(tokens: impl Iterator<Item = String>) -> Vec<String> {
    let mut tried = Tried::new(tokens);
    let (mut needed, mut possible): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let after_value = tried.signs.contains("+");
    if after_value {
        // What would only make the expression longer.
        if tried.signs.contains(".") {
            tried.without_signs(&["{", "->"]);
        }
        tried.without_signs(&OPERATORS);
        tried.without_signs(&["%", ".", "[", "("]);
    }
    if tried.digit && tried.signs.contains("(") {
        needed.push("an expression".to_string());
        tried.without_signs(&["(", "[", "{", "-", "!", "\""]);
        tried.without_words(&["if", "next", "rollout", "memory", "slow"]);
        (tried.digit, tried.letter) = (false, false);
    }
    if tried.has_words(&["dim", "net", "loss", "equation"]) {
        needed.push("what to drop (`net`, `loss`, `fn`, ..)".to_string());
        tried.words.clear();
    }
    let declaration = tried.has_words(&["dim", "net", "loss"]);
    let statement = tried.has_words(&["let", "return"]);
    if declaration {
        possible.push("a declaration".to_string());
        tried.without_words(&lex::MEMBER_WORDS);
    }
    if tried.has_words(&["use", "model"]) {
        possible.push("an item (`model`, `block`, `fn`, `dist`, `use`, ..)".to_string());
        tried.without_words(&lex::ITEM_WORDS);
    }
    if statement {
        possible.push("a statement".to_string());
        tried.without_words(&STATEMENTS);
    }
    if tried.has_words(&CLAUSES) {
        possible.push("a clause (`with`, `for`, `where`, `reset`)".to_string());
        tried.without_words(&CLAUSES);
    }
    let body = tried.signs.contains("}") && (tried.letter || statement);
    if body && !declaration && !statement {
        possible.push("an equation".to_string());
    }
    if body {
        tried.without_signs(&["}"]);
        possible.insert(0, "`}`".to_string());
    }
    if tried.letter && !body && !declaration {
        if tried.signs.contains("[") && tried.signs.contains("{") {
            needed.push("an output: a shape, a latent or a distribution".to_string());
            tried.without_signs(&["[", "{"]);
        } else if tried.signs.contains("[") {
            needed.push("a shape such as `[Q, A]`".to_string());
            tried.without_signs(&["["]);
        } else {
            needed.push("a name".to_string());
        }
    }
    if tried.digit {
        needed.push("a percentage".to_string());
    }
    if tried.signs.len() == 1 && tried.signs.contains("[") && tried.words.is_empty() {
        needed.push("a shape such as `[Q, A]`".to_string());
        tried.signs.clear();
    }
    if tried.signs.contains("\"") {
        needed.push("a text in quotes".to_string());
        tried.without_signs(&["\""]);
    }
    // An ensemble's axis may stand before the parameters, which must.
    if tried.signs.contains("(") {
        tried.without_signs(&["["]);
    }
    needed.extend(tried.signs.iter().chain(&tried.words).map(|sign| format!("`{sign}`")));
    if needed.is_empty() { possible } else { needed }
}
