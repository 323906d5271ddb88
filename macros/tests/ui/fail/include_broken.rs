//! Errors of a file are shown at its path, each with its own lines.

wmc_macros::include_model!("models/broken.wm");

fn main() {}
