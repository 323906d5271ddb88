//! Checkpoints: folders with tensors and a manifest.
//!
//! [`write()`] writes a draft, syncs it, reads it back, validates it and only then renames it. `SHA256SUMS`, which `sha256sum -c`
//! reads too, covers every file. [`newest`] skips a checkpoint that is damaged or not finite and uses the one before it. The file
//! `best` names the checkpoint with the highest return; it stays when newer ones replace the others.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::disk;
use crate::experience::Stored;
use crate::program::{State, Tensor};
use crate::train::{Counters, Evaluation, Means, Snapshot};

/// The format that is written. Format 1 has no version and no sums of losses.
const FORMAT: u64 = 2;
const OLDEST: u64 = 1;
/// How many of the newest checkpoints [`write()`] keeps, unless you say otherwise.
pub const KEEP: usize = 2;
/// Names the best checkpoint.
const BEST: &str = "best";
const SUMS: &str = "SHA256SUMS";
const MANIFEST: &str = "manifest.json";
const LEARNT: &str = "learnt.safetensors";
const WORLD: &str = "world.safetensors";

/// The manifest of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u64,
    /// The version of wmc that wrote it.
    #[serde(default)]
    pub version: String,
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
    /// Sums of losses for the next line of the log.
    #[serde(default)]
    pub means: Means,
    /// It has what acting needs, and no training can go on from it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exported: bool,
}

/// Writes a checkpoint into a folder of them. Then removes older ones, but not the newest `keep` and not the best.
pub fn write(folder: &Path, manifest: &Manifest, snapshot: &Snapshot, keep: usize) -> Result<PathBuf, Error> {
    let place = folder.join(format!("{:012}", manifest.counters.step));
    disk::no_link(folder)?;
    disk::no_link(&place)?;
    if read(&place, &manifest.model).is_err() {
        if place.exists() {
            disk::remove_folder(&place)?;
        }
        let draft = folder.join(format!(".draft-{}", std::process::id()));
        let written = write_draft(&draft, manifest, snapshot).and_then(|()| disk::rename(&draft, &place));
        if written.is_err() {
            disk::discard(&draft);
        }
        written?;
    }
    let best = note_best(folder, &manifest.counters)?;
    // Later ones are of a run that went on from an earlier checkpoint: they are replaced when it gets there.
    let older = list(folder).into_iter().filter(|p| *p <= place);
    for old in older.rev().skip(keep.max(1)).filter(|old| Some(old) != best.as_ref()) {
        let _ = disk::remove_folder(&old);
    }
    Ok(place)
}

/// Notes in the file `best` which checkpoint has the highest return. A kill may come between a checkpoint and its note, so a resumed
/// run calls this first.
pub fn note_best(folder: &Path, counters: &Counters) -> Result<Option<PathBuf>, Error> {
    let name = |e: &Evaluation| format!("{:012}", e.step);
    let there = list(folder);
    let place = |e: &Evaluation| there.iter().find(|p| p.file_name().is_some_and(|n| *n == *name(e)));
    let returns = counters.evaluations.iter().filter(|e| !e.mean().is_nan()).filter_map(|e| Some((e, place(e)?)));
    let Some((evaluation, place)) = returns.reduce(|a, b| if b.0.mean() > a.0.mean() { b } else { a }) else { return Ok(None) };
    if best(folder).as_ref() != Some(place) {
        disk::replace(&folder.join(BEST), format!("{}\n", name(evaluation)).as_bytes())?;
    }
    Ok(Some(place.clone()))
}

/// The checkpoint that a path names: a folder, or the best one of `checkpoints/best`.
pub fn named(path: &Path) -> Result<PathBuf, Error> {
    match path.parent() {
        Some(folder) if path.ends_with(BEST) => best(folder).ok_or_else(|| Error::file(path, "no checkpoint has been evaluated")),
        _ => Ok(path.to_path_buf()),
    }
}

/// The checkpoint with the highest return, if one has been evaluated.
pub fn best(folder: &Path) -> Option<PathBuf> {
    let name = disk::read_text(&folder.join(BEST)).ok()?;
    list(folder).into_iter().find(|place| place.file_name().is_some_and(|n| *n == *name.trim_end()))
}

