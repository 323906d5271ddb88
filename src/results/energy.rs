//! Tables of what `wmc diagnose` has found.

use serde_json::Value;

use crate::experiment::measured::Measured;
use crate::experiment::published::Published;

/// A head and its rows.
pub(crate) type Table = (Vec<&'static str>, Vec<Vec<String>>);

const KINDS: [(&str, &str); 3] = [("no action", "without_action"), ("random actions", "random_action"), ("policy", "policy")];

pub(crate) fn number(value: &Value) -> String {
    match value.as_f64() {
        None => "–".into(),
        Some(x) if x != 0.0 && x.abs() < 1e-3 => format!("{x:.1e}"),
        Some(x) => format!("{x:.4}"),
    }
}

/// A part as per cent.
pub(crate) fn percent(value: &Value) -> String {
    value.as_f64().map_or("–".into(), |x| format!("{:.1} %", 100.0 * x))
}

/// What was diagnosed.
pub(crate) fn title(run: &Measured, found: &Value) -> String {
    format!("{} on {}, seed {}, {} decisions", run.method, run.task, run.seed, found["step"])
}

/// Drifts, the coupling of action and energy, the terms of a step, its expansion: those that there are, with what was published on the
/// same task.
pub(crate) fn tables(found: &Value, others: Option<&Published>) -> Vec<Table> {
    let task = found["task"].as_str().unwrap_or_default();
    let published = |figure: &str| Value::from(others.and_then(|p| p.energy.get(figure)?.get(task).copied()));
    let drift = |(name, key): (&str, &str)| {
        let of = |whose: &str| [number(&found[key][whose]["absolute"]), percent(&found[key][whose]["relative"])];
        let why = if found["left_out"][name].is_string() { ", left out: the simulator diverges" } else { "" };
        std::iter::once(format!("{name}{why}")).chain(of("model")).chain(of("simulator")).collect()
    };
    let mut drifts: Vec<Vec<String>> = KINDS.map(drift).to_vec();
    if !published("drift").is_null() {
        let cells = ["no action, published", "–", &percent(&published("drift")), "–", "–"];
        drifts.insert(1, cells.map(String::from).to_vec());
    }
    let mut all: Vec<Table> = vec![(vec!["episodes", "model's drift", "of |H(0)|", "simulator's drift", "of |H(0)|"], drifts)];
    let coupling = &found["coupling"];
    if coupling.is_object() {
        let head = vec!["", "corr(sign dH, push)", "corr(|dH|, |push|)", "lift area", "best lift"];
        let keys = ["sign", "size", "lift_area", "best_lift"];
        let line = |name: &str, numbers: [String; 4]| std::iter::once(name.to_string()).chain(numbers).collect::<Vec<String>>();
        let mut rows = vec![line("ours", keys.map(|key| number(&coupling[key])))];
        if keys.iter().any(|key| !published(key).is_null()) {
            rows.push(line("published", keys.map(|key| number(&published(key)))));
        }
        all.push((head, rows));
    }
    let Some(stability) = found["stability"].as_object() else { return all };
    let terms = |(kind, of): (&String, &Value)| {
        let sizes = ["change", "push", "leak", "curvature", "rest"].map(|term| number(&of["terms"][term]));
        let residual = number(&found["means"]["residual"][kind]);
        std::iter::once(kind.clone()).chain(sizes).chain([residual]).collect()
    };
    let head = vec!["sizes of what a step changes H by", "all", "push", "leak", "curvature", "rest", "residual"];
    all.push((head, stability.iter().map(terms).collect()));
    let stretch = |(kind, of): (&String, &Value)| {
        let e = &of["expansion"];
        e.is_object().then(|| {
            let factors = ["largest", "most", "along", "step"].map(|key| number(&e[key]));
            std::iter::once(kind.clone()).chain(factors).collect::<Vec<String>>()
        })
    };
    let stretched: Vec<Vec<String>> = stability.iter().filter_map(stretch).collect();
    if !stretched.is_empty() {
        let head = vec!["expansion of a step", "at most, on average", "at most", "along the episode", "difference of states"];
        all.push((head, stretched));
    }
    all
}

/// Files beside the diagnosis, and what they show.
pub(crate) fn figures(found: &Value) -> Vec<(&str, &str)> {
    found["figures"].as_array().into_iter().flatten().filter_map(|f| Some((f[0].as_str()?, f[1].as_str()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figures_stand_below_ours_on_the_task_that_they_are_of() {
        let others: Published = toml::from_str("[energy]\ndrift = { a = 0.01 }\nsign = { a = 0.757 }").unwrap();
        let found = |task: &str| serde_json::json!({ "task": task, "without_action": { "model": { "absolute": 0.5, "relative": 0.125 } }, "coupling": { "sign": 0.25 } });
        let on_a = tables(&found("a"), Some(&others));
        assert_eq!(on_a[0].1[0], ["no action", "0.5000", "12.5 %", "–", "–"]);
        assert_eq!(on_a[0].1[1], ["no action, published", "–", "1.0 %", "–", "–"]);
        assert_eq!(on_a[1].1, [["ours", "0.2500", "–", "–", "–"], ["published", "0.7570", "–", "–", "–"]]);
        let on_b = tables(&found("b"), Some(&others));
        assert_eq!((on_b[0].1.len(), on_b[1].1.len()), (3, 1));
        assert_eq!(on_b[0].1[1][0], "random actions");
        let without = tables(&serde_json::json!({ "left_out": { "random actions": "it gave 1e99" } }), None);
        assert_eq!(without[0].1[1], ["random actions, left out: the simulator diverges", "–", "–", "–", "–"]);
    }
}
