//! `wmc diagnose`: the figures and numbers of a model's `diagnose { .. }`, for a trained model.
//!
//! | file | subject |
//! |---|---|
//! | [`shown`] | the outcome: tables, numbers, figures |
//! | [`forms`] | each form of `show` |
//! | [`slices`] | a function over two coordinates |
//! | [`embed`] | points of many coordinates in two |
//! | [`drawn`] | the other figures |

mod drawn;
mod embed;
mod forms;
pub(crate) mod shown;
mod slices;

use std::collections::BTreeMap;

use dsl::hir::{Model, Show};
use runtime::Error;
use runtime::diagnose::{Diagnostics, Episodes, Trace};
use runtime::tasks::TaskError;
use runtime::train::{Config, Snapshot};

use crate::results::figures::Figure;
use shown::{Found, Shown};

/// A probe's episodes, with the series that are needed of them.
pub(crate) struct Probed {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) episodes: Episodes,
    pub(crate) traces: Vec<Trace>,
}

/// What a model shows, and what was left out of it and why.
pub(crate) struct Looked {
    pub(crate) shown: Vec<Shown>,
    pub(crate) left_out: BTreeMap<String, String>,
    pub(crate) figures: Vec<Figure>,
}

/// Looks at a trained model. `count` wins over the episodes that probes ask for.
pub(crate) fn look(config: &Config, snapshot: &Snapshot, count: Option<u64>) -> Result<Looked, Error> {
    let model = &config.model;
    let progress = snapshot.counters.step as f64 / config.train.steps as f64;
    let mut diagnostics = Diagnostics::new(config, &snapshot.learnt, progress)?;
    let mut left_out = BTreeMap::new();
    let mut probed = Vec::new();
    for probe in &model.probes {
        let mut names = Vec::new();
        for show in model.shows.iter().filter(|show| show.probes.iter().any(|(_, all)| all.contains(&probe.name))) {
            names.extend(needed(&diagnostics, show)?);
        }
        names.sort();
        names.dedup();
        if names.is_empty() {
            continue;
        }
        let episodes = match diagnostics.episodes(&probe.name, count, Some(&snapshot.experience)) {
            // A task whose settings were changed may be driven where its steps are too coarse; and a folder may have no replay.
            Err(error @ (Error::Task(TaskError::NotFinite { .. } | TaskError::Diverged { .. }) | Error::NotHere(_))) => {
                left_out.insert(probe.name.clone(), error.to_string());
                continue;
            }
            found => found?,
        };
        let traces = diagnostics.follow(&episodes, &names)?;
        let title = probe.title.clone().unwrap_or_else(|| probe.name.clone());
        probed.push(Probed { name: probe.name.clone(), title, episodes, traces });
    }
    let mut looked = Looked { shown: Vec::new(), left_out, figures: Vec::new() };
    for show in &model.shows {
        match of(show, model, &probed, &mut diagnostics)? {
            Ok((shown, figures)) => {
                looked.shown.push(shown);
                looked.figures.extend(figures);
            }
            Err(reason) => _ = looked.left_out.insert(show.name.clone(), reason),
        }
    }
    Ok(looked)
}

/// The series that something to show is made of, also those that it does not name.
fn needed(diagnostics: &Diagnostics, show: &Show) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = show.series.iter().flat_map(|(_, names)| names.clone()).collect();
    if show.form == dsl::hir::Form::Slice {
        names.extend(diagnostics.state(show.series("over"))?.into_iter().map(|(name, _)| name));
    }
    Ok(names)
}

/// The outcome of one `show`, or the reason for its absence.
fn of(
    show: &Show,
    model: &Model,
    probed: &[Probed],
    diagnostics: &mut Diagnostics,
) -> Result<Result<(Shown, Vec<Figure>), String>, Error> {
    let find = |name: &String| probed.iter().find(|probe| probe.name == *name);
    for (_, names) in &show.probes {
        let there = names.iter().filter(|name| find(name).is_some()).count();
        if there == 0 && !names.is_empty() {
            return Ok(Err(format!("there are no episodes of {}", names.join(", "))));
        }
        let without = |name: &&String| {
            let traces = names.iter().filter_map(find).flat_map(|probe| &probe.traces);
            traces.clone().count() > 0 && traces.clone().all(|trace| !trace.values.contains_key(*name))
        };
        if let Some(name) = show.series.iter().flat_map(|(_, all)| all).find(without) {
            let of = model.quantities.iter().find(|q| q.name == *name).map_or(name, |q| &q.of);
            return Ok(Err(format!("the task does not measure `{of}` there")));
        }
    }
    let along: Vec<&Probed> = show.probes("along").iter().filter_map(find).collect();
    let against: Vec<&Probed> = show.probes("against").iter().filter_map(find).collect();
    let found = forms::found(&forms::Asked { show, along, against }, diagnostics)?;
    Ok(found.map(|Found { columns, rows, note, detail, figures }| {
        let shown = Shown {
            name: show.name.clone(),
            form: show.form.name().to_string(),
            title: show.title().to_string(),
            unit: show.unit.clone(),
            columns,
            rows,
            note,
            detail,
            figures: figures.iter().map(|f| (format!("{}.svg", f.name), f.caption.clone())).collect(),
        };
        (shown, figures)
    }))
}
