//! What to train, where, with which settings.

use std::sync::Arc;

use dsl::hir::{self, Model, Setting, Train};

use crate::Error;
use crate::program::Compute;
use crate::tasks::mujoco::described;
use crate::tasks::{Environment, Settings, Spec, Task, TaskError, suite};

#[derive(Debug, Clone)]
pub struct Config {
    pub model: Model,
    pub task: String,
    /// The protocol that the task's settings come from.
    pub protocol: String,
    pub environment: Settings,
    pub train: Train,
    pub seed: u64,
    pub compute: Compute,
    /// A task of the program's own in the place of that of the name.
    pub own: Option<Own>,
}

/// Makes environments' tasks: one for training, and one for each episode of an evaluation.
#[derive(Clone)]
pub struct Own(Arc<dyn Fn() -> Box<dyn Task> + Send + Sync>);

impl Own {
    pub fn new(make: impl Fn() -> Box<dyn Task> + Send + Sync + 'static) -> Own {
        Own(Arc::new(make))
    }
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Own(..)")
    }
}

/// A setting that was changed: its name, and its values before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub name: String,
    pub from: String,
    pub to: String,
}

impl Config {
    /// The protocol of a task that describes itself in a file.
    const OWN: &str = "own";
    const TRAIN: [&str; 7] = ["steps", "seed_steps", "every", "updates", "eval_every", "eval_episodes", "ood_episodes"];
    const TASK: [&str; 9] = ["repeat", "length", "control_steps", "limit", "reward", "reward_scale", "delay", "mask", "physics"];

    /// How the task of a program's own world is called: this, and the world's name.
    const WORLD: &str = "own:";

    /// Training of a model whose sizes are those of its task.
    pub fn new(model: Model, task: &str, seed: u64) -> Result<Config, Error> {
        let (protocol, environment) = match described::path(task) {
            Some(path) => (Config::OWN.to_string(), described::settings(task, path)?),
            None if task.starts_with(Config::WORLD) => (Config::OWN.to_string(), Settings::default()),
            None => {
                let task = task_of(&model, Some(task))?;
                (task.protocol.clone(), Settings::of(task)?)
            }
        };
        let train = model.settings.clone();
        Ok(Config { task: task.to_string(), protocol, environment, train, seed, compute: Compute::default(), own: None, model })
    }

    /// Training in a world of the program's own, of this name, which the model's text need not know.
    pub fn of_world(model: Model, name: &str, seed: u64) -> Result<Config, Error> {
        Config::new(model, &format!("{}{name}", Config::WORLD), seed)
    }

    /// Whether a task is none that the model's text or this crate knows: a world of a program's own, or a description in a file.
    pub(crate) fn is_outside(task: &str) -> bool {
        task.starts_with(Config::WORLD) || described::path(task).is_some()
    }

    /// `steps=2000`: changes a setting of `train` or of the task.
    pub fn set(&mut self, name: &str, value: &str) -> Result<Change, Error> {
        let change = |from: String| Change { name: name.to_string(), from, to: value.to_string() };
        if let Some(place) = self.train_setting(name) {
            let wrong = || Error::SettingValue { name: name.into(), found: value.into(), wanted: "a whole number from 1 on" };
            let number: u64 = value.replace('_', "").parse().map_err(|_| wrong())?;
            if number == 0 && name != "seed_steps" {
                return Err(wrong());
            }
            if hir::Train::EPISODES.contains(&name) && number > hir::Train::MAX_EPISODES {
                return Err(Error::TooMany { name: name.into(), found: number, most: hir::Train::MAX_EPISODES });
            }
            let old = std::mem::replace(place, number);
            return Ok(change(old.to_string()));
        }
        if !Config::TASK.contains(&name) {
            let known = [&Config::TRAIN[..], &Config::TASK[..]].concat().join(", ");
            return Err(Error::Setting { name: name.into(), known });
        }
        let setting = match value.parse::<f64>() {
            Ok(number) => Setting::Number(number),
            Err(_) => Setting::Text(value.to_string()),
        };
        let before = self.environment.shown(name);
        self.environment.set(&self.task, name, &setting)?;
        Ok(change(before))
    }

    fn train_setting(&mut self, name: &str) -> Option<&mut u64> {
        let t = &mut self.train;
        Some(match name {
            "steps" => &mut t.steps,
            "seed_steps" => &mut t.seed_steps,
            "every" => &mut t.every,
            "updates" => &mut t.updates,
            "eval_every" => &mut t.eval_every,
            "eval_episodes" => &mut t.eval_episodes,
            "ood_episodes" => t.ood_episodes.get_or_insert(t.eval_episodes),
            _ => return None,
        })
    }

    /// A new environment of the task, whose sizes must be the model's.
    pub fn environment(&self, seed: u64) -> Result<Environment, Error> {
        let task = match &self.own {
            Some(Own(make)) => make(),
            None if self.task.starts_with(Config::WORLD) => return Err(Error::NoWorld { task: self.task.clone() }),
            None => suite::task(&self.task, &self.environment)?,
        };
        let layout = crate::experience::Layout::of(&self.model)?;
        let spec = task.spec();
        for (what, found, wanted) in
            [("observations", spec.observation, layout.observation), ("actions", spec.action, layout.action)]
        {
            if found != wanted {
                return Err(TaskError::Size { task: spec.name.clone(), what, found, wanted }.into());
            }
        }
        Ok(Environment::new(task, self.environment.clone(), seed)?)
    }
}

/// The task of that name, or the model's first.
pub fn task_of<'m>(model: &'m Model, name: Option<&str>) -> Result<&'m hir::Task, Error> {
    let Some(name) = name else { return model.tasks.first().ok_or(Error::NoTask) };
    model.tasks.iter().find(|t| t.name == name).ok_or_else(|| Error::UnknownTask {
        name: name.to_string(),
        known: model.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// The sizes that a task gives to a model whose text leaves them open: those of the axis of `obs` and of the action's.
pub fn sizes_of(model: &Model, spec: &Spec) -> Vec<(String, u64)> {
    let mut sizes = Vec::new();
    for (i, input) in model.inputs.iter().enumerate() {
        let size = match input.name.as_str() {
            _ if i == model.action.input => spec.action,
            "obs" => spec.observation,
            _ => continue,
        };
        if let [axis] = input.axes[..]
            && let [symbol] = model.axis(axis).size.symbols()[..]
        {
            sizes.push((symbol.to_string(), size as u64));
        }
    }
    sizes
}
