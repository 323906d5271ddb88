//! A run that is being trained: from its start or from its last checkpoint, with its log and its checkpoints.

use std::path::PathBuf;

use runtime::Error;
use runtime::checkpoint;
use runtime::disk;
use runtime::program::{Compute, State};
use runtime::records::Line;
use runtime::run::{Held, Run, Start};
use runtime::train::{Change, Report, Trainer};

use super::journal::{Journal, Resumed};

/// How a training is started or resumed.
#[derive(Debug)]
pub(crate) struct Options {
    /// Goes on from the newest checkpoint instead of starting.
    pub(crate) resume: bool,
    pub(crate) compute: Compute,
    /// Settings of `train` and of the task that are changed.
    pub(crate) set: Vec<(String, String)>,
    /// Decisions between two checkpoints; those between two evaluations otherwise.
    pub(crate) save_every: Option<u64>,
    /// How many checkpoints are kept.
    pub(crate) keep: usize,
    /// What `run.json` notes about it.
    pub(crate) start: Start,
}

/// What is good to know of a start.
#[derive(Debug)]
pub(crate) enum Note {
    Changed(Change),
    Warning(String),
    /// From this step, which this checkpoint has.
    Resumed(u64, PathBuf),
}

#[derive(Debug)]
pub(crate) struct Training {
    pub(crate) run: Run,
    pub(crate) trainer: Trainer,
    pub(crate) journal: Journal,
    /// Nobody else trains this run.
    _held: Held,
}

impl Training {
    pub(crate) fn open(mut run: Run, options: Options) -> Result<(Training, Vec<Note>), Error> {
        let mut notes = Vec::new();
        let held = run.hold()?;
        run.config.compute = options.compute;
        let said = run.identity.set.clone();
        for (name, value) in &options.set {
            if !said.contains(&(name.clone(), value.clone())) {
                notes.push(Note::Changed(run.config.set(name, value)?));
            }
        }
        run.start(options.start, &options.set)?;
        disk::discard_drafts(&run.checkpoints());
        disk::discard_drafts(&run.folder);
        let mut trainer = Trainer::new(run.config.clone())?;
        let from = if options.resume { resume(&run, &mut trainer, &mut notes)? } else { Resumed::default() };
        let save_every = options.save_every.unwrap_or(run.config.train.eval_every).max(1);
        let mut journal = Journal::open(&run, &from, save_every, options.keep)?;
        notes.extend(journal.warnings().into_iter().map(Note::Warning));
        Ok((Training { run, trainer, journal, _held: held }, notes))
    }

    /// Starts with this state instead of the initial one. From here on the run resumes without its source.
    pub(crate) fn start(&mut self, state: &State) -> Result<(), Error> {
        self.trainer.start(state)?;
        self.save()
    }

    /// One decision with what is due after it, and the new lines of the log.
    pub(crate) fn advance(&mut self) -> Result<(Report, Vec<Line>), Error> {
        let report = self.trainer.advance()?;
        let lines = self.journal.decided(&mut self.trainer, report.clone())?;
        Ok((report, lines))
    }

    /// Writes a checkpoint.
    pub(crate) fn save(&mut self) -> Result<(), Error> {
        self.journal.save(&mut self.trainer)
    }
}

/// Puts a trainer where its newest checkpoint was.
fn resume(run: &Run, trainer: &mut Trainer, notes: &mut Vec<Note>) -> Result<Resumed, Error> {
    match run.newest() {
        Ok((_, manifest, ..)) if manifest.exported => Err(Error::Exported { path: run.folder.clone() }),
        Ok((place, manifest, snapshot, unused)) => {
            notes.extend(unused.into_iter().map(Note::Warning));
            if manifest.instruction_set != trainer.computes_with() {
                let (was, is) = (&manifest.instruction_set, trainer.computes_with());
                notes.push(Note::Warning(format!("it was trained with {was} and goes on with {is}: other bits")));
            }
            trainer.restore(&snapshot)?;
            checkpoint::note_best(&run.checkpoints(), &snapshot.counters)?;
            notes.push(Note::Resumed(trainer.step(), place));
            Ok(Resumed { log: manifest.log, counters: manifest.counters, seconds: manifest.seconds, means: manifest.means })
        }
        // One that started with parameters of a file has lost them.
        Err(error) if checkpoint::list(&run.checkpoints()).is_empty() && run.identity.from.is_none() => {
            notes.push(Note::Warning(format!("{error}; starting anew")));
            Ok(Resumed::default())
        }
        Err(error) => Err(error),
    }
}
