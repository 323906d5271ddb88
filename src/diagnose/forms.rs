//! The forms of `show`, which turn series along episodes into figures and numbers. `docs/guide/diagnose.md` defines them.

use std::collections::BTreeMap;

use dsl::hir::{Form, Show};
use runtime::Error;
use runtime::diagnose::measure::{self, Moment, Pair};
use runtime::diagnose::{Diagnostics, Trace};
use serde_json::{Value, json};

use super::Probed;
use super::drawn::{self, episodes_of};
use super::shown::{Found, Row};
use super::slices;

/// What is to be shown, and of which probes there are episodes.
pub(super) struct Asked<'a> {
    pub(super) show: &'a Show,
    pub(super) along: Vec<&'a Probed>,
    pub(super) against: Vec<&'a Probed>,
}

type Maybe = Result<Found, String>;

/// What a form gives, or why it gives nothing.
pub(super) fn found(asked: &Asked<'_>, diagnostics: &mut Diagnostics) -> Result<Maybe, Error> {
    Ok(match asked.show.form {
        Form::Trace => Ok(trace(asked)),
        Form::Bands => Ok(bands(asked)),
        Form::Slice => slices::slices(asked, diagnostics)?,
        Form::Components => components(asked),
        Form::Expansion => expansion(asked, diagnostics)?,
        Form::Mean => mean(asked),
        Form::Fraction => fraction(asked),
        Form::Drift => drift(asked),
        Form::Departure => departure(asked),
        Form::Correlation => correlation(asked),
        Form::Balance => balance(asked),
        Form::Crossings => crossings(asked),
        Form::Horizon => horizon(asked, diagnostics)?,
    })
}

impl Asked<'_> {
    /// The series of an argument that takes one.
    pub(super) fn one(&self, argument: &str) -> &str {
        self.show.series(argument).first().map_or("", String::as_str)
    }

    /// What the vertical axis of its figures is.
    pub(super) fn unit(&self) -> &str {
        self.show.unit.as_deref().unwrap_or_else(|| self.show.title())
    }

    fn entry(&self) -> usize {
        self.show.numbers("entry").first().map_or(0, |x| *x as usize)
    }

    /// A table of one number for each probe.
    fn by_probe(&self, columns: &[&str], note: &str, of: impl Fn(&Probed) -> Vec<Option<f64>>) -> Maybe {
        let rows: Vec<Row> = self.along.iter().map(|probe| Row { label: probe.title.clone(), values: of(probe) }).collect();
        if rows.iter().all(|row| row.values.first().is_none_or(Option::is_none)) {
            return Err(format!("{} has no value there", self.show.title()));
        }
        Ok(plain(columns, rows, note))
    }
}

fn plain(columns: &[&str], rows: Vec<Row>, note: &str) -> Found {
    let columns = columns.iter().map(|c| c.to_string()).collect();
    Found { columns, rows, note: note.to_string(), detail: Value::Null, figures: Vec::new() }
}

fn picture(note: String, detail: Value, figures: Vec<crate::results::figures::Figure>) -> Found {
    Found { columns: Vec::new(), rows: Vec::new(), note, detail, figures }
}

/// Numbers of a series in all episodes.
fn all(probe: &Probed, name: &str) -> Vec<f64> {
    probe.traces.iter().flat_map(|trace| trace.single(name)).collect()
}

fn singles(probe: &Probed, name: &str) -> Vec<Vec<f64>> {
    probe.traces.iter().map(|trace| trace.single(name)).collect()
}

fn trace(asked: &Asked<'_>) -> Found {
    let probe = asked.along[0];
    let lines: Vec<(String, Vec<f64>)> = asked
        .show
        .series("series")
        .iter()
        .filter_map(|name| {
            let episode = episodes_of(&probe.traces[..1.min(probe.traces.len())], name, asked.entry()).pop()?;
            Some((drawn::label(&probe.traces, name, asked.entry()), episode))
        })
        .collect();
    let caption = format!("{}: one episode, {}.", asked.show.title(), probe.title);
    let figure = drawn::lines_of(asked, &caption, &lines);
    let detail: BTreeMap<&String, &Vec<f64>> = lines.iter().map(|(name, x)| (name, x)).collect();
    picture(caption, json!({ "series": detail }), vec![figure])
}

