//! A program on a graphics processor.
//!
//! The host has a copy of every input, and each knows whose is newer: what the caller wrote goes to the device before
//! anything is launched, what the device changed comes back when the caller looks at it, and nothing else is moved.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use cubecl::prelude::{ComputeClient, CubeCount, Runtime};
use cubecl::server::Handle;
use sha2::{Digest, Sha256};

use super::builder::task::{Driver, Task, arguments};
use super::builder::text;
use super::device::{Device, DeviceError as Failure, fits};
use super::emitted::{Action, Arena, Place, Scalar};
use super::launch::{EmitError, Launch, Planned};
use super::plan::Buffers;
use super::transfer::{Span, move_spans};
use crate::backend::executable::take_by_host;
use crate::backend::{DeviceError, Executable, Resident};
use crate::kernel::{BufferId, LoopId, Program, Work};
use crate::random;

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
    /// The device's.
    name: String,
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

impl<R: Driver> Instance<R> {
    /// Plans a program for a device and allocates what it needs there.
    pub fn new(device: Device<R>, program: &Program, resident: &Resident) -> Result<Instance<R>, Failure> {
        let Planned { buffers, launches, prepare, steps, advance, .. } = Planned::new(program, &device.limits(), resident)?;
        let client = device.client.clone();
        let most = client.properties().memory.max_page_size as usize;
        for (arena, len) in Arena::ALL.into_iter().zip(buffers.arenas) {
            if 4 * len > most {
                return Err(Failure::Memory { arena: arena.name(), needed: 4 * len, has: most });
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
            name: device.name,
        })
    }

    /// Takes over inputs of another program on the device: pairs of our input and of theirs.
    fn take_here(&mut self, from: &mut Instance<R>, pairs: &[(usize, usize)]) {
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

    /// Returns when all that was launched has run; a failed launch says so here.
    fn synchronise(&self) -> Result<(), Failure> {
        cubecl::future::block_on(self.client.sync()).map_err(|e| Failure::Failed(e.to_string()))
    }

    fn download(&self, ids: &[BufferId]) -> Result<Vec<Vec<f32>>, Failure> {
        // A read after a launch that failed would give what was there before.
        self.synchronise()?;
        let part = |id: &BufferId| {
            let Place { arena, offset, len } = self.places[id.0 as usize];
            let behind = self.lens[arena as usize] - offset - len;
            self.arenas[arena as usize].clone().offset_start(4 * offset as u64).offset_end(4 * behind as u64)
        };
        // Drivers do not like to read nothing.
        let there = |id: &&BufferId| self.places[id.0 as usize].len > 0;
        let read = self.client.read_async(ids.iter().filter(there).map(part).collect());
        let mut read = cubecl::future::block_on(read).map_err(|e| Failure::Failed(e.to_string()))?.into_iter();
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

    fn actions(&mut self, list: &[Action], rounds: &mut BTreeMap<LoopId, usize>, seed: u64, step: u64) -> Result<(), Failure> {
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

impl<R: Driver> Executable for Instance<R> {
    fn input(&mut self, input: usize) -> Result<&[f32], DeviceError> {
        let id = self.inputs[input];
        if self.held[&id].newer == Newer::Device {
            let numbers = self.download(&[id])?.swap_remove(0);
            self.held.insert(id, Held { numbers, newer: Newer::Neither });
        }
        Ok(&self.held[&id].numbers)
    }

    fn input_mut(&mut self, input: usize) -> Result<&mut [f32], DeviceError> {
        self.input(input)?;
        let held = self.held.get_mut(&self.inputs[input]).expect("inputs are held");
        held.newer = Newer::Host;
        Ok(&mut held.numbers)
    }

    fn outputs(&mut self, wanted: &[usize]) -> Result<Vec<Vec<f32>>, DeviceError> {
        let ids: Vec<BufferId> = wanted.iter().map(|output| self.outputs[*output]).collect();
        Ok(self.download(&ids)?)
    }

    fn prepare(&mut self) -> Result<(), DeviceError> {
        self.upload();
        let actions = std::mem::take(&mut self.prepare);
        let ran = self.actions(&actions, &mut BTreeMap::new(), 0, 0);
        self.prepare = actions;
        Ok(ran?)
    }

    fn run(&mut self, seed: u64, step: u64) -> Result<(), DeviceError> {
        self.upload();
        let actions = std::mem::take(&mut self.steps);
        let ran = self.actions(&actions, &mut BTreeMap::new(), seed, step);
        self.steps = actions;
        Ok(ran?)
    }

    fn wait(&mut self) -> Result<(), DeviceError> {
        Ok(self.synchronise()?)
    }

    fn advance(&mut self) -> Result<(), DeviceError> {
        let actions = std::mem::take(&mut self.advance);
        let ran = self.actions(&actions, &mut BTreeMap::new(), 0, 0);
        self.advance = actions;
        for (_, input) in &self.updates {
            self.held.entry(self.inputs[*input]).and_modify(|held| held.newer = Newer::Device);
        }
        Ok(ran?)
    }

    fn take(&mut self, from: &mut dyn Executable, pairs: &[(usize, usize)]) -> Result<(), DeviceError> {
        // Numbers of another program on the device never leave it.
        match (from as &mut dyn Any).downcast_mut::<Instance<R>>() {
            Some(from) => self.take_here(from, pairs),
            None => take_by_host(self, from, pairs)?,
        }
        Ok(())
    }

    fn set_draw(&mut self, name: &str, numbers: Option<&[f32]>) -> Result<(), DeviceError> {
        let draw = self.draws.iter().position(|draw| draw.name == name).ok_or_else(|| Failure::NoDraw(name.to_owned()))?;
        self.draws[draw].given = numbers.is_some();
        let Some(numbers) = numbers else { return Ok(()) };
        for to in &self.draws[draw].to {
            let expected = self.places[to.0 as usize].len;
            if expected != numbers.len() {
                return Err(Failure::DrawLength { name: name.to_owned(), expected, found: numbers.len() }.into());
            }
            self.held.insert(*to, Held { numbers: numbers.to_vec(), newer: Newer::Host });
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        4 * self.lens.iter().sum::<usize>()
    }

    fn computes_with(&self) -> &str {
        &self.name
    }
}

fn bytes_of(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A launch with the key that its compiled code is kept by: its text, for what it is compiled, and by whom.
fn task<R: Runtime>(launch: Launch, buffers: &Arc<Buffers>, device: &Device<R>) -> Result<Task, Failure> {
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
