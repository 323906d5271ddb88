//! Kernel programs on the processor.
//!
//! An `Instance` has a program compiled to micro-kernels of the best instruction set that the machine has, the memory
//! that it needs (planned once, allocated once) and the workers that run it. The kernels of a launch are cut into items,
//! which the workers take from one counter. What an item computes, and in which order, depends on the program alone:
//! results have the same bits for any number of workers.
//!
//! | file | subject |
//! |---|---|
//! | `micro` (a crate) | micro-kernels, written once for all instruction sets, chosen at run time |
//! | `jit` | maps as machine code, where the machine has it |
//! | `map` with `strips`, `tile`, `whole` | statements and kernels of the program, compiled and run |
//! | `place`, `memory`, `blocks` | where operands are |
//! | `target` | what passes for kernels and the fuser know of it |
//! | `pool` | workers |
//! | `executable` | an instance as the other parts of the program see it |
//! | `guard` | memory between pages that nobody may touch, for tests |

mod blocks;
mod executable;
#[cfg(feature = "testing")]
pub mod guard;
mod jit;
mod map;
mod memory;
mod place;
mod pool;
mod strips;
mod target;
#[cfg(test)]
mod tests;
mod tile;
mod whole;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::budget;
use crate::ir::Noise;
use crate::kernel::verify::{VerifyError, verify};
use crate::kernel::{Base, BufferId, BufferKind, Lanes, LoopId, Program, Step, Stmt, Tile, View, Work};
use crate::memory::{Needs, Reserved};
use jit::{Jit, Text};
use map::{MapNeeds, Scratch};
use memory::Memory;
use micro::kernels::{self, Kernels};
use place::{Place, Worker};
use pool::{Pool, Task};
pub use target::TARGET;
use tile::{Own, TileCode};
use whole::{ContractCode, Draws, PackCode, RandomCode};

/// What a caller can do wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the program draws no `{0}`")]
    NoDraw(String),
    #[error("the draw `{name}` has {expected} numbers, {found} were given")]
    DrawLength { name: String, expected: usize, found: usize },
}

/// A program that is ready to run.
#[derive(Debug)]
pub struct Instance {
    pool: Pool<Machine>,
    prepare: Vec<Run>,
    steps: Vec<Run>,
    inputs: Vec<BufferId>,
    outputs: Vec<BufferId>,
    /// Outputs that become inputs when the caller says so.
    updates: Vec<(usize, usize)>,
    lens: Vec<usize>,
    /// What it counts against the process's limit.
    _reserved: Option<Reserved>,
}

/// A step of the program.
#[derive(Debug, Clone)]
enum Run {
    Launch(usize),
    Loop { var: usize, count: usize, reverse: bool, body: Vec<Run> },
    Swap(usize, usize),
}

/// What the workers share.
#[derive(Debug)]
struct Machine {
    kernels: &'static Kernels,
    text: Text,
    memory: Memory,
    /// Where each buffer starts, in numbers.
    starts: Vec<AtomicUsize>,
    /// How far a block of rows is from the one before, in each buffer that has rows.
    distances: Vec<usize>,
    launches: Vec<Launch>,
    /// The launch that runs.
    current: AtomicUsize,
    /// Variables of the loops of steps.
    vars: Vec<AtomicUsize>,
    draws: Draws,
    clock: [AtomicU64; 2],
    workers: Vec<Mutex<Private>>,
}

/// What a worker has for himself.
#[derive(Debug)]
struct Private {
    arena: Memory,
    vars: Vec<usize>,
    own: Own,
    places: Vec<u32>,
    /// What a sum over rows turns.
    turned: Memory,
}

/// Kernels that run at the same time, with the number of items up to each.
#[derive(Debug)]
struct Launch {
    kernels: Vec<(usize, Code)>,
    items: usize,
}

#[derive(Debug)]
enum Code {
    Tile(TileCode),
    Contract(ContractCode),
    Pack(PackCode),
    Random(RandomCode),
}

impl Code {
    /// How long an item takes, compared with those of other sums over rows; what else there is goes first.
    fn length(&self) -> usize {
        if let Code::Contract(contract) = self { contract.length() } else { usize::MAX }
    }
}

impl Instance {
    /// Compiles the program for this machine, with `threads` workers (at least the caller).
    pub fn new(program: &Program, threads: usize) -> Result<Instance, VerifyError> {
        Instance::with(program, threads, kernels::best(), true)
    }

    /// [`Instance::new`] without generated code, which has the same bits: to measure what that brings.
    pub fn of_strips(program: &Program, threads: usize) -> Result<Instance, VerifyError> {
        Instance::with(program, threads, kernels::best(), false)
    }

