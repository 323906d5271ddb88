//! `mjcf:PATH`: a user's MJCF model as a task, described in a small TOML file beside it.
//!
//! ```toml
//! model = "hopper.xml"      # otherwise the file of the same name that ends in .xml
//! length = 250              # settings of every task: repeat, length, reward, reward_scale, delay, mask
//! substeps = 4
//! control_cost = 0.01
//! noise = 0.01
//! observe = ["positions", "velocities", "touch"]
//! rewards = { speed = 1.0, height = 0.5 }
//! ends_below = { height = 0.7 }
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use dsl::hir::Setting;
use toml::{Table, Value};

use crate::tasks::{Settings, TaskError};

/// The file of a task `mjcf:PATH`.
pub fn path(task: &str) -> Option<&Path> {
    task.strip_prefix("mjcf:").map(Path::new)
}

/// Settings out of a description: PATH itself, or the one beside the model that PATH is.
pub fn settings(task: &str, path: &Path) -> Result<Settings, TaskError> {
    let file = file(path);
    let fail = |reason: String| TaskError::Described { path: file.display().to_string(), reason };
    let text = fs::read_to_string(&file).map_err(|e| fail(e.to_string()))?;
    let table: Table = text.parse().map_err(|e: toml::de::Error| fail(e.to_string()))?;
    let model = match table.get("model") {
        None => file.with_extension("xml"),
        Some(Value::String(name)) => file.parent().unwrap_or(Path::new("")).join(name),
        Some(other) => return Err(fail(format!("`model` is {other} and should be the name of a file"))),
    };
    let mut settings = Settings::default();
    settings.set(task, "mjcf", &Setting::Text(model.display().to_string()))?;
    for (name, value) in table.iter().filter(|(name, _)| *name != "model" && *name != "mjcf") {
        let setting = setting(value).ok_or_else(|| fail(format!("`{name}` is {value}, which no setting can be")))?;
        settings.set(task, name, &setting)?;
    }
    if settings.mjcf.as_ref().is_some_and(|rules| rules.rewards.is_empty()) {
        return Err(fail("it has no `rewards`, such as `rewards = { speed = 1.0 }`".into()));
    }
    Ok(settings)
}

fn file(path: &Path) -> PathBuf {
    if path.extension().is_some_and(|e| e == "xml") { path.with_extension("toml") } else { path.to_path_buf() }
}

/// Everything that the description says, for telling one task from another.
pub fn texts(task: &str, path: &Path) -> Result<Vec<String>, TaskError> {
    let settings = settings(task, path)?;
    let model = settings.mjcf.map(|rules| PathBuf::from(rules.file));
    let read = |file: PathBuf| {
        fs::read_to_string(&file).map_err(|e| TaskError::Described { path: file.display().to_string(), reason: e.to_string() })
    };
    [Some(file(path)), model].into_iter().flatten().map(read).collect()
}

/// `{ speed = 1.0 }` is the list `["speed 1"]`.
fn setting(value: &Value) -> Option<Setting> {
    Some(match value {
        Value::Integer(n) => Setting::Number(*n as f64),
        Value::Float(x) => Setting::Number(*x),
        Value::Boolean(b) => Setting::Flag(*b),
        Value::String(text) => Setting::Text(text.clone()),
        Value::Array(all) => Setting::List(all.iter().map(setting).collect::<Option<_>>()?),
        Value::Table(all) => {
            let one = |(name, value): (&String, &Value)| match setting(value)? {
                Setting::Number(x) => Some(Setting::Text(format!("{name} {x}"))),
                Setting::Flag(_) | Setting::Text(_) | Setting::List(_) => None,
            };
            Setting::List(all.iter().map(one).collect::<Option<_>>()?)
        }
        Value::Datetime(_) => return None,
    })
}
