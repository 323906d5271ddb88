//! The drawn graph of a kernel program: its operations and the data flow between them.
//!
//! The nodes are the operations as they run: instructions of maps, products, sums, sorts and moves. What only arranges
//! entries (renamed, cut, expanded axes) is a view of its operand and no node. An edge goes from what wrote entries last to
//! what reads them; parts of one array that lie interleaved are taken for one.

use std::collections::HashMap;

use compiler::kernel::access::Access;
use compiler::kernel::{
    Base, Binary, BufferId, BufferKind, Instr, Kernel, Map, Mode, Program, Reg, Step, Stmt, Unary, View, Work,
};

use super::lines::{Origins, joined};
use super::origin::origins;

/// An operation.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) label: String,
    /// What it is, and the lines it comes from.
    pub(crate) title: String,
    pub(crate) kernel: usize,
    /// Moves entries and computes nothing.
    pub(crate) small: bool,
}

/// How things stand together.
#[derive(Debug)]
pub(crate) enum Item {
    /// Operations, to be layered by what they read.
    Ops(Vec<usize>),
    /// Side by side.
    Beside(Vec<Item>),
    Frame {
        label: String,
        kind: Frame,
        items: Vec<Item>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// An entry point, or what is run when parameters have changed.
    Part,
    Kernel(usize),
    Loop,
}

#[derive(Debug, Default)]
pub(crate) struct Chart {
    pub(crate) nodes: Vec<Node>,
    pub(crate) edges: Vec<(usize, usize)>,
    /// Names of the kernels.
    pub(crate) kernels: Vec<String>,
    pub(crate) items: Vec<Item>,
}

impl Chart {
    /// Adds an entry point.
    pub(crate) fn add(&mut self, title: String, program: &Program, origins: &Origins<'_>) {
        let mut walk = Walk { chart: self, program, origins, writers: HashMap::new(), drawn: Vec::new() };
        let mut items = Vec::new();
        let prepare: Vec<Item> = walk.steps(&program.prepare);
        if !prepare.is_empty() {
            items.push(Item::Frame { label: "when parameters have changed".to_string(), kind: Frame::Part, items: prepare });
        }
        items.extend(walk.steps(&program.steps));
        self.items.push(Item::Frame { label: title, kind: Frame::Part, items });
        self.edges.sort_unstable();
        self.edges.dedup();
    }
}

/// Who wrote a part of an array.
#[derive(Debug, Clone, Copy)]
struct Writer {
    node: usize,
    from: usize,
    to: usize,
    /// Every entry between is written.
    dense: bool,
}

struct Walk<'a, 'c> {
    chart: &'c mut Chart,
    program: &'a Program,
    origins: &'a Origins<'a>,
    writers: HashMap<Base, Vec<Writer>>,
    /// Nodes of the kernel at hand, by the graph program's name for them.
    drawn: Vec<(usize, &'static str)>,
}

impl Walk<'_, '_> {
    fn steps(&mut self, steps: &[Step]) -> Vec<Item> {
        let mut items = Vec::new();
        for step in steps {
            match step {
                Step::Launch(kernels) => items.push(Item::Beside(kernels.iter().map(|k| self.kernel(k)).collect())),
                Step::Loop { count, body, .. } => {
                    let items_of = self.steps(body);
                    items.push(Item::Frame { label: format!("{count} times"), kind: Frame::Loop, items: items_of });
                }
                Step::Swap(a, b) => {
                    let [x, y] = [a, b].map(|id| self.writers.remove(&Base::Buffer(*id)).unwrap_or_default());
                    self.writers.insert(Base::Buffer(*a), y);
                    self.writers.insert(Base::Buffer(*b), x);
                }
            }
        }
        items
    }

    fn kernel(&mut self, kernel: &Kernel) -> Item {
        let id = self.chart.kernels.len();
        self.chart.kernels.push(kernel.name.clone());
        self.writers.retain(|base, _| matches!(base, Base::Buffer(_)));
        self.drawn.clear();
        let items = match &kernel.work {
            Work::Tile(tile) => self.body(&tile.body, id),
            Work::Contract(contract) => {
                let name = if contract.b.is_some() { "dot" } else { "sum" };
                let node = self.node(name, name, id, String::new());
                self.touch(node, &contract.accesses());
                vec![Item::Ops(vec![node])]
            }
            Work::Pack(pack) => {
                let node = self.small(
                    &kernel.name,
                    "pack",
                    id,
                    format!("{} inputs to {} outputs", pack.k.iter().product::<usize>(), pack.n),
                );
                self.touch(node, &[pack.from_access()]);
                self.fill(node, pack.to);
                self.tell_origins(kernel);
                return Item::Ops(vec![node]);
            }
            Work::Random(random) => {
                let node = self.node("random", "random", id, self.named(random.to));
                self.fill(node, random.to);
                vec![Item::Ops(vec![node])]
            }
        };
        self.tell_origins(kernel);
        let rows = super::rows(&kernel.work).iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let rows = match rows.as_str() {
            "" => rows,
            "1" => " · 1 row".to_string(),
            _ => format!(" · {rows} rows"),
        };
        Item::Frame { label: format!("{}{rows}", kernel.name), kind: Frame::Kernel(id), items }
    }

