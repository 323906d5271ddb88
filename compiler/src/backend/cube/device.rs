//! Programs on a device: buffers that stay there, launches in the order of the plan, and every limit asked about before it
//! is relied on: drivers tell too late, or not at all.
//!
//! The host has a copy of every input, and each knows whose is newer: what the caller wrote goes to the device before
//! anything is launched, what the device changed comes back when the caller looks at it, and nothing else is moved.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubecl::ir::HardwareProperties;
use cubecl::prelude::{ComputeClient, CubeCount, Runtime};
use cubecl::server::Handle;
use sha2::{Digest, Sha256};

use super::builder::task::{Task, arguments, plane_width};
use super::builder::text;
use super::emitted::{Action, Arena, Numerics, Place, Scalar, Target};
use super::launch::{EmitError, Launch, Planned};
use super::plan::{Buffers, Limits};
use super::transfer::{Span, move_spans};
use crate::backend::Resident;
use crate::kernel::{BufferId, LoopId, Program, Work};
use crate::random;

pub use super::builder::task::Driver;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DeviceError {
    #[error("there is no {kind} device {index}: {reason}")]
    NoDevice { kind: &'static str, index: usize, reason: String },
    #[error(transparent)]
    Emit(#[from] EmitError),
    #[error("launch `{launch}` needs {needed} {what}, the device has {has}")]
    Limit { launch: String, what: &'static str, needed: usize, has: usize },
    #[error("the arena `{arena}` needs {needed} bytes, a buffer of the device has at most {has}")]
    Memory { arena: &'static str, needed: usize, has: usize },
    #[error("the device failed: {0}")]
    Failed(String),
    #[error("the program draws no `{0}`")]
    NoDraw(String),
    #[error("the draw `{name}` has {expected} numbers, {found} were given")]
    DrawLength { name: String, expected: usize, found: usize },
}

/// A device that has been opened.
pub struct Device<R: Runtime> {
    pub(super) client: ComputeClient<R>,
    pub(super) target: Target,
    /// The driver with its version: what it compiled is of no use to another.
    pub(super) driver: String,
    pub(super) numerics: Numerics,
}

impl<R: Runtime> std::fmt::Debug for Device<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("target", &self.target).field("driver", &self.driver).finish()
    }
}

impl<R: Runtime> Device<R> {
    /// What the device has; processors are counted where the driver tells.
    pub fn limits(&self) -> Limits {
        let hardware = &self.client.properties().hardware;
        Limits {
            processors: hardware.num_streaming_multiprocessors.map_or(32, |n| n as usize),
            shared_bytes: hardware.max_shared_memory_size,
            units: hardware.max_units_per_cube.min(256),
            plane: plane_width(&self.client),
            precision: self.numerics.precision,
            sums: self.numerics.sums,
        }
    }
}

/// A program on a device, ready to run.
pub struct Instance<R: Driver> {
    client: ComputeClient<R>,
    kernels: Vec<Task>,
    prepare: Vec<Action>,
    steps: Vec<Action>,
    advance: Vec<Action>,
    /// Outputs with the inputs that they become.
    updates: Vec<(usize, usize)>,
    program: String,
    inputs: Vec<BufferId>,
    outputs: Vec<BufferId>,
    /// Where buffers are now.
    places: Vec<Place>,
    lens: [usize; 4],
    arenas: [Handle; 4],
    /// Inputs, and draws that were given.
    held: BTreeMap<BufferId, Held>,
    draws: Vec<DrawState>,
}

/// The host's copy of a buffer.
#[derive(Debug)]
struct Held {
    numbers: Vec<f32>,
    newer: Newer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newer {
    Neither,
    Host,
    Device,
}

impl<R: Driver> std::fmt::Debug for Instance<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instance").field("program", &self.program).field("launches", &self.kernels.len()).finish()
    }
}

#[derive(Debug)]
struct DrawState {
    name: String,
    to: Vec<BufferId>,
    given: bool,
}

/// What a function gives, or nothing where it panics: what is wrong is said as an error, and by nobody else.
pub(super) fn quietly<T>(f: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<T> {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let given = std::panic::catch_unwind(f);
    std::panic::set_hook(loud);
    given.ok()
}

impl<R: Driver> Instance<R> {
    /// Plans a program for a device and allocates what it needs there.
    pub fn new(device: Device<R>, program: &Program, resident: &Resident) -> Result<Instance<R>, DeviceError> {
        let Planned { buffers, launches, prepare, steps, advance, .. } = Planned::new(program, &device.limits(), resident)?;
        let client = device.client.clone();
        let most = client.properties().memory.max_page_size as usize;
        for (arena, len) in Arena::ALL.into_iter().zip(buffers.arenas) {
            if 4 * len > most {
                return Err(DeviceError::Memory { arena: arena.name(), needed: 4 * len, has: most });
            }
        }
        let lens = buffers.arenas.map(|len| len.max(4));
        // What the host writes starts with zeros and constants; what kernels write starts as it may.
        let arenas = Arena::ALL.map(|arena| match arena {
            Arena::Weights | Arena::Work => client.empty(4 * lens[arena as usize]),
            Arena::Parameters | Arena::Io => {
                let mut numbers = vec![0.0; lens[arena as usize]];
                for (id, constant) in program.constants() {
                    let place = buffers.places[id.0 as usize];
                    if place.arena == arena {
                        numbers[place.offset..place.offset + place.len].copy_from_slice(&constant);
                    }
                }
                client.create_from_slice(&bytes_of(&numbers))
            }
        });
        let buffers = Arc::new(buffers);
        launches.iter().try_for_each(|launch| fits(launch, &client.properties().hardware))?;
        let kernels = launches.into_iter().map(|launch| task(launch, &buffers, &device));
        let kernels: Vec<Task> = kernels.collect::<Result<_, _>>()?;
        let empty = |id: &BufferId| Held { numbers: vec![0.0; buffers.places[id.0 as usize].len], newer: Newer::Neither };
        let held = program.inputs.iter().map(|id| (*id, empty(id))).collect();
        let mut draws: Vec<DrawState> =
            program.draws.iter().map(|name| DrawState { name: name.clone(), to: Vec::new(), given: false }).collect();
        program.each_kernel(&mut |kernel| {
            if let Work::Random(random) = &kernel.work {
                draws[random.draw as usize].to.push(random.to);
            }
        });
        Ok(Instance {
            client,
            kernels,
            prepare,
            steps,
            advance,
            updates: resident.updates.clone(),
            program: program.name.clone(),
            inputs: program.inputs.clone(),
            outputs: program.outputs.clone(),
            places: buffers.places.clone(),
            lens,
            arenas,
            held,
            draws,
        })
    }

    /// Bytes that the device keeps for it.
    pub fn bytes(&self) -> usize {
        4 * self.lens.iter().sum::<usize>()
    }

    /// The numbers of an input as they are now, row-major.
    pub fn input(&mut self, input: usize) -> Result<&[f32], DeviceError> {
        let id = self.inputs[input];
        if self.held[&id].newer == Newer::Device {
            let numbers = self.download(&[id])?.swap_remove(0);
            self.held.insert(id, Held { numbers, newer: Newer::Neither });
        }
        Ok(&self.held[&id].numbers)
    }

    /// The same, to be written by the caller.
    pub fn input_mut(&mut self, input: usize) -> Result<&mut [f32], DeviceError> {
        self.input(input)?;
        let held = self.held.get_mut(&self.inputs[input]).expect("inputs are held");
        held.newer = Newer::Host;
        Ok(&mut held.numbers)
    }

    /// Takes over inputs of another program on the device: pairs of our input and of theirs. They never leave the device.
    pub fn take(&mut self, from: &mut Instance<R>, pairs: &[(usize, usize)]) {
        from.upload();
        let mut spans: BTreeMap<[Arena; 2], Vec<Span>> = BTreeMap::new();
        for (own, theirs) in pairs {
            let (own, theirs) = (self.inputs[*own], from.inputs[*theirs]);
            let (to, place) = (self.places[own.0 as usize], from.places[theirs.0 as usize]);
            let span = Span { from: place.offset, to: to.offset, len: to.len };
            spans.entry([place.arena, to.arena]).or_default().push(span);
            self.held.entry(own).and_modify(|held| held.newer = Newer::Device);
        }
        for ([theirs, own], spans) in spans {
            let numbers = (&from.arenas[theirs as usize], from.lens[theirs as usize]);
            move_spans(&self.client, numbers, (&self.arenas[own as usize], self.lens[own as usize]), &spans);
        }
    }

    /// Computes what depends on parameters alone: to be called once, and when they have changed.
    pub fn prepare(&mut self) -> Result<(), DeviceError> {
        self.upload();
        let actions = std::mem::take(&mut self.prepare);
        let ran = self.actions(&actions, &mut BTreeMap::new(), 0, 0);
        self.prepare = actions;
        ran
    }

    /// Runs the program. Random draws depend on the seed and on the step.
    pub fn run(&mut self, seed: u64, step: u64) -> Result<(), DeviceError> {
        self.upload();
        let actions = std::mem::take(&mut self.steps);
        let ran = self.actions(&actions, &mut BTreeMap::new(), seed, step);
        self.steps = actions;
        ran
    }

    /// Outputs become the inputs that they update, on the device.
    pub fn advance(&mut self) -> Result<(), DeviceError> {
        let actions = std::mem::take(&mut self.advance);
        let ran = self.actions(&actions, &mut BTreeMap::new(), 0, 0);
        self.advance = actions;
        for (_, input) in &self.updates {
            self.held.entry(self.inputs[*input]).and_modify(|held| held.newer = Newer::Device);
        }
        ran
    }

    /// Gives a draw's numbers instead of generating them, or generates them again.
    pub fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError> {
        let draw = self.draws.iter().position(|draw| draw.name == name).ok_or_else(|| DeviceError::NoDraw(name.to_owned()))?;
        self.draws[draw].given = numbers.is_some();
        let Some(numbers) = numbers else { return Ok(()) };
        for to in &self.draws[draw].to {
            let expected = self.places[to.0 as usize].len;
            if expected != numbers.len() {
                return Err(DeviceError::DrawLength { name: name.to_owned(), expected, found: numbers.len() });
            }
            self.held.insert(*to, Held { numbers: numbers.to_vec(), newer: Newer::Host });
        }
        Ok(())
    }

    /// The numbers of an output, row-major, when all that was launched has run.
    pub fn output(&self, output: usize) -> Result<Vec<f32>, DeviceError> {
        Ok(self.outputs(&[output])?.swap_remove(0))
    }

    /// Those of several, in one transfer.
    pub fn outputs(&self, wanted: &[usize]) -> Result<Vec<Vec<f32>>, DeviceError> {
        let ids: Vec<BufferId> = wanted.iter().map(|output| self.outputs[*output]).collect();
        self.download(&ids)
    }

    /// Returns when all that was launched has run; a failed launch says so here.
    pub fn wait(&self) -> Result<(), DeviceError> {
        cubecl::future::block_on(self.client.sync()).map_err(|e| DeviceError::Failed(e.to_string()))
    }

    fn download(&self, ids: &[BufferId]) -> Result<Vec<Vec<f32>>, DeviceError> {
        // A read after a launch that failed would give what was there before.
        self.wait()?;
        let part = |id: &BufferId| {
            let Place { arena, offset, len } = self.places[id.0 as usize];
            let behind = self.lens[arena as usize] - offset - len;
            self.arenas[arena as usize].clone().offset_start(4 * offset as u64).offset_end(4 * behind as u64)
        };
        // Drivers do not like to read nothing.
        let there = |id: &&BufferId| self.places[id.0 as usize].len > 0;
        let read = self.client.read_async(ids.iter().filter(there).map(part).collect());
        let mut read = cubecl::future::block_on(read).map_err(|e| DeviceError::Failed(e.to_string()))?.into_iter();
        let numbers = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let each = ids.iter().map(|id| if there(&id) { read.next().map_or(Vec::new(), |b| numbers(&b)) } else { Vec::new() });
        Ok(each.collect())
    }

    /// What the caller has written goes to the device.
    fn upload(&mut self) {
        for arena in Arena::ALL {
            let mut numbers: Vec<f32> = Vec::new();
            let mut spans = Vec::new();
            for (id, held) in &mut self.held {
                let place = self.places[id.0 as usize];
                if place.arena == arena && held.newer == Newer::Host {
                    spans.push(Span { from: numbers.len(), to: place.offset, len: place.len });
                    numbers.extend_from_slice(&held.numbers);
                    held.newer = Newer::Neither;
                }
            }
            if !numbers.is_empty() {
                let written = self.client.create_from_slice(&bytes_of(&numbers));
                let to = (&self.arenas[arena as usize], self.lens[arena as usize]);
                move_spans(&self.client, (&written, numbers.len()), to, &spans);
            }
        }
    }

    fn actions(
        &mut self,
        list: &[Action],
        rounds: &mut BTreeMap<LoopId, usize>,
        seed: u64,
        step: u64,
    ) -> Result<(), DeviceError> {
        for action in list {
            match action {
                Action::Launch(i) => self.launch(*i, rounds, seed, step),
                Action::Loop { id, count, reverse, body } => {
                    for round in 0..*count {
                        rounds.insert(*id, if *reverse { count - 1 - round } else { round });
                        self.actions(body, rounds, seed, step)?;
                    }
                    rounds.remove(id);
                }
                Action::Swap(a, b) => {
                    let (a, b) = (a.0 as usize, b.0 as usize);
                    let (first, second) = (self.places[a].offset, self.places[b].offset);
                    (self.places[a].offset, self.places[b].offset) = (second, first);
                }
            }
        }
        Ok(())
    }

    fn launch(&self, i: usize, rounds: &BTreeMap<LoopId, usize>, seed: u64, step: u64) {
        let kernel = &self.kernels[i];
        let launch = &kernel.launch;
        let bound = launch.bindings.iter().map(|binding| {
            let a = binding.arena as usize;
            (self.arenas[a].clone(), self.lens[a], *binding)
        });
        let scalars = launch.scalars.iter().map(|scalar| match scalar {
            Scalar::Loop(id) => rounds.get(id).copied().unwrap_or(0) as u32,
            Scalar::Offset(id) => self.places[id.0 as usize].offset as u32,
            Scalar::Key { draw, half } => {
                let key = random::key(&self.draws[*draw as usize].name, seed, &self.program, step);
                (key >> (32 * half)) as u32
            }
            Scalar::Given { draw } => u32::from(self.draws[*draw as usize].given),
        });
        let count = CubeCount::Static(launch.cubes() as u32, 1, 1);
        // SAFETY: the program has been verified: all that its kernels touch is inside of the arenas, and loops end.
        unsafe { self.client.launch_unchecked(R::task(kernel.clone()), count, arguments(bound, scalars)) };
    }
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A launch with the key that its compiled code is kept by: its text, for what it is compiled, and by whom.
fn task<R: Runtime>(launch: Launch, buffers: &Arc<Buffers>, device: &Device<R>) -> Result<Task, DeviceError> {
    let failed = |message| EmitError::Text { launch: launch.name.clone(), message };
    let (source, _) = text(launch.code(buffers).finish(&launch.name), device.target).map_err(failed)?;
    let mut hasher = Sha256::new();
    for part in [env!("CARGO_PKG_VERSION"), &format!("{:?}", device.target), &device.driver, &source] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let key = hasher.finalize().into();
    Ok(Task { launch: Arc::new(launch), buffers: Arc::clone(buffers), key })
}

/// Whether a device can do a launch.
fn fits(launch: &Launch, hardware: &HardwareProperties) -> Result<(), DeviceError> {
    let needs = [
        ("bindings", launch.bindings.len() + 1, hardware.max_bindings as usize),
        ("bytes of shared memory", launch.shared_bytes(), hardware.max_shared_memory_size),
        ("units a cube", launch.units as usize, hardware.max_units_per_cube.min(hardware.max_cube_dim.0) as usize),
        ("cubes", launch.cubes(), hardware.max_cube_count.0 as usize),
    ];
    match needs.into_iter().find(|(_, needed, has)| needed > has) {
        None => Ok(()),
        Some((what, needed, has)) => Err(DeviceError::Limit { launch: launch.name.clone(), what, needed, has }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a large device has.
    fn hardware() -> HardwareProperties {
        HardwareProperties {
            load_width: 128,
            plane_size_min: 32,
            plane_size_max: 32,
            max_bindings: 32,
            max_shared_memory_size: 99 << 10,
            max_cube_count: (65535, 65535, 65535),
            max_units_per_cube: 1024,
            max_cube_dim: (1024, 1024, 64),
            num_streaming_multiprocessors: None,
            num_cpu_cores: None,
            num_tensor_cores: None,
            min_tensor_cores_dim: None,
            max_vector_size: 4,
        }
    }

    #[test]
    fn launches_that_a_device_cannot_take() {
        let programs = (0..20).map(crate::testing::random_kernels);
        let mut launches = 0;
        for program in programs {
            let Planned { launches: planned, .. } =
                Planned::new(&program, &Limits::wgsl(), &Resident::default()).unwrap_or_else(|e| panic!("{e}"));
            for launch in planned {
                launches += 1;
                assert_eq!(fits(&launch, &hardware()), Ok(()));
                let refused = |hardware: HardwareProperties, what: &str| {
                    let told = fits(&launch, &hardware).err().map(|e| e.to_string()).unwrap_or_default();
                    assert!(told.contains(&launch.name) && told.contains(what), "{told}");
                };
                refused(HardwareProperties { max_bindings: 1, ..hardware() }, "bindings, the device has 1");
                refused(HardwareProperties { max_units_per_cube: 128, ..hardware() }, "256 units a cube, the device has 128");
                refused(HardwareProperties { max_cube_count: (0, 1, 1), ..hardware() }, "cubes, the device has 0");
                if launch.shared_bytes() > 64 {
                    refused(
                        HardwareProperties { max_shared_memory_size: 64, ..hardware() },
                        "bytes of shared memory, the device has 64",
                    );
                }
            }
        }
        assert!(launches > 20, "{launches}");
    }
}
