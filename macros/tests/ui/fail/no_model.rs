//! E0113: nothing at all, and a text without a model.

wmc_macros::world_model! {}

wmc_macros::world_model! {
    fn twice(x) { return 2 * x }
}

fn main() {}
