//! Reading.

use super::super::{
    Base, Buffer, BufferId, BufferKind, Contract, Copy, Gather, Gemm, Instr, Kernel, Lanes, Local, LocalId, LoopId, Map, Notes,
    Pack, Program, Random, Reg, Scatter, Sort, Step, Stmt, Store, Tile, View, Work,
};
use super::print::{BINARY, MODES, UNARY, binary, mode};
use crate::ir::Noise;
use crate::ir::text::{Cursor, Reader, Result, Token};

/// Loops within loops that are read; no program comes near it.
const DEPTH: usize = 64;

/// The program that a text says.
pub fn parse(text: &str) -> Result<Program> {
    Parser { cursor: Cursor::new(text)?, depth: 0 }.program()
}

struct Parser {
    cursor: Cursor,
    depth: usize,
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
    fn program(&mut self) -> Result<Program> {
        self.keyword("program")?;
        let mut program = Program { name: self.word("the program's name")?, ..Program::default() };
        self.end()?;
        while !self.is_done() {
            let word = self.word("a declaration")?;
            match word.as_str() {
                "buffer" => {
                    let id = self.buffer()?;
                    if id.0 as usize != program.buffers.len() {
                        let place = program.buffers.len();
                        return Err(self.error_before(format!("this buffer's number is its place, %{place}, not %{}", id.0)));
                    }
                    program.buffers.push(self.buffer_declaration()?);
                }
                "draw" => program.draws.push(self.word("the draw's name")?),
                "input" => program.inputs.extend(self.buffers()?),
                "output" => program.outputs.extend(self.buffers()?),
                "prepare" => program.prepare.extend(self.block(Self::step)?),
                "steps" => program.steps.extend(self.block(Self::step)?),
                _ => {
                    let known = "`buffer`, `draw`, `input`, `output`, `prepare` or `steps`";
                    return Err(self.error_before(format!("expected {known}, found `{word}`")));
                }
            }
            self.end()?;
        }
        Ok(program)
    }

    fn buffer_declaration(&mut self) -> Result<Buffer> {
        let name = self.word("the buffer's name")?;
        self.mark(':')?;
        let word = self.word("a kind")?;
        let len = self.number()?;
        let kind = match word.as_str() {
            "input" => BufferKind::Input,
            "output" => BufferKind::Output,
            "temp" => BufferKind::Temp,
            "kept" => BufferKind::Kept,
            "const" => BufferKind::Const(self.list('[', ']', Self::single)?),
            _ => {
                let known = "input, output, temp, kept and const";
                return Err(self.error_before(format!("`{word}` is no kind of buffer; there is {known}")));
            }
        };
        Ok(Buffer { name, len, kind })
    }

