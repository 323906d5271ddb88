//! Series along episodes.

use compiler::ir::Role;

use super::{Diagnostics, Episodes, Trace, put, segment, series};
use crate::Error;
use crate::context::Context;
use crate::program::Program;

/// A series' output.
struct Output {
    name: String,
    output: usize,
    /// The first step of a segment that it has, and how many it has.
    from: usize,
    steps: usize,
    /// Numbers of a step: those of the array, for each step of a prediction.
    width: usize,
    /// The first step of a prediction, and how many there are.
    ahead: Option<(usize, usize)>,
}

/// What stands behind an episode's end in a segment that reaches over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// Its last observation, again and again.
    Last,
    /// The episode, again from its start.
    Start,
}

impl Diagnostics {
    /// Some series along episodes.
    pub fn follow(&mut self, episodes: &Episodes, names: &[String]) -> Result<Vec<Trace>, Error> {
        let mut traces = vec![Trace::default(); episodes.len()];
        let (mut plain, mut ahead) = (Vec::new(), Vec::new());
        for name in names {
            if self.config.model.quantities.iter().any(|q| q.name == *name) {
                // Not every task measures it, and none has measured the episodes that were stored.
                for (trace, numbers) in traces.iter_mut().zip(episodes.quantities.get(name).into_iter().flatten()) {
                    trace.values.insert(name.clone(), numbers.iter().map(|x| vec![*x]).collect());
                }
                continue;
            }
            let of = if self.series(name)?.vars.len() > 1 { &mut ahead } else { &mut plain };
            of.push(name.clone());
        }
        for names in [plain, ahead] {
            if !names.is_empty() {
                self.computed(episodes, &names, &mut traces)?;
            }
        }
        Ok(traces)
    }

    fn computed(&mut self, episodes: &Episodes, names: &[String], traces: &mut [Trace]) -> Result<(), Error> {
        let model = self.model(names, episodes.longest());
        let mut program = self.program(&model, &[])?;
        let read = program.read();
        let remembers = program.with_role(Role::Carry).any(|(input, _)| read[input]);
        let mut context = if remembers { Context::new(&model, &self.learnt, self.config.compute)? } else { None };
        let anew = !model.has_context();
        let (batch, time) = segment(&program);
        let mut outputs = Vec::new();
        for name in names {
            outputs.push(output(&program, &model, name, batch)?);
        }
        let reaches = outputs.iter().any(|o| o.ahead.is_some());
        let steps = outputs.iter().map(|o| o.steps).min().unwrap_or(1);
        for (trace, (_, rows)) in traces.iter_mut().zip(&episodes.spans) {
            names.iter().for_each(|name| _ = trace.values.insert(name.clone(), vec![Vec::new(); rows - 1]));
        }
        // Segments of all episodes: which episode, and the decision that it starts at.
        let mut segments: Vec<(usize, usize)> = Vec::new();
        for (episode, (_, rows)) in episodes.spans.iter().enumerate() {
            // Without a past, a value is taken where its segment ends, and in the first segment everywhere.
            let apart = if anew { 1 } else { steps };
            if reaches {
                segments.extend((0..rows - 1).step_by(apart).map(|at| (episode, at)));
                continue;
            }
            // An episode that is shorter than a segment has one that reaches over its end.
            let last = rows.saturating_sub(time);
            segments.extend((0..last).step_by(apart).chain([last]).map(|at| (episode, at)));
        }
        let mut run = |chunk: &[(usize, usize)], number: u64, behind: Behind| -> Result<Vec<Vec<f32>>, Error> {
            let padded: Vec<(usize, usize)> = (0..batch).map(|i| chunk[i.min(chunk.len() - 1)]).collect();
            put(&mut program, &episodes.seen, |steps| {
                padded.iter().flat_map(|(episode, at)| rows_of(episodes.spans[*episode], *at, steps, behind)).collect()
            })?;
            if let Some(context) = &mut context {
                let starts: Vec<u64> = padded.iter().map(|(episode, at)| episodes.spans[*episode].0 + *at as u64).collect();
                context.put(&episodes.seen, &starts, (self.config.seed, number, self.progress), &mut program)?;
            }
            program.executable.run(self.config.seed, number)?;
            outputs.iter().map(|o| program.output(o.output)).collect()
        };
        let mut judged = false;
        for (number, chunk) in segments.chunks(batch).enumerate() {
            let found = run(chunk, number as u64, Behind::Last)?;
            let over = chunk.iter().any(|(episode, at)| at + time > episodes.spans[*episode].1);
            let again = match over && !(reaches && judged) {
                true => Some(run(chunk, number as u64, Behind::Start)?),
                false => None,
            };
            let refused = keep(chunk, episodes, &outputs, &found, again.as_deref(), anew, traces);
            judged |= again.is_some();
            if let Some(name) = refused.filter(|_| reaches) {
                return Err(Error::Unsupported(format!(
                    "the series `{name}` reads observations behind the step that it predicts: an episode's last ones are unknown"
                )));
            }
        }
        Ok(())
    }
}

