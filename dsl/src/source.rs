//! Source texts and places in them.
//!
//! A [`Span`] is a byte range of one file of a [`Sources`]. Spans are small and copied freely;
//! everything that can be reported carries one.

use serde::{Deserialize, Serialize};

/// Index of a file in [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct FileId(pub u32);

/// A byte range of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
pub struct Span {
    pub file: FileId,
    pub lo: u32,
    pub hi: u32,
}

impl Span {
    pub fn new(file: FileId, lo: usize, hi: usize) -> Span {
        Span { file, lo: lo as u32, hi: hi as u32 }
    }

    /// The smallest span that covers both; `self` where they lie in different files.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    pub fn contains(self, other: Span) -> bool {
        self.file == other.file && self.lo <= other.lo && other.hi <= self.hi
    }

    pub fn range(self) -> std::ops::Range<usize> {
        self.lo as usize..self.hi as usize
    }
}

/// One text that was read, with the name that a person knows it by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub name: String,
    pub text: String,
    /// Part of the prelude: never the place where a user can mend something.
    pub prelude: bool,
}

/// All files of one check, in the order in which they were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Sources {
    pub files: Vec<File>,
}

/// Line and column, both counted from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LineCol {
    pub line: u32,
    pub column: u32,
}

impl Sources {
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<String>, prelude: bool) -> FileId {
        self.files.push(File { name: name.into(), text: text.into(), prelude });
        FileId(self.files.len() as u32 - 1)
    }

    pub fn file(&self, id: FileId) -> &File {
        &self.files[id.0 as usize]
    }

    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).text.get(span.range()).unwrap_or("")
    }

    pub fn line_col(&self, file: FileId, offset: u32) -> LineCol {
        let text = &self.file(file).text;
        let mut end = (offset as usize).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        LineCol {
            line: before.bytes().filter(|&b| b == b'\n').count() as u32 + 1,
            column: before[start..].chars().count() as u32 + 1,
        }
    }
}
