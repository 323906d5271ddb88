//! Values at states that are put in place by hand: the evaluation's program with the state as an input.
//!
//! So a function can be drawn over two coordinates, and the step from one state to the next can be differentiated by differences.

use compiler::ir::Role;
use dsl::hir::Model;

use super::{Diagnostics, Episodes, put, read, segment, series};
use crate::Error;
use crate::context::Context;
use crate::program::Program;

/// An array of the state.
#[derive(Debug)]
struct Part {
    name: String,
    /// None where the program does not read it.
    input: Option<usize>,
    /// Samples, steps, numbers.
    shape: [usize; 3],
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

/// What numbers a series has at some states.
type Values = Vec<Vec<f64>>;

impl Diagnostics {
    /// The series that make up the state which some of them are a part of: arrays of the same equations, with their sizes.
    pub fn state(&self, of: &[String]) -> Result<Vec<(String, usize)>, Error> {
        let model = &self.config.model;
        let mut families = Vec::new();
        for name in of {
            families.push(plain(model, name)?.0);
        }
        let parts = model.diagnose.iter().filter(|d| read(model, d).is_some_and(|(family, _)| families.contains(&family)));
        parts
            .map(|d| {
                let sizes: Option<Vec<usize>> =
                    model.node(d.value).axes.iter().map(|a| model.axis(*a).size.value().map(|n| n as usize)).collect();
                let sizes = sizes.ok_or_else(|| Error::Unsupported(format!("the size of `{}` is not known", d.name)))?;
                Ok((d.name.clone(), sizes.into_iter().product()))
            })
            .collect()
    }

    /// Series at states that are put in place by hand, each the numbers of the parts one after the other: for each of the
    /// names what it is at each state.
    pub fn at(&mut self, parts: &[String], states: &[Vec<f32>], names: &[String]) -> Result<Vec<Values>, Error> {
        let model = self.model(names, 0);
        let mut program = self.program(&model, &given(&self.config.model, parts)?)?;
        let placed = self.parts(&program, parts)?;
        let told =
            |what: String| Error::Unsupported(format!("{} cannot be drawn over {}: {what}", names.join(", "), parts.join(", ")));
        let read = program.read();
        for (input, name) in [Role::Data, Role::Carry, Role::Draw].iter().flat_map(|role| program.with_role(*role)) {
            if read[input] && placed.iter().all(|part| part.input != Some(input)) {
                let name = name.split_once('.').map_or(name, |(_, name)| name);
                let help =
                    format!("it also depends on `{name}`; where that is an array of the same equation, name it as a series");
                return Err(told(help));
            }
        }
        let mut outputs = Vec::new();
        for name in names {
            let found = program.graph.output(&format!("diagnose.{name}")).map(|output| (output, program.output_shape(output)));
            let Some((output, [batch, steps, rest @ ..])) = found.as_ref().map(|(o, shape)| (*o, &shape[..])) else {
                return Err(told(format!("`{name}` is the same everywhere")));
            };
            outputs.push((output, *batch, *steps, rest.iter().product::<usize>()));
        }
        let Some([batch, all, _]) = placed.iter().find(|p| p.input.is_some()).map(|p| p.shape) else {
            return Err(told("it does not depend on them".into()));
        };
        if outputs.iter().any(|(_, samples, ..)| *samples != batch) {
            return Err(told("it is the same everywhere".into()));
        }
        // A value has at most as many steps as the state.
        let steps = outputs.iter().map(|(_, _, steps, _)| *steps).min().unwrap_or(1).min(all);
        let mut found = vec![Vec::with_capacity(states.len()); names.len()];
        for chunk in states.chunks(batch * steps) {
            for (place, state) in chunk.iter().enumerate() {
                let (row, step) = (place / steps, place % steps);
                let mut from = 0;
                for part in &placed {
                    let [_, all, width] = part.shape;
                    if let Some(input) = part.input {
                        let numbers = &mut program.executable.input_mut(input)?[(row * all + step) * width..][..width];
                        numbers.copy_from_slice(&state[from..from + width]);
                    }
                    from += width;
                }
            }
            program.executable.run(0, 0)?;
            for ((output, _, all, width), found) in outputs.iter().zip(&mut found) {
                let numbers = program.output(*output)?;
                found.extend((0..chunk.len()).map(|place| {
                    let at = (place / steps * all + place % steps) * width;
                    numbers[at..at + width].iter().map(|x| f64::from(*x)).collect::<Vec<f64>>()
                }));
            }
        }
        Ok(found)
    }

