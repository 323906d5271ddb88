//! What the processor's micro-kernels reach, beside a plain loop of fused multiply-adds in the same run.
//!
//! Each is a kernel program of its own that repeats one statement, on one thread; the best of many short runs counts, as
//! the machine may be shared.

use std::time::{Duration, Instant};

use wmc_compiler::backend::cpu::Instance;
use wmc_compiler::kernel::*;

fn main() {
    let peak = fma_rate();
    println!("fma loop            {:8.1} GFLOP/s", peak / 1e9);
    for (rows, k, n) in [(16, 182, 256), (16, 256, 256), (80, 182, 256), (80, 256, 256), (16, 128, 36), (16, 256, 1)] {
        let flops = 2.0 * (rows * k * n) as f64;
        let rate = flops / seconds(gemm(rows, k, n));
        println!("gemm {rows:3} x {k:3} x {n:3}  {:8.1} GFLOP/s {:5.1} % of the fma loop", rate / 1e9, 100.0 * rate / peak);
    }
    use Unary::*;
    for f in [Exp, Log, Tanh, Sigmoid, Softplus, Silu, Sin, Sqrt, Recip] {
        let rate = (256 * LANES) as f64 / seconds(unary(f));
        println!("{:10}          {:8.2} G/s", format!("{f:?}").to_lowercase(), rate / 1e9);
    }
    let numbers = (256 * LANES) as f64;
    let rate = numbers / seconds(elementwise());
    println!("a b + c (strip)     {:8.2} G/s", rate / 1e9);
    for state in [16, 128] {
        let (width, rows) = (128, 16);
        let time = seconds(scan(width, state));
        let states = (width * state * rows) as f64;
        println!("scan step, N = {state:3}   {:8.2} G states/s {:7.3} ns a state", states / time / 1e9, time / states * 1e9);
    }
    let numbers = (256 * LANES) as f64;
    for (name, program, each) in [
        ("gradient of silu", silu_gradient(), numbers),
        ("scan step, N = 16", scan(128, 16), (128 * 16 * LANES) as f64),
        ("scan's backward, N = 16", scan_gradient(128, 16), (128 * 16 * LANES) as f64),
    ] {
        let [strips, generated] = [Instance::of_strips as Make, Instance::new].map(|make| seconds_of(&program, make));
        let rate = |time: f64| each / time / 1e9;
        println!("{name:24} strips {:6.2} G/s, generated {:6.2} G/s: {:.2}x", rate(strips), rate(generated), strips / generated);
    }
    for (n, i, rows) in [(256, 256, 1024), (256, 182, 1024), (64, 6, 1024), (256, 256, 128)] {
        let flops = 2.0 * (n * i * rows) as f64;
        let rate = flops / seconds(contract(n, i, rows));
        println!("contract {n:3} x {i:3} x {rows:4} {:6.1} GFLOP/s {:5.1} %", rate / 1e9, 100.0 * rate / peak);
    }
    for threads in [1, 2] {
        let mut instance = Instance::new(&launches(32, 1000), threads).expect("it is valid");
        let time = best(|| instance.run(0, 0), 100) / 1000.0;
        println!("launch, {threads} threads   {:8.2} us", time * 1e6);
    }
}

/// The time of one repetition of a program that repeats something, in runs of about half a millisecond: short enough to
/// come through on a shared machine.
fn seconds(program: Program) -> f64 {
    seconds_of(&program, Instance::new)
}

type Make = fn(&Program, usize) -> Result<Instance, verify::VerifyError>;

fn seconds_of(program: &Program, make: Make) -> f64 {
    let once = timed(program, 1, 10, make);
    let repetitions = ((5e-4 / once) as usize).clamp(1, 20_000);
    timed(program, repetitions, 400, make)
}

fn timed(program: &Program, repetitions: usize, runs: usize, make: Make) -> f64 {
    let program = repeated(program.clone(), repetitions);
    let mut instance = make(&program, 1).unwrap_or_else(|e| panic!("{e}"));
    for i in 0..program.inputs.len() {
        instance.input_mut(i).iter_mut().enumerate().for_each(|(j, x)| *x = 0.01 + (j % 37) as f32 / 37.0);
    }
    instance.prepare();
    best(|| instance.run(0, 0), runs) / repetitions as f64
}

fn best(mut f: impl FnMut(), times: usize) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..times {
        let start = Instant::now();
        f();
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}

/// Floating-point operations a second of independent chains.
fn fma_rate() -> f64 {
    let kernels = micro::kernels::best();
    let rounds = 100_000;
    // SAFETY: the machine has been asked what it has.
    let time = best(|| assert!(unsafe { (kernels.multiply_adds)(std::hint::black_box(rounds)) } > 0.0), 400);
    (rounds * micro::peak::CHAINS * kernels.width * 2) as f64 / time
}

fn local(id: u32, strides: &[usize]) -> View {
    View { base: Base::Local(LocalId(id)), offset: 0, strides: strides.to_vec(), loops: vec![], lanes: Lanes::Unit }
}

