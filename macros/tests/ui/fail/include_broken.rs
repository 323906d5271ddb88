//! Errors of a file are shown at its path, each with its own lines.

macros::include_model!("models/broken.wm");

fn main() {}
