//! Text to syntax tree. Never fails: it returns the tree of what could be read, and diagnostics.
//!
//! A text is parsed whole by the pest grammar. Where that fails, [`recover`] cuts it into items and
//! members by brackets and leading words, parses each alone and reports each that is wrong, so that
//! one mistake does not hide the next.

mod build;
mod expected;
mod limits;
mod recover;

use crate::ast;
use crate::diagnostics::{Code, Diagnostic};
use crate::source::{FileId, Span};

/// Largest text that is read; a model of 10,000 equations has about half a mebibyte.
pub const MAX_BYTES: usize = 4 << 20;

#[derive(pest_derive::Parser)]
#[grammar = "grammar.pest"]
pub(crate) struct Grammar;

/// Parses one file.
pub fn parse(file: FileId, text: &str) -> (ast::File, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    if text.len() > MAX_BYTES {
        let megabytes = text.len() as f64 / f64::from(1 << 20);
        diagnostics.push(
            Diagnostic::new(Code::FileTooLarge, Span::new(file, 0, 0), format!("this file has {megabytes:.1} MiB"))
                .help(format!("a `.wm` file may have at most {} MiB; split the model with `use`", MAX_BYTES >> 20)),
        );
        return (ast::File::default(), diagnostics);
    }
    if let Err(diagnostic) = limits::check(file, text) {
        diagnostics.push(*diagnostic);
        return (ast::File::default(), diagnostics);
    }
    // The generated parser recurses with the nesting that `limits` allows.
    let tree = stacker::maybe_grow(1 << 20, 16 << 20, || recover::file(file, text, &mut diagnostics));
    (tree, diagnostics)
}

/// Bytes of a file that is not UTF-8: the diagnostic for it, at the first bad byte.
pub fn not_utf8(file: FileId, valid_up_to: usize) -> Diagnostic {
    Diagnostic::new(Code::NotUtf8, Span::new(file, valid_up_to, valid_up_to), "this file is not UTF-8 text")
        .note(format!("the first byte that is not text stands at offset {valid_up_to}"))
        .help("save the file as UTF-8")
}
