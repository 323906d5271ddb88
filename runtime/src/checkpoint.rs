//! Checkpoints: a folder with tensors and a manifest, seen whole or not at all.
//!
//! A checkpoint is written beside its place, forced to the disk and renamed. `SHA256SUMS`, which `sha256sum -c` reads too, covers every
//! file of it, so that one which was cut off or edited is noticed; then the one before it is used.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::experience::Stored;
use crate::program::{State, Tensor};
use crate::train::{Counters, Snapshot};

/// The format that is written; others are refused.
const FORMAT: u32 = 1;
/// Checkpoints that are kept.
const KEPT: usize = 2;
const SUMS: &str = "SHA256SUMS";
const MANIFEST: &str = "manifest.json";
const LEARNT: &str = "learnt.safetensors";
const WORLD: &str = "world.safetensors";

/// What a checkpoint says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Of the model's texts, name and sizes.
    pub model: String,
    pub instruction_set: String,
    /// Bytes of the log that belong to the run up to here.
    pub log: u64,
    pub counters: Counters,
    /// Rows that the experience has seen.
    pub seen: u64,
    /// How long the training took up to here.
    #[serde(default)]
    pub seconds: f64,
}

/// Writes a checkpoint into a folder of them, and removes those that are too old.
pub fn write(folder: &Path, manifest: &Manifest, snapshot: &Snapshot) -> Result<PathBuf, Error> {
    let place = folder.join(format!("{:012}", manifest.counters.step));
    if place.exists() {
        if read(&place, &manifest.model).is_ok() {
            return Ok(place);
        }
        fs::remove_dir_all(&place).map_err(|e| Error::file(&place, e))?;
    }
    let draft = folder.join(format!(".draft-{}", std::process::id()));
    let written = fs::create_dir_all(&draft)
        .map_err(|e| Error::file(&draft, e))
        .and_then(|()| write_files(&draft, manifest, snapshot))
        .and_then(|()| fs::rename(&draft, &place).map_err(|e| Error::file(&place, e)));
    if written.is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    written?;
    sync(folder)?;
    for old in list(folder).iter().rev().skip(KEPT) {
        let _ = fs::remove_dir_all(old);
    }
    Ok(place)
}

fn write_files(draft: &Path, manifest: &Manifest, snapshot: &Snapshot) -> Result<(), Error> {
    let json = serde_json::to_vec_pretty(manifest).map_err(|e| Error::file(draft, e))?;
    let learnt: Vec<Numbers<'_>> = snapshot.learnt.iter().map(|(n, t)| Numbers::of(n.clone(), t)).collect();
    let mut world: Vec<Numbers<'_>> = snapshot.memory.iter().map(|(n, t)| Numbers::of(n.clone(), t)).collect();
    let stored = &snapshot.experience;
    let rows = stored.places.len();
    let width = stored.rows.len().checked_div(rows).unwrap_or(0);
    world.push(Numbers { name: "experience.rows".into(), shape: vec![rows, width], data: Data::F32(&stored.rows) });
    world.push(Numbers { name: "experience.places".into(), shape: vec![rows], data: Data::U32(&stored.places) });
    let environment = &snapshot.environment;
    world.push(Numbers { name: "environment".into(), shape: vec![environment.len()], data: Data::F64(environment) });
    let mut sums = String::new();
    for (name, bytes) in [(MANIFEST, json), (LEARNT, serialize(draft, &learnt)?), (WORLD, serialize(draft, &world)?)] {
        let _ = writeln!(sums, "{}  {name}", sha256(&bytes));
        write_whole(&draft.join(name), &bytes)?;
    }
    write_whole(&draft.join(SUMS), sums.as_bytes())?;
    sync(draft)
}

/// A file with its bytes on the disk.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|e| Error::file(path, e))
}

/// The names in a folder, on the disk.
fn sync(folder: &Path) -> Result<(), Error> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| Error::file(folder, e))
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An array on its way to a file.
struct Numbers<'a> {
    name: String,
    shape: Vec<usize>,
    data: Data<'a>,
}

enum Data<'a> {
    F32(&'a [f32]),
    F64(&'a [f64]),
    U32(&'a [u32]),
}

impl Numbers<'_> {
    fn of(name: String, tensor: &Tensor) -> Numbers<'_> {
        Numbers { name, shape: tensor.shape.clone(), data: Data::F32(&tensor.data) }
    }
}

