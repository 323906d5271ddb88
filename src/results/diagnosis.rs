//! Diagnoses of `wmc diagnose`, for a report.

use serde_json::Value;

use crate::diagnose::shown::{Row, Shown};
use crate::experiment::measured::Measured;
use crate::experiment::published::Published;

/// What was diagnosed.
pub(crate) fn title(run: &Measured, found: &Value) -> String {
    format!("{} on {}, seed {}, {} decisions", run.method, run.task, run.seed, found["step"])
}

/// All that the model shows, each with what was published of it on the same task. Empty where the diagnosis is of another
/// program's form.
pub(crate) fn shown(found: &Value, others: Option<&Published>) -> Vec<Shown> {
    let task = found["task"].as_str().unwrap_or_default();
    let all = found["shows"].as_array().into_iter().flatten();
    let mut all: Vec<Shown> = all.filter_map(|shown| serde_json::from_value(shown.clone()).ok()).collect();
    let published = |figure: &str| others.and_then(|p| Some(p.diagnosis.get(figure)?.get(task)?.figure()?.mean));
    for shown in &mut all {
        let first = shown.columns.first();
        let column = |name: &String| {
            let alone = (Some(name) == first).then(|| published(&shown.name)).flatten();
            published(&format!("{}.{name}", shown.name)).or(alone)
        };
        let values: Vec<Option<f64>> = shown.columns.iter().map(column).collect();
        if values.iter().any(Option::is_some) {
            shown.rows.push(Row { label: "published".into(), values });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_stand_below_ours_on_the_task_that_they_are_of() {
        let others: Published = toml::from_str("[diagnosis]\nsigned = { a = 0.757 }\n\"rates.best\" = { a = 0.784 }").unwrap();
        let show = |name: &str, columns: &[&str]| {
            serde_json::json!({
                "name": name, "form": "mean", "title": name, "unit": null, "note": "", "detail": null, "figures": [],
                "columns": columns, "rows": [{ "label": "policy", "values": vec![0.25; columns.len()] }],
            })
        };
        let found = |task: &str| serde_json::json!({ "task": task, "shows": [show("signed", &["correlation", "n"]), show("rates", &["area", "best"])] });
        let on_a = shown(&found("a"), Some(&others));
        assert_eq!(on_a[0].table()[2], ["published", "0.7570", "–"]);
        assert_eq!(on_a[1].table()[2], ["published", "–", "0.7840"]);
        let on_b = shown(&found("b"), Some(&others));
        assert_eq!((on_b[0].rows.len(), on_b[1].rows.len()), (1, 1));
        assert_eq!(shown(&serde_json::json!({ "task": "a", "coupling": {} }), Some(&others)), []);
    }
}
