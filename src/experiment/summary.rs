//! Means and deviations over the seeds of a method on a task.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use runtime::tasks::Perturbation;

use super::measured::{Measured, Seen};
use super::published::{Published, Reported};

/// A mean with the standard deviation of the sample (n - 1); none for a single number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Figure {
    #[serde(with = "runtime::numbers")]
    pub(crate) mean: f64,
    #[serde(with = "runtime::numbers")]
    pub(crate) std: Option<f64>,
    pub(crate) n: usize,
}

impl Figure {
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Figure> {
        let all: Vec<f64> = numbers.into_iter().collect();
        let n = all.len();
        if n == 0 {
            return None;
        }
        let mean = all.iter().sum::<f64>() / n as f64;
        let squares: f64 = all.iter().map(|x| (x - mean) * (x - mean)).sum();
        Some(Figure { mean, std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()), n })
    }
}

impl Figure {
    /// With the deviation of the population (divisor n).
    pub(crate) fn population(&self) -> String {
        self.with(self.std.map(|std| std * ((self.n - 1) as f64 / self.n as f64).sqrt()))
    }

    fn with(&self, std: Option<f64>) -> String {
        let digits = match self.mean.abs() {
            x if x >= 10.0 => 1,
            x if x >= 0.1 || x == 0.0 => 2,
            _ => 4,
        };
        format!("{:.digits$}", self.mean) + &std.map_or(String::new(), |std| format!(" ± {std:.digits$}"))
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.with(self.std))
    }
}

/// How far two means are apart, and how far they may be: two standard errors of their difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Agreement {
    /// The first less the second.
    difference: f64,
    bound: f64,
    pub(crate) agrees: bool,
}

/// Whether two means agree: they differ by at most 2 sqrt(s1²/n1 + s2²/n2). None where one has no deviation.
pub(crate) fn agreement(one: &Figure, other: &Figure) -> Option<Agreement> {
    let error = |figure: &Figure| Some(figure.std? * figure.std? / figure.n as f64);
    let (difference, bound) = (one.mean - other.mean, 2.0 * (error(one)? + error(other)?).sqrt());
    // Of numbers that are not finite nothing is known.
    (difference.is_finite() && bound.is_finite()).then_some(Agreement { difference, bound, agrees: difference.abs() <= bound })
}

impl Agreement {
    /// Of a change: whether it made a difference.
    pub(crate) fn change(&self) -> &'static str {
        match self {
            Agreement { agrees: true, .. } => "none",
            Agreement { difference, .. } if *difference > 0.0 => "higher",
            _ => "lower",
        }
    }
}

impl std::fmt::Display for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (word, sign) = if self.agrees { ("yes", "≤") } else { ("no", ">") };
        write!(f, "{word}: {:.1} {sign} {:.1}", self.difference.abs(), self.bound)
    }
}

/// A method on a task after so many steps: all runs that have come that far, as they were then.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) method: String,
    pub(crate) task: String,
    pub(crate) seeds: Vec<u64>,
    pub(crate) steps: u64,
    #[serde(rename = "return")]
    pub(crate) gained: Option<Figure>,
    /// By seed.
    #[serde(with = "runtime::numbers")]
    pub(crate) returns: Vec<f64>,
    pub(crate) auc: Option<Figure>,
    #[serde(with = "runtime::numbers")]
    pub(crate) areas: Vec<f64>,
    pub(crate) metrics: BTreeMap<String, Figure>,
    /// `mse[k]` divided by `spread`, the latent's variance summed over its coordinates: comparable between methods.
    pub(crate) relative: BTreeMap<String, Figure>,
    /// The task as it is, each change, and the mean over the changes that the task is tested under.
    pub(crate) changes: Vec<ChangeRow>,
    pub(crate) hours: Option<Figure>,
    pub(crate) published: Published,
}

/// A changed task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChangeRow {
    pub(crate) change: String,
    #[serde(rename = "return")]
    pub(crate) gained: Option<Figure>,
    /// By seed.
    #[serde(with = "runtime::numbers")]
    pub(crate) returns: Vec<f64>,
    /// The part of the nominal return that is left, seed by seed.
    pub(crate) retention: Option<Figure>,
}

