//! Running a kernel program allocates nothing, whichever kernels and statements it has.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use wmc_compiler::backend::cpu::Instance;
use wmc_compiler::ir::Noise;
use wmc_compiler::kernel::*;

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's contract is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn local(id: u32, strides: &[usize]) -> View {
    View { base: Base::Local(LocalId(id)), offset: 0, strides: strides.to_vec(), loops: vec![], lanes: Lanes::Unit }
}

fn unit(id: u32, strides: &[usize]) -> View {
    View { base: Base::Buffer(BufferId(id)), ..local(0, strides) }
}

fn splat(id: u32, strides: &[usize]) -> View {
    View { lanes: Lanes::Splat, ..unit(id, strides) }
}

fn strided(id: u32, rows: usize, strides: &[usize]) -> View {
    View { lanes: Lanes::Strided(vec![rows]), ..unit(id, strides) }
}

fn launch(works: Vec<Work>) -> Step {
    let kernel = |work| Kernel { name: "k".to_owned(), work, notes: Notes::default() };
    Step::Launch(works.into_iter().map(kernel).collect())
}

/// A program with every kind of step, kernel and statement.
fn program() -> Program {
    let (rows, k, n) = (40_usize, 12, 9);
    let buffer = |name: &str, len, kind| Buffer { name: name.to_owned(), len, kind };
    let wide = rows.next_multiple_of(LANES);
    let buffers = vec![
        buffer("x", rows * k, BufferKind::Input),
        buffer("weight", n * k, BufferKind::Input),
        buffer("packed", packed_len(n, k), BufferKind::Kept),
        buffer("hidden", n * wide, BufferKind::Temp),
        buffer("sums", n * n, BufferKind::Output),
        buffer("noise", 100, BufferKind::Output),
        buffer("subset", 24, BufferKind::Output),
        buffer("y", rows * n, BufferKind::Output),
        buffer("spare", n * wide, BufferKind::Temp),
    ];
    let gemm = Gemm {
        batch: vec![],
        m: vec![],
        n,
        k,
        src: local(0, &[1]),
        weight: splat(2, &[]),
        bias: None,
        dst: local(1, &[1]),
        accumulate: false,
    };
    let map = Map {
        dims: vec![n],
        loads: vec![local(1, &[1])],
        code: vec![Instr::Load(0), Instr::Unary(Unary::Tanh, Reg(0))],
        stores: vec![Store { to: unit(3, &[wide]), value: Reg(1), mode: Mode::Set }],
    };
    let body = vec![
        Stmt::Copy(Copy { dims: vec![k], from: strided(0, k, &[1]), to: local(0, &[1]) }),
        Stmt::Gemm(gemm),
        Stmt::Loop { id: LoopId(1), count: 2, reverse: true, body: vec![Stmt::Map(map)] },
        Stmt::Sort(Sort { dims: vec![], n, from: local(1, &[1]), to: local(2, &[1]) }),
        Stmt::Gather(Gather { dims: vec![n], from: local(1, &[0]), stride: 1, size: n, at: local(2, &[1]), to: local(3, &[1]) }),
        Stmt::Scatter(Scatter {
            dims: vec![n],
            from: local(3, &[1]),
            at: local(2, &[1]),
            to: local(1, &[0]),
            stride: 1,
            size: n,
        }),
        Stmt::Copy(Copy { dims: vec![n], from: local(3, &[1]), to: strided(7, n, &[1]) }),
    ];
    let lens = [k, n, n, n];
    let locals = (0..4).map(|i| Local { len: lens[i], offset: lens[..i].iter().sum() }).collect();
    let tile = Tile { rows: vec![rows], locals, arena: lens.iter().sum(), body };
    let contract = Contract {
        rows,
        batch: vec![],
        n: vec![n],
        i: vec![n],
        k: vec![],
        a: unit(3, &[wide]),
        b: Some(unit(3, &[wide])),
        dst: splat(4, &[n, 1]),
    };
    let pack = Pack { batch: vec![], n, k: vec![k], from: splat(1, &[k, 1]), to: BufferId(2) };
    let noise = Random { draw: 0, noise: Noise::Gaussian, last: 1, to: BufferId(5) };
    let subset = Random { draw: 1, noise: Noise::Subset { of: 10 }, last: 8, to: BufferId(6) };
    let round = vec![
        launch(vec![Work::Tile(tile), Work::Random(noise), Work::Random(subset)]),
        launch(vec![Work::Contract(contract)]),
        Step::Swap(BufferId(3), BufferId(8)),
    ];
    Program {
        name: "all".to_owned(),
        buffers,
        inputs: vec![BufferId(0), BufferId(1)],
        outputs: vec![BufferId(4), BufferId(5), BufferId(6), BufferId(7)],
        draws: vec!["noise".to_owned(), "subset".to_owned()],
        prepare: vec![launch(vec![Work::Pack(pack)])],
        steps: vec![Step::Loop { id: LoopId(0), count: 3, reverse: false, body: round }],
        ..Program::default()
    }
}

/// The only test of this file: others would allocate at the same time.
#[test]
fn a_run_allocates_nothing() {
    for threads in [1, 2, 3] {
        let mut instance = Instance::new(&program(), threads).expect("it is valid");
        for input in 0..2 {
            instance.input_mut(input).iter_mut().enumerate().for_each(|(i, x)| *x = (i % 7) as f32 / 7.0);
        }
        // Threads start, and set up what the standard library keeps for each.
        instance.prepare();
        instance.run(0, 0);
        std::thread::sleep(std::time::Duration::from_millis(50));
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for step in 0..50 {
            instance.prepare();
            instance.run(1, step);
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "with {threads} threads");
        assert!(instance.output(3).iter().any(|x| *x != 0.0));
    }
}
