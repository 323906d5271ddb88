//! Event files of TensorBoard's.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Error;

/// An event file: records of a length, a checksum, a protocol buffer and another checksum.
#[derive(Debug)]
pub(crate) struct Events {
    path: PathBuf,
    file: File,
}

impl Events {
    pub(crate) fn create(folder: &Path) -> Result<Events, Error> {
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
    pub(crate) fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<(), Error> {
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
    use std::fs;

    use super::*;
    use crate::records::{Line, Records};
    use crate::train::{Counters, Evaluation};

    #[test]
    fn checksums_are_those_of_tensorflow() {
        // The check value of CRC-32C is 0xe3069283.
        assert_eq!(masked(b"123456789"), 0xe306_9283_u32.rotate_right(15).wrapping_add(0xa282_ead8));
        assert_eq!(varint(300), [0xac, 0x02]);
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
        let file = fs::read_dir(folder.path()).unwrap().flatten().find(|f| f.file_name() != "log.jsonl").unwrap();
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