    fn with(program: &Program, threads: usize, kernels: &'static Kernels, generate: bool) -> Result<Instance, VerifyError> {
        // All that runs without checks relies on it.
        verify(program)?;
        let (program, distances) = &blocks::lay_out(program)?;
        let threads = threads.max(1);
        let target = Target { kernels, jit: Jit::new(generate, kernels) };
        let mut compiler = Compiler { program, distances, target, threads, launches: Vec::new() };
        let prepare = compiler.steps(&program.prepare);
        let steps = compiler.steps(&program.steps);
        let Compiler { launches, target, .. } = compiler;
        let plan = memory::plan(program);
        let needs = launches.iter().flat_map(|launch| &launch.kernels).fold(Room::default(), |room, (_, code)| room.with(code));
        let numbers = needs.numbers().saturating_mul(threads).saturating_add(plan.total);
        budget::fits((numbers as u64).saturating_mul(size_of::<f32>() as u64))?;
        let worker = |_| Private::new(&needs, loop_count(program)).map(Mutex::new);
        let workers = (0..threads).map(worker).collect::<Result<Vec<_>, String>>()?;
        let machine = Machine {
            kernels,
            text: target.jit.finish(),
            memory: Memory::of_buffers(&plan, program)?,
            starts: plan.offsets.iter().map(|at| AtomicUsize::new(*at)).collect(),
            distances: distances.clone(),
            workers,
            launches,
            current: AtomicUsize::new(0),
            vars: (0..loop_count(program)).map(|_| AtomicUsize::new(0)).collect(),
            draws: Draws::new(program),
            clock: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        let mut instance = Instance {
            pool: Pool::new(machine, threads),
            prepare,
            steps,
            inputs: program.inputs.clone(),
            outputs: program.outputs.clone(),
            updates: Vec::new(),
            lens: program.buffers.iter().map(|b| b.len).collect(),
            _reserved: None,
        };
        for (b, buffer) in program.buffers.iter().enumerate() {
            if let BufferKind::Const(numbers) = &buffer.kind {
                instance.buffer_mut(b).copy_from_slice(numbers);
            }
        }
        Ok(instance)
    }

    /// Bytes that the instance has allocated for buffers and for the workers' locals; [`needs`] tells them beforehand.
    pub fn bytes(&self) -> usize {
        let machine = self.pool.task();
        let private = |worker: &Mutex<Private>| {
            let worker = lock(worker);
            worker.arena.bytes() + worker.own.scratch.bytes() + worker.turned.bytes()
        };
        machine.memory.bytes() + machine.workers.iter().map(private).sum::<usize>()
    }

    /// The instruction set that was chosen.
    pub fn instruction_set(&self) -> &'static str {
        self.pool.task().kernels.name
    }

    fn span(&self, buffer: usize) -> (usize, usize) {
        (self.pool.task().starts[buffer].load(Ordering::Relaxed), self.lens[buffer])
    }

    fn buffer(&self, buffer: usize) -> &[f32] {
        let (start, len) = self.span(buffer);
        // SAFETY: workers write only during a launch, which borrows the instance for itself.
        unsafe { self.pool.task().memory.numbers(start, len) }
    }

    fn buffer_mut(&mut self, buffer: usize) -> &mut [f32] {
        let (start, len) = self.span(buffer);
        // SAFETY: workers read and write only during a launch; the instance is borrowed for this.
        unsafe { self.pool.task().memory.numbers_mut(start, len) }
    }

    /// The numbers of an input, row-major, to be written by the caller.
    pub fn input_mut(&mut self, input: usize) -> &mut [f32] {
        self.buffer_mut(self.inputs[input].0 as usize)
    }

    /// The numbers of an output, row-major.
    pub fn output(&self, output: usize) -> &[f32] {
        self.buffer(self.outputs[output].0 as usize)
    }

    /// An output becomes the input of the next run.
    pub fn copy_output_to_input(&mut self, output: usize, input: usize) {
        let (from, from_len) = self.span(self.outputs[output].0 as usize);
        let (to, to_len) = self.span(self.inputs[input].0 as usize);
        assert_eq!(from_len, to_len, "an output updates an input of its own size");
        if from != to {
            let memory = &self.pool.task().memory;
            // SAFETY: workers touch them only during a launch; places of an input and an output do not overlap.
            unsafe { memory.numbers_mut(to, to_len).copy_from_slice(memory.numbers(from, from_len)) };
        }
    }

