macros::include_model!("models/missing.wm");
macros::include_model!("models/latin.wm");
macros::include_model!("models");
macros::include_model!(tiny);

fn main() {}
