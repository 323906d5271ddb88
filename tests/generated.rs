//! The models that the benches measure are models.

#[path = "../benches/generate.rs"]
mod generate;

use dsl::ast::{Item, MemberKind};
use dsl::source::FileId;

#[test]
fn generated_models_have_the_length_they_say() {
    for equations in [2, 10, 100, 1_000] {
        let (file, diagnostics) = dsl::parse::parse(FileId(0), &generate::model(equations));
        assert!(diagnostics.is_empty(), "{diagnostics:?}");
        let [Item::Model(model)] = file.items.as_slice() else { panic!("one model") };
        let found = model.members.iter().filter(|m| matches!(m.kind, MemberKind::Equation(_))).count();
        assert_eq!(found, equations);
    }
}

#[test]
fn generated_models_check_clean() {
    // Fewer equations do not use all that is declared.
    for equations in [10, 100, 1_000] {
        let checked = dsl::check("generated.wm", &generate::model(equations), &dsl::NoLoader, &dsl::Options::default());
        let told: Vec<String> =
            checked.diagnostics.iter().map(|d| dsl::diagnostics::render(&checked.sources, d, false)).collect();
        assert!(told.is_empty(), "{}", told.join("\n\n"));
        assert_eq!(checked.models.len(), 1);
    }
}