/// Writes the files of a checkpoint and makes sure that they can be read.
fn write_draft(draft: &Path, manifest: &Manifest, snapshot: &Snapshot) -> Result<(), Error> {
    disk::no_link(draft)?;
    fs::create_dir_all(draft).map_err(|e| Error::file(draft, e))?;
    write_files(draft, manifest, snapshot)?;
    let (found, back) = read_any(draft, &manifest.model)?;
    finite(draft, &back.learnt)?;
    let text = |manifest: &Manifest| serde_json::to_string(manifest).map_err(|e| Error::file(draft, e));
    if text(manifest)? != text(&found)? || !same_bits(snapshot, &back) {
        return Err(Error::damaged(draft, "what was read back is not what was written: the disk may be faulty"));
    }
    Ok(())
}

fn same_bits(one: &Snapshot, other: &Snapshot) -> bool {
    let state = |a: &State, b: &State| {
        let equal = |(x, y): ((&String, &Tensor), (&String, &Tensor))| {
            x.0 == y.0 && x.1.shape == y.1.shape && x.1.data.iter().map(|n| n.to_bits()).eq(y.1.data.iter().map(|n| n.to_bits()))
        };
        a.len() == b.len() && a.iter().zip(b).all(equal)
    };
    let (a, b) = (&one.experience, &other.experience);
    state(&one.learnt, &other.learnt)
        && state(&one.memory, &other.memory)
        && one.environment.iter().map(|n| n.to_bits()).eq(other.environment.iter().map(|n| n.to_bits()))
        && a.rows.iter().map(|n| n.to_bits()).eq(b.rows.iter().map(|n| n.to_bits()))
        && (&a.places, a.total) == (&b.places, b.total)
}