/// Rows in the order in which methods and tasks first come. Where runs of a method have come to different steps there is a row for
/// each, from the most to the fewest; a run without an evaluation is in none.
pub(crate) fn rows(runs: &[(Measured, Option<Published>)]) -> Vec<Row> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for (run, _) in runs {
        if !keys.contains(&(&run.task, &run.method)) {
            keys.push((&run.task, &run.method));
        }
    }
    keys.sort_by_key(|(task, _)| runs.iter().position(|(r, _)| r.task == *task));
    let mut rows = Vec::new();
    for (task, method) in keys {
        let group = || runs.iter().filter(|(run, _)| run.task == task && run.method == method);
        let published = group().find_map(|(_, published)| published.clone()).unwrap_or_default();
        let lengths: BTreeSet<u64> = group().filter_map(|(run, _)| run.last()).map(|seen| seen.step).collect();
        for steps in lengths.into_iter().rev() {
            let mut that_far: Vec<&Measured> = group().map(|(run, _)| run).filter(|run| run.steps() >= steps).collect();
            that_far.sort_by_key(|run| run.seed);
            let key = Row { task: task.into(), method: method.into(), steps, published: published.clone(), ..Row::default() };
            rows.push(row(key, &that_far));
        }
    }
    rows
}

/// Fills the row of these runs.
fn row(key: Row, group: &[&Measured]) -> Row {
    let seen: Vec<&Seen> = group.iter().filter_map(|run| run.at(key.steps)).collect();
    let metric = |name: &str| Figure::of(seen.iter().filter_map(|s| s.metrics.get(name).copied()));
    let relative = |name: &str| {
        Figure::of(seen.iter().filter_map(|s| Some(s.metrics.get(name)? / s.metrics.get("spread").filter(|x| **x > 0.0)?)))
    };
    let metrics: BTreeSet<&String> = seen.iter().flat_map(|s| s.metrics.keys()).collect();
    let errors = metrics.iter().filter(|name| name.starts_with("mse["));
    Row {
        seeds: group.iter().map(|run| run.seed).collect::<BTreeSet<u64>>().into_iter().collect(),
        gained: Figure::of(seen.iter().map(|s| s.gained)),
        returns: seen.iter().map(|s| s.gained).collect(),
        areas: seen.iter().map(|s| s.auc).collect(),
        auc: Figure::of(seen.iter().map(|s| s.auc)),
        relative: errors.filter_map(|name| Some((name.to_string(), relative(name)?))).collect(),
        metrics: metrics.iter().filter_map(|name| Some((name.to_string(), metric(name)?))).collect(),
        changes: changes(&key.task, &group.iter().copied().filter(|run| run.was_tested_at(key.steps)).collect::<Vec<_>>()),
        hours: Figure::of(seen.iter().filter_map(|s| s.hours)),
        ..key
    }
}

/// Changes of a task in the order in which they first come, and the mean over them.
fn changes(task: &str, runs: &[&Measured]) -> Vec<ChangeRow> {
    let mut names: Vec<&str> = Vec::new();
    for change in runs.iter().flat_map(|run| &run.tested.changes) {
        if !names.contains(&change.change.as_str()) {
            names.push(&change.change);
        }
    }
    let row = |change: &str, returns: Vec<f64>, retained: Vec<f64>| ChangeRow {
        change: change.to_string(),
        gained: Figure::of(returns.iter().copied()),
        returns,
        retention: Figure::of(retained),
    };
    let change = |name: &str| {
        let found = runs.iter().filter_map(|r| r.tested.changes.iter().find(|c| c.change == name).map(|c| c.mean));
        let retained = runs.iter().filter_map(|r| r.retention().into_iter().find(|(c, _)| *c == name).map(|(_, x)| x));
        row(name, found.collect(), retained.collect())
    };
    // Over the changes that the task is tested under, if there were all of them: others would not compare.
    let all: Vec<String> = Perturbation::of_task(task).iter().map(Perturbation::to_string).collect();
    let mean_of = |found: Vec<(&str, f64)>| {
        let of = |name: &String| found.iter().find(|(n, _)| n == name).map(|(_, x)| *x);
        all.iter().map(of).collect::<Option<Vec<f64>>>().and_then(Figure::of).map(|f| f.mean)
    };
    let gained = |r: &&Measured| mean_of(r.tested.changes.iter().map(|c| (c.change.as_str(), c.mean)).collect());
    let retained = runs.iter().filter_map(|r| mean_of(r.retention()));
    let mean = row("mean", runs.iter().filter_map(gained).collect(), retained.collect());
    names.into_iter().map(change).chain(mean.gained.is_some().then_some(mean)).collect()
}