fn serialize(place: &Path, all: &[Numbers<'_>]) -> Result<Vec<u8>, Error> {
    let bytes: Vec<(Dtype, Vec<u8>)> = all
        .iter()
        .map(|n| match n.data {
            Data::F32(x) => (Dtype::F32, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::F64(x) => (Dtype::F64, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::U32(x) => (Dtype::U32, x.iter().flat_map(|x| x.to_le_bytes()).collect()),
        })
        .collect();
    let mut views = Vec::new();
    for (n, (dtype, data)) in all.iter().zip(&bytes) {
        views.push((n.name.as_str(), TensorView::new(*dtype, n.shape.clone(), data).map_err(|e| Error::file(place, e))?));
    }
    safetensors::serialize(views, None).map_err(|e| Error::file(place, e))
}

/// Checkpoints of a folder, oldest first.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let is_step = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path());
    let mut all: Vec<PathBuf> = entries.filter(is_step).collect();
    all.sort();
    all
}

/// Removes what a killed run left half-written.
pub fn clean(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(".draft-") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The newest checkpoint that is whole, and why newer ones were not used.
pub fn newest(folder: &Path, model: &str) -> Result<(PathBuf, Manifest, Snapshot, Vec<String>), Error> {
    let mut reasons = Vec::new();
    for place in list(folder).into_iter().rev() {
        match read(&place, model) {
            Ok((manifest, snapshot)) => return Ok((place, manifest, snapshot, reasons)),
            Err(error) => reasons.push(format!("checkpoint {}: {error}", place.display())),
        }
    }
    if reasons.is_empty() {
        reasons.push("there is none: the run ended before its first".into());
    }
    Err(Error::NoCheckpoint { path: folder.to_path_buf(), reasons: reasons.join("\n") })
}

/// Reads a checkpoint, if every byte of it is as it was written and the model is the one that made it.
pub fn read(place: &Path, model: &str) -> Result<(Manifest, Snapshot), Error> {
    let load = |name: &str| fs::read(place.join(name)).map_err(|e| Error::file(place.join(name), e));
    let sums = String::from_utf8_lossy(&load(SUMS)?).into_owned();
    let checked = |name: &str| -> Result<Vec<u8>, Error> {
        let bytes = load(name)?;
        let wanted = sums.lines().find_map(|line| line.strip_suffix(&format!("  {name}")));
        match wanted {
            Some(sum) if sum == sha256(&bytes) => Ok(bytes),
            Some(_) => Err(Error::file(place.join(name), "it is not as it was written: it was cut off or edited")),
            None => Err(Error::file(place.join(SUMS), format!("it says nothing about `{name}`"))),
        }
    };
    let json = checked(MANIFEST)?;
    let format = serde_json::from_slice::<serde_json::Value>(&json).ok().and_then(|v| v.get("format")?.as_u64());
    if format != Some(u64::from(FORMAT)) {
        let told =
            format!("its format is {}, and this program reads {FORMAT}", format.map_or("unknown".into(), |f| f.to_string()));
        return Err(Error::file(place, told));
    }
    let manifest: Manifest = serde_json::from_slice(&json).map_err(|e| Error::file(place.join(MANIFEST), e))?;
    if manifest.model != model {
        return Err(Error::file(place, "it was made by another model, for another task or with other sizes"));
    }
    let bad = |e: safetensors::SafeTensorError| Error::file(place, e);
    let (learnt, world) = (checked(LEARNT)?, checked(WORLD)?);
    let learnt = SafeTensors::deserialize(&learnt).map_err(bad)?;
    let world = SafeTensors::deserialize(&world).map_err(bad)?;
    let state = |file: &SafeTensors<'_>, wanted: &dyn Fn(&str) -> bool| -> State {
        let tensors = file.tensors().into_iter().filter(|(name, _)| wanted(name));
        tensors
            .map(|(name, view)| (name, Tensor { shape: view.shape().to_vec(), data: each(view.data(), f32::from_le_bytes) }))
            .collect()
    };
    let snapshot = Snapshot {
        counters: manifest.counters.clone(),
        learnt: state(&learnt, &|_| true),
        memory: state(&world, &|name| name.starts_with("carry.")),
        environment: each(world.tensor("environment").map_err(bad)?.data(), f64::from_le_bytes),
        experience: Stored {
            rows: each(world.tensor("experience.rows").map_err(bad)?.data(), f32::from_le_bytes),
            places: each(world.tensor("experience.places").map_err(bad)?.data(), u32::from_le_bytes),
            total: manifest.seen,
        },
    };
    Ok((manifest, snapshot))
}

fn each<T, const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
}

/// The manifest of a snapshot.
pub fn manifest(snapshot: &Snapshot, model: &str, instruction_set: &str, log: u64) -> Manifest {
    Manifest {
        format: FORMAT,
        model: model.into(),
        instruction_set: instruction_set.into(),
        log,
        counters: snapshot.counters.clone(),
        seen: snapshot.experience.total,
        seconds: 0.0,
    }
}
