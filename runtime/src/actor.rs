//! The acting side of an agent: observations in, actions out, and the state between them.

use compiler::ir::{Op, Role, ValueId};
use compiler::lower::{Entry, FIRST};
use dsl::hir::Model;

use crate::Error;
use crate::experience::{Layout, Meaning};
use crate::learner::Learner;
use crate::program::{Compute, Program, Schedules, State};
use crate::tasks::Transition;

/// What acting reads of an agent's state.
const READ: [Role; 3] = [Role::Param, Role::Slow, Role::Running];

#[derive(Debug)]
pub struct Actor {
    program: Program,
    schedules: Schedules,
    layout: Layout,
    carries: Vec<Carry>,
    /// Carries that are what followed from the step before: `r[t-1]`.
    followed: Vec<(usize, Meaning)>,
    action: usize,
    /// The last actions of all environments.
    decided: Vec<f32>,
    observation: Option<usize>,
    first: Option<usize>,
}

/// Something remembered, for each environment.
#[derive(Debug)]
struct Carry {
    input: usize,
    start: Vec<f32>,
}

impl Actor {
    /// Acts as in training (with exploration) or as in evaluation, in `batch` environments at once.
    pub fn new(model: &Model, training: bool, batch: usize, state: &State, compute: Compute) -> Result<Actor, Error> {
        let entry = if training { Entry::Act } else { Entry::Plan };
        Actor::of(Program::new(model, entry, Some(batch), compute)?, model, batch, state)
    }