/// Parameters, slots and statistics with a number that is not finite are of no use.
fn finite(place: &Path, learnt: &State) -> Result<(), Error> {
    let bad = |t: &Tensor| t.data.iter().find(|x| !x.is_finite()).copied();
    match learnt.iter().find_map(|(name, t)| Some((name, bad(t)?))) {
        Some((name, value)) => Err(Error::damaged(place, format!("`{name}` is not finite ({value})"))),
        None => Ok(()),
    }
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
    let mut files = vec![(MANIFEST, json), (LEARNT, serialize(draft, &learnt)?)];
    if !manifest.exported {
        files.push((WORLD, serialize(draft, &world)?));
    }
    for (name, bytes) in files {
        let _ = writeln!(sums, "{}  {name}", sha256(&bytes));
        disk::write_synced(&draft.join(name), &bytes)?;
    }
    disk::write_synced(&draft.join(SUMS), sums.as_bytes())?;
    disk::sync_folder(draft)
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
    let is_step = |e: &fs::DirEntry| e.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    // The type of an entry is that of a link, not of what it points to.
    let folders = entries.filter(|e| is_step(e) && e.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<PathBuf> = folders.map(|e| e.path()).collect();
    all.sort();
    all
}

/// The newest checkpoint that is whole and finite, and why newer ones were not used.
pub fn newest(folder: &Path, model: &str) -> Result<(PathBuf, Manifest, Snapshot, Vec<String>), Error> {
    let mut reasons = Vec::new();
    for place in list(folder).into_iter().rev() {
        match read(&place, model) {
            Ok((manifest, snapshot)) => return Ok((place, manifest, snapshot, reasons)),
            Err(error) => reasons.push(format!("checkpoint {}: {error}", place.display())),
        }
    }
    if reasons.is_empty() {
        reasons.push("there is none: the run ended before its first checkpoint".into());
    }
    Err(Error::NoCheckpoint { path: folder.to_path_buf(), reasons: reasons.join("\n") })
}

/// Reads a checkpoint, if every byte of it is as it was written, the model is the one that made it and its numbers are finite.
pub fn read(place: &Path, model: &str) -> Result<(Manifest, Snapshot), Error> {
    let (manifest, snapshot) = read_any(place, model)?;
    finite(place, &snapshot.learnt)?;
    Ok((manifest, snapshot))
}

/// Writes a checkpoint with what acting needs alone: parameters, slow copies, running statistics. Gives how many numbers that is.
pub fn export(folder: &Path, manifest: &Manifest, snapshot: &Snapshot, log: u64) -> Result<usize, Error> {
    let is_needed = |name: &str| ["param.", "slow.", "running."].iter().any(|kind| name.starts_with(kind));
    let learnt: State = snapshot.learnt.iter().filter(|(n, _)| is_needed(n)).map(|(n, t)| (n.clone(), t.clone())).collect();
    let numbers = learnt.values().map(|tensor| tensor.data.len()).sum();
    let manifest = Manifest { exported: true, log, seen: 0, means: Means::default(), ..manifest.clone() };
    write(folder, &manifest, &Snapshot::of(snapshot.counters.clone(), learnt), KEEP)?;
    Ok(numbers)
}

/// The bytes of a file, if they have the checksum that was written with them.
fn checked(place: &Path, name: &str) -> Result<Vec<u8>, Error> {
    let (sums, bytes) = (disk::read(&place.join(SUMS))?, disk::read(&place.join(name))?);
    let sums = String::from_utf8_lossy(&sums);
    match sums.lines().find_map(|line| line.strip_suffix(&format!("  {name}"))) {
        Some(sum) if sum == sha256(&bytes) => Ok(bytes),
        Some(_) => Err(Error::damaged(place.join(name), "it is not as it was written: it was cut off or edited")),
        None => Err(Error::damaged(place.join(SUMS), format!("it says nothing about `{name}`"))),
    }
}

fn read_manifest(place: &Path) -> Result<Manifest, Error> {
    let json = checked(place, MANIFEST)?;
    let bad = |e: serde_json::Error| Error::damaged(place.join(MANIFEST), e);
    let value: serde_json::Value = serde_json::from_slice(&json).map_err(bad)?;
    match value["format"].as_u64() {
        Some(format) if (OLDEST..=FORMAT).contains(&format) => serde_json::from_slice(&json).map_err(bad),
        format => {
            let format = format.map_or("unknown".into(), |f| f.to_string());
            let version = value["version"].as_str().unwrap_or("another version");
            let told = format!("wmc {version} wrote it: its format is {format}, and this program reads {OLDEST} to {FORMAT}");
            Err(Error::damaged(place, told))
        }
    }
}

/// How far the newest checkpoint has come whose manifest is whole, its tensors aside.
pub fn reached(folder: &Path) -> Option<Counters> {
    list(folder).iter().rev().find_map(|place| read_manifest(place).ok()).map(|manifest| manifest.counters)
}

fn read_any(place: &Path, model: &str) -> Result<(Manifest, Snapshot), Error> {
    let manifest = read_manifest(place)?;
    if manifest.model != model {
        return Err(Error::damaged(place, "it was made by another model, for another task or with other sizes"));
    }
    let bad = |e: safetensors::SafeTensorError| Error::damaged(place, e);
    let learnt = checked(place, LEARNT)?;
    let learnt = SafeTensors::deserialize(&learnt).map_err(bad)?;
    let numbers = |file: &SafeTensors<'_>, name: &str, dtype: Dtype| -> Result<Vec<u8>, Error> {
        let tensor = file.tensor(name).map_err(bad)?;
        if tensor.dtype() != dtype {
            let told = format!("`{name}` has numbers of type {:?} and should have {dtype:?}", tensor.dtype());
            return Err(Error::damaged(place, told));
        }
        Ok(tensor.data().to_vec())
    };
    let state = |file: &SafeTensors<'_>, wanted: &dyn Fn(&str) -> bool| -> Result<State, Error> {
        let tensors = file.tensors().into_iter().filter(|(name, _)| wanted(name));
        let tensor = |(name, view): (String, TensorView<'_>)| {
            let data = each(&numbers(file, &name, Dtype::F32)?, f32::from_le_bytes);
            Ok((name, Tensor { shape: view.shape().to_vec(), data }))
        };
        tensors.map(tensor).collect()
    };
    let counters = manifest.counters.clone();
    let learnt = state(&learnt, &|_| true)?;
    if manifest.exported {
        return Ok((manifest, Snapshot::of(counters, learnt)));
    }
    let world = checked(place, WORLD)?;
    let world = SafeTensors::deserialize(&world).map_err(bad)?;
    let snapshot = Snapshot {
        counters,
        learnt,
        memory: state(&world, &|name| name.starts_with("carry."))?,
        environment: each(&numbers(&world, "environment", Dtype::F64)?, f64::from_le_bytes),
        experience: Stored {
            rows: each(&numbers(&world, "experience.rows", Dtype::F32)?, f32::from_le_bytes),
            places: each(&numbers(&world, "experience.places", Dtype::U32)?, u32::from_le_bytes),
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
        version: env!("CARGO_PKG_VERSION").into(),
        model: model.into(),
        instruction_set: instruction_set.into(),
        log,
        counters: snapshot.counters.clone(),
        seen: snapshot.experience.total,
        seconds: 0.0,
        means: Means::default(),
        exported: false,
    }
}
