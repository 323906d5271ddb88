//! Means and deviations over the seeds of a method on a task.

use std::collections::BTreeMap;

use serde::Serialize;

use runtime::tasks::Perturbation;

use super::file::Paper;
use super::measured::Measured;

/// A mean with the standard deviation of the sample (n - 1); none for a single number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) mean: f64,
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

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = match self.mean.abs() {
            x if x >= 10.0 => 1,
            x if x >= 0.1 || x == 0.0 => 2,
            _ => 4,
        };
        write!(f, "{:.digits$}", self.mean)?;
        self.std.map_or(Ok(()), |std| write!(f, " ± {std:.digits$}"))
    }
}

/// A method on a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) method: String,
    pub(crate) task: String,
    pub(crate) seeds: Vec<u64>,
    /// The fewest that a run has had: returns are compared there.
    pub(crate) steps: u64,
    #[serde(rename = "return")]
    pub(crate) gained: Option<Figure>,
    pub(crate) auc: Option<Figure>,
    pub(crate) metrics: BTreeMap<String, Figure>,
    /// `mse[k]` divided by `spread`, the latent's variance summed over its coordinates: comparable between methods.
    pub(crate) relative: BTreeMap<String, Figure>,
    /// The task as it is, each change, and the mean over the changes that the task is tested under.
    pub(crate) changes: Vec<ChangeRow>,
    pub(crate) hours: Option<Figure>,
    pub(crate) paper: Paper,
}

/// A changed task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ChangeRow {
    pub(crate) change: String,
    #[serde(rename = "return")]
    pub(crate) gained: Option<Figure>,
    /// The part of the nominal return that is left, seed by seed.
    pub(crate) retention: Option<Figure>,
}

/// Rows in the order in which methods and tasks first come.
pub(crate) fn rows(runs: &[(Measured, Option<Paper>)]) -> Vec<Row> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for (run, _) in runs {
        if !keys.contains(&(&run.task, &run.method)) {
            keys.push((&run.task, &run.method));
        }
    }
    keys.sort_by_key(|(task, _)| runs.iter().position(|(r, _)| r.task == *task));
    keys.into_iter()
        .map(|(task, method)| {
            let group: Vec<&(Measured, Option<Paper>)> =
                runs.iter().filter(|(r, _)| r.task == task && r.method == method).collect();
            let paper = group.iter().find_map(|(_, paper)| paper.clone()).unwrap_or_default();
            row(&group.iter().map(|(run, _)| run).collect::<Vec<_>>(), paper)
        })
        .collect()
}

