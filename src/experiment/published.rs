//! Published figures of a method, for comparison with ours.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::summary::Figure;

/// Where figures come from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Source {
    /// What tables call it; otherwise `published`.
    pub(crate) label: Option<String>,
    /// The seeds of figures that are given seed by seed.
    pub(crate) seeds: Vec<u64>,
    /// Decisions of the runs that they are of.
    pub(crate) steps: Option<u64>,
    /// Figures whose agreement with ours is looked at: `return`, `auc`.
    pub(crate) agree: Vec<String>,
}

/// Published figures, by task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Published {
    /// That of the experiment, where the method does not have its own.
    pub(crate) source: Option<Source>,
    #[serde(rename = "return")]
    pub(crate) returns: BTreeMap<String, Reported>,
    /// By metric and task: `mse[3]`.
    pub(crate) metrics: BTreeMap<String, BTreeMap<String, Reported>>,
    /// By change and task: `mass=0.7`, `nominal`, or `mean` over all changes.
    pub(crate) ood: BTreeMap<String, BTreeMap<String, Reported>>,
    /// The area under the curve, by task or as `mean` over all.
    pub(crate) auc: BTreeMap<String, Reported>,
    /// What a diagnosis shows, by name and task: `signed`, or with a column `crossing.best_lift`.
    pub(crate) diagnosis: BTreeMap<String, BTreeMap<String, Reported>>,
}

/// A published figure: a number, one for each seed, or a mean with the deviation of `n` runs (divisor n).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Reported {
    Number(f64),
    Seeds(Vec<f64>),
    Spread {
        mean: f64,
        std: f64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        n: Option<usize>,
    },
}

impl Reported {
    /// One number for each seed, or nothing.
    pub(crate) fn seeds(&self) -> &[f64] {
        if let Reported::Seeds(all) = self { all } else { &[] }
    }

    /// As if it were ours. A deviation of an unknown number of runs is left out.
    pub(crate) fn figure(&self) -> Option<Figure> {
        match self {
            Reported::Number(mean) => Figure::of([*mean]),
            Reported::Seeds(all) => Figure::of(all.iter().copied()),
            Reported::Spread { mean, std, n: Some(n) } if *n > 1 => {
                Some(Figure { mean: *mean, std: Some(std * (*n as f64 / (*n - 1) as f64).sqrt()), n: *n })
            }
            Reported::Spread { mean, .. } => Figure::of([*mean]),
        }
    }
}

impl std::fmt::Display for Reported {
    /// The mean and the deviation with the divisor n, as published.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reported::Number(mean) => write!(f, "{mean}"),
            Reported::Seeds(all) => Figure::of(all.iter().copied()).map_or(Ok(()), |figure| f.write_str(&figure.population())),
            // As many digits of both.
            Reported::Spread { mean, std, .. } => {
                let digits = |x: &f64| x.to_string().split_once('.').map_or(0, |(_, after)| after.len());
                let digits = digits(mean).max(digits(std));
                write!(f, "{mean:.digits$} ± {std:.digits$}")
            }
        }
    }
}

impl Published {
    /// With what another experiment says about the same method.
    pub(crate) fn and(mut self, other: Published) -> Published {
        fn add<T>(to: &mut BTreeMap<String, T>, from: BTreeMap<String, T>) {
            from.into_iter().for_each(|(key, x)| _ = to.entry(key).or_insert(x));
        }
        fn each<T>(to: &mut BTreeMap<String, BTreeMap<String, T>>, from: BTreeMap<String, BTreeMap<String, T>>) {
            from.into_iter().for_each(|(key, tasks)| add(to.entry(key).or_default(), tasks));
        }
        self.source = self.source.or(other.source);
        add(&mut self.returns, other.returns);
        add(&mut self.auc, other.auc);
        each(&mut self.metrics, other.metrics);
        each(&mut self.ood, other.ood);
        each(&mut self.diagnosis, other.diagnosis);
        self
    }

    /// A figure of each seed has as many numbers as there are seeds.
    pub(super) fn check(&self, method: &str) -> Result<(), String> {
        let source = self.source.clone().unwrap_or_default();
        if let Some(unknown) = source.agree.iter().find(|name| !["return", "auc"].contains(&name.as_str())) {
            return Err(format!("the agreement of `{unknown}` cannot be looked at, but that of return and auc"));
        }
        let seeds = &source.seeds;
        let nested = [&self.metrics, &self.ood, &self.diagnosis].into_iter().flat_map(|all| all.values());
        for (task, reported) in nested.flatten().chain(&self.returns).chain(&self.auc) {
            let Reported::Seeds(all) = reported else { continue };
            if all.len() != seeds.len() {
                return Err(format!(
                    "a published figure of `{method}` for `{task}` has {} numbers, one for each seed, and `[published]` names {} \
                     seeds: write `seeds = [7, 8, 9]` there, or the figure as {{ mean = 254.0, std = 14.1, n = 3 }}",
                    all.len(),
                    seeds.len()
                ));
            }
        }
        Ok(())
    }

    /// What tables call it.
    pub(crate) fn label(&self) -> &str {
        self.source.as_ref().and_then(|source| source.label.as_deref()).unwrap_or("published")
    }

    /// Whether a report looks at the agreement of a figure.
    pub(crate) fn checks(&self, name: &str) -> bool {
        self.source.as_ref().is_some_and(|source| source.agree.iter().any(|wanted| wanted == name))
    }

    /// Whether figures of runs of this length may be compared with it.
    pub(crate) fn is_of(&self, steps: u64) -> bool {
        self.source.as_ref().and_then(|source| source.steps).is_none_or(|published| published == steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_several_experiments_add_up() {
        let published = |text: &str| toml::from_str::<Published>(text).unwrap();
        let one = published("return = { a = 1.0 }\nood = { 'mass=2' = { a = 3.0 } }");
        let both = one.and(published("return = { a = 7.0, b = 2.0 }\nood = { 'mass=2' = { b = 4.0 } }"));
        assert_eq!(both, published("return = { a = 1.0, b = 2.0 }\nood = { 'mass=2' = { a = 3.0, b = 4.0 } }"));
    }

    #[test]
    fn a_figure_is_a_number_or_has_seeds_or_a_deviation() {
        let text = "auc = { mean = 98 }\nreturn = { a = { mean = 254.0, std = 14.15, n = 3 }, b = [161.0, 146.7, 144.0] }\n";
        let published: Published = toml::from_str(text).unwrap();
        let shown = |figure: &Reported| figure.to_string();
        assert_eq!(shown(&published.returns["a"]), "254.00 ± 14.15");
        // As the authors of these three numbers print them.
        assert_eq!(shown(&published.returns["b"]), "150.6 ± 7.5");
        assert_eq!(shown(&published.auc["mean"]), "98");
        // The deviation of a sample, of three.
        let figure = published.returns["a"].figure().unwrap();
        assert!((figure.std.unwrap() - 14.15 * 1.5f64.sqrt()).abs() < 1e-12 && figure.n == 3);
        assert_eq!(Reported::Spread { mean: 1.0, std: 2.0, n: None }.figure().unwrap().std, None);
        let kept = serde_json::to_string(&published).unwrap();
        assert_eq!(serde_json::from_str::<Published>(&kept).unwrap(), published);
        assert!(toml::from_str::<Published>("return = { a = { mean = 1.0 } }").is_err());
    }
}
