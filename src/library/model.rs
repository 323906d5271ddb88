//! Models: texts that have been checked.

use std::path::{Path, PathBuf};

use compiler::lower::Entry;
use compiler::run::{Call, Tensors};
use dsl::Options;
use dsl::diagnostics::render;
use dsl::folders::Folders;
use dsl::hir;
use runtime::run::Texts;
use runtime::tasks::Spec;
use runtime::train::sizes_of;

use super::Error;

/// A model of a `.wm` file, checked, at known sizes.
///
/// ```no_run
/// // At the sizes of its first task.
/// let model = wmc::Model::open("models/mpc.wm")?;
/// // At sizes of your own.
/// let model = wmc::Model::options().size("O", 3).size("A", 1).open("models/mpc.wm")?;
/// # Ok::<(), wmc::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Model {
    pub(super) hir: hir::Model,
    pub(super) texts: Texts,
    /// The task that gave the sizes; none where the caller did.
    pub(super) task: Option<String>,
    pub(super) dims: Vec<(String, u64)>,
}

/// Which model of a text is meant, and at which sizes.
#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    name: Option<String>,
    task: Option<String>,
    dims: Vec<(String, u64)>,
    folders: Vec<PathBuf>,
    world: Option<Spec>,
}

impl Model {
    /// The model of a file, at the sizes of its first task.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, Error> {
        Model::options().open(path)
    }

    /// Chooses among several models, and sizes.
    pub fn options() -> ModelOptions {
        ModelOptions::default()
    }

    /// Its name in the text.
    pub fn name(&self) -> &str {
        &self.hir.name
    }

    /// Names and shapes of its parameters.
    pub fn parameters(&self) -> Vec<(String, Vec<usize>)> {
        let size = |axis: &hir::AxisId| self.hir.axis(*axis).size.value().map_or(0, |size| size as usize);
        self.hir.params.iter().map(|p| (p.path.clone(), p.axes.iter().map(size).collect())).collect()
    }

    /// Evaluates an entry point (`act`, `plan`, `train_step`, ..) once, on tensors that you give, in single precision.
    ///
    /// Everything that goes in has a name: `data.obs`, `param.encoder.0.weight`, `draw.plan.noise`. Data has to be given. What
    /// else is not given has a value of its own: parameters as the text initialises them, unless you give some of them, and
    /// draws from a seed. The error lists what is missing.
    pub fn call(&self, entry: &str, given: &Tensors) -> Result<Tensors, Error> {
        let unknown = || Error::Entry { name: entry.into(), known: Entry::ALL.map(Entry::name).join(", ") };
        let call = Call { entry: Entry::parse(entry).ok_or_else(unknown)?, ..Call::default() };
        Ok(compiler::run::call(&self.hir, &call, given)?)
    }
}

impl ModelOptions {
    /// The model of this name, where a file has several.
    pub fn model(mut self, name: &str) -> ModelOptions {
        self.name = Some(name.into());
        self
    }

    /// At the sizes and settings of one of the tasks that its text lists.
    pub fn task(mut self, name: &str) -> ModelOptions {
        self.task = Some(name.into());
        self
    }

    /// Gives a size that the text leaves open, or replaces one.
    pub fn size(mut self, name: &str, size: u64) -> ModelOptions {
        self.dims.push((name.into(), size));
        self
    }

    /// At the sizes of a world: what it shows and what it takes.
    pub fn world(mut self, spec: &Spec) -> ModelOptions {
        self.world = Some(spec.clone());
        self
    }

    /// Another folder in which `use` looks for files.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> ModelOptions {
        self.folders.push(folder.into());
        self
    }

    /// Reads and checks a file.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Model, Error> {
        let path = path.as_ref();
        let text = std::fs::read_to_string(path).map_err(|source| Error::File { path: path.into(), source })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        self.check(&path.display().to_string(), text, Some(folder))
    }

    /// Checks a text. `use` finds files in the folders that were given.
    pub fn parse(self, text: impl Into<String>) -> Result<Model, Error> {
        self.check("model.wm", text.into(), None)
    }

    fn check(self, shown: &str, text: String, folder: Option<&Path>) -> Result<Model, Error> {
        let mut folders = Folders::default();
        let own = folder.map(Path::to_path_buf).into_iter();
        for folder in own.chain(self.folders.iter().cloned()) {
            folders.add(&folder, &folder).map_err(|source| Error::File { path: folder.clone(), source })?;
        }
        if let Some(folder) = folder {
            // What cannot be opened has no modules to offer.
            let _ = folders.add_above(folder);
        }
        let mut options = Options { dims: self.dims.clone(), task: self.task.clone(), protocol: None, model: self.name.clone() };
        let mut model = one(shown, &text, &folders, &options)?;
        match &self.world {
            Some(world) => {
                let given = sizes_of(&model, world);
                // What the caller said counts more.
                options.dims = given.into_iter().filter(|(name, _)| !self.dims.iter().any(|(n, _)| n == name)).collect();
                options.dims.extend(self.dims.iter().cloned());
                model = one(shown, &text, &folders, &options)?;
            }
            None if self.task.is_none() && self.dims.is_empty() => {
                options.task = model.tasks.first().map(|task| task.name.clone());
                model = one(shown, &text, &folders, &options)?;
            }
            None => {}
        }
        let imports = folders.into_imports().into_iter().map(|(name, import)| (name, import.text)).collect();
        let file = Path::new(shown).file_name().map_or_else(|| "model.wm".into(), |name| name.to_string_lossy().into_owned());
        Ok(Model { hir: model, texts: Texts { file, text, imports }, task: options.task, dims: options.dims })
    }
}

/// The one model of a text.
fn one(shown: &str, text: &str, folders: &Folders, options: &Options) -> Result<hir::Model, Error> {
    let mut checked = dsl::check(shown, text, folders, options);
    if checked.has_errors() {
        let errors = checked.diagnostics.iter().filter(|d| d.is_error());
        return Err(Error::Model(errors.map(|error| render(&checked.sources, error, false)).collect::<Vec<_>>().join("\n")));
    }
    match checked.models.len() {
        1 => Ok(checked.models.remove(0)),
        0 => Err(Error::Model(format!("there is no model in `{shown}`"))),
        _ => {
            let names: Vec<&str> = checked.models.iter().map(|m| m.name.as_str()).collect();
            Err(Error::Model(format!("`{shown}` has several models: {}", names.join(", "))))
        }
    }
}