    /// Acts by an entry point that is ready to run.
    pub(crate) fn of(mut program: Program, model: &Model, batch: usize, state: &State) -> Result<Actor, Error> {
        let layout = Layout::of(model)?;
        let followed = followed(&program, &layout)?;
        let mut carries = Vec::new();
        for (input, name) in program.with_role(Role::Carry) {
            if !program.graph.outputs.iter().any(|o| o.updates == Some(input)) {
                return Err(Error::Unsupported(format!("acting reads `{name}` and never changes it")));
            }
            let len = program.shape(input).iter().product::<usize>() / batch;
            let start = state.get(name).map_or_else(|| vec![0.0; len], |t| t.data.clone());
            fits(name, batch, start.len(), program.shape(input))?;
            carries.push(Carry { input, start });
        }
        let data = |meaning| layout.fields.iter().find(|f| f.meaning == meaning).and_then(|f| program.graph.input(&f.input));
        let (observation, first) = (data(Meaning::Observation), program.graph.input(FIRST));
        let action = program.graph.output("action").ok_or_else(|| Error::Kernels("acting gives no action".into()))?;
        for (input, width) in [(observation, layout.observation), (first, 1)] {
            let Some(input) = input else { continue };
            fits(&program.graph.inputs[input].name, batch, width, program.shape(input))?;
        }
        for (input, _) in &followed {
            fits(&program.graph.inputs[*input].name, batch, 1, program.shape(*input))?;
        }
        fits("action", batch, layout.action, program.output_shape(action))?;
        program.load(state, &READ)?;
        program.executable.prepare()?;
        let schedules = Schedules::new(model)?;
        let decided = Vec::new();
        let mut actor = Actor { program, schedules, layout, carries, followed, action, decided, observation, first };
        (0..batch).try_for_each(|row| actor.begin(row))?;
        actor.progress(0.0)?;
        Ok(actor)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn bytes(&self) -> usize {
        self.program.executable.bytes()
    }

    /// How far the training has come: what schedules depend on.
    pub fn progress(&mut self, progress: f64) -> Result<(), Error> {
        self.program.set_progress(&self.schedules, progress)
    }

    /// Copies the parameters of the learner.
    pub fn follow(&mut self, learner: &mut Learner) -> Result<(), Error> {
        learner.give(&mut self.program, &READ)?;
        Ok(self.program.executable.prepare()?)
    }

    /// Forgets what an environment's episode left.
    pub fn begin(&mut self, row: usize) -> Result<(), Error> {
        for carry in &self.carries {
            let len = carry.start.len();
            self.program.executable.input_mut(carry.input)?[row * len..(row + 1) * len].copy_from_slice(&carry.start);
        }
        Ok(())
    }

    /// Shows an environment's observation.
    pub fn show(&mut self, row: usize, observation: &[f64], first: bool) -> Result<(), Error> {
        let wanted = self.layout.observation;
        if observation.len() != wanted {
            return Err(Error::Observation { found: observation.len(), wanted });
        }
        if let Some(i) = observation.iter().position(|x| !(*x as f32).is_finite()) {
            return Err(Error::ObservationNotFinite(i));
        }
        if let Some(input) = self.observation {
            let numbers = &mut self.program.executable.input_mut(input)?[row * wanted..(row + 1) * wanted];
            numbers.iter_mut().zip(observation).for_each(|(to, from)| *to = *from as f32);
        }
        if let Some(input) = self.first {
            let told = f32::from(u8::from(first));
            if self.program.executable.input(input)?[row] != told {
                self.program.executable.input_mut(input)?[row] = told;
            }
        }
        Ok(())
    }

    /// Decides for all environments; afterwards the past of each is one step longer.
    pub fn decide(&mut self, seed: u64, step: u64) -> Result<(), Error> {
        self.program.executable.run(seed, step)?;
        self.decided = self.program.output(self.action)?;
        // A decision that failed leaves the past as it was.
        match self.decided.iter().position(|x| !x.is_finite()) {
            None => Ok(self.program.executable.advance()?),
            Some(i) => {
                let value = f64::from(self.decided[i]);
                let place = "while acting; the parameters may have grown too large".to_string();
                Err(Error::NotFinite { what: format!("entry {i} of the action"), value, update: step, place, span: None })
            }
        }
    }

    /// Whether decisions depend on what followed from the one before, which [`Actor::outcome`] tells.
    pub fn reads_outcomes(&self) -> bool {
        !self.followed.is_empty()
    }

    /// What followed from an environment's last decision.
    pub fn outcome(&mut self, row: usize, outcome: &Transition) -> Result<(), Error> {
        for (input, meaning) in &self.followed {
            self.program.executable.input_mut(*input)?[row] = meaning.of(outcome);
        }
        Ok(())
    }

    /// The last action of an environment.
    pub fn action(&self, row: usize) -> &[f32] {
        let len = self.layout.action;
        &self.decided[row * len..(row + 1) * len]
    }

    /// The acting state, by name.
    pub fn memory(&mut self) -> Result<State, Error> {
        let named: Vec<(usize, String)> = self.program.with_role(Role::Carry).map(|(n, name)| (n, name.to_string())).collect();
        named.into_iter().map(|(input, name)| Ok((name, self.program.tensor(input)?))).collect()
    }

    pub fn restore(&mut self, memory: &State) -> Result<(), Error> {
        self.program.load(memory, &[Role::Carry])
    }
}

/// Whether an array of an entry point has so many numbers for each environment. One that was compiled elsewhere may not.
fn fits(name: &str, batch: usize, width: usize, shape: Vec<usize>) -> Result<(), Error> {
    let len = shape.iter().product::<usize>();
    match batch.checked_mul(width) {
        Some(wanted) if wanted == len => Ok(()),
        _ => Err(Error::Unsupported(format!("`{name}` has {len} numbers where {batch} environments with {width} each act"))),
    }
}

/// Carries that remember what followed from a decision as it is. While the decision is made that is not known; it is put in its place afterwards.
fn followed(program: &Program, layout: &Layout) -> Result<Vec<(usize, Meaning)>, Error> {
    let graph = &program.graph.graph;
    let mut found = Vec::new();
    for (input, name) in program.with_role(Role::Data) {
        let meaning = match layout.field(name).map(|f| f.meaning) {
            Some(meaning @ (Meaning::Reward | Meaning::Discount | Meaning::Terminal | Meaning::Action)) => meaning,
            Some(Meaning::Observation | Meaning::First) | None => continue,
        };
        let is_it = |id: ValueId| graph.node(id).op == Op::Input(input as u32);
        let mut used = false;
        for node in &graph.nodes {
            node.op.operands(|operand| used |= is_it(operand));
        }
        if used || meaning == Meaning::Action {
            let told = format!("acting computes with `{name}` of the present step, which is not known yet: read it at t-1");
            return Err(Error::Unsupported(told));
        }
        let results = graph.results.iter().zip(&program.graph.outputs);
        found.extend(results.filter(|(id, _)| is_it(**id)).filter_map(|(_, o)| Some((o.updates?, meaning))));
    }
    Ok(found)
}

/// Actions of the model's range as the task's, which is -1..1.
pub fn to_task(model: &Model, action: &[f32]) -> Vec<f64> {
    let (low, high) = (model.action.low, model.action.high);
    action
        .iter()
        .map(|a| if (low, high) == (-1.0, 1.0) { f64::from(*a) } else { 2.0 * (f64::from(*a) - low) / (high - low) - 1.0 })
        .collect()
}
