//! Loads parameters of a safetensors file into a model, with a name map.

use std::path::Path;

use compiler::run::Tensors;
use dsl::diagnostics::closest;
use dsl::hir::Model;
use runtime::program::{State, Tensor, initial};

use crate::tensors;

/// What tensors of a file can be: the rest of a state starts with the training.
const LEARNT: [&str; 3] = ["param.", "slow.", "running."];

/// How many names are listed.
const LISTED: usize = 8;

/// Where parameters come from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Path,
    /// A map from our names to those of the file; otherwise its own, or our names.
    pub(crate) map: Option<&'a Path>,
    /// Parameters that the file does not have keep their initial values.
    pub(crate) keep_initial: bool,
}

/// A model's state with the parameters of a file in it.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) state: State,
    /// The hash of what came from the file.
    pub(crate) hash: String,
    /// Notes for the user: unused tensors, parameters that keep their initial values.
    pub(crate) notes: Vec<String>,
}

/// Reads parameters. The error says what to do about it.
pub(crate) fn read(model: &Model, seed: u64, from: Source<'_>) -> Result<Weights, String> {
    let mut state = initial(model, seed).map_err(|e| e.to_string())?;
    state.retain(|name, _| !name.starts_with("carry."));
    let known = || state.keys().filter(|name| LEARNT.iter().any(|kind| name.starts_with(kind)));
    let shown = from.file.display().to_string();
    let (theirs, sources) = mapped(from, &known().cloned().collect()).map_err(|e| e.to_string())?;

    let unknown: Vec<&String> = sources.iter().map(|(ours, _)| ours).filter(|ours| !known().any(|name| name == *ours)).collect();
    if let Some(first) = unknown.first() {
        let hint = closest(first, known().map(String::as_str)).map_or(String::new(), |best| format!("; did you mean `{best}`?"));
        return Err(format!("the name map has {}, which the model does not have{hint}", list(unknown.into_iter().cloned())));
    }
    let source =
        |ours: &str| sources.iter().find(|(name, _)| name == ours).map_or(ours.to_string(), |(_, theirs)| theirs.clone());
    let mut wrong = Vec::new();
    for (name, tensor) in &theirs {
        let Some(place) = state.get(name) else { continue };
        if place.shape != tensor.shape {
            wrong.push(format!(
                "`{name}` is {:?} in the model, and `{}` of `{shown}` is {:?}",
                place.shape,
                source(name),
                tensor.shape
            ));
        } else if let Some(x) = tensor.data.iter().find(|x| !(**x as f32).is_finite()) {
            wrong.push(format!("`{}` of `{shown}` is not finite ({x})", source(name)));
        }
    }
    if !wrong.is_empty() {
        let more = wrong.len().saturating_sub(LISTED);
        let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        wrong.truncate(LISTED);
        return Err(format!("tensors do not fit:\n  {}{more}", wrong.join("\n  ")));
    }
    let missing: Vec<String> =
        known().filter(|name| name.starts_with("param.") && !theirs.contains_key(*name)).cloned().collect();
    let given = known().filter(|name| name.starts_with("param.")).count() - missing.len();
    if given == 0 {
        return Err(format!(
            "`{shown}` has no parameter of the model: it has {}, and the model {}; a name map says which is which (`--map`)",
            list(tensors::read(from.file).map_err(|e| e.to_string())?.into_keys()),
            list(missing.into_iter())
        ));
    }
    if !missing.is_empty() && !from.keep_initial {
        return Err(format!("`{shown}` does not have {}", list(missing.into_iter())));
    }
    let mut notes = Vec::new();
    if !missing.is_empty() {
        notes.push(format!("these keep their initial values: {}", list(missing.into_iter())));
    }
    let all = tensors::read(from.file).map_err(|e| e.to_string())?;
    let is_used = |name: &String| sources.iter().any(|(_, theirs)| theirs == name) || theirs.contains_key(name);
    let unused: Vec<String> = all.into_keys().filter(|name| !is_used(name)).collect();
    if !unused.is_empty() {
        notes.push(format!("these tensors of `{shown}` are not used: {}", list(unused.into_iter())));
    }

    let mut hashed = Vec::new();
    for (name, tensor) in theirs {
        let tensor = Tensor { shape: tensor.shape, data: tensor.data.iter().map(|x| *x as f32).collect() };
        hashed.extend(name.bytes().chain(tensor.data.iter().flat_map(|x| x.to_le_bytes())));
        // A slow copy that is not given starts as its parameter.
        if let Some(path) = name.strip_prefix("param.")
            && !sources.iter().any(|(ours, _)| ours.strip_prefix("slow.") == Some(path))
            && state.contains_key(&format!("slow.{path}"))
        {
            state.insert(format!("slow.{path}"), tensor.clone());
        }
        state.insert(name, tensor);
    }
    Ok(Weights { state, hash: runtime::checkpoint::sha256(&hashed), notes })
}

/// Tensors under our names, and pairs of our name and that in the file.
type Named = (Tensors, Vec<(String, String)>);

fn mapped(from: Source<'_>, known: &std::collections::BTreeSet<String>) -> Result<Named, tensors::TensorError> {
    let all = tensors::read(from.file)?;
    let map = match from.map {
        Some(path) => Some((tensors::map_text(path)?, path.display().to_string())),
        None => tensors::own_map(from.file)?.map(|text| (text, from.file.display().to_string())),
    };
    let Some((text, shown)) = map else {
        let ours: Tensors = all.into_iter().filter(|(name, _)| known.contains(name)).collect();
        let sources = ours.keys().map(|name| (name.clone(), name.clone())).collect();
        return Ok((ours, sources));
    };
    let mut sources = tensors::sources(&text, &shown)?;
    let ours = tensors::mapped_by(&all, &text, &shown, known)?;
    let own: Vec<String> = ours.keys().filter(|name| !sources.iter().any(|(ours, _)| ours == *name)).cloned().collect();
    sources.extend(own.into_iter().map(|name| (name.clone(), name)));
    Ok((ours, sources))
}

/// `a`, `b` and 3 more.
fn list(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(LISTED);
    let shown: Vec<String> = names.take(LISTED).map(|name| format!("`{name}`")).collect();
    match (shown.is_empty(), more) {
        (true, _) => "nothing".into(),
        (_, 0) => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}
