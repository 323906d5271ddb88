//! The caret stands at the token that is wrong, and one mistake does not hide the next.

wmc_macros::world_model! {
    model Tiny {
        dim Q = = 8
        latent z { q: [Q] }
        net f(z) -> [Q] mlp([8], silu)
        z[t+1] = 3 +
        loss one 1.0 = sq(z[t].q)
    }
}

fn main() {}
