//! Programs on a device: buffers that stay there, launches in the order of the plan, and every limit asked about before it
//! is relied on: drivers tell too late, or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use cubecl::prelude::{ComputeClient, CubeCount, Runtime};
use cubecl::server::Handle;
use sha2::{Digest, Sha256};

use super::builder::task::{Task, arguments, plane_width};
use super::builder::text;
use super::emitted::{Action, Arena, Place, Scalar, Target};
use super::launch::{EmitError, Launch, Planned, Resident};
use super::plan::{Buffers, Limits};
use crate::kernel::{BufferId, BufferKind, LoopId, Program, Work};
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
    program: String,
    inputs: Vec<BufferId>,
    outputs: Vec<BufferId>,
    /// Where buffers are now.
    places: Vec<Place>,
    lens: [usize; 4],
    arenas: [Handle; 4],
    /// What the caller has written of parameters and of inputs, and whether the device has it.
    host: BTreeMap<Arena, (Vec<f32>, bool)>,
    draws: Vec<DrawState>,
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
        let arenas = lens.map(|len| client.empty(4 * len));
        let buffers = Arc::new(buffers);
        launches.iter().try_for_each(|launch| fits(launch, &client))?;
        let kernels = launches.into_iter().map(|launch| task(launch, &buffers, &device));
        let kernels: Vec<Task> = kernels.collect::<Result<_, _>>()?;
        let host = [Arena::Parameters, Arena::Io].map(|arena| (arena, (vec![0.0; lens[arena as usize]], false)));
        let mut draws: Vec<DrawState> =
            program.draws.iter().map(|name| DrawState { name: name.clone(), to: Vec::new(), given: false }).collect();
        super::plan::each_kernel(program, &mut |kernel| {
            if let Work::Random(random) = &kernel.work {
                draws[random.draw as usize].to.push(random.to);
            }
        });
        let mut instance = Instance {
            client,
            kernels,
            prepare,
            steps,
            advance,
            program: program.name.clone(),
            inputs: program.inputs.clone(),
            outputs: program.outputs.clone(),
            places: buffers.places.clone(),
            lens,
            arenas,
            host: host.into_iter().collect(),
            draws,
        };
        for (buffer, id) in program.buffers.iter().zip(0..) {
            if let BufferKind::Const(numbers) = &buffer.kind {
                instance.host_mut(BufferId(id)).copy_from_slice(numbers);
            }
        }
        Ok(instance)
    }

    fn host_mut(&mut self, id: BufferId) -> &mut [f32] {
        let Place { arena, offset, len } = self.places[id.0 as usize];
        let (numbers, there) = self.host.get_mut(&arena).expect("the host has what it writes");
        *there = false;
        &mut numbers[offset..offset + len]
    }

    /// The numbers of an input, row-major, to be written by the caller.
    pub fn input_mut(&mut self, input: usize) -> &mut [f32] {
        self.host_mut(self.inputs[input])
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
        ran
    }

    /// Gives a draw's numbers instead of generating them, or generates them again.
    pub fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError> {
        let draw = self.draws.iter().position(|draw| draw.name == name).ok_or_else(|| DeviceError::NoDraw(name.to_owned()))?;
        self.draws[draw].given = numbers.is_some();
        for (to, numbers) in self.draws[draw].to.clone().into_iter().zip(numbers.iter().cycle()) {
            let place = self.host_mut(to);
            if place.len() != numbers.len() {
                let (expected, found) = (place.len(), numbers.len());
                return Err(DeviceError::DrawLength { name: name.to_owned(), expected, found });
            }
            place.copy_from_slice(numbers);
        }
        Ok(())
    }

    /// The numbers of an output, row-major, when all that was launched has run.
    pub fn output(&self, output: usize) -> Result<Vec<f32>, DeviceError> {
        let Place { arena, offset, len } = self.places[self.outputs[output].0 as usize];
        // A failed launch says so here; a read after it would give what was there before.
        cubecl::future::block_on(self.client.sync()).map_err(|e| DeviceError::Failed(e.to_string()))?;
        let total = self.lens[arena as usize];
        let part =
            self.arenas[arena as usize].clone().offset_start(4 * offset as u64).offset_end(4 * (total - offset - len) as u64);
        let bytes = self.client.read_one(part).map_err(|e| DeviceError::Failed(e.to_string()))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }

    /// What the caller has written goes to the device.
    fn upload(&mut self) {
        for (arena, (numbers, there)) in &mut self.host {
            if !*there {
                let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
                self.arenas[*arena as usize] = self.client.create_from_slice(&bytes);
                *there = true;
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
fn fits<R: Runtime>(launch: &Launch, client: &ComputeClient<R>) -> Result<(), DeviceError> {
    let hardware = &client.properties().hardware;
    let needs = [
        ("bindings", launch.bindings.len() + 1, hardware.max_bindings as usize),
        ("bytes of shared memory", 4 * launch.shared(), hardware.max_shared_memory_size),
        ("units a cube", launch.units as usize, hardware.max_units_per_cube.min(hardware.max_cube_dim.0) as usize),
        ("cubes", launch.cubes(), hardware.max_cube_count.0 as usize),
    ];
    match needs.into_iter().find(|(_, needed, has)| needed > has) {
        None => Ok(()),
        Some((what, needed, has)) => Err(DeviceError::Limit { launch: launch.name.clone(), what, needed, has }),
    }
}
