//! Records of a run: one JSON object a line in `log.jsonl`, and the same numbers in an event file of TensorBoard's.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::disk;
use crate::events::Events;
use crate::train::{Counters, Evaluation, area};

pub(crate) const LOG: &str = "log.jsonl";

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Line {
    /// An episode of the training ended.
    Episode {
        step: u64,
        #[serde(with = "crate::numbers")]
        r#return: f64,
    },
    /// Means of losses, objectives and metrics over the updates since the last such line.
    Losses {
        step: u64,
        updates: u64,
        #[serde(with = "crate::numbers")]
        means: Vec<(String, f64)>,
    },
    Evaluation {
        #[serde(flatten)]
        evaluation: Evaluation,
        #[serde(with = "crate::numbers")]
        mean: f64,
        /// The area under the curve so far, divided by the steps.
        #[serde(with = "crate::numbers")]
        auc: f64,
        /// Of training up to here, what came between a stop and a resumption left out. None where the line was lost and restored.
        seconds: Option<f64>,
    },
}

impl Line {
    fn step(&self) -> u64 {
        match self {
            Line::Episode { step, .. } | Line::Losses { step, .. } => *step,
            Line::Evaluation { evaluation, .. } => evaluation.step,
        }
    }
}

#[derive(Debug)]
pub struct Records {
    path: PathBuf,
    file: File,
    events: Events,
}

impl Records {
    /// Goes on with the log of a folder from its byte `from` on; what comes after it belongs to nothing that was saved.
    ///
    /// A log that is shorter or damaged is written anew: the lines that can be read up to this step, and all evaluations of the
    /// checkpoint. The text says so.
    pub fn open(folder: &Path, from: u64, counters: &Counters) -> Result<(Records, Option<String>), Error> {
        let path = folder.join(LOG);
        let bytes = if fs::symlink_metadata(&path).is_ok() { disk::read(&path)? } else { Vec::new() };
        let before = usize::try_from(from).ok().and_then(|from| bytes.get(..from));
        let is_whole = |kept: &[u8]| kept.last().is_none_or(|b| *b == b'\n') && Log::parse(kept).agrees(counters);
        let told = if before.is_some_and(is_whole) {
            None
        } else {
            let mut log = Log::parse(&bytes);
            log.lines.retain(|line| line.step() <= counters.step);
            log.complete(counters);
            let mut text = String::new();
            for line in &log.lines {
                text += &serde_json::to_string(line).map_err(|e| Error::file(&path, e))?;
                text.push('\n');
            }
            disk::replace(&path, text.as_bytes())?;
            Some(format!("{}: it was cut off or edited; {} lines could be kept or restored", path.display(), log.lines.len()))
        };
        let mut file = disk::open(&path, OpenOptions::new().create(true).truncate(false).write(true))?;
        let cut = |file: &mut File| if told.is_none() { file.set_len(from) } else { Ok(()) };
        cut(&mut file).and_then(|()| file.seek(SeekFrom::End(0))).map_err(|e| Error::file(&path, e))?;
        Ok((Records { file, path, events: Events::create(folder)? }, told))
    }

    pub fn write(&mut self, line: &Line) -> Result<(), Error> {
        let text = serde_json::to_string(line).map_err(|e| Error::file(&self.path, e))? + "\n";
        self.file.write_all(text.as_bytes()).map_err(|e| Error::file(&self.path, e))?;
        match line {
            Line::Episode { step, r#return } => self.events.scalars(*step, &[("train/return", *r#return)]),
            Line::Losses { step, means, .. } => {
                let named: Vec<(String, f64)> = means.iter().map(|(n, x)| (n.replacen('.', "/", 1), *x)).collect();
                self.events.scalars(*step, &named.iter().map(|(n, x)| (n.as_str(), *x)).collect::<Vec<_>>())
            }
            Line::Evaluation { evaluation, mean, auc, .. } => {
                let metrics = evaluation.metrics.iter().filter(|(_, x)| x.len() == 1);
                let named: Vec<(String, f64)> = metrics.map(|(n, x)| (format!("metric/{n}"), f64::from(x[0]))).collect();
                let all = named.iter().map(|(n, x)| (n.as_str(), *x)).chain([("eval/return", *mean), ("eval/auc", *auc)]);
                self.events.scalars(evaluation.step, &all.collect::<Vec<_>>())
            }
        }
    }

    /// Whether the file is as long as what was written: nobody has removed, cut or edited it.
    pub fn is_there(&mut self) -> bool {
        let written = self.file.stream_position().ok();
        written.is_some() && fs::symlink_metadata(&self.path).ok().map(|found| found.len()) == written
    }

    /// How long the log is, once it is on the disk.
    pub fn flush(&mut self) -> Result<u64, Error> {
        self.file.sync_data().and_then(|()| self.file.stream_position()).map_err(|e| Error::file(&self.path, e))
    }
}

/// The lines of a log that can be read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    pub lines: Vec<Line>,
    /// Lines that cannot be read, and evaluations that were missing or changed.
    pub lost: usize,
}

