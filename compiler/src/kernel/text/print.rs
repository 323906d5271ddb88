//! Printing.

use std::fmt::Write;

use super::super::{
    Base, Binary, Buffer, BufferId, BufferKind, Instr, Kernel, Lanes, LoopId, Map, Mode, Notes, Program, Reg, Step, Stmt, Tile,
    Unary, View, Work,
};
use crate::ir::Noise;
use crate::ir::text::word;

pub fn print(program: &Program) -> String {
    let mut printer = Printer { text: String::new(), depth: 0 };
    printer.program(program);
    printer.text
}

struct Printer {
    text: String,
    depth: usize,
}

impl Printer {
    fn program(&mut self, program: &Program) {
        self.line(format!("program {}", word(&program.name)));
        self.section(program.buffers.iter().enumerate().map(|(i, b)| buffer(i, b)));
        self.section(program.draws.iter().map(|name| format!("draw {}", word(name))));
        let list = |name, ids: &[BufferId]| (!ids.is_empty()).then(|| format!("{name} {}", join(ids, |id| show(*id))));
        self.section([list("input", &program.inputs), list("output", &program.outputs)].into_iter().flatten());
        for (name, steps) in [("prepare", &program.prepare), ("steps", &program.steps)] {
            if !steps.is_empty() {
                self.text.push('\n');
                self.block(name.to_string(), |p| p.steps(steps));
            }
        }
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Launch(kernels) => self.block("launch".to_string(), |p| kernels.iter().for_each(|k| p.kernel(k))),
                Step::Loop { id, count, reverse, body } => self.block(loop_head(*id, *count, *reverse), |p| p.steps(body)),
                Step::Swap(a, b) => self.line(format!("swap {}, {}", show(*a), show(*b))),
            }
        }
    }

    fn kernel(&mut self, kernel: &Kernel) {
        self.notes(&kernel.notes);
        let name = word(&kernel.name);
        match &kernel.work {
            Work::Tile(tile) => self.tile(&name, tile),
            Work::Contract(c) => {
                let (batch, n) = (optional("batch", &c.batch), optional("n", &c.n));
                let (i, k) = (optional("i", &c.i), optional("k", &c.k));
                let b = c.b.as_ref().map_or(String::new(), |b| format!(" * {}", view(b)));
                let (dst, a) = (view(&c.dst), view(&c.a));
                self.line(format!("contract {name} rows {}{batch}{n}{i}{k}: {dst} = {a}{b}", c.rows));
            }
            Work::Pack(p) => {
                let (batch, k) = (optional("batch", &p.batch), dims(&p.k));
                self.line(format!("pack {name}{batch} n {} k {k}: {} = {}", p.n, show(p.to), view(&p.from)));
            }
            Work::Random(r) => {
                let noise = match r.noise {
                    Noise::Gaussian => "gaussian".to_string(),
                    Noise::Uniform => "uniform".to_string(),
                    Noise::Subset { of } => format!("subset {of}"),
                };
                let last = if r.last == 0 { String::new() } else { format!(" last {}", r.last) };
                self.line(format!("random {name} draw {} {noise}{last}: {}", r.draw, show(r.to)));
            }
        }
    }

    /// Neighbours of one kind are counted; places in the source need the source and stay out.
    fn notes(&mut self, notes: &Notes) {
        let plain = |text: &str| text.replace(['\n', '\r'], " ");
        let mut ops: Vec<(&str, usize)> = Vec::new();
        for (op, _) in &notes.ops {
            match ops.last_mut() {
                Some((last, count)) if last == op => *count += 1,
                _ => ops.push((op, 1)),
            }
        }
        if !ops.is_empty() {
            let ops = join(&ops, |(op, count)| if *count == 1 { plain(op) } else { format!("{count} {}", plain(op)) });
            self.line(format!("; {ops}"));
        }
        if !notes.reason.is_empty() {
            self.line(format!("; ends: {}", plain(&notes.reason)));
        }
    }

    fn tile(&mut self, name: &str, tile: &Tile) {
        let rows = optional("rows", &tile.rows);
        self.block(format!("tile {name}{rows} arena {}", tile.arena), |p| {
            for (i, local) in tile.locals.iter().enumerate() {
                p.line(format!("local ${i}: {} @ {}", local.len, local.offset));
            }
            p.body(&tile.body);
        });
    }

    fn body(&mut self, body: &[Stmt]) {
        for stmt in body {
            let name = stmt.name();
            match stmt {
                Stmt::Map(map) => self.block(format!("map {}", dims(&map.dims)), |p| p.map(map)),
                Stmt::Gemm(g) => {
                    let (batch, m) = (optional("batch", &g.batch), optional("m", &g.m));
                    let bias = g.bias.as_ref().map_or(String::new(), |bias| format!(" + {}", view(bias)));
                    let sign = if g.accumulate { "+=" } else { "=" };
                    let (dst, src, weight) = (view(&g.dst), view(&g.src), view(&g.weight));
                    self.line(format!("{name}{batch}{m} n {} k {}: {dst} {sign} {src} * {weight}{bias}", g.n, g.k));
                }
                Stmt::Copy(c) => self.line(format!("{name} {}: {} = {}", dims(&c.dims), view(&c.to), view(&c.from))),
                Stmt::Sort(s) => {
                    self.line(format!("{name} {} n {}: {} = {}", dims(&s.dims), s.n, view(&s.to), view(&s.from)));
                }
                Stmt::Gather(g) => {
                    let (to, from, at) = (view(&g.to), view(&g.from), view(&g.at));
                    let head = format!("{name} {} size {} stride {}", dims(&g.dims), g.size, g.stride);
                    self.line(format!("{head}: {to} = {from} at {at}"));
                }
                Stmt::Scatter(s) => {
                    let (to, from, at) = (view(&s.to), view(&s.from), view(&s.at));
                    let head = format!("{name} {} size {} stride {}", dims(&s.dims), s.size, s.stride);
                    self.line(format!("{head}: {to} += {from} at {at}"));
                }
                Stmt::Loop { id, count, reverse, body } => self.block(loop_head(*id, *count, *reverse), |p| p.body(body)),
            }
        }
    }

    fn map(&mut self, map: &Map) {
        let mut declared = 0;
        for (i, instr) in map.code.iter().enumerate() {
            if let Instr::Load(load) = instr {
                let load = *load as usize;
                if let Some(loaded) = map.loads.get(load).filter(|_| load >= declared) {
                    map.loads[declared..load].iter().for_each(|v| self.line(format!("load {}", view(v))));
                    declared = load + 1;
                    self.line(format!("r{i} = load {}", view(loaded)));
                    continue;
                }
            }
            self.line(format!("r{i} = {}", code(instr)));
        }
        map.loads[declared..].iter().for_each(|v| self.line(format!("load {}", view(v))));
        for store in &map.stores {
            self.line(format!("{} {} = {}", mode(store.mode), view(&store.to), register(store.value)));
        }
    }

    /// Lines of one kind, set off by an empty one.
    fn section(&mut self, lines: impl Iterator<Item = String>) {
        let mut lines = lines.peekable();
        if lines.peek().is_some() {
            self.text.push('\n');
        }
        lines.for_each(|line| self.line(line));
    }

    fn block(&mut self, head: String, body: impl FnOnce(&mut Self)) {
        self.line(format!("{head} {{"));
        self.depth += 1;
        body(self);
        self.depth -= 1;
        self.line("}".to_string());
    }

    fn line(&mut self, text: String) {
        // Writing into a string does not fail.
        let _ = writeln!(self.text, "{:1$}{text}", "", 2 * self.depth);
    }
}

