//! A model in place, with a file that it uses, doc comments and all kinds of numbers.
#![deny(warnings, missing_docs)]

wmc_macros::world_model! {
    use_from = "models";

    use tasks::mine

    /// A point that is pushed.
    model Tiny {
        input  obs: [O], r: [], first: bool
        action a: [A] in -1..1
        dim    Q = 8
        latent z { q: [Q] }

        schedule alpha = ramp(0.1, 0.5, from = 30%, to = 100%)
        net encoder(obs) -> z   = mlp([16], silu)
        net step(z, a)   -> [Q] = mlp([16], silu) /// how it moves
        net policy(z)    -> a via tanh = mlp([16], silu)

        source replay(capacity = 1_000) over [B = 16, T = 4]
        z[t] = encoder(obs[t])
        y[t] = z[t].q + alpha * step(z[t], a[t])

        loss dyn    1.0 = sq(y[t] - sg(z[t+1].q))   for t in 0..T-1
        loss policy 0.1 = sq(policy(z[t]) - a[t])

        act { train = policy(z[t])  eval = policy(z[t]) }
        optimizer main = adamw(lr = 1e-3) on all
        train { steps = 1_000, seed_steps = 100, every = 1, updates = 1, eval_every = 500, eval_episodes = 1, seeds = [1] }
        tasks mine
    }
}

fn main() {
    const Q: u64 = tiny::dims::Q;
    assert_eq!(Q, 8);
    assert_eq!(tiny::model().name, tiny::NAME);
    assert_eq!(tiny::LOSSES, ["dyn", "policy"]);
    assert_eq!(tiny::losses::DYN, "dyn");
    assert_eq!(tiny::entry_points::TRAIN_STEP, "train_step");
    assert_eq!(tiny::ENTRY_POINTS, ["act", "train_step"]);
    assert_eq!(tiny::PARAM_PATHS.len(), 12);
    assert_eq!(tiny::params::ENCODER_0_WEIGHT, "encoder.0.weight");
    assert_eq!(tiny::params::STEP_1_BIAS, "step.1.bias");
    // Sizes that the source names are the model's; those of the task are not.
    assert_eq!((tiny::dims::B, tiny::dims::T), (16, 4));
    assert_eq!(tiny::IMPORTS[0].0, "tasks");
    assert!(tiny::SOURCE.contains("\n    latent z { q: [Q] }\n"));
    assert!(tiny::SOURCE.contains("// A point that is pushed."));
}
