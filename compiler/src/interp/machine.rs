//! Running a graph: node after node, scans step by step.

use std::collections::{BTreeMap, HashMap};

use dsl::source::Span;

use super::axes::{Axes, except, same_set};
use super::eval::Eval;
use super::value::{Fault, Value, first_not_finite};
use super::{Array, Clock, Ran, Real, RunError, RunOptions};
use crate::ir::{AxisId, Direction, Graph, Noise, Op, Program, Scan, ValueId};
use crate::random::Stream;

type Watch<'w, T> = &'w mut dyn FnMut(&Ran<'_, T>);

pub(super) fn run<T: Real>(
    program: &Program,
    inputs: &[Array<T>],
    draws: &BTreeMap<String, Array<T>>,
    clock: Clock,
    options: RunOptions,
    watch: Option<Watch<'_, T>>,
) -> Result<Vec<Array<T>>, RunError> {
    let sizes = Axes(&program.axes);
    check_inputs(program, inputs, options)?;
    let given = given_draws(program, draws, options)?;
    let mut machine = Machine { program, sizes, inputs, given, clock, options, watch };
    let results = machine.graph(&program.graph, &Plan::new(&program.graph), &[], &[])?;
    if let Some((place, fault)) = results.iter().enumerate().find_map(|(i, v)| Some((i, v.fault?))) {
        let output = program.outputs.get(place).map_or_else(|| format!("result {place}"), |o| o.name.clone());
        return Err(fault.reaching(output));
    }
    Ok(results.into_iter().map(Value::into_array).collect())
}

fn check_inputs<T: Real>(program: &Program, inputs: &[Array<T>], options: RunOptions) -> Result<(), RunError> {
    let sizes = Axes(&program.axes);
    if let Some(missing) = program.inputs.get(inputs.len()) {
        return Err(RunError::MissingInput { program: program.name.clone(), name: missing.name.clone() });
    }
    let (expected, found) = (program.inputs.len(), inputs.len());
    if found > expected {
        return Err(RunError::TooManyInputs { program: program.name.clone(), expected, found });
    }
    for (input, array) in program.inputs.iter().zip(inputs) {
        let name = &input.name;
        if input.axes != array.axes {
            let (expected, found) = (sizes.describe(&input.axes), sizes.describe(&array.axes));
            return Err(RunError::Axes { name: name.clone(), expected, found });
        }
        array.check_length(sizes, name)?;
        if options.check {
            array.check_finite(name)?;
        }
    }
    Ok(())
}

/// The draws given from outside, by their number.
fn given_draws<T: Real>(
    program: &Program,
    draws: &BTreeMap<String, Array<T>>,
    options: RunOptions,
) -> Result<HashMap<u32, Value<T>>, RunError> {
    let sizes = Axes(&program.axes);
    let mut given = HashMap::new();
    for (name, array) in draws {
        let Some(number) = program.draws.iter().position(|d| d == name) else {
            let known = match program.draws.len() {
                0 => String::new(),
                _ => format!(": it has `{}`", program.draws.join("`, `")),
            };
            return Err(RunError::UnknownDraw { program: program.name.clone(), name: name.clone(), known });
        };
        if let Some(unknown) = array.axes.iter().find(|a| a.0 as usize >= program.axes.len()) {
            let found = sizes.describe(&[*unknown]);
            return Err(RunError::Axes { name: name.clone(), expected: "axes of the program".to_string(), found });
        }
        array.check_length(sizes, name)?;
        if options.check {
            array.check_finite(name)?;
        }
        given.insert(number as u32, Value::new(array.axes.clone(), array.data.clone()));
    }
    Ok(given)
}

/// What is known of a graph before it runs: which nodes are needed, and until when.
#[derive(Debug)]
struct Plan {
    needed: Vec<bool>,
    /// Values that no node after this one reads.
    last_read: Vec<Vec<ValueId>>,
    bodies: HashMap<ValueId, Plan>,
}

impl Plan {
    fn new(graph: &Graph) -> Plan {
        let count = graph.nodes.len();
        let mut plan = Plan { needed: vec![false; count], last_read: vec![Vec::new(); count], bodies: HashMap::new() };
        for result in &graph.results {
            plan.needed[result.0 as usize] = true;
        }
        for id in (0..count).rev() {
            if !plan.needed[id] {
                continue;
            }
            let op = &graph.nodes[id].op;
            op.operands(|v| {
                if !plan.needed[v.0 as usize] {
                    plan.needed[v.0 as usize] = true;
                    plan.last_read[id].push(v);
                }
            });
            if let Op::Scan(scan) = op {
                plan.bodies.insert(ValueId(id as u32), Plan::new(&scan.body));
            }
        }
        plan
    }
}

/// What a node holds once it has run.
#[derive(Debug)]
enum Slot<T> {
    Empty,
    One(Value<T>),
    /// The values of a scan.
    Many(Vec<Value<T>>),
}

/// A scan that is running: its axis and the step.
#[derive(Debug, Clone, Copy)]
struct Loop {
    axis: AxisId,
    step: usize,
}

struct Machine<'p, 'w, T> {
    program: &'p Program,
    sizes: Axes<'p>,
    inputs: &'p [Array<T>],
    given: HashMap<u32, Value<T>>,
    clock: Clock,
    options: RunOptions,
    watch: Option<Watch<'w, T>>,
}

impl<T: Real> Machine<'_, '_, T> {
    fn graph(&mut self, graph: &Graph, plan: &Plan, params: &[Value<T>], loops: &[Loop]) -> Result<Vec<Value<T>>, RunError> {
        let mut slots: Vec<Slot<T>> = Vec::with_capacity(graph.nodes.len());
        for (id, node) in graph.nodes.iter().enumerate() {
            if !plan.needed[id] {
                slots.push(Slot::Empty);
                continue;
            }
            let slot = match &node.op {
                Op::Scan(scan) => {
                    let body = &plan.bodies[&ValueId(id as u32)];
                    let take = |list: &[ValueId]| list.iter().map(|v| one(&slots, *v).clone()).collect::<Vec<_>>();
                    let (init, xs, consts) = (take(&scan.init), take(&scan.xs), take(&scan.consts));
                    Slot::Many(self.scan(scan, body, init, xs, consts, loops)?)
                }
                Op::Out { scan, index } => match &slots[scan.0 as usize] {
                    Slot::Many(values) => Slot::One(values[*index as usize].arranged(self.sizes, &node.axes)),
                    Slot::One(_) | Slot::Empty => unreachable!("`out` is of a scan"),
                },
                Op::Input(number) => {
                    let array = &self.inputs[*number as usize];
                    Slot::One(Value::new(array.axes.clone(), array.data.clone()).arranged(self.sizes, &node.axes))
                }
                Op::Param(number) => Slot::One(params[*number as usize].arranged(self.sizes, &node.axes)),
                Op::Random { draw, noise } => Slot::One(self.random(*draw, *noise, &node.axes, loops, node.span)?),
                op => {
                    let value = Eval { sizes: self.sizes, node, value: |v: ValueId| one(&slots, v) }.value(op)?;
                    Slot::One(self.inspected(graph, ValueId(id as u32), value, &slots))
                }
            };
            slots.push(slot);
            for read in &plan.last_read[id] {
                slots[read.0 as usize] = Slot::Empty;
            }
        }
        Ok(graph.results.iter().map(|r| one(&slots, *r).clone()).collect())
    }

    /// Shows the value to the watcher, and looks for numbers that are not finite.
    fn inspected(&mut self, graph: &Graph, id: ValueId, mut value: Value<T>, slots: &[Slot<T>]) -> Value<T> {
        if self.watch.is_none() && !self.options.check {
            return value;
        }
        let node = graph.node(id);
        let mut operands = Vec::new();
        node.op.operands(|v| operands.push(one(slots, v)));
        if self.options.check {
            value.fault = first_not_finite(&value.data).map(|place| {
                let x = value.data[place];
                let index = match node.op {
                    Op::Gather { axis, at, .. } => {
                        let size = self.program.size(axis);
                        let mut indices = one(slots, at).data.iter().map(|i| i.to_f64());
                        indices.find(|i| super::eval::place(*i, size).is_none()).map(|i| (i, size))
                    }
                    _ => None,
                };
                let here = Fault { op: node.op.name(), value: x.to_f64(), index, span: node.span };
                operands.iter().find_map(|v| v.fault).unwrap_or(here)
            });
        }
        if let Some(watch) = &mut self.watch {
            let operands: Vec<_> = operands.iter().map(|v| v.view()).collect();
            watch(&Ran { node, operands: &operands, value: value.view() });
        }
        value
    }

    fn scan(
        &mut self,
        scan: &Scan,
        plan: &Plan,
        init: Vec<Value<T>>,
        xs: Vec<Value<T>>,
        consts: Vec<Value<T>>,
        loops: &[Loop],
    ) -> Result<Vec<Value<T>>, RunError> {
        let steps = self.sizes.size(scan.axis);
        let carries = init.len();
        // With the axis in front, a step is a run of neighbours.
        let xs: Vec<Value<T>> = xs
            .into_iter()
            .map(|x| {
                let order = [vec![scan.axis], except(&x.axes, &[scan.axis])].concat();
                x.arranged(self.sizes, &order)
            })
            .collect();
        let mut outputs: Vec<Output<T>> = scan.body.results[carries..]
            .iter()
            .map(|r| {
                let axes = scan.body.axes(*r).to_vec();
                let step = self.sizes.len(&axes);
                Output { axes, step, data: vec![T::ZERO; step * steps], fault: None }
            })
            .collect();

        let mut carry = init;
        let mut inner = loops.to_vec();
        inner.push(Loop { axis: scan.axis, step: 0 });
        for round in 0..steps {
            let step = match scan.direction {
                Direction::Forward => round,
                Direction::Backward => steps - 1 - round,
            };
            inner[loops.len()].step = step;
            let mut params = carry;
            params.extend(xs.iter().map(|x| step_of(x, step, steps)));
            params.extend(consts.iter().cloned());
            carry = self.graph(&scan.body, plan, &params, &inner)?;
            for (output, value) in outputs.iter_mut().zip(carry.drain(carries..)) {
                output.data[step * output.step..][..output.step].copy_from_slice(&value.data);
                output.fault = output.fault.or(value.fault);
            }
        }
        carry.extend(outputs.into_iter().map(|output| {
            let axes = [vec![scan.axis], output.axes].concat();
            Value { fault: output.fault, ..Value::new(axes, output.data) }
        }));
        Ok(carry)
    }

    /// Random numbers. The counter runs over the axes of the scans around, then over the draw's own.
    fn random(&mut self, draw: u32, noise: Noise, axes: &[AxisId], loops: &[Loop], span: Span) -> Result<Value<T>, RunError> {
        let program = self.program;
        let name = &program.draws[draw as usize];
        let len = self.sizes.len(axes);
        let steps_before = loops.iter().fold(0, |at, l| at * self.sizes.size(l.axis) + l.step);
        let first = steps_before * len;
        if let Some(given) = self.given.get_mut(&draw) {
            let full: Vec<AxisId> = loops.iter().map(|l| l.axis).chain(axes.iter().copied()).collect();
            if given.axes != full {
                if !same_set(&given.axes, &full) {
                    let (expected, found) = (self.sizes.describe(&full), self.sizes.describe(&given.axes));
                    return Err(RunError::Axes { name: name.clone(), expected, found });
                }
                *given = given.arranged(self.sizes, &full);
            }
            return Ok(Value::new(axes.to_vec(), given.data[first..first + len].to_vec()));
        }
        let stream = Stream::new(name, self.clock.seed, &program.name, self.clock.step);
        let counters = first as u64..(first + len) as u64;
        let data = match noise {
            Noise::Uniform => counters.map(|i| T::from_f64(stream.uniform(i))).collect(),
            Noise::Gaussian => counters.map(|i| T::from_f64(stream.gaussian(i))).collect(),
            Noise::Subset { of } => {
                let count = axes.last().map_or(1, |a| self.sizes.size(*a));
                if count > of as usize {
                    return Err(RunError::Subset { count, of, span });
                }
                let rows = counters.step_by(count.max(1));
                rows.flat_map(|at| stream.subset(at, count, of)).map(|place| T::from_f64(f64::from(place))).collect()
            }
        };
        Ok(Value::new(axes.to_vec(), data))
    }
}

/// Of a scan that is running: one step of each output so far.
struct Output<T> {
    /// Of one step.
    axes: Vec<AxisId>,
    step: usize,
    data: Vec<T>,
    fault: Option<Fault>,
}

fn one<T>(slots: &[Slot<T>], id: ValueId) -> &Value<T> {
    match &slots[id.0 as usize] {
        Slot::One(value) => value,
        Slot::Many(_) => unreachable!("the values of a scan are taken by `out`"),
        Slot::Empty => unreachable!("operands run before their users and are kept for them"),
    }
}

/// One step of an array whose first axis is the scan's.
fn step_of<T: Real>(x: &Value<T>, step: usize, steps: usize) -> Value<T> {
    let len = x.data.len() / steps;
    Value { fault: x.fault, ..Value::new(x.axes[1..].to_vec(), x.data[step * len..][..len].to_vec()) }
}