    /// Statements, cut where loops begin and end.
    fn body(&mut self, body: &[Stmt], kernel: usize) -> Vec<Item> {
        let mut items = Vec::new();
        let mut run = Vec::new();
        for stmt in body {
            if let Stmt::Loop { count, reverse, body, .. } = stmt {
                if !run.is_empty() {
                    items.push(Item::Ops(std::mem::take(&mut run)));
                }
                let label = format!("{count} steps{}", if *reverse { ", backwards" } else { "" });
                let inner = self.body(body, kernel);
                items.push(Item::Frame { label, kind: Frame::Loop, items: inner });
                continue;
            }
            let before = self.chart.nodes.len();
            self.stmt(stmt, kernel);
            run.extend(before..self.chart.nodes.len());
        }
        if !run.is_empty() {
            items.push(Item::Ops(run));
        }
        items
    }

    fn stmt(&mut self, stmt: &Stmt, kernel: usize) {
        let node = match stmt {
            Stmt::Map(map) => return self.map(map, &stmt.accesses(), kernel),
            Stmt::Gemm(gemm) => {
                let weight = match gemm.weight.base {
                    Base::Buffer(id) => self.named(id),
                    Base::Local(_) => String::new(),
                };
                let note = format!("{} inputs to {} outputs{weight}", gemm.k, gemm.n);
                self.node(&format!("dot {}→{}", gemm.k, gemm.n), "dot", kernel, note)
            }
            Stmt::Copy(copy) => {
                self.small("copy", "copy", kernel, format!("{} numbers a row", copy.dims.iter().product::<usize>()))
            }
            Stmt::Sort(sort) => self.node("argsort", "argsort", kernel, format!("{} entries", sort.n)),
            Stmt::Gather(_) => self.node("gather", "gather", kernel, String::new()),
            Stmt::Scatter(_) => self.node("scatter", "scatter", kernel, String::new()),
            Stmt::Loop { .. } => return,
        };
        self.touch(node, &stmt.accesses());
    }