fn buffer(i: usize, buffer: &Buffer) -> String {
    let (name, len) = (word(&buffer.name), buffer.len);
    let kind = match &buffer.kind {
        BufferKind::Input => format!("input {len}"),
        BufferKind::Output => format!("output {len}"),
        BufferKind::Temp => format!("temp {len}"),
        BufferKind::Kept => format!("kept {len}"),
        BufferKind::Const(data) => format!("const {len} [{}]", join(data, |x| float(*x))),
    };
    format!("buffer %{i} {name}: {kind}")
}

fn loop_head(id: LoopId, count: usize, reverse: bool) -> String {
    let reverse = if reverse { " reverse" } else { "" };
    format!("for t{} in {count}{reverse}", id.0)
}

fn view(view: &View) -> String {
    let base = match view.base {
        Base::Local(id) => format!("${}", id.0),
        Base::Buffer(id) => show(id),
    };
    let offset = if view.offset == 0 { String::new() } else { format!("@{}", view.offset) };
    let loops = match &view.loops[..] {
        [] => String::new(),
        loops => format!("{{{}}}", join(loops, |(id, distance)| format!("t{}: {distance}", id.0))),
    };
    let lanes = match &view.lanes {
        Lanes::Unit => String::new(),
        Lanes::Splat => " splat".to_string(),
        Lanes::Strided(strides) => format!(" rows {}", dims(strides)),
    };
    format!("{base}{offset}{}{loops}{lanes}", dims(&view.strides))
}

