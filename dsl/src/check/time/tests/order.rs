//! Stages.

use std::collections::BTreeMap;

use super::fixture::{Solved, solved};
use super::ranges::REROLL;
use crate::hir::{DefId, Stage};

#[test]
fn equations_come_after_what_they_read() {
    let s = solved(
        "z 0..4",
        "c[t] = b[t]
         b[t] = a[t]
         d[t] = z[t]
         a[t] = z[t]",
    )
    .clean();
    assert_eq!(s.stages(), "d[t]; a[t]; b[t]; c[t]");
}

#[test]
fn several_names_form_one_recurrence() {
    // DreamerV3, with the action before the first one as data.
    let s = solved(
        "obs 0..16, a -1..15",
        "h[t] = f[t-1], a[t-1]
         f[-1] =
         po[t] = h[t], obs[t]
         s[t] = po[t]
         f[t] = h[t], s[t]
         pr[t] = h[t]",
    )
    .clean();
    assert_eq!(s.domain("f"), "-1..16");
    assert_eq!(s.ranges("h[t]"), "t 0..16");
    assert_eq!(s.stages(), "f[-1]; forward 0 of 0..16 reach 1 { h[t]; po[t]; s[t]; f[t] }; pr[t]");
}

#[test]
fn two_steps_back() {
    let s = solved(
        "z 0..8",
        "x[-2] =
         x[-1] =
         x[t] = z[t], x[t-1], x[t-2]",
    )
    .clean();
    assert_eq!(s.stages(), "x[-2]; x[-1]; forward 0 of 0..8 reach 2 { x[t] }");
}

#[test]
fn parts_that_do_not_meet_need_no_loop() {
    let s = solved(
        "z 0..8",
        "x[t] = z[t] for t in 0..4
         x[t] = x[t-4] for t in 4..8",
    )
    .clean();
    assert_eq!(s.stages(), "x[t]; x[t]");
}

#[test]
fn a_constant_index_inside_a_recurrence() {
    let s = solved(
        "z 0..9",
        "q[0] = z[0]
         p[t] = q[t]
         q[5] = p[4], z[8]
         q[t+1] = p[t] for t in 0..4
         q[t+1] = p[t] for t in 5..8",
    )
    .clean();
    assert_eq!(s.domain("p"), "0..9");
    assert_eq!(s.stages(), "q[0]; forward 0 of 0..9 reach 1 { q[5]; q[t+1]; q[t+1]; p[t] }");
}

#[test]
fn a_grid_is_two_loops() {
    // Along the first subscript it would run both ways; along the second it runs forward.
    let s = solved(
        "z 0..6",
        "x[i, 0] = z[i] for i in -8..14
         x[-8, k] = z[k] for k in 1..4
         x[13, k] = z[k] for k in 1..4
         x[i, k] = x[i-1, k], x[i+1, k-1] for i in -7..13, k in 1..4",
    );
    assert_eq!(s.diagnostics.len(), 1, "{}", s.told());
    let s = solved(
        "z -8..14",
        "x[i, 0] = z[i] for i in -8..14
         x[-8, k] = z[k] for k in 1..4
         x[13, k] = z[k] for k in 1..4
         x[i, k] = x[i-1, k], x[i+1, k-1] for i in -7..13, k in 1..4",
    )
    .clean();
    assert!(s.stages().ends_with("forward 1 of 1..4 reach 1 { forward 0 of -7..13 reach 1 { x[i, k] } }"));
}

/// The cross-entropy method of the prelude around a small model: 6 iterations, 3 samples, 4 steps.
pub(super) const CEM: &str = "mean[0, k] = for k in 0..4
     std[0, k] = for k in 0..4
     noise[i, n, k] = for i in 0..6, n in 0..3, k in 0..4
     x[i, n, 0] = z
     z =
     carry =
     mem[i, n, -1] = carry
     mem[i, n, k] = x[i, n, k], u[i, n, k], mem[i, n, k-1]
     guess[i, n, k] = x[i, n, k]
     u[i, n, k] = mean[i, k], std[i, k], noise[i, n, k], guess[i, n, k]
     x[i, n, k+1] = x[i, n, k], u[i, n, k], mem[i, n, k]
     try[i, n] = x[i, n, k+1], x[i, n, 4] each k in 0..4
     score[i] = try[i, n] each n in 0..3
     best[i] = score[i]
     w[i] = score[i], best[i]
     elite[i, k] = u[i, n, k], best[i] each n in 0..3
     mean[i+1, k] = elite[i, k], w[i]
     std[i+1, k] = elite[i, k], mean[i+1, k], w[i]
     last = mean[6, k] each k in 0..4";

#[test]
fn a_planner_is_a_loop_in_a_loop() {
    let s = solved("", CEM).clean();
    assert_eq!(s.domain("mean"), "0..7, 0..4");
    assert_eq!(s.domain("x"), "0..6, 0..3, 0..5");
    assert_eq!(s.ranges("x[i, n, 0]"), "i 0..6, n 0..3");
    assert_eq!(s.ranges("mem[i, n, -1]"), "i 0..6, n 0..3");
    let inner = "forward 2 of 0..5 reach 1 { x[i, n, k+1]; guess[i, n, k]; u[i, n, k]; mem[i, n, k] }";
    let after = "try[i, n]; score[i]; best[i]; w[i]; elite[i, k]";
    // mean[i+1] and std[i+1] are what iteration i + 1 starts from.
    assert!(
        s.stages().contains(&format!("forward 0 of 0..7 reach 1 {{ mean[i+1, k]; std[i+1, k]; {inner}; {after} }}; last")),
        "{}",
        s.stages()
    );
}

#[test]
fn the_order_of_lines_does_not_matter() {
    for (inputs, text) in [("z 0..8, a 0..7", REROLL), ("", CEM)] {
        let lines: Vec<&str> = text.lines().collect();
        let expected = summary(&solved(inputs, text).clean());
        let mut random = Random(7);
        for _ in 0..40 {
            let mut shuffled = lines.clone();
            shuffle(&mut shuffled, &mut random);
            let again = solved(inputs, &shuffled.join("\n")).clean();
            assert_eq!(summary(&again), expected);
        }
    }
}

pub(super) fn shuffle(lines: &mut [&str], random: &mut Random) {
    for end in (1..lines.len()).rev() {
        lines.swap(end, random.below(end as u64 + 1) as usize);
    }
}

/// Domains, ranges and stages, without the order of stages that could be computed in any order.
pub(super) fn summary(solved: &Solved) -> (BTreeMap<String, String>, String) {
    let families = solved.system.families.iter().map(|f| (f.name.clone(), solved.domain(&f.name)));
    let ranges = solved.system.defs.iter().map(|def| solved.left(def)).map(|left| (left.to_owned(), solved.ranges(left)));
    (families.chain(ranges).collect(), unordered(solved, &solved.system.stages))
}

fn unordered(solved: &Solved, stages: &[Stage]) -> String {
    let mut shown: Vec<String> = stages
        .iter()
        .map(|stage| match stage {
            Stage::Map(DefId(def)) => solved.left(&solved.system.defs[*def as usize]).to_owned(),
            Stage::Scan { position, direction, lo, hi, reach, body } => {
                format!("{direction:?} {position} {lo}..{hi} {reach} {{{}}}", unordered(solved, body))
            }
        })
        .collect();
    shown.sort();
    shown.join("; ")
}

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}
