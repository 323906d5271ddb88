//! The fenced blocks of a Markdown text, with what the words behind the fence say about them.

use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Debug, Clone)]
pub(crate) struct Fence {
    /// Line of its first row in the document, from 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// ```` ```wm ````, ```` ```wm E0203 ````: a complete file, which gives these codes and no others.
    File {
        codes: Vec<String>,
    },
    /// ```` ```wm base ````: the model that fragments stand in.
    Base,
    /// ```` ```wm fragment E0203 ````: members of a model that extends the base.
    Fragment {
        codes: Vec<String>,
    },
    /// ```` ```wm docs/tutorial/swing.wm ````: lines of a file, one after the other.
    Excerpt {
        path: String,
    },
    /// ```` ```toml ````, ```` ```json ````: a document of that form.
    Toml,
    Json,
    /// ```` ```sh ````: commands, a line each.
    Commands,
    /// ```` ```text ````: the output of the block before.
    Output {
        extent: Extent,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    /// ```` ```text head ````: its beginning.
    Head,
    /// ```` ```text part ````: lines of it, one after the other.
    Part,
}

impl Kind {
    fn of(info: &str) -> Result<Kind, String> {
        let words: Vec<&str> = info.split_whitespace().collect();
        let codes = |words: &[&str]| -> Result<Vec<String>, String> {
            let bad = words.iter().find(|w| !(w.len() == 5 && w.starts_with(['E', 'W'])));
            bad.map_or_else(|| Ok(words.iter().map(ToString::to_string).collect()), |w| Err(format!("`{w}` is no code")))
        };
        match words.as_slice() {
            ["toml"] => Ok(Kind::Toml),
            ["json"] => Ok(Kind::Json),
            ["sh"] => Ok(Kind::Commands),
            ["text"] => Ok(Kind::Output { extent: Extent::Whole }),
            ["text", "head"] => Ok(Kind::Output { extent: Extent::Head }),
            ["text", "part"] => Ok(Kind::Output { extent: Extent::Part }),
            ["wm", "base"] => Ok(Kind::Base),
            ["wm", "fragment", rest @ ..] => Ok(Kind::Fragment { codes: codes(rest)? }),
            ["wm" | "rust" | "toml", path] if path.contains('/') => Ok(Kind::Excerpt { path: path.to_string() }),
            ["wm", rest @ ..] => Ok(Kind::File { codes: codes(rest)? }),
            _ => Err(format!("nothing says how to test a block marked `{info}`")),
        }
    }
}

/// All blocks of a text; a block that nobody could test is an error.
pub(crate) fn fences(text: &str) -> Result<Vec<Fence>, String> {
    let mut all = Vec::new();
    let mut open: Option<Fence> = None;
    for (at, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => {
                let kind = Kind::of(info).map_err(|e| format!("line {}: {e}", at + 1))?;
                open = Some(Fence { line: at + 2, kind, text: String::new() });
            }
            (Some(_), Some("")) => all.extend(open.take()),
            (Some(fence), _) => {
                fence.text.push_str(line);
                fence.text.push('\n');
            }
            (None, None) => {}
        }
    }
    match open {
        Some(fence) => Err(format!("line {}: a block that is never closed", fence.line)),
        None => Ok(all),
    }
}

/// The folder of the project.
pub(crate) fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = if here.ends_with("dsl") { here.parent() } else { Some(here) };
    root.expect("the crate has a folder around it").to_path_buf()
}

/// A text of the project, by its path from the project's folder.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(project().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Documents whose blocks are tested, each with its path from the project's folder.
pub(crate) fn documents() -> Vec<(&'static str, String)> {
    [
        "README.md",
        "docs/start/first-model.md",
        "docs/start/tutorial.md",
        "docs/start/coming-from.md",
        LANGUAGE,
        "docs/guide/library.md",
        "docs/guide/worlds.md",
        "docs/guide/training.md",
        "docs/guide/diagnose.md",
        "docs/guide/experiments.md",
        "docs/embed/rust.md",
        "docs/internals/architecture.md",
    ]
    .map(|path| (path, read(path)))
    .into()
}

/// The reference of the language, which has the model that fragments stand in.
pub(crate) const LANGUAGE: &str = "docs/guide/language.md";