    fn map(&mut self, map: &Map, accesses: &[Access<'_>], kernel: usize) {
        let size = map.dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let note = if size.is_empty() { "one number a row".to_string() } else { format!("{size} numbers a row") };
        // What each register comes from: nodes.
        let mut from: Vec<Vec<usize>> = Vec::with_capacity(map.code.len());
        for instr in &map.code {
            let reads = |regs: &[Reg]| -> Vec<usize> { regs.iter().flat_map(|r| from[r.0 as usize].clone()).collect() };
            let (label, name, reads) = match *instr {
                Instr::Load(i) => {
                    from.push(self.last_writers(&accesses[i as usize]));
                    continue;
                }
                Instr::Const(_) => {
                    from.push(Vec::new());
                    continue;
                }
                Instr::Unary(op, a) => (op.name(), origin_of(op), reads(&[a])),
                Instr::Binary(op, a, b) => {
                    let (label, name) = binary(op);
                    (label, name, reads(&[a, b]))
                }
                Instr::MulAdd(a, b, c) => ("mul add", "add", reads(&[a, b, c])),
                Instr::Select(a, b, c) => ("where", "where", reads(&[a, b, c])),
            };
            let node = self.node(label, name, kernel, note.clone());
            self.chart.edges.extend(reads.into_iter().map(|r| (r, node)));
            from.push(vec![node]);
        }
        for (store, access) in map.stores.iter().zip(&accesses[map.loads.len()..]) {
            let value = &map.code[store.value.0 as usize];
            let reads = from[store.value.0 as usize].clone();
            let node = match (store.mode, value) {
                (Mode::Sum, _) => Some(self.node("sum", "sum", kernel, note.clone())),
                (Mode::Max, _) => Some(self.node("max", "reduce_max", kernel, note.clone())),
                (Mode::Set, Instr::Load(_)) => Some(self.small("copy", "copy", kernel, note.clone())),
                (Mode::Set, Instr::Const(_)) => Some(self.small("fill", "copy", kernel, note.clone())),
                (Mode::Set, _) => None,
            };
            match node {
                Some(node) => {
                    self.chart.edges.extend(reads.into_iter().map(|r| (r, node)));
                    self.write(node, access);
                }
                None => reads.into_iter().for_each(|node| self.write(node, access)),
            }
        }
    }

    fn node(&mut self, label: &str, name: &'static str, kernel: usize, title: String) -> usize {
        self.chart.nodes.push(Node { label: label.to_string(), title, kernel, small: false });
        let node = self.chart.nodes.len() - 1;
        self.drawn.push((node, name));
        node
    }

    fn small(&mut self, label: &str, name: &'static str, kernel: usize, title: String) -> usize {
        let node = self.node(label, name, kernel, title);
        self.chart.nodes[node].small = true;
        node
    }

    /// What the operands of a statement say: reads first.
    fn touch(&mut self, node: usize, accesses: &[Access<'_>]) {
        for access in accesses.iter().filter(|a| a.role.reads()) {
            let writers = self.last_writers(access);
            self.chart.edges.extend(writers.into_iter().map(|w| (w, node)));
        }
        for access in accesses.iter().filter(|a| a.role.writes()) {
            self.write(node, access);
        }
    }

    fn last_writers(&self, access: &Access<'_>) -> Vec<usize> {
        let (from, to, _) = span(access);
        let all = self.writers.get(&access.view.base).map_or(&[][..], Vec::as_slice);
        all.iter().filter(|w| w.from <= to && from <= w.to).map(|w| w.node).collect()
    }

    fn write(&mut self, node: usize, access: &Access<'_>) {
        let (from, to, dense) = span(access);
        let all = self.writers.entry(access.view.base).or_default();
        let same = |w: &Writer| w.from == from && w.to == to && w.dense == dense;
        all.retain(|w| !(same(w) || dense && from <= w.from && w.to <= to));
        all.push(Writer { node, from, to, dense });
    }

    fn fill(&mut self, node: usize, buffer: BufferId) {
        let to = self.program.buffers[buffer.0 as usize].len;
        self.writers.insert(Base::Buffer(buffer), vec![Writer { node, from: 0, to, dense: true }]);
    }

    /// `, of w.packed`, unless the name says nothing.
    fn named(&self, id: BufferId) -> String {
        let buffer = &self.program.buffers[id.0 as usize];
        match buffer.kind {
            BufferKind::Const(_) => String::new(),
            _ => format!(", {}", buffer.name),
        }
    }

    fn tell_origins(&mut self, kernel: &Kernel) {
        let names: Vec<&str> = self.drawn.iter().map(|(_, name)| *name).collect();
        for ((node, name), spans) in self.drawn.iter().zip(origins(&names, &kernel.notes.ops)) {
            let node = &mut self.chart.nodes[*node];
            let lines = joined(&self.origins.lines(spans));
            let parts = [name.to_string(), node.title.trim_start_matches(", ").to_string(), kernel.name.clone(), lines];
            node.title = parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join("\n");
        }
    }
}

/// First and last place that a view covers, and whether it covers all between.
fn span(access: &Access<'_>) -> (usize, usize, bool) {
    let View { offset, strides, loops, .. } = access.view;
    let dims: Vec<(usize, usize)> = access.dims.iter().copied().zip(strides.iter().copied()).chain(access.beyond).collect();
    let further: usize = dims.iter().map(|(size, stride)| size.saturating_sub(1) * stride).sum();
    // Steps of a loop lie one after the other; which of them it is does not matter here.
    let moved = !loops.is_empty();
    let entries: usize = dims.iter().filter(|(_, stride)| *stride > 0).map(|(size, _)| *size).product();
    match (moved, access.view.base) {
        (true, _) => (0, usize::MAX, false),
        (false, Base::Local(_)) => (*offset, offset + further, entries == further + 1),
        // Rows lie between the entries of a buffer.
        (false, Base::Buffer(_)) => (*offset, offset + further, false),
    }
}

/// The operation of the graph program that it was: signs and `silu` are products there.
fn origin_of(op: Unary) -> &'static str {
    match op {
        Unary::Neg | Unary::Silu => "mul",
        other => other.name(),
    }
}

fn binary(op: Binary) -> (&'static str, &'static str) {
    match op {
        Binary::Add => ("add", "add"),
        Binary::Sub => ("sub", "add"),
        Binary::Mul => ("mul", "mul"),
        Binary::Max => ("max", "max"),
        Binary::Less => ("less", "less"),
    }
}
