//! Tensors in files: safetensors, with a map from other people's names to ours.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use compiler::run::{Tensor, Tensors};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

/// Why a file of tensors could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorError {
    #[error("cannot read `{path}`: {reason}")]
    Read { path: String, reason: String },
    #[error("`{path}` is not a safetensors file: {reason}")]
    Format { path: String, reason: String },
    #[error("`{path}`: the tensor `{name}` has the type {dtype:?}; f32, f64, f16, bf16, bool and integers are read")]
    Type { path: String, name: String, dtype: Dtype },
    #[error("`{path}` is not a name map: {reason}")]
    Map { path: String, reason: String },
    #[error("the name map wants `{wanted}` for `{name}`, which the file does not have")]
    Wanted { name: String, wanted: String },
    #[error("the name map cuts {from}..{to} out of an axis of `{wanted}` that has {rows} entries")]
    Rows { wanted: String, from: usize, to: usize, rows: usize },
    #[error("the name map transposes `{wanted}`, which has {axes} axes and should have two")]
    Transpose { wanted: String, axes: usize },
    #[error("cannot write `{path}`: {reason}")]
    Write { path: String, reason: String },
}

pub(crate) fn read(path: &Path) -> Result<Tensors, TensorError> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| TensorError::Read { path: shown.clone(), reason: e.to_string() })?;
    let file =
        SafeTensors::deserialize(&bytes).map_err(|e| TensorError::Format { path: shown.clone(), reason: e.to_string() })?;
    let mut tensors = Tensors::new();
    for (name, view) in file.tensors() {
        let Some(data) = numbers(view.dtype(), view.data()) else {
            return Err(TensorError::Type { path: shown, name, dtype: view.dtype() });
        };
        tensors.insert(name, Tensor { shape: view.shape().to_vec(), data });
    }
    Ok(tensors)
}

fn numbers(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f64>> {
    fn each<const N: usize>(bytes: &[u8], f: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|c| f(*c)).collect()
    }
    Some(match dtype {
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        Dtype::F32 => each(bytes, |c| f64::from(f32::from_le_bytes(c))),
        Dtype::F16 => each(bytes, |c| half(u16::from_le_bytes(c))),
        Dtype::BF16 => each(bytes, |c| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(c)) << 16))),
        Dtype::BOOL | Dtype::U8 => each(bytes, |[b]| f64::from(b)),
        Dtype::I32 => each(bytes, |c| f64::from(i32::from_le_bytes(c))),
        Dtype::I64 => each(bytes, |c| i64::from_le_bytes(c) as f64),
        _ => return None,
    })
}

/// Half precision: sign, 5 bits of exponent, 10 of fraction.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        e => sign * (1024.0 + fraction) * 2f64.powi(e - 25),
    }
}

/// Writes tensors, in single or double precision, through a temporary file: what was there stays whole.
pub(crate) fn write(path: &Path, tensors: &Tensors, double: bool) -> Result<(), TensorError> {
    let shown = path.display().to_string();
    let fail = |reason: String| TensorError::Write { path: shown.clone(), reason };
    let bytes: BTreeMap<&String, (Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, t)| {
            let data = match double {
                true => t.data.iter().flat_map(|x| x.to_le_bytes()).collect(),
                false => t.data.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
            };
            (name, (t.shape.clone(), data))
        })
        .collect();
    let dtype = if double { Dtype::F64 } else { Dtype::F32 };
    let mut views = Vec::new();
    for (name, (shape, data)) in &bytes {
        views.push((name.as_str(), TensorView::new(dtype, shape.clone(), data).map_err(|e| fail(e.to_string()))?));
    }
    let file = safetensors::serialize(views, None).map_err(|e| fail(e.to_string()))?;
    let temporary = path.with_extension("tmp");
    std::fs::write(&temporary, file).and_then(|()| std::fs::rename(&temporary, path)).map_err(|e| fail(e.to_string()))
}

/// Where one of our tensors is found in somebody else's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Place {
    Name(String),
    Part {
        tensor: String,
        /// Rows `from..to` of the first axis.
        #[serde(default)]
        rows: Option<(usize, usize)>,
        /// Entries `from..to` of the second axis.
        #[serde(default)]
        cols: Option<(usize, usize)>,
        /// Swaps the two axes of a matrix, after the cut.
        #[serde(default)]
        transpose: bool,
        /// The shape it has with us, where the entries are the same.
        #[serde(default)]
        shape: Option<Vec<usize>>,
    },
}

