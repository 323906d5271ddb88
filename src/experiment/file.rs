//! The file of an experiment.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use runtime::tasks::Perturbation;
use serde::{Deserialize, Serialize};
use toml::Value;

use super::published::{Published, Source};

/// Methods x tasks x seeds, all at once or in stages.
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
    /// Episodes under each change; otherwise as many as the protocol says.
    ood_episodes: Option<u64>,
    /// Also runs `wmc diagnose` on each trained model.
    #[serde(default)]
    diagnose: bool,
    /// Where published figures come from.
    #[serde(default)]
    published: Source,
    #[serde(rename = "method")]
    pub(crate) methods: Vec<Method>,
    /// Parts of it, one after the other; without any, all of it is one.
    #[serde(default, rename = "stage")]
    stages: Vec<Stage>,
}

/// A part of an experiment. What it leaves out is the experiment's.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stage {
    name: String,
    methods: Option<Vec<String>>,
    tasks: Option<Vec<String>>,
    seeds: Option<Vec<u64>>,
    /// The decision that its runs come to; a later stage goes on with them.
    until: Option<u64>,
    ood: Option<Ood>,
    diagnose: Option<bool>,
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

    fn check(&self) -> Result<(), String> {
        let Ood::These(changes) = self else { return Ok(()) };
        changes.iter().try_for_each(|c| Perturbation::parse(c).map(|_| ()).map_err(|e| e.to_string()))
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
    /// The method that a report compares it with at equal decisions.
    against: Option<String>,
    /// What others have published, to be shown beside ours.
    #[serde(default)]
    published: Published,
}

/// What a method runs on one task, where that differs from the others.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    file: Option<PathBuf>,
    model: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, Value>,
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
    /// Episodes under each of them; otherwise as many as the protocol says.
    pub(crate) ood_episodes: Option<u64>,
    pub(crate) diagnose: bool,
    /// The decision that it is run to for now; otherwise to its end.
    pub(crate) until: Option<u64>,
}

/// What a run is for, kept in its folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Label {
    pub(crate) experiment: String,
    pub(crate) method: String,
    /// The `.wm` file from the folder above the experiment's, where it is in there.
    #[serde(default)]
    pub(crate) file: Option<String>,
    #[serde(default)]
    pub(crate) against: Option<String>,
    #[serde(default)]
    pub(crate) published: Published,
}

/// A part of an experiment, by names; all of what is not named.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part<'a> {
    pub(crate) stages: &'a [String],
    pub(crate) methods: &'a [String],
    pub(crate) tasks: &'a [String],
    pub(crate) seeds: &'a [u64],
}

