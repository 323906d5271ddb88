//! `wmc bench train-loop`: where a decision's time goes while a model is trained.

use std::fmt::Write;
use std::time::{Duration, Instant};

use dsl::hir::Source;
use dsl::source::Sources;
use runtime::Error;
use runtime::checkpoint::KEEP;
use runtime::run::Run;
use runtime::train::{Times, Trainer};
use serde::Serialize;

use crate::cli::{Train, TrainLoop};
use crate::commands::help_for;
use crate::commands::train::prepare;
use crate::output::{Exit, Output};
use crate::train::journal::{Journal, Resumed};

/// Decisions of the model before the measured ones: first calls are slower.
const WARM: u64 = 10;

/// The parts that are neither deciding nor learning, and should be small.
const AROUND: [&str; 3] = ["environment", "replay", "records"];

#[derive(Debug, Serialize)]
struct Document {
    model: String,
    task: String,
    /// Decisions that were measured, and random ones before them.
    decisions: u64,
    fill: u64,
    updates: u64,
    eval_every: u64,
    threads: usize,
    instruction_set: String,
    parts: Vec<Part>,
    /// Share of environment, replay and records.
    around: f64,
    /// Resident memory, where the system says it.
    resident: Option<Resident>,
}

/// MiB of resident memory.
#[derive(Debug, Serialize)]
struct Resident {
    /// When the measured decisions began, with the experience filled.
    filled: f64,
    /// When they were over.
    end: f64,
    /// The most at any time, an evaluation and a checkpoint among them.
    peak: f64,
}

#[derive(Debug, Serialize)]
struct Part {
    part: &'static str,
    /// Of one decision.
    ms: f64,
    share: f64,
}

pub(super) fn run(arguments: &TrainLoop, out: &mut Output) -> Exit {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            out.error(&format!("cannot make a temporary folder: {error}"), "set TMPDIR to a folder with some space");
            return Exit::Bad;
        }
    };
    let Some(compute) = arguments.computed.compute(out) else { return Exit::Bad };
    let training = Train {
        file: Some(arguments.what.file.clone()),
        of: arguments.what.of.clone(),
        seed: None,
        all_seeds: false,
        out: Some(folder.path().join("run")),
        resume: None,
        from: None,
        map: None,
        keep_initial: false,
        set: arguments.set.clone(),
        until: None,
        save_every: None,
        keep: None,
        computed: arguments.computed.clone(),
        quiet: true,
        json: false,
    };
    let Some(runs) = prepare(&arguments.what.file, &training, compute, out) else { return Exit::Bad };
    let run = runs.and_then(|mut runs| runs.pop().ok_or_else(|| Error::Unsupported("the model has no seeds".into())));
    let measured = run.map_err(|error| Box::new((error, Sources::default()))).and_then(|mut run| {
        run.config.compute = compute;
        measure(&mut run, arguments).map_err(|error| Box::new((error, run.sources)))
    });
    match measured {
        Ok(document) if arguments.json => {
            // A record of texts and numbers always has a JSON form.
            out.say(serde_json::to_string_pretty(&document).expect("a document as JSON") + "\n");
            Exit::Fine
        }
        Ok(document) => {
            out.say(document.table());
            Exit::Fine
        }
        Err(failed) => {
            let (error, sources) = *failed;
            out.error(&error.to_string(), &help_for(&error, &sources));
            Exit::Bad
        }
    }
}

