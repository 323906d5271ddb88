//! W0301 as a deprecated constant, made an error here: no loss reaches `lost`.
#![deny(deprecated)]

macros::world_model! {
    use_from = "models";
    use tasks::mine
    model Tiny {
        input  obs: [O], r: [], first: bool
        action a: [A] in -1..1
        dim    Q = 8, C = 8
        latent z { q: [Q], c: [C] }
        net encoder(obs) -> z   = mlp([16], silu)
        net step(z, a)   -> [Q] = mlp([16], silu)
        net policy(z)    -> a via tanh = mlp([16], silu)
        source replay(capacity = 1_000) over [B = 16, T = 4]
        z[t] = encoder(obs[t])
        net lost(z) -> [Q] = mlp([16], silu)
        y[t] = z[t].q + step(z[t], a[t])
        loss dyn 1.0 = sq(y[t] - sg(z[t+1].q))
        loss policy 0.1 = sq(policy(z[t]) - a[t])
        act { train = policy(z[t])  eval = policy(z[t]) }
        optimizer main = adamw(lr = 1e-3) on all
        train { steps = 1_000, seed_steps = 100, every = 1, updates = 1, eval_every = 500, eval_episodes = 1, seeds = [1] }
        tasks mine
    }
}

fn main() {}
