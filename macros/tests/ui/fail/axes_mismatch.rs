//! E0203: the caret covers the sum; sizes agree, axes do not.

wmc_macros::world_model! {
    use_from = "models";
    use tiny::Tiny
    model Wrong extends Tiny {
        dim C = 8
        latent z { q: [Q], c: [C] }
        y[t] = z[t].c + step(z[t], a[t])
    }
}

fn main() {}
