//! Tokens of Rust that the language does not have.

wmc_macros::world_model! {
    model Tiny {
        dim Q = 8;
        x[t] = a | b
    }
}

fn main() {}
