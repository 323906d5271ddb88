//! The model of a case, and the inputs that are given to it.

use std::path::Path;

use compiler::run::{Tensors, known_names};
use dsl::hir::{Model, Source};

use super::case::Case;
use crate::cli::{Bench, Sizes};
use crate::commands::one_model;
use crate::output::Output;
use crate::tensors::{self, TensorError};

#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) case: Case,
    pub(crate) model: Model,
    pub(crate) given: Option<Tensors>,
    arguments: &'a Bench,
}

impl<'a> Subject<'a> {
    /// Returns `None` after reporting the error.
    pub(crate) fn new(case: Case, arguments: &'a Bench, out: &mut Output) -> Option<Subject<'a>> {
        let model = checked(case, arguments, &[], out)?;
        Some(Subject { case, model, given: None, arguments })
    }

    /// The same with other sizes, and with inputs that fit them.
    pub(crate) fn resized(&self, dims: &[(String, u64)], out: &mut Output) -> Option<Subject<'a>> {
        let model = checked(self.case, self.arguments, dims, out)?;
        Some(Subject { case: self.case, model, given: None, arguments: self.arguments })
    }

    /// The same on the tensors of a file. Where the case is not `exact`, and in our own models, sizes are the file's.
    pub(crate) fn with_inputs(self, path: &Path, map: Option<&Path>, exact: bool, out: &mut Output) -> Option<Subject<'a>> {
        let given = match read(path, map, &self.model) {
            Ok(given) => given,
            Err(error) => {
                out.error(&error.to_string(), "see `wmc bench --help` for `--params` and `--map`");
                return None;
            }
        };
        let mut subject = self;
        if subject.case.text().is_some() {
            let dims = sizes(&subject.model, &given);
            if let Some((_, steps)) = dims.iter().find(|(name, _)| name == "T").filter(|_| !exact) {
                subject.case = subject.case.over(*steps as usize);
            }
            subject = subject.resized(&dims, out)?;
        }
        subject.given = Some(given);
        Some(subject)
    }

    /// A size of the model by name.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        let dim = self.model.dims.iter().find(|d| d.name == name)?;
        self.model.axis(dim.axis).size.value().and_then(|n| u64::try_from(n).ok())
    }

    /// Whether a name is the batch of the source, which is no matter of the text.
    pub(crate) fn is_batch(&self, name: &str) -> bool {
        matches!(&self.model.source, Source::Replay { batch, .. } if batch.name == name)
    }
}

fn checked(case: Case, arguments: &Bench, dims: &[(String, u64)], out: &mut Output) -> Option<Model> {
    let Some((name, text)) = case.text() else {
        let Some(file) = &arguments.file else {
            out.error(&format!("the case `{}` needs a model", case.name()), "give a FILE, or other `--cases`");
            return None;
        };
        let of = arguments.of.at(&arguments.of.sizes.with(dims));
        return one_model(file, &of, out).map(|(_, model)| model);
    };
    let options = Sizes::default().with(&case.dims()).with(dims).options(None);
    let mut checked = dsl::check(name, text, &dsl::NoLoader, &options);
    match checked.models.pop() {
        Some(model) if !checked.has_errors() => Some(model),
        _ => {
            let messages: Vec<&str> = checked.diagnostics.iter().map(|d| d.message.as_str()).collect();
            out.error(&format!("{name} cannot have these sizes: {}", messages.join("; ")), "choose other sizes");
            None
        }
    }
}

/// The tensors of a file under our names: by the map that is given, or by the one that the file brings along.
fn read(path: &Path, map: Option<&Path>, model: &Model) -> Result<Tensors, TensorError> {
    let tensors = tensors::read(path)?;
    let known = known_names(model);
    match map {
        Some(map) => tensors::mapped(&tensors, map, &known),
        None => match tensors::own_map(path)? {
            Some(map) => tensors::mapped_by(&tensors, &map, &path.display().to_string(), &known),
            None => Ok(tensors),
        },
    }
}

/// Sizes that given data say: batch, time, and the axes of each field.
fn sizes(model: &Model, given: &Tensors) -> Vec<(String, u64)> {
    let Source::Replay { batch, time, .. } = &model.source else { return Vec::new() };
    let mut dims: Vec<(String, u64)> = Vec::new();
    for input in &model.inputs {
        let Some(tensor) = given.get(&format!("data.{}", input.name)) else { continue };
        let own = input.axes.iter().map(|a| model.axis(*a).name.clone());
        let names = [batch.name.clone(), time.name.clone()].into_iter().chain(own);
        for (name, size) in names.zip(&tensor.shape) {
            if !dims.iter().any(|(known, _)| *known == name) {
                dims.push((name, *size as u64));
            }
        }
    }
    dims
}
