//! Formatting never panics, is idempotent, and what could be read before can be read after.
#![no_main]

use dsl::source::FileId;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let reads = |text: &str| dsl::parse::parse(FileId(0), text).1.is_empty();
    let once = dsl::fmt::format(text);
    if reads(text) {
        assert!(reads(&once), "formatted:\n{once}");
        assert_eq!(dsl::fmt::format(&once), once);
    }
});
