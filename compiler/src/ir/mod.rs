//! The graph program: values over named axes, a closed set of primitives.
//!
//! A [`Graph`] is a list of [`Node`]s in dependency order. A value is an array over named axes of known size; axes are
//! identities, a value carries each at most once, and the order of `axes` is the storage order. Elementwise operations
//! line up by axis: the value has every axis of its operands, so broadcasting and transposing are no operations.
//! A scan holds a body of its own, a closed graph: it sees nothing but its parameters.
//!
//! Invariants, checked by [`verify`]:
//! - operands come before their users; every axis is declared; no value has an axis twice;
//! - what each [`Op`] says about the axes of its operands and its value;
//! - truth values are the numbers 0 and 1.

mod build;
mod op;
pub mod text;
pub mod verify;

use std::collections::BTreeMap;

use dsl::source::Span;
pub use op::{Composite, Direction, Noise, Op, Reduction, Scan, Unary};
use serde::{Deserialize, Serialize};

/// Index into [`Program::axes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AxisId(pub u32);

/// Index into [`Graph::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
    pub size: usize,
}

/// One value: what computes it, its axes in storage order, and the text it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub op: Op,
    pub axes: Vec<AxisId>,
    pub span: Span,
}

/// Nodes in dependency order, and the values it is computed for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub results: Vec<ValueId>,
}

/// What a program's input is, which decides where its value comes from and lets it be given by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A field of the data: `obs`, `a`, `r`.
    Data,
    Param,
    /// The slow copy of a parameter.
    Slow,
    /// A slot of an optimiser: `main.m.core.0.weight`.
    Slot,
    /// A carry of a memory or planner, or a value of an earlier step that acting needs.
    Carry,
    Running,
    /// A value that was recorded when the data was collected.
    Record,
    /// A schedule's value, which `--set alpha=0.3` gives.
    Schedule,
    /// `progress`, `count`: numbers the run provides.
    Clock,
    /// Random numbers, if given from outside.
    Draw,
}

/// An array that the caller gives, in the order of [`Op::Input`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub name: String,
    pub role: Role,
    pub axes: Vec<AxisId>,
}

/// An array that the program gives back, in the order of the graph's results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// `loss.dyn`, `z.q`, `param.core.0.weight`, `grad.core.0.weight`.
    pub name: String,
    /// The state that this is the new value of: an index into [`Program::inputs`].
    pub updates: Option<usize>,
}

/// One entry point: a graph with names for what goes in and out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Program {
    pub name: String,
    pub axes: Vec<Axis>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub graph: Graph,
    /// Names of random draws by [`Op::Random`]'s number: what their keys are made of.
    pub draws: Vec<String>,
}

/// Sizes of one kind of thing, for tests that count: `dot: 12, scan: 2`.
pub type Counts = BTreeMap<&'static str, usize>;

impl Program {
    pub fn size(&self, axis: AxisId) -> usize {
        self.axes[axis.0 as usize].size
    }

    pub fn axis_name(&self, axis: AxisId) -> &str {
        &self.axes[axis.0 as usize].name
    }

    pub fn new_axis(&mut self, name: &str, size: usize) -> AxisId {
        self.axes.push(Axis { name: name.to_string(), size });
        AxisId(self.axes.len() as u32 - 1)
    }

    /// Number of entries of a value with these axes.
    pub fn len(&self, axes: &[AxisId]) -> usize {
        axes.iter().map(|a| self.size(*a)).product()
    }

    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|i| i.name == name)
    }

    pub fn output(&self, name: &str) -> Option<usize> {
        self.outputs.iter().position(|o| o.name == name)
    }

    /// How many operations of each kind it has, bodies of scans included.
    pub fn counts(&self) -> Counts {
        fn count(graph: &Graph, counts: &mut Counts) {
            for node in &graph.nodes {
                *counts.entry(node.op.name()).or_default() += 1;
                if let Op::Scan(scan) = &node.op {
                    count(&scan.body, counts);
                }
            }
        }
        let mut counts = Counts::new();
        count(&self.graph, &mut counts);
        counts
    }
}

impl Graph {
    pub fn node(&self, id: ValueId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub fn axes(&self, id: ValueId) -> &[AxisId] {
        &self.nodes[id.0 as usize].axes
    }

    /// All values, in order.
    pub fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..self.nodes.len() as u32).map(ValueId)
    }
}