    /// The inputs of a program that are arrays of the state.
    fn parts(&self, program: &Program, names: &[String]) -> Result<Vec<Part>, Error> {
        let model = &self.config.model;
        let widths = self.state(names)?;
        names
            .iter()
            .map(|name| {
                let width = widths.iter().find(|(part, _)| part == name).map_or(0, |(_, width)| *width);
                let (family, leaf) = plain(model, name)?;
                let input = program.graph.input(&format!("value.{}", leaf_name(model, family, leaf)));
                let shape = match input.map(|input| program.shape(input)).as_deref() {
                    Some([batch, steps, rest @ ..]) => [*batch, *steps, rest.iter().product()],
                    Some(_) => return Err(Error::Unsupported(format!("`{name}` of `diagnose` has no value at each step"))),
                    None => [0, 0, width],
                };
                Ok(Part { name: name.clone(), input, shape })
            })
            .collect()
    }

    /// How far the model's step pulls states apart, at each decision of the first episode.
    pub fn expansion(&mut self, state: &[String], next: &[String], episodes: &Episodes) -> Result<Expansion, Error> {
        let model = self.model(&[state, next].concat(), episodes.longest());
        let mut base = self.program(&model, &[])?;
        let mut placed = self.program(&model, &given(&self.config.model, state)?)?;
        let mut context = Context::new(&model, &self.learnt, self.config.compute)?;
        let parts = self.parts(&placed, state)?;
        let (batch, time) = segment(&base);
        let mut measured = Expansion::default();
        let (start, rows) = episodes.spans.first().copied().unwrap_or((0, 0));
        let last = rows.checked_sub(time).ok_or(Error::NoSegment { time, rows })?;
        let starts: Vec<u64> = (0..=last as u64).map(|at| start + at).collect();
        for (number, chunk) in starts.chunks(batch).enumerate() {
            let padded: Vec<u64> = (0..batch).map(|i| chunk[i.min(chunk.len() - 1)]).collect();
            for program in [&mut base, &mut placed] {
                let rows = |steps: usize| padded.iter().flat_map(|start| (0..steps as u64).map(move |t| start + t)).collect();
                put(program, &episodes.seen, rows)?;
                if let Some(context) = &mut context {
                    context.put(&episodes.seen, &padded, (self.config.seed, number as u64, self.progress), program)?;
                }
            }
            base.executable.run(self.config.seed, number as u64)?;
            let mut states = Vec::new();
            for name in state {
                let output = base.graph.output(&format!("diagnose.{name}"));
                states.push(base.output(output.ok_or_else(|| Error::Kernels(format!("`{name}` is not computed")))?)?);
            }
            let mut stretch = Stretch { program: &mut placed, parts: &parts, next };
            stretch.measure(&states, chunk.len(), time - 2, &mut measured)?;
        }
        // The first segment ends at this decision.
        measured.finish(time - 2);
        Ok(measured)
    }
}

/// The equation and the array of it that a series is a plain read of.
fn plain(model: &Model, name: &str) -> Result<(dsl::hir::FamilyId, usize), Error> {
    read(model, series(model, name)?)
        .ok_or_else(|| Error::Unsupported(format!("the series `{name}` is no equation's own value, and cannot be put in place")))
}

fn leaf_name(model: &Model, family: dsl::hir::FamilyId, leaf: usize) -> String {
    let family = model.evaluate.family(family);
    match family.leaves[leaf].path.as_str() {
        "" => family.name.clone(),
        path => format!("{}.{path}", family.name),
    }
}

/// All arrays of the equations that some series are read from.
fn given(model: &Model, parts: &[String]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for part in parts {
        let (family, _) = plain(model, part)?;
        names.extend((0..model.evaluate.family(family).leaves.len()).map(|leaf| leaf_name(model, family, leaf)));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Derivatives of a step by differences.
struct Stretch<'a> {
    program: &'a mut Program,
    parts: &'a [Part],
    next: &'a [String],
}

impl Stretch<'_> {
    /// The derivatives of the step at `time` of the first `rows` segments, whose states are given.
    fn measure(&mut self, states: &[Vec<f32>], rows: usize, time: usize, into: &mut Expansion) -> Result<(), Error> {
        for (part, numbers) in self.parts.iter().zip(states) {
            let Some(input) = part.input else { continue };
            let place = self.program.executable.input_mut(input)?;
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
                    let next = self.next(time, rows)?;
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
        let Part { input: Some(input), shape: [batch, steps, width], .. } = self.parts[part] else { return Ok(()) };
        let numbers = self.program.executable.input_mut(input)?;
        for at in (0..batch).map(|row| (row * steps + time) * width + entry) {
            numbers[at] = was[at] + by as f32;
        }
        Ok(())
    }

    /// The next state of the first segments.
    fn next(&mut self, time: usize, rows: usize) -> Result<Vec<Vec<f32>>, Error> {
        let mut all = vec![Vec::new(); rows];
        for name in self.next {
            let output = self.program.graph.output(&format!("diagnose.{name}"));
            let output = output.ok_or_else(|| Error::Kernels(format!("`{name}` is not computed")))?;
            let shape = self.program.output_shape(output);
            let (steps, width) = (shape[1], shape[2..].iter().product::<usize>());
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
