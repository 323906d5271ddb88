//! Every way to be wrong, and what is said about it.

use super::fixture::solved;

/// The diagnostics of a system must be exactly these lines.
fn tells(inputs: &str, text: &str, expected: &[&str]) {
    let told = solved(inputs, text).told();
    let lines: Vec<&str> = told.lines().map(str::trim).collect();
    assert_eq!(lines, expected, "\n{told}");
}

/// Only the codes.
fn codes(inputs: &str, text: &str, expected: &[&str]) {
    let solved = solved(inputs, text);
    let codes: Vec<&str> = solved.diagnostics.iter().map(|d| d.code.id()).collect();
    assert_eq!(codes, expected, "\n{}", solved.told());
}

#[test]
fn reads_outside() {
    tells(
        "obs 0..8",
        "z[t] = obs[t]
         d[t] = z[t+1] for t in 0..8",
        &[
            "E0301 `z[t+1]` is read at 1..=8, but `z` exists for 0..=7",
            "z[t+1]: there is no `z[8]`",
            "help: `for t in 0..7` stays inside",
        ],
    );
    tells(
        "obs 0..8",
        "z[t] = obs[t]
         last = z[8]",
        &["E0301 `z[8]` is read at 8, but `z` exists for 0..=7", "z[8]: there is no `z[8]`"],
    );
    tells(
        "obs 0..8",
        "loss sum = obs[k+4] each k in 0..8",
        &[
            "E0301 `obs[k+4]` is read at 4..=11, but `obs` exists for 0..=7",
            "obs[k+4]: there is no `obs[8..=11]`",
            "help: `k in 0..4` stays inside",
        ],
    );
    tells(
        "obs 0..8",
        "y[i, k] = obs[i+k] for i in 0..3
         x[i, k] = y[i, k+1] for k in 0..6",
        &[
            "E0301 `y[i, k+1]` is read at [0..=2, 1..=6], but `y` exists for [0..=2, 0..=5]",
            "y[i, k+1]: there is no `y[i, 6]`",
            "help: `for k in 0..5` stays inside",
        ],
    );
}

#[test]
fn recurrences_without_a_start() {
    tells(
        "r 0..8",
        "x[t] = r[t], x[t-1]",
        &[
            "E0301 `x[t-1]` is read at -1..=6, but `x` exists for 0..=7",
            "x[t-1]: there is no `x[-1]`",
            "help: say where the recurrence starts: `with x[-1] = ..`",
        ],
    );
    tells(
        "r 0..8",
        "x[t] = r[t], x[t+2] for t in 0..8",
        &[
            "E0301 `x[t+2]` is read at 2..=9, but `x` exists for 0..=7",
            "x[t+2]: there is no `x[8..=9]`",
            "help: say where the recurrence starts: `with x[8] = .., x[9] = ..`",
        ],
    );
}

#[test]
fn subscripts_too_wide_for_their_domain() {
    tells(
        "a 0..7",
        "x[i, k] = a[i+k] for k in 0..10",
        &[
            "E0301 no `i` keeps `a[i+k]` inside `a`, which exists for 0..=6",
            "a[i+k]: `k` runs over 0..=9",
            "help: at most `k in 0..7` fits",
        ],
    );
    codes("a 0..0", "x[i] = a[i]", &["E0301"]);
}

#[test]
fn holes() {
    // The action before the first one is not in the data: f[0] cannot be computed, and f[1] needs it.
    tells(
        "obs 0..16, a 0..15",
        "h[t] = f[t-1], a[t-1]
         f[-1] =
         f[t] = h[t], obs[t]",
        &[
            "E0301 `f[t-1]` is read at 0..=14, but no equation gives `f[0]`",
            "f[t-1]: needs `f[0]`",
            "help: add an equation or a `with` for `f[0]`, or restrict `h[t]` with `for`",
        ],
    );
    tells(
        "z 0..8, a 0..7",
        "y[i, 0] = z[i]
         y[i, 1] = a[i]
         loss y = y[i, k]",
        &[
            "E0301 `y[i, k]` is read at [0..=7, 0..=1], but no equation gives `y[7, 1]`",
            "y[i, k]: needs `y[7, 1]`",
            "help: add an equation or a `with` for `y[7, 1]`, or restrict loss `y` with `for`",
        ],
    );
}

#[test]
fn empty_ranges() {
    let expected = [
        "E0302 `x[t]` holds nowhere",
        "x[t] = r[t-9], r[t]: there is no `t` at which all that it reads exists",
        "r[t]: exists where `t` is 0..=7",
        "r[t-9]: exists where `t` is 9..=16",
        "help: move one of the subscripts, so that they meet",
    ];
    tells("r 0..8", "x[t] = r[t-9], r[t]", &expected);
    // What follows from it is not told again.
    tells(
        "r 0..8",
        "x[t] = r[t-9], r[t]
         y[t] = x[t]
         w[t, k] = w[t, k-1], x[t] for k in 0..3
         w[t, -1] =
         loss a = y[t], x[t+1]",
        &expected,
    );
    tells("r 0..8", "x[t] = r[t] for t in 3..3", &["E0302 `x[t]` holds nowhere", "t in 3..3: there is no `t` in 3..3"]);
    codes("r 0..8", "x[t] = r[t], x[t-1]\nx[9] =", &["E0302"]);
    tells(
        "r 0..8",
        "w[t, k] = w[t, k-1], r[t-9], r[t] for k in 0..3
         with w[t, -1] =",
        &[
            "E0302 `w[t, k]` holds nowhere",
            "w[t, k] = w[t, k-1], r[t-9], r[t] for k in 0..3: there is no `t` at which all that it reads exists",
            expected[2],
            expected[3],
            expected[4],
        ],
    );
    codes("r 0..8", "w[t, k] = w[t, k-1], r[t], r[t-9] for k in 0..3\nw[t, -1] =", &["E0302"]);
}

