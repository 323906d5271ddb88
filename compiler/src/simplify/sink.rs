//! Running sums of products leave the loop: one product over all steps instead of one a step.
//!
//! The gradient of a weight that every step of a loop uses is a sum over steps, and the transpose of a scan keeps it as a
//! carry: `w = w + dot(x, g)`. What the loop computes for it is needed by nobody else, and the carry is as large as the
//! weight. Instead, the loop gives out `x` and `g` where they are not at hand, and after it
//!
//! ```text
//! sum over t of dot(x[t], g[t], a) = dot(x, g, a t)
//! ```
//!
//! A summand moves if it is made of products, and of sums of what is at hand anyway, by operations that are linear in
//! them (`rename`, `pad`, `concat` and their like, a factor that no step changes). It pays if what has to be given out anew for a
//! carry takes fewer bytes a step than reading and writing the carry.

use std::collections::{BTreeMap, HashMap};

use crate::ir::{Axis, AxisId, Graph, Op, Program, Reduction, Scan, ValueId};
use crate::pass::{Pass, change};

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "sink",
    about: "Moves running sums of products out of loops: one product over all steps.",
    run: |program, _| sink(program),
};

/// Moves running sums out of loops, innermost first.
pub fn sink(program: &mut Program) {
    change(program, |axes, graph| sink_graph(axes, graph, &[]));
}

/// [`sink_row_sums`] as it stands in its list.
pub(crate) const ROWS: Pass = Pass {
    name: "sink_row_sums",
    about: "Moves sums over rows out of loops whatever that costs, so that loops stay inside of kernels.",
    run: |program, cx| sink_row_sums(program, &cx.rows),
};

/// Moves every running sum over these axes out of its loop, whatever that costs: what is left in the loop does not cross
/// them.
pub fn sink_row_sums(program: &mut Program, rows: &[AxisId]) {
    change(program, |axes, graph| sink_graph(axes, graph, rows));
}

fn sink_graph(axes: &[Axis], old: Graph, rows: &[AxisId]) -> Graph {
    let mut graph = Graph::default();
    let mut new_of: Vec<ValueId> = Vec::with_capacity(old.nodes.len());
    // What final carries have become, by the old scan and number.
    let mut finals: HashMap<(ValueId, u32), ValueId> = HashMap::new();
    for (i, node) in old.nodes.into_iter().enumerate() {
        if let Op::Out { scan, index } = node.op
            && let Some(v) = finals.get(&(scan, index))
        {
            new_of.push(*v);
            continue;
        }
        let mut op = node.op.map_operands(|v| new_of[v.0 as usize]);
        let Op::Scan(scan) = &mut op else {
            new_of.push(graph.push(op, node.axes, node.span));
            continue;
        };
        scan.body = sink_graph(axes, std::mem::take(&mut scan.body), rows);
        let plan = Plan::new(axes, scan, rows);
        plan.change(scan);
        let after = (!plan.carries.is_empty()).then(|| scan.clone());
        let id = graph.push(op, node.axes, node.span);
        new_of.push(id);
        if let Some(scan) = after {
            let steps = axes[scan.axis.0 as usize].size;
            let mut after = After { graph: &mut graph, scan: &scan, id, steps };
            for (carry, moved) in &plan.carries {
                finals.insert((ValueId(i as u32), *carry), after.final_carry(*carry, moved));
            }
        }
    }
    graph.results = old.results.iter().map(|v| new_of[v.0 as usize]).collect();
    graph
}

/// What moves out of one loop.
#[derive(Default)]
struct Plan {
    /// By carry: the summands that move, and those that stay.
    carries: BTreeMap<u32, Vec<ValueId>>,
    stay: Vec<(u32, ValueId, Vec<ValueId>)>,
    /// Values of the body that it gives out anew.
    outputs: Vec<ValueId>,
}

impl Plan {
    fn new(axes: &[Axis], scan: &Scan, rows: &[AxisId]) -> Plan {
        let here = Loop::new(scan, rows);
        let entries = |v: ValueId| scan.body.axes(v).iter().map(|a| axes[a.0 as usize].size).product::<usize>();
        let mut plan = Plan::default();
        for carry in 0..scan.init.len() {
            let Some((start, summands)) = here.summands(carry) else { continue };
            let mut outputs = plan.outputs.clone();
            // By place, not by value: a step may add one value twice.
            let mut moves = vec![false; summands.len()];
            // Products first: what they give out is at hand for the sums.
            for sums in [false, true] {
                for (v, moves) in summands.iter().zip(&mut moves) {
                    let mut with = outputs.clone();
                    if !*moves && here.moves(*v, sums, &mut with) {
                        outputs = with;
                        *moves = true;
                    }
                }
            }
            let anew: usize = outputs[plan.outputs.len()..].iter().map(|v| entries(*v)).sum();
            let crosses = !rows.is_empty() && !scan.body.axes(start).iter().any(|a| rows.contains(a));
            if moves.contains(&true) && (anew <= 2 * entries(start) || crosses) {
                let chosen = |wanted: bool| {
                    let places = summands.iter().zip(&moves).filter(move |(_, moves)| **moves == wanted);
                    places.map(|(v, _)| *v).collect::<Vec<ValueId>>()
                };
                plan.stay.push((carry as u32, start, chosen(false)));
                plan.carries.insert(carry as u32, chosen(true));
                plan.outputs = outputs;
            }
        }
        plan
    }

