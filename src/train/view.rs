//! The terminal output of a training: a progress line, a table of evaluations, a summary at the end.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use runtime::records::Line;
use runtime::train::{Evaluation, Trainer, area};

use crate::output::Output;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    Quiet,
    Json,
    People,
}

pub(crate) struct View {
    voice: Voice,
    bar: ProgressBar,
    started: Instant,
}

impl View {
    pub(crate) fn new(voice: Voice, steps: u64, from: u64) -> View {
        let hidden = voice != Voice::People;
        let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(4) };
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_position(from);
        // A template that is known to be right.
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {per_sec} ETA {eta}  {msg}") {
            bar.set_style(style);
        }
        bar.reset_eta();
        View { voice, bar, started: Instant::now() }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    /// After a decision.
    pub(crate) fn step(&self, trainer: &Trainer, episode: Option<f64>) {
        self.bar.set_position(trainer.step());
        if let Some(gained) = episode {
            let loss = trainer.losses().find(|(name, _)| name.starts_with("objective."));
            let loss = loss.map_or(String::new(), |(name, x)| format!("  {} {x:.3}", name.trim_start_matches("objective.")));
            self.bar.set_message(format!("return {gained:.1}{loss}"));
        }
    }

    pub(crate) fn line(&self, line: &Line, out: &mut Output) {
        match (self.voice, line) {
            (Voice::Json, line) => {
                // A record of texts and numbers always has a JSON form.
                out.say(serde_json::to_string(line).expect("a line of the log") + "\n");
                out.flush();
            }
            (Voice::People, Line::Evaluation { evaluation, mean, seconds, .. }) => {
                let metrics = evaluation.metrics.iter().filter(|(_, x)| x.len() == 1);
                let metrics: Vec<String> = metrics.map(|(n, x)| format!("{n} {:.3}", x[0])).collect();
                let told = format!(
                    "step {:>7}  return {mean:7.2}  {}  {:.0} s\n",
                    evaluation.step,
                    metrics.join("  "),
                    seconds.unwrap_or(0.0)
                );
                self.bar.suspend(|| {
                    out.say(told);
                    out.flush();
                });
            }
            (Voice::People | Voice::Quiet, _) => {}
        }
    }

    pub(crate) fn notice(&self, text: &str, out: &mut Output) {
        if self.voice == Voice::People {
            self.bar.suspend(|| out.tell(format!("{text}\n")));
        }
    }

    /// What there is to say when it is over.
    pub(crate) fn end(&self, trainer: &Trainer, first_step: u64, folder: &str, records: Duration, out: &mut Output) {
        self.bar.finish_and_clear();
        if self.voice == Voice::Json {
            return;
        }
        let config = trainer.config();
        let evaluations = trainer.evaluations();
        let decided = trainer.step() - first_step;
        out.say(format!(
            "{} on {} ({} protocol), seed {}: {} of {} decisions, {} updates\n",
            config.model.name,
            config.task,
            config.protocol,
            config.seed,
            trainer.step(),
            config.train.steps,
            trainer.updates()
        ));
        if let (Some(last), Some(auc)) = (evaluations.last(), area(evaluations)) {
            out.say(format!("  return   {}  last {:.1}, area under the curve {auc:.1}\n", sparkline(evaluations), last.mean()));
        }
        let times = trainer.times();
        let parts = [
            ("act", times.act),
            ("update", times.update),
            ("evaluate", times.evaluate),
            ("environment", times.environment),
            ("replay", times.replay),
            ("records", records),
        ];
        let total: f64 = parts.iter().map(|(_, d)| d.as_secs_f64()).sum();
        let shares: Vec<String> =
            parts.iter().map(|(n, d)| format!("{n} {:.1} %", 100.0 * d.as_secs_f64() / total.max(1e-9))).collect();
        out.say(format!("  time     {:.0} s: {}\n", self.seconds(), shares.join(", ")));
        let acted = trainer.step().saturating_sub(first_step.max(config.train.seed_steps)).min(decided);
        if acted > 0 {
            let latencies = trainer.latencies();
            let ms = |part| latencies.quantile(part).map_or(0.0, |d| d.as_secs_f64() * 1e3);
            let mean = times.act.as_secs_f64() * 1e3 / acted as f64;
            let of = latencies.count();
            out.say(format!(
                "  decision {mean:.1} ms; of the last {of} half took {:.1} ms or less, 99 % {:.1} ms\n",
                ms(0.5),
                ms(0.99)
            ));
        }
        let (kernels, replay) = trainer.bytes();
        let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
        out.say(format!("  memory   {:.0} MiB for kernels, at most {:.0} MiB of experience\n", mib(kernels), mib(replay)));
        out.say(format!("  files    {folder} (curve.svg, log.jsonl, checkpoints)\n"));
        out.say(format!("  next     wmc eval {folder}  |  wmc plan {folder} --obs ..\n"));
    }
}

/// Returns as bars, the lowest to the highest.
fn sparkline(evaluations: &[Evaluation]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let means: Vec<f64> = evaluations.iter().map(Evaluation::mean).collect();
    let (low, high) = means.iter().fold((0f64, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    let height = |x: f64| (((x - low) / (high - low).max(1e-9)) * 7.0).round() as usize;
    means.iter().map(|x| BARS[height(*x).min(7)]).collect()
}