#[test]
fn points_given_twice() {
    tells(
        "r 0..8",
        "x[t] = r[t]
         x[3] = r[0]",
        &[
            "E0306 two equations give `x[3]`",
            "x[3] = r[0]: given again here",
            "x[t] = r[t]: first given here",
            "help: restrict one of them with `for`, or take one away",
        ],
    );
    codes("r 0..8", "y[t, 0] = r[t]\ny[t, k] = r[t] for k in 0..3", &["E0306"]);
    codes("r 0..8", "total = r[0]\ntotal = r[1]", &["E0306"]);
    codes("r 0..8", "y[t, 0] = r[t]\ny[t, k] = r[t] for k in 1..3", &[]);
}

#[test]
fn endless_ranges() {
    tells(
        "r 0..8",
        "x[t] =
         y[t] = x[t]
         loss y = y[t]",
        &["E0307 nothing says how far `t` goes", "t: `t` has no range", "help: say it: `for t in 0..N`"],
    );
    codes("r 0..8", "x[t] =\nx[3] = r[0]", &["E0307"]);
    // Upward there is nothing to stop it.
    codes("r 0..8", "x[t] = x[t-1]\nx[0] =", &["E0307"]);
    codes("r 0..8", "y[i, 0] =\ny[i, k+1] = y[i, k] for k in 0..3", &["E0307"]);
    tells(
        "r 0..8",
        "x[i, k] = r[i+k]",
        &["E0307 nothing says how far `i` goes", "i: `i` has no range", "help: say it: `for i in 0..N`"],
    );
}

#[test]
fn values_that_need_themselves() {
    tells(
        "r 0..8",
        "x[t] = r[t], x[t]",
        &[
            "E0309 `x` needs itself",
            "x[t]: `x[t]` needs `x[t]`",
            "help: read an earlier step of one of them, or take one of the reads away",
        ],
    );
    tells(
        "r 0..8",
        "a[t] = r[t], b[t]
         b[t] = c[t]
         c[t] = a[t]",
        &[
            "E0309 `a` needs `b` needs `c` needs `a`",
            "b[t]: `a[t]` needs `b[t]`",
            "c[t]: `b[t]` needs `c[t]`",
            "a[t]: `c[t]` needs `a[t]`",
            "help: read an earlier step of one of them, or take one of the reads away",
        ],
    );
    codes("", "a = b\nb = a", &["E0309"]);
    codes("", "x[t] = x[t]", &["E0309"]);
    // A sum over all steps, read at each of them.
    codes("r 0..8", "total = x[t] each t in 0..8\nx[t+1] = x[t], total, r[t]\nx[0] =", &["E0309"]);
    // Inside a loop that would run.
    codes("r 0..8", "x[-1] =\nx[t] = x[t-1], y[t], r[t]\ny[t] = x[t]", &["E0309"]);
}

#[test]
fn recurrences_along_two_subscripts() {
    tells(
        "",
        "x[i, k] = x[k, i] for i in 0..4, k in 0..4",
        &[
            "E0310 there is no subscript along which `x` can be computed step by step",
            "x[k, i]: not at a fixed distance from `x[i, k]`",
            "x[i, k] = x[k, i] for i in 0..4, k in 0..4: `x[i, k]` needs `x[k, i]`",
            "help: a recurrence runs along one subscript, the same in all its equations: \
             there each value is read at a fixed number of steps from what it defines",
        ],
    );
    // Time stands at different places.
    codes("", "x[t] = y[0, t]\ny[k, t+1] = x[t] for k in 0..2, t in 0..8\ny[k, 0] = for k in 0..2", &["E0310"]);
    // The start needs the end.
    codes("r 0..8", "x[0] = y[t] each t in 0..8\ny[t] = x[t], r[t]\nx[t+1] = y[t] for t in 0..7", &["E0310"]);
}

#[test]
fn recurrences_in_both_directions() {
    tells(
        "r 0..8, v 0..8",
        "ret[t] = r[t], ret[t+1], ret[t-1]
         ret[7] = v[7]",
        &[
            "E0311 `ret` refers to its past and to its future",
            "ret[t+1]: backward",
            "ret[t-1]: forward",
            "help: a recurrence runs in one direction; split it into two equations",
        ],
    );
    codes("", "a[t] = b[t-1] for t in 0..4\nb[t] = a[t+1] for t in 0..3\na[4] =\nb[-1] =", &["E0311"]);
}
