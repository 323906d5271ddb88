//! Diagnostics as text for people and as records for editors.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use serde::Serialize;

use super::{Diagnostic, Severity};
use crate::source::{Sources, Span};

/// Renders one diagnostic the way rustc does, in colour or plain.
pub fn render(sources: &Sources, diagnostic: &Diagnostic, colour: bool) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let id = diagnostic.code.id();
    let title = level.primary_title(diagnostic.message.as_str()).id(id);

    let mut group = Group::with_title(title);
    let mut files = vec![diagnostic.primary.span.file];
    for label in &diagnostic.secondary {
        if !files.contains(&label.span.file) {
            files.push(label.span.file);
        }
    }
    for file in files {
        let Some(source) = sources.files.get(file.0 as usize) else { continue };
        let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str()).fold(true);
        if diagnostic.primary.span.file == file {
            let mut mark = AnnotationKind::Primary.span(clamp(&source.text, diagnostic.primary.span));
            if !diagnostic.primary.text.is_empty() {
                mark = mark.label(diagnostic.primary.text.as_str());
            }
            snippet = snippet.annotation(mark);
        }
        for label in diagnostic.secondary.iter().filter(|l| l.span.file == file) {
            snippet =
                snippet.annotation(AnnotationKind::Context.span(clamp(&source.text, label.span)).label(label.text.as_str()));
        }
        group = group.element(snippet);
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note.as_str()));
    }
    for help in &diagnostic.helps {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group]).to_string()
}

/// A range that the renderer accepts: inside the text and on character boundaries.
fn clamp(text: &str, span: Span) -> std::ops::Range<usize> {
    let floor = |mut i: usize| {
        i = i.min(text.len());
        while !text.is_char_boundary(i) {
            i -= 1;
        }
        i
    };
    let lo = floor(span.lo as usize);
    let hi = floor(span.hi as usize).max(lo);
    lo..hi
}

/// One diagnostic for `--json`.
#[derive(Debug, Clone, Serialize)]
pub struct Json {
    pub code: &'static str,
    pub severity: Severity,
    pub message: String,
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
    pub label: String,
    pub related: Vec<JsonLabel>,
    pub notes: Vec<String>,
    pub helps: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct JsonLabel {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
    pub label: String,
}

pub fn json(sources: &Sources, diagnostic: &Diagnostic) -> Json {
    let place = |label: &super::Label| {
        let start = sources.line_col(label.span.file, label.span.lo);
        let end = sources.line_col(label.span.file, label.span.hi);
        JsonLabel {
            file: sources.file(label.span.file).name.clone(),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            label: label.text.clone(),
        }
    };
    let at = place(&diagnostic.primary);
    Json {
        code: diagnostic.code.id(),
        severity: diagnostic.severity(),
        message: diagnostic.message.clone(),
        file: at.file,
        line: at.line,
        column: at.column,
        end_line: at.end_line,
        end_column: at.end_column,
        label: at.label,
        related: diagnostic.secondary.iter().map(place).collect(),
        notes: diagnostic.notes.clone(),
        helps: diagnostic.helps.clone(),
    }
}
