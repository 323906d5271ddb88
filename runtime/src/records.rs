//! Records of a run: one JSON object a line in `log.jsonl`, and the same numbers in an event file of TensorBoard's.

use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::disk;
use crate::train::{Counters, Evaluation, area};

const LOG: &str = "log.jsonl";

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

/// An event file: records of a length, a checksum, a protocol buffer and another checksum.
#[derive(Debug)]
struct Events {
    path: PathBuf,
    file: File,
}

impl Events {
    fn create(folder: &Path) -> Result<Events, Error> {
        let now = seconds();
        let path = folder.join(format!("events.out.tfevents.{:010}.{}.wmc", now as u64, std::process::id()));
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(|e| Error::file(&path, e))?;
        let mut events = Events { path, file };
        // `Event { wall_time = 1, file_version = 3 }`.
        let mut event = double(1, now);
        event.extend(bytes(3, b"brain.Event:2"));
        events.record(&event)?;
        Ok(events)
    }

    /// `Event { wall_time = 1, step = 2, summary = 5 { value = 1 { tag = 1, simple_value = 2 } } }`.
    fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<(), Error> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut one = bytes(1, tag.as_bytes());
            one.push(2 << 3 | 5);
            one.extend((*value as f32).to_le_bytes());
            summary.extend(bytes(1, &one));
        }
        let mut event = double(1, seconds());
        event.push(2 << 3);
        event.extend(varint(step));
        event.extend(bytes(5, &summary));
        self.record(&event)
    }

    fn record(&mut self, event: &[u8]) -> Result<(), Error> {
        let length = (event.len() as u64).to_le_bytes();
        let parts = [&length[..], &masked(&length).to_le_bytes(), event, &masked(event).to_le_bytes()].concat();
        self.file.write_all(&parts).map_err(|e| Error::file(&self.path, e))
    }
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn double(field: u8, x: f64) -> Vec<u8> {
    [&[field << 3 | 1][..], &x.to_le_bytes()].concat()
}

fn bytes(field: u8, content: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2][..], &varint(content.len() as u64), content].concat()
}

fn varint(mut x: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while x >= 0x80 {
        out.push(x as u8 | 0x80);
        x >>= 7;
    }
    out.push(x as u8);
    out
}

/// TensorFlow's checksum: CRC-32C, turned and moved so that the checksum of a checksum is no fixed point.
fn masked(data: &[u8]) -> u32 {
    let crc = data.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    });
    (!crc).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_tensorflow() {
        // The check value of CRC-32C is 0xe3069283.
        assert_eq!(masked(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
        assert_eq!(varint(300), [0xac, 0x02]);
    }

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
        let damage: [(&str, fn(&mut Vec<u8>)); 7] = [
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

    /// CRC-32C by a table, as readers have it.
    fn crc32c(data: &[u8]) -> u32 {
        let table: Vec<u32> =
            (0..256u32).map(|n| (0..8).fold(n, |c, _| if c & 1 == 1 { 0x82f6_3b78 ^ (c >> 1) } else { c >> 1 })).collect();
        !data.iter().fold(!0, |crc: u32, byte| table[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
    }

    /// The fields of a protocol buffer: numbers as they are, what has a length as bytes.
    fn fields(mut buffer: &[u8]) -> Vec<(u64, Vec<u8>)> {
        fn varint(buffer: &mut &[u8]) -> u64 {
            let mut x = 0;
            for shift in (0..).step_by(7) {
                let (byte, rest) = buffer.split_first().unwrap();
                *buffer = rest;
                x |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            x
        }
        let mut all = Vec::new();
        while !buffer.is_empty() {
            let key = varint(&mut buffer);
            let len = match key & 7 {
                0 => {
                    all.push((key >> 3, varint(&mut buffer).to_le_bytes().to_vec()));
                    continue;
                }
                1 => 8,
                2 => varint(&mut buffer) as usize,
                5 => 4,
                other => panic!("a wire type {other}"),
            };
            let (content, rest) = buffer.split_at(len);
            all.push((key >> 3, content.to_vec()));
            buffer = rest;
        }
        all
    }

    /// A record a time, both checksums compared: step, tags, values.
    fn events(mut bytes: &[u8]) -> Vec<(u64, Vec<(String, f32)>)> {
        let unmasked = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap()).wrapping_sub(0xa282_ead8).rotate_left(15);
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_at(8);
            assert_eq!(unmasked(&rest[..4]), crc32c(length));
            let len = u64::from_le_bytes(length.try_into().unwrap()) as usize;
            let (event, rest) = rest[4..].split_at(len);
            assert_eq!(unmasked(&rest[..4]), crc32c(event));
            bytes = &rest[4..];
            let mut read = (0, Vec::new());
            for (field, content) in fields(event) {
                match field {
                    1 => assert!(f64::from_le_bytes(content.try_into().unwrap()) > 1e9, "a time"),
                    2 => read.0 = u64::from_le_bytes(content.try_into().unwrap()),
                    3 => assert_eq!(content, b"brain.Event:2"),
                    5 => {
                        for (field, value) in fields(&content) {
                            assert_eq!(field, 1);
                            let [(1, tag), (2, number)] = &fields(&value)[..] else { panic!("no tag and number") };
                            let number = f32::from_le_bytes(number[..].try_into().unwrap());
                            read.1.push((String::from_utf8(tag.clone()).unwrap(), number));
                        }
                    }
                    other => panic!("a field {other}"),
                }
            }
            all.push(read);
        }
        all
    }

    #[test]
    fn event_files_are_read_back_by_their_format() {
        let folder = tempfile::tempdir().unwrap();
        let mut records = Records::open(folder.path(), 0, &Counters::default()).unwrap().0;
        records.write(&Line::Episode { step: 300, r#return: 1.5 }).unwrap();
        let means = vec![("loss.dyn".into(), 0.25), ("objective.main".into(), -2.0)];
        records.write(&Line::Losses { step: 70_000, updates: 2, means }).unwrap();
        let evaluation = Evaluation { step: 5, returns: vec![1.0, 2.0], metrics: vec![("mse".into(), vec![0.5])] };
        records.write(&Line::Evaluation { mean: 1.5, evaluation, auc: 1.25, seconds: Some(0.0) }).unwrap();
        let file = fs::read_dir(folder.path()).unwrap().flatten().find(|f| f.file_name() != LOG).unwrap();
        assert!(file.file_name().to_string_lossy().starts_with("events.out.tfevents."));
        let named = |all: &[(&str, f32)]| all.iter().map(|(n, x)| (n.to_string(), *x)).collect::<Vec<_>>();
        assert_eq!(
            events(&fs::read(file.path()).unwrap()),
            [
                (0, Vec::new()),
                (300, named(&[("train/return", 1.5)])),
                (70_000, named(&[("loss/dyn", 0.25), ("objective/main", -2.0)])),
                (5, named(&[("metric/mse", 0.5), ("eval/return", 1.5), ("eval/auc", 1.25)])),
            ]
        );
    }
}
