//! Writes the folder of a training: lines of the log, a learning curve, checkpoints.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use runtime::Error;
use runtime::checkpoint;
use runtime::disk;
use runtime::records::{Line, Records};
use runtime::run::Run;
use runtime::train::{Counters, Means, Report, Trainer, area};

use crate::figures::lines::{Curve, LEARNING, draw};

/// Decisions between two lines of losses.
const LOSSES_EVERY: u64 = 100;

/// Where the log stands when a run starts or goes on.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    /// Bytes of the log, and how far the training had come.
    pub(crate) log: u64,
    pub(crate) counters: Counters,
    /// Seconds of training before.
    pub(crate) seconds: f64,
    pub(crate) means: Means,
}

#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    /// What the curve is called.
    name: String,
    fingerprint: String,
    records: Records,
    means: Means,
    save_every: u64,
    keep: usize,
    started: Instant,
    /// What the training took before.
    before: f64,
    spent: Duration,
    warnings: Vec<String>,
}

impl Journal {
    /// Goes on with the log from where a checkpoint left it.
    pub(crate) fn open(run: &Run, from: &Resumed, save_every: u64, keep: usize) -> Result<Journal, Error> {
        let (records, warning) = Records::open(&run.folder, from.log, &from.counters)?;
        let (started, spent) = (Instant::now(), Duration::ZERO);
        let warnings = warning.into_iter().collect();
        let (means, before) = (from.means.clone(), from.seconds);
        let name = format!("{} on {}", run.identity.model, run.identity.task);
        let (folder, fingerprint) = (run.folder.clone(), run.fingerprint.clone());
        Ok(Journal { folder, name, fingerprint, records, means, save_every, keep, started, before, spent, warnings })
    }

    /// Seconds of training, over all resumptions.
    pub(crate) fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// How long writing took, all in all.
    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }

    /// What went wrong with the log since the last call, without harm to the training.
    pub(crate) fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Stores the events of a decision. Returns the new lines of the log.
    pub(crate) fn decided(&mut self, trainer: &mut Trainer, report: Report) -> Result<Vec<Line>, Error> {
        let start = Instant::now();
        if report.updated {
            self.means.add(trainer.losses());
        }
        let step = trainer.step();
        let mut lines = Vec::new();
        if let Some(gained) = report.episode {
            lines.push(Line::Episode { step, r#return: gained });
        }
        if step.is_multiple_of(LOSSES_EVERY)
            && let Some(means) = self.means.take()
        {
            lines.push(Line::Losses { step, updates: trainer.updates(), means });
        }
        let evaluated = report.evaluation.is_some();
        if let Some(evaluation) = report.evaluation {
            let auc = area(trainer.evaluations()).unwrap_or(0.0);
            lines.push(Line::Evaluation { mean: evaluation.mean(), evaluation, auc, seconds: Some(self.seconds()) });
        }
        lines.iter().try_for_each(|line| self.records.write(line))?;
        if evaluated {
            self.curve(trainer)?;
        }
        // The best one is kept, so it is written even where no checkpoint is due.
        if step.is_multiple_of(self.save_every) || trainer.done() || (evaluated && trainer.is_best()) {
            self.save(trainer)?;
        }
        self.spent += start.elapsed();
        Ok(lines)
    }

    fn curve(&self, trainer: &Trainer) -> Result<(), Error> {
        let path = self.folder.join("curve.svg");
        let points = trainer.evaluations().iter().map(|e| (e.step as f64, e.mean())).collect();
        disk::replace(&path, draw(LEARNING, &[Curve::of(self.name.clone(), &[points])]).as_bytes())
    }

    /// Writes a checkpoint.
    pub(crate) fn save(&mut self, trainer: &mut Trainer) -> Result<(), Error> {
        let snapshot = trainer.save()?;
        if !self.records.is_there() {
            let (records, warning) = Records::open(&self.folder, u64::MAX, &snapshot.counters)?;
            self.records = records;
            self.warnings.extend(warning);
        }
        let log = self.records.flush()?;
        let mut manifest = checkpoint::manifest(&snapshot, &self.fingerprint, trainer.computes_with(), log);
        manifest.seconds = self.seconds();
        manifest.means = self.means.clone();
        checkpoint::write(&self.folder.join("checkpoints"), &manifest, &snapshot, self.keep).map(|_| ())
    }
}