    /// The loop without what moves; values keep their numbers.
    fn change(&self, scan: &mut Scan) {
        for (carry, start, stay) in &self.stay {
            let span = scan.body.node(*start).span;
            let sum = stay.iter().fold(*start, |sum, v| scan.body.add(sum, *v, span));
            scan.body.results[*carry as usize] = sum;
        }
        scan.body.results.extend(&self.outputs);
    }
}

/// A loop that is looked at.
struct Loop<'a> {
    scan: &'a Scan,
    /// How often each value of the body is used, as a result too.
    uses: Vec<usize>,
    /// Axes that no sum is to cross in the loop.
    rows: &'a [AxisId],
}

impl<'a> Loop<'a> {
    fn new(scan: &'a Scan, rows: &'a [AxisId]) -> Loop<'a> {
        let mut uses = vec![0; scan.body.nodes.len()];
        scan.body.nodes.iter().for_each(|n| n.op.operands(|v| uses[v.0 as usize] += 1));
        scan.body.results.iter().for_each(|v| uses[v.0 as usize] += 1);
        Loop { scan, uses, rows }
    }

    /// The parameter and the summands of a carry that is nothing but a running sum.
    fn summands(&self, carry: usize) -> Option<(ValueId, Vec<ValueId>)> {
        let body = &self.scan.body;
        // From the parameter on: sums that contain it, none of them used twice.
        let is_carry = |v: &ValueId| matches!(body.node(*v).op, Op::Param(p) if p as usize == carry);
        let mut params = body.ids().filter(is_carry);
        let (start, None) = (params.next()?, params.next()) else { return None };
        let mut summands = Vec::new();
        let mut sum = start;
        for v in body.ids().skip(start.0 as usize) {
            let mut used = false;
            body.node(v).op.operands(|x| used |= x == sum);
            if !used {
                continue;
            }
            let Op::Add(a, b) = body.node(v).op else { return None };
            if self.uses[sum.0 as usize] != 1 || a == b {
                return None;
            }
            summands.push(if a == sum { b } else { a });
            sum = v;
        }
        (sum == body.results[carry] && self.uses[sum.0 as usize] == 1).then_some((start, summands))
    }

    /// Whether a summand can be had after the loop, adding to what the loop has to give out for it. Sums of what is at
    /// hand move only if `sums` says so.
    fn moves(&self, v: ValueId, sums: bool, outputs: &mut Vec<ValueId>) -> bool {
        let body = &self.scan.body;
        if body.axes(v).contains(&self.scan.axis) {
            return false;
        }
        if self.at_hand(v, outputs) {
            return sums && !self.stays(v);
        }
        match &body.node(v).op {
            Op::Dot { a, b, .. } => {
                let mut changes = false;
                for operand in [*a, *b] {
                    if body.axes(operand).contains(&self.scan.axis) {
                        return false;
                    }
                    if !self.at_hand(operand, outputs) {
                        outputs.push(operand);
                    }
                    changes |= !self.stays(operand);
                }
                changes
            }
            Op::Reduce { op: Reduction::Sum, of, over } => {
                let mut with = outputs.clone();
                if self.moves(*of, sums, &mut with) {
                    *outputs = with;
                    return true;
                }
                let crosses = over.iter().any(|a| self.rows.contains(a)) && !body.axes(*of).contains(&self.scan.axis);
                if crosses && !self.at_hand(*of, outputs) {
                    outputs.push(*of);
                }
                crosses
            }
            Op::Add(a, b) => self.moves(*a, sums, outputs) && self.moves(*b, sums, outputs),
            Op::Mul(a, b) => match self.factor(*a, *b) {
                Some((x, _)) => self.moves(x, sums, outputs),
                None => false,
            },
            Op::Concat { parts, .. } => parts.iter().all(|p| self.moves(*p, sums, outputs)),
            op => linear(op).is_some_and(|x| self.moves(x, sums, outputs)),
        }
    }

    /// Of two factors the one that changes, and the one that is the same in every step.
    fn factor(&self, a: ValueId, b: ValueId) -> Option<(ValueId, ValueId)> {
        match (self.stays(a), self.stays(b)) {
            (false, true) => Some((a, b)),
            (true, false) => Some((b, a)),
            _ => None,
        }
    }

    /// Whether a value is known outside, but for names.
    fn at_hand(&self, v: ValueId, outputs: &[ValueId]) -> bool {
        let (body, carries) = (&self.scan.body, self.scan.init.len());
        if outputs.contains(&v) || body.results[carries..].contains(&v) {
            return true;
        }
        match &body.node(v).op {
            Op::Param(p) => *p as usize >= carries,
            Op::Const(_) | Op::Iota(_) => true,
            op => view(op).is_some_and(|x| self.at_hand(x, outputs)),
        }
    }

    /// Whether a value at hand is the same in every step.
    fn stays(&self, v: ValueId) -> bool {
        match &self.scan.body.node(v).op {
            Op::Param(p) => *p as usize >= self.scan.init.len() + self.scan.xs.len(),
            Op::Const(_) | Op::Iota(_) => true,
            op => view(op).is_some_and(|x| self.stays(x)),
        }
    }
}