fn unit(id: u32, strides: &[usize]) -> View {
    View { base: Base::Buffer(BufferId(id)), ..local(0, strides) }
}

fn splat(id: u32, strides: &[usize]) -> View {
    View { lanes: Lanes::Splat, ..unit(id, strides) }
}

fn kernel(work: Work) -> Vec<Kernel> {
    vec![Kernel { name: "bench".to_owned(), work, notes: Notes::default() }]
}

fn program(buffers: &[(usize, BufferKind)], work: Work) -> Program {
    let buffer =
        |(i, (len, kind)): (usize, &(usize, BufferKind))| Buffer { name: format!("b{i}"), len: *len, kind: kind.clone() };
    let of = |wanted: BufferKind| {
        let ids = buffers.iter().enumerate().filter(move |(_, (_, kind))| *kind == wanted);
        ids.map(|(i, _)| BufferId(i as u32)).collect()
    };
    Program {
        name: "bench".to_owned(),
        buffers: buffers.iter().enumerate().map(buffer).collect(),
        inputs: of(BufferKind::Input),
        outputs: of(BufferKind::Output),
        steps: vec![Step::Launch(kernel(work))],
        ..Program::default()
    }
}

/// Repeats the last statement of the only tile, or the launch.
fn repeated(mut program: Program, count: usize) -> Program {
    let Some(Step::Launch(kernels)) = program.steps.last_mut() else { unreachable!("there is one launch") };
    match &mut kernels[0].work {
        Work::Tile(tile) => {
            let body = vec![tile.body.pop().expect("there is a statement")];
            tile.body.push(Stmt::Loop { id: LoopId(0), count, reverse: false, body });
        }
        _ => program.steps = vec![Step::Loop { id: LoopId(0), count, reverse: false, body: program.steps }],
    }
    program
}

fn tile(rows: usize, lens: &[usize], body: Vec<Stmt>) -> Work {
    let locals = lens.iter().scan(0, |at, len| {
        *at += len;
        Some(Local { len: *len, offset: *at - len })
    });
    Work::Tile(Tile { rows: vec![rows], locals: locals.collect(), arena: lens.iter().sum(), body })
}

/// Sets a local to numbers of a size that occurs.
fn fill(id: u32, len: usize, value: f32) -> Stmt {
    Stmt::Map(Map {
        dims: vec![len],
        loads: vec![],
        code: vec![Instr::Const(value)],
        stores: vec![Store { to: local(id, &[1]), value: Reg(0), mode: Mode::Set }],
    })
}

fn gemm(rows: usize, k: usize, n: usize) -> Program {
    let gemm = Gemm {
        batch: vec![],
        m: vec![],
        n,
        k,
        src: local(0, &[1]),
        weight: splat(1, &[]),
        bias: Some(splat(2, &[1])),
        dst: local(1, &[1]),
        accumulate: false,
    };
    let buffers = [(n * k, BufferKind::Input), (packed_len(n, k), BufferKind::Kept), (n, BufferKind::Input)];
    let mut program = program(&buffers, tile(rows, &[k, n], vec![fill(0, k, 0.3), Stmt::Gemm(gemm)]));
    let pack = Pack { batch: vec![], n, k: vec![k], from: splat(0, &[k, 1]), to: BufferId(1) };
    program.prepare = vec![Step::Launch(kernel(Work::Pack(pack)))];
    program
}

fn unary(f: Unary) -> Program {
    let map = Map {
        dims: vec![256],
        loads: vec![local(0, &[1])],
        code: vec![Instr::Load(0), Instr::Unary(f, Reg(0))],
        stores: vec![Store { to: local(1, &[1]), value: Reg(1), mode: Mode::Set }],
    };
    program(&[], tile(16, &[256, 256], vec![fill(0, 256, 0.7), Stmt::Map(map)]))
}

fn elementwise() -> Program {
    let map = Map {
        dims: vec![256],
        loads: vec![local(0, &[1]), local(1, &[1]), local(2, &[1])],
        code: vec![Instr::Load(0), Instr::Load(1), Instr::Load(2), Instr::MulAdd(Reg(0), Reg(1), Reg(2))],
        stores: vec![Store { to: local(3, &[1]), value: Reg(3), mode: Mode::Set }],
    };
    let body = vec![fill(0, 256, 0.7), fill(1, 256, 0.7), fill(2, 256, 0.7), Stmt::Map(map)];
    program(&[], tile(16, &[256; 4], body))
}