/// A table for the terminal.
pub(crate) fn table(rows: &[Row]) -> String {
    let shown = |x: Option<&Figure>| x.map_or("-".to_string(), Figure::to_string);
    let mut lines =
        vec![["task", "method", "seeds", "steps", "return", "published", "AUC", "mse[3]", "mse[5]", "mse[7]"].map(String::from)];
    for row in rows {
        let metric = |name: &str| shown(row.metrics.get(name));
        lines.push([
            row.task.clone(),
            row.method.clone(),
            row.seeds.len().to_string(),
            row.steps.to_string(),
            shown(row.gained.as_ref()),
            row.published.returns.get(&row.task).map_or("-".into(), Reported::to_string),
            shown(row.auc.as_ref()),
            metric("mse[3]"),
            metric("mse[5]"),
            metric("mse[7]"),
        ]);
    }
    let mut text = columns(&lines);
    let mut changed = vec![["task", "method", "steps", "change", "return", "retention"].map(String::from)];
    for row in rows {
        for change in &row.changes {
            let steps = row.steps.to_string();
            let (gained, kept) = (shown(change.gained.as_ref()), shown(change.retention.as_ref()));
            changed.push([row.task.clone(), row.method.clone(), steps, change.change.clone(), gained, kept]);
        }
    }
    if changed.len() > 1 {
        text = text + "\n" + &columns(&changed);
    }
    text
}

