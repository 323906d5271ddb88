//! `wmc fmt`: files in their one form, replaced as a whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use dsl::diagnostics::Diagnostic;
use dsl::source::Sources;

use crate::cli::Fmt;
use crate::files::{self, STDIN, Unread};
use crate::output::{Exit, Output};
use crate::report::Report;

pub(crate) fn run(arguments: &Fmt, out: &mut Output) -> Exit {
    let mut report = Report::new(false);
    let mut worst = Exit::Fine;
    for path in &arguments.files {
        let stdin = path.as_os_str() == "-";
        let name = if stdin { STDIN.to_string() } else { path.display().to_string() };
        let exit = match formatted(path, stdin, &name) {
            Ok(done) if arguments.check => listed(&name, &done, out),
            Ok(done) if stdin => {
                out.say(&done.after);
                Exit::Fine
            }
            Ok(done) => written(path, &done, out),
            Err(Unformatted::Unread(unread)) => {
                report.unread(out, &name, unread);
                Exit::Bad
            }
            Err(Unformatted::Wrong { sources, diagnostics }) => {
                report.diagnostics(out, &sources, &diagnostics);
                out.error(&format!("`{name}` is left as it is"), "mend the errors above, then format it");
                Exit::Bad
            }
            Err(Unformatted::Fault) => {
                let message = format!("formatting `{name}` would break it; it is left as it is");
                out.error(&message, "this is a fault of wmc: please report it with the file");
                Exit::Bad
            }
        };
        worst = worst.max(exit);
    }
    report.finish(out);
    worst
}

struct Formatted {
    before: String,
    after: String,
}

impl Formatted {
    fn changed(&self) -> bool {
        self.before != self.after
    }
}

enum Unformatted {
    Unread(Unread),
    /// The text cannot be read as a model.
    Wrong {
        sources: Sources,
        diagnostics: Vec<Diagnostic>,
    },
    /// The formatter's text could not be read any more.
    Fault,
}

fn formatted(path: &Path, stdin: bool, name: &str) -> Result<Formatted, Unformatted> {
    let before = if stdin { files::read_stdin() } else { files::read(path) }.map_err(Unformatted::Unread)?;
    let mut sources = Sources::default();
    let file = sources.add(name, before.as_str(), false);
    let (_, diagnostics) = dsl::parse::parse(file, &before);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(Unformatted::Wrong { sources, diagnostics });
    }
    let after = dsl::fmt::format(&before);
    // A formatter must never cost anybody a file.
    if !dsl::parse::parse(file, &after).1.is_empty() {
        return Err(Unformatted::Fault);
    }
    Ok(Formatted { before, after })
}

fn listed(name: &str, done: &Formatted, out: &mut Output) -> Exit {
    if !done.changed() {
        return Exit::Fine;
    }
    out.say(format!("{name}\n"));
    Exit::No
}

fn written(path: &Path, done: &Formatted, out: &mut Output) -> Exit {
    if !done.changed() {
        return Exit::Fine;
    }
    match replace(path, &done.after) {
        Ok(()) => Exit::Fine,
        Err(error) => {
            let message = format!("cannot write `{}`: {error}", path.display());
            out.error(&message, "the file is as it was; its folder must be writable");
            Exit::Bad
        }
    }
}

/// Puts a text in the place of a file in one step, behind its links and with its permissions.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let real = fs::canonicalize(path)?;
    let permissions = fs::metadata(&real)?.permissions();
    if permissions.readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is read-only"));
    }
    let folder = real.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut file = tempfile::Builder::new().prefix(".wmc-fmt-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().set_permissions(permissions)?;
    file.as_file().sync_all()?;
    file.persist(&real)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wm");
        fs::write(&path, "old").unwrap();
        replace(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&path, permissions).unwrap();
        assert!(replace(&path, "newer").is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.wm"), folder.path().join("link.wm"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        replace(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
