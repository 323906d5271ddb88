//! The kernel program's own interpreter: slow, safe, a number at a time. A fuser's mistake shows here, a backend's does not.
//!
//! - It runs what the [verifier](super::verify) lets pass, `prepare` and then the steps, in the precision it is asked for.
//! - Sums are taken in double precision, in the order of the indices.
//! - It knows which numbers have been written: reading another one is an error, and so is reading a local whose place
//!   another local has taken since. Rows past the last are NaN wherever a statement does not say otherwise, and a statement
//!   that writes whole lane vectors spoils what lies there.

mod kernels;
#[cfg(test)]
mod tests;
mod tile;

use std::collections::BTreeMap;

use thiserror::Error;

use super::verify::{VerifyError, verify};
use super::{BufferId, BufferKind, Kernel, LoopId, Program, Step, View, Work};
use crate::interp::{Clock, Real};

#[derive(Debug, Clone, PartialEq, Error)]
pub enum RunError {
    #[error(transparent)]
    Invalid(#[from] VerifyError),
    #[error("there are {found} inputs, but {expected} are needed")]
    Inputs { expected: usize, found: usize },
    #[error("`{name}` has {found} numbers, but {expected} are needed")]
    Length { name: String, expected: usize, found: usize },
    #[error("`{program}` has no random draw `{name}`")]
    UnknownDraw { program: String, name: String },
    #[error("kernel `{kernel}`: {message}")]
    Kernel { kernel: String, message: String },
    #[error("the number at place {place} of output {output} is not written")]
    Output { output: usize, place: usize },
}

/// Runs a program on the inputs' numbers and gives the outputs'. Random numbers come from the clock, or from `draws` by the
/// draw's name.
pub fn run<T: Real>(
    program: &Program,
    inputs: &[Vec<T>],
    draws: &BTreeMap<String, Vec<T>>,
    clock: Clock,
) -> Result<Vec<Vec<T>>, RunError> {
    verify(program)?;
    if let Some(name) = draws.keys().find(|name| !program.draws.contains(name)) {
        return Err(RunError::UnknownDraw { program: program.name.clone(), name: name.clone() });
    }
    let buffers = given(program, inputs)?;
    let mut machine = Machine { program, draws, clock, buffers, rounds: BTreeMap::new() };
    machine.steps(&program.prepare)?;
    machine.forget_temporaries();
    machine.steps(&program.steps)?;
    let outputs = program.outputs.iter().enumerate().map(|(output, id)| {
        let Numbers { data, known } = &machine.buffers[id.0 as usize];
        match known.iter().position(|known| !known) {
            None => Ok(data.clone()),
            Some(place) => Err(RunError::Output { output, place }),
        }
    });
    outputs.collect()
}

/// Buffers as a run finds them.
fn given<T: Real>(program: &Program, inputs: &[Vec<T>]) -> Result<Vec<Numbers<T>>, RunError> {
    let (expected, found) = (program.inputs.len(), inputs.len());
    if expected != found {
        return Err(RunError::Inputs { expected, found });
    }
    let mut buffers: Vec<Numbers<T>> = Vec::new();
    for buffer in &program.buffers {
        buffers.push(match &buffer.kind {
            BufferKind::Const(data) => Numbers::known(data.iter().map(|x| T::from_f64(f64::from(*x))).collect()),
            BufferKind::Input | BufferKind::Output | BufferKind::Temp | BufferKind::Kept => Numbers::unknown(buffer.len),
        });
    }
    for (id, data) in program.inputs.iter().zip(inputs) {
        let buffer = &program.buffers[id.0 as usize];
        let (name, expected, found) = (buffer.name.clone(), buffer.len, data.len());
        if expected != found {
            return Err(RunError::Length { name, expected, found });
        }
        buffers[id.0 as usize] = Numbers::known(data.clone());
    }
    Ok(buffers)
}

/// Numbers, and which of them have been written.
struct Numbers<T> {
    data: Vec<T>,
    known: Vec<bool>,
}

impl<T: Real> Numbers<T> {
    fn known(data: Vec<T>) -> Numbers<T> {
        let known = vec![true; data.len()];
        Numbers { data, known }
    }

    fn unknown(len: usize) -> Numbers<T> {
        Numbers { data: vec![T::from_f64(f64::NAN); len], known: vec![false; len] }
    }
}

/// What went wrong in a kernel.
type Ran<T> = Result<T, String>;

struct Machine<'a, T> {
    program: &'a Program,
    draws: &'a BTreeMap<String, Vec<T>>,
    clock: Clock,
    buffers: Vec<Numbers<T>>,
    /// The step at which each loop around is.
    rounds: BTreeMap<LoopId, usize>,
}

impl<T: Real> Machine<'_, T> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), RunError> {
        for step in steps {
            match step {
                Step::Launch(kernels) => kernels.iter().try_for_each(|kernel| self.kernel(kernel))?,
                Step::Loop { id, count, reverse, body } => {
                    for round in rounds(*count, *reverse) {
                        self.rounds.insert(*id, round);
                        self.steps(body)?;
                    }
                    self.rounds.remove(id);
                }
                Step::Swap(a, b) => self.buffers.swap(a.0 as usize, b.0 as usize),
            }
        }
        Ok(())
    }

    fn kernel(&mut self, kernel: &Kernel) -> Result<(), RunError> {
        let ran = match &kernel.work {
            Work::Tile(tile) => self.tile(tile),
            Work::Contract(contract) => self.contract(contract),
            Work::Pack(pack) => self.pack(pack),
            Work::Random(random) => self.random(random),
        };
        ran.map_err(|message| RunError::Kernel { kernel: kernel.name.clone(), message })
    }

    fn forget_temporaries(&mut self) {
        for (numbers, buffer) in self.buffers.iter_mut().zip(&self.program.buffers) {
            if matches!(buffer.kind, BufferKind::Temp | BufferKind::Output) {
                *numbers = Numbers::unknown(buffer.len);
            }
        }
    }

    /// Where an entry of a view is, at the step where the loops are.
    fn place(&self, view: &View, index: &[usize]) -> usize {
        let dims: usize = view.strides.iter().zip(index).map(|(stride, i)| stride * i).sum();
        let loops: usize = view.loops.iter().map(|(id, stride)| stride * self.rounds[id]).sum();
        view.offset + dims + loops
    }

    fn number(&self, id: BufferId, place: usize) -> Ran<T> {
        let Numbers { data, known } = &self.buffers[id.0 as usize];
        match known.get(place) {
            Some(true) => Ok(data[place]),
            _ => Err(format!("it reads the number at {place} of %{}, which has not been written", id.0)),
        }
    }

    fn set_number(&mut self, id: BufferId, place: usize, x: T) {
        let numbers = &mut self.buffers[id.0 as usize];
        numbers.data[place] = x;
        numbers.known[place] = true;
    }
}

/// The steps of a loop, in the order in which they run.
fn rounds(count: usize, reverse: bool) -> impl Iterator<Item = usize> {
    (0..count).map(move |round| if reverse { count - 1 - round } else { round })
}
