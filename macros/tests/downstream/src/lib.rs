//! A crate that uses the macros as any other would: it depends on `dsl` and `macros`, and on nothing that they need.

macros::include_model!("../../../models/hamworld_s6.wm");

pub mod inline {
    //! Several models in one macro, one made of another.

    macros::world_model! {
        use_from = "../../../models";

        use hamworld_s6::HamWorldS6

        /// Without the Hamiltonian field.
        model NoField extends HamWorldS6 {
            schedule alpha = 0
        }

        /// A smaller latent.
        model SmallLatent extends HamWorldS6 {
            dim Q = 4
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ham_world_s6, inline};

    #[test]
    fn a_file_becomes_a_module() {
        const Q: u64 = ham_world_s6::dims::Q;
        assert_eq!((Q, ham_world_s6::dims::C, ham_world_s6::dims::J), (8, 32, 64));
        assert_eq!(ham_world_s6::losses::C_SPARSE, "c_sparse");
        assert_eq!(ham_world_s6::SOURCE, include_str!("../../../../models/hamworld_s6.wm"));
        let imports: Vec<&str> = ham_world_s6::IMPORTS.iter().map(|(module, _)| *module).collect();
        assert_eq!(imports, ["tasks"]);
    }

    #[test]
    fn the_model_is_the_checked_one() {
        let model = ham_world_s6::model();
        assert_eq!(model.name, ham_world_s6::NAME);
        assert!(std::ptr::eq(model, ham_world_s6::model()));
        let paths: Vec<&str> = model.params.iter().map(|p| p.path.as_str()).collect();
        assert_eq!(paths, ham_world_s6::PARAM_PATHS);
        let losses: Vec<&str> = model.losses.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(losses, ham_world_s6::LOSSES);
        assert_eq!(ham_world_s6::ENTRY_POINTS, ["act", "plan", "train_step", "evaluate"]);
    }

    #[test]
    fn each_model_has_its_module() {
        assert_eq!(inline::no_field::model().name, "NoField");
        assert_eq!(inline::small_latent::dims::Q, 4);
        assert_eq!(inline::small_latent::SOURCE, inline::no_field::SOURCE);
    }
}
