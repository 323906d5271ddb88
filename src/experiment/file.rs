//! The file of an experiment.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use runtime::tasks::Perturbation;
use serde::{Deserialize, Serialize};
use toml::Value;

/// Methods x tasks x seeds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Experiment {
    pub(crate) name: String,
    /// The folder of its runs in `runs`; experiments that name the same one share runs.
    folder: Option<String>,
    pub(crate) tasks: Vec<String>,
    pub(crate) seeds: Vec<u64>,
    /// The protocol of all runs, as of `--protocol`; otherwise each model's own.
    protocol: Option<String>,
    /// Settings as of `wmc train --set`, for all methods.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// Sizes as of `--dim`.
    #[serde(default)]
    dim: BTreeMap<String, u64>,
    /// Also evaluates on changed tasks.
    #[serde(default)]
    ood: Ood,
    /// Also looks at the energy of each trained model.
    #[serde(default)]
    pub(crate) diagnose: bool,
    #[serde(rename = "method")]
    pub(crate) methods: Vec<Method>,
}

/// Changes of the task: those that each is tested under, or these.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Ood {
    All(bool),
    These(Vec<String>),
}

impl Default for Ood {
    fn default() -> Ood {
        Ood::All(false)
    }
}

impl Ood {
    /// What `wmc eval --ood` is given.
    fn words(&self) -> Vec<String> {
        match self {
            Ood::All(false) => Vec::new(),
            Ood::All(true) => vec!["all".into()],
            Ood::These(changes) => std::iter::once("nominal".to_string()).chain(changes.iter().cloned()).collect(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Method {
    pub(crate) name: String,
    /// The `.wm` file, from the folder of the experiment's file.
    pub(crate) file: PathBuf,
    /// The model, where the file has several.
    model: Option<String>,
    /// Another file or model on some tasks.
    #[serde(default)]
    task: BTreeMap<String, Variant>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    dim: BTreeMap<String, u64>,
    /// What others have published, to be shown beside ours.
    #[serde(default)]
    pub(crate) paper: Paper,
}

/// What a method runs on one task, where that differs from the others.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    file: Option<PathBuf>,
    model: Option<String>,
}

/// Published figures, by task.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Paper {
    #[serde(rename = "return")]
    pub(crate) returns: BTreeMap<String, Published>,
    /// By metric and task: `mse[3]`.
    pub(crate) metrics: BTreeMap<String, BTreeMap<String, Published>>,
    /// By change and task: `mass=0.7`, or `mean` over all changes.
    pub(crate) ood: BTreeMap<String, BTreeMap<String, Published>>,
    /// The area under the curve, by task or as `mean` over all.
    pub(crate) auc: BTreeMap<String, Published>,
    /// What a diagnosis finds, by figure and task: `drift` without action as a part, `sign`, `size`, `lift_area`, `best_lift`.
    pub(crate) energy: BTreeMap<String, BTreeMap<String, f64>>,
}

/// A published figure: a number, or that and its deviation, `[254.0, 14.1]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Published {
    Number(f64),
    Spread(f64, f64),
}

impl std::fmt::Display for Published {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Published::Number(mean) => write!(f, "{mean}"),
            // As many digits of both.
            Published::Spread(mean, std) => {
                let digits = |x: &f64| x.to_string().split_once('.').map_or(0, |(_, after)| after.len());
                let digits = digits(mean).max(digits(std));
                write!(f, "{mean:.digits$} ± {std:.digits$}")
            }
        }
    }
}

impl Paper {
    /// With what another experiment says about the same method.
    pub(crate) fn and(mut self, other: Paper) -> Paper {
        fn add<T>(to: &mut BTreeMap<String, T>, from: BTreeMap<String, T>) {
            from.into_iter().for_each(|(key, x)| _ = to.entry(key).or_insert(x));
        }
        fn each<T>(to: &mut BTreeMap<String, BTreeMap<String, T>>, from: BTreeMap<String, BTreeMap<String, T>>) {
            from.into_iter().for_each(|(key, tasks)| add(to.entry(key).or_default(), tasks));
        }
        add(&mut self.returns, other.returns);
        add(&mut self.auc, other.auc);
        each(&mut self.metrics, other.metrics);
        each(&mut self.ood, other.ood);
        each(&mut self.energy, other.energy);
        self
    }
}

