//! Ranges and domains of systems in which nothing is wrong.

use super::fixture::{inside, solved};

#[test]
fn an_index_ranges_where_everything_it_reads_exists() {
    let s = solved(
        "obs 0..8, a 0..7",
        "z[t] = obs[t]
         d[t] = z[t+1], z[t], a[t]
         e[t+1] = z[t]
         loss dyn = d[t], z[t+1], e[t]",
    )
    .clean();
    assert_eq!(s.domain("z"), "0..8");
    assert_eq!(s.domain("d"), "0..7");
    assert_eq!(s.domain("e"), "1..9");
    assert_eq!(s.ranges("loss dyn"), "t 1..7");
}

#[test]
fn no_index_goes_below_zero_by_itself() {
    let s = solved(
        "x 0..8, y -3..8",
        "d[t] = x[t+1]
         e[t] = y[t]
         f[t] = y[t-1]
         g[t] = y[t] for t in -3..8
         loss next = x[t+1]
         loss said = x[t+1] for t in -1..7
         loss given = g[t]",
    )
    .clean();
    assert_eq!(s.ranges("d[t]"), "t 0..7");
    assert_eq!(s.ranges("e[t]"), "t 0..8");
    assert_eq!(s.ranges("f[t]"), "t 0..9");
    assert_eq!(s.ranges("loss next"), "t 0..7");
    // Only a `for` of its own goes there, not that of what it reads.
    assert_eq!(s.ranges("loss said"), "t -1..7");
    assert_eq!(s.domain("g"), "-3..8");
    assert_eq!(s.ranges("loss given"), "t 0..8");
}

#[test]
fn zero_stops_what_nothing_else_does() {
    let s = solved(
        "",
        "x[t] = x[t+1]
         x[7] =",
    )
    .clean();
    assert_eq!(s.ranges("x[t]"), "t 0..7");
    assert_eq!(s.stages(), "x[7]; backward 0 of 0..7 reach 1 { x[t] }");
}

#[test]
fn a_base_case_extends_the_domain() {
    let s = solved(
        "z 0..8, a 0..7",
        "m[-1] =
         m[t] = z[t], a[t], m[t-1]",
    )
    .clean();
    assert_eq!(s.ranges("m[t]"), "t 0..7");
    assert_eq!(s.domain("m"), "-1..7");
}

#[test]
fn lambda_return() {
    let s = solved(
        "v 0..8, r 0..7",
        "ret[t] = r[t], v[t+1], ret[t+1]
         ret[7] = v[7]",
    )
    .clean();
    assert_eq!(s.ranges("ret[t]"), "t 0..7");
    assert_eq!(s.domain("ret"), "0..8");
    assert_eq!(s.stages(), "ret[7]; backward 0 of 0..7 reach 1 { ret[t] }");
}

#[test]
fn a_recurrence_stops_at_its_base_case() {
    // Nothing but the base case says where it ends: what lies beyond 4 follows from nothing.
    let s = solved(
        "r 0..100",
        "x[t] = r[t], x[t+1]
         x[4] =",
    )
    .clean();
    assert_eq!(s.ranges("x[t]"), "t 0..4");
    assert_eq!(s.domain("x"), "0..5");
}

pub(super) const REROLL: &str = "m[-1] =
     m[t] = z[t], a[t], m[t-1]
     y[i, 0] = z[i] for i in 0..3
     n[i, k] = y[i, k], a[i+k], n[i, k-1]
     n[i, -1] = m[i-1]
     y[i, k+1] = y[i, k], a[i+k], n[i, k] for k in 0..5
     loss roll = y[i, k], z[i+k] each k in 1..6";

#[test]
fn reroll_from_every_start() {
    let s = solved("z 0..8, a 0..7", REROLL).clean();
    assert_eq!(s.ranges("n[i, k]"), "i 0..3, k 0..5");
    assert_eq!(s.ranges("n[i, -1]"), "i 0..8");
    assert_eq!(s.ranges("y[i, k+1]"), "i 0..3, k 0..5");
    assert_eq!(s.domain("y"), "0..3, 0..6");
    assert_eq!(s.ranges("loss roll"), "i 0..3");
    assert_eq!(
        s.stages(),
        "m[-1]; forward 0 of 0..7 reach 1 { m[t] }; y[i, 0]; n[i, -1]; \
         forward 1 of 0..6 reach 1 { y[i, k+1]; n[i, k] }"
    );
}

#[test]
fn a_family_does_not_extend_itself() {
    let s = solved(
        "z 0..8",
        "y[i, 0] = z[i] for i in 0..3
         y[i, k+1] = y[i, k] for k in 0..5",
    )
    .clean();
    assert_eq!(s.ranges("y[i, k+1]"), "i 0..3, k 0..5");
}

