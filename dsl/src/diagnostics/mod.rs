//! Diagnostics: a code, a message, labelled spans, notes and helps.

mod codes;
mod render;

use serde::{Deserialize, Serialize};

pub use codes::{CODES, Code, Example, Explanation, TINY};
pub use render::{Json, json, render};

use crate::source::Span;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub message: String,
    /// Where it is; the text says what is wrong just there.
    pub primary: Label,
    pub secondary: Vec<Label>,
    pub notes: Vec<String>,
    pub helps: Vec<String>,
}

impl Diagnostic {
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            message: message.into(),
            primary: Label { span, text: String::new() },
            secondary: Vec::new(),
            notes: Vec::new(),
            helps: Vec::new(),
        }
    }

    /// The words under the caret.
    pub fn here(mut self, text: impl Into<String>) -> Diagnostic {
        self.primary.text = text.into();
        self
    }

    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.secondary.push(Label { span, text: text.into() });
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Diagnostic {
        self.notes.push(text.into());
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.helps.push(text.into());
        self
    }

    /// Help for when nothing better was found.
    pub fn or_help(self, text: impl Into<String>) -> Diagnostic {
        if self.helps.is_empty() { self.help(text) } else { self }
    }

    /// "did you mean", where one of the known words is close.
    pub fn suggest<'a>(self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        match closest(word, known) {
            Some(best) => self.help(format!("did you mean `{best}`?")),
            None => self,
        }
    }

    pub fn severity(&self) -> Severity {
        self.code.severity()
    }

    pub fn is_error(&self) -> bool {
        self.severity() == Severity::Error
    }
}

/// Words that are compared with a mistaken one, so that a hundred mistakes among many names take no time.
const MAX_KNOWN: usize = 10_000;

/// The known word nearest to `word`, if it is near enough to be a slip of the hand. Of a single letter only the case
/// can be one: any letter is as near to any other.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = match word.chars().count() {
        1 => 0,
        n => (n / 3).max(1),
    };
    let folded: Vec<char> = word.chars().flat_map(char::to_lowercase).collect();
    known
        .into_iter()
        .take(MAX_KNOWN)
        // The distance is at least the difference of the lengths.
        .filter(|k| !k.is_empty() && *k != word && k.chars().count().abs_diff(folded.len()) <= limit)
        .map(|k| (distance(&folded, k), k))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, k)| (*d, k.len(), *k))
        .map(|(_, k)| k)
}

/// Edit distance with neighbouring letters swapped counted as one.
fn distance(a: &[char], b: &str) -> usize {
    let b: Vec<char> = b.chars().flat_map(char::to_lowercase).collect();
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + same);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}