fn bands(asked: &Asked<'_>) -> Found {
    let from_start = asked.show.flag("from_start");
    let mut groups = Vec::new();
    for probe in &asked.along {
        let mut episodes = episodes_of(&probe.traces, asked.one("series"), asked.entry());
        if from_start {
            for episode in &mut episodes {
                let start = episode.first().copied().unwrap_or(0.0);
                episode.iter_mut().for_each(|x| *x -= start);
            }
        }
        groups.push((probe.title.clone(), episodes));
    }
    let start = if from_start { ", less its value at the start of each" } else { "" };
    let caption = format!("{}{start}: means over episodes, with bands of one standard deviation.", asked.show.title());
    let (figure, curves) = drawn::bands(asked, "", &caption, &groups);
    let detail: BTreeMap<String, Value> = curves
        .iter()
        .map(|curve| {
            let mean: Vec<f64> = curve.points.iter().map(|p| p.mean).collect();
            let std: Vec<f64> = curve.points.iter().map(|p| (p.most - p.least) / 2.0).collect();
            (curve.name.clone(), json!({ "mean": mean, "std": std }))
        })
        .collect();
    picture(caption, json!(detail), vec![figure])
}

fn components(asked: &Asked<'_>) -> Maybe {
    let name = asked.one("series");
    let groups: Vec<(&str, &[Trace])> = asked.along.iter().map(|p| (p.title.as_str(), &p.traces[..])).collect();
    match drawn::components(asked, name, &groups) {
        Some((figure, shares)) => Ok(picture(figure.caption.clone(), json!({ "shares": shares }), vec![figure])),
        None => Err(format!("`{name}` has fewer than two numbers")),
    }
}

fn expansion(asked: &Asked<'_>, diagnostics: &mut Diagnostics) -> Result<Maybe, Error> {
    let (state, next) = (asked.show.series("state"), asked.show.series("next"));
    let (mut rows, mut curves) = (Vec::new(), Vec::new());
    let mut detail = BTreeMap::new();
    for probe in &asked.along {
        let found = diagnostics.expansion(state, next, &probe.episodes)?;
        let along = measure::mean(found.along.iter().map(|x| x.max(f64::MIN_POSITIVE).ln())).map(f64::exp);
        let most = found.largest.iter().copied().max_by(f64::total_cmp);
        let largest = measure::mean(found.largest.iter().copied());
        rows.push(Row { label: probe.title.clone(), values: vec![largest, most, along, Some(found.step)] });
        detail.insert(probe.name.clone(), json!({ "from": found.from, "largest": found.largest, "along": found.along }));
        curves.push((format!("{}: largest", probe.title), found.from, found.largest));
        curves.push((format!("{}: along", probe.title), found.from, found.along));
    }
    let note = "How far one step of the model pulls nearby states apart: the largest singular value of the step's derivative (its mean and its largest), and the \
                geometric mean of what a difference grows by that is carried along the first episode. Below 1 it brings them together. By central differences of `step`.";
    let figure = drawn::from_decisions(asked, note, &curves);
    let columns = ["at most, on average", "at most", "along the episode", "step"].map(String::from).to_vec();
    Ok(Ok(Found { columns, rows, note: note.to_string(), detail: json!(detail), figures: vec![figure] }))
}

fn mean(asked: &Asked<'_>) -> Maybe {
    let (name, chosen) = (asked.one("series"), asked.show.series("where").first());
    asked.by_probe(&["mean", "decisions"], "The mean over decisions and episodes.", |probe| {
        let values: Vec<f64> = match chosen {
            None => all(probe, name),
            Some(condition) => {
                let both = probe.traces.iter().flat_map(|t| t.together(&[name, condition]));
                both.filter(|pair| pair[1] != 0.0).map(|pair| pair[0]).collect()
            }
        };
        vec![measure::mean(values.iter().copied()), Some(values.len() as f64)]
    })
}

fn fraction(asked: &Asked<'_>) -> Maybe {
    asked.by_probe(&["fraction", "decisions"], "The share of decisions at which the condition holds.", |probe| {
        let values = all(probe, asked.one("series"));
        let holds = measure::mean(values.iter().map(|x| f64::from(u8::from(*x != 0.0))));
        vec![holds, Some(values.len() as f64)]
    })
}

fn drift(asked: &Asked<'_>) -> Maybe {
    let name = asked.one("series");
    let (along, against) = (asked.along[0], asked.against[0]);
    let found = measure::drift(&singles(along, name), &singles(against, name));
    let found = found.ok_or_else(|| format!("`{name}` does not vary along {}", against.title))?;
    let row = Row {
        label: format!("{}, against {}", along.title, against.title),
        values: vec![Some(found.ratio), Some(found.within), Some(found.overall)],
    };
    let note = format!(
        "The spread of `{name}` within single episodes ({}), divided by its spread over all states ({}). Neither a constant nor a factor of `{name}` changes it.",
        along.title, against.title
    );
    Ok(plain(&["drift", "within episodes", "over all states"], vec![row], &note))
}