/// The name map that a file of tensors brings along in its metadata.
pub(crate) fn own_map(path: &Path) -> Result<Option<String>, TensorError> {
    let shown = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|e| TensorError::Read { path: shown.clone(), reason: e.to_string() })?;
    let (_, header) =
        SafeTensors::read_metadata(&bytes).map_err(|e| TensorError::Format { path: shown, reason: e.to_string() })?;
    Ok(header.metadata().as_ref().and_then(|m| m.get("wmc.map").cloned()))
}

/// The text of a name map.
pub(crate) fn map_text(path: &Path) -> Result<String, TensorError> {
    std::fs::read_to_string(path).map_err(|e| TensorError::Read { path: path.display().to_string(), reason: e.to_string() })
}

fn parsed(map: &str, shown: &str) -> Result<BTreeMap<String, Place>, TensorError> {
    serde_json::from_str(map).map_err(|e| TensorError::Map { path: shown.to_string(), reason: e.to_string() })
}

/// Our names in a map, each with the name that it has in the file.
pub(crate) fn sources(map: &str, shown: &str) -> Result<Vec<(String, String)>, TensorError> {
    let theirs = |place| match place {
        Place::Name(tensor) | Place::Part { tensor, .. } => tensor,
    };
    Ok(parsed(map, shown)?.into_iter().map(|(ours, place)| (ours, theirs(place))).collect())
}

/// Renames, cuts and transposes tensors as the map in a file says.
pub(crate) fn mapped(tensors: &Tensors, path: &Path, known: &BTreeSet<String>) -> Result<Tensors, TensorError> {
    mapped_by(tensors, &map_text(path)?, &path.display().to_string(), known)
}

/// Renames, cuts and transposes tensors as a map says. Of those that the map does not mention, the ones that have a name
/// of the model's stay, and the others are dropped.
pub(crate) fn mapped_by(tensors: &Tensors, map: &str, shown: &str, known: &BTreeSet<String>) -> Result<Tensors, TensorError> {
    let map = parsed(map, shown)?;
    let mut out: Tensors = tensors.iter().filter(|(n, _)| known.contains(*n)).map(|(n, t)| (n.clone(), t.clone())).collect();
    for (name, place) in map {
        let (wanted, rows, cols, transpose, shape) = match place {
            Place::Name(tensor) => (tensor, None, None, false, None),
            Place::Part { tensor, rows, cols, transpose, shape } => (tensor, rows, cols, transpose, shape),
        };
        let Some(found) = tensors.get(&wanted) else { return Err(TensorError::Wanted { name, wanted }) };
        let mut tensor = found.clone();
        if let Some((from, to)) = rows {
            tensor = cut(&tensor, 0, from, to, &wanted)?;
        }
        if let Some((from, to)) = cols {
            tensor = cut(&tensor, 1, from, to, &wanted)?;
        }
        if transpose {
            let [r, c] = tensor.shape[..] else {
                return Err(TensorError::Transpose { wanted, axes: tensor.shape.len() });
            };
            tensor.data = (0..c).flat_map(|j| (0..r).map(move |i| (i, j))).map(|(i, j)| tensor.data[i * c + j]).collect();
            tensor.shape = vec![c, r];
        }
        if let Some(shape) = shape.filter(|s| s.iter().product::<usize>() == tensor.data.len()) {
            tensor.shape = shape;
        }
        out.insert(name, tensor);
    }
    Ok(out)
}

/// Entries `from..to` along one axis.
fn cut(tensor: &Tensor, axis: usize, from: usize, to: usize, wanted: &str) -> Result<Tensor, TensorError> {
    let rows = tensor.shape.get(axis).copied().unwrap_or(0);
    if from > to || to > rows || axis >= tensor.shape.len() {
        return Err(TensorError::Rows { wanted: wanted.to_string(), from, to, rows });
    }
    let inner: usize = tensor.shape[axis + 1..].iter().product();
    let mut shape = tensor.shape.clone();
    shape[axis] = to - from;
    let data =
        tensor.data.chunks((rows * inner).max(1)).flat_map(|block| block[from * inner..to * inner].iter().copied()).collect();
    Ok(Tensor { shape, data })
}