    /// Gives a draw's numbers instead of generating them, or generates them again.
    pub fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), Error> {
        let machine = self.pool.task();
        let index = machine.draws.names.iter().position(|n| n == name).ok_or_else(|| Error::NoDraw(name.to_owned()))?;
        let draws = machine.launches.iter().flat_map(|launch| &launch.kernels);
        let lens = draws.filter_map(|(_, code)| if let Code::Random(random) = code { Some(random.draw()) } else { None });
        if let Some(numbers) = numbers {
            for (_, expected) in lens.filter(|(draw, _)| *draw == index) {
                if numbers.len() != expected {
                    return Err(Error::DrawLength { name: name.to_owned(), expected, found: numbers.len() });
                }
            }
        }
        *machine.draws.given[index].write().unwrap_or_else(PoisonError::into_inner) = numbers.map(Box::from);
        Ok(())
    }

    /// Computes what depends on parameters alone: to be called once, and when they have changed.
    pub fn prepare(&mut self) {
        run(&mut self.pool, &self.prepare);
    }

    /// Runs the program. Random draws depend on the seed and on the step.
    pub fn run(&mut self, seed: u64, step: u64) {
        let [s, t] = &self.pool.task().clock;
        s.store(seed, Ordering::Relaxed);
        t.store(step, Ordering::Relaxed);
        run(&mut self.pool, &self.steps);
    }
}

/// What an instance of the program takes, computed without allocating it.
pub fn needs(program: &Program, threads: usize) -> Needs {
    let threads = threads.max(1);
    let (mut tiles, mut turned, mut places, mut offsets) = (0, 0, 0, 0);
    program.each_kernel(&mut |kernel| match &kernel.work {
        Work::Tile(tile) => tiles = tiles.max(tile::worker_bytes(tile, threads)),
        Work::Contract(contract) => {
            turned = turned.max(whole::turned_bytes(contract));
            offsets += whole::offset_bytes(contract);
        }
        Work::Random(random) => {
            if let Noise::Subset { of } = random.noise {
                places = places.max(4 * u64::from(of));
            }
        }
        Work::Pack(_) => {}
    });
    let buffers = memory::plan(program).total as u64 * size_of::<f32>() as u64;
    Needs { buffers: buffers + offsets, thread: tiles + turned + places, threads: threads as u64 }
}

