//! A model's values where its state is put by hand: the evaluation's program with the state as an input.
//!
//! The state is what `q` of `diagnose` reads, `z[t].q`: all diagnosed values that are arrays of the same equation. So energies and
//! fields can be asked for anywhere, and the step from one state to the next can be differentiated by differences.

use compiler::ir::Role;
use compiler::lower::Entry;
use dsl::hir::{Diagnosis, Model, Op};

use super::{READ, put};
use crate::Error;
use crate::experience::Experience;
use crate::program::{Compute, Program, Schedules, State};

#[derive(Debug)]
pub(super) struct Probe {
    program: Program,
    parts: Vec<Part>,
}

/// An array of the state.
#[derive(Debug)]
struct Part {
    name: String,
    input: usize,
    /// Samples, steps, numbers.
    shape: [usize; 3],
    /// What it is one step later.
    next: Option<usize>,
}

/// How far one step of the model pulls states apart, at decisions of an episode.
///
/// With `J` the derivative of the next state by the present one (the memory's past held, its present step followed), by central
/// differences of `step`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Expansion {
    /// The first decision that was looked at.
    pub from: usize,
    pub step: f64,
    /// The largest singular value of `J`: no two states nearby come further apart than by this factor.
    pub largest: Vec<f64>,
    /// By how much a difference grows that is carried along the episode, `v <- J v`.
    pub along: Vec<f64>,
    jacobians: Vec<Vec<Vec<f64>>>,
}

/// Differences are a hundredth of what the state's numbers are like.
const STEP: f64 = 0.01;

impl Probe {
    /// None where the model does not say what its state is.
    pub(super) fn new(
        model: &Model,
        learnt: &State,
        schedules: &Schedules,
        progress: f64,
        compute: Compute,
    ) -> Result<Option<Probe>, Error> {
        let names = state_of(model);
        let given: Vec<String> = names.iter().map(|(_, given)| given.clone()).collect();
        if given.is_empty() {
            return Ok(None);
        }
        let mut program = Program::part(model, Entry::Evaluate, "diagnose.", &given, compute)?;
        program.load(learnt, &READ)?;
        program.begin(learnt)?;
        program.executable.prepare()?;
        program.set_progress(schedules, progress)?;
        let mut parts = Vec::new();
        for (name, given) in names {
            // An equation that is part of a recurrence cannot be given.
            let Some(input) = program.graph.input(&format!("value.{given}")) else { return Ok(None) };
            let shape = program.shape(input);
            let [batch, steps, rest @ ..] = &shape[..] else { return Ok(None) };
            let next = program.graph.output(&format!("diagnose.next_{name}"));
            parts.push(Part { name, input, shape: [*batch, *steps, rest.iter().product()], next });
        }
        Ok(Some(Probe { program, parts }))
    }

    pub(super) fn state(&self) -> Vec<(String, usize)> {
        self.parts.iter().map(|p| (p.name.clone(), p.shape[2])).collect()
    }

    pub(super) fn program_mut(&mut self) -> &mut Program {
        &mut self.program
    }

    pub(super) fn show(&mut self, episode: &Experience, starts: &[u64]) -> Result<(), Error> {
        put(&mut self.program, episode, starts)
    }

    pub(super) fn at(&mut self, states: &[Vec<f32>], names: &[&str]) -> Result<Option<Vec<Vec<Vec<f32>>>>, Error> {
        let mut outputs = Vec::new();
        for name in names {
            let Some(output) = self.program.graph.output(&format!("diagnose.{name}")) else { return Ok(None) };
            let shape = self.program.output_shape(output);
            let [_, steps, rest @ ..] = &shape[..] else { return Ok(None) };
            outputs.push((output, *steps, rest.iter().product::<usize>()));
        }
        let batch = self.parts[0].shape[0];
        // A value has at most as many steps as the state.
        let steps = outputs.iter().map(|(_, steps, _)| *steps).min().unwrap_or(1);
        let data: Vec<usize> = self.program.with_role(Role::Data).map(|(n, _)| n).collect();
        for input in data {
            self.program.executable.input_mut(input)?.fill(0.0);
        }
        let mut found = vec![Vec::with_capacity(states.len()); names.len()];
        for chunk in states.chunks(batch * steps) {
            for (place, state) in chunk.iter().enumerate() {
                let (row, step) = (place / steps, place % steps);
                let mut from = 0;
                for part in &self.parts {
                    let [_, all, width] = part.shape;
                    let numbers = &mut self.program.executable.input_mut(part.input)?[(row * all + step) * width..][..width];
                    numbers.copy_from_slice(&state[from..from + width]);
                    from += width;
                }
            }
            self.program.executable.run(0, 0)?;
            for ((output, all, width), found) in outputs.iter().zip(&mut found) {
                let numbers = self.program.output(*output)?;
                found.extend((0..chunk.len()).map(|place| {
                    let at = (place / steps * all + place % steps) * width;
                    numbers[at..at + width].to_vec()
                }));
            }
        }
        Ok(Some(found))
    }

    /// To be filled by [`Probe::measure`]; none where the model does not say what comes next.
    pub(super) fn stretch(&self) -> Option<Expansion> {
        self.parts.iter().all(|p| p.next.is_some()).then(Expansion::default)
    }

