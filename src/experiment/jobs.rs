//! The runs of an experiment, several at a time, each a `wmc train` of its own.
//!
//! What has been done is seen in the folders alone: a run that is there goes on from its last checkpoint, one that came to its end is
//! not run again. A run that fails is told and leaves the others alone.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use runtime::checkpoint;
use runtime::run::Run;

use super::file::Job;
use super::measured::{self, Change, Tested};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    /// It was done before.
    Already,
    Stopped,
    Failed(String),
}

/// Hears what happens; called from several threads.
pub(crate) trait Audience: Sync {
    fn ended(&self, job: &Job, end: &End);
    /// Decisions of all runs so far.
    fn progress(&self, steps: u64);
}

/// Runs all jobs, `at_once` at a time with `threads` each. The ends are in the order of the jobs; those that were never started have stopped.
pub(crate) fn run(jobs: &[Job], at_once: usize, threads: usize, stop: &AtomicBool, audience: &dyn Audience) -> Vec<End> {
    let ends: Vec<Mutex<End>> = jobs.iter().map(|_| Mutex::new(End::Stopped)).collect();
    let steps: Vec<AtomicU64> = jobs.iter().map(|job| AtomicU64::new(saved(&job.folder))).collect();
    let next = AtomicUsize::new(0);
    let at_step = |number: usize, step: u64| {
        steps[number].fetch_max(step, Ordering::Relaxed);
        audience.progress(steps.iter().map(|s| s.load(Ordering::Relaxed)).sum());
    };
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { return };
            let end = one(job, threads, stop, &|step| at_step(number, step)).unwrap_or_else(End::Failed);
            audience.ended(job, &end);
            if let Ok(mut place) = ends[number].lock() {
                *place = end;
            }
        }
    };
    std::thread::scope(|scope| (0..at_once.max(1)).for_each(|_| _ = scope.spawn(work)));
    ends.into_iter().map(|end| end.into_inner().unwrap_or(End::Stopped)).collect()
}

/// The step of a run's newest checkpoint.
fn saved(folder: &Path) -> u64 {
    let newest = checkpoint::list(&folder.join("checkpoints")).pop();
    newest.and_then(|place| place.file_name()?.to_str()?.parse().ok()).unwrap_or(0)
}

fn one(job: &Job, threads: usize, stop: &AtomicBool, at_step: &(dyn Fn(u64) + Sync)) -> Result<End, String> {
    let there = job.folder.join("run.json").is_file();
    let tested = || measured::is_there(&job.folder, saved(&job.folder), &job.task, &job.ood);
    let diagnosed = || !job.diagnose || measured::is_diagnosed(&job.folder, saved(&job.folder));
    // Also of a run that another experiment has made: each has published figures of its own.
    measured::label(&job.folder, &job.label)?;
    if there && is_done(job) && tested() && diagnosed() {
        return Ok(End::Already);
    }
    if !there && job.folder.exists() {
        // Killed before it had made its folder whole: there is nothing in it that was learnt.
        fs::remove_dir_all(&job.folder).map_err(|e| format!("{}: {e}", job.folder.display()))?;
    }
    if !there || !is_done(job) {
        let labelled = AtomicBool::new(false);
        let mut train = own("train", threads)?;
        train.arg("--json");
        match there {
            true => train.arg("--resume").arg(&job.folder),
            false => train.args(&job.arguments).arg("--out").arg(&job.folder),
        };
        train.args(job.until.into_iter().flat_map(|step| ["--until".into(), step.to_string()]));
        let line = |line: &str| {
            let step = serde_json::from_str::<serde_json::Value>(line).ok().and_then(|line| line["step"].as_u64());
            step.into_iter().for_each(at_step);
            // A new run has its folder by now, and may be reported before it has come to its end.
            if !labelled.swap(true, Ordering::Relaxed) {
                let _ = measured::label(&job.folder, &job.label);
            }
        };
        if let Some(end) = finish(train, job, stop, line)? {
            return Ok(end);
        }
    }
    if !tested()
        && let Some(end) = evaluate(job, threads, stop)?
    {
        return Ok(end);
    }
    if !diagnosed() {
        let mut diagnose = own("diagnose", threads)?;
        diagnose.arg(&job.folder);
        if let Some(end) = finish(diagnose, job, stop, |_| ())? {
            return Ok(end);
        }
    }
    let _ = fs::remove_file(job.folder.with_extension("err"));
    Ok(End::Done)
}

