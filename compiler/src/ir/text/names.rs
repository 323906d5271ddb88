//! Names of axes, inputs and draws as the text form writes them.

use std::collections::HashMap;

/// What each thing of one kind is called in the text, by its number.
pub(super) struct Names(Vec<String>);

impl Names {
    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Names {
        let mut count: HashMap<&str, usize> = HashMap::new();
        names.clone().for_each(|n| *count.entry(n).or_default() += 1);
        let written = names.enumerate().map(|(i, n)| match count[n] {
            1 => word(n),
            _ => format!("{}#{i}", word(n)),
        });
        Names(written.collect())
    }

    pub(super) fn get(&self, index: usize) -> String {
        self.0.get(index).cloned().unwrap_or_else(|| format!("#{index}"))
    }
}

/// The name itself if it is a word, else quoted.
pub(crate) fn word(name: &str) -> String {
    let mut chars = name.chars();
    if chars.next().is_some_and(starts_word) && chars.all(continues_word) { name.to_string() } else { format!("{name:?}") }
}

pub(super) fn starts_word(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

pub(super) fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '\'')
}
