//! E0106: without `use_from` there is nothing to use.

wmc_macros::world_model! {
    use tiny::Tiny
    model Wrong extends Tiny {
    }
}

fn main() {}
