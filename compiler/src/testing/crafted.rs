//! Artefacts that were made to do harm. Their sums are right; nobody who loads one may crash, hang or touch foreign memory.

use dsl::hir;

use crate::artefact::{Artefact, EntryPoint};
use crate::ir::{AxisId, Noise};
use crate::kernel::{
    Base, Buffer, BufferId, BufferKind, Gather, Gemm, Instr, Kernel, Lanes, LoopId, Map, Mode, Notes, Pack, Program, Random, Reg,
    Scatter, Step, Stmt, Store, Tile, View, Work,
};

/// One of them.
#[derive(Debug)]
pub struct Crafted {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// What the refusal says; none where the artefact is odd but right, and acts as the honest one does.
    pub refused: Option<&'static str>,
}

/// All of them, made out of an honest artefact with an entry point `plan` that reads `data.obs`.
pub fn crafted(honest: &Artefact) -> Vec<Crafted> {
    let mut all = Vec::new();
    let mut add = |name, refused, artefact: &Artefact| {
        let bytes = artefact.write().expect("an artefact can be written");
        all.push(Crafted { name, bytes, refused });
    };
    for (name, refused, change) in KERNELS {
        let mut artefact = honest.clone();
        let mut crafter = Crafter::of(plan(&mut artefact));
        change(&mut crafter);
        plan(&mut artefact).kernels = crafter.program;
        add(name, *refused, &artefact);
    }
    for (name, refused, change) in DOCUMENTS {
        let mut artefact = honest.clone();
        change(&mut artefact);
        add(name, Some(*refused), &artefact);
    }
    let text = |a: &Artefact| String::from_utf8(a.write().expect("an artefact can be written")).expect("it is a text");
    let newer = text(honest).replacen("wmx 1\n", "wmx 7\n", 1).into_bytes();
    all.push(Crafted { name: "another version", bytes: newer, refused: Some("its format is 7, written by `") });
    all
}

type Of<T, R> = &'static [(&'static str, R, fn(&mut T))];

const KERNELS: Of<Crafter, Option<&'static str>> = &[
    ("a gather out of an axis of size 0", Some("an axis of size 0 has no place to take"), |c| {
        let (obs, to) = (c.observation(), c.temp(16));
        let (from, at, to) = (splat(obs, 0), splat(obs, 0), unit(to, 0));
        c.tile(&[], Stmt::Gather(Gather { dims: vec![1], from, stride: 1, size: 0, at, to }));
    }),
    ("a scatter into an axis of size 0", Some("an axis of size 0 has no place to take"), |c| {
        let (obs, to) = (c.observation(), c.temp(16));
        c.tile(&[], ones(&[1], unit(to, 0)));
        let (from, at, to) = (splat(obs, 0), splat(obs, 0), unit(to, 0));
        c.tile(&[], Stmt::Scatter(Scatter { dims: vec![1], from, at, to, stride: 1, size: 0 }));
    }),
    // Bytes of this step do not fit 32 bits with a sign: generated code must not go backwards.
    ("a stride of 2^29", None, |c| {
        let to = c.temp((1 << 29) + 16);
        c.tile(&[16], ones(&[2], unit(to, 1 << 29)));
    }),
    ("a buffer of 10^15 numbers", Some("its buffers have more than"), |c| {
        c.temp(1_000_000_000_000_000);
    }),
    ("a buffer of 10^11 numbers", Some(", and the limit is "), |c| {
        let to = c.temp(100_000_000_000);
        c.tile(&[], ones(&[2], unit(to, 16)));
    }),
    ("a loop with the number 2^32 - 1", Some("loop t4294967295: numbers of loops are below"), |c| {
        c.program.steps.push(Step::Loop { id: LoopId(u32::MAX), count: 1, reverse: false, body: Vec::new() });
    }),
    ("a loop of 10^15 rounds", Some("operations, more than"), |c| {
        c.program.steps.push(Step::Loop { id: LoopId(1000), count: 1_000_000_000_000_000, reverse: false, body: Vec::new() });
    }),
    ("a subset of 2^32 - 1", Some("a subset of 4294967295: a place is a number up to"), |c| {
        let to = c.temp(1);
        c.program.draws.push("any".into());
        let draw = c.program.draws.len() as u32 - 1;
        c.launch(Work::Random(Random { draw, noise: Noise::Subset { of: u32::MAX }, last: 1, to }));
    }),
    ("two regions of 10^10 places", Some("too interleaved to be told apart"), |c| {
        let to = c.temp(10_000_000_000);
        let [Stmt::Map(mut map), Stmt::Map(other)] = [0, 16].map(|offset| {
            let to = View { offset, ..unit(to, 32) };
            ones(&[300_000_000], to)
        }) else {
            unreachable!("ones are maps")
        };
        map.stores.extend(other.stores);
        c.tile(&[16], Stmt::Map(map));
    }),
    ("rows that overflow", Some("operations, more than"), |c| {
        let to = c.temp(16);
        c.tile(&[1 << 40, 1 << 40], ones(&[1], unit(to, 0)));
    }),
    ("a product without outputs", None, |c| {
        let (obs, weight, to) = (c.observation(), c.buffer(0, BufferKind::Kept), c.temp(16));
        let from = View { strides: vec![0, 0], ..splat(obs, 0) };
        let pack = Pack { batch: vec![], n: 0, k: vec![1], from, to: weight };
        c.program.prepare.push(launch(Work::Pack(pack)));
        let weight = View { strides: vec![], ..splat(weight, 0) };
        let (src, dst) = (unit(obs, 0), unit(to, 0));
        let gemm = Gemm { batch: vec![], m: vec![], n: 0, k: 1, src, weight, bias: None, dst, accumulate: false };
        c.tile(&[], Stmt::Gemm(gemm));
    }),
];