fn row(group: &[&Measured], paper: Paper) -> Row {
    let steps = group.iter().map(|r| r.steps).min().unwrap_or(0);
    let names = |of: &dyn Fn(&Measured) -> Vec<String>| {
        let mut all: Vec<String> = Vec::new();
        for name in group.iter().flat_map(|r| of(r)) {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        all
    };
    let metric = |name: &str| Figure::of(group.iter().filter_map(|r| r.metrics.get(name).copied()));
    let relative = |name: &str| {
        Figure::of(group.iter().filter_map(|r| Some(r.metrics.get(name)? / r.metrics.get("spread").filter(|s| **s > 0.0)?)))
    };
    let metrics = names(&|r| r.metrics.keys().cloned().collect());
    // The mean over all changes, seed by seed.
    let over_changes =
        |of: &dyn Fn(&Measured) -> Vec<f64>| Figure::of(group.iter().filter_map(|r| Figure::of(of(r)).map(|f| f.mean)));
    // Over the changes that the task is tested under, if there were all of them: others would not compare.
    let tested: Vec<String> =
        group.first().map_or(Vec::new(), |r| Perturbation::of_task(&r.task).iter().map(Perturbation::to_string).collect());
    let all_of = |found: Vec<(&str, f64)>| -> Vec<f64> {
        let of = |name: &String| found.iter().find(|(n, _)| n == name).map(|(_, x)| *x);
        tested.iter().map(of).collect::<Option<_>>().unwrap_or_default()
    };
    let changed = |r: &Measured| all_of(r.changes.iter().map(|c| (c.change.as_str(), c.mean)).collect());
    let kept = |r: &Measured| all_of(r.retention());
    let mean = ChangeRow { change: "mean".into(), gained: over_changes(&changed), retention: over_changes(&kept) };
    let change = |change: String| ChangeRow {
        gained: Figure::of(group.iter().filter_map(|r| r.changes.iter().find(|c| c.change == change).map(|c| c.mean))),
        retention: Figure::of(group.iter().filter_map(|r| r.retention().into_iter().find(|(c, _)| *c == change).map(|(_, x)| x))),
        change,
    };
    Row {
        method: group.first().map_or(String::new(), |r| r.method.clone()),
        task: group.first().map_or(String::new(), |r| r.task.clone()),
        seeds: group.iter().map(|r| r.seed).collect(),
        steps,
        gained: Figure::of(group.iter().filter_map(|r| r.return_at(steps))),
        auc: Figure::of(group.iter().filter_map(|r| r.auc)),
        relative: metrics.iter().filter(|n| n.starts_with("mse[")).filter_map(|n| Some((n.clone(), relative(n)?))).collect(),
        metrics: metrics.into_iter().filter_map(|n| Some((n.clone(), metric(&n)?))).collect(),
        changes: names(&|r| r.changes.iter().map(|c| c.change.clone()).collect())
            .into_iter()
            .map(change)
            .chain(mean.gained.is_some().then_some(mean))
            .collect(),
        hours: Figure::of(group.iter().map(|r| r.hours)),
        paper,
    }
}

/// A table for the terminal.
pub(crate) fn table(rows: &[Row]) -> String {
    let shown = |x: Option<&Figure>| x.map_or("-".to_string(), Figure::to_string);
    let mut lines =
        vec![["task", "method", "seeds", "steps", "return", "paper", "AUC", "mse[3]", "mse[5]", "mse[7]"].map(String::from)];
    for row in rows {
        let metric = |name: &str| shown(row.metrics.get(name));
        lines.push([
            row.task.clone(),
            row.method.clone(),
            row.seeds.len().to_string(),
            row.steps.to_string(),
            shown(row.gained.as_ref()),
            row.paper.returns.get(&row.task).map_or("-".into(), |x| format!("{x:.1}")),
            shown(row.auc.as_ref()),
            metric("mse[3]"),
            metric("mse[5]"),
            metric("mse[7]"),
        ]);
    }
    let mut text = columns(&lines);
    let mut changed = vec![["task", "method", "change", "return", "retention"].map(String::from)];
    for row in rows {
        for change in &row.changes {
            let cells =
                [&row.task, &row.method, &change.change, &shown(change.gained.as_ref()), &shown(change.retention.as_ref())];
            changed.push(cells.map(String::clone));
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
    use super::super::measured::Change;
    use super::*;

    fn run(method: &str, task: &str, seed: u64, gained: f64, changes: &[(&str, f64)]) -> (Measured, Option<Paper>) {
        let change = |(change, mean): &(&str, f64)| Change { change: change.to_string(), mean: *mean, returns: vec![*mean] };
        let metrics = BTreeMap::from([("mse[3]".to_string(), 2.0 * gained), ("spread".to_string(), 4.0)]);
        let measured = Measured {
            method: method.into(),
            task: task.into(),
            seed,
            steps: 100 + seed,
            of: 200,
            curve: vec![(100, 0.0), (107, gained), (100 + seed, gained)],
            gained: Some(gained),
            auc: Some(gained / 2.0),
            metrics,
            metric_curves: BTreeMap::new(),
            changes: changes.iter().map(change).collect(),
            diagnosis: None,
            command: String::new(),
            hours: 0.5,
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
            run("A", "pendulum_swingup", 7, 10.0, &one),
            run("B", "pendulum_swingup", 7, 1.0, &[]),
            run("A", "y", 7, 2.0, &[]),
            run("A", "pendulum_swingup", 8, 20.0, &other),
        ];
        let rows = rows(&runs);
        let names: Vec<(&str, &str)> = rows.iter().map(|r| (r.task.as_str(), r.method.as_str())).collect();
        assert_eq!(names, [("pendulum_swingup", "A"), ("pendulum_swingup", "B"), ("y", "A")]);
        assert_eq!((&rows[0].seeds, rows[0].steps, rows[0].gained.unwrap().mean), (&vec![7, 8], 107, 15.0));
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
}
