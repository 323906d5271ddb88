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

/// Ten times the equations are about ten times the work; `cargo bench --bench check` has the exact figures. Counted in
/// operations, which no other program of the machine disturbs.
#[test]
fn generated_models_grow_linearly() {
    let operations = |equations: usize| {
        let checked = dsl::check("generated.wm", &generate::model(equations), &dsl::NoLoader, &dsl::Options::default());
        checked.models[0].exprs.len() as f64
    };
    let sizes = [100, 1_000, 10_000].map(operations);
    for pair in sizes.windows(2) {
        assert!(pair[1] / pair[0] < 12.0, "{sizes:?}");
    }
}
