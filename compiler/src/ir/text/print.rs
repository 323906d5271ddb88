//! Printing.

use std::fmt::Write;

use dsl::source::{Sources, Span};

use super::super::*;
use super::names::{Names, word};

/// The program as text; with `sources`, each node's place in them as a comment.
pub fn print(program: &Program, sources: Option<&Sources>) -> String {
    let mut printer = Printer {
        axes: Names::new(program.axes.iter().map(|a| a.name.as_str())),
        inputs: Names::new(program.inputs.iter().map(|i| i.name.as_str())),
        draws: Names::new(program.draws.iter().map(String::as_str)),
        sources,
        text: String::new(),
    };
    printer.program(program);
    printer.text
}

struct Printer<'a> {
    axes: Names,
    inputs: Names,
    draws: Names,
    sources: Option<&'a Sources>,
    text: String,
}

impl Printer<'_> {
    fn program(&mut self, program: &Program) {
        self.line(0, &format!("program {}", word(&program.name)));
        self.section(&program.axes, |p, i, axis| format!("axis {} = {}", p.axes.get(i), axis.size));
        self.section(&program.draws, |p, i, _| format!("draw {}", p.draws.get(i)));
        self.section(&program.inputs, |p, i, input| {
            format!("input {}: {} {}", p.inputs.get(i), role(input.role), p.axis_list(&input.axes))
        });
        if !program.graph.nodes.is_empty() {
            self.text.push('\n');
        }
        self.nodes(&program.graph, 0);
        let results = &program.graph.results;
        self.section(&program.outputs, |p, i, output| {
            let value = results.get(i).map_or(String::new(), |v| format!(" = {}", value(*v)));
            let updates = output.updates.map_or(String::new(), |u| format!(" updates {}", p.inputs.get(u)));
            format!("output {}{value}{updates}", word(&output.name))
        });
        self.section(results.get(program.outputs.len()..).unwrap_or_default(), |_, _, v| format!("result {}", value(*v)));
    }

    /// Lines of one kind, set off by an empty one.
    fn section<T>(&mut self, things: &[T], line: impl Fn(&Self, usize, &T) -> String) {
        if !things.is_empty() {
            self.text.push('\n');
        }
        for (i, thing) in things.iter().enumerate() {
            let text = line(self, i, thing);
            self.line(0, &text);
        }
    }

    fn line(&mut self, depth: usize, text: &str) {
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "{:1$}{text}", "", 2 * depth);
    }

    fn nodes(&mut self, graph: &Graph, depth: usize) {
        for (i, node) in graph.nodes.iter().enumerate() {
            let head = format!("%{i}: {} = {}", self.axis_list(&node.axes), self.op(&node.op));
            let place = self.place(node.span);
            match &node.op {
                Op::Scan(scan) => {
                    self.line(depth, &format!("{head} {{{place}"));
                    self.nodes(&scan.body, depth + 1);
                    self.line(depth + 1, format!("results {}", values(&scan.body.results)).trim_end());
                    self.line(depth, "}");
                }
                _ => self.line(depth, &format!("{head}{place}")),
            }
        }
    }

    fn place(&self, span: Span) -> String {
        let Some(file) = self.sources.and_then(|s| s.files.get(span.file.0 as usize)) else { return String::new() };
        let at = self.sources.map(|s| s.line_col(span.file, span.lo));
        at.map_or(String::new(), |at| format!("  ; {}:{}:{}", file.name.replace(['\n', '\r'], " "), at.line, at.column))
    }

    fn axis(&self, axis: AxisId) -> String {
        self.axes.get(axis.0 as usize)
    }

    fn axis_list(&self, axes: &[AxisId]) -> String {
        format!("[{}]", axes.iter().map(|a| self.axis(*a)).collect::<Vec<_>>().join(", "))
    }

    fn op(&self, op: &Op) -> String {
        let name = op.name();
        match op {
            Op::Input(i) => format!("{name} {}", self.inputs.get(*i as usize)),
            Op::Param(i) => format!("{name} {i}"),
            Op::Const(c) => format!("{name} {}", float(*c)),
            Op::Iota(axis) => format!("{name} {}", self.axis(*axis)),
            Op::Random { draw, noise } => {
                let noise = match noise {
                    Noise::Gaussian => "gaussian".to_string(),
                    Noise::Uniform => "uniform".to_string(),
                    Noise::Subset { of } => format!("subset {of}"),
                };
                format!("{name} {} {noise}", self.draws.get(*draw as usize))
            }
            Op::Unary(_, a) | Op::Expand(a) | Op::Stop(a) | Op::Id(a) => format!("{name} {}", value(*a)),
            Op::Add(a, b) | Op::Mul(a, b) | Op::Max(a, b) | Op::Less(a, b) => format!("{name} {}", values(&[*a, *b])),
            Op::Where(c, a, b) => format!("{name} {}", values(&[*c, *a, *b])),
            Op::Composite(c, a) => match c {
                Composite::Tanh | Composite::Sigmoid | Composite::Softplus | Composite::Abs | Composite::Sign => {
                    format!("{name} {}", value(*a))
                }
                Composite::Softmax(axis) | Composite::LogSoftmax(axis) | Composite::LogSumExp(axis) => {
                    format!("{name} {}, {}", value(*a), self.axis(*axis))
                }
            },
            Op::Rename { of, from, to } => format!("{name} {}, {} -> {}", value(*of), self.axis(*from), self.axis(*to)),
            Op::Reduce { of, over, .. } => format!("{name} {}, {}", value(*of), self.axis_list(over)),
            Op::Dot { a, b, over } => format!("{name} {}, {}", values(&[*a, *b]), self.axis_list(over)),
            Op::Split { of, axis, into } => {
                format!("{name} {}, {} -> {}", value(*of), self.axis(*axis), self.axis_list(into))
            }
            Op::Join { of, axes, into } => {
                format!("{name} {}, {} -> {}", value(*of), self.axis_list(axes), self.axis(*into))
            }
            Op::Slice { of, axis, start, into } | Op::Pad { of, axis, start, into } => {
                format!("{name} {}, {} at {start} -> {}", value(*of), self.axis(*axis), self.axis(*into))
            }
            Op::Concat { parts, along, into } => {
                format!("{name} [{}], {} -> {}", values(parts), self.axis_list(along), self.axis(*into))
            }
            Op::Gather { of, axis, at } => format!("{name} {}, {} at {}", value(*of), self.axis(*axis), value(*at)),
            Op::Scatter { of, at, over, into } => {
                format!("{name} {}, {} at {} -> {}", value(*of), self.axis_list(over), value(*at), self.axis(*into))
            }
            Op::Argsort { of, axis } => format!("{name} {}, {}", value(*of), self.axis(*axis)),
            Op::Scan(scan) => {
                let direction = match scan.direction {
                    Direction::Forward => "forward",
                    Direction::Backward => "backward",
                };
                let [init, xs, consts] = [&scan.init, &scan.xs, &scan.consts].map(|v| values(v));
                format!("{name} {} {direction} init({init}) xs({xs}) consts({consts})", self.axis(scan.axis))
            }
            Op::Out { scan, index } => format!("{name} {}, {index}", value(*scan)),
        }
    }
}

pub(super) fn role(role: Role) -> &'static str {
    match role {
        Role::Data => "data",
        Role::Param => "param",
        Role::Slow => "slow",
        Role::Slot => "slot",
        Role::Carry => "carry",
        Role::Running => "running",
        Role::Record => "record",
        Role::Schedule => "schedule",
        Role::Clock => "clock",
        Role::Draw => "draw",
    }
}

fn value(v: ValueId) -> String {
    format!("%{}", v.0)
}

fn values(vs: &[ValueId]) -> String {
    vs.iter().map(|v| value(*v)).collect::<Vec<_>>().join(", ")
}

/// The shortest digits that parse back to the same bits; a NaN that is not the usual one by its bits.
fn float(c: f64) -> String {
    match c {
        _ if c.to_bits() == f64::NAN.to_bits() => "nan".to_string(),
        _ if c.is_nan() => format!("nan({:#x})", c.to_bits()),
        _ if c == c.trunc() && c.abs() < 1e15 => format!("{c}"),
        _ => format!("{c:?}"),
    }
}