#[test]
fn a_base_case_without_reads_follows_its_family() {
    let s = solved(
        "c 0..4",
        "d[t, k] = c[t] for k in 0..6
         w[t, k] = w[t, k-1], d[t, k]
         w[t, -1] =
         u[t] = w[t, 2]",
    )
    .clean();
    assert_eq!(s.ranges("w[t, k]"), "t 0..4, k 0..6");
    assert_eq!(s.ranges("w[t, -1]"), "t 0..4");
    assert_eq!(s.domain("w"), "0..4, -1..6");
    assert_eq!(s.ranges("u[t]"), "t 0..4");
    assert_eq!(s.stages(), "d[t, k]; w[t, -1]; forward 1 of 0..6 reach 1 { w[t, k] }; u[t]");
}

#[test]
fn base_cases_follow_each_other() {
    let s = solved(
        "r 0..9",
        "a[i, 0] =
         a[i, k+1] = b[i, k] for k in 0..3
         b[i, 0] =
         b[i, k+1] = a[i, k], r[i] for k in 0..3",
    )
    .clean();
    assert_eq!(s.domain("a"), "0..9, 0..4");
    assert_eq!(s.domain("b"), "0..9, 0..4");
}

#[test]
fn factors_and_signs() {
    let s = solved(
        "a 0..10",
        "even[t] = a[2*t]
         odd[t] = a[2*t+1]
         back[t] = a[9-t]
         mirror[t] = a[15-2*t]
         before[t] = a[-2*t] for t in -4..1",
    )
    .clean();
    assert_eq!(s.ranges("even[t]"), "t 0..5");
    assert_eq!(s.ranges("odd[t]"), "t 0..5");
    assert_eq!(s.ranges("back[t]"), "t 0..10");
    assert_eq!(s.ranges("mirror[t]"), "t 3..8");
    assert_eq!(s.ranges("before[t]"), "t -4..1");
}

#[test]
fn several_variables_restrict_the_innermost() {
    let s = solved("a 6..16", "x[i, k] = a[i+k] for i in 2..5").clean();
    assert_eq!(s.ranges("x[i, k]"), "i 2..5, k 4..12");
    let s = solved("a 0..10", "x[i, k] = a[i-k] for i in 12..15").clean();
    assert_eq!(s.ranges("x[i, k]"), "i 12..15, k 5..13");
    // What lies below zero is left out.
    let s = solved("a 0..10", "x[i, k] = a[i+k] for i in 2..5").clean();
    assert_eq!(s.ranges("x[i, k]"), "i 2..5, k 0..6");
    let s = solved("a 0..10", "x[i, k] = a[i-k] for i in 2..5").clean();
    assert_eq!(s.ranges("x[i, k]"), "i 2..5, k 0..3");
    let s = solved("a 0..10, b 0..4", "x[i, k] = a[i+k], b[i]").clean();
    assert_eq!(s.ranges("x[i, k]"), "i 0..4, k 0..7");
}

#[test]
fn acting_reads_the_training_system() {
    let train = solved(
        "z 0..8, a 0..7",
        "m[-1] =
         m[t] = z[t], a[t], m[t-1]",
    );
    let act = inside(
        "",
        Some(&train.system),
        "x[0] =
         x[k+1] = x[k] for k in 0..6
         loss act = m[t-1], x[6]",
    )
    .clean();
    assert_eq!(act.ranges("loss act"), "t 0..8");
}

#[test]
fn imagination_beyond_the_data() {
    let s = solved(
        "f 0..5",
        "g[t, 0] = f[t]
         u[t, k] = g[t, k] for k in 0..16
         gh[t, k] = g[t, k-1], u[t, k-1]
         gs[t, k] = gh[t, k]
         g[t, k] = gh[t, k], gs[t, k] for k in 1..16
         c[t, k] = g[t, k]
         val[t, k] = g[t, k]
         ret[t, k] = g[t, k+1], c[t, k+1], val[t, k+1], ret[t, k+1]
         ret[t, 15] = val[t, 15]
         loss policy = ret[t, k], u[t, k]",
    )
    .clean();
    assert_eq!(s.domain("g"), "0..5, 0..16");
    // One step further than `g` needs: everything that it reads is there.
    assert_eq!(s.ranges("gh[t, k]"), "t 0..5, k 1..17");
    // It reads nothing at k itself, so -1 would do as well; but no index goes below zero by itself.
    assert_eq!(s.ranges("ret[t, k]"), "t 0..5, k 0..15");
    assert_eq!(s.ranges("loss policy"), "k 0..16, t 0..5");
}

