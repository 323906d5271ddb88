//! Bounds on nesting, checked before the recursive parser sees the text.
//!
//! The grammar recurses on brackets, on runs of prefix operators, on chains of `^` and on
//! `else if`. Each is bounded here, so that no input can exhaust the stack.

use crate::diagnostics::{Code, Diagnostic};
use crate::source::{FileId, Span};

const MAX_NESTING: usize = 64;
const MAX_CHAIN: usize = 64;

/// What has been seen at one bracket depth since something that ends a chain.
#[derive(Default, Clone, Copy)]
struct Runs {
    powers: usize,
    elses: usize,
    prefixes: usize,
}

pub(super) fn check(file: FileId, text: &str) -> Result<(), Box<Diagnostic>> {
    let too_deep = |at: usize, what: &str| {
        Err(Box::new(
            Diagnostic::new(Code::TooDeep, Span::new(file, at, at + 1), format!("{what} too deep to read"))
                .help("name a part of it with `let` or an equation of its own"),
        ))
    };
    let bytes = text.as_bytes();
    let mut runs = vec![Runs::default()];
    let mut at = 0;
    while at < bytes.len() {
        let top = runs.len() - 1;
        let run = &mut runs[top];
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                while at < bytes.len() && bytes[at] != b'\n' {
                    at += 1;
                }
                continue;
            }
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\n' {
                    at += 1;
                }
                at += 1;
                run.prefixes = 0;
                continue;
            }
            b'(' | b'[' | b'{' => {
                if runs.len() > MAX_NESTING {
                    return too_deep(at, "brackets are nested");
                }
                runs.push(Runs::default());
            }
            b')' | b']' | b'}' => {
                if runs.len() > 1 {
                    runs.pop();
                }
                let top = runs.len() - 1;
                runs[top].prefixes = 0;
            }
            b'^' => {
                run.powers += 1;
                run.prefixes = 0;
                if run.powers > MAX_CHAIN {
                    return too_deep(at, "powers are nested");
                }
            }
            b'-' | b'!' => {
                run.prefixes += 1;
                if run.prefixes > MAX_CHAIN {
                    return too_deep(at, "signs are nested");
                }
            }
            b'+' | b'*' | b'/' | b'@' | b',' | b'=' | b'<' | b'>' | b'&' | b'|' | b'~' | b'.' | b':' => {
                // `2.5^2.5^..` keeps its chain: a dot inside a number ends nothing.
                if bytes[at] != b'.' {
                    run.powers = 0;
                    run.elses = 0;
                }
                run.prefixes = 0;
            }
            c if c.is_ascii_alphanumeric() || c == b'_' => {
                let start = at;
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                    at += 1;
                }
                run.prefixes = 0;
                if &bytes[start..at] == b"else" {
                    run.elses += 1;
                    if run.elses > MAX_CHAIN {
                        return too_deep(start, "`else` branches are nested");
                    }
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}
