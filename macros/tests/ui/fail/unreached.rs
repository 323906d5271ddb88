//! W0301 and W0302 as deprecated constants, made errors here: no loss reaches `lost`, nothing reads `K`.
#![deny(deprecated)]

wmc_macros::world_model! {
    use_from = "models";
    use tiny::Tiny
    model Wrong extends Tiny {
        dim K = 3
        net lost(z) -> [Q] = mlp([16], silu)
    }
}

fn main() {}
