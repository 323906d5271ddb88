//! The tables of a report, as cells: the page and the Markdown file print the same.

use std::collections::BTreeSet;

use super::{Results, Row};
use crate::experiment::published::{Published, Reported};
use crate::experiment::summary::{Figure, agreement};

/// A table under a heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// How to read it.
    pub(crate) note: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    fn new(title: &str, note: String, head: &[&str], rows: Vec<Vec<String>>) -> Table {
        Table { title: title.into(), note, head: head.iter().map(|cell| cell.to_string()).collect(), rows }
    }
}

/// Of nothing.
const NONE: &str = "–";

/// All tables of a protocol in their order, without those that have no rows.
pub(crate) fn all(results: &Results) -> Vec<Table> {
    let mut all = vec![returns(results), areas(results)];
    all.extend(mean_areas(results));
    all.extend(at_equal(results));
    all.extend(against(results));
    all.extend([errors(results), changes(results)]);
    all.retain(|table| !table.rows.is_empty());
    all
}

/// Head and rows without columns that have nothing in them.
pub(crate) fn filled<'t>(head: &'t [impl AsRef<str>], rows: &'t [Vec<String>]) -> (Vec<&'t str>, Vec<Vec<&'t str>>) {
    let is_used = |column: usize| rows.is_empty() || rows.iter().any(|row| row[column] != NONE);
    let used: Vec<usize> = (0..head.len()).filter(|column| is_used(*column)).collect();
    let kept = |row: &'t Vec<String>| used.iter().map(|column| row[*column].as_str()).collect();
    (used.iter().map(|column| head[*column].as_ref()).collect(), rows.iter().map(kept).collect())
}

/// The words of a table for its deviations, and how it writes a figure. Published deviations have the divisor n.
struct Spread(bool);

impl Spread {
    /// As published, where a row has published figures; else those of a sample.
    fn of(published: bool) -> Spread {
        Spread(published)
    }

    fn note(&self) -> &'static str {
        match self.0 {
            true => "± is the population standard deviation over seeds (divisor n), as published",
            false => "± is the standard deviation of the sample over seeds (divisor n - 1)",
        }
    }

    fn cell(&self, figure: Option<&Figure>) -> String {
        let shown = |figure: &Figure| if self.0 { figure.population() } else { figure.to_string() };
        figure.map_or(NONE.into(), shown)
    }
}

/// A number for each seed.
fn each(numbers: &[f64]) -> String {
    let shown: Vec<String> = numbers.iter().map(|x| format!("{x:.1}")).collect();
    if shown.is_empty() { NONE.into() } else { shown.join(" / ") }
}

fn reported(figure: Option<&Reported>) -> String {
    figure.map_or(NONE.into(), Reported::to_string)
}

/// What tables call published figures: by their source, where all rows have the same.
fn label(results: &Results) -> String {
    let has = |p: &Published| *p != Published { source: p.source.clone(), ..Published::default() };
    let labels: BTreeSet<&str> = results.rows.iter().map(|r| &r.published).filter(|p| has(p)).map(Published::label).collect();
    let mut labels = labels.into_iter();
    match (labels.next(), labels.next()) {
        (Some(label), None) => label.to_string(),
        _ => "published".into(),
    }
}

