wmc_macros::include_model!("models/missing.wm");
wmc_macros::include_model!("models/latin.wm");
wmc_macros::include_model!("models");
wmc_macros::include_model!(tiny);

fn main() {}