impl Experiment {
    pub(crate) fn read(path: &Path) -> Result<Experiment, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut experiment: Experiment = toml::from_str(&text).map_err(|e| e.to_string())?;
        experiment.ood.check()?;
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
        for method in &mut experiment.methods {
            if let Some(unknown) = method.task.keys().find(|task| !experiment.tasks.contains(task)) {
                return Err(format!("the method `{}` has a model for `{unknown}`, which is none of its tasks", method.name));
            }
            method.published.source.get_or_insert_with(|| experiment.published.clone());
            method.published.check(&method.name)?;
        }
        let names: Vec<&str> = experiment.methods.iter().map(|m| m.name.as_str()).collect();
        if let Some(method) = experiment.methods.iter().find(|m| m.against.as_deref().is_some_and(|base| !names.contains(&base)))
        {
            let base = method.against.as_deref().unwrap_or_default();
            return Err(format!("the method `{}` is compared with `{base}`, which is none of its methods", method.name));
        }
        let mut folders: Vec<String> = names.iter().map(|name| plain(name)).collect();
        folders.sort();
        if let Some(twice) = folders.windows(2).find(|w| w[0] == w[1]) {
            return Err(format!("two methods would share the folder `{}`", twice[0]));
        }
        experiment.stages.iter().try_for_each(|stage| experiment.check(stage))?;
        if experiment.stages.is_empty() {
            experiment.stages.push(Stage::default());
        }
        Ok(experiment)
    }

    /// What a stage names is there.
    fn check(&self, stage: &Stage) -> Result<(), String> {
        let same = self.stages.iter().filter(|other| plain(&other.name) == plain(&stage.name)).count();
        if same > 1 {
            return Err(format!("two stages have the name `{}`", stage.name));
        }
        let methods: Vec<String> = self.methods.iter().map(|m| m.name.clone()).collect();
        for (kind, wanted, known) in [("method", &stage.methods, &methods), ("task", &stage.tasks, &self.tasks)] {
            if let Some(unknown) = wanted.iter().flatten().find(|name| !known.contains(name)) {
                return Err(format!("the stage `{}` has a {kind} `{unknown}`, and there are {}", stage.name, known.join(", ")));
            }
        }
        stage.ood.as_ref().map_or(Ok(()), Ood::check)
    }

    /// Leaves some of it, by name; all of what is not named.
    pub(crate) fn only(&mut self, part: &Part<'_>) -> Result<(), String> {
        fn some<T>(all: &mut Vec<T>, kind: &str, wanted: &[String], name: impl Fn(&T) -> String) -> Result<(), String> {
            let names: Vec<String> = all.iter().map(&name).collect();
            if let Some(unknown) = wanted.iter().find(|w| !names.iter().any(|n| plain(n) == plain(w))) {
                return Err(format!("it has no {kind} `{unknown}`, but {}", names.join(", ")));
            }
            all.retain(|x| wanted.is_empty() || wanted.iter().any(|w| plain(w) == plain(&name(x))));
            Ok(())
        }
        some(&mut self.stages, "stage", part.stages, |s| s.name.clone())?;
        some(&mut self.methods, "method", part.methods, |m| m.name.clone())?;
        some(&mut self.tasks, "task", part.tasks, String::clone)?;
        // A stage may have seeds that the others do not have.
        let stages = self.stages.iter_mut().filter_map(|stage| stage.seeds.as_mut());
        let mut lists: Vec<&mut Vec<u64>> = stages.chain([&mut self.seeds]).collect();
        let mut known: Vec<u64> = lists.iter().flat_map(|seeds| seeds.iter().copied()).collect();
        known.sort_unstable();
        known.dedup();
        let seeds: Vec<String> = part.seeds.iter().map(u64::to_string).collect();
        some(&mut known, "seed", &seeds, u64::to_string)?;
        lists.iter_mut().for_each(|seeds| seeds.retain(|seed| known.contains(seed)));
        Ok(())
    }

    /// Where its runs are.
    pub(crate) fn folder(&self) -> PathBuf {
        Path::new("runs").join(self.folder.as_ref().unwrap_or(&self.name))
    }

    /// All runs, stage by stage. Within a stage, after the first seed every method has been on every task once.
    pub(crate) fn stages(&self, file: &Path, out: &Path, more: &[(String, String)], until: Option<u64>) -> Vec<Vec<Job>> {
        let jobs = |stage: &Stage| {
            let is_wanted = |wanted: &Option<Vec<String>>, name: &String| wanted.as_ref().is_none_or(|all| all.contains(name));
            let mut jobs = Vec::new();
            for seed in stage.seeds.as_ref().unwrap_or(&self.seeds) {
                for task in self.tasks.iter().filter(|task| is_wanted(&stage.tasks, task)) {
                    let methods = self.methods.iter().filter(|method| is_wanted(&stage.methods, &method.name));
                    let job = |method| Job {
                        ood: stage.ood.as_ref().unwrap_or(&self.ood).words(),
                        diagnose: stage.diagnose.unwrap_or(self.diagnose),
                        until: [stage.until, until].into_iter().flatten().min(),
                        ..self.job(method, task, *seed, file, out, more)
                    };
                    jobs.extend(methods.map(job));
                }
            }
            jobs
        };
        self.stages.iter().map(jobs).collect()
    }

    /// A run to its end.
    fn job(&self, method: &Method, task: &str, seed: u64, file: &Path, out: &Path, more: &[(String, String)]) -> Job {
        let from = file.parent().unwrap_or(Path::new(""));
        let variant = method.task.get(task).cloned().unwrap_or_default();
        // A model's name belongs to its file.
        let model = if variant.file.is_some() { variant.model } else { variant.model.or_else(|| method.model.clone()) };
        let file = variant.file.as_ref().unwrap_or(&method.file);
        let mut arguments = vec![from.join(file).display().to_string(), "--task".into(), task.to_string()];
        arguments.extend(["--seed".into(), seed.to_string()]);
        arguments.extend(model.iter().flat_map(|m| ["--model".into(), m.clone()]));
        arguments.extend(self.protocol.iter().flat_map(|p| ["--protocol".into(), p.clone()]));
        let dims = self.dim.iter().filter(|(name, _)| !method.dim.contains_key(*name)).chain(&method.dim);
        arguments.extend(dims.flat_map(|(name, size)| ["--dim".into(), format!("{name}={size}")]));
        // The command line wins over the task's, that over the method's, and that over the experiment's.
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let written = self.set.iter().chain(&method.set).chain(&variant.set).map(|(name, value)| (name.clone(), text(value)));
        let settings: BTreeMap<String, String> = written.chain(more.iter().cloned()).collect();
        arguments.extend(settings.into_iter().flat_map(|(n, v)| ["--set".into(), format!("{n}={v}")]));
        let label = Label {
            experiment: self.name.clone(),
            method: method.name.clone(),
            file: beside(file),
            against: method.against.clone(),
            published: method.published.clone(),
        };
        Job {
            title: format!("{} on {task}, seed {seed}", method.name),
            label,
            task: task.to_string(),
            folder: out.join(format!("{}-{}-{seed}", plain(&method.name), plain(task))),
            arguments,
            ood: Vec::new(),
            ood_episodes: self.ood_episodes,
            diagnose: false,
            until: None,
        }
    }
}

