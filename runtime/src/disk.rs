//! The file layer of run folders.
//!
//! A run folder may come from somebody else, so nothing here follows a link inside it. Files are written to a draft, which is
//! synced and renamed; then the folder is synced. [`traced`] returns the operations in order, and [`killed_after`] simulates a
//! kill between two of them, so that tests can check both.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::Error;

/// An operation that changes a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Write(PathBuf),
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    SyncFolder(PathBuf),
    Remove(PathBuf),
}

#[derive(Debug)]
struct Trace {
    done: Vec<Operation>,
    limit: usize,
}

thread_local! {
    static TRACE: RefCell<Option<Trace>> = const { RefCell::new(None) };
}

/// Runs `f` and returns the operations of this thread.
pub fn traced<T>(f: impl FnOnce() -> T) -> (T, Vec<Operation>) {
    killed_after(usize::MAX, f)
}

/// Runs `f` as if the process were killed after `limit` operations: later ones fail and change nothing, except that a write leaves
/// half of its bytes.
pub fn killed_after<T>(limit: usize, f: impl FnOnce() -> T) -> (T, Vec<Operation>) {
    TRACE.set(Some(Trace { done: Vec::new(), limit }));
    let value = f();
    (value, TRACE.take().map_or_else(Vec::new, |trace| trace.done))
}

fn is_killed() -> bool {
    TRACE.with_borrow(|trace| trace.as_ref().is_some_and(|t| t.done.len() >= t.limit))
}

/// Does an operation, unless the process counts as killed.
fn act<T>(path: &Path, operation: impl FnOnce() -> Operation, f: impl FnOnce() -> std::io::Result<T>) -> Result<T, Error> {
    if is_killed() {
        return Err(Error::file(path, "killed"));
    }
    let value = f().map_err(|e| Error::file(path, e))?;
    TRACE.with_borrow_mut(|trace| {
        if let Some(trace) = trace {
            trace.done.push(operation());
        }
    });
    Ok(value)
}

/// Refuses a path that is a link.
pub fn no_link(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => {
            Err(Error::damaged(path, "this is a link, and links inside a run folder are not followed"))
        }
        // What is not there is the caller's to report.
        _ => Ok(()),
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>, Error> {
    no_link(path)?;
    fs::read(path).map_err(|e| Error::file(path, e))
}

pub fn read_text(path: &Path) -> Result<String, Error> {
    no_link(path)?;
    fs::read_to_string(path).map_err(|e| Error::file(path, e))
}

/// Opens a file that is not a link.
pub fn open(path: &Path, options: &OpenOptions) -> Result<File, Error> {
    no_link(path)?;
    options.open(path).map_err(|e| Error::file(path, e))
}

/// Writes a file and syncs it.
pub fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = open(path, OpenOptions::new().create(true).write(true).truncate(true))?;
    if is_killed() {
        let _ = file.write_all(&bytes[..bytes.len() / 2]);
    }
    act(path, || Operation::Write(path.to_path_buf()), || file.write_all(bytes))?;
    act(path, || Operation::Sync(path.to_path_buf()), || file.sync_all())
}

/// Replaces a file: readers see the old bytes or the new ones.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    no_link(path)?;
    let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let folder = path.parent().unwrap_or(Path::new(""));
    let draft = folder.join(format!(".draft-{}-{name}", std::process::id()));
    let written = write_synced(&draft, bytes).and_then(|()| rename(&draft, path));
    if written.is_err() {
        discard(&draft);
    }
    written
}

/// Renames a file or folder and syncs the folder that it is in.
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    act(to, || Operation::Rename(from.to_path_buf(), to.to_path_buf()), || fs::rename(from, to))?;
    to.parent().map_or(Ok(()), sync_folder)
}

/// Syncs the names in a folder.
pub fn sync_folder(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    act(folder, || Operation::SyncFolder(folder.to_path_buf()), || File::open(folder)?.sync_all())
}

/// Removes a folder with its files; of a link, the link.
pub fn remove_folder(path: &Path) -> Result<(), Error> {
    act(path, || Operation::Remove(path.to_path_buf()), || fs::remove_dir_all(path))
}

/// Removes a draft that could not be finished.
pub fn discard(draft: &Path) {
    if !is_killed() {
        let is_folder = fs::symlink_metadata(draft).is_ok_and(|found| found.is_dir());
        let _ = if is_folder { fs::remove_dir_all(draft) } else { fs::remove_file(draft) };
    }
}

/// Removes drafts that a kill left in a folder.
pub fn discard_drafts(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let drafts = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(".draft-"));
    drafts.for_each(|entry| discard(&entry.path()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_synced_renamed_and_its_folder_synced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("best");
        let (written, trace) = traced(|| replace(&path, b"one"));
        written.unwrap();
        let draft = folder.path().join(format!(".draft-{}-best", std::process::id()));
        let order = [
            Operation::Write(draft.clone()),
            Operation::Sync(draft.clone()),
            Operation::Rename(draft, path.clone()),
            Operation::SyncFolder(folder.path().to_path_buf()),
        ];
        assert_eq!(trace, order);
        assert_eq!(read(&path).unwrap(), b"one");
    }

    #[test]
    #[cfg(unix)]
    fn links_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for told in [read(&link).unwrap_err(), replace(&link, b"x").unwrap_err(), write_synced(&link, b"x").unwrap_err()] {
            assert!(told.to_string().contains("this is a link"), "{told}");
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }
}