#[test]
fn equations_may_share_an_index() {
    let s = solved(
        "z 0..8, a 0..7",
        "m[-1] =
         m[t] = z[t], a[t], m[t-1]
         n[i, k] = a[i+k], n[i, k-1] for k in 0..5
         with n[i, -1] = m[i-1]
         w[t, k] = w[t, k-1], a[t] for k in 0..5
         with w[t, -1] =",
    )
    .clean();
    assert_eq!(s.ranges("n[i, -1]"), "i 0..3");
    assert_eq!(s.domain("n"), "0..3, -1..5");
    assert_eq!(s.domain("w"), "0..7, -1..5");
}

#[test]
fn base_cases_are_for_those_who_look_back() {
    // The start lies above zero, so that zero has no part in it.
    let s = solved(
        "z 0..8",
        "m[t] = z[t], m[t-1] for t in 3..8
         with m[2] =
         y[t] = m[t]
         e[t+1] = m[t+1]
         back[t] = m[t-1]
         moved[t+1] = m[t]
         loss own = m[t]
         loss ahead = m[t+1]",
    )
    .clean();
    assert_eq!(s.domain("m"), "2..8");
    assert_eq!(s.ranges("y[t]"), "t 3..8");
    // The own point is the one on the left.
    assert_eq!(s.domain("e"), "3..8");
    assert_eq!(s.ranges("back[t]"), "t 3..9");
    assert_eq!(s.ranges("moved[t+1]"), "t 2..8");
    assert_eq!(s.ranges("loss own"), "t 3..8");
    assert_eq!(s.ranges("loss ahead"), "t 1..7");

    // At the other end.
    let s = solved(
        "v 0..8, r 0..7",
        "ret[t] = r[t], ret[t+1]
         with ret[7] = v[7]
         loss own = ret[t], v[t]
         loss ahead = ret[t+1]",
    )
    .clean();
    assert_eq!(s.domain("ret"), "0..8");
    assert_eq!(s.ranges("loss own"), "t 0..7");
    assert_eq!(s.ranges("loss ahead"), "t 0..7");
}

#[test]
fn only_with_makes_a_base_case() {
    let s = solved(
        "v 0..8, r 0..7",
        "ret[t] = r[t], ret[t+1]
         ret[7] = v[7]
         loss own = ret[t]",
    )
    .clean();
    assert_eq!(s.ranges("loss own"), "t 0..8");
    // Where there is nothing else it is all that there is.
    let s = solved(
        "z 0..8",
        "x[t] = z[t]
         with c[3] =
         with c[4] =
         loss own = c[t]",
    )
    .clean();
    assert_eq!(s.ranges("loss own"), "t 3..5");
}

/// The equations of `models/hamworld_s6.wm` for segments of `t` observations and re-rolls of `k` steps.
fn hamworld(t: i64, k: i64) -> super::fixture::Solved {
    let (last, starts) = (t - 1, t - k);
    solved(
        &format!("obs 0..{t}, a 0..{last}, r 0..{last}"),
        &format!(
            "z[t] = obs[t]
             zs[t] = obs[t]
             m[-1] =
             m[t] = z[t], a[t], m[t-1]
             s[t] = z[t], a[t], m[t]
             y[i, 0] = z[i] for i in 0..{starts}
             n[i, k] = y[i, k], a[i+k], n[i, k-1]
             n[i, -1] = m[i-1]
             y[i, k+1] = y[i, k], a[i+k], n[i, k] for k in 0..{k}
             v[t] = z[t]
             ret[t] = r[t], v[t+1], ret[t+1]
             ret[{last}] = v[{last}]
             loss repr = s[t], zs[t+1]
             loss roll = y[i, k], z[i+k] each k in 1..{}
             loss value = z[t], ret[t] for t in 0..{last}
             loss sa = s[t], a[t]
             loss mse = y[i, {k}], z[i+{k}]
             loss drift = s[t+1], s[t], a[t]",
            k + 1
        ),
    )
    .clean()
}

#[test]
fn hamworld_in_training_and_evaluation() {
    let s = hamworld(8, 5);
    assert_eq!(s.domain("y"), "0..3, 0..6");
    assert_eq!(s.domain("ret"), "0..8");
    assert_eq!(s.ranges("loss repr"), "t 0..7");
    assert_eq!(s.ranges("loss drift"), "t 0..6");
    assert_eq!(
        s.stages(),
        "z[t]; zs[t]; m[-1]; forward 0 of 0..7 reach 1 { m[t] }; s[t]; y[i, 0]; n[i, -1]; \
         forward 1 of 0..6 reach 1 { y[i, k+1]; n[i, k] }; v[t]; ret[7]; \
         backward 0 of 0..7 reach 1 { ret[t] }"
    );
    let s = hamworld(16, 7);
    assert_eq!(s.domain("y"), "0..9, 0..8");
    assert_eq!(s.ranges("loss mse"), "i 0..9");
}
