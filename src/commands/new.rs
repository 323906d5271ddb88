//! `wmc new`: a starter model.

use std::fs::File;
use std::io::{self, Write};

use crate::cli::New;
use crate::output::{Exit, Output};

/// A model that checks as it stands, `Starter` in the file `starter.wm`: both names are the places to fill.
const STARTER: &str = include_str!("../starter.wm");

pub(crate) fn run(arguments: &New, out: &mut Output) -> Exit {
    let name = arguments.name.as_str();
    if !is_name(name) {
        out.error(&format!("`{name}` cannot be the name of a model"), &advice(name));
        return Exit::Bad;
    }
    let path = format!("{name}.wm");
    // `create_new` also refuses a link that leads nowhere.
    let written = File::create_new(&path).and_then(|mut file| file.write_all(starter(name).as_bytes()));
    match written {
        Ok(()) => {
            out.say(format!("{path}: a starter model, {}. Next: wmc check {path}\n", camel_case(name)));
            Exit::Fine
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            out.error(&format!("there is a file `{path}` already"), "choose another name, or move the file away");
            Exit::Bad
        }
        Err(error) => {
            out.error(&format!("cannot write `{path}`: {error}"), "run it in a folder where you may write");
            Exit::Bad
        }
    }
}

fn starter(name: &str) -> String {
    STARTER.replace("starter.wm", &format!("{name}.wm")).replace("Starter", &camel_case(name))
}

/// A word that may name a file for `use` and, in camel case, a model.
fn is_name(name: &str) -> bool {
    dsl::lex::is_word(name)
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && !dsl::lex::RESERVED.contains(&name)
        && name.len() <= 64
}

fn advice(name: &str) -> String {
    let mended: String = name
        .trim_end_matches(".wm")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect::<String>()
        .trim_matches('_')
        .to_string();
    let rule = "a name has letters, digits and underscores, a letter first, and is no word of the language";
    match is_name(&mended) {
        true => format!("{rule}; how about `{mended}`?"),
        false => rule.into(),
    }
}

/// `my_world` to `MyWorld`.
fn camel_case(name: &str) -> String {
    let capital = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_ascii_uppercase() + rest
    };
    name.split('_').filter(|word| !word.is_empty()).map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(camel_case("my_world"), "MyWorld");
        assert_eq!(camel_case("pendulum"), "Pendulum");
        assert_eq!(camel_case("a__b_2"), "AB2");
        assert!(is_name("my_world") && is_name("W2"));
        for bad in ["", "2w", "_", "my-world", "model", "a b", "..", "a/b", "ä"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(advice("my-world.wm").ends_with("how about `my_world`?"));
    }

    #[test]
    fn every_place_is_filled() {
        let text = starter("my_world");
        assert!(text.contains("model MyWorld {") && text.contains("my_world.wm"));
        assert!(!text.to_lowercase().contains("starter"));
    }
}
