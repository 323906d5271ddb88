//! Names of the language as names of Rust.

use std::collections::BTreeSet;

use proc_macro2::{Ident, Span};

/// A module for each model: `HamWorld` gives `ham_world`.
pub(crate) fn modules<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Ident> {
    distinct(names.into_iter().map(snake_case))
}

/// A constant for each name or path: `core.0.weight` gives `CORE_0_WEIGHT`.
pub(crate) fn constants<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<Ident> {
    distinct(
        names
            .into_iter()
            .map(|name| name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()),
    )
}

/// `NoHam` to `no_ham`, `TDMPC2` to `tdmpc2`, `DreamerV3` to `dreamer_v3`.
fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::new();
    for (i, c) in letters.iter().enumerate() {
        let before = i.checked_sub(1).map(|i| letters[i]);
        let starts_word = c.is_ascii_uppercase()
            && match before {
                None | Some('_') => false,
                Some(b) if b.is_ascii_uppercase() => letters.get(i + 1).is_some_and(char::is_ascii_lowercase),
                Some(_) => true,
            };
        if starts_word {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

/// Identifiers, none twice and none a word of Rust: later ones get a number.
fn distinct(names: impl Iterator<Item = String>) -> Vec<Ident> {
    let mut taken = BTreeSet::new();
    let free = |name: String| {
        let name = match name.as_bytes().first() {
            Some(b'0'..=b'9') => format!("_{name}"),
            _ if syn::parse_str::<Ident>(&name).is_err() => format!("{name}_"),
            _ => name,
        };
        let numbered = (2..).map(|n| format!("{name}_{n}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|n| taken.insert(n.clone()));
        Ident::new(&free.unwrap_or(name), Span::call_site())
    };
    names.map(free).collect()
}

#[cfg(test)]
mod tests {
    use super::{constants, modules};

    fn shown(idents: Vec<proc_macro2::Ident>) -> Vec<String> {
        idents.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn models_become_modules() {
        let names = ["HamWorld", "TDMPC2", "DreamerV3", "SAC", "A1_NoHam", "HTTPWorld", "Ham_World", "Mod", "Self", "_"];
        let expected =
            ["ham_world", "tdmpc2", "dreamer_v3", "sac", "a1_no_ham", "http_world", "ham_world_2", "mod_", "self_", "__"];
        assert_eq!(shown(modules(names)), expected);
    }

    #[test]
    fn paths_become_constants() {
        let names = ["core.0.weight", "m.0.A_log", "q", "Q", "a.b_c", "a_b.c", "mse[3]", "0", "self"];
        let expected = ["CORE_0_WEIGHT", "M_0_A_LOG", "Q", "Q_2", "A_B_C", "A_B_C_2", "MSE_3_", "_0", "SELF"];
        assert_eq!(shown(constants(names)), expected);
    }
}