fn seeds(row: &Row) -> String {
    row.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// A figure of a row, and its number for each seed.
type Ours = (fn(&Row) -> Option<&Figure>, fn(&Row) -> &[f64]);

/// A figure of every row beside the published one, and whether they agree.
fn beside(
    results: &Results,
    title: &str,
    name: &str,
    told: &str,
    (figure, numbers): Ours,
    published: fn(&Row) -> Option<&Reported>,
) -> Table {
    let spread = Spread::of(results.rows.iter().any(|row| published(row).is_some()));
    let mut verdicts = (0, 0);
    let mut rows = Vec::new();
    for row in &results.rows {
        let theirs = published(row);
        let is_checked = row.published.checks(name) && row.published.is_of(row.steps);
        let verdict = is_checked.then(|| agreement(figure(row)?, &theirs?.figure()?)).flatten();
        verdicts.1 += usize::from(verdict.is_some());
        verdicts.0 += usize::from(verdict.as_ref().is_some_and(|v| v.agrees));
        rows.push(vec![
            row.task.clone(),
            row.method.clone(),
            theirs.map_or(NONE.into(), |r| each(r.seeds())),
            reported(theirs),
            each(numbers(row)),
            spread.cell(figure(row)),
            verdict.map_or(NONE.into(), |v| v.to_string()),
            seeds(row),
            row.steps.to_string(),
            spread.cell(row.hours.as_ref()),
        ]);
    }
    let mut note = format!("{told} {}.", spread.note());
    if let Some(steps) = results.rows.iter().find_map(|row| row.published.source.as_ref()?.steps) {
        note += &format!(" Published figures are of runs of {steps} decisions.");
    }
    if verdicts.1 > 0 {
        note += &format!(
            " Two means agree if they differ by at most 2 sqrt(s1²/n1 + s2²/n2), with the deviations of samples (n - 1): {} of {} do.",
            verdicts.0, verdicts.1
        );
    }
    let label = label(results);
    let (theirs, theirs_each) = (label.clone(), format!("{label}, per seed"));
    let head =
        ["task", "method", &theirs_each, &theirs, "ours, per seed", "ours", "agreement", "our seeds", "our decisions", "hours"];
    Table::new(title, note, &head, rows)
}

fn returns(results: &Results) -> Table {
    let told = "Returns of the last evaluation: means over seeds. Where runs have come to different decisions there is a row for each, \
                with all runs that came that far. Hours are those of one run.";
    let ours: Ours = (|row| row.gained.as_ref(), |row| &row.returns);
    beside(results, "Returns", "return", told, ours, |row| row.published.returns.get(&row.task))
}

fn areas(results: &Results) -> Table {
    let told = "The trapezoid of the evaluations' mean returns over decisions, divided by the decisions: means over seeds.";
    let ours: Ours = (|row| row.auc.as_ref(), |row| &row.areas);
    let mut table = beside(results, "Area under the curve", "auc", told, ours, |row| row.published.auc.get(&row.task));
    // They are in the table of returns.
    if let Some(hours) = table.head.iter().position(|cell| cell == "hours") {
        table.head.remove(hours);
        table.rows.iter_mut().for_each(|row| _ = row.remove(hours));
    }
    table
}

/// The area under the curve of each method over all of its runs. Of several tasks only: else it says nothing new.
fn mean_areas(results: &Results) -> Option<Table> {
    if results.tasks().len() < 2 {
        return None;
    }
    let spread = Spread::of(results.rows.iter().any(|row| row.published.auc.contains_key("mean")));
    let row = |method: &&str| {
        // The longest runs on each task.
        let longest = |task: &&str| results.of_task(task).find(|row| row.method == **method);
        let own: Vec<&Row> = results.tasks().iter().filter_map(longest).collect();
        let published = own.iter().find_map(|r| r.published.auc.get("mean"));
        let lengths: BTreeSet<u64> = own.iter().map(|r| r.steps).collect();
        // Areas up to different decisions have no mean.
        let areas = own.iter().flat_map(|r| r.areas.iter().copied()).filter(|_| lengths.len() == 1);
        let mean = Figure::of(areas);
        let lengths = lengths.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        vec![method.to_string(), own.len().to_string(), lengths, reported(published), spread.cell(mean.as_ref())]
    };
    let note = format!(
        "The mean over all runs of a method on all of its tasks, where they have the same length. {}, here over all of these runs.",
        spread.note()
    );
    let head = ["method", "tasks", "our decisions", &label(results), "ours"];
    Some(Table::new("Area under the curve, over all tasks", note, &head, results.methods().iter().map(row).collect()))
}

/// Returns of all methods after the same decisions: those at which runs have ended. None where all have the same length: it would
/// say nothing new.
fn at_equal(results: &Results) -> Option<Table> {
    let lengths: BTreeSet<u64> = results.rows.iter().map(|row| row.steps).collect();
    if lengths.len() < 2 {
        return None;
    }
    let spread = Spread::of(false);
    let numbers: Vec<String> = lengths.iter().map(u64::to_string).collect();
    let head: Vec<&str> = ["task", "method"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let mut rows = Vec::new();
    for (task, method) in results.tasks().iter().flat_map(|task| results.methods().into_iter().map(move |m| (*task, m))) {
        let own = || results.runs.iter().map(|(run, _)| run).filter(|run| run.task == task && run.method == method);
        if own().all(|run| run.last().is_none()) {
            continue;
        }
        let cell = |at: &u64| {
            let found = own().filter(|run| run.steps() >= *at).filter_map(|run| Some(run.at(*at)?.gained));
            Figure::of(found).map_or(NONE.into(), |figure| format!("{} ({})", spread.cell(Some(&figure)), figure.n))
        };
        rows.push([task, method].map(String::from).into_iter().chain(lengths.iter().map(cell)).collect());
    }
    let note = format!(
        "Returns of the evaluation at those decisions, or the last one before them: means over all seeds that came that far, how many in \
         brackets. {}.",
        spread.note()
    );
    Some(Table::new("At equal decisions", note, &head, rows))
}

/// Methods that are compared with another one, after as many decisions and with the same seeds: a table for each of these.
fn against(results: &Results) -> Vec<Table> {
    let base_of =
        |row: &Row| results.runs.iter().find(|(run, _)| run.method == row.method).and_then(|(run, _)| run.against.clone());
    let bases: BTreeSet<String> = results.rows.iter().filter_map(base_of).collect();
    let spread = Spread::of(false);
    let table = |base: &String| {
        let mut rows = Vec::new();
        for row in results.rows.iter().filter(|row| base_of(row).as_ref() == Some(base)) {
            let same = results.runs.iter().map(|(run, _)| run).filter(|run| {
                run.method == *base && run.task == row.task && run.steps() >= row.steps && row.seeds.contains(&run.seed)
            });
            let seen: Vec<_> = same.filter_map(|run| run.at(row.steps)).collect();
            let verdict = |ours: Option<&Figure>, theirs: Option<&Figure>| {
                let verdict = ours.zip(theirs).and_then(|(ours, theirs)| agreement(ours, theirs));
                verdict.map_or(NONE.into(), |v| v.change().to_string())
            };
            let gained = Figure::of(seen.iter().map(|s| s.gained));
            let area = Figure::of(seen.iter().map(|s| s.auc));
            rows.push(vec![
                row.task.clone(),
                row.method.clone(),
                row.steps.to_string(),
                seeds(row),
                each(&row.returns),
                spread.cell(row.gained.as_ref()),
                spread.cell(gained.as_ref()),
                verdict(row.gained.as_ref(), gained.as_ref()),
                spread.cell(row.auc.as_ref()),
                spread.cell(area.as_ref()),
                verdict(row.auc.as_ref(), area.as_ref()),
            ]);
        }
        let note = format!(
            "Each method beside {base} after as many decisions with the same seeds. {}. A difference of at most \
             2 sqrt(s1²/n1 + s2²/n2) counts as none.",
            spread.note()
        );
        let (theirs, area) = (format!("return of {base}"), format!("area of {base}"));
        let head = [
            "task",
            "method",
            "decisions",
            "seeds",
            "return, per seed",
            "return",
            &theirs,
            "difference",
            "area under the curve",
            &area,
            "its difference",
        ];
        Table::new(&format!("Against {base}"), note, &head, rows)
    };
    bases.iter().map(table).collect()
}

/// Of methods with metrics.
fn errors(results: &Results) -> Table {
    let published = |row: &Row, name: &str| row.published.metrics.get(name).and_then(|tasks| tasks.get(&row.task)).cloned();
    let names = |row: &Row| row.metrics.keys().filter(|name| name.starts_with("mse")).cloned().collect::<Vec<String>>();
    let spread = Spread::of(results.rows.iter().any(|row| names(row).iter().any(|name| published(row, name).is_some())));
    let mut rows = Vec::new();
    for row in &results.rows {
        for name in names(row) {
            rows.push(vec![
                row.task.clone(),
                row.method.clone(),
                row.steps.to_string(),
                format!("`{name}`"),
                reported(published(row, &name).as_ref()),
                spread.cell(row.metrics.get(&name)),
                spread.cell(row.relative.get(&name)),
            ]);
        }
    }
    let note = format!(
        "`mse[k]` is the model's metric: the squared error of the latent after k imagined steps, summed over its coordinates, each method in \
         its own latent, on segments of the evaluation's episodes. Divided by the latent's variance (also summed) it can be compared between \
         methods. `mse6` is that of six steps for each coordinate. {}.",
        spread.note()
    );
    let head = ["task", "method", "decisions", "metric", &label(results), "ours", "divided by the latent's variance"];
    Table::new("Imagined against real", note, &head, rows)
}

fn changes(results: &Results) -> Table {
    let published = |row: &Row, change: &str| row.published.ood.get(change).and_then(|tasks| tasks.get(&row.task)).cloned();
    let has = |row: &Row| row.changes.iter().any(|change| published(row, &change.change).is_some());
    let spread = Spread::of(results.rows.iter().any(has));
    let mut rows = Vec::new();
    for row in &results.rows {
        for change in &row.changes {
            let theirs = published(row, &change.change);
            rows.push(vec![
                row.task.clone(),
                row.method.clone(),
                row.steps.to_string(),
                change.change.clone(),
                theirs.as_ref().map_or(NONE.into(), |r| each(r.seeds())),
                reported(theirs.as_ref()),
                each(&change.returns),
                spread.cell(change.gained.as_ref()),
                spread.cell(change.retention.as_ref()),
            ]);
        }
    }
    let tested = results.runs.iter().flat_map(|(run, _)| &run.tested.changes);
    let episodes: BTreeSet<usize> = tested.map(|change| change.returns.len()).collect();
    let episodes = episodes.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ");
    let note = format!(
        "Returns without further training, {episodes} episodes for each change and seed. `delay` counts decisions; `mask` is the part of an \
         observation's entries that is zeroed, chosen anew at every decision; the others multiply. Retention is the return as a part of the \
         nominal one, seed by seed; `mean` is over the changes. {}.",
        spread.note()
    );
    let label = label(results);
    let theirs_each = format!("{label}, per seed");
    let head = ["task", "method", "decisions", "change", &theirs_each, &label, "ours, per seed", "ours", "retention"];
    Table::new("Changed tasks", note, &head, rows)
}
