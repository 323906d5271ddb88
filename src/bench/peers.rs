//! Peers: other programs that compute the same, each a process of its own that waits until it is its turn.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use compiler::backend::DeviceError;
use runtime::device::Device;
use serde::Deserialize;

use super::case::Case;

/// Tells the C library to keep freed memory instead of giving it back: without it the peers spend much of their time on
/// page faults.
const KEEP: [(&str, &str); 3] =
    [("MALLOC_TRIM_THRESHOLD_", "2000000000"), ("MALLOC_MMAP_THRESHOLD_", "2000000000"), ("MALLOC_TOP_PAD_", "268435456")];

/// Where the peers come from.
#[derive(Debug)]
pub(crate) struct Peers<'a> {
    pub(crate) python: &'a Path,
    pub(crate) scripts: &'a Path,
    /// The model whose peers are meant.
    pub(crate) model: &'a str,
    pub(crate) threads: usize,
    /// Where ours runs; those that can run there do.
    pub(crate) device: Device,
    /// For what they write besides.
    pub(crate) folder: &'a Path,
}

#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    asked: ChildStdin,
    told: BufReader<ChildStdout>,
}

/// A peer's first line.
#[derive(Debug, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) first_call_s: f64,
    pub(crate) value: Vec<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Answer {
    Times(Vec<f64>),
    Counted { t: Vec<f64> },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PeerError {
    #[error("cannot start `{program}`: {reason}")]
    Start { program: String, reason: String },
    #[error("`{program}` ended with {status}")]
    Failed { program: String, status: String },
    #[error("it computes no {0}")]
    NoCase(String),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("it ended without an answer{0}")]
    Silent(String),
    #[error("it said `{0}`, which is not a line of the protocol")]
    Garbled(String),
}

impl Peers<'_> {
    /// Writes the inputs of a case as the peers have them.
    pub(crate) fn export(&self, case: Case, to: &Path) -> Result<(), PeerError> {
        let mut command = self.script("export.py");
        command.arg(case.name()).arg(to).args(["--model", self.model]).stdin(Stdio::null());
        let program = "export.py".to_string();
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(PeerError::Failed { program, status: status.to_string() }),
            Err(error) => Err(PeerError::Start { program, reason: error.to_string() }),
        }
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.python);
        command.arg(self.scripts.join(name));
        command
    }

    /// Starts a peer and waits until it is ready, which may take minutes where it compiles.
    pub(crate) fn start(&self, case: Case, name: &str, inputs: &Path) -> Result<(Peer, Greeting), PeerError> {
        match name.strip_suffix("-plain").unwrap_or(name) {
            "candle" if case != Case::Plan => Err(PeerError::NoCase(case.name())),
            "candle" => {
                let mut command = Command::new(self.candle());
                command.arg(inputs);
                self.greeted(name, command)
            }
            variant => {
                let mut command = self.script("worker.py");
                command.args([&case.name(), variant, "--model", self.model]);
                self.greeted(name, command)
            }
        }
    }

    /// The matrix product of PyTorch's library, where PyTorch is among the peers; its value is the product's size.
    pub(crate) fn start_library(&self, compared: &[String]) -> Result<Option<(Peer, Greeting)>, PeerError> {
        if !compared.iter().any(|name| name.starts_with("torch") || name.starts_with("compile")) {
            return Ok(None);
        }
        let mut command = self.script("worker.py");
        command.args(["sgemm", "torch"]);
        self.greeted("sgemm", command).map(Some)
    }

    /// Starts a command and hears its first line.
    fn greeted(&self, name: &str, mut command: Command) -> Result<(Peer, Greeting), PeerError> {
        let plain = name.strip_suffix("-plain");
        let start = |reason: String| PeerError::Start { program: name.to_string(), reason };
        let log = self.folder.join(format!("{name}.log"));
        let errors = File::create(&log).map_err(|e| start(e.to_string()))?;
        if plain.is_none() {
            command.envs(KEEP);
        }
        command
            .env("PEER_DEVICE", self.device.kind())
            .env("NT", self.threads.to_string())
            .env("RAYON_NUM_THREADS", self.threads.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(errors));
        let mut child = command.spawn().map_err(|e| start(e.to_string()))?;
        let (Some(asked), Some(told)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(start("it has no pipes".into()));
        };
        let mut peer = Peer { child, asked, told: BufReader::new(told) };
        let line = peer.line().map_err(|_| PeerError::Silent(last_words(&log)))?;
        let greeting = serde_json::from_str(&line).map_err(|_| PeerError::Garbled(line))?;
        Ok((peer, greeting))
    }

    /// The program of the folder `candle`, once built.
    fn candle(&self) -> PathBuf {
        self.scripts.join("candle/target/release/candle-plan")
    }
}

impl Peer {
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Times of n calls, in milliseconds.
    pub(crate) fn times(&mut self, n: usize) -> Result<Vec<f64>, PeerError> {
        writeln!(self.asked, "{n}").and_then(|()| self.asked.flush()).map_err(|_| silent())?;
        let line = self.line()?;
        match serde_json::from_str(&line) {
            Ok(Answer::Times(t) | Answer::Counted { t }) if !t.is_empty() => Ok(t),
            _ => Err(PeerError::Garbled(line)),
        }
    }

    fn line(&mut self) -> Result<String, PeerError> {
        let mut line = String::new();
        match self.told.read_line(&mut line) {
            Ok(n) if n > 0 => Ok(line.trim_end().to_string()),
            _ => Err(silent()),
        }
    }
}

fn silent() -> PeerError {
    PeerError::Silent(String::new())
}

/// The last line that a peer wrote to its standard error.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    text.lines().rfind(|l| !l.trim().is_empty()).map_or(String::new(), |l| format!(": {}", l.trim()))
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be in the middle of something long; what it computes is of no use any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
