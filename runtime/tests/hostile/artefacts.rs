//! Mutants of an artefact: any number, text or list of its document, with a sum that is right.

use std::path::PathBuf;

use compiler::artefact::{About, Artefact, EntryPoint};
use compiler::backend::Device;
use compiler::backend::cpu::guard::{Side, guard};
use compiler::kernel::fuse::Level;
use compiler::kernel::verify::operations;
use compiler::lower::Entry;
use compiler::testing::Rng;
use serde_json::Value;
use wmc_runtime::checkpoint;
use wmc_runtime::policy::Policy;
use wmc_runtime::program::Compute;
use wmc_runtime::train::Trainer;

use crate::campaign::{Ended, Runner};
use crate::kernels::{WORK, odd};
use crate::text::{mutated, number};

#[path = "../common/mod.rs"]
mod common;

pub(crate) struct Artefacts {
    folder: tempfile::TempDir,
    checkpoint: PathBuf,
    document: Value,
}

impl Artefacts {
    pub(crate) fn new() -> Artefacts {
        let folder = tempfile::tempdir().expect("a folder");
        let config = common::starter();
        let model = config.model.clone();
        let trainer = Trainer::new(config).expect("it starts");
        let mut trainer = trainer;
        let snapshot = trainer.save().expect("it saves");
        let manifest = checkpoint::manifest(&snapshot, "a model", trainer.computes_with(), 0);
        let checkpoint = checkpoint::write(folder.path(), &manifest, &snapshot, 2).expect("it is written");
        let about = About {
            model: model.name.clone(),
            fingerprint: "a model".into(),
            compiler: "this build".into(),
            targets: vec!["cpu".into()],
            level: "mega".into(),
            batch: None,
            entries: vec!["plan".into()],
        };
        let plan = EntryPoint::compile(&model, Entry::Plan, None, Level::Mega).expect("it compiles");
        let bytes = Artefact { about, model, entries: vec![plan] }.write().expect("it is written");
        let body = bytes.splitn(3, |b| *b == b'\n').nth(2).expect("a document");
        Artefacts { checkpoint, document: serde_json::from_slice(body).expect("JSON"), folder }
    }
}

impl Runner for Artefacts {
    fn mutant(&mut self, seed: u64) -> Ended {
        let mut rng = Rng::new(seed ^ 0xa47e_fac7);
        let mut document = self.document.clone();
        for _ in 0..1 + rng.below(2) {
            mutate(&mut rng, &mut document, "");
        }
        let body = document.to_string();
        let bytes = format!("wmx 1\nsha256 {}\n{body}", checkpoint::sha256(body.as_bytes()));
        let Ok(artefact) = Artefact::read(bytes.as_bytes()) else { return Ended::Refused };
        if artefact.entry(Entry::Plan).is_some_and(|plan| operations(&plan.kernels) > 50 * WORK) {
            return Ended::Long;
        }
        let path = self.folder.path().join("x.wmx");
        std::fs::write(&path, &bytes).expect("it is written");
        guard(Some(if seed.is_multiple_of(2) { Side::End } else { Side::Start }));
        let compute = Compute { level: Level::Mega, threads: 1, device: Device::Cpu };
        let Ok(mut policy) = Policy::load(&path, &self.checkpoint, 3, compute) else { return Ended::Refused };
        for _ in 0..3 {
            let seen: Vec<f64> = (0..policy.observation_size().min(1 << 20)).map(|_| f64::from(odd(&mut rng))).collect();
            let _ = policy.plan(&seen);
            let _ = policy.outcome(1.0, false);
        }
        let _ = policy.reset();
        let _ = policy.plan(&vec![0.5; policy.observation_size().min(1 << 20)]);
        Ended::Ran
    }
}

/// Changes something inside of a value, or the value itself.
fn mutate(rng: &mut Rng, value: &mut Value, name: &str) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let chosen = rng.below(fields.len());
            let key = fields.keys().nth(chosen).cloned().unwrap_or_default();
            mutate(rng, &mut fields[&key], &key);
        }
        Value::Array(list) if !list.is_empty() => {
            let (a, b) = (rng.below(list.len()), rng.below(list.len()));
            match rng.below(12) {
                0 => drop(list.remove(a)),
                1 => list.insert(b, list[a].clone()),
                2 => list.swap(a, b),
                _ => mutate(rng, &mut list[a], name),
            }
        }
        Value::String(text) if name == "kernels" => (0..1 + rng.below(3)).for_each(|_| *text = mutated(rng, text)),
        Value::String(text) => *text = ["", "obs", "plan", "a\u{1b}[2J", "B", "0"][rng.below(6)].to_string(),
        Value::Number(n) => {
            let was = n.as_u64().unwrap_or(0);
            *value = match rng.below(6) {
                0 => Value::from(-1),
                1 => Value::from(n.as_f64().unwrap_or(0.0) * -1e30),
                _ => Value::from(number(rng, was)),
            };
        }
        Value::Bool(flag) => *flag = !*flag,
        Value::Array(list) => list.push(Value::from(0)),
        Value::Object(_) | Value::Null => *value = Value::from(0),
    }
}
