wmc_macros::world_model! {
    use_form = "models";
    model Tiny { dim Q = 8 }
}

wmc_macros::world_model! {
    use_from = "nowhere";
    model Tiny { dim Q = 8 }
}

wmc_macros::world_model! {
    use_from = "models"
    model Tiny { dim Q = 8 }
}

fn main() {}