fn code(instr: &Instr) -> String {
    match instr {
        Instr::Load(load) => format!("load {load}"),
        Instr::Const(c) => format!("const {}", float(*c)),
        Instr::Unary(op, a) => format!("{} {}", op.name(), register(*a)),
        Instr::Binary(op, a, b) => format!("{} {}", binary(*op), join(&[*a, *b], |r| register(*r))),
        Instr::MulAdd(a, b, c) => format!("muladd {}", join(&[*a, *b, *c], |r| register(*r))),
        Instr::Select(a, b, c) => format!("select {}", join(&[*a, *b, *c], |r| register(*r))),
    }
}

pub(super) const UNARY: [Unary; 13] = [
    Unary::Neg,
    Unary::Exp,
    Unary::Log,
    Unary::Sin,
    Unary::Sqrt,
    Unary::Recip,
    Unary::Floor,
    Unary::Tanh,
    Unary::Sigmoid,
    Unary::Softplus,
    Unary::Abs,
    Unary::Sign,
    Unary::Silu,
];

pub(super) const BINARY: [Binary; 5] = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Less];

pub(super) fn binary(op: Binary) -> &'static str {
    match op {
        Binary::Add => "add",
        Binary::Sub => "sub",
        Binary::Mul => "mul",
        Binary::Max => "max",
        Binary::Less => "less",
    }
}

pub(super) const MODES: [Mode; 3] = [Mode::Set, Mode::Sum, Mode::Max];

pub(super) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Set => "store",
        Mode::Sum => "sum",
        Mode::Max => "max",
    }
}

fn register(r: Reg) -> String {
    format!("r{}", r.0)
}

fn show(id: BufferId) -> String {
    format!("%{}", id.0)
}

fn dims(sizes: &[usize]) -> String {
    format!("[{}]", join(sizes, usize::to_string))
}

/// Dimensions with their name, if there are any.
fn optional(name: &str, sizes: &[usize]) -> String {
    if sizes.is_empty() { String::new() } else { format!(" {name} {}", dims(sizes)) }
}

fn join<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(", ")
}

/// The shortest digits that parse back to the same bits; a NaN that is not the usual one by its bits.
fn float(c: f32) -> String {
    match c {
        _ if c.to_bits() == f32::NAN.to_bits() => "nan".to_string(),
        _ if c.is_nan() => format!("nan({:#x})", c.to_bits()),
        _ if c == c.trunc() && c.abs() < 1e7 => format!("{c}"),
        _ => format!("{c:?}"),
    }
}
