//! E0113: nothing at all, and a text without a model.

macros::world_model! {}

macros::world_model! {
    fn twice(x) { return 2 * x }
}

fn main() {}
