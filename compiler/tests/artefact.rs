//! Artefacts: they come back as they were written, and are refused when they are not.

mod support;

use dsl::hir::Model;
use sha2::Digest;
use support::{models, project};
use wmc_compiler::artefact::{About, Artefact, ArtefactError, CompileError, EntryPoint, about};
use wmc_compiler::kernel::fuse::Level;
use wmc_compiler::kernel::text;
use wmc_compiler::lower::{Entry, LowerError};

fn artefact(model: Model, entries: &[Entry]) -> Artefact {
    let compile = |entry: &Entry| match EntryPoint::compile(&model, *entry, None, Level::Mega) {
        Ok(entry) => Some(entry),
        Err(CompileError::Lower(LowerError::NoEntry { .. })) => None,
        Err(e) => panic!("{} {}: {e}", model.name, entry.name()),
    };
    let entries: Vec<EntryPoint> = entries.iter().filter_map(compile).collect();
    let about = About {
        model: model.name.clone(),
        fingerprint: "of its text".into(),
        compiler: "a build".into(),
        targets: vec!["cpu".into()],
        level: "mega".into(),
        batch: None,
        entries: entries.iter().map(|e| e.name().to_string()).collect(),
    };
    Artefact { about, model, entries }
}

fn starter() -> Artefact {
    let model = models(&project("src/starter.wm"), &[("O", 3), ("A", 1)]).remove(0);
    artefact(model, &Entry::ALL)
}

#[test]
fn come_back_as_they_were() {
    let first = starter();
    assert!(first.entries.len() >= 5);
    let bytes = first.write().unwrap();
    assert_eq!(about(&bytes), Ok(first.about.clone()));
    let back = Artefact::read(&bytes).unwrap();
    assert!(back.model == first.model);
    for (a, b) in first.entries.iter().zip(&back.entries) {
        assert_eq!(a.interface, b.interface);
        // All but what `explain` says of kernels.
        let without_notes = text::parse(&text::print(&a.kernels)).unwrap();
        assert!(without_notes == b.kernels, "{}", a.name());
    }
    assert_eq!(back.write().map(|b| Artefact::read(&b)), Ok(Ok(back)));
}

/// A checked model is plain data: no number of any model is lost in JSON.
#[test]
fn all_models_come_back() {
    let files = [
        "hamworld",
        "hamworld_cartpole",
        "hamworld_s6",
        "hamworld_literal",
        "hamworld_light",
        "hamworld_mamba2",
        "ablations",
        "tdmpc2",
        "dreamerv3",
        "sac",
        "ppo",
    ];
    for file in files {
        for model in models(&project("models").join(format!("{file}.wm")), &[("O", 17), ("A", 6)]) {
            let first = artefact(model, &[Entry::Schedules]);
            let back = Artefact::read(&first.write().unwrap()).unwrap_or_else(|e| panic!("{}: {e}", first.model.name));
            assert!(back.model == first.model, "{}", first.model.name);
        }
    }
}

#[test]
fn are_refused_with_the_reason() {
    let bytes = starter().write().unwrap();
    let refused = |bytes: &[u8]| Artefact::read(bytes).map(|a| a.about.model).unwrap_err();
    assert_eq!(refused(b"\x7fELF"), ArtefactError::Foreign);
    assert_eq!(refused(b""), ArtefactError::Foreign);
    assert_eq!(refused(&bytes[..bytes.len() - 1]), ArtefactError::Edited);
    assert_eq!(refused(&bytes[..20]), ArtefactError::Edited);
    let mut other = bytes.clone();
    other[4] = b'7';
    assert_eq!(refused(&other), ArtefactError::Format("7, written by `a build`".into()));
    // A document of another version, with a sum that is right.
    let text = String::from_utf8(bytes.clone()).unwrap();
    let body = text.splitn(3, '\n').nth(2).unwrap().replace("\"draws\":", "\"drawn\":");
    let sum = sha2::Sha256::digest(body.as_bytes()).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let said = refused(format!("wmx 1\nsha256 {sum}\n{body}").as_bytes()).to_string();
    assert!(said.contains("missing field `draws`") && said.contains("written by `a build`"), "{said}");
    // A bit at a time, all over the file.
    for place in (6..bytes.len()).step_by(bytes.len() / 40) {
        let mut edited = bytes.clone();
        edited[place] ^= 1;
        assert_eq!(refused(&edited), ArtefactError::Edited, "byte {place}");
    }
}
