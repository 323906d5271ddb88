//! What a user of the macros sees: cases that compile and run, and cases with what rustc says about them.

use std::path::{Path, PathBuf};

#[test]
fn ui() {
    // trybuild compiles the cases in a package of its own; paths in them start at that package's folder.
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tests/trybuild").join(env!("CARGO_PKG_NAME"));
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ui/models"), &package.join("models"));

    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}

fn copy(from: &Path, to: &PathBuf) {
    std::fs::create_dir_all(to).unwrap();
    for file in from.read_dir().unwrap().map(|f| f.unwrap()) {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
