//! Copies of this program that are kept with the runs of an experiment.
//!
//! Runs take days, and the program is built again meanwhile. So `FOLDER/builds/wmc-COMMIT` keeps a copy of the build that started a
//! run, and the run goes on with that copy.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use runtime::run::Run;

/// The commit of this program.
pub(crate) const COMMIT: &str = env!("WMC_COMMIT");

#[derive(Debug)]
pub(crate) struct Builds {
    folder: PathBuf,
    /// Runs of other builds go on with this one.
    replace: bool,
    own: OnceLock<Result<PathBuf, String>>,
}

impl Builds {
    pub(crate) fn new(folder: &Path, replace: bool) -> Builds {
        Builds { folder: folder.join("builds"), replace, own: OnceLock::new() }
    }

    /// The copy of this program. The first call makes it.
    pub(crate) fn own(&self) -> Result<PathBuf, String> {
        self.own.get_or_init(|| self.keep()).clone()
    }

    /// The program that a run goes on with: the build that started it last.
    pub(crate) fn of(&self, run: &Run) -> Result<PathBuf, String> {
        // Formats of earlier versions do not say.
        let Some(start) = run.starts.last().filter(|start| start.commit != COMMIT && !self.replace) else { return self.own() };
        let kept = self.place(&start.commit);
        if kept.is_file() {
            return Ok(kept);
        }
        Err(format!(
            "wmc {} of the commit {} started it, and this is the commit {COMMIT}: another build may compute other numbers; \
             put that build at `{}`, or go on with this one: `wmc experiment FILE --new-build`",
            start.version,
            start.commit,
            kept.display()
        ))
    }

    fn place(&self, commit: &str) -> PathBuf {
        let commit: String = commit.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
        self.folder.join(format!("wmc-{commit}{}", std::env::consts::EXE_SUFFIX))
    }

    fn keep(&self) -> Result<PathBuf, String> {
        let program = std::env::current_exe().map_err(|e| format!("cannot find this program again: {e}"))?;
        let place = self.place(COMMIT);
        let fail = |e: std::io::Error| format!("cannot keep a copy of this program at `{}`: {e}", place.display());
        if place.is_file() && !self.replace {
            return match same(&program, &place).map_err(fail)? {
                true => Ok(place),
                false => Err(format!(
                    "`{}` is another build of the same commit: it may compute other numbers; \
                     run that one, or replace it by this one: `wmc experiment FILE --new-build`",
                    place.display()
                )),
            };
        }
        fs::create_dir_all(&self.folder).map_err(fail)?;
        let draft = self.folder.join(format!(".draft-{}", std::process::id()));
        fs::copy(&program, &draft).and_then(|_| fs::rename(&draft, &place)).map_err(fail)?;
        Ok(place)
    }
}

/// Whether two files have the same bytes.
fn same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    let (mut a, mut b) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let read = one.read(&mut a)?;
        if read == 0 {
            return Ok(true);
        }
        other.read_exact(&mut b[..read])?;
        if a[..read] != b[..read] {
            return Ok(false);
        }
    }
}
