//! `wmc plot`: learning curves of runs.

use std::collections::BTreeMap;

use runtime::records::Line;

use crate::cli::Plot;
use crate::commands::{help_for, open_run};
use crate::figures::lines::{Curve, LEARNING, draw};
use crate::figures::picture::write;
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Plot, out: &mut Output) -> Exit {
    // Runs of one model and task, whatever their seeds.
    let mut groups: BTreeMap<String, Vec<Vec<(f64, f64)>>> = BTreeMap::new();
    for path in &arguments.runs {
        let Some(run) = open_run(path, out) else { return Exit::Bad };
        let (lines, warning) = match run.log() {
            Ok(log) => log,
            Err(error) => {
                out.error(&error.to_string(), &help_for(&error, &run.sources));
                return Exit::Bad;
            }
        };
        warning.iter().for_each(|warning| out.tell(format!("warning: {warning}\n")));
        let points = lines.iter().filter_map(|line| match line {
            Line::Evaluation { evaluation, mean, .. } => Some((evaluation.step as f64, *mean)),
            Line::Episode { .. } | Line::Losses { .. } => None,
        });
        let name = format!("{} on {}", run.identity.model, run.identity.task);
        groups.entry(name).or_default().push(points.collect());
    }
    let curves: Vec<Curve> = groups.into_iter().map(|(name, runs)| Curve::of(name, &runs)).collect();
    if curves.iter().all(|c| c.points.is_empty()) {
        out.error("none of the runs has been evaluated", "wait for the first evaluation");
        return Exit::Bad;
    }
    if let Err(error) = write(&arguments.out, &draw(LEARNING, &curves)) {
        out.error(&format!("cannot write `{}`: {error}", arguments.out.display()), "choose another place with `-o`");
        return Exit::Bad;
    }
    out.say(format!("{}\n", arguments.out.display()));
    Exit::Fine
}
