//! Context: segments that start with the memory of the steps before them.
//!
//! The program `context` takes one step of the past. It is run over the steps before each segment, as many as the source says
//! or as there are, and what it remembers in the end is where the segment's own program starts.

use compiler::ir::Role;
use compiler::lower::{Entry, LowerError};
use dsl::hir::{Model, Source};

use crate::Error;
use crate::experience::Experience;
use crate::learner::Learner;
use crate::program::{Compute, Program, Schedules, State};

const READ: [Role; 3] = [Role::Param, Role::Slow, Role::Running];

#[derive(Debug)]
pub(crate) struct Context {
    program: Program,
    schedules: Schedules,
    /// Steps before a segment.
    steps: usize,
    begins: usize,
    /// Inputs of the data with their names.
    data: Vec<(usize, String)>,
}

impl Context {
    /// None where segments start anew.
    pub(crate) fn new(model: &Model, state: &State, compute: Compute) -> Result<Option<Context>, Error> {
        let Source::Replay { context, .. } = &model.source else { return Ok(None) };
        let mut program = match Program::new(model, Entry::Context, None, compute) {
            Ok(program) => program,
            Err(Error::Lower(LowerError::NoEntry { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
        program.load(state, &READ)?;
        program.executable.prepare()?;
        let begins = program.graph.input("begins").ok_or_else(|| Error::Kernels("a context does not begin".into()))?;
        let data = program.with_role(Role::Data).filter(|(n, _)| *n != begins).map(|(n, name)| (n, name.to_string())).collect();
        Ok(Some(Context { program, schedules: Schedules::new(model)?, steps: *context as usize, begins, data }))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.program.executable.bytes()
    }

    /// Copies the parameters of the learner.
    pub(crate) fn follow(&mut self, learner: &mut Learner) -> Result<(), Error> {
        learner.give(&mut self.program, &READ)?;
        Ok(self.program.executable.prepare()?)
    }

    /// Gives a program the past of its segments. `number` tells draws of one call from those of others.
    pub(crate) fn put(
        &mut self,
        experience: &Experience,
        starts: &[u64],
        (seed, number, progress): (u64, u64, f64),
        to: &mut Program,
    ) -> Result<(), Error> {
        self.program.set_progress(&self.schedules, progress)?;
        let pasts: Vec<usize> = starts.iter().map(|start| experience.past(*start, self.steps)).collect();
        // Before the first step everything begins that has a whole past; the data of steps that are not there is anything.
        let longest = pasts.iter().copied().max().unwrap_or(0);
        for step in self.steps - longest..=self.steps {
            let left = self.steps - step;
            let rows: Vec<u64> = starts
                .iter()
                .zip(&pasts)
                .map(|(start, past)| if left < *past { start - left as u64 - 1 } else { *start })
                .collect();
            for (input, name) in &self.data {
                let field = experience.layout().field(name).ok_or_else(|| Error::Field { field: name.clone() })?;
                experience.read(&rows, field, 1, self.program.executable.input_mut(*input)?);
            }
            let begins = self.program.executable.input_mut(self.begins)?;
            begins.iter_mut().zip(&pasts).for_each(|(flag, past)| *flag = f32::from(u8::from(*past == left)));
            self.program.executable.run(seed, number * (self.steps as u64 + 1) + step as u64)?;
            self.program.executable.advance()?;
        }
        let carries: Vec<(usize, usize)> =
            to.with_role(Role::Carry).filter_map(|(n, name)| Some((n, self.program.graph.input(name)?))).collect();
        Ok(to.executable.take(self.program.executable.as_mut(), &carries)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experience::Layout;
    use crate::program::initial;

    /// Two recurrences: a memory, and one that says itself where it starts and reads the action before.
    fn model(context: u32, time: u32) -> Model {
        let starter = include_str!("../../src/starter.wm");
        let text = starter
            .replace("source replay(", &format!("source replay(context = {context}, "))
            .replace(
                "  m[t]    =",
                "  x[t] = 0.5 * x[t-1] + mean(obs[t]) + mean(a[t-1]) with x[-1] = 3, a[-1] = zeros([A])\n  m[t]    =",
            )
            .replace("evaluate { T = 16 }", &format!("evaluate {{ T = {time} }}\n  diagnose {{ m = m[t].out, x = x[t] }}"));
        let dims = [("S", 4), ("H", 3), ("B", 4), ("T", 4)].map(|(n, s)| (n.to_string(), s)).to_vec();
        let options = dsl::Options { dims, task: Some("pendulum_swingup".into()), ..dsl::Options::default() };
        let mut checked = dsl::check("starter.wm", &text, &dsl::NoLoader, &options);
        assert!(!checked.has_errors(), "{:?}", checked.diagnostics);
        checked.models.remove(0)
    }

    /// Episodes of 12 and 9 observations.
    fn experience(model: &Model, time: usize) -> Experience {
        let mut experience = Experience::new(Layout::of(model).unwrap(), 100, time, false);
        for (length, from) in [(12, 0.0), (9, 5.0)] {
            for t in 0..length {
                let x = from + f64::from(t);
                experience.observe(&[x.sin(), x.cos(), 0.1 * x], t == 0);
                if t + 1 < length {
                    experience.follow(&[(0.7 * x).sin() as f32], &crate::tasks::Transition::new(0.0, false, false));
                }
            }
        }
        experience
    }

    /// The diagnosed values of segments, at each step.
    fn values(context: u32, time: u32, starts: &[u64]) -> Vec<Vec<Vec<f32>>> {
        let model = model(context, time);
        let state = initial(&model, 5).unwrap();
        let experience = experience(&model, time as usize);
        let mut program = Program::new(&model, Entry::Evaluate, None, Compute::default()).unwrap();
        program.load(&state, &READ).unwrap();
        program.begin(&state).unwrap();
        program.executable.prepare().unwrap();
        let data: Vec<(usize, String)> = program.with_role(Role::Data).map(|(n, name)| (n, name.to_string())).collect();
        for (input, name) in data {
            let steps = program.shape(input)[1];
            let field = experience.layout().field(&name).unwrap();
            experience.read(starts, field, steps, program.executable.input_mut(input).unwrap());
        }
        if let Some(mut context) = Context::new(&model, &state, Compute::default()).unwrap() {
            context.put(&experience, starts, (5, 0, 0.0), &mut program).unwrap();
        }
        program.executable.run(5, 0).unwrap();
        let named = program.with_prefix("diagnose.");
        assert_eq!(named.len(), 2);
        let mut all = Vec::new();
        for (_, output) in named {
            let shape = program.output_shape(output);
            let width = shape[2..].iter().product::<usize>().max(1);
            let numbers = program.output(output).unwrap();
            all.push(numbers.chunks(width * shape[1]).map(<[f32]>::to_vec).collect());
        }
        all
    }

    #[test]
    fn a_segment_with_a_past_is_the_end_of_a_longer_one() {
        // The second starts with an episode; of the others one has less of a past than is asked for.
        let starts = [4, 12, 14, 7];
        let with_past = values(4, 4, &starts);
        for (row, (start, past)) in [(4, 4), (12, 0), (14, 2), (7, 4)].into_iter().enumerate() {
            let long = values(0, 4 + past, &[start - u64::from(past); 4]);
            for (name, (short, long)) in with_past.iter().zip(&long).enumerate() {
                let (short, long) = (&short[row], &long[0]);
                let end = &long[long.len() - short.len()..];
                assert!(short.iter().zip(end).all(|(a, b)| (a - b).abs() < 1e-5), "{name} of {start}: {short:?} {end:?}");
            }
        }
        // Without it they differ.
        let anew = values(0, 4, &starts);
        assert!(anew.iter().zip(&with_past).all(|(a, b)| a[1] == b[1] && a[0] != b[0] && a[3] != b[3]));
    }
}