/// `h = exp(dt A) h + dx B; y = sum of h C`
fn scan(width: usize, state: usize) -> Program {
    let h = local(0, &[state, 1]);
    let loads =
        vec![local(1, &[1, 0]), splat(0, &[state, 1]), h.clone(), local(2, &[1, 0]), local(3, &[0, 1]), local(4, &[0, 1])];
    let code = vec![
        Instr::Load(0),
        Instr::Load(1),
        Instr::Binary(Binary::Mul, Reg(0), Reg(1)),
        Instr::Unary(Unary::Exp, Reg(2)),
        Instr::Load(2),
        Instr::Load(3),
        Instr::Load(4),
        Instr::Binary(Binary::Mul, Reg(5), Reg(6)),
        Instr::MulAdd(Reg(3), Reg(4), Reg(7)),
        Instr::Load(5),
        Instr::Binary(Binary::Mul, Reg(8), Reg(9)),
    ];
    let stores =
        vec![Store { to: h, value: Reg(8), mode: Mode::Set }, Store { to: local(5, &[1, 0]), value: Reg(10), mode: Mode::Sum }];
    let step = Stmt::Map(Map { dims: vec![width, state], loads, code, stores });
    let lens = [width * state, width, width, state, state, width];
    let mut body: Vec<Stmt> = lens.iter().enumerate().map(|(i, len)| fill(i as u32, *len, -0.3)).collect();
    body.push(step);
    program(&[(width * state, BufferKind::Input)], tile(16, &lens, body))
}

/// `g (s + x s (1 - s)), x s` with `s = sigmoid x`
fn silu_gradient() -> Program {
    let code = vec![
        Instr::Load(0),
        Instr::Load(1),
        Instr::Unary(Unary::Sigmoid, Reg(0)),
        Instr::Const(1.0),
        Instr::Binary(Binary::Sub, Reg(3), Reg(2)),
        Instr::Binary(Binary::Mul, Reg(2), Reg(4)),
        Instr::MulAdd(Reg(0), Reg(5), Reg(2)),
        Instr::Binary(Binary::Mul, Reg(1), Reg(6)),
        Instr::Unary(Unary::Silu, Reg(0)),
    ];
    let store = |id: u32, value: u32| Store { to: local(id, &[1]), value: Reg(value), mode: Mode::Set };
    let loads = vec![local(0, &[1]), local(1, &[1])];
    let map = Map { dims: vec![256], loads, code, stores: vec![store(2, 7), store(3, 8)] };
    program(&[], tile(16, &[256; 4], vec![fill(0, 256, 0.7), fill(1, 256, 0.2), Stmt::Map(map)]))
}

/// `g = g + y C; dx = sum of g B, dB = sum of g u, ddt = sum of g h A a; g = g a`, with the state h and the decay a at hand.
fn scan_gradient(width: usize, state: usize) -> Program {
    let (all, wide, deep) = (&[state, 1][..], &[1, 0][..], &[0, 1][..]);
    let views = [(1, wide), (2, deep), (0, all), (3, deep), (4, wide), (5, all), (6, all)];
    let mut loads: Vec<View> = views.iter().map(|(id, strides)| local(*id, strides)).collect();
    loads.push(splat(0, all));
    let mul = |a: u32, b: u32| Instr::Binary(Binary::Mul, Reg(a), Reg(b));
    let mut code: Vec<Instr> = (0..8).map(Instr::Load).collect();
    code.extend([Instr::MulAdd(Reg(0), Reg(1), Reg(2)), mul(8, 3), mul(8, 4), mul(8, 5), mul(11, 6), mul(12, 7), mul(8, 6)]);
    let store = |id: u32, strides: &[usize], value: u32, mode: Mode| Store { to: local(id, strides), value: Reg(value), mode };
    let stores = vec![
        store(0, all, 14, Mode::Set),
        store(7, wide, 9, Mode::Sum),
        store(8, deep, 10, Mode::Sum),
        store(9, wide, 13, Mode::Sum),
    ];
    let step = Stmt::Map(Map { dims: vec![width, state], loads, code, stores });
    let lens = [width * state, width, state, state, width, width * state, width * state, width, state, width];
    let mut body: Vec<Stmt> = lens.iter().enumerate().map(|(i, len)| fill(i as u32, *len, 0.3)).collect();
    body.push(step);
    program(&[(width * state, BufferKind::Input)], tile(16, &lens, body))
}

fn contract(n: usize, i: usize, rows: usize) -> Program {
    let buffers = [(n * rows, BufferKind::Input), (i * rows, BufferKind::Input), (n * i, BufferKind::Output)];
    let contract = Contract {
        rows,
        batch: vec![],
        n: vec![n],
        i: vec![i],
        k: vec![],
        a: unit(0, &[rows]),
        b: Some(unit(1, &[rows])),
        dst: splat(2, &[i, 1]),
    };
    program(&buffers, Work::Contract(contract))
}

/// Launches that do next to nothing.
fn launches(rows: usize, count: usize) -> Program {
    let map = Map {
        dims: vec![],
        loads: vec![],
        code: vec![Instr::Const(1.0)],
        stores: vec![Store { to: unit(0, &[]), value: Reg(0), mode: Mode::Set }],
    };
    let mut program = program(&[(rows, BufferKind::Output)], tile(rows, &[], vec![Stmt::Map(map)]));
    program.steps = vec![Step::Loop { id: LoopId(0), count, reverse: false, body: program.steps }];
    program
}
