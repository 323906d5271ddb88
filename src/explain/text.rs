//! Tables of kernels.

use super::document::{ArrayView, Document, Entry, KernelView, OnDevice, Part};
use super::lines::joined;
use crate::show::table::{Align, table};
pub(crate) use compiler::memory::bytes;

/// Characters that a line of details has.
const WIDTH: usize = 110;

pub(crate) fn tables(document: &Document) -> String {
    let entries: Vec<String> = document.entries.iter().map(|entry| one(document, entry)).collect();
    entries.join("\n")
}

fn one(document: &Document, entry: &Entry) -> String {
    let steps = &entry.steps;
    let mut text = format!("{} {}, level {}\n", document.model, entry.entry, document.level);
    text += &format!("  a call: {}\n", totals(steps));
    if entry.prepare.kernels > 0 {
        text += &format!("  when parameters have changed: {}\n", totals(&entry.prepare));
    }
    text += &format!("  memory: {} with one thread, {} for each more\n", bytes(entry.memory), bytes(entry.thread));
    let array = |a: &ArrayView| match a.lines.is_empty() {
        true => format!("{} {}", a.name, bytes(a.bytes)),
        false => format!("{} {} ({})", a.name, bytes(a.bytes), joined(&a.lines)),
    };
    text += &format!("  largest arrays: {}\n", entry.largest.iter().map(array).collect::<Vec<_>>().join(", "));
    text.extend(entry.devices.iter().map(on_device));
    text.push('\n');
    text += &kernels("when parameters have changed", &entry.prepare.list);
    text += &kernels("a call", &entry.steps.list);
    text
}

fn on_device(device: &OnDevice) -> String {
    let OnDevice { target, launches, units, shared, notes } = device;
    let mut text = format!("  on {target}: {launches} launches, cubes of {units} units with up to {}\n", bytes(*shared));
    text.extend(notes.iter().map(|note| format!("    {}: {}\n", note.kernel, note.text)));
    text
}

fn totals(part: &Part) -> String {
    let plural =
        |n: u64, what: &str| format!("{} {what}{}", crate::show::counts::group(&n.to_string()), if n == 1 { "" } else { "es" });
    let kernels = if part.kernels == 1 { "1 kernel".to_string() } else { format!("{} kernels", part.kernels) };
    format!(
        "{} of {kernels}, {}flop, {} transcendental, {} read, {} written, {} flop/byte",
        plural(part.launches, "launch"),
        count(part.cost.flops),
        count(part.cost.transcendental).trim_end(),
        bytes(part.cost.read),
        bytes(part.cost.written),
        ratio(part.intensity)
    )
}

fn kernels(title: &str, list: &[KernelView]) -> String {
    if list.is_empty() {
        return String::new();
    }
    let (packs, others): (Vec<&KernelView>, Vec<&KernelView>) = list.iter().partition(|k| k.kind == "pack");
    let head = ["launch", "runs", "rows", "flop", "transc.", "read", "written", "on chip", "flop/byte"];
    let align = [&[Align::Left][..], &[Align::Right; 9]].concat();
    let mut rows = vec![[vec![title.to_string()], head.map(String::from).to_vec()].concat()];
    rows.extend(others.iter().map(|k| row(k)));
    rows.extend((!packs.is_empty()).then(|| weights(&packs)));
    let table = table(&align, &rows);
    let mut lines = table.lines();
    let mut text: String = lines.next().map(|head| format!("{head}\n")).unwrap_or_default();
    for kernel in &others {
        text.extend(lines.next().map(|line| format!("{line}\n{}", details(kernel))));
    }
    text.extend(lines.map(|line| format!("{line}\n{}", wrapped("weights, laid out for products"))));
    text + "\n"
}

/// Packed weights, in one row.
fn weights(packs: &[&KernelView]) -> Vec<String> {
    let sum = |f: fn(&KernelView) -> u64| packs.iter().map(|k| f(k)).sum::<u64>();
    let (read, written) = (sum(|k| k.cost.read * k.times), sum(|k| k.cost.written * k.times));
    let none = String::new;
    let runs = sum(|k| k.times).to_string();
    vec!["pack".to_string(), none(), runs, none(), none(), none(), bytes(read), bytes(written), none(), none()]
}

fn row(kernel: &KernelView) -> Vec<String> {
    let rows: Vec<String> = kernel.rows.iter().map(usize::to_string).collect();
    vec![
        kernel.name.clone(),
        kernel.launch.to_string(),
        kernel.times.to_string(),
        rows.join("x"),
        count(kernel.cost.flops),
        count(kernel.cost.transcendental),
        bytes(kernel.cost.read),
        bytes(kernel.cost.written),
        bytes(kernel.on_chip),
        ratio(kernel.intensity),
    ]
}

fn details(kernel: &KernelView) -> String {
    let ops: Vec<String> = kernel.ops.iter().map(|o| format!("{} {}", o.count, o.op)).collect();
    [ops.join(", "), joined(&kernel.lines), format!("ends: {}", kernel.reason)].iter().map(|text| wrapped(text)).collect()
}

/// Breaks a list between its parts.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(", ").filter(|p| !p.is_empty()) {
        match lines.last_mut() {
            Some(last) if last.len() + part.len() <= WIDTH => last.push_str(part),
            _ => lines.push(part.to_string()),
        }
    }
    lines.iter().map(|line| format!("      {}\n", line.trim_end())).collect()
}

fn ratio(intensity: Option<f64>) -> String {
    intensity.map_or("-".to_string(), |x| format!("{x:.1}"))
}

/// `4.21 G`, `34.1 M`, `160 `: to be followed by a unit.
pub(crate) fn count(n: u64) -> String {
    const UNITS: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let mut x = n as f64;
    let mut unit = 0;
    while x >= 1000.0 && unit + 1 < UNITS.len() {
        x /= 1000.0;
        unit += 1;
    }
    let digits = if unit == 0 || x >= 100.0 {
        0
    } else if x >= 10.0 {
        1
    } else {
        2
    };
    format!("{x:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_units() {
        assert_eq!([0, 999, 1000, 34_100_000, 4_213_000_000].map(count), ["0 ", "999 ", "1.00 k", "34.1 M", "4.21 G"]);
        assert_eq!([12, 1536, 200 << 20].map(bytes), ["12 B", "1.50 KB", "200 MB"]);
    }

    #[test]
    fn lists_break_between_parts() {
        let parts = vec!["abcdefgh"; 20].join(", ");
        let text = wrapped(&parts);
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line.starts_with("      abc") && line.len() <= WIDTH + 6), "{text}");
    }
}
