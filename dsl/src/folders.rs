//! A [`Loader`] that finds modules in folders, for callers that have a file system. Nothing else of this crate touches
//! files, and nothing of this crate uses this.
//!
//! A module is a plain word and lies directly in one of the folders. Links are followed first and judged after: a
//! module whose real place is inside no folder is refused, so that a model from elsewhere reads nothing that the
//! user did not offer.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::{LoadError, Loaded, Loader, lex, parse};

/// More than this is not read at all. It lies far above [`parse::MAX_BYTES`], which has a diagnostic of its own.
const MAX_READ: usize = 32 * parse::MAX_BYTES;

/// Folders in which modules are looked for, the first one first; what was read is remembered.
#[derive(Debug, Default)]
pub struct Folders {
    folders: Vec<Folder>,
    imports: RefCell<BTreeMap<String, Import>>,
}

#[derive(Debug)]
struct Folder {
    /// Without links.
    real: PathBuf,
    /// As the user wrote it, for messages that read the same on every machine.
    shown: PathBuf,
    /// It is only the folder above one that was offered: modules must lie directly in it.
    above: bool,
}

/// A module that was read.
#[derive(Debug, Clone)]
pub struct Import {
    /// Without links.
    pub path: PathBuf,
    pub text: String,
}

impl Folders {
    /// Adds a folder that the user knows as `shown`. The empty path is the current folder.
    pub fn add(&mut self, folder: &Path, shown: impl Into<PathBuf>) -> io::Result<()> {
        self.push(folder, shown.into(), false)
    }

    /// Adds the folder above one that the user offered. Modules must really lie in it; a link that leaves the offered
    /// folders is not made legal by it.
    pub fn add_above(&mut self, folder: &Path) -> io::Result<()> {
        let above = folder.join("..");
        self.push(&above, above.clone(), true)
    }

    fn push(&mut self, folder: &Path, shown: PathBuf, above: bool) -> io::Result<()> {
        let real = fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
        if !real.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.folders.push(Folder { real, shown, above });
        Ok(())
    }

    /// All modules read so far, by name.
    pub fn into_imports(self) -> BTreeMap<String, Import> {
        self.imports.into_inner()
    }

    /// The words that `use` could name.
    pub fn modules(&self) -> Vec<String> {
        let offered = self.folders.iter().filter(|folder| !folder.above);
        let entries = offered.filter_map(|folder| fs::read_dir(&folder.real).ok()).flatten().flatten();
        let files = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "wm"));
        let words = files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_string()));
        words.filter(|word| lex::is_word(word)).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn find(&self, module: &str) -> Result<(&Folder, String), LoadError> {
        let file = format!("{module}.wm");
        let found = self.folders.iter().find(|f| lex::is_word(module) && fs::symlink_metadata(f.real.join(&file)).is_ok());
        found.map(|folder| (folder, file)).ok_or_else(|| LoadError::NotFound { known: self.modules() })
    }
}

impl Loader for Folders {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        let (folder, file) = self.find(module)?;
        let name = folder.shown.join(&file).display().to_string();
        let path = fs::canonicalize(folder.real.join(&file))
            .map_err(|error| LoadError::Unreadable { path: name.clone(), reason: error.to_string() })?;
        let offered = self.folders.iter().any(|f| !f.above && path.starts_with(&f.real));
        let beside = folder.above && path.parent() == Some(&folder.real);
        if !offered && !beside {
            return Err(LoadError::Outside { path: name });
        }
        let text = read_text(&path, &name)?;
        self.imports.borrow_mut().insert(module.to_string(), Import { path, text: text.clone() });
        Ok(Loaded { name, text })
    }
}

/// The text of a file that the user knows as `shown`.
pub fn read_text(path: &Path, shown: &str) -> Result<String, LoadError> {
    let unreadable = |reason: String| LoadError::Unreadable { path: shown.to_string(), reason };
    // A pipe or a device would block or never end.
    if !fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.is_file() {
        return Err(unreadable("it is not a file".to_string()));
    }
    let bytes = File::open(path).and_then(read_bytes).map_err(|e| unreadable(e.to_string()))?;
    String::from_utf8(bytes)
        .map_err(|e| LoadError::NotUtf8 { path: shown.to_string(), valid_up_to: e.utf8_error().valid_up_to() })
}

/// All there is to read, where it is of a size that a model may have.
pub fn read_bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_READ as u64 + 1).read_to_end(&mut bytes)?;
    match bytes.len() > MAX_READ {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {} MiB", MAX_READ >> 20))),
        false => Ok(bytes),
    }
}
