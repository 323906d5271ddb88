//! Small programs, written by hand.

use dsl::source::Span;

use crate::interp::Array;
use crate::ir::{AxisId, Graph, Input, Noise, Op, Output, Program, Role, Scan, ValueId};

/// A program that is being written. Nodes are made by the methods of [`Graph`].
#[derive(Debug, Default)]
pub struct Draft {
    pub program: Program,
    pub graph: Graph,
}

/// Programs of tests come from no text.
pub const NOWHERE: Span = Span { file: dsl::source::FileId(0), lo: 0, hi: 0 };

impl Draft {
    pub fn new() -> Draft {
        let mut draft = Draft::default();
        draft.program.name = "draft".to_string();
        draft
    }

    pub fn axis(&mut self, name: &str, size: usize) -> AxisId {
        self.program.new_axis(name, size)
    }

    /// An input that gradients are taken by.
    pub fn input(&mut self, name: &str, axes: &[AxisId]) -> ValueId {
        self.given(name, Role::Param, axes)
    }

    pub fn given(&mut self, name: &str, role: Role, axes: &[AxisId]) -> ValueId {
        self.program.inputs.push(Input { name: name.to_string(), role, axes: axes.to_vec() });
        let number = self.program.inputs.len() as u32 - 1;
        self.graph.push(Op::Input(number), axes.to_vec(), NOWHERE)
    }

    /// The numbers of a new draw.
    pub fn random(&mut self, name: &str, noise: Noise, axes: &[AxisId]) -> ValueId {
        let draw = self.draw(name);
        self.graph.push(Op::Random { draw, noise }, axes.to_vec(), NOWHERE)
    }

    /// The number of a new draw.
    pub fn draw(&mut self, name: &str) -> u32 {
        self.program.draws.push(name.to_string());
        self.program.draws.len() as u32 - 1
    }

    pub fn scan(&mut self, scan: Scan) -> ValueId {
        self.graph.push(Op::Scan(Box::new(scan)), Vec::new(), NOWHERE)
    }

    pub fn array(&self, axes: &[AxisId], data: &[f64]) -> Array<f64> {
        assert_eq!(self.program.len(axes), data.len(), "numbers for {axes:?}");
        Array { axes: axes.to_vec(), data: data.to_vec() }
    }

    /// The program, with outputs `0`, `1`, ..
    pub fn finish(self, results: &[ValueId]) -> Program {
        let Draft { mut program, mut graph } = self;
        graph.results = results.to_vec();
        program.graph = graph;
        program.outputs = (0..results.len()).map(|i| Output { name: i.to_string(), updates: None }).collect();
        program
    }
}
