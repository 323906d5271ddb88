//! Places in the text as ranges of lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dsl::source::{FileId, Sources, Span};
use serde::Serialize;

/// Lines of one file, the last included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Lines {
    pub(crate) file: String,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from == self.to {
            true => write!(f, "{}:{}", self.file, self.from),
            false => write!(f, "{}:{}-{}", self.file, self.from, self.to),
        }
    }
}

/// The texts that operations come from.
#[derive(Debug)]
pub(crate) struct Origins<'a> {
    sources: &'a Sources,
    /// Where each line of each file starts.
    starts: Vec<Vec<u32>>,
    /// The name of the file that was asked about.
    own: &'a str,
}

impl<'a> Origins<'a> {
    pub(crate) fn new(sources: &'a Sources, own: &'a str) -> Origins<'a> {
        let starts = |text: &str| std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i as u32 + 1)).collect();
        Origins { sources, starts: sources.files.iter().map(|f| starts(&f.text)).collect(), own }
    }

    /// The lines on which the spans start, neighbours joined: those of the own file first, those of the prelude last.
    pub(crate) fn lines(&self, spans: impl IntoIterator<Item = Span>) -> Vec<Lines> {
        let mut lines: BTreeMap<(bool, bool, FileId), BTreeSet<u32>> = BTreeMap::new();
        for span in spans.into_iter().filter(|s| s.lo < s.hi) {
            let file = self.sources.file(span.file);
            let line = self.starts[span.file.0 as usize].partition_point(|start| *start <= span.lo) as u32;
            lines.entry((file.prelude, file.name != self.own, span.file)).or_default().insert(line);
        }
        let mut ranges: Vec<Lines> = Vec::new();
        for ((_, _, id), lines) in lines {
            let file = &self.sources.file(id).name;
            for line in lines {
                match ranges.last_mut() {
                    Some(last) if last.file == *file && last.to + 1 == line => last.to = line,
                    _ => ranges.push(Lines { file: file.clone(), from: line, to: line }),
                }
            }
        }
        ranges
    }
}

/// Ranges as one text, each file named once: `a.wm:3-5, 9, layers.wm:12`.
pub(crate) fn joined(ranges: &[Lines]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        let text = range.to_string();
        let same = i > 0 && ranges[i - 1].file == range.file;
        parts.push(if same { text[range.file.len() + 1..].to_string() } else { text });
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_joined_and_the_own_file_is_first() {
        let mut sources = Sources::default();
        let prelude = sources.add("prelude/layers.wm", "a\nb\nc\n", true);
        let other = sources.add("tasks.wm", "a\nb\n", false);
        let own = sources.add("x.wm", "one\ntwo\nthree\nfour\nfive\nsix\n", false);
        let origins = Origins::new(&sources, "x.wm");
        let at = |file, lo| Span::new(file, lo, lo + 1);
        let spans = [at(prelude, 2), at(own, 24), at(own, 4), at(own, 0), at(other, 0), at(own, 5), Span::default()];
        let lines = origins.lines(spans);
        assert_eq!(joined(&lines), "x.wm:1-2, 6, tasks.wm:1, prelude/layers.wm:2");
        assert_eq!(joined(&[]), "");
    }
}