/// Returns on the task as it was changed, and a drawing of an episode.
fn evaluate(job: &Job, threads: usize, stop: &AtomicBool) -> Result<Option<End>, String> {
    let mut eval = own("eval", threads)?;
    eval.args(["--json", "--frames"]).arg(job.folder.join(measured::FRAMES)).arg(&job.folder);
    eval.args(job.ood.iter().flat_map(|change| ["--ood", change]));
    let lines = Mutex::new(Vec::new());
    let keep = |line: &str| _ = lines.lock().map(|mut all| all.push(serde_json::from_str::<Change>(line)));
    if let Some(end) = finish(eval, job, stop, keep)? {
        return Ok(Some(end));
    }
    let lines = lines.into_inner().unwrap_or_default();
    let changes: Vec<Change> = lines.into_iter().collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let changes = if job.ood.is_empty() { Vec::new() } else { changes };
    measured::add(&job.folder, Tested { step: saved(&job.folder), changes })?;
    Ok(None)
}

/// Runs a command of a job to its end; gives the job's end where that was not a good one.
fn finish(command: Command, job: &Job, stop: &AtomicBool, line: impl Fn(&str) + Sync) -> Result<Option<End>, String> {
    let errors = job.folder.with_extension("err");
    match follow(command, &errors, stop, line)? {
        Some(0) => Ok(None),
        _ if stop.load(Ordering::Relaxed) => Ok(Some(End::Stopped)),
        code => Err(said(&errors, code)),
    }
}

/// Whether a run has come as far as it should.
fn is_done(job: &Job) -> bool {
    let steps = |run: Run| run.config.train.steps.min(job.until.unwrap_or(u64::MAX));
    Run::open(&job.folder).is_ok_and(|run| saved(&job.folder) >= steps(run))
}

/// Another command of this program.
fn own(name: &str, threads: usize) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|e| format!("cannot find this program again: {e}"))?;
    let mut command = Command::new(program);
    command.args([name, "--threads", &threads.to_string()]);
    Ok(command)
}

/// Runs a command, line by line, its standard error in a file. The exit code, if it had one.
fn follow(mut command: Command, errors: &Path, stop: &AtomicBool, line: impl Fn(&str) + Sync) -> Result<Option<i32>, String> {
    let fail = |e: std::io::Error| format!("{}: {e}", errors.display());
    if let Some(parent) = errors.parent() {
        fs::create_dir_all(parent).map_err(fail)?;
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(errors).map_err(fail)?);
    // A Ctrl-C at the terminal is for us; we hand it on once.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let Some(output) = child.stdout.take() else { return Err("its output is closed".into()) };
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| BufReader::new(output).lines().map_while(Result::ok).for_each(|l| line(&l)));
        let mut asked = false;
        loop {
            if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
                return Ok(status.code());
            }
            if stop.load(Ordering::Relaxed) && !asked {
                interrupt(&mut child);
                asked = true;
            }
            if reader.is_finished() && !stop.load(Ordering::Relaxed) {
                // Its output is closed: it ends now.
                return child.wait().map(|status| status.code()).map_err(|e| e.to_string());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    })
}

/// Asks a run to save and end.
fn interrupt(child: &mut Child) {
    let asked = cfg!(unix) && Command::new("kill").args(["-INT", &child.id().to_string()]).status().is_ok_and(|s| s.success());
    if !asked {
        // It loses what came after its last checkpoint.
        let _ = child.kill();
    }
}

/// What a command that failed said last.
fn said(errors: &Path, code: Option<i32>) -> String {
    let text = fs::read_to_string(errors).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.iter().rposition(|l| l.starts_with("error")).unwrap_or(lines.len().saturating_sub(3))..];
    match (last.is_empty(), code) {
        (false, _) => last.join("\n"),
        (true, Some(code)) => format!("it ended with the code {code}"),
        (true, None) => "it was killed".into(),
    }
}
