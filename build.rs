//! Gives the program the commit that it is built from, for `run.json`. Packagers without a repository may set `WMC_COMMIT`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=WMC_COMMIT");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_string())
    };
    // Changes with every commit and checkout. A file that is not there would mean to build again every time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| std::path::Path::new(path).is_file()) {
        println!("cargo:rerun-if-changed={log}");
    } else {
        println!("cargo:rerun-if-changed=build.rs");
    }
    let commit = std::env::var("WMC_COMMIT").ok().or_else(|| git(&["rev-parse", "HEAD"]));
    println!("cargo:rustc-env=WMC_COMMIT={}", commit.unwrap_or_else(|| "unknown".into()));
}
