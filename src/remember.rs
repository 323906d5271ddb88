//! Remembers checks without findings and repeats their output for the same question.
//!
//! "The same" are the command itself, the file's text and sizes, and every module that it used, read again. So a check of an
//! unchanged model costs little more than starting the process.
//!
//! It is a convenience: an entry that cannot be read or written counts as missing.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use dsl::folders::Folders;
use dsl::{Loader, Options};
use serde::{Deserialize, Serialize};

/// Answers that are kept. A question has one place, and a later one may take it: so there is never anything to clean up.
const PLACES: u64 = 256;

/// A question, and the file of its answer.
#[derive(Debug)]
pub(crate) struct Question {
    place: PathBuf,
    hash: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    question: u64,
    /// Modules that were used, and their texts.
    modules: Vec<(String, u64)>,
    told: String,
}

impl Question {
    /// None where nothing can be remembered.
    pub(crate) fn new(path: &Path, text: &str, roots: &[PathBuf], options: &Options) -> Option<Question> {
        Question::within(&folder()?, path, text, roots, options)
    }

    fn within(folder: &Path, path: &Path, text: &str, roots: &[PathBuf], options: &Options) -> Option<Question> {
        let real = fs::canonicalize(path).ok()?;
        let roots: Vec<PathBuf> = roots.iter().map(fs::canonicalize).collect::<Result<_, _>>().ok()?;
        let command = std::env::current_exe().ok()?;
        let built = fs::metadata(&command).ok()?;
        let asked = (&real, roots, &options.dims, &options.task, &options.protocol, &options.model);
        let place = folder.join(format!("{}.json", hash(&asked) % PLACES));
        Some(Question { place, hash: hash(&(asked, text, command, built.len(), built.modified().ok()?)) })
    }

    /// What was told, if all is as it was.
    pub(crate) fn recall(&self, loader: &Folders) -> Option<String> {
        let answer: Answer = serde_json::from_slice(&fs::read(&self.place).ok()?).ok()?;
        let same = |(module, text): &(String, u64)| loader.load(module).is_ok_and(|now| hash(&now.text) == *text);
        (answer.question == self.hash && answer.modules.iter().all(same)).then_some(answer.told)
    }

    /// Keeps what is told of a check without a word of complaint.
    pub(crate) fn remember(&self, loader: Folders, told: &str) {
        let modules = loader.into_imports().into_iter().map(|(module, import)| (module, hash(&import.text))).collect();
        let answer = Answer { question: self.hash, modules, told: told.to_string() };
        let _ = write(&self.place, &answer);
    }
}

/// Whole or not at all: another command may be reading.
fn write(place: &Path, answer: &Answer) -> std::io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer(&mut file, answer)?;
    file.persist(place)?;
    Ok(())
}

fn folder() -> Option<PathBuf> {
    Some(cache()?.join("checks"))
}

/// `WMC_CACHE`, where an empty one says that nothing is to be kept, or the user's own.
pub(crate) fn cache() -> Option<PathBuf> {
    let given = std::env::var_os("WMC_CACHE").map(PathBuf::from);
    given.or_else(runtime::cache::folder).filter(|folder| folder.is_absolute())
}

/// The same for the same command, which is all that is asked of it.
fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files;

    struct Asked {
        folder: tempfile::TempDir,
        options: Options,
    }

    impl Asked {
        fn question(&self) -> (Question, Folders) {
            let path = self.folder.path().join("m.wm");
            let text = fs::read_to_string(&path).unwrap();
            let loader = files::folders(&path, &[]).unwrap();
            (Question::within(&self.folder.path().join("kept"), &path, &text, &[], &self.options).unwrap(), loader)
        }

        fn told(&self) -> Option<String> {
            let (question, loader) = self.question();
            question.recall(&loader)
        }

        fn check(&self) {
            let (question, loader) = self.question();
            let text = fs::read_to_string(self.folder.path().join("m.wm")).unwrap();
            assert!(!dsl::check("m.wm", &text, &loader, &self.options).has_errors());
            question.remember(loader, "M ok");
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.folder.path().join(name), text).unwrap();
        }
    }

    #[test]
    fn told_again_until_something_changes() {
        let mut asked = Asked { folder: tempfile::tempdir().unwrap(), options: Options::default() };
        asked.write("m.wm", "use other\nfn four(x) { return twice(twice(x)) }\n");
        asked.write("other.wm", "fn twice(x) { return 2 * x }\n");
        assert_eq!(asked.told(), None);
        asked.check();
        assert_eq!(asked.told().as_deref(), Some("M ok"));

        asked.write("other.wm", "fn twice(x) { return x + x }\n");
        assert_eq!(asked.told(), None, "a module has changed");
        asked.write("other.wm", "fn twice(x) { return 2 * x }\n");
        assert_eq!(asked.told().as_deref(), Some("M ok"));

        asked.options.dims.push(("Q".into(), 9));
        assert_eq!(asked.told(), None, "a size has changed");
        asked.options.dims.clear();
        asked.write("m.wm", "use other\nfn eight(x) { return twice(twice(twice(x))) }\n");
        assert_eq!(asked.told(), None, "the text has changed");
    }

    #[test]
    fn a_damaged_answer_is_none() {
        let asked = Asked { folder: tempfile::tempdir().unwrap(), options: Options::default() };
        asked.write("m.wm", "fn twice(x) { return 2 * x }\n");
        asked.check();
        let (question, _) = asked.question();
        fs::write(&question.place, "{\"question\":").unwrap();
        assert_eq!(asked.told(), None);
    }
}