/// `../paper/sac.wm` is `paper/sac.wm` from the folder above the experiment's. None of files that lie elsewhere.
fn beside(file: &Path) -> Option<String> {
    let file = file.strip_prefix("..").ok()?;
    let is_inside = file.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| file.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/"))
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

    /// The jobs of all stages.
    fn jobs(experiment: &Experiment, more: &[(String, String)]) -> Vec<Job> {
        experiment.stages(Path::new("exp/x.toml"), Path::new("runs"), more, None).concat()
    }

    const TWO: &str = "name = 'two'\ntasks = ['a', 'b']\nseeds = [7, 8]\nset = { steps = 10, reward = 'sum' }\ndim = { T = 4 }\n\
        [[method]]\nname = 'One'\nfile = 'one.wm'\n[[method]]\nname = 'A 2'\nfile = 'more.wm'\nmodel = 'A2'\nset = { steps = 20 }\ndim = { T = 8 }\n";

    #[test]
    fn every_method_meets_every_task_before_the_next_seed() {
        let jobs = jobs(&read(TWO).unwrap(), &[("reward".into(), "mean".into())]);
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
        let arguments = |text: &str| jobs(&read(text).unwrap(), &[])[3].arguments.join(" ");
        let told = arguments(&text);
        assert!(told.starts_with("exp/more.wm --task b --seed 7 --model B2 --protocol paper --dim"), "{told}");
        // Another file has models of its own.
        let told = arguments(&text.replace("model = 'B2'", "file = 'b.wm'"));
        assert!(told.starts_with("exp/b.wm --task b --seed 7 --protocol paper"), "{told}");
        // And settings.
        let told = arguments(&text.replace("model = 'B2'", "set = { steps = 30 }"));
        assert!(told.ends_with("--set reward=sum --set steps=30"), "{told}");
        let told = read(&text.replace("method.task.b", "method.task.c")).unwrap_err();
        assert!(told.contains("`c`"), "{told}");
    }

    #[test]
    fn a_part_of_it_is_named() {
        let mut experiment = read(TWO).unwrap();
        let (methods, seeds) = (["a-2".to_string()], [8]);
        experiment.only(&Part { methods: &methods, seeds: &seeds, ..Part::default() }).unwrap();
        let jobs = jobs(&experiment, &[]);
        assert_eq!(jobs.iter().map(|j| j.title.as_str()).collect::<Vec<_>>(), ["A 2 on a, seed 8", "A 2 on b, seed 8"]);
        let told = |part: &Part<'_>| read(TWO).unwrap().only(part).unwrap_err();
        assert_eq!(told(&Part { methods: &["Two".into()], ..Part::default() }), "it has no method `Two`, but One, A 2");
        assert_eq!(told(&Part { seeds: &[9], ..Part::default() }), "it has no seed `9`, but 7, 8");
    }

    const STAGES: &str = "ood = true\n[[stage]]\nname = 'first'\nmethods = ['One']\nuntil = 5\nood = false\n\
        [[stage]]\nname = 'then'\nmethods = ['One', 'A 2']\ntasks = ['b']\nseeds = [8, 11]\ndiagnose = true\n";

    #[test]
    fn stages_are_parts_in_their_order() {
        let text = TWO.replacen("[[method]]", &(STAGES.to_string() + "[[method]]"), 1);
        let experiment = read(&text).unwrap();
        let stages = experiment.stages(Path::new("x.toml"), Path::new("runs"), &[], Some(7));
        let titles = |jobs: &[Job]| jobs.iter().map(|j| j.title.clone()).collect::<Vec<_>>();
        assert_eq!(titles(&stages[0]), ["One on a, seed 7", "One on b, seed 7", "One on a, seed 8", "One on b, seed 8"]);
        assert_eq!(titles(&stages[1]), ["One on b, seed 8", "A 2 on b, seed 8", "One on b, seed 11", "A 2 on b, seed 11"]);
        let of = |job: &Job| (job.until, job.ood.len(), job.diagnose);
        assert_eq!((of(&stages[0][0]), of(&stages[1][0])), ((Some(5), 0, false), (Some(7), 1, true)));
        // The same run, further.
        assert_eq!(stages[0][3].folder, stages[1][0].folder);
        let mut part = read(&text).unwrap();
        part.only(&Part { stages: &["then".into()], seeds: &[11], ..Part::default() }).unwrap();
        assert_eq!(titles(&jobs(&part, &[])), ["One on b, seed 11", "A 2 on b, seed 11"]);
        for (from, to, word) in [
            ("methods = ['One', 'A 2']", "methods = ['Two']", "the stage `then` has a method `Two`, and there are One, A 2"),
            ("tasks = ['b']", "tasks = ['c']", "a task `c`"),
            ("'then'", "'First'", "two stages have the name"),
            ("ood = false", "ood = ['wind=2']", "wind=2"),
            ("until", "untill", "untill"),
        ] {
            let told = read(&text.replacen(from, to, 1)).unwrap_err();
            assert!(told.contains(word), "{told}");
        }
    }

    #[test]
    fn changes_are_all_or_those_that_are_listed() {
        let words = |text: &str| read(&TWO.replacen("seeds", &format!("{text}\nseeds"), 1)).unwrap().ood.words();
        assert_eq!(words(""), [""; 0]);
        assert_eq!(words("ood = true"), ["all"]);
        assert_eq!(words("ood = ['delay=2', 'mask=0.3']"), ["nominal", "delay=2", "mask=0.3"]);
    }

    #[test]
    fn the_experiments_that_are_ready_can_be_read() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/experiments");
        let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty());
        for file in files {
            let experiment = Experiment::read(&file).unwrap_or_else(|told| panic!("{}: {told}", file.display()));
            assert!(experiment.stages(&file, Path::new("runs"), &[], None).iter().all(|jobs| !jobs.is_empty()), "{file:?}");
        }
    }

    #[test]
    fn a_method_has_published_figures_and_another_to_be_compared_with() {
        let text = TWO.replacen("seeds", "published = { label = 'theirs', seeds = [1, 2, 3] }\nseeds", 1)
            + "against = 'One'\n[method.published]\nreturn = { a = [1.0, 2.0, 3.0] }\n";
        let label = jobs(&read(&text).unwrap(), &[])[1].label.clone();
        assert_eq!((label.against.as_deref(), label.published.label(), label.file), (Some("One"), "theirs", None));
        let told = read(&text.replace("2.0, 3.0", "2.0")).unwrap_err();
        assert!(told.contains("a published figure of `A 2` for `a` has 2 numbers") && told.contains("names 3 seeds"), "{told}");
        let told = read(&text.replace("'One'\n[", "'Two'\n[")).unwrap_err();
        assert!(told.contains("`A 2` is compared with `Two`"), "{told}");
        let file = |text: &str| beside(Path::new(text));
        assert_eq!(file("../paper/sac.wm").as_deref(), Some("paper/sac.wm"));
        assert_eq!((file("../../sac.wm"), file("/a/sac.wm")), (None, None));
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
