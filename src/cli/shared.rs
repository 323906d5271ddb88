//! Arguments that several commands have.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use compiler::kernel::fuse::Level;
use runtime::device::Wanted;
use runtime::program::Compute;

use crate::output::Output;

/// A model of a file.
#[derive(Debug, Clone, Args)]
pub(crate) struct ModelFile {
    /// The `.wm` file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) of: Chosen,
}

/// Which model of a file, at which sizes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Chosen {
    /// The model, where the file has several
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) sizes: Sizes,

    #[command(flatten)]
    pub(crate) roots: Roots,
}

impl Chosen {
    /// Nothing was chosen.
    pub(crate) fn is_empty(&self) -> bool {
        let Sizes { dims, task, protocol } = &self.sizes;
        self.model.is_none() && dims.is_empty() && task.is_none() && protocol.is_none() && self.roots.roots.is_empty()
    }

    /// The same at other sizes.
    pub(crate) fn at(&self, sizes: &Sizes) -> Chosen {
        Chosen { sizes: sizes.clone(), ..self.clone() }
    }
}

/// How kernels are made, and where they run.
#[derive(Debug, Clone, Args)]
pub(crate) struct Computed {
    /// How much goes into one kernel; results are the same
    #[arg(long, value_name = "LEVEL", default_value = "mega", value_parser = level())]
    pub(crate) level: Level,

    /// Threads; otherwise as many as the machine has. Results are the same for any number
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,

    #[command(flatten)]
    pub(crate) place: Place,
}

impl Computed {
    /// Returns `None` after reporting the error.
    pub(crate) fn compute(&self, out: &mut Output) -> Option<Compute> {
        let own = Compute::default();
        let device = self.place.choose(out)?;
        Some(Compute { level: self.level, threads: self.threads.unwrap_or(own.threads), device })
    }
}

/// Where kernels run.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct Place {
    /// Where kernels run: cpu, cuda, vulkan (cuda:1 is the second of several, cuda:0:tf32 and cuda:0:bf16
    /// multiply on tensor cores, cuda:0:atomic adds up rows in any order), or auto for the best that there is
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub(crate) device: Wanted,
}

impl Place {
    /// The device, which is there; what `auto` has chosen is told. Returns `None` after reporting the error.
    pub(crate) fn choose(self, out: &mut Output) -> Option<runtime::device::Device> {
        match self.device.choose() {
            Ok(device) => {
                if let Some(cache) = crate::remember::cache() {
                    compiler::backend::keep_compiled(device, &cache.join("kernels"));
                }
                if self.device == Wanted::Auto {
                    out.tell(format!("device: {device}\n"));
                }
                Some(device)
            }
            Err(error) => {
                out.error(&error.to_string(), "`--device cpu` needs nothing; `wmc doctor` says what this machine has");
                None
            }
        }
    }
}

/// Threads of a pool at most.
const MAX_THREADS: usize = 1024;

/// A number of threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=MAX_THREADS).contains(&threads) => Ok(threads),
        _ => Err(format!("[E0702] a number of threads is 1 to {MAX_THREADS}")),
    }
}

/// A number of bytes: `500MB`, `16GB`, `1.5 GiB`. Units are of 1024, as in all output.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size: write a number and a unit, such as 500MB or 16GB");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let unit = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 1u64,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number * unit as f64;
    if bytes >= 1.0 && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Episodes of a trained model.
#[derive(Debug, Clone, Args)]
pub(crate) struct Episodes {
    /// The folder of a run
    #[arg(value_name = "RUN")]
    pub(crate) run: PathBuf,

    /// Episodes; otherwise as many as the protocol says, or for `diagnose` the model
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) episodes: Option<u64>,

    /// What the episodes' starts depend on
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,

    /// Write JSON: an object a line, or one document
    #[arg(long)]
    pub(crate) json: bool,

    /// Threads; otherwise as many as the machine has. Results are the same for any number
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<usize>,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// Where the sizes that a model leaves open come from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Sizes {
    /// Bind sizes: `--dim O=17 --dim A=6` or `--dim O=17,A=6`; they win over the task's and the text's
    #[arg(long = "dim", value_name = "NAME=SIZE", value_delimiter = ',', value_parser = dim)]
    dims: Vec<(String, u64)>,

    /// Take the sizes of this task of the model's `tasks` (hyphens count as underscores)
    #[arg(long, value_name = "NAME")]
    task: Option<String>,

    /// Use this protocol (a `tasks` block of the same file) instead of the model's own
    #[arg(long, value_name = "NAME")]
    protocol: Option<String>,
}

/// Where `use` looks for files.
#[derive(Debug, Clone, Args)]
pub(crate) struct Roots {
    /// Another folder in which `use` may find files, beside the folder of the file itself
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
}

impl Sizes {
    /// These, and more that win over them.
    pub(crate) fn with(&self, dims: &[(String, u64)]) -> Sizes {
        let mut sizes = self.clone();
        sizes.dims.extend_from_slice(dims);
        sizes
    }

    /// What was given with `--dim`; the last one counts.
    pub(crate) fn dims(&self) -> Vec<(String, u64)> {
        self.options(None).dims
    }

    /// Those of a task, whichever was named.
    pub(crate) fn at(&self, task: &str) -> Sizes {
        Sizes { task: Some(task.to_string()), ..self.clone() }
    }

    /// Those that were given with `--dim`, for no task of the model's.
    pub(crate) fn without_task(&self) -> Sizes {
        Sizes { task: None, ..self.clone() }
    }

    pub(crate) fn options(&self, model: Option<String>) -> dsl::Options {
        // As with every option that is given twice, the last one counts.
        let mut dims: Vec<(String, u64)> = Vec::new();
        for (name, size) in &self.dims {
            dims.retain(|(known, _)| known != name);
            dims.push((name.clone(), *size));
        }
        // The name of a task, or the file of one.
        let task = self.task.as_ref().map(|t| if t.starts_with("mjcf:") { t.clone() } else { t.replace('-', "_") });
        dsl::Options { dims, task, protocol: self.protocol.clone(), model }
    }
}

pub(super) fn level_named(name: &str) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.name() == name)
}

pub(super) fn level() -> impl TypedValueParser<Value = Level> {
    PossibleValuesParser::new(Level::ALL.map(Level::name)).map(|name| level_named(&name).expect("one of the values"))
}

/// `O=17`.
fn dim(text: &str) -> Result<(String, u64), String> {
    let (name, size) = text.split_once('=').ok_or("write a size as NAME=SIZE, as in O=17")?;
    let (name, size) = (name.trim(), size.trim());
    if !dsl::lex::is_word(name) {
        return Err(format!("`{name}` is not a name; write a size as NAME=SIZE, as in O=17"));
    }
    match size.replace('_', "").parse::<u64>() {
        Ok(value) => Ok((name.to_string(), value)),
        Err(_) => Err(format!("`{size}` is not a whole number; write a size as NAME=SIZE, as in O=17")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("1", 1), ("500MB", 500 << 20), ("1.5 GiB", 3 << 29), ("16g", 16 << 30)] {
            assert_eq!(size(text), Ok(bytes));
        }
        for wrong in ["", "GB", "0", "-1GB", "1XB", "nan", "1e40TB", "5 5"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn threads_are_few() {
        assert_eq!(threads("8"), Ok(8));
        for wrong in ["0", "1025", "100000", "18446744073709551615", "-1", "x"] {
            assert!(threads(wrong).is_err_and(|e| e.contains("E0702")), "{wrong}");
        }
    }
}
