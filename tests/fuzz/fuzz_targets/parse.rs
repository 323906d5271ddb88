//! Any text parses to a tree and diagnostics, and every diagnostic can be shown.
#![no_main]

use dsl::diagnostics::{json, render};
use dsl::source::Sources;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut sources = Sources::default();
    let file = sources.add("fuzz.wm", text, false);
    let (_, diagnostics) = dsl::parse::parse(file, text);
    for diagnostic in &diagnostics {
        render(&sources, diagnostic, false);
        json(&sources, diagnostic);
    }
});
