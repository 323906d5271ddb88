//! Reading.

use std::collections::HashMap;

use dsl::source::Span;

use super::super::*;
use super::lex::Token;
use super::print::role;
use super::read::{Cursor, Reader, Result};

/// Bodies within bodies that are read; no program comes near it.
const DEPTH: usize = 64;

const ROLES: [Role; 10] = [
    Role::Data,
    Role::Param,
    Role::Slow,
    Role::Slot,
    Role::Carry,
    Role::Running,
    Role::Record,
    Role::Schedule,
    Role::Clock,
    Role::Draw,
];

/// The program that a text says.
pub fn parse(text: &str) -> Result<Program> {
    let mut parser = Parser { cursor: Cursor::new(text)?, program: Program::default(), names: Default::default() };
    parser.program()?;
    Ok(parser.program)
}

/// The kinds of things that go by names.
#[derive(Clone, Copy)]
enum Kind {
    Axis,
    Input,
    Draw,
}

/// The numbers that carry a name.
type Numbers = HashMap<String, Vec<u32>>;

struct Parser {
    cursor: Cursor,
    program: Program,
    /// By [`Kind`].
    names: [Numbers; 3],
}

impl Reader for Parser {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursor
    }
}

impl Parser {
    fn program(&mut self) -> Result<()> {
        self.keyword("program")?;
        self.program.name = self.word("the program's name")?;
        self.end()?;
        while !self.is_done() {
            match self.peek() {
                Token::Value(_) => {
                    let mut graph = std::mem::take(&mut self.program.graph);
                    self.node(&mut graph, 0)?;
                    self.program.graph = graph;
                }
                Token::Word(w) => match w.as_str() {
                    "axis" => self.axis_declaration()?,
                    "draw" => self.draw_declaration()?,
                    "input" => self.input_declaration()?,
                    "output" => self.output_declaration()?,
                    "result" => {
                        self.skip();
                        let value = self.value()?;
                        self.program.graph.results.push(value);
                    }
                    _ => return Err(self.expected("`axis`, `draw`, `input`, `output`, `result` or a node")),
                },
                _ => return Err(self.expected("a declaration or a node")),
            }
            self.end()?;
        }
        Ok(())
    }

    fn axis_declaration(&mut self) -> Result<()> {
        self.skip();
        let name = self.declare(Kind::Axis, self.program.axes.len())?;
        self.mark('=')?;
        let size = self.number()?;
        self.program.axes.push(Axis { name, size });
        Ok(())
    }

    fn draw_declaration(&mut self) -> Result<()> {
        self.skip();
        let name = self.declare(Kind::Draw, self.program.draws.len())?;
        self.program.draws.push(name);
        Ok(())
    }

    fn input_declaration(&mut self) -> Result<()> {
        self.skip();
        let name = self.declare(Kind::Input, self.program.inputs.len())?;
        self.mark(':')?;
        let word = self.word("a role")?;
        let Some(role) = ROLES.into_iter().find(|r| role(*r) == word) else {
            return Err(self.error_before(format!("`{word}` is no role; roles are {}", ROLES.map(role).join(", "))));
        };
        let axes = self.axis_list()?;
        self.program.inputs.push(Input { name, role, axes });
        Ok(())
    }

    fn output_declaration(&mut self) -> Result<()> {
        self.skip();
        let name = self.word("the output's name")?;
        if self.next_is(&Token::Mark('=')) {
            let value = self.value()?;
            self.program.graph.results.push(value);
        }
        let updates = match self.next_is(&Token::Word("updates".to_string())) {
            true => Some(self.reference(Kind::Input)? as usize),
            false => None,
        };
        self.program.outputs.push(Output { name, updates });
        Ok(())
    }

    /// `%3: [B, t] = add %1, %2`
    fn node(&mut self, graph: &mut Graph, depth: usize) -> Result<()> {
        let id = self.value()?;
        if id.0 as usize != graph.nodes.len() {
            return Err(self.error_before(format!("this node's number is its place, %{}, not %{}", graph.nodes.len(), id.0)));
        }
        self.mark(':')?;
        let axes = self.axis_list()?;
        self.mark('=')?;
        let op = self.op(depth)?;
        graph.nodes.push(Node { op, axes, span: Span::default() });
        Ok(())
    }