fn run(pool: &mut Pool<Machine>, steps: &[Run]) {
    for step in steps {
        let machine = pool.task();
        match step {
            Run::Launch(launch) => {
                machine.current.store(*launch, Ordering::Relaxed);
                let items = machine.launches[*launch].items;
                pool.run(items);
            }
            Run::Loop { var, count, reverse, body } => {
                for i in 0..*count {
                    pool.task().vars[*var].store(if *reverse { count - 1 - i } else { i }, Ordering::Relaxed);
                    run(pool, body);
                }
            }
            Run::Swap(a, b) => {
                let [a, b] = [a, b].map(|buffer| &machine.starts[*buffer]);
                let a_start = a.load(Ordering::Relaxed);
                a.store(b.swap(a_start, Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task for Machine {
    fn work(&self, worker: usize, item: usize) {
        let mut private = lock(&self.workers[worker]);
        let Private { arena, vars, own, places, turned } = &mut *private;
        vars.iter_mut().zip(&self.vars).for_each(|(own, shared)| *own = shared.load(Ordering::Relaxed));
        let mut worker = Worker {
            text: &self.text,
            memory: self.memory.at(),
            starts: &self.starts,
            distances: &self.distances,
            vars,
            arena: arena.at(),
            arena_len: 0,
        };
        let launch = &self.launches[self.current.load(Ordering::Relaxed)];
        let which = launch.kernels.partition_point(|(first, _)| *first <= item) - 1;
        let (first, code) = &launch.kernels[which];
        let item = item - first;
        let clock = [0, 1].map(|i| self.clock[i].load(Ordering::Relaxed));
        // SAFETY: the program has been verified: views are inside their buffers and locals, rows do not meet, arena and scratch have
        // been made for the largest need, and the kernels were chosen for this machine. Kernels of a launch do not touch
        // what another writes, and the items of a kernel write different rows, outputs, panels or numbers.
        unsafe {
            match code {
                Code::Tile(tile) => tile.run(item, &mut worker, own, self.kernels),
                Code::Contract(contract) => contract.run(item, &worker, self.kernels, turned.at()),
                Code::Pack(pack) => pack.run(item, &worker),
                Code::Random(random) => random.run(item, &worker, &self.draws, (clock[0], clock[1]), places),
            }
        }
    }
}

/// What a worker needs for the largest of a program's kernels.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    arena: usize,
    maps: MapNeeds,
    keys: usize,
    places: usize,
    turned: usize,
}

impl Room {
    fn with(mut self, code: &Code) -> Room {
        match code {
            Code::Tile(tile) => {
                self.arena = self.arena.max(tile.arena());
                self.maps = self.maps.max(tile.needs());
                self.keys = self.keys.max(tile.sorted());
            }
            Code::Contract(contract) => self.turned = self.turned.max(contract.scratch()),
            Code::Random(random) => self.places = self.places.max(random.places()),
            Code::Pack(_) => {}
        }
        self
    }

    /// Numbers that it takes.
    fn numbers(&self) -> usize {
        [self.arena, self.maps.numbers(), 2 * self.keys, self.places, self.turned].into_iter().fold(0, usize::saturating_add)
    }
}

impl Private {
    fn new(room: &Room, vars: usize) -> Result<Private, String> {
        Ok(Private {
            arena: Memory::new(room.arena)?,
            vars: vec![0; vars],
            own: Own { scratch: Scratch::new(room.maps)?, keys: vec![(0.0, 0); room.keys] },
            places: vec![0; room.places],
            turned: Memory::new(room.turned)?,
        })
    }
}

/// What code is made for.
struct Target {
    kernels: &'static Kernels,
    jit: Jit,
}

struct Compiler<'a> {
    program: &'a Program,
    distances: &'a [usize],
    target: Target,
    threads: usize,
    launches: Vec<Launch>,
}

impl Compiler<'_> {
    fn steps(&mut self, steps: &[Step]) -> Vec<Run> {
        steps
            .iter()
            .map(|step| match step {
                Step::Launch(kernels) => {
                    let mut launch = Launch { kernels: Vec::new(), items: 0 };
                    let mut codes: Vec<(Code, usize)> = kernels.iter().map(|kernel| self.code(&kernel.work)).collect();
                    // The longest items first, so that nobody is left with one in the end.
                    codes.sort_by_key(|(code, _)| std::cmp::Reverse(code.length()));
                    for (code, items) in codes {
                        if items > 0 {
                            launch.kernels.push((launch.items, code));
                            launch.items += items;
                        }
                    }
                    self.launches.push(launch);
                    Run::Launch(self.launches.len() - 1)
                }
                Step::Loop { id, count, reverse, body } => {
                    Run::Loop { var: id.0 as usize, count: *count, reverse: *reverse, body: self.steps(body) }
                }
                Step::Swap(a, b) => Run::Swap(a.0 as usize, b.0 as usize),
            })
            .collect()
    }

    fn code(&mut self, work: &Work) -> (Code, usize) {
        match work {
            Work::Tile(tile) => {
                // The verifier does not look at what a tile without rows would touch.
                let nothing = Tile { rows: tile.rows.clone(), ..Tile::default() };
                let tile = if tile.rows.contains(&0) { &nothing } else { tile };
                let code = TileCode::new(tile, &mut self.target, self.threads);
                let items = code.items();
                (Code::Tile(code), items)
            }
            Work::Contract(contract) => {
                let code = ContractCode::new(contract, self.distances);
                let items = code.items();
                (Code::Contract(code), items)
            }
            Work::Pack(pack) => {
                let code = PackCode::new(pack, Place::new(&whole(pack.to), None));
                let items = code.items();
                (Code::Pack(code), items)
            }
            Work::Random(random) => {
                let len = self.program.buffers[random.to.0 as usize].len;
                let code = RandomCode::new(random, len, Place::new(&whole(random.to), None));
                let items = code.items();
                (Code::Random(code), items)
            }
        }
    }
}

/// A buffer from its start.
fn whole(buffer: BufferId) -> View {
    View { base: Base::Buffer(buffer), offset: 0, strides: Vec::new(), loops: Vec::new(), lanes: Lanes::Splat }
}

/// Loop variables that the program has.
fn loop_count(program: &Program) -> usize {
    fn of_stmts(body: &[Stmt]) -> usize {
        let of = |stmt: &Stmt| match stmt {
            Stmt::Loop { id: LoopId(id), body, .. } => (*id as usize + 1).max(of_stmts(body)),
            _ => 0,
        };
        body.iter().map(of).max().unwrap_or(0)
    }
    fn of_steps(steps: &[Step]) -> usize {
        let of = |step: &Step| match step {
            Step::Loop { id: LoopId(id), body, .. } => (*id as usize + 1).max(of_steps(body)),
            Step::Launch(kernels) => kernels
                .iter()
                .map(|kernel| if let Work::Tile(tile) = &kernel.work { of_stmts(&tile.body) } else { 0 })
                .max()
                .unwrap_or(0),
            Step::Swap(..) => 0,
        };
        steps.iter().map(of).max().unwrap_or(0)
    }
    of_steps(&program.prepare).max(of_steps(&program.steps))
}
