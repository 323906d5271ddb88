//! Files: the text that was asked for, and the modules that `use` may find beside it.
//!
//! A module is a plain word and lies directly in one of the roots. Links are followed first and judged after: a
//! module whose real place is inside no root is refused, so that a model from elsewhere reads nothing that the
//! user did not offer.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use dsl::diagnostics::{Diagnostic, closest};
use dsl::source::Sources;
use dsl::{LoadError, Loaded, Loader};

use crate::cli::is_identifier;

/// More than this is not read at all. It lies far above `dsl::parse::MAX_BYTES`, which has a diagnostic of its own.
const MAX_READ: u64 = 64 << 20;

/// Why there is no text.
#[derive(Debug)]
pub(crate) enum Unread {
    /// Nothing could be read: what is wrong with the path, and the way out.
    Path { message: String, help: String },
    /// It was read and is no text.
    NotUtf8 { sources: Sources, diagnostic: Box<Diagnostic> },
}

/// The text of a file that the user named.
pub(crate) fn read(path: &Path) -> Result<String, Unread> {
    let bytes = File::open(path).and_then(read_bytes).map_err(|error| explain(path, &error))?;
    text(&path.display().to_string(), bytes)
}

/// The text on standard input.
pub(crate) fn read_stdin() -> Result<String, Unread> {
    let bytes = read_bytes(io::stdin().lock()).map_err(|error| Unread::Path {
        message: format!("cannot read standard input: {error}"),
        help: format!("give a `.wm` text of at most {} MiB", dsl::parse::MAX_BYTES >> 20),
    })?;
    text(STDIN, bytes)
}

/// What standard input is called in messages.
pub(crate) const STDIN: &str = "<stdin>";

/// Loads the modules that a file uses.
#[derive(Debug)]
pub(crate) struct Files {
    roots: Vec<Root>,
    /// The file itself, which is no module of its own.
    itself: Option<String>,
}

#[derive(Debug)]
struct Root {
    /// As the user wrote it; empty for the current folder.
    shown: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Files {
    /// The folder of `file` first, then `more`, in order.
    pub(crate) fn beside(file: &Path, more: &[PathBuf]) -> Result<Files, Unread> {
        let own = file.parent().map(Path::to_path_buf).unwrap_or_default();
        let mut roots = vec![Root { real: canonical(&own).map_err(|e| explain(&own, &e))?, shown: own }];
        for shown in more {
            let real = canonical(shown).and_then(|real| match real.is_dir() {
                true => Ok(real),
                false => Err(io::ErrorKind::NotADirectory.into()),
            });
            let real = real.map_err(|error| Unread::Path {
                message: format!("cannot look for files in `{}`: {error}", shown.display()),
                help: "give an existing folder to `--root`".into(),
            })?;
            roots.push(Root { shown: shown.clone(), real });
        }
        Ok(Files { roots, itself: file.file_stem().map(|s| s.to_string_lossy().into_owned()) })
    }

    fn known(&self) -> Vec<String> {
        let names: BTreeSet<String> = self.roots.iter().flat_map(|root| modules(&root.real)).collect();
        names.into_iter().filter(|name| Some(name) != self.itself.as_ref()).collect()
    }
}

impl Loader for Files {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        let file = format!("{module}.wm");
        let found = self.roots.iter().find(|root| is_identifier(module) && fs::symlink_metadata(root.real.join(&file)).is_ok());
        let Some(root) = found else {
            return Err(LoadError::NotFound { known: self.known() });
        };

        let name = root.shown.join(&file).display().to_string();
        let unreadable = |reason: String| LoadError::Unreadable { path: name.clone(), reason };
        let real = fs::canonicalize(root.real.join(&file)).map_err(|e| unreadable(e.to_string()))?;
        if !self.roots.iter().any(|root| real.starts_with(&root.real)) {
            return Err(LoadError::Outside { path: name });
        }
        // A pipe or a device would block or never end.
        if !real.is_file() {
            return Err(unreadable("it is not a file".into()));
        }
        let bytes = File::open(&real).and_then(read_bytes).map_err(|e| unreadable(e.to_string()))?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Loaded { name, text }),
            Err(error) => Err(LoadError::NotUtf8 { path: name, valid_up_to: error.utf8_error().valid_up_to() }),
        }
    }
}

/// The words that `use` could name in a folder.
fn modules(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "wm"))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_string()))
        .filter(|name| is_identifier(name))
        .collect()
}

/// The empty path is the current folder.
fn canonical(folder: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

fn read_bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_READ + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_READ {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {} MiB", MAX_READ >> 20))),
        false => Ok(bytes),
    }
}

fn text(name: &str, bytes: Vec<u8>) -> Result<String, Unread> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let mut sources = Sources::default();
        // What comes before the first bad byte keeps its offsets.
        let file = sources.add(name, String::from_utf8_lossy(error.as_bytes()), false);
        Unread::NotUtf8 { sources, diagnostic: Box::new(dsl::parse::not_utf8(file, at)) }
    })
}

fn explain(path: &Path, error: &io::Error) -> Unread {
    let shown = path.display();
    let (message, help) = match error.kind() {
        io::ErrorKind::NotFound => (format!("there is no file `{shown}`"), missing(path)),
        io::ErrorKind::IsADirectory => {
            (format!("`{shown}` is a folder"), format!("name the files in it, as in `{}`", path.join("*.wm").display()))
        }
        io::ErrorKind::PermissionDenied => (format!("`{shown}` may not be read"), "change its permissions".into()),
        io::ErrorKind::FileTooLarge => (
            format!("`{shown}` is too large: {error}"),
            format!("a `.wm` file may have at most {} MiB; split the model with `use`", dsl::parse::MAX_BYTES >> 20),
        ),
        _ => (format!("cannot read `{shown}`: {error}"), "name a readable `.wm` file".into()),
    };
    Unread::Path { message, help }
}

/// What to do about a file that is not there.
fn missing(path: &Path) -> String {
    let folder = path.parent().unwrap_or(Path::new(""));
    let Ok(real) = canonical(folder) else {
        return format!("there is no folder `{}` either", folder.display());
    };
    let word = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let names = modules(&real);
    // The right stem without its ending is the nearest of all.
    let best =
        names.iter().find(|n| **n == word).map(String::as_str).or_else(|| closest(&word, names.iter().map(String::as_str)));
    match best {
        Some(best) => format!("did you mean `{}`?", folder.join(format!("{best}.wm")).display()),
        None => "`wmc new NAME` writes a starter model".into(),
    }
}