    fn op(&mut self, depth: usize) -> Result<Op> {
        let name = self.word("an operation")?;
        Ok(match name.as_str() {
            "input" => Op::Input(self.reference(Kind::Input)?),
            "param" => Op::Param(self.number()?),
            "const" => Op::Const(self.float(|bits| Some(f64::from_bits(bits)))?),
            "iota" => Op::Iota(self.axis()?),
            "random" => Op::Random { draw: self.reference(Kind::Draw)?, noise: self.noise()? },
            "exp" => Op::Unary(Unary::Exp, self.value()?),
            "log" => Op::Unary(Unary::Log, self.value()?),
            "sin" => Op::Unary(Unary::Sin, self.value()?),
            "sqrt" => Op::Unary(Unary::Sqrt, self.value()?),
            "recip" => Op::Unary(Unary::Recip, self.value()?),
            "floor" => Op::Unary(Unary::Floor, self.value()?),
            "add" => Op::Add(self.value()?, self.next_value()?),
            "mul" => Op::Mul(self.value()?, self.next_value()?),
            "max" => Op::Max(self.value()?, self.next_value()?),
            "less" => Op::Less(self.value()?, self.next_value()?),
            "where" => Op::Where(self.value()?, self.next_value()?, self.next_value()?),
            "tanh" => Op::Composite(Composite::Tanh, self.value()?),
            "sigmoid" => Op::Composite(Composite::Sigmoid, self.value()?),
            "softplus" => Op::Composite(Composite::Softplus, self.value()?),
            "abs" => Op::Composite(Composite::Abs, self.value()?),
            "sign" => Op::Composite(Composite::Sign, self.value()?),
            "softmax" | "log_softmax" | "logsumexp" => {
                let of = self.comma_after_value()?;
                let axis = self.axis()?;
                let composite = match name.as_str() {
                    "softmax" => Composite::Softmax(axis),
                    "log_softmax" => Composite::LogSoftmax(axis),
                    _ => Composite::LogSumExp(axis),
                };
                Op::Composite(composite, of)
            }
            "expand" => Op::Expand(self.value()?),
            "rename" => {
                let of = self.comma_after_value()?;
                let from = self.axis()?;
                self.arrow()?;
                Op::Rename { of, from, to: self.axis()? }
            }
            "sum" => Op::Reduce { op: Reduction::Sum, of: self.comma_after_value()?, over: self.axis_list()? },
            "reduce_max" => Op::Reduce { op: Reduction::Max, of: self.comma_after_value()?, over: self.axis_list()? },
            "dot" => Op::Dot { a: self.comma_after_value()?, b: self.comma_after_value()?, over: self.axis_list()? },
            "split" => {
                let of = self.comma_after_value()?;
                let axis = self.axis()?;
                self.arrow()?;
                Op::Split { of, axis, into: self.axis_list()? }
            }
            "join" => {
                let of = self.comma_after_value()?;
                let axes = self.axis_list()?;
                self.arrow()?;
                Op::Join { of, axes, into: self.axis()? }
            }
            "slice" | "pad" => {
                let of = self.comma_after_value()?;
                let axis = self.axis()?;
                self.keyword("at")?;
                let start = self.number()?;
                self.arrow()?;
                let into = self.axis()?;
                if name == "slice" { Op::Slice { of, axis, start, into } } else { Op::Pad { of, axis, start, into } }
            }
            "concat" => {
                let parts = self.list('[', ']', Self::value)?;
                self.mark(',')?;
                let along = self.axis_list()?;
                self.arrow()?;
                Op::Concat { parts, along, into: self.axis()? }
            }
            "gather" => {
                let of = self.comma_after_value()?;
                let axis = self.axis()?;
                self.keyword("at")?;
                Op::Gather { of, axis, at: self.value()? }
            }
            "scatter" => {
                let of = self.comma_after_value()?;
                let over = self.axis_list()?;
                self.keyword("at")?;
                let at = self.value()?;
                self.arrow()?;
                Op::Scatter { of, at, over, into: self.axis()? }
            }
            "argsort" => Op::Argsort { of: self.comma_after_value()?, axis: self.axis()? },
            "scan" => Op::Scan(Box::new(self.scan(depth)?)),
            "out" => Op::Out { scan: self.comma_after_value()?, index: self.number()? },
            "stop" => Op::Stop(self.value()?),
            "id" => Op::Id(self.value()?),
            _ => return Err(self.error_before(format!("`{name}` is no operation"))),
        })
    }

