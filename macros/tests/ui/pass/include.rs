//! A model from a file, with a file that it uses.
#![deny(warnings)]

mod inner {
    wmc_macros::include_model!("models/tiny.wm");
}

fn main() {
    assert_eq!(inner::tiny::dims::Q, 8);
    assert_eq!(inner::tiny::model().name, "Tiny");
    assert_eq!(inner::tiny::SOURCE, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny.wm")));
}