impl Log {
    /// Reads the log of a run that has come as far as `counters`, the counters of its newest checkpoint. Evaluations that the log
    /// has lost are taken from there.
    pub fn read(folder: &Path, counters: Option<&Counters>) -> Result<Log, Error> {
        let path = folder.join(LOG);
        let bytes = if fs::symlink_metadata(&path).is_ok() { disk::read(&path)? } else { Vec::new() };
        // A last line without an end is still being written.
        let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
        let mut log = Log::parse(&bytes[..whole]);
        counters.into_iter().for_each(|counters| log.complete(counters));
        Ok(log)
    }

    fn parse(bytes: &[u8]) -> Log {
        let mut log = Log::default();
        for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(line) => log.lines.push(line),
                Err(_) => log.lost += 1,
            }
        }
        log
    }

    fn evaluations(&self) -> impl Iterator<Item = &Evaluation> {
        self.lines.iter().filter_map(|line| if let Line::Evaluation { evaluation, .. } = line { Some(evaluation) } else { None })
    }

    /// Whether it can be read and has the evaluations of a checkpoint.
    fn agrees(&self, counters: &Counters) -> bool {
        self.lost == 0 && self.evaluations().map(text).eq(counters.evaluations.iter().map(text))
    }

    /// Takes the evaluations up to the checkpoint's step from there, in the order of steps.
    fn complete(&mut self, counters: &Counters) {
        let mut own = std::mem::take(&mut self.lines);
        for (n, evaluation) in counters.evaluations.iter().enumerate() {
            let same = |line: &Line| matches!(line, Line::Evaluation { evaluation: e, .. } if text(e) == text(evaluation));
            let seconds = match own.iter().position(same).map(|at| own.remove(at)) {
                Some(Line::Evaluation { seconds, .. }) => seconds,
                _ => {
                    self.lost += 1;
                    None
                }
            };
            let auc = area(&counters.evaluations[..=n]).unwrap_or(0.0);
            self.lines.push(Line::Evaluation { mean: evaluation.mean(), evaluation: evaluation.clone(), auc, seconds });
        }
        // What is left of them up to here was edited.
        own.retain(|line| !matches!(line, Line::Evaluation { evaluation, .. } if evaluation.step <= counters.step));
        // Evaluations come last at their step.
        own.append(&mut self.lines);
        own.sort_by_key(Line::step);
        self.lines = own;
    }
}

