//! Checkpoints: the order of file operations, a kill between any two of them, and what is kept.

use std::path::{Path, PathBuf};

use wmc_runtime::checkpoint;
use wmc_runtime::disk::{self, Operation};
use wmc_runtime::experience::Stored;
use wmc_runtime::program::Tensor;
use wmc_runtime::train::{Counters, Evaluation, Snapshot};

/// A snapshot at the step of the last of these evaluations.
fn snapshot(returns: &[(u64, f64)]) -> Snapshot {
    let evaluation = |(step, mean): &(u64, f64)| Evaluation { step: *step, returns: vec![*mean], metrics: Vec::new() };
    let step = returns.last().map_or(0, |(step, _)| *step);
    let weight = Tensor { shape: vec![2], data: vec![step as f32, 0.5] };
    Snapshot {
        counters: Counters { step, updates: step, evaluations: returns.iter().map(evaluation).collect(), ..Counters::default() },
        learnt: [("param.w".to_string(), weight)].into(),
        memory: Default::default(),
        environment: vec![1.0],
        experience: Stored { rows: vec![0.25; 3], places: vec![0, 1, 2], total: 3 },
    }
}

fn write(folder: &Path, snapshot: &Snapshot, keep: usize) -> Result<PathBuf, wmc_runtime::Error> {
    checkpoint::write(folder, &checkpoint::manifest(snapshot, "m", "avx2", 0), snapshot, keep)
}

fn steps(folder: &Path) -> Vec<u64> {
    let name = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().parse().unwrap();
    checkpoint::list(folder).iter().map(name).collect()
}

fn best(folder: &Path) -> Option<u64> {
    checkpoint::best(folder).map(|p| p.file_name().unwrap().to_str().unwrap().parse().unwrap())
}

const RETURNS: [(u64, f64); 5] = [(10, 1.0), (20, 5.0), (30, f64::NAN), (40, 2.0), (50, 5.0)];

#[test]
fn the_newest_and_the_best_are_kept() {
    for (keep, kept) in [(1, vec![20, 50]), (2, vec![20, 40, 50]), (9, vec![10, 20, 30, 40, 50])] {
        let folder = tempfile::tempdir().unwrap();
        for last in 1..=RETURNS.len() {
            write(folder.path(), &snapshot(&RETURNS[..last]), keep).unwrap();
        }
        assert_eq!((steps(folder.path()), best(folder.path())), (kept, Some(20)));
    }
}

#[test]
fn a_checkpoint_is_written_synced_renamed_and_its_folder_synced() {
    let folder = tempfile::tempdir().unwrap();
    let (place, trace) = disk::traced(|| write(folder.path(), &snapshot(&RETURNS[..1]), 2).unwrap());
    let rename = |o: &Operation, to: &Path| matches!(o, Operation::Rename(_, new) if *new == to);
    let renamed = trace.iter().position(|o| rename(o, &place)).unwrap();
    let Operation::Rename(draft, _) = &trace[renamed] else { unreachable!() };
    for file in ["manifest.json", "learnt.safetensors", "world.safetensors", "SHA256SUMS"] {
        let at = |o: Operation| trace.iter().position(|x| *x == o).unwrap();
        let (written, synced) = (at(Operation::Write(draft.join(file))), at(Operation::Sync(draft.join(file))));
        assert!(written < synced && synced < renamed, "{trace:#?}");
    }
    assert_eq!(trace[renamed - 1], Operation::SyncFolder(draft.clone()));
    assert_eq!(trace[renamed + 1], Operation::SyncFolder(folder.path().to_path_buf()));
    // `best` comes after the checkpoint that it names, in the same order; old ones are removed last.
    let note = folder.path().join("best");
    let noted = trace.iter().position(|o| rename(o, &note)).unwrap();
    assert!(renamed < noted && matches!(trace[noted - 1], Operation::Sync(_)), "{trace:#?}");
    assert_eq!(trace[noted + 1], Operation::SyncFolder(folder.path().to_path_buf()));
}

/// Kills the writing of a checkpoint that is the best and replaces two others between each two operations, then goes on.
#[test]
fn a_kill_at_any_operation_loses_nothing() {
    let returns = [(10, 1.0), (20, 0.5), (30, 0.25), (40, 2.0)];
    let (before, after) = (snapshot(&returns[..3]), snapshot(&returns));
    let mut kills = 0;
    for limit in 0.. {
        let folder = tempfile::tempdir().unwrap();
        for last in 1..=3 {
            write(folder.path(), &snapshot(&returns[..last]), 2).unwrap();
        }
        assert_eq!((steps(folder.path()), best(folder.path())), (vec![10, 20, 30], Some(10)));
        let (written, trace) = disk::killed_after(limit, || write(folder.path(), &after, 2));
        // What a resumed run does.
        disk::discard_drafts(folder.path());
        let (_, _, found, unused) = checkpoint::newest(folder.path(), "m").unwrap();
        assert_eq!(unused, Vec::<String>::new(), "after {trace:?}");
        assert!(found == before || found == after, "after {trace:?}");
        checkpoint::note_best(folder.path(), &found.counters).unwrap();
        assert_eq!(best(folder.path()), Some(if found == after { 40 } else { 10 }), "after {trace:?}");
        write(folder.path(), &after, 2).unwrap();
        assert_eq!((steps(folder.path()), best(folder.path())), (vec![30, 40], Some(40)), "after {trace:?}");
        if trace.len() < limit {
            assert!(written.is_ok());
            break;
        }
        kills += 1;
    }
    assert!(kills > 15, "only {kills} places for a kill");
}

#[test]
fn a_checkpoint_with_a_number_that_is_not_finite_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &snapshot(&RETURNS[..1]), 2).unwrap();
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut bad = snapshot(&RETURNS[..2]);
        bad.learnt.get_mut("param.w").unwrap().data[1] = value;
        let told = write(folder.path(), &bad, 2).unwrap_err().to_string();
        assert!(told.contains("`param.w` is not finite"), "{told}");
        assert_eq!(steps(folder.path()), [10]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a draft was left");
    }
}

#[test]
fn metrics_that_are_not_finite_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut odd = snapshot(&[(10, f64::INFINITY), (20, 3.0)]);
    let numbers = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.5];
    odd.counters.evaluations[1].metrics = vec![("err".into(), numbers)];
    write(folder.path(), &odd, 2).unwrap();
    let (_, _, found, _) = checkpoint::newest(folder.path(), "m").unwrap();
    let bits =
        |s: &Snapshot| s.counters.evaluations[1].metrics[0].1.iter().map(|x| x.is_nan() as u32 + x.to_bits()).collect::<Vec<_>>();
    assert_eq!((bits(&found), found.counters.evaluations[0].returns[0]), (bits(&odd), f64::INFINITY));
}
