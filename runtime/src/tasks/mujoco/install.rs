//! Fetches MuJoCo and the control suite's models out of their Python wheels: with pip, into the user's cache, hashes verified. No Python
//! package is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::MujocoError;

pub const VERSION: &str = "3.17.0";
pub(super) const VERSION_NUMBER: i32 = 3_017_000;
const SUITE_VERSION: &str = "1.0.50";

/// What a platform's wheel is called and hashes to. Of those that are not here nobody has run the tests.
struct Wheel {
    platform: &'static str,
    sha256: &'static str,
}

const WHEELS: [(&str, &str, Wheel); 1] = [(
    "linux",
    "x86_64",
    Wheel { platform: "manylinux_2_28_x86_64", sha256: "d66928d86a2d1b601bbaa4dc11db50214d17d5301bb8afd84721313b67ff0874" },
)];
const SUITE_SHA256: &str = "5434e1e51ff69016867426da7df6064b18d140e4d0a628f879bbcf0e7d0a586d";

/// Where the parts of an installation are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub library: PathBuf,
    /// The folder of the suite's models.
    pub suite: PathBuf,
}

fn places(folder: &Path) -> Installed {
    Installed {
        library: folder.join("mujoco").join(format!("libmujoco.so.{VERSION}")),
        suite: folder.join("dm_control").join("suite"),
    }
}

/// The installation that there is.
pub fn installed() -> Result<Installed, MujocoError> {
    let places = places(&super::folder()?);
    for path in [&places.library, &places.suite.join("cheetah.xml")] {
        if !path.exists() {
            return Err(MujocoError::Missing { missing: path.display().to_string() });
        }
    }
    Ok(places)
}

/// Fetches what is missing. `tell` hears what is being done.
pub fn install(mut tell: impl FnMut(&str)) -> Result<Installed, MujocoError> {
    // Threads of one process wait for each other; of several processes the first one wins.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = super::folder()?;
    if let Ok(found) = installed() {
        tell(&format!("MuJoCo {VERSION} is already in {}", folder.display()));
        return Ok(found);
    }
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let Some((.., wheel)) = WHEELS.iter().find(|(o, a, _)| *o == os && *a == arch) else {
        return Err(MujocoError::Install(format!(
            "no wheel is pinned for {os} on {arch}; put libmujoco {VERSION} and the suite's models into a folder laid out as \
             docs/guide/training.md says, and set WMC_MUJOCO to it"
        )));
    };
    let python = python()?;
    // Beside its place, so that the last step is a rename and a half-done installation is never seen.
    let draft = folder.with_extension(format!("draft-{}", std::process::id()));
    let result = fetch(python, wheel, &draft, &mut tell).and_then(|()| {
        if installed().is_ok() {
            return Ok(());
        }
        let _ = fs::remove_dir_all(&folder);
        fs::rename(&draft, &folder).map_err(|e| io(&folder, &e))
    });
    let _ = fs::remove_dir_all(&draft);
    result?;
    tell(&format!("MuJoCo {VERSION} is in {}", folder.display()));
    installed()
}

fn io(path: &Path, error: &std::io::Error) -> MujocoError {
    MujocoError::Install(format!("cannot write `{}`: {error}", path.display()))
}

/// A Python that has pip.
fn python() -> Result<&'static str, MujocoError> {
    let has_pip = |python: &&str| {
        Command::new(*python).args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success())
    };
    ["python3", "python"].into_iter().find(|python| has_pip(python)).ok_or_else(|| {
        MujocoError::Install(
            "it is fetched with pip, and there is no Python with pip here: install one (as in `apt install python3-pip`) and \
             try again. The embedded tasks need nothing"
                .into(),
        )
    })
}

fn fetch(python: &str, wheel: &Wheel, draft: &Path, tell: &mut impl FnMut(&str)) -> Result<(), MujocoError> {
    let wheels = draft.join("wheels");
    fs::create_dir_all(&wheels).map_err(|e| io(&wheels, &e))?;
    let any = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check"];
    let package = |name: &str, version: &str| format!("{name}=={version}");
    // The Python version is part of the wheel's name and not the user's: nothing of Python is taken from it.
    let library = ["--implementation", "cp", "--python-version", "3.11", "--abi", "cp311", "--platform", wheel.platform];
    for (name, version, more, sha256) in
        [("mujoco", VERSION, &library[..], wheel.sha256), ("dm_control", SUITE_VERSION, &[], SUITE_SHA256)]
    {
        tell(&format!("fetching {name} {version}"));
        let mut command = Command::new(python);
        command.args(any).args(more).arg("-d").arg(&wheels).arg(package(name, version));
        run(&mut command)?;
        let path = found(&wheels, name)?;
        let bytes = fs::read(&path).map_err(|e| io(&path, &e))?;
        let hash = crate::checkpoint::sha256(&bytes);
        if hash != sha256 {
            let told = format!("`{name}` {version} has the SHA-256 {hash} and should have {sha256}: nothing was installed");
            return Err(MujocoError::Install(told));
        }
        // Only what is needed: one library, a handful of models, the licences.
        let script = "import sys, zipfile\n\
                      z = zipfile.ZipFile(sys.argv[1])\n\
                      z.extractall(sys.argv[2], [n for n in z.namelist() if 'libmujoco.so' in n or 'LICENSE' in n \
                      or n.startswith('dm_control/suite/') and n.endswith('.xml')])";
        run(Command::new(python).args(["-c", script]).arg(&path).arg(draft))?;
    }
    fs::remove_dir_all(&wheels).map_err(|e| io(&wheels, &e))
}

fn run(command: &mut Command) -> Result<(), MujocoError> {
    let output = command.output().map_err(|e| MujocoError::Install(format!("cannot run Python: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = told.lines().rev().filter(|l| !l.trim().is_empty()).take(3).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(MujocoError::Install(format!("pip failed: {}", last.join("; "))))
}

/// The wheel of a package.
fn found(folder: &Path, package: &str) -> Result<PathBuf, MujocoError> {
    let entries = fs::read_dir(folder).map_err(|e| io(folder, &e))?;
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&format!("{package}-")));
    entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .find(is_it)
        .ok_or_else(|| MujocoError::Install(format!("pip fetched no wheel of `{package}`")))
}