/// Equal texts are equal numbers, NaN included.
fn text(evaluation: &Evaluation) -> String {
    serde_json::to_string(evaluation).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log with a line of each kind, and the checkpoint's counters after the evaluation.
    fn written(folder: &Path) -> ([Line; 3], u64, Counters) {
        let mut records = Records::open(folder, 0, &Counters::default()).unwrap().0;
        let evaluation = Evaluation { step: 5, returns: vec![1.0, 2.5], metrics: vec![("mse[3]".into(), vec![0.5, f32::NAN])] };
        let counters = Counters { step: 5, evaluations: vec![evaluation.clone()], ..Counters::default() };
        let lines = [
            Line::Episode { step: 3, r#return: 0.1 + 0.2 },
            Line::Evaluation { mean: evaluation.mean(), evaluation, auc: 1.75, seconds: Some(0.25) },
            Line::Losses { step: 6, updates: 2, means: vec![("loss.dyn".into(), 0.5)] },
        ];
        records.write(&lines[0]).unwrap();
        records.write(&lines[1]).unwrap();
        let saved = records.flush().unwrap();
        records.write(&lines[2]).unwrap();
        assert!(records.is_there());
        (lines, saved, counters)
    }

    fn texts(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect()
    }

    fn read(folder: &Path) -> Vec<String> {
        texts(&Log::read(folder, None).unwrap().lines)
    }

    #[test]
    fn lines_come_back_and_a_resumed_log_forgets_what_was_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, saved, counters) = written(folder.path());
        assert_eq!(read(folder.path()), texts(&lines));
        let (mut again, told) = Records::open(folder.path(), saved, &counters).unwrap();
        assert_eq!((told, read(folder.path())), (None, texts(&lines[..2])));
        again.write(&lines[2]).unwrap();
        assert_eq!(read(folder.path()), texts(&lines));
    }

    /// Any damage: evaluations come back from the checkpoint, lines that can be read stay, nothing is refused.
    #[test]
    fn a_damaged_log_is_completed_from_the_checkpoint() {
        type Damage = (&'static str, fn(&mut Vec<u8>));
        let damage: [Damage; 7] = [
            ("removed", |bytes| bytes.clear()),
            ("cut", |bytes| bytes.truncate(bytes.len() / 3)),
            ("zeros", |bytes| bytes.fill(0)),
            ("bytes that are no text", |bytes| bytes[10] = 0xff),
            ("a line in front", |bytes| bytes.splice(0..0, *b"hello\n").for_each(drop)),
            ("another return", |bytes| {
                let edited = String::from_utf8(bytes.clone()).unwrap().replace("[1.0,2.5]", "[1.0,9.5]");
                *bytes = edited.into_bytes();
            }),
            ("the evaluation three times", |bytes| {
                let all = String::from_utf8(bytes.clone()).unwrap();
                *bytes = all.lines().nth(1).map(|line| format!("{line}\n{line}\n{all}")).unwrap().into_bytes();
            }),
        ];
        for (what, damage) in damage {
            let folder = tempfile::tempdir().unwrap();
            let (lines, saved, counters) = written(folder.path());
            let path = folder.path().join(LOG);
            let mut bytes = fs::read(&path).unwrap();
            damage(&mut bytes);
            fs::write(&path, &bytes).unwrap();
            let evaluations = |log: &Log| log.evaluations().map(text).collect::<Vec<_>>();
            let expected = [text(&counters.evaluations[0])];
            assert_eq!(evaluations(&Log::read(folder.path(), Some(&counters)).unwrap()), expected, "{what}");
            let (mut records, told) = Records::open(folder.path(), saved, &counters).unwrap();
            assert!(told.is_some(), "{what}");
            records.write(&lines[2]).unwrap();
            let log = Log::read(folder.path(), Some(&counters)).unwrap();
            assert_eq!((evaluations(&log), log.lost), (expected.to_vec(), 0), "{what}");
            assert_eq!(log.lines.last().map(Line::step), Some(6), "{what}");
        }
    }

    /// 200 logs, each with up to four seeded edits: bytes changed, removed, repeated or cut off.
    #[test]
    fn logs_with_random_damage_are_completed() {
        let folder = tempfile::tempdir().unwrap();
        let (lines, saved, counters) = written(folder.path());
        let path = folder.path().join(LOG);
        let whole = fs::read(&path).unwrap();
        let expected = [text(&counters.evaluations[0])];
        for seed in 0..200 {
            let stream = compiler::random::Stream::new("damage", seed, "log", 0);
            let mut bytes = whole.clone();
            for edit in 0..1 + seed % 4 {
                let draw = |i: u64, below: usize| (stream.uniform(4 * edit + i) * below as f64) as usize;
                let (at, count) = (draw(1, bytes.len().max(1)), draw(2, 60));
                let end = (at + count).min(bytes.len());
                match draw(0, 4) {
                    0 if at < bytes.len() => bytes[at] = draw(3, 256) as u8,
                    1 => bytes.drain(at.min(end)..end).for_each(drop),
                    2 => bytes.splice(at.min(end)..at.min(end), whole[..count].to_vec()).for_each(drop),
                    _ => bytes.truncate(at),
                }
            }
            fs::write(&path, &bytes).unwrap();
            let log = Log::read(folder.path(), Some(&counters)).unwrap();
            assert_eq!(log.evaluations().filter(|e| e.step <= 5).map(text).collect::<Vec<_>>(), expected, "seed {seed}");
            let (mut records, _) = Records::open(folder.path(), saved, &counters).unwrap();
            records.write(&lines[2]).unwrap();
            let log = Log::read(folder.path(), Some(&counters)).unwrap();
            assert_eq!(log.evaluations().map(text).collect::<Vec<_>>(), expected, "seed {seed}");
            assert_eq!((log.lost, log.lines.last().map(Line::step)), (0, Some(6)), "seed {seed}");
        }
    }
}