fn output(program: &Program, model: &dsl::hir::Model, name: &str, batch: usize) -> Result<Output, Error> {
    let wrong = || Error::Unsupported(format!("`{name}` of `diagnose` has no value at each step of a segment"));
    let output = program.graph.output(&format!("diagnose.{name}")).ok_or_else(wrong)?;
    let shape = program.output_shape(output);
    let vars = &series(model, name)?.vars;
    if shape.first() != Some(&batch) || shape.len() <= vars.len() {
        return Err(wrong());
    }
    let from = |at: usize| usize::try_from(model.var(vars[at]).lo).map_err(|_| wrong());
    let ahead = if vars.len() > 1 { Some((from(1)?, shape[2])) } else { None };
    Ok(Output { name: name.to_string(), output, from: from(0)?, steps: shape[1], width: shape[2..].iter().product(), ahead })
}

/// The rows of a segment of an episode.
fn rows_of((start, rows): (u64, usize), at: usize, steps: usize, behind: Behind) -> impl Iterator<Item = u64> {
    (at..at + steps).map(move |row| {
        start
            + match behind {
                Behind::Last => row.min(rows - 1),
                Behind::Start => row % rows,
            } as u64
    })
}

/// Takes over what segments say, at decisions that have no value yet. What depends on what stands behind an episode's end
/// (`again` has something else there) is no value; tells a series of which there is such a thing.
fn keep(
    chunk: &[(usize, usize)],
    episodes: &Episodes,
    outputs: &[Output],
    found: &[Vec<f32>],
    again: Option<&[Vec<f32>]>,
    anew: bool,
    traces: &mut [Trace],
) -> Option<String> {
    let mut refused = None;
    for (n, o) in outputs.iter().enumerate() {
        for (place, (episode, at)) in chunk.iter().enumerate() {
            let decisions = episodes.spans[*episode].1 - 1;
            let Some(kept) = traces[*episode].values.get_mut(&o.name) else { continue };
            for t in 0..o.steps {
                let decision = at + o.from + t;
                let Some(slot) = kept.get_mut(decision).filter(|slot| slot.is_empty()) else { continue };
                if anew && *at > 0 && t + 1 < o.steps {
                    continue;
                }
                // Steps of a prediction end with the episode's last observation.
                let there = o.ahead.map_or(o.width, |(first, count)| {
                    (decisions + 1).saturating_sub(decision + first).min(count) * (o.width / count.max(1))
                });
                let own = (place * o.steps + t) * o.width;
                let own = own..own + there;
                let numbers = &found[n][own.clone()];
                if again.is_some_and(|again| numbers.iter().zip(&again[n][own]).any(|(a, b)| a.to_bits() != b.to_bits())) {
                    refused = Some(o.name.clone());
                    continue;
                }
                slot.extend(numbers.iter().map(|x| f64::from(*x)));
            }
        }
    }
    refused
}