fn departure(asked: &Asked<'_>) -> Maybe {
    let note = "The mean over decisions and episodes of the distance from the episode's start.";
    asked.by_probe(&["departure"], note, |probe| vec![measure::departure(&singles(probe, asked.one("series")))])
}

fn correlation(asked: &Asked<'_>) -> Maybe {
    let [a, b] = asked.show.series("series") else { return Err("it takes two series".into()) };
    let absolute = asked.show.flag("absolute");
    let of = if absolute { "their sizes" } else { "their signed values" };
    let note = format!("Pearson's correlation of `{a}` and `{b}`, {of}, over decisions.");
    asked.by_probe(&["correlation", "decisions"], &note, |probe| {
        let size = |x: f64| if absolute { x.abs() } else { x };
        let pairs: Vec<Vec<f64>> = probe.traces.iter().flat_map(|t| t.together(&[a, b])).collect();
        let [a, b] = [0, 1].map(|side| pairs.iter().map(|p| size(p[side])).collect::<Vec<f64>>());
        vec![measure::correlation(&a, &b), Some(pairs.len() as f64)]
    })
}

/// The sizes of a change, of its parts and of what they leave.
fn balance(asked: &Asked<'_>) -> Maybe {
    let names: Vec<&str> =
        std::iter::once(asked.one("series")).chain(asked.show.series("parts").iter().map(String::as_str)).collect();
    let columns: Vec<&str> = names.iter().copied().chain(["rest"]).collect();
    let of = |trace: &Trace| -> Vec<Vec<f64>> {
        let mut terms = trace.together(&names);
        terms.iter_mut().for_each(|x| x.push(x[0] - x[1..].iter().sum::<f64>()));
        terms
    };
    let note = format!("Mean sizes of `{}` and of the parts that make it up; the rest is what they leave of it.", names[0]);
    let mut found = asked.by_probe(&columns, &note, |probe| {
        let terms: Vec<Vec<f64>> = probe.traces.iter().flat_map(of).collect();
        (0..columns.len()).map(|i| measure::mean(terms.iter().map(|x| x[i].abs()))).collect()
    })?;
    for (n, probe) in asked.along.iter().enumerate() {
        let sizes = |i: usize| probe.traces.iter().map(|t| of(t).iter().map(|x| x[i].abs()).collect()).collect();
        let groups: Vec<(String, Vec<Vec<f64>>)> = columns.iter().enumerate().map(|(i, c)| (c.to_string(), sizes(i))).collect();
        let caption = format!("{}, {}: sizes over time, with bands of one standard deviation.", asked.show.title(), probe.title);
        let suffix = if n == 0 { String::new() } else { format!("-{}", probe.name) };
        found.figures.push(drawn::bands(asked, &suffix, &caption, &groups).0);
    }
    Ok(found)
}

fn crossings(asked: &Asked<'_>) -> Maybe {
    let (over, normal, by) = (asked.show.series("over"), asked.show.series("normal"), asked.one("by"));
    let probe = asked.along[0];
    let moments: Vec<Vec<Moment>> = probe.traces.iter().map(|trace| moments(trace, over, normal, by)).collect();
    let quantiles = match asked.show.numbers("quantiles") {
        [] => &measure::QUANTILES[..],
        some => some,
    };
    let pairs = measure::crossings(&moments, quantiles).ok_or("there are no steps")?;
    let same: Vec<&Pair> = pairs.iter().filter(|p| p.pair[0] == p.pair[1]).collect();
    let cross: Vec<&Pair> = pairs.iter().filter(|p| p.pair[0] != p.pair[1]).collect();
    type Of = fn(&Pair) -> f64;
    let columns: [(&str, Of); 6] = [
        ("lift_auc", |p| p.lift_auc),
        ("best_lift", |p| p.best_lift),
        ("best_quantile", |p| p.best_quantile),
        ("binary_corr_auc", |p| p.binary_corr_auc),
        ("mean_ratio", |p| p.mean_ratio),
        ("score", |p| p.score),
    ];
    let label = |pair: &Pair| format!("{}[{}], {}[{}]", over[0], pair.pair[0], over[1], pair.pair[1]);
    let row =
        |label: String, of: &dyn Fn(Of) -> Option<f64>| Row { label, values: columns.iter().map(|(_, f)| of(*f)).collect() };
    let mut rows = Vec::new();
    let mut figures = Vec::new();
    for (kind, of) in [("same index", &same), ("other index", &cross)] {
        let Some(best) = measure::chosen(of) else { continue };
        rows.push(row(format!("{}, chosen of {} with the {kind}", label(best), of.len()), &|f| Some(f(best))));
        let caption = format!(
            "{}: the share of steps that cross level lines in the slice of {} at least as fast as a threshold, which is the quantile of all steps' crossings. \
             Strong: |{by}| from its 75 % quantile on; weak: up to its 25 % quantile.",
            asked.show.title(),
            label(best)
        );
        let suffix = if figures.is_empty() { "" } else { "-other" };
        let rates = [("strong", &best.rate_strong), ("weak", &best.rate_weak)];
        figures.push(drawn::rates(asked, suffix, &caption, quantiles, &rates));
    }
    rows.push(row(format!("mean of all {} pairs", pairs.len()), &|f| measure::mean(pairs.iter().map(f))));
    let note = "A step crosses by |move . gradient| within the slice of two coordinates. lift_auc is the mean over quantiles of the difference of both rates, best_lift the \
                largest difference. A pair that was chosen was chosen also by these numbers; the mean of all pairs was not.";
    Ok(Found {
        columns: columns.iter().map(|(name, _)| name.to_string()).collect(),
        rows,
        note: note.to_string(),
        detail: json!({ "quantiles": quantiles, "pairs": pairs }),
        figures,
    })
}

