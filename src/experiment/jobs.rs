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

use super::builds::Builds;
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

/// How jobs are run.
#[derive(Debug)]
pub(crate) struct How<'a> {
    pub(crate) builds: &'a Builds,
    pub(crate) at_once: usize,
    pub(crate) threads: usize,
    pub(crate) stop: &'a AtomicBool,
}

impl How<'_> {
    /// Another command of a build of this program.
    fn command(&self, program: &Path, name: &str) -> Command {
        let mut command = Command::new(program);
        command.args([name, "--threads", &self.threads.to_string()]);
        command
    }
}

/// A run that is there.
struct Found {
    run: Run,
    /// The decision that it comes to.
    end: u64,
}

impl Found {
    fn of(job: &Job) -> Option<Found> {
        let run = Run::open(&job.folder).ok()?;
        Some(Found { end: run.config.train.steps.min(job.until.unwrap_or(u64::MAX)), run })
    }

    fn is_trained(&self) -> bool {
        saved(&self.run.folder) >= self.end
    }

    fn is_tested(&self, job: &Job) -> bool {
        let episodes = job.ood_episodes.unwrap_or(self.run.config.train.changed_episodes());
        measured::is_there(&job.folder, self.end, &job.task, &job.ood, episodes)
    }

    fn is_diagnosed(&self, job: &Job) -> bool {
        !job.diagnose || measured::is_diagnosed(&job.folder, self.end)
    }
}

/// Runs all jobs, `at_once` at a time with `threads` each. The ends are in the order of the jobs; those that were never started have stopped.
pub(crate) fn run(jobs: &[Job], how: &How<'_>, audience: &dyn Audience) -> Vec<End> {
    let stop = how.stop;
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
            let end = one(job, how, &|step| at_step(number, step)).unwrap_or_else(End::Failed);
            audience.ended(job, &end);
            if let Ok(mut place) = ends[number].lock() {
                *place = end;
            }
        }
    };
    std::thread::scope(|scope| (0..how.at_once.max(1)).for_each(|_| _ = scope.spawn(work)));
    ends.into_iter().map(|end| end.into_inner().unwrap_or(End::Stopped)).collect()
}

/// The step of a run's newest checkpoint.
fn saved(folder: &Path) -> u64 {
    let newest = checkpoint::list(&folder.join("checkpoints")).pop();
    newest.and_then(|place| place.file_name()?.to_str()?.parse().ok()).unwrap_or(0)
}

fn one(job: &Job, how: &How<'_>, at_step: &(dyn Fn(u64) + Sync)) -> Result<End, String> {
    let there = job.folder.join("run.json").is_file();
    // Also of a run that another experiment has made: each has published figures of its own.
    measured::label(&job.folder, &job.label)?;
    let found = Found::of(job);
    if found.as_ref().is_some_and(|found| found.is_trained() && found.is_tested(job) && found.is_diagnosed(job)) {
        return Ok(End::Already);
    }
    if !there && job.folder.exists() {
        // Killed before it had made its folder whole: there is nothing in it that was learnt.
        fs::remove_dir_all(&job.folder).map_err(|e| format!("{}: {e}", job.folder.display()))?;
    }
    if !found.as_ref().is_some_and(Found::is_trained) {
        let labelled = AtomicBool::new(false);
        let program = found.map_or_else(|| how.builds.own(), |found| how.builds.of(&found.run))?;
        let mut train = how.command(&program, "train");
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
        if let Some(end) = finish(train, job, how.stop, line)? {
            return Ok(end);
        }
    }
    let Some(found) = Found::of(job) else { return Err("its folder cannot be read".into()) };
    if !found.is_tested(job)
        && let Some(end) = evaluate(job, how)?
    {
        return Ok(end);
    }
    if !found.is_diagnosed(job) {
        let mut diagnose = how.command(&how.builds.own()?, "diagnose");
        diagnose.arg(&job.folder);
        if let Some(end) = finish(diagnose, job, how.stop, |_| ())? {
            return Ok(end);
        }
    }
    let _ = fs::remove_file(job.folder.with_extension("err"));
    Ok(End::Done)
}

/// Returns on the task as it was changed, and a drawing of an episode.
fn evaluate(job: &Job, how: &How<'_>) -> Result<Option<End>, String> {
    let mut eval = how.command(&how.builds.own()?, "eval");
    eval.args(["--json", "--frames"]).arg(job.folder.join(measured::FRAMES)).arg(&job.folder);
    eval.args(job.ood.iter().flat_map(|change| ["--ood", change]));
    eval.args(job.ood_episodes.into_iter().flat_map(|n| ["--episodes".into(), n.to_string()]));
    let lines = Mutex::new(Vec::new());
    let keep = |line: &str| _ = lines.lock().map(|mut all| all.push(serde_json::from_str::<Change>(line)));
    if let Some(end) = finish(eval, job, how.stop, keep)? {
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
