//! Two errors in one model: an unknown name, and axes that do not line up.

wmc_macros::world_model! {
    use_from = "models";
    use tiny::Tiny
    model Wrong extends Tiny {
        y[t] = z[t].q + stepp(z[t], a[t])
        x[t] = z[t].q + a[t]
        loss x 1.0 = sq(x[t])
    }
}

fn main() {}
