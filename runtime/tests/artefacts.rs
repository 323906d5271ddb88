//! Artefacts and checkpoints of strangers: whatever is in them, loading one ends in a policy or in a message.

mod common;

use std::path::{Path, PathBuf};

use common::starter;
use compiler::artefact::{About, Artefact, EntryPoint};
use compiler::kernel::fuse::Level;
use compiler::lower::Entry;
use compiler::testing::crafted;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use wmc_runtime::checkpoint;
use wmc_runtime::policy::Policy;
use wmc_runtime::program::Compute;
use wmc_runtime::train::Trainer;

/// The honest artefact, and a checkpoint that it goes with.
fn honest(folder: &Path) -> (Artefact, PathBuf) {
    let config = starter();
    let model = config.model.clone();
    let mut trainer = Trainer::new(config).unwrap();
    (0..10).for_each(|_| drop(trainer.advance().unwrap()));
    let snapshot = trainer.save().unwrap();
    let manifest = checkpoint::manifest(&snapshot, "a model", trainer.computes_with(), 0);
    let place = checkpoint::write(folder, &manifest, &snapshot, 2).unwrap();
    let about = About {
        model: model.name.clone(),
        fingerprint: "a model".into(),
        compiler: "this build".into(),
        targets: vec!["cpu".into()],
        level: "mega".into(),
        batch: None,
        entries: vec!["plan".into()],
    };
    let plan = EntryPoint::compile(&model, Entry::Plan, None, Level::Mega).unwrap();
    (Artefact { about, model, entries: vec![plan] }, place)
}

#[test]
fn crafted_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (artefact, checkpoint) = honest(folder.path());
    let path = folder.path().join("x.wmx");
    let acts = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let mut policy = Policy::load(&path, &checkpoint, 3, Compute::default()).map_err(|e| e.to_string())?;
        policy.plan(&[1000.0, 0.25, 1.0]).map_err(|e| e.to_string())
    };
    let wanted = acts(&artefact.write().unwrap()).unwrap();
    for one in crafted(&artefact) {
        let found = acts(&one.bytes);
        match one.refused {
            None => assert_eq!(found.as_ref(), Ok(&wanted), "{}", one.name),
            Some(words) => {
                let said = found.expect_err(one.name);
                assert!(said.contains(words) && said.contains("x.wmx"), "{}: {said}", one.name);
            }
        }
    }
}

/// A tensor of a file: its type, its shape and its bytes.
type Stored = (Dtype, Vec<usize>, Vec<u8>);

/// Writes a file of a checkpoint anew, with sums that are right.
fn rewrite(checkpoint: &Path, file: &str, change: impl Fn(&str, TensorView<'_>) -> Stored) {
    let bytes = std::fs::read(checkpoint.join(file)).unwrap();
    let read = SafeTensors::deserialize(&bytes).unwrap();
    let made: Vec<(String, Stored)> =
        read.tensors().into_iter().map(|(name, view)| (name.clone(), change(&name, view))).collect();
    let views = made.iter().map(|(n, (dtype, shape, data))| (n.as_str(), TensorView::new(*dtype, shape.clone(), data).unwrap()));
    let written = safetensors::serialize(views, None).unwrap();
    let sums = std::fs::read_to_string(checkpoint.join("SHA256SUMS")).unwrap();
    let sums = sums.replace(&checkpoint::sha256(&bytes), &checkpoint::sha256(&written));
    std::fs::write(checkpoint.join(file), written).unwrap();
    std::fs::write(checkpoint.join("SHA256SUMS"), sums).unwrap();
}

#[test]
fn tensors_of_another_type_are_refused() {
    let kept = |view: TensorView<'_>| (view.dtype(), view.shape().to_vec(), view.data().to_vec());
    let types = [Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8, Dtype::I32, Dtype::I64, Dtype::BOOL];
    for (file, chosen) in [("learnt.safetensors", "param."), ("world.safetensors", "experience.places")] {
        for dtype in types {
            let folder = tempfile::tempdir().unwrap();
            let (_, place) = honest(folder.path());
            rewrite(&place, file, |name, view| {
                if !name.starts_with(chosen) {
                    return kept(view);
                }
                let entries = view.shape().iter().product::<usize>();
                (dtype, view.shape().to_vec(), vec![0; entries * dtype.bitsize() / 8])
            });
            let said = checkpoint::read(&place, "a model").map(drop).unwrap_err().to_string();
            assert!(said.contains(chosen) && said.contains(&format!("of type {dtype:?}")), "{dtype:?}: {said}");
        }
    }
}
