//! E0201: the caret stands under `stepp`, and the help names `step`.

wmc_macros::world_model! {
    use_from = "models";
    use tiny::Tiny
    model Wrong extends Tiny {
        y[t] = z[t].q + stepp(z[t], a[t])
    }
}

fn main() {}
