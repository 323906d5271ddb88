//! Large systems, and many small ones.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::fixture::{Solved, solved};
use super::order::{Random, shuffle, summary};
use crate::hir::Stage;

/// Far more than it takes, even unoptimised on a busy machine; far less than anything quadratic would.
fn quickly(inputs: &str, text: &str) -> Solved {
    let start = Instant::now();
    let solved = solved(inputs, text);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    solved
}

#[test]
fn a_chain_written_backwards() {
    let mut text = String::new();
    for n in 0..10_000 {
        writeln!(text, "x{n}[t] = x{}[t-1]", n + 1).unwrap();
    }
    text += "x10000[t] = z[t]";
    let s = quickly("z 0..20000", &text);
    assert!(s.diagnostics.is_empty());
    assert_eq!(s.domain("x0"), "10000..30000");
    assert_eq!(s.system.stages.len(), 10_001);
    assert!(s.stages().starts_with("x10000[t]; x9999[t]; x9998[t]"));
}

#[test]
fn a_long_way_round() {
    let mut text = String::from("x0[0] =\nx0[t] = x9999[t-1], z[t]\n");
    for n in 1..10_000 {
        writeln!(text, "x{n}[t] = x{}[t]", n - 1).unwrap();
    }
    let s = quickly("z 0..50", &text);
    // Every name but the first is given at 0 too, where x0 has its start.
    assert!(s.diagnostics.is_empty(), "{}", s.told());
    assert_eq!(s.domain("x9999"), "0..50");
    assert!(matches!(s.system.stages.as_slice(), [_, Stage::Scan { body, .. }] if body.len() == 10_000));
}

#[test]
fn a_long_circle() {
    let mut text = String::new();
    for n in 0..10_000 {
        writeln!(text, "x{n}[t] = x{}[t], z[t]", (n + 1) % 10_000).unwrap();
    }
    let s = quickly("z 0..50", &text);
    assert_eq!(s.diagnostics.len(), 1);
    assert!(s.told().starts_with("E0309 `x0` needs `x1` needs `x2` needs `x3` needs `x4` needs .. 9995 more, which need `x0`"));
}

#[test]
fn a_family_of_single_points() {
    let mut text = String::from("x[0] =\n");
    for n in (1..10_000).rev() {
        writeln!(text, "x[{n}] = x[{}]", n - 1).unwrap();
    }
    text += "loss all = x[t]";
    let s = quickly("", &text).clean();
    assert_eq!(s.domain("x"), "0..10000");
    assert_eq!(s.ranges("loss all"), "t 0..10000");
    assert!(s.stages().starts_with("x[0]; x[1]; x[2]"));
}

#[test]
fn a_long_loop_is_not_counted_through() {
    let s = quickly(
        "",
        "r[t] = for t in 0..1000000000000
         x[t] = r[t], x[t+1]
         x[500000000000] =
         y[t] = r[t], y[t-1]
         y[-1] =",
    );
    assert!(s.diagnostics.is_empty(), "{}", s.told());
    assert_eq!(s.ranges("x[t]"), "t 0..500000000000");
    assert_eq!(s.ranges("y[t]"), "t 0..1000000000000");
}

#[test]
fn what_is_accepted_can_be_run() {
    let mut random = Random(1);
    let (mut accepted, mut loops) = (0, 0);
    for _ in 0..4000 {
        let text = system(&mut random);
        let s = solved("a 0..6, b -1..5", &text);
        // A `with` goes with the line before it, whose indices it shares.
        let together = text.replace("\nwith ", "\twith ");
        let mut lines: Vec<&str> = together.lines().collect();
        shuffle(&mut lines, &mut random);
        let again = solved("a 0..6, b -1..5", &lines.join("\n").replace('\t', "\n"));
        assert_eq!(s.diagnostics.is_empty(), again.diagnostics.is_empty(), "{text}\n{}", s.told());
        if s.diagnostics.is_empty() {
            let s = s.clean();
            assert_eq!(summary(&s), summary(&again));
            accepted += 1;
            loops += usize::from(s.stages().contains("ward"));
        }
    }
    assert!(accepted > 300 && loops > 50, "{accepted} accepted, {loops} with loops");
}

/// A few equations over families x, y, z with one subscript or two, with base cases now and then.
fn system(random: &mut Random) -> String {
    let families = 1 + random.below(3);
    let arity: Vec<u64> = (0..families).map(|_| 1 + random.below(2)).collect();
    let mut text = String::new();
    for family in 0..families as usize {
        let name = ["x", "y", "z"][family];
        let vars = ["i", "k"];
        let lead = if arity[family] == 2 { "i, " } else { "" };
        let last = vars[arity[family] as usize - 1];
        let shift = ["", "", "+1"][random.below(3) as usize];
        write!(text, "{name}[{lead}{last}{shift}] = a[{last}]").unwrap();
        if arity[family] == 2 {
            write!(text, ", b[i]").unwrap();
        }
        for _ in 0..random.below(3) {
            let other = random.below(families) as usize;
            let subscript = ["_", "_", "_-1", "_-1", "_+1", "_-2", "2*_", "3-_"][random.below(8) as usize];
            let subscript = subscript.replace('_', last);
            let lead = if arity[other] == 2 { ["i, ", "i, ", "i-1, ", "0, "][random.below(4) as usize] } else { "" };
            let lead = if arity[family] == 1 { lead.replace('i', "t") } else { lead.to_owned() };
            write!(text, ", {}[{lead}{subscript}]", ["x", "y", "z"][other]).unwrap();
        }
        let over = ["", "", " for k in 0..4", " for i in 0..3"][random.below(4) as usize];
        if over.is_empty() || arity[family] == 2 || over.contains('i') {
            text += over;
        }
        if text.lines().last().is_some_and(|line| line.contains("[t")) {
            text += if text.ends_with(|c: char| c.is_ascii_digit()) { ", t in 0..2" } else { " each t in 0..2" };
        }
        text.push('\n');
        for _ in 0..random.below(3) {
            let at = random.below(4) as i64 - 2;
            let with = ["", "with "][random.below(2) as usize];
            writeln!(text, "{with}{name}[{lead}{at}] =").unwrap();
        }
    }
    text
}
