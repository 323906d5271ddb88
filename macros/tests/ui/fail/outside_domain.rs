//! E0301: a read past the end.

wmc_macros::world_model! {
    use_from = "models";
    use tiny::Tiny
    model Wrong extends Tiny {
        loss dyn 1.0 = sq(y[t] - sg(z[t+1].q))   for t in 0..T
    }
}

fn main() {}