    fn scan(&mut self, depth: usize) -> Result<Scan> {
        if depth >= DEPTH {
            return Err(self.error_before(format!("scans lie within scans more than {DEPTH} deep")));
        }
        let axis = self.axis()?;
        let word = self.word("`forward` or `backward`")?;
        let direction = match word.as_str() {
            "forward" => Direction::Forward,
            "backward" => Direction::Backward,
            _ => return Err(self.error_before(format!("a scan goes `forward` or `backward`, not `{word}`"))),
        };
        let mut operands = |name| {
            self.keyword(name)?;
            self.list('(', ')', Self::value)
        };
        let (init, xs, consts) = (operands("init")?, operands("xs")?, operands("consts")?);
        self.mark('{')?;
        self.end()?;
        let mut body = Graph::default();
        while matches!(self.peek(), Token::Value(_)) {
            self.node(&mut body, depth + 1)?;
            self.end()?;
        }
        self.keyword("results")?;
        while *self.peek() != Token::End {
            if !body.results.is_empty() {
                self.mark(',')?;
            }
            body.results.push(self.value()?);
        }
        self.end()?;
        self.mark('}')?;
        Ok(Scan { axis, direction, init, xs, consts, body })
    }

    fn noise(&mut self) -> Result<Noise> {
        let word = self.word("`gaussian`, `uniform` or `subset`")?;
        match word.as_str() {
            "gaussian" => Ok(Noise::Gaussian),
            "uniform" => Ok(Noise::Uniform),
            "subset" => Ok(Noise::Subset { of: self.number()? }),
            _ => Err(self.error_before(format!("`{word}` is no noise; there is gaussian, uniform and subset"))),
        }
    }

    // ---- names

    /// A name that is declared here as number `index` of its kind; `#` and that number may follow.
    fn declare(&mut self, kind: Kind, index: usize) -> Result<String> {
        let name = self.word("a name")?;
        if let Token::Hash(n) = *self.peek() {
            if n as usize != index {
                return Err(self.error(format!("`{name}` is number {index}, not {n}")));
            }
            self.skip();
        }
        self.names[kind as usize].entry(name.clone()).or_default().push(index as u32);
        Ok(name)
    }

    /// The number of a thing by its name, its name and number, or its number.
    fn reference(&mut self, kind: Kind) -> Result<u32> {
        let what = match kind {
            Kind::Axis => "axis",
            Kind::Input => "input",
            Kind::Draw => "draw",
        };
        if let Token::Hash(n) = *self.peek() {
            self.skip();
            return Ok(n);
        }
        let name = self.word(&format!("the {what}'s name"))?;
        let number = match *self.peek() {
            Token::Hash(n) => {
                self.skip();
                Some(n)
            }
            _ => None,
        };
        let numbers = self.names[kind as usize].get(&name).map_or(&[][..], Vec::as_slice);
        match (number, numbers) {
            (None, []) => Err(self.error_before(format!("no {what} is called `{name}`"))),
            (None, [n]) => Ok(*n),
            (None, _) => Err(self.error_before(format!("more than one {what} is called `{name}`: say which, as in `{name}#0`"))),
            (Some(n), numbers) if numbers.contains(&n) => Ok(n),
            (Some(n), _) => Err(self.error_before(format!("{what} {n} is not called `{name}`"))),
        }
    }

    fn axis(&mut self) -> Result<AxisId> {
        self.reference(Kind::Axis).map(AxisId)
    }

    fn axis_list(&mut self) -> Result<Vec<AxisId>> {
        self.list('[', ']', Self::axis)
    }

    fn value(&mut self) -> Result<ValueId> {
        match *self.peek() {
            Token::Value(n) => {
                self.skip();
                Ok(ValueId(n))
            }
            _ => Err(self.expected("a value like `%3`")),
        }
    }

    fn next_value(&mut self) -> Result<ValueId> {
        self.mark(',')?;
        self.value()
    }

    fn comma_after_value(&mut self) -> Result<ValueId> {
        let value = self.value()?;
        self.mark(',')?;
        Ok(value)
    }
}
