//! Files: the text that was asked for, and the folders in which `use` may find others.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use dsl::diagnostics::{Diagnostic, closest};
use dsl::folders::{Folders, read_bytes};
use dsl::source::Sources;

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

/// Where `use` looks: the folder of `file` first, then `more`, in order, then the folder above the first.
pub(crate) fn folders(file: &Path, more: &[PathBuf]) -> Result<Folders, Unread> {
    let own = file.parent().unwrap_or(Path::new(""));
    let mut folders = Folders::default();
    folders.add(own, own).map_err(|error| explain(own, &error))?;
    for root in more {
        folders.add(root, root).map_err(|error| Unread::Path {
            message: format!("cannot look for files in `{}`: {error}", root.display()),
            help: "give an existing folder to `--root`".into(),
        })?;
    }
    // What cannot be opened has no modules to offer.
    let _ = folders.add_above(own);
    Ok(folders)
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
    let mut folders = Folders::default();
    if folders.add(folder, folder).is_err() {
        return format!("there is no folder `{}` either", folder.display());
    }
    let word = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let names = folders.modules();
    // The right stem without its ending is the nearest of all.
    let best =
        names.iter().find(|n| **n == word).map(String::as_str).or_else(|| closest(&word, names.iter().map(String::as_str)));
    match best {
        Some(best) => format!("did you mean `{}`?", folder.join(format!("{best}.wm")).display()),
        None => "`wmc new NAME` writes a starter model".into(),
    }
}