/// What crossings need, at the decisions that have all of it.
fn moments(trace: &Trace, over: &[String], normal: &[String], by: &str) -> Vec<Moment> {
    let series = |name: &str| trace.values.get(name).map_or(&[][..], Vec::as_slice);
    let [x, y, nx, ny] = [&over[0], &over[1], &normal[0], &normal[1]].map(|name| series(name));
    let by = series(by);
    let decisions = [x.len(), y.len(), nx.len(), ny.len(), by.len()].into_iter().min().unwrap_or(0);
    let moment = |t: usize| {
        let there = [&x[t], &y[t], &nx[t], &ny[t], &by[t]].iter().all(|v| !v.is_empty());
        there.then(|| Moment { place: [x[t].clone(), y[t].clone()], normal: [nx[t].clone(), ny[t].clone()], by: by[t][0] })
    };
    (0..decisions).map_while(moment).collect()
}

fn horizon(asked: &Asked<'_>, diagnostics: &Diagnostics) -> Result<Maybe, Error> {
    let name = asked.one("series");
    let first = diagnostics.first_step(name)?;
    let mut curves = Vec::new();
    for probe in &asked.along {
        let episodes: Vec<Vec<Vec<f64>>> =
            probe.traces.iter().filter_map(|trace| trace.values.get(name)).map(|starts| starts.to_vec()).collect();
        let steps = episodes.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let errors: Vec<Option<f64>> = (0..steps).map(|step| measure::horizon(&episodes, step)).collect();
        curves.push((probe, errors));
    }
    let most = curves.iter().map(|(_, errors)| errors.len()).max().unwrap_or(0);
    if most == 0 {
        return Ok(Err(format!("`{name}` has no value there")));
    }
    let steps: Vec<i64> = match asked.show.numbers("at") {
        [] => (first..first + most as i64).collect(),
        some => some.iter().map(|x| *x as i64).collect(),
    };
    let at = |errors: &[Option<f64>], step: i64| usize::try_from(step - first).ok().and_then(|n| *errors.get(n)?);
    let rows = curves
        .iter()
        .map(|(probe, errors)| Row {
            label: format!("{} ({} episodes)", probe.title, probe.episodes.len()),
            values: steps.iter().map(|step| at(errors, *step)).collect(),
        })
        .collect();
    let note = format!(
        "{}: predictions from every start, the memory from the episode's first decision; the mean over an episode's starts, then over episodes.",
        asked.show.title()
    );
    let lines: Vec<(String, usize, Vec<f64>)> = curves
        .iter()
        .map(|(probe, errors)| {
            let known = errors.iter().map_while(|x| *x).collect();
            (probe.title.clone(), usize::try_from(first).unwrap_or(0), known)
        })
        .collect();
    let figure = drawn::over_steps(asked, &note, &lines);
    let detail: BTreeMap<&String, &Vec<Option<f64>>> = curves.iter().map(|(probe, errors)| (&probe.name, errors)).collect();
    Ok(Ok(Found {
        columns: steps.iter().map(i64::to_string).collect(),
        rows,
        note,
        detail: json!({ "first_step": first, "errors": detail }),
        figures: vec![figure],
    }))
}
