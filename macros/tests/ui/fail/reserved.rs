wmc_macros::world_model! {
    model Tiny {
        latent loss { q: [Q] }
    }
}

fn main() {}