/// One run of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Job {
    /// `HaM-World on reacher_easy, seed 7`.
    pub(crate) title: String,
    pub(crate) label: Label,
    pub(crate) task: String,
    pub(crate) folder: PathBuf,
    /// What `wmc train` is given to start it.
    pub(crate) arguments: Vec<String>,
    /// Changes of the task, as `wmc eval --ood` has them.
    pub(crate) ood: Vec<String>,
    pub(crate) diagnose: bool,
    /// The decision that it is run to for now; otherwise to its end.
    pub(crate) until: Option<u64>,
}

/// What a run is for, kept in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) experiment: String,
    pub(crate) method: String,
    pub(crate) paper: Paper,
}

impl Experiment {
    pub(crate) fn read(path: &Path) -> Result<Experiment, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let experiment: Experiment = toml::from_str(&text).map_err(|e| e.to_string())?;
        if let Ood::These(changes) = &experiment.ood {
            changes.iter().try_for_each(|c| Perturbation::parse(c).map(|_| ()).map_err(|e| e.to_string()))?;
        }
        for (what, empty) in [
            ("tasks", experiment.tasks.is_empty()),
            ("seeds", experiment.seeds.is_empty()),
            ("methods", experiment.methods.is_empty()),
        ] {
            if empty {
                return Err(format!("it has no {what}"));
            }
        }
        // An experiment may come from somebody else: its runs stay in `runs`.
        let written = [("name", Some(&experiment.name)), ("folder", experiment.folder.as_ref())];
        for (field, name) in written.into_iter().filter_map(|(field, name)| Some((field, name?))) {
            let parts: Vec<Component<'_>> = Path::new(name).components().collect();
            let most = if field == "name" { 1 } else { usize::MAX };
            if !(1..=most).contains(&parts.len()) || !parts.iter().all(|part| matches!(part, Component::Normal(_))) {
                return Err(format!(
                    "its {field} is `{name}`, which is no name of a folder in `runs`: use one such as `ablations`"
                ));
            }
        }
        for method in &experiment.methods {
            if let Some(unknown) = method.task.keys().find(|task| !experiment.tasks.contains(task)) {
                return Err(format!("the method `{}` has a model for `{unknown}`, which is none of its tasks", method.name));
            }
        }
        let mut folders: Vec<String> = experiment.methods.iter().map(|m| plain(&m.name)).collect();
        folders.sort();
        if let Some(twice) = folders.windows(2).find(|w| w[0] == w[1]) {
            return Err(format!("two methods would share the folder `{}`", twice[0]));
        }
        Ok(experiment)
    }

    /// Leaves some of it, by name; all of what is not named.
    pub(crate) fn only(&mut self, methods: &[String], tasks: &[String], seeds: &[u64]) -> Result<(), String> {
        fn some<T>(all: &mut Vec<T>, kind: &str, wanted: &[String], name: impl Fn(&T) -> String) -> Result<(), String> {
            let names: Vec<String> = all.iter().map(&name).collect();
            if let Some(unknown) = wanted.iter().find(|w| !names.iter().any(|n| plain(n) == plain(w))) {
                return Err(format!("it has no {kind} `{unknown}`, but {}", names.join(", ")));
            }
            all.retain(|x| wanted.is_empty() || wanted.iter().any(|w| plain(w) == plain(&name(x))));
            Ok(())
        }
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        some(&mut self.methods, "method", methods, |m| m.name.clone())?;
        some(&mut self.tasks, "task", tasks, String::clone)?;
        some(&mut self.seeds, "seed", &seeds, u64::to_string)
    }

    /// Where its runs are.
    pub(crate) fn folder(&self) -> PathBuf {
        Path::new("runs").join(self.folder.as_ref().unwrap_or(&self.name))
    }

    /// All runs, seed by seed: after the first seed every method has been on every task once.
    pub(crate) fn jobs(&self, file: &Path, out: &Path, more: &[(String, String)], until: Option<u64>) -> Vec<Job> {
        let from = file.parent().unwrap_or(Path::new(""));
        let mut jobs = Vec::new();
        for seed in &self.seeds {
            for (task, method) in self.tasks.iter().flat_map(|t| self.methods.iter().map(move |m| (t, m))) {
                let variant = method.task.get(task).cloned().unwrap_or_default();
                // A model's name belongs to its file.
                let model = if variant.file.is_some() { variant.model } else { variant.model.or_else(|| method.model.clone()) };
                let file = from.join(variant.file.as_ref().unwrap_or(&method.file));
                let mut arguments = vec![file.display().to_string(), "--task".into(), task.clone()];
                arguments.extend(["--seed".into(), seed.to_string()]);
                arguments.extend(model.iter().flat_map(|m| ["--model".into(), m.clone()]));
                arguments.extend(self.protocol.iter().flat_map(|p| ["--protocol".into(), p.clone()]));
                let dims = self.dim.iter().filter(|(name, _)| !method.dim.contains_key(*name)).chain(&method.dim);
                arguments.extend(dims.flat_map(|(name, size)| ["--dim".into(), format!("{name}={size}")]));
                arguments.extend(self.settings(method, more).into_iter().flat_map(|(n, v)| ["--set".into(), format!("{n}={v}")]));
                jobs.push(Job {
                    title: format!("{} on {task}, seed {seed}", method.name),
                    label: Label { experiment: self.name.clone(), method: method.name.clone(), paper: method.paper.clone() },
                    task: task.clone(),
                    folder: out.join(format!("{}-{}-{seed}", plain(&method.name), plain(task))),
                    arguments,
                    ood: self.ood.words(),
                    diagnose: self.diagnose,
                    until,
                });
            }
        }
        jobs
    }

    /// The command line wins over the method, the method over the experiment.
    fn settings(&self, method: &Method, more: &[(String, String)]) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let written = self.set.iter().chain(&method.set).map(|(name, value)| (name.clone(), text(value)));
        written.chain(more.iter().cloned()).collect()
    }
}