    /// The derivatives of the step at `time` of the first `rows` segments, whose states are given.
    pub(super) fn measure(&mut self, states: &[Vec<f32>], rows: usize, time: usize, into: &mut Expansion) -> Result<(), Error> {
        for (part, numbers) in self.parts.iter().zip(states) {
            let place = self.program.executable.input_mut(part.input)?;
            if place.len() != numbers.len() {
                return Err(Error::Unsupported(format!("`{}` of `diagnose` is not the whole state", part.name)));
            }
            place.copy_from_slice(numbers);
        }
        if into.step == 0.0 {
            let squares: f64 = states.iter().flatten().map(|x| f64::from(*x) * f64::from(*x)).sum();
            into.step = STEP * (squares / states.iter().map(Vec::len).sum::<usize>().max(1) as f64).sqrt().max(1e-3);
        }
        let size: usize = self.parts.iter().map(|p| p.shape[2]).sum();
        let first = into.jacobians.len();
        into.jacobians.extend((0..rows).map(|_| vec![vec![0.0; size]; size]));
        let mut column = 0;
        for (part, was) in states.iter().enumerate() {
            for entry in 0..self.parts[part].shape[2] {
                for sign in [1.0, -1.0] {
                    self.nudge(part, entry, time, was, sign * into.step)?;
                    self.program.executable.run(0, 0)?;
                    let next = self.next(time)?;
                    for (jacobian, next) in into.jacobians[first..].iter_mut().zip(&next) {
                        for (line, x) in jacobian.iter_mut().zip(next) {
                            line[column] += sign * f64::from(*x) / (2.0 * into.step);
                        }
                    }
                }
                self.nudge(part, entry, time, was, 0.0)?;
                column += 1;
            }
        }
        Ok(())
    }

    /// Moves one number of all segments' states away from what it was.
    fn nudge(&mut self, part: usize, entry: usize, time: usize, was: &[f32], by: f64) -> Result<(), Error> {
        let Part { input, shape: [batch, steps, width], .. } = self.parts[part];
        let numbers = self.program.executable.input_mut(input)?;
        for at in (0..batch).map(|row| (row * steps + time) * width + entry) {
            numbers[at] = was[at] + by as f32;
        }
        Ok(())
    }

    /// The next state of every segment.
    fn next(&mut self, time: usize) -> Result<Vec<Vec<f32>>, Error> {
        let mut all = vec![Vec::new(); self.parts[0].shape[0]];
        for part in 0..self.parts.len() {
            let Part { next: Some(output), shape: [_, _, width], .. } = self.parts[part] else { continue };
            let steps = self.program.output_shape(output)[1];
            let numbers = self.program.output(output)?;
            all.iter_mut().enumerate().for_each(|(row, state)| {
                let at = (row * steps + time.min(steps - 1)) * width;
                state.extend(&numbers[at..at + width]);
            });
        }
        Ok(all)
    }
}

impl Expansion {
    pub(super) fn finish(&mut self, from: usize) {
        self.from = from;
        let size = self.jacobians.first().map_or(0, Vec::len);
        let mut carried = vec![1.0 / (size.max(1) as f64).sqrt(); size];
        for jacobian in std::mem::take(&mut self.jacobians) {
            self.largest.push(largest(&jacobian));
            let image = times(&jacobian, &carried);
            let length = norm(&image);
            self.along.push(length);
            carried = image.into_iter().map(|x| x / length.max(f64::MIN_POSITIVE)).collect();
        }
    }
}

fn times(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|line| line.iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The largest singular value, by powers of the matrix times its transpose.
fn largest(matrix: &[Vec<f64>]) -> f64 {
    let size = matrix.len();
    // No direction of ours is likely to be at right angles to it.
    let mut direction: Vec<f64> = (0..size).map(|i| 1.0 + (i as f64 * 0.7).sin() / 2.0).collect();
    let mut found = 0.0;
    for _ in 0..200 {
        let length = norm(&direction);
        if length <= f64::MIN_POSITIVE {
            return 0.0;
        }
        direction.iter_mut().for_each(|x| *x /= length);
        let image = times(matrix, &direction);
        let before = std::mem::replace(&mut found, norm(&image));
        direction = (0..size).map(|i| matrix.iter().zip(&image).map(|(line, x)| line[i] * x).sum()).collect();
        if (found - before).abs() <= 1e-9 * found {
            break;
        }
    }
    found
}

/// Diagnosed values that are arrays of the equation which `q` reads at `t`, with the names by which they are given.
fn state_of(model: &Model) -> Vec<(String, String)> {
    let read = |d: &Diagnosis| match &model.node(d.value).op {
        Op::Read { family, leaf, index } => match &index[..] {
            [index] if index.offset == 0 && d.vars.len() == 1 && index.terms == [(d.vars[0], 1)] => Some((*family, *leaf)),
            _ => None,
        },
        _ => None,
    };
    let Some((state, _)) = model.diagnose.iter().find(|d| d.name == "q").and_then(read) else { return Vec::new() };
    let family = model.evaluate.family(state);
    let given = |leaf: usize| match family.leaves[leaf].path.as_str() {
        "" => family.name.clone(),
        path => format!("{}.{path}", family.name),
    };
    let of_state = |d: &Diagnosis| read(d).filter(|(f, _)| *f == state).map(|(_, leaf)| (d.name.clone(), given(leaf)));
    model.diagnose.iter().filter_map(of_state).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_singular_value_is_found() {
        // A turn, stretched by 3 along one axis.
        let (s, c) = 0.4f64.sin_cos();
        assert!((largest(&[vec![3.0 * c, -s], vec![3.0 * s, c]]) - 3.0).abs() < 1e-9);
        assert_eq!(largest(&[vec![0.0; 2], vec![0.0; 2]]), 0.0);
        let mut expansion = Expansion { jacobians: vec![vec![vec![2.0, 0.0], vec![0.0, 0.5]]; 30], ..Expansion::default() };
        expansion.finish(5);
        assert_eq!((expansion.from, expansion.largest.len()), (5, 30));
        assert!((expansion.along[29] - 2.0).abs() < 1e-9 && expansion.along[0] < 2.0, "{expansion:?}");
    }
}
