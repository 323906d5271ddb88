//! Any two files check without a panic, symbolically and with sizes; a model comes without errors or not at all.
#![no_main]

use dsl::diagnostics::{json, render};
use dsl::{MapLoader, Options, check};
use libfuzzer_sys::fuzz_target;

/// What stands before this line is the module `other`, what stands behind it the file that is checked.
const CUT: &str = "\n//--\n";

fuzz_target!(|input: &str| {
    let (other, text) = input.split_once(CUT).unwrap_or(("", input));
    let mut loader = MapLoader::default();
    loader.0.insert("other".into(), other.into());
    loader.0.insert(
        "tasks".into(),
        include_str!("../../../models/tasks.wm").into(),
    );
    let bound = Options {
        dims: vec![("O".into(), 5), ("A".into(), 2)],
        ..Options::default()
    };
    for options in [Options::default(), bound] {
        let checked = check("fuzz.wm", text, &loader, &options);
        for diagnostic in &checked.diagnostics {
            render(&checked.sources, diagnostic, false);
            json(&checked.sources, diagnostic);
        }
    }
});