/// The operand of an operation that does nothing but arrange its entries.
fn view(op: &Op) -> Option<ValueId> {
    match op {
        Op::Rename { of, .. } | Op::Split { of, .. } | Op::Join { of, .. } | Op::Slice { of, .. } => Some(*of),
        Op::Expand(x) | Op::Stop(x) => Some(*x),
        _ => None,
    }
}

/// The operand of an operation that is linear in it, and whose value has the entries of the operand's value.
fn linear(op: &Op) -> Option<ValueId> {
    match op {
        Op::Pad { of, .. } => Some(*of),
        op => view(op),
    }
}

/// The graph after a loop that gives out what is needed.
struct After<'a> {
    graph: &'a mut Graph,
    scan: &'a Scan,
    id: ValueId,
    steps: usize,
}

impl After<'_> {
    fn final_carry(&mut self, carry: u32, moved: &[ValueId]) -> ValueId {
        let result = self.scan.body.results[carry as usize];
        let span = self.scan.body.node(result).span;
        let rest = self.graph.out(self.id, carry as usize, self.scan.body.axes(result).to_vec(), span);
        moved.iter().fold(rest, |sum, v| {
            let part = self.sum(*v);
            self.graph.add(sum, part, span)
        })
    }

    /// A value summed over all steps.
    fn sum(&mut self, v: ValueId) -> ValueId {
        let node = self.scan.body.node(v).clone();
        let span = node.span;
        let axis = self.scan.axis;
        match &node.op {
            _ if self.output(v).is_some() => {
                let all = self.value(v);
                self.graph.sum(all, &[axis], span)
            }
            Op::Dot { a, b, over } => {
                let values = [self.value(*a), self.value(*b)];
                if values.iter().all(|v| self.graph.axes(*v).contains(&axis)) {
                    return self.graph.dot(values[0], values[1], &[&over[..], &[axis]].concat(), span);
                }
                let [a, b] = values.map(|v| self.graph.sum(v, &[axis], span));
                self.graph.dot(a, b, over, span)
            }
            Op::Reduce { op: Reduction::Sum, of, over } => {
                let of = self.sum(*of);
                self.graph.sum(of, over, span)
            }
            Op::Add(a, b) => {
                let (a, b) = (self.sum(*a), self.sum(*b));
                self.graph.add(a, b, span)
            }
            Op::Mul(a, b) => {
                let (x, c) = Loop::new(self.scan, &[]).factor(*a, *b).unwrap_or((*a, *b));
                let (x, c) = (self.sum(x), self.value(c));
                self.graph.mul(x, c, span)
            }
            Op::Concat { parts, along, into } => {
                let parts = parts.iter().map(|p| self.sum(*p)).collect();
                self.graph.push(Op::Concat { parts, along: along.clone(), into: *into }, node.axes, span)
            }
            op => match linear(op) {
                Some(x) => {
                    let x = self.sum(x);
                    self.graph.push(op.clone().map_operands(|_| x), node.axes, span)
                }
                None => {
                    let all = self.value(v);
                    match self.graph.axes(all).contains(&axis) {
                        true => self.graph.sum(all, &[axis], span),
                        false => self.graph.scale(all, self.steps as f64, span),
                    }
                }
            },
        }
    }

    /// The number of the scan's output that is a value of the body.
    fn output(&self, v: ValueId) -> Option<usize> {
        let carries = self.scan.init.len();
        self.scan.body.results[carries..].iter().position(|r| *r == v).map(|i| carries + i)
    }

    /// A value that is at hand, of all steps.
    fn value(&mut self, v: ValueId) -> ValueId {
        let node = self.scan.body.node(v).clone();
        let (carries, span) = (self.scan.init.len(), node.span);
        let all_steps = |axes: &[AxisId]| [&[self.scan.axis], axes].concat();
        if let Some(index) = self.output(v) {
            return self.graph.out(self.id, index, all_steps(&node.axes), span);
        }
        match &node.op {
            Op::Param(p) => {
                let operands = self.scan.xs.iter().chain(&self.scan.consts);
                operands.copied().nth(*p as usize - carries).unwrap_or(v)
            }
            op => {
                let mut changes = false;
                let op = op.clone().map_operands(|v| {
                    let v = self.value(v);
                    changes |= self.graph.axes(v).contains(&self.scan.axis);
                    v
                });
                let axes = if changes { all_steps(&node.axes) } else { node.axes };
                self.graph.push(op, axes, span)
            }
        }
    }
}
