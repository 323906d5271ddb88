//! Models and tensors from files, for the tests that compare whole models.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod orders;

use std::path::{Path, PathBuf};

use dsl::hir::Model;
use safetensors::{Dtype, SafeTensors};
use wmc_compiler::ir::Role;
use wmc_compiler::random::Stream;
use wmc_compiler::run::{Call, Tensor, Tensors};

/// A path from the root of the project.
pub(crate) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

struct Folders(Vec<PathBuf>);

impl dsl::Loader for Folders {
    fn load(&self, module: &str) -> Result<dsl::Loaded, dsl::LoadError> {
        let name = format!("{module}.wm");
        for folder in &self.0 {
            if let Ok(text) = std::fs::read_to_string(folder.join(&name)) {
                return Ok(dsl::Loaded { name, text });
            }
        }
        Err(dsl::LoadError::NotFound { known: Vec::new() })
    }
}

/// The models of a file, with sizes bound. Fails on any error.
pub(crate) fn models(path: &Path, dims: &[(&str, u64)]) -> Vec<Model> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let folders = Folders(vec![path.parent().expect("a folder").to_path_buf(), project("models")]);
    checked(&path.display().to_string(), &text, &folders, dims)
}

/// The one model of a text that may use the files of `models`.
pub(crate) fn of_text(text: &str, dims: &[(&str, u64)]) -> Model {
    of_text_in("models", text, dims)
}

/// The one model of a text that may use the files of a folder of the project.
pub(crate) fn of_text_in(folder: &str, text: &str, dims: &[(&str, u64)]) -> Model {
    checked("test.wm", text, &Folders(vec![project(folder)]), dims).pop().expect("a model")
}

/// The model of a text that uses no other file.
pub(crate) fn inline(text: &str, dims: &[(&str, u64)]) -> Model {
    checked("test.wm", text, &dsl::NoLoader, dims).pop().expect("a model")
}

fn checked(name: &str, text: &str, loader: &dyn dsl::Loader, dims: &[(&str, u64)]) -> Vec<Model> {
    // Sizes are of those dims that the file has.
    let models = dsl::check(name, text, loader, &dsl::Options::default()).models;
    let has = |dim: &str| models.iter().flat_map(|m| &m.dims).any(|d| d.name == dim);
    let dims = dims.iter().filter(|(n, _)| models.is_empty() || has(n)).map(|(n, s)| (n.to_string(), *s)).collect();
    let options = dsl::Options { dims, ..dsl::Options::default() };
    let checked = dsl::check(name, text, loader, &options);
    let errors: Vec<String> = checked
        .diagnostics
        .iter()
        .filter(|d| d.is_error())
        .map(|d| dsl::diagnostics::render(&checked.sources, d, false))
        .collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
    checked.models
}

/// The one model of a file.
pub(crate) fn model(path: &Path, dims: &[(&str, u64)]) -> Model {
    models(path, dims).pop().expect("a model")
}

/// Made-up values for everything that must be given: data and records. Flags hold now and then, actions stay in range.
pub(crate) fn made_up(model: &Model, call: &Call) -> Tensors {
    let program = wmc_compiler::run::program(model, call, &Tensors::new()).unwrap_or_else(|e| panic!("{}: {e}", model.name));
    let flags: Vec<String> =
        model.inputs.iter().filter(|i| i.dtype == dsl::hir::Dtype::Bool).map(|i| format!("data.{}", i.name)).collect();
    let given = program.inputs.iter().filter(|i| matches!(i.role, Role::Data | Role::Record));
    given
        .map(|input| {
            let shape: Vec<usize> = input.axes.iter().map(|a| program.size(*a)).collect();
            let random = Stream::new(&input.name, 1, "made up", 0);
            let number = |i: u64| match flags.contains(&input.name) {
                true => f64::from(u8::from(random.uniform(i) < 0.2)),
                false => 1.8 * random.uniform(i) - 0.9,
            };
            let data = (0..shape.iter().product::<usize>() as u64).map(number).collect();
            (input.name.clone(), Tensor { shape, data })
        })
        .collect()
}

pub(crate) fn load(path: &Path) -> Tensors {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            let data = match view.dtype() {
                Dtype::F64 => view.data().chunks(8).map(|c| f64::from_le_bytes(c.try_into().expect("8 bytes"))).collect(),
                Dtype::F32 => {
                    view.data().chunks(4).map(|c| f64::from(f32::from_le_bytes(c.try_into().expect("4 bytes")))).collect()
                }
                Dtype::BOOL | Dtype::U8 => view.data().iter().map(|b| f64::from(*b)).collect(),
                Dtype::I64 => view.data().chunks(8).map(|c| i64::from_le_bytes(c.try_into().expect("8 bytes")) as f64).collect(),
                Dtype::I32 => {
                    view.data().chunks(4).map(|c| f64::from(i32::from_le_bytes(c.try_into().expect("4 bytes")))).collect()
                }
                other => panic!("{name} has the type {other:?}"),
            };
            (name, Tensor { shape: view.shape().to_vec(), data })
        })
        .collect()
}

/// The largest difference, relative to the largest entry of what is wanted. Shapes are the same, but a single number may
/// have axes of size one.
pub(crate) fn difference(have: &Tensor, want: &Tensor) -> f64 {
    if have.shape != want.shape && (have.data.len() != 1 || want.data.len() != 1) {
        return f64::INFINITY;
    }
    let scale = want.data.iter().fold(0f64, |m, x| m.max(x.abs()));
    let apart = have.data.iter().zip(&want.data).fold(0f64, |m, (a, b)| m.max((a - b).abs()));
    if have.data.iter().any(|x| x.is_nan()) { f64::NAN } else { apart / scale.max(1e-300) }
}
