//! The one folder that `use` may read.
//!
//! Invariant: every path that is read is canonical and lies inside the canonical folder, so neither a link nor a name
//! leads out of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use dsl::parse::MAX_BYTES;
use dsl::{LoadError, Loaded, Loader};

/// Looks for modules in one folder and remembers what it read.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Canonical.
    root: PathBuf,
    /// As the user wrote it: for messages that read the same on every machine.
    shown: PathBuf,
    imports: RefCell<BTreeMap<String, Import>>,
}

/// A module that was read.
#[derive(Debug, Clone)]
pub(crate) struct Import {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Folder {
    pub(crate) fn new(root: PathBuf, shown: impl Into<PathBuf>) -> Folder {
        Folder { root, shown: shown.into(), imports: RefCell::default() }
    }

    /// All modules read so far, by name.
    pub(crate) fn into_imports(self) -> BTreeMap<String, Import> {
        self.imports.into_inner()
    }

    fn known(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(&self.root) else {
            return Vec::new();
        };
        let paths = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "wm"));
        let mut known: Vec<String> = paths.filter_map(|p| Some(p.file_stem()?.to_str()?.to_string())).collect();
        known.sort();
        known
    }
}

impl Loader for Folder {
    fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        let file = format!("{module}.wm");
        let shown = self.shown.join(&file).display().to_string();
        if module.is_empty() || !module.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(LoadError::Outside { path: shown });
        }
        let path = self.root.join(file).canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => LoadError::NotFound { known: self.known() },
            _ => LoadError::Unreadable { path: shown.clone(), reason: error.to_string() },
        })?;
        if !path.starts_with(&self.root) {
            return Err(LoadError::Outside { path: shown });
        }
        let text = read(&path, &shown)?;
        let import = Import { path, text: text.clone() };
        self.imports.borrow_mut().insert(module.to_string(), import);
        Ok(Loaded { name: shown, text })
    }
}

/// Reads a text of bounded size.
pub(crate) fn read(path: &Path, shown: &str) -> Result<String, LoadError> {
    let unreadable = |reason: String| LoadError::Unreadable { path: shown.to_string(), reason };
    let mut bytes = Vec::new();
    let is_file = std::fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.is_file();
    if !is_file {
        return Err(unreadable("it is not a file".to_string()));
    }
    let file = File::open(path).map_err(|e| unreadable(e.to_string()))?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(|e| unreadable(e.to_string()))?;
    if bytes.len() > MAX_BYTES {
        return Err(unreadable(format!("it has more than {} MiB", MAX_BYTES >> 20)));
    }
    String::from_utf8(bytes)
        .map_err(|e| LoadError::NotUtf8 { path: shown.to_string(), valid_up_to: e.utf8_error().valid_up_to() })
}