/// Cells under each other.
fn columns<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |c: usize| lines.iter().map(|l| l[c].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |cells: &[String; N]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, w)| format!("{cell:w$}")).collect();
        padded.join("  ").trim_end().to_string() + "\n"
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::measured::{Change, Tested};
    use super::*;

    /// A run that was evaluated at the steps 100, 200 and so on.
    fn run(method: &str, task: &str, seed: u64, gained: &[f64], changes: &[(&str, f64)]) -> (Measured, Option<Published>) {
        let change = |(change, mean): &(&str, f64)| Change { change: change.to_string(), mean: *mean, returns: vec![*mean] };
        let seen = |(i, gained): (usize, &f64)| Seen {
            step: 100 * (i as u64 + 1),
            gained: *gained,
            auc: gained / 2.0,
            hours: Some(0.5 * (i as f64 + 1.0)),
            metrics: BTreeMap::from([("mse[3]".to_string(), 2.0 * gained), ("spread".to_string(), 4.0)]),
        };
        let measured = Measured {
            method: method.into(),
            against: None,
            commits: Vec::new(),
            task: task.into(),
            protocol: "paper".into(),
            seed,
            of: 200,
            evaluations: gained.iter().enumerate().map(seen).collect(),
            tested: Tested { step: 100 * gained.len() as u64 + 3, changes: changes.iter().map(change).collect() },
            diagnosis: None,
            command: String::new(),
        };
        (measured, None)
    }

    #[test]
    fn figures_are_means_with_the_deviation_of_a_sample() {
        assert_eq!(Figure::of([]), None);
        assert_eq!(Figure::of([3.0]).unwrap().to_string(), "3.00");
        let two = Figure::of([10.0, 14.0]).unwrap();
        assert_eq!((two.mean, two.std), (12.0, Some(8f64.sqrt())));
        assert_eq!(two.to_string(), "12.0 ± 2.8");
        assert_eq!(two.population(), "12.0 ± 2.0");
    }

    #[test]
    fn means_agree_within_two_standard_errors_of_their_difference() {
        let of = |numbers: &[f64]| Figure::of(numbers.iter().copied()).unwrap();
        // Deviations 2 and 1, so the bound is 2 sqrt(4/3 + 1/3).
        let (wide, near, far) = (of(&[8.0, 10.0, 12.0]), of(&[11.5, 12.5, 13.5]), of(&[12.0, 13.0, 14.0]));
        let shown = |one: &Figure, other: &Figure| agreement(one, other).map(|a| (a.to_string(), a.change()));
        assert_eq!(shown(&wide, &near), Some(("yes: 2.5 ≤ 2.6".into(), "none")));
        assert_eq!(shown(&wide, &far), Some(("no: 3.0 > 2.6".into(), "lower")));
        assert_eq!(shown(&far, &wide).unwrap().1, "higher");
        assert_eq!((shown(&wide, &of(&[10.0])), shown(&wide, &of(&[f64::NAN, 1.0]))), (None, None));
    }

    #[test]
    fn seeds_of_a_method_on_a_task_are_a_row_and_retention_is_by_seed() {
        // All that the pendulum is tested under, and one more.
        let changed = |nominal: f64, lighter: f64, rest: f64| {
            let rest = ["mass=1.3", "actuator=0.7", "actuator=1.3"].map(|change| (change, rest));
            [&[("nominal", nominal), ("mass=0.7", lighter), ("delay=2", 0.0)][..], &rest].concat()
        };
        let (one, other) = (changed(10.0, 5.0, 10.0), changed(20.0, 18.0, 20.0));
        let runs = [
            run("A", "pendulum_swingup", 8, &[0.0, 10.0], &one),
            run("B", "pendulum_swingup", 7, &[0.0, 1.0], &[]),
            run("A", "y", 7, &[0.0, 2.0], &[]),
            run("A", "pendulum_swingup", 7, &[0.0, 20.0], &other),
            run("C", "y", 7, &[], &[]),
        ];
        let rows = rows(&runs);
        let names: Vec<(&str, &str)> = rows.iter().map(|r| (r.task.as_str(), r.method.as_str())).collect();
        assert_eq!(names, [("pendulum_swingup", "A"), ("pendulum_swingup", "B"), ("y", "A")]);
        assert_eq!((&rows[0].seeds, rows[0].steps, rows[0].gained.unwrap().mean), (&vec![7, 8], 200, 15.0));
        let changed = &rows[0].changes[1];
        assert_eq!((changed.gained.unwrap().mean, changed.retention.unwrap().mean), (11.5, 0.7));
        let mean = &rows[0].changes[6];
        // (5 + 30) / 4 and (18 + 60) / 4.
        assert_eq!((mean.change.as_str(), mean.gained.unwrap().mean), ("mean", (8.75 + 19.5) / 2.0));
        assert!(rows[1].changes.is_empty());
        assert_eq!(rows[0].relative["mse[3]"].mean, 7.5);
        let text = table(&rows);
        assert!(text.contains("mass=0.7") && text.contains("0.70 ± 0.28"), "{text}");
    }

    #[test]
    fn a_run_that_gets_nothing_has_nothing_to_keep() {
        let runs = [("nominal", 0.0), ("nominal", 4.0)].map(|nominal| run("A", "y", 7, &[1.0], &[nominal, ("delay=2", 3.0)]).0);
        assert_eq!(runs[0].retention(), []);
        let rows = rows(&runs.map(|run| (run, None)));
        let late = &rows[0].changes[1];
        assert_eq!((late.gained.unwrap().n, late.retention.unwrap().n, late.retention.unwrap().mean), (2, 1, 0.75));
    }

    #[test]
    fn runs_that_came_further_are_a_row_of_their_own_and_what_they_were_before_is_in_the_other() {
        let changed = [("nominal", 8.0), ("delay=2", 4.0)];
        let runs = [run("A", "y", 7, &[2.0, 9.0], &changed), run("A", "y", 8, &[4.0], &[("nominal", 4.0), ("delay=2", 3.0)])];
        let rows = rows(&runs);
        let of = |row: &Row| (row.steps, row.seeds.clone(), row.gained.unwrap().mean, row.hours.unwrap().mean);
        assert_eq!(of(&rows[0]), (200, vec![7], 9.0, 1.0));
        assert_eq!(of(&rows[1]), (100, vec![7, 8], 3.0, 0.5));
        assert_eq!((rows.len(), rows[1].metrics["mse[3]"].mean, rows[1].auc.unwrap().mean), (2, 6.0, 1.5));
        // Changed tasks are where they were tested.
        let kept = |row: &Row| row.changes[1].retention.unwrap();
        assert_eq!((kept(&rows[0]).mean, kept(&rows[1]).mean, kept(&rows[1]).n), (0.5, 0.75, 1));
    }
}
