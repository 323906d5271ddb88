//! Diagnostics to people and to editors.

use dsl::diagnostics::{Code, Diagnostic, Json, Severity, json, render};
use dsl::source::Sources;

use crate::files::Unread;
use crate::output::Output;

/// What has been reported so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) json: bool,
    /// Distinct codes, in the order in which they came up.
    codes: Vec<Code>,
}

impl Report {
    pub(crate) fn new(json: bool) -> Report {
        Report { json, codes: Vec::new() }
    }

    pub(crate) fn diagnostics(&mut self, out: &mut Output, sources: &Sources, diagnostics: &[Diagnostic]) {
        for diagnostic in diagnostics {
            if !self.codes.contains(&diagnostic.code) {
                self.codes.push(diagnostic.code);
            }
            if self.json {
                line(out, &json(sources, diagnostic));
            } else {
                let colour = out.colour_err();
                out.tell(format!("{}\n\n", render(sources, diagnostic, colour)));
            }
        }
    }

    /// A file that could not be read.
    pub(crate) fn unread(&mut self, out: &mut Output, file: &str, unread: Unread) {
        match unread {
            Unread::NotUtf8 { sources, diagnostic } => self.diagnostics(out, &sources, &[*diagnostic]),
            Unread::Path { message, help } if self.json => line(
                out,
                &Json {
                    code: NO_FILE,
                    severity: Severity::Error,
                    message,
                    file: file.to_string(),
                    line: 1,
                    column: 1,
                    end_line: 1,
                    end_column: 1,
                    label: String::new(),
                    related: Vec::new(),
                    notes: Vec::new(),
                    helps: vec![help],
                },
            ),
            Unread::Path { message, help } => out.error(&message, &help),
        }
    }

    /// Points to the pages of the codes that came up.
    pub(crate) fn finish(&self, out: &mut Output) {
        match self.codes.as_slice() {
            _ if self.json => {}
            [] => {}
            [code] => out.tell(format!("`wmc help {}` explains this.\n", code.id())),
            [first, ..] => {
                let ids: Vec<&str> = self.codes.iter().take(5).map(|code| code.id()).collect();
                out.tell(format!("There is more about {}: `wmc help {}`.\n", ids.join(", "), first.id()));
            }
        }
    }
}

/// The code of a file that could not be read at all: there is no place in it to point at.
const NO_FILE: &str = "file";

/// `2 errors, 1 warning`.
pub(crate) fn tally(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let warnings = diagnostics.len() - errors;
    let count = |n: usize, word: &str| (n > 0).then(|| format!("{n} {word}{}", if n == 1 { "" } else { "s" }));
    let parts: Vec<String> = [count(errors, "error"), count(warnings, "warning")].into_iter().flatten().collect();
    parts.join(", ")
}

fn line(out: &mut Output, json: &Json) {
    // A record of texts and numbers always has a JSON form.
    let text = serde_json::to_string(json).expect("a diagnostic as JSON");
    out.say(text + "\n");
}