/// Trains for a while. The last decision of all brings the one evaluation and the one checkpoint.
fn measure(run: &mut Run, arguments: &TrainLoop) -> Result<Document, Error> {
    let eval_every = run.config.train.eval_every;
    let fill = arguments.fill.unwrap_or(run.config.train.seed_steps);
    // A rollout learns once in so many decisions.
    let decisions = match run.config.model.source {
        Source::Rollout { steps, .. } => arguments.steps.next_multiple_of(steps),
        Source::Replay { .. } => arguments.steps,
    };
    let end = fill + WARM + decisions;
    let train = &mut run.config.train;
    (train.seed_steps, train.steps, train.eval_every) = (fill, end + 1, end + 1);
    let mut trainer = Trainer::new(run.config.clone())?;
    let mut journal = Journal::open(run, &Resumed::default(), end + 1, KEEP)?;
    let mut until = |trainer: &mut Trainer, step: u64| -> Result<Reading, Error> {
        while trainer.step() < step {
            let report = trainer.advance()?;
            journal.decided(trainer, report)?;
        }
        let (times, updates) = (trainer.times(), trainer.updates());
        Ok(Reading { times, records: journal.spent(), updates, resident: mebibytes("VmRSS"), at: Instant::now() })
    };
    let start = until(&mut trainer, fill + WARM)?;
    let stop = until(&mut trainer, end)?;
    let last = until(&mut trainer, end + 1)?;

    let each = |spent: Duration, count: u64| spent.as_secs_f64() * 1e3 / count as f64;
    let part = |f: fn(&Times) -> Duration| each(f(&stop.times) - f(&start.times), decisions);
    let seldom = |spent: Duration| each(spent, eval_every);
    let mut parts = vec![
        ("plan", part(|t| t.act)),
        ("update", part(|t| t.update)),
        ("evaluate", seldom(last.times.evaluate)),
        ("environment", part(|t| t.environment)),
        ("replay", part(|t| t.replay)),
        ("records", each(stop.records - start.records, decisions) + seldom(last.records - stop.records)),
    ];
    let told: f64 = parts.iter().map(|(_, ms)| ms).sum::<f64>() - seldom(last.times.evaluate + last.records - stop.records);
    parts.push(("other", (each(stop.at - start.at, decisions) - told).max(0.0)));
    let total: f64 = parts.iter().map(|(_, ms)| ms).sum();
    let parts: Vec<Part> = parts.into_iter().map(|(part, ms)| Part { part, ms, share: ms / total }).collect();
    Ok(Document {
        model: run.config.model.name.clone(),
        task: run.config.task.clone(),
        decisions,
        fill,
        updates: stop.updates - start.updates,
        eval_every,
        threads: run.config.compute.threads,
        instruction_set: trainer.computes_with().into(),
        around: parts.iter().filter(|p| AROUND.contains(&p.part)).map(|p| p.share).sum(),
        parts,
        resident: (|| Some(Resident { filled: start.resident?, end: stop.resident?, peak: mebibytes("VmHWM")? }))(),
    })
}

/// What had been spent at a moment.
struct Reading {
    times: Times,
    records: Duration,
    updates: u64,
    resident: Option<f64>,
    at: Instant,
}

/// A number of the system's about this process.
fn mebibytes(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok().map(|kib| kib / 1024.0)
}

impl Document {
    fn table(&self) -> String {
        let mut text = format!(
            "{} on {}: {} decisions with {} updates, after {} random ones; {}, {} threads\n\n",
            self.model, self.task, self.decisions, self.updates, self.fill, self.instruction_set, self.threads
        );
        for Part { part, ms, share } in &self.parts {
            let _ = writeln!(text, "  {part:11}  {ms:9.3} ms  {:5.1} %  {}", 100.0 * share, bar(*share));
        }
        let total: f64 = self.parts.iter().map(|p| p.ms).sum();
        let _ = writeln!(text, "  {:11}  {total:9.3} ms a decision\n", "");
        let _ = writeln!(text, "{} together: {:.1} %", AROUND.join(", "), 100.0 * self.around);
        let _ =
            writeln!(text, "An evaluation and a checkpoint were measured once and count once in {} decisions.", self.eval_every);
        if let Some(Resident { filled, end, peak }) = &self.resident {
            let _ = writeln!(
                text,
                "Resident memory: {filled:.0} MiB before the measured decisions, {end:.0} MiB after, {peak:.0} MiB at most."
            );
        }
        text
    }
}

/// A bar of a share, in eighths of a character.
fn bar(share: f64) -> String {
    const WIDTH: f64 = 40.0;
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * WIDTH * 8.0).round() as usize;
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_shares() {
        assert_eq!((bar(0.0), bar(1.0)), (String::new(), "█".repeat(40)));
        assert_eq!(bar(0.5), "█".repeat(20));
        assert_eq!(bar(0.5 / 40.0), "▌");
    }
}