    /// `{`, things that each end a line, `}`.
    fn block<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        if self.depth >= DEPTH {
            return Err(self.error_before(format!("blocks lie within blocks more than {DEPTH} deep")));
        }
        self.depth += 1;
        self.mark('{')?;
        self.end()?;
        let mut items = Vec::new();
        while !self.next_is(&Token::Mark('}')) {
            items.push(item(self)?);
            self.end()?;
        }
        self.depth -= 1;
        Ok(items)
    }

    fn step(&mut self) -> Result<Step> {
        let word = self.word("a step")?;
        match word.as_str() {
            "launch" => Ok(Step::Launch(self.block(Self::kernel)?)),
            "for" => {
                let (id, count, reverse) = self.loop_head()?;
                Ok(Step::Loop { id, count, reverse, body: self.block(Self::step)? })
            }
            "swap" => {
                let a = self.buffer()?;
                self.mark(',')?;
                Ok(Step::Swap(a, self.buffer()?))
            }
            _ => Err(self.error_before(format!("`{word}` is no step; there is launch, for and swap"))),
        }
    }

    /// `t0 in 6 reverse`
    fn loop_head(&mut self) -> Result<(LoopId, usize, bool)> {
        let id = self.loop_id()?;
        self.keyword("in")?;
        Ok((id, self.number()?, self.next_is_word("reverse")))
    }

    fn kernel(&mut self) -> Result<Kernel> {
        let word = self.word("a kernel")?;
        let name = self.word("the kernel's name")?;
        let work = match word.as_str() {
            "tile" => Work::Tile(self.tile()?),
            "contract" => Work::Contract(self.contract()?),
            "pack" => Work::Pack(self.pack()?),
            "random" => Work::Random(self.random()?),
            _ => return Err(self.error_before(format!("`{word}` is no kernel; there is tile, contract, pack and random"))),
        };
        Ok(Kernel { name, work, notes: Notes::default() })
    }

    fn contract(&mut self) -> Result<Contract> {
        let rows = self.named("rows")?;
        let (batch, n) = (self.optional("batch")?, self.optional("n")?);
        let (i, k) = (self.optional("i")?, self.optional("k")?);
        self.mark(':')?;
        let dst = self.view()?;
        self.mark('=')?;
        let a = self.view()?;
        let b = if self.next_is(&Token::Mark('*')) { Some(self.view()?) } else { None };
        Ok(Contract { rows, batch, n, i, k, a, b, dst })
    }

    fn pack(&mut self) -> Result<Pack> {
        let batch = self.optional("batch")?;
        let n = self.named("n")?;
        self.keyword("k")?;
        let k = self.sizes()?;
        self.mark(':')?;
        let to = self.buffer()?;
        self.mark('=')?;
        Ok(Pack { batch, n, k, from: self.view()?, to })
    }

    fn random(&mut self) -> Result<Random> {
        let draw = self.named("draw")?;
        let word = self.word("`gaussian`, `uniform` or `subset`")?;
        let noise = match word.as_str() {
            "gaussian" => Noise::Gaussian,
            "uniform" => Noise::Uniform,
            "subset" => Noise::Subset { of: self.number()? },
            _ => return Err(self.error_before(format!("`{word}` is no noise; there is gaussian, uniform and subset"))),
        };
        let last = if self.next_is_word("last") { self.number()? } else { 0 };
        self.mark(':')?;
        Ok(Random { draw, noise, last, to: self.buffer()? })
    }

    fn tile(&mut self) -> Result<Tile> {
        let rows = self.optional("rows")?;
        let arena = self.named("arena")?;
        let mut locals = Vec::new();
        let mut body = Vec::new();
        self.block(|p| {
            match p.next_is_word("local") {
                true => locals.push(p.local(locals.len())?),
                false => body.push(p.stmt()?),
            }
            Ok(())
        })?;
        Ok(Tile { rows, locals, arena, body })
    }

    /// `$3: 54 @ 128`
    fn local(&mut self, place: usize) -> Result<Local> {
        if !self.next_is(&Token::Local(place as u32)) {
            return Err(self.expected(&format!("`${place}`, the next local")));
        }
        self.mark(':')?;
        let len = self.number()?;
        self.mark('@')?;
        Ok(Local { len, offset: self.number()? })
    }

    fn stmt(&mut self) -> Result<Stmt> {
        let word = self.word("a statement")?;
        Ok(match word.as_str() {
            "map" => Stmt::Map(self.map()?),
            "gemm" => Stmt::Gemm(self.gemm()?),
            "copy" => {
                let dims = self.sizes()?;
                self.mark(':')?;
                let to = self.view()?;
                self.mark('=')?;
                Stmt::Copy(Copy { dims, from: self.view()?, to })
            }
            "sort" => {
                let dims = self.sizes()?;
                let n = self.named("n")?;
                self.mark(':')?;
                let to = self.view()?;
                self.mark('=')?;
                Stmt::Sort(Sort { dims, n, from: self.view()?, to })
            }
            "gather" | "scatter" => {
                let dims = self.sizes()?;
                let (size, stride) = (self.named("size")?, self.named("stride")?);
                self.mark(':')?;
                let to = self.view()?;
                let gathers = word == "gather";
                if !gathers {
                    self.mark('+')?;
                }
                self.mark('=')?;
                let from = self.view()?;
                self.keyword("at")?;
                let at = self.view()?;
                match gathers {
                    true => Stmt::Gather(Gather { dims, from, stride, size, at, to }),
                    false => Stmt::Scatter(Scatter { dims, from, at, to, stride, size }),
                }
            }
            "for" => {
                let (id, count, reverse) = self.loop_head()?;
                Stmt::Loop { id, count, reverse, body: self.block(Self::stmt)? }
            }
            _ => return Err(self.error_before(format!("`{word}` is no statement"))),
        })
    }

    fn gemm(&mut self) -> Result<Gemm> {
        let (batch, m) = (self.optional("batch")?, self.optional("m")?);
        let (n, k) = (self.named("n")?, self.named("k")?);
        self.mark(':')?;
        let dst = self.view()?;
        let accumulate = self.next_is(&Token::Mark('+'));
        self.mark('=')?;
        let src = self.view()?;
        self.mark('*')?;
        let weight = self.view()?;
        let bias = if self.next_is(&Token::Mark('+')) { Some(self.view()?) } else { None };
        Ok(Gemm { batch, m, n, k, src, weight, bias, dst, accumulate })
    }

    fn map(&mut self) -> Result<Map> {
        let mut map = Map { dims: self.sizes()?, loads: Vec::new(), code: Vec::new(), stores: Vec::new() };
        self.block(|p| p.map_line(&mut map))?;
        Ok(map)
    }

    /// `r3 = add r0, r1`, `load VIEW` or `store VIEW = r3`
    fn map_line(&mut self, map: &mut Map) -> Result<()> {
        let word = self.word("a register, `load`, `store`, `sum` or `max`")?;
        if word == "load" {
            map.loads.push(self.view()?);
        } else if let Some(mode) = MODES.into_iter().find(|m| mode(*m) == word) {
            let to = self.view()?;
            self.mark('=')?;
            map.stores.push(Store { to, value: self.register()?, mode });
        } else {
            let place = map.code.len();
            if numbered(&word, 'r') != Some(place as u32) {
                return Err(self.error_before(format!("expected `r{place}`, `load`, `store`, `sum` or `max`, found `{word}`")));
            }
            self.mark('=')?;
            let instr = self.instr(map)?;
            map.code.push(instr);
        }
        Ok(())
    }

    fn instr(&mut self, map: &mut Map) -> Result<Instr> {
        let word = self.word("an instruction")?;
        if let Some(op) = UNARY.into_iter().find(|op| op.name() == word) {
            return Ok(Instr::Unary(op, self.register()?));
        }
        if let Some(op) = BINARY.into_iter().find(|op| binary(*op) == word) {
            return Ok(Instr::Binary(op, self.register()?, self.next_register()?));
        }
        match word.as_str() {
            "load" if matches!(self.peek(), Token::Number(_)) => Ok(Instr::Load(self.number()?)),
            "load" => {
                map.loads.push(self.view()?);
                Ok(Instr::Load(map.loads.len() as u32 - 1))
            }
            "const" => Ok(Instr::Const(self.single()?)),
            "muladd" => Ok(Instr::MulAdd(self.register()?, self.next_register()?, self.next_register()?)),
            "select" => Ok(Instr::Select(self.register()?, self.next_register()?, self.next_register()?)),
            _ => Err(self.error_before(format!("`{word}` is no instruction"))),
        }
    }

    fn view(&mut self) -> Result<View> {
        let base = match *self.peek() {
            Token::Local(id) => Base::Local(LocalId(id)),
            Token::Value(id) => Base::Buffer(BufferId(id)),
            _ => return Err(self.expected("a view of a local like `$3[1]` or of a buffer like `%3[1]`")),
        };
        self.skip();
        let offset = if self.next_is(&Token::Mark('@')) { self.number()? } else { 0 };
        let strides = self.sizes()?;
        let loops = match self.peek() {
            Token::Mark('{') => self.list('{', '}', |p| {
                let id = p.loop_id()?;
                p.mark(':')?;
                Ok((id, p.number()?))
            })?,
            _ => Vec::new(),
        };
        let lanes = match self.next_is_word("splat") {
            true => Lanes::Splat,
            false if self.next_is_word("rows") => Lanes::Strided(self.sizes()?),
            false => Lanes::Unit,
        };
        Ok(View { base, offset, strides, loops, lanes })
    }

    fn buffer(&mut self) -> Result<BufferId> {
        let Token::Value(id) = *self.peek() else { return Err(self.expected("a buffer like `%3`")) };
        self.skip();
        Ok(BufferId(id))
    }

    fn buffers(&mut self) -> Result<Vec<BufferId>> {
        let mut list = vec![self.buffer()?];
        while self.next_is(&Token::Mark(',')) {
            list.push(self.buffer()?);
        }
        Ok(list)
    }

    fn loop_id(&mut self) -> Result<LoopId> {
        self.numbered('t', "a loop like `t0`").map(LoopId)
    }

    fn register(&mut self) -> Result<Reg> {
        self.numbered('r', "a register like `r0`").map(Reg)
    }

    fn next_register(&mut self) -> Result<Reg> {
        self.mark(',')?;
        self.register()
    }

    fn numbered(&mut self, letter: char, what: &str) -> Result<u32> {
        let number = match self.peek() {
            Token::Word(word) => numbered(word, letter),
            _ => None,
        };
        let number = number.ok_or_else(|| self.expected(what))?;
        self.skip();
        Ok(number)
    }

    fn sizes(&mut self) -> Result<Vec<usize>> {
        self.list('[', ']', Self::number)
    }

    /// Dimensions with their name; none if the name does not come.
    fn optional(&mut self, name: &str) -> Result<Vec<usize>> {
        if self.next_is_word(name) { self.sizes() } else { Ok(Vec::new()) }
    }

    /// A number with its name.
    fn named<N: std::str::FromStr>(&mut self, name: &str) -> Result<N> {
        self.keyword(name)?;
        self.number()
    }

    fn single(&mut self) -> Result<f32> {
        self.float(|bits| u32::try_from(bits).ok().map(f32::from_bits))
    }
}

/// The number of `t12` for the letter t.
fn numbered(word: &str, letter: char) -> Option<u32> {
    word.strip_prefix(letter)?.parse().ok()
}
