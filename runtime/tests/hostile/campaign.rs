//! A child that goes through mutants, and a parent that sees how it ends.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::{artefacts, kernels};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Kernels,
    Artefacts,
}

/// How a mutant ended, if it ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Refused,
    Ran,
    /// It would have run, for longer than a test has.
    Long,
}

pub(crate) trait Runner {
    fn mutant(&mut self, number: u64) -> Ended;
}

impl Kind {
    pub(crate) fn named(name: &str) -> Option<Kind> {
        [Kind::Kernels, Kind::Artefacts].into_iter().find(|kind| kind.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Kernels => "kernels",
            Kind::Artefacts => "artefacts",
        }
    }

    pub(crate) fn runner(self) -> Box<dyn Runner> {
        match self {
            Kind::Kernels => Box::new(kernels::Kernels),
            Kind::Artefacts => Box::new(artefacts::Artefacts::new()),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub tried: u64,
    pub ran: u64,
    pub refused: u64,
    pub long: u64,
    pub finding: Option<Finding>,
}

/// A mutant that did harm.
#[derive(Debug)]
pub(crate) struct Finding {
    kind: Kind,
    number: u64,
    /// None if it did not come to an end.
    status: Option<ExitStatus>,
    said: String,
}

impl Finding {
    /// Whether memory was touched that is not the program's own.
    pub(crate) fn is_memory(&self) -> bool {
        self.status.is_some_and(|status| status.signal().is_some())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = self.status.map_or("does not come to an end".to_string(), |status| status.to_string());
        let (name, number) = (self.kind.name(), self.number);
        write!(f, "mutant {number} of {name}: {how}\n{}\nHOSTILE_MUTANT={name}:{number} runs it alone", self.said)
    }
}

/// Time that one mutant has.
const PATIENCE: Duration = Duration::from_secs(60);

/// Goes through mutants for a while, without a rule if one is named, up to the first finding.
pub(crate) fn campaign(kind: Kind, time: Duration, without: Option<&str>) -> Outcome {
    let mut command = Command::new(std::env::current_exe().expect("a test has a file"));
    command.args(["child", "--exact", "--ignored", "--nocapture", "--test-threads", "1"]);
    command.env("HOSTILE_KIND", kind.name()).env("HOSTILE_TIME", time.as_secs_f64().to_string());
    command.env_remove("RUST_BACKTRACE");
    if let Some(rule) = without {
        command.env("HOSTILE_WITHOUT", rule);
    }
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    let mut errors = child.stderr.take().expect("it is piped");
    let errors = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = errors.read_to_end(&mut text);
        String::from_utf8_lossy(&text).lines().take(6).collect::<Vec<_>>().join("\n")
    });
    let (lines, seen) = mpsc::channel();
    let output = BufReader::new(child.stdout.take().expect("it is piped"));
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
    let mut outcome = Outcome::default();
    let mut number = 0;
    let status = loop {
        match seen.recv_timeout(PATIENCE) {
            Ok(line) => match line.split_once(' ') {
                Some(("at", n)) => number = n.parse().unwrap_or(number),
                Some(("ended", how)) => {
                    outcome.tried += 1;
                    match how {
                        "Ran" => outcome.ran += 1,
                        "Refused" => outcome.refused += 1,
                        _ => outcome.long += 1,
                    }
                }
                _ => {}
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break child.wait().ok(),
        }
    };
    let said = errors.join().unwrap_or_default();
    if !status.is_some_and(|status| status.success()) {
        outcome.finding = Some(Finding { kind, number, status, said });
    }
    outcome
}

/// What the child does: says where it is, before and after.
pub(crate) fn child(kind: Kind, from: u64, time: Duration) {
    let start = Instant::now();
    let mut runner = kind.runner();
    let mut out = std::io::stdout().lock();
    for number in from.. {
        if start.elapsed() > time {
            return;
        }
        // What is said before the process dies is in the pipe.
        writeln!(out, "at {number}").and_then(|()| out.flush()).expect("somebody reads");
        let ended = runner.mutant(number);
        writeln!(out, "ended {ended:?}").expect("somebody reads");
    }
}