const DOCUMENTS: Of<Artefact, &'static str> = &[
    ("an input of another length", "numbers in the table and", |a| {
        let obs = observation(&plan(a).interface);
        plan(a).interface.inputs[obs].axes.clear();
    }),
    ("an input with an axis that is not there", "has an axis that is not there", |a| {
        let obs = observation(&plan(a).interface);
        plan(a).interface.inputs[obs].axes.push(AxisId(u32::MAX));
    }),
    ("an output that updates nothing", "which is not there", |a| plan(a).interface.outputs[0].updates = Some(999)),
    ("a parameter with an axis that is not there", "the model has no axis 4294967295", |a| {
        a.model.params[0].axes[0] = hir::AxisId(u32::MAX);
    }),
    ("an expression with an axis that is not there", "the model has no axis 4294967295", |a| {
        a.model.exprs[0].axes.push(hir::AxisId(u32::MAX));
    }),
    ("an axis of 10^15 entries", "has the size 1000000000000000", |a| {
        let axis = a.model.params[0].axes[0];
        a.model.axes[axis.0 as usize].size = hir::Size::known(1_000_000_000_000_000);
    }),
    ("an initial value that reads the data", "reads what is not there when a model starts", |a| {
        let read = |n: &hir::Node| matches!(n.op, hir::Op::Input { .. });
        let read = a.model.exprs.iter().position(read).expect("it reads data");
        a.model.params[0].init = hir::ExprId(read as u32);
    }),
];

fn plan(artefact: &mut Artefact) -> &mut EntryPoint {
    artefact.entries.iter_mut().find(|e| e.name() == "plan").expect("it has an entry point `plan`")
}

fn observation(interface: &crate::ir::Program) -> usize {
    interface.input("data.obs").expect("it reads the observation")
}

/// Adds to an entry point's kernels.
struct Crafter {
    program: Program,
    observation: BufferId,
}

impl Crafter {
    fn of(entry: &EntryPoint) -> Crafter {
        let observation = entry.kernels.inputs[observation(&entry.interface)];
        Crafter { program: entry.kernels.clone(), observation }
    }

    fn observation(&self) -> BufferId {
        self.observation
    }

    fn buffer(&mut self, len: usize, kind: BufferKind) -> BufferId {
        self.program.buffers.push(Buffer { name: "crafted".into(), len, kind });
        BufferId(self.program.buffers.len() as u32 - 1)
    }

    fn temp(&mut self, len: usize) -> BufferId {
        self.buffer(len, BufferKind::Temp)
    }

    fn launch(&mut self, work: Work) {
        self.program.steps.push(launch(work));
    }

    fn tile(&mut self, rows: &[usize], stmt: Stmt) {
        self.launch(Work::Tile(Tile { rows: rows.to_vec(), locals: vec![], arena: 0, body: vec![stmt] }));
    }
}

fn launch(work: Work) -> Step {
    Step::Launch(vec![Kernel { name: "crafted".into(), work, notes: Notes::default() }])
}

fn unit(buffer: BufferId, stride: usize) -> View {
    View { base: Base::Buffer(buffer), offset: 0, strides: vec![stride], loops: vec![], lanes: Lanes::Unit }
}

fn splat(buffer: BufferId, stride: usize) -> View {
    View { lanes: Lanes::Splat, ..unit(buffer, stride) }
}

fn ones(dims: &[usize], to: View) -> Stmt {
    let stores = vec![Store { to, value: Reg(0), mode: Mode::Set }];
    Stmt::Map(Map { dims: dims.to_vec(), loads: vec![], code: vec![Instr::Const(1.0)], stores })
}