/// A name as a part of a folder's.
pub(crate) fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Experiment, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, text).unwrap();
        Experiment::read(&path)
    }

    const TWO: &str = "name = 'two'\ntasks = ['a', 'b']\nseeds = [7, 8]\nset = { steps = 10, reward = 'sum' }\ndim = { T = 4 }\n\
        [[method]]\nname = 'One'\nfile = 'one.wm'\n[[method]]\nname = 'A 2'\nfile = 'more.wm'\nmodel = 'A2'\nset = { steps = 20 }\ndim = { T = 8 }\n";

    #[test]
    fn every_method_meets_every_task_before_the_next_seed() {
        let jobs = read(TWO).unwrap().jobs(Path::new("exp/x.toml"), Path::new("runs"), &[("reward".into(), "mean".into())], None);
        let titles: Vec<&str> = jobs.iter().map(|j| j.title.as_str()).collect();
        assert_eq!(
            titles[..5],
            ["One on a, seed 7", "A 2 on a, seed 7", "One on b, seed 7", "A 2 on b, seed 7", "One on a, seed 8"]
        );
        assert_eq!((jobs.len(), &jobs[1].folder), (8, &PathBuf::from("runs/a_2-a-7")));
        let words = "exp/more.wm --task a --seed 7 --model A2 --dim T=8 --set reward=mean --set steps=20";
        assert_eq!(jobs[1].arguments.join(" "), words);
    }

    #[test]
    fn a_method_may_run_another_model_on_a_task() {
        let text = TWO.replacen("seeds", "protocol = 'paper'\nseeds", 1) + "[method.task.b]\nmodel = 'B2'\n";
        let arguments =
            |text: &str| read(text).unwrap().jobs(Path::new("exp/x.toml"), Path::new("runs"), &[], None)[3].arguments.join(" ");
        let told = arguments(&text);
        assert!(told.starts_with("exp/more.wm --task b --seed 7 --model B2 --protocol paper --dim"), "{told}");
        // Another file has models of its own.
        let told = arguments(&text.replace("model = 'B2'", "file = 'b.wm'"));
        assert!(told.starts_with("exp/b.wm --task b --seed 7 --protocol paper"), "{told}");
        let told = read(&text.replace("method.task.b", "method.task.c")).unwrap_err();
        assert!(told.contains("`c`"), "{told}");
    }

    #[test]
    fn a_part_of_it_is_named() {
        let mut experiment = read(TWO).unwrap();
        experiment.only(&["a-2".into()], &[], &[8]).unwrap();
        let jobs = experiment.jobs(Path::new("x.toml"), Path::new("runs"), &[], None);
        assert_eq!(jobs.iter().map(|j| j.title.as_str()).collect::<Vec<_>>(), ["A 2 on a, seed 8", "A 2 on b, seed 8"]);
        let told = read(TWO).unwrap().only(&["Two".into()], &[], &[]).unwrap_err();
        assert_eq!(told, "it has no method `Two`, but One, A 2");
        assert_eq!(read(TWO).unwrap().only(&[], &[], &[9]).unwrap_err(), "it has no seed `9`, but 7, 8");
    }

    #[test]
    fn changes_are_all_or_those_that_are_listed() {
        let words = |text: &str| read(&TWO.replacen("seeds", &format!("{text}\nseeds"), 1)).unwrap().ood.words();
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words("ood = true"), ["all"]);
        assert_eq!(words("ood = ['delay=2', 'mask=0.3']"), ["nominal", "delay=2", "mask=0.3"]);
    }

    #[test]
    fn papers_of_several_experiments_add_up() {
        let paper = |text: &str| toml::from_str::<Paper>(text).unwrap();
        let one = paper("return = { a = 1.0 }\nood = { 'mass=2' = { a = 3.0 } }");
        let both = one.and(paper("return = { a = 7.0, b = 2.0 }\nood = { 'mass=2' = { b = 4.0 } }"));
        assert_eq!(both, paper("return = { a = 1.0, b = 2.0 }\nood = { 'mass=2' = { a = 3.0, b = 4.0 } }"));
    }

    #[test]
    fn a_published_figure_may_have_a_deviation() {
        let text = "auc = { mean = 98 }\nreturn = { a = [254.0, 14.15], b = 0.5 }\n";
        let paper: Paper = toml::from_str(text).unwrap();
        let shown = [paper.returns["a"], paper.returns["b"], paper.auc["mean"]].map(|figure| figure.to_string());
        assert_eq!(shown, ["254.00 ± 14.15", "0.5", "98"]);
        let kept = serde_json::to_string(&paper).unwrap();
        assert!(kept.contains(r#""a":[254.0,14.15],"b":0.5"#), "{kept}");
        assert_eq!(serde_json::from_str::<Paper>(&kept).unwrap(), paper);
        assert!(toml::from_str::<Paper>("return = { a = [1.0, 2.0, 3.0] }").is_err());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (from, to, word) in [
            ("seeds = [7, 8]", "seeds = []", "no seeds"),
            ("tasks", "taks", "taks"),
            ("'A 2'", "'ONE'", "`one`"),
            ("file = 'one.wm'", "", "file"),
            ("steps = 10", "steps = ", "steps"),
            ("seeds = [7, 8]", "seeds = [7]\nood = ['wind=2']", "wind=2"),
            ("name = 'two'", "name = '../../two'", "`../../two`, which is no name"),
            ("name = 'two'", "name = '/tmp/two'", "`/tmp/two`, which is no name"),
            ("name = 'two'", "name = ''", "which is no name"),
            ("name = 'two'", "name = 'a/b'", "`a/b`, which is no name"),
            ("name = 'two'", "name = 'two'\nfolder = 'a/../../b'", "its folder is `a/../../b`"),
        ] {
            let told = read(&TWO.replacen(from, to, 1)).unwrap_err();
            assert!(told.contains(word), "{told}");
        }
    }
}
