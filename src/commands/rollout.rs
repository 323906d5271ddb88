//! `wmc rollout`: imagination against reality, by the model's own metrics.

use runtime::numbers::value as number;
use runtime::train::Evaluation;

use crate::cli::Rollout;
use crate::commands::eval::evaluate;
use crate::commands::{help_for, newest, open_episodes};
use crate::output::{Exit, Output};

pub(crate) fn run(arguments: &Rollout, out: &mut Output) -> Exit {
    let Some(run) = open_episodes(&arguments.of, out) else { return Exit::Bad };
    let Some((_, snapshot)) = newest(&run, out) else { return Exit::Bad };
    let mut evaluation = Evaluation::default();
    let mut keep = |_, found: &Evaluation| evaluation = found.clone();
    if let Err(error) = evaluate(&run, &snapshot, arguments.of.episodes, arguments.of.seed, &[None], &mut keep) {
        out.error(&error.to_string(), &help_for(&error, &run.sources));
        return Exit::Bad;
    }
    if evaluation.metrics.is_empty() {
        out.error("the model has no metrics, or no episode was long enough for them", "add a `metric` to the model");
        return Exit::Bad;
    }
    if arguments.of.json {
        let metrics: serde_json::Map<String, serde_json::Value> =
            evaluation.metrics.iter().map(|(n, x)| (n.clone(), x.iter().map(|x| number(f64::from(*x))).collect())).collect();
        out.say(format!("{}\n", serde_json::json!({ "step": evaluation.step, "metrics": metrics })));
        return Exit::Fine;
    }
    for (name, numbers) in &evaluation.metrics {
        let shown: Vec<String> = numbers.iter().map(|x| format!("{x:.4}")).collect();
        out.say(format!("{name:12}  {}\n", shown.join(" ")));
    }
    Exit::Fine
}
