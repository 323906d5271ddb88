//! Launches: the kernels of a launch are one kernel of the device, each with cubes of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::kernel::verify::{VerifyError, verify};
use crate::kernel::{BufferId, Kernel, Program, Step, Stmt, View, Work};

use super::builder::{Code, LoopVars, Val, index, text};
use super::contract::{Clear, ContractPlan};
use super::emitted::{Action, Arena, Binding, Draw, Emitted, EmittedKernel, Note, Scalar, Sums, Target};
use super::pack::PackPlan;
use super::plan::{Around, BufferHome, Buffers, Limits, buffers, layout};
use super::random::RandomPlan;
use super::repeat::{Repeat, repeats};
use super::tile::{TilePlan, start};
use crate::backend::Resident;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EmitError {
    #[error(transparent)]
    Invalid(#[from] VerifyError),
    #[error("launch `{launch}` has {cubes} cubes; a device takes {most}")]
    Cubes { launch: String, cubes: usize, most: usize },
    #[error("the arena `{arena}` has {numbers} numbers: more than can be indexed with 32 bits")]
    Arena { arena: &'static str, numbers: usize },
    #[error("launch `{launch}`: {message}")]
    Text { launch: String, message: String },
}

/// A program as text for a device.
pub fn emit(program: &Program, target: Target, limits: &Limits, resident: &Resident) -> Result<Emitted, EmitError> {
    let planned = Planned::new(program, limits, resident)?;
    let mut kernels = Vec::new();
    for launch in &planned.launches {
        let (source, shared_bytes) = text(launch.code(&planned.buffers).finish(&launch.name), target)
            .map_err(|message| EmitError::Text { launch: launch.name.clone(), message })?;
        kernels.push(EmittedKernel {
            name: launch.name.clone(),
            source,
            cube_dim: launch.units,
            cube_count: launch.cubes() as u32,
            shared_bytes,
            bindings: launch.bindings.clone(),
            scalars: launch.scalars.clone(),
            parts: launch.parts.iter().flat_map(|part| part.names.clone()).collect(),
        });
    }
    let draws = program.draws.iter().map(|name| Draw { name: name.clone(), to: Vec::new() });
    let mut draws: Vec<Draw> = draws.collect();
    program.each_kernel(&mut |kernel| {
        if let Work::Random(random) = &kernel.work {
            draws[random.draw as usize].to.push(random.to);
        }
    });
    Ok(Emitted {
        program: program.name.clone(),
        target,
        numerics: limits.numerics(),
        arenas: planned.buffers.arenas,
        buffers: planned.buffers.places.clone(),
        inputs: program.inputs.clone(),
        outputs: program.outputs.clone(),
        constants: program.constants(),
        draws,
        kernels,
        prepare: planned.prepare,
        steps: planned.steps,
        advance: planned.advance,
        notes: planned.notes,
    })
}

/// What a device's memory makes of a program: locals that do not fit on chip, kernel by kernel. No text is made for it.
pub fn notes(program: &Program, limits: &Limits) -> Vec<Note> {
    let mut notes = Vec::new();
    program.each_kernel(&mut |kernel| {
        if let Work::Tile(tile) = &kernel.work {
            notes.extend(layout(tile, limits).notes.into_iter().map(|text| Note { kernel: kernel.name.clone(), text }));
        }
    });
    notes
}

/// A program with every decision taken, before there is any code.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    pub(super) buffers: Buffers,
    pub(super) launches: Vec<Launch>,
    pub(super) prepare: Vec<Action>,
    pub(super) steps: Vec<Action>,
    pub(super) advance: Vec<Action>,
    pub(super) notes: Vec<Note>,
}

impl Planned {
    pub(super) fn new(program: &Program, limits: &Limits, resident: &Resident) -> Result<Planned, EmitError> {
        verify(program)?;
        let mut buffers = buffers(program, &resident.inputs);
        let repeats = repeats(program, &buffers);
        for (a, b) in repeats.values().flat_map(|repeat| &repeat.swaps) {
            [a, b].iter().for_each(|id| buffers.swapped[id.0 as usize] = true);
        }
        let mut planner = Planner {
            program,
            limits,
            buffers,
            repeats,
            seen: Vec::new(),
            launches: Vec::new(),
            notes: Vec::new(),
            around: Around::new(),
            spilled: 0,
        };
        let name = identifier(&program.name);
        let prepare = planner.steps(&program.prepare, &format!("{name}_prepare"))?;
        let steps = planner.steps(&program.steps, &name)?;
        let advance = planner.advance(&resident.updates, format!("{name}_advance"))?;
        planner.buffers.arenas[Arena::Work as usize] += planner.spilled;
        let Planner { buffers, launches, notes, .. } = planner;
        for (arena, numbers) in Arena::ALL.into_iter().zip(buffers.arenas) {
            if numbers > u32::MAX as usize {
                return Err(EmitError::Arena { arena: arena.name(), numbers });
            }
        }
        Ok(Planned { buffers, launches, prepare, steps, advance, notes })
    }
}

/// A launch: parts with cubes of their own.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub(super) name: String,
    pub(super) units: u32,
    pub(super) bindings: Vec<Binding>,
    pub(super) scalars: Vec<Scalar>,
    pub(super) parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) names: Vec<String>,
    first: usize,
    /// Of each of the kernels.
    cubes: usize,
    work: PartWork,
    /// Several kernels with the same code: where the buffers of the first start for each of them.
    starts: Vec<(BufferId, Vec<usize>)>,
}

#[derive(Debug, Clone)]
enum PartWork {
    Tile(TilePlan),
    Contract(ContractPlan),
    Pack(PackPlan),
    Random(RandomPlan),
    Move(Move),
    Clear(Clear),
}

/// Numbers from one buffer to another.
#[derive(Debug, Clone)]
struct Move {
    from: BufferId,
    to: BufferId,
    len: usize,
}

/// Cubes for each processor when sums are shared out: the last to end are not far from the others.
const CUBES_OF_SUMS: usize = 4;

/// Numbers that a unit moves.
const MOVED: usize = 4;

impl Move {
    fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers) {
        let [(from, from_start), (to, to_start)] = [self.from, self.to].map(|id| start(code, buffers, id));
        let each = MOVED * code.units();
        let first = code.mul(cube, index(each));
        code.items(each, |code, item| {
            let place = code.add(first, item);
            let there = code.less(place, index(self.len));
            code.when(there, |code| {
                let at = code.add(place, from_start);
                let value = code.load(from, at);
                let at = code.add(place, to_start);
                code.store(to, at, value);
            });
        });
    }
}

impl Launch {
    pub(super) fn cubes(&self) -> usize {
        self.parts.iter().map(|part| part.cubes * part.names.len()).sum()
    }

    /// What has to be launched before: outputs that several cubes add to start with zero.
    fn clear(&self) -> Option<Launch> {
        let mut first = 0;
        let mut parts = Vec::new();
        for part in &self.parts {
            let PartWork::Contract(contract) = &part.work else { continue };
            let Some(clear) = contract.cleared() else { continue };
            let cubes = clear.cubes(self.units as usize);
            let starts = part.starts.iter().filter(|(id, _)| clear.touches(*id)).cloned().collect();
            parts.push(Part { names: part.names.clone(), first, cubes, work: PartWork::Clear(clear), starts });
            first += cubes * part.names.len();
        }
        let (bindings, scalars) = (self.bindings.clone(), self.scalars.clone());
        (!parts.is_empty()).then(|| Launch { name: format!("{}_clear", self.name), units: self.units, bindings, scalars, parts })
    }

    /// Numbers of shared memory, of four bytes and of two.
    fn shared(&self) -> [usize; 2] {
        let of = |part: &Part| match &part.work {
            PartWork::Tile(tile) => tile.shared(),
            PartWork::Contract(contract) => [contract.shared(), 0],
            PartWork::Pack(_) | PartWork::Random(_) | PartWork::Move(_) | PartWork::Clear(_) => [0, 0],
        };
        self.parts.iter().map(of).fold([0, 0], |[a, b], [c, d]| [a.max(c), b.max(d)])
    }

    #[cfg(any(feature = "cuda", feature = "vulkan"))]
    pub(super) fn shared_bytes(&self) -> usize {
        let [numbers, halves] = self.shared();
        4 * numbers + 2 * halves
    }

    /// The code of all parts.
    pub(super) fn code(&self, buffers: &Buffers) -> Code {
        let mut code = Code::new(&self.bindings, &self.scalars, self.shared(), self.units);
        let loops: LoopVars = self
            .scalars
            .iter()
            .filter_map(|scalar| match scalar {
                Scalar::Loop(id) => Some((*id, code.scalar(*scalar))),
                _ => None,
            })
            .collect();
        for part in &self.parts {
            code.comment(&part.names.join(", "));
            let cube = code.cube();
            if self.parts.len() == 1 {
                part.emit(&mut code, cube, buffers, &loops);
                continue;
            }
            // Cubes before the first of the part wrap round to the largest numbers.
            let cube = code.sub(cube, index(part.first));
            let mine = code.less(cube, index(part.cubes * part.names.len()));
            code.when(mine, |code| part.emit(code, cube, buffers, &loops));
        }
        code
    }
}

impl Part {
    fn emit(&self, code: &mut Code, cube: Val, buffers: &Buffers, loops: &LoopVars) {
        let (which, cube) = match self.names.len() {
            1 => (index(0), cube),
            _ => (code.div(cube, index(self.cubes)), code.rem(cube, index(self.cubes))),
        };
        let starts = self.starts.iter().map(|(id, starts)| (*id, code.lookup(starts, which))).collect();
        code.set_starts(starts);
        match &self.work {
            PartWork::Tile(tile) => tile.emit(code, cube, buffers, loops),
            PartWork::Contract(contract) => contract.emit(code, cube, buffers, loops),
            PartWork::Pack(pack) => pack.emit(code, cube, buffers, loops),
            PartWork::Random(random) => random.emit(code, cube, buffers),
            PartWork::Move(moved) => moved.emit(code, cube, buffers),
            PartWork::Clear(clear) => clear.emit(code, cube, buffers, loops),
        }
    }
}

struct Planner<'a> {
    program: &'a Program,
    limits: &'a Limits,
    buffers: Buffers,
    /// Launches with the code of an earlier one, by their number.
    repeats: BTreeMap<usize, Repeat>,
    /// What became of the launches so far.
    seen: Vec<Vec<Action>>,
    launches: Vec<Launch>,
    notes: Vec<Note>,
    around: Around,
    /// Numbers of the workspace behind all buffers that locals need.
    spilled: usize,
}

impl Planner<'_> {
    fn steps(&mut self, steps: &[Step], name: &str) -> Result<Vec<Action>, EmitError> {
        let mut actions = Vec::new();
        for step in steps {
            match step {
                Step::Launch(kernels) => {
                    let these = match self.repeats.get(&self.seen.len()) {
                        Some(Repeat { of, swaps }) => {
                            let swap = |(a, b): &(BufferId, BufferId)| Action::Swap(*a, *b);
                            let there = swaps.iter().map(swap);
                            there.chain(self.seen[*of].iter().cloned()).chain(swaps.iter().rev().map(swap)).collect()
                        }
                        None => self.launch_and_clear(kernels, name)?,
                    };
                    actions.extend(these.iter().cloned());
                    self.seen.push(these);
                }
                Step::Loop { id, count, reverse, body } => {
                    self.around.insert(*id, *count);
                    let body = self.steps(body, name)?;
                    self.around.remove(id);
                    actions.push(Action::Loop { id: *id, count: *count, reverse: *reverse, body });
                }
                Step::Swap(a, b) => actions.push(Action::Swap(*a, *b)),
            }
        }
        Ok(actions)
    }

    fn launch_and_clear(&mut self, kernels: &[Kernel], name: &str) -> Result<Vec<Action>, EmitError> {
        let launch = self.launch(kernels, format!("{name}_{}", self.launches.len()));
        let mut actions = match launch.clear() {
            Some(clear) => self.launched(clear)?,
            None => Vec::new(),
        };
        actions.extend(self.launched(launch)?);
        Ok(actions)
    }

    /// The launch that makes inputs of outputs. Those of one length have one code.
    fn advance(&mut self, updates: &[(usize, usize)], name: String) -> Result<Vec<Action>, EmitError> {
        let mut by_len: BTreeMap<(usize, [Arena; 2]), Vec<[BufferId; 2]>> = BTreeMap::new();
        let mut touched: BTreeMap<Arena, bool> = BTreeMap::new();
        let mut scalars: BTreeSet<Scalar> = BTreeSet::new();
        for (output, input) in updates {
            let ids = [self.program.outputs[*output], self.program.inputs[*input]];
            let places = ids.map(|id| self.buffers.places[id.0 as usize]);
            touched.entry(places[0].arena).or_default();
            touched.insert(places[1].arena, true);
            scalars.extend(ids.iter().filter(|id| self.buffers.swapped[id.0 as usize]).map(|id| Scalar::Offset(*id)));
            by_len.entry((places[1].len, places.map(|place| place.arena))).or_default().push(ids);
        }
        let mut parts = Vec::new();
        let mut first = 0;
        for ((len, _), list) in by_len {
            let cubes = len.div_ceil(MOVED * self.limits.units as usize);
            let (swapped, fixed): (Vec<_>, Vec<_>) =
                list.into_iter().partition(|ids| ids.iter().any(|id| self.buffers.swapped[id.0 as usize]));
            for alike in swapped.into_iter().map(|ids| vec![ids]).chain([fixed]).filter(|alike| !alike.is_empty() && len > 0) {
                let offset = |ids: &[BufferId; 2], i: usize| self.buffers.places[ids[i].0 as usize].offset;
                let starts = [0, 1].map(|i| (alike[0][i], alike.iter().map(|ids| offset(ids, i)).collect()));
                let names: Vec<String> = alike.iter().map(|ids| self.program.buffers[ids[1].0 as usize].name.clone()).collect();
                let [from, to] = alike[0];
                let starts = if alike.len() > 1 { starts.into() } else { Vec::new() };
                first += cubes * names.len();
                let work = PartWork::Move(Move { from, to, len });
                parts.push(Part { first: first - cubes * names.len(), names, cubes, work, starts });
            }
        }
        let bindings = bindings(touched);
        let launch = Launch { name, units: self.limits.units, bindings, scalars: scalars.into_iter().collect(), parts };
        self.launched(launch)
    }

    /// The action of a launch; none if it has nothing to do.
    fn launched(&mut self, launch: Launch) -> Result<Vec<Action>, EmitError> {
        match launch.cubes() {
            0 => Ok(Vec::new()),
            cubes if cubes > self.limits.cubes => Err(EmitError::Cubes { launch: launch.name, cubes, most: self.limits.cubes }),
            _ => {
                self.launches.push(launch);
                Ok(vec![Action::Launch(self.launches.len() - 1)])
            }
        }
    }

    fn launch(&mut self, kernels: &[Kernel], name: String) -> Launch {
        let mut parts = Vec::new();
        let (mut first, mut spilled) = (0, 0);
        let even = self.even(kernels);
        for alike in self.alike(kernels) {
            let (work, cubes) = self.part(alike[0].0, even, &mut spilled);
            if cubes == 0 {
                continue;
            }
            let offset = |id: &BufferId| self.buffers.places[id.0 as usize].offset;
            let lists = alike[0].1.iter().enumerate();
            let starts = lists.map(|(i, id)| (*id, alike.iter().map(|(_, ids)| offset(&ids[i])).collect::<Vec<_>>()));
            let starts = starts.filter(|(_, starts)| starts.iter().any(|start| *start != starts[0])).collect();
            let names: Vec<String> = alike.iter().map(|(kernel, _)| kernel.name.clone()).collect();
            first += cubes * names.len();
            parts.push(Part { first: first - cubes * names.len(), names, cubes, work, starts });
        }
        self.spilled = self.spilled.max(spilled);
        let (bindings, scalars) = self.arguments(kernels, spilled > 0);
        Launch { name, units: self.limits.units, bindings, scalars, parts }
    }

    /// Numbers of a list that each cube has when the sums of a launch are shared out, where they are to be.
    fn even(&self, kernels: &[Kernel]) -> Option<usize> {
        let length = |kernel: &Kernel| match &kernel.work {
            Work::Contract(contract) => {
                let plan = ContractPlan::new(contract, self.limits.units as usize);
                plan.cubes() * plan.length()
            }
            _ => 0,
        };
        let all: usize = kernels.iter().map(length).sum();
        (self.limits.sums == Sums::Atomic).then(|| all.div_ceil(CUBES_OF_SUMS * self.limits.processors.max(1)))
    }

    /// A kernel's plan, and how many cubes it has.
    fn part(&mut self, kernel: &Kernel, even: Option<usize>, spilled: &mut usize) -> (PartWork, usize) {
        let units = self.limits.units as usize;
        match &kernel.work {
            Work::Tile(tile) => {
                let mut plan = TilePlan::new(tile, self.limits, &self.buffers, &self.around);
                plan.spill = self.buffers.arenas[Arena::Work as usize] + *spilled;
                *spilled += plan.spilled();
                let notes = plan.layout.notes.iter().map(|text| Note { kernel: kernel.name.clone(), text: text.clone() });
                self.notes.extend(notes);
                let cubes = plan.layout.cubes;
                (PartWork::Tile(plan), cubes)
            }
            Work::Contract(contract) => {
                let plan = ContractPlan::new(contract, units);
                let plan = match even {
                    Some(even) => plan.shared_out(even),
                    None => plan,
                };
                let cubes = plan.cubes();
                (PartWork::Contract(plan), cubes)
            }
            Work::Pack(pack) => {
                let plan = PackPlan::new(pack, &self.buffers, units);
                let cubes = plan.cubes();
                (PartWork::Pack(plan), cubes)
            }
            Work::Random(random) => {
                let plan = RandomPlan::new(random, self.program.buffers[random.to.0 as usize].len, units);
                let cubes = plan.cubes();
                (PartWork::Random(plan), cubes)
            }
        }
    }

    /// Kernels that differ in nothing but their buffers, with the buffers in the order in which they appear: an optimiser's, for
    /// every parameter of a shape. They have one code.
    fn alike<'k>(&self, kernels: &'k [Kernel]) -> Vec<Vec<(&'k Kernel, Vec<BufferId>)>> {
        let mut groups: Vec<Vec<(&Kernel, Vec<BufferId>)>> = Vec::new();
        let mut known: HashMap<(Work, Vec<BufferHome>), usize> = HashMap::new();
        for kernel in kernels {
            let (form, ids) = form(&kernel.work);
            let fixed = |id: &BufferId| self.buffers.swapped[id.0 as usize];
            let own = matches!(&kernel.work, Work::Random(_)) || matches!(&kernel.work, Work::Tile(tile) if tile.arena > 0);
            if kernels.len() == 1 || own || ids.iter().any(fixed) {
                groups.push(vec![(kernel, ids)]);
                continue;
            }
            let homes = ids.iter().map(|id| self.buffers.home(*id)).collect();
            let group = *known.entry((form, homes)).or_insert(groups.len());
            match groups.get_mut(group) {
                Some(group) => group.push((kernel, ids)),
                None => groups.push(vec![(kernel, ids)]),
            }
        }
        groups
    }

    /// What the kernels of a launch are given.
    fn arguments(&self, kernels: &[Kernel], spills: bool) -> (Vec<Binding>, Vec<Scalar>) {
        let mut touched: BTreeMap<Arena, bool> = BTreeMap::new();
        let mut scalars: BTreeSet<Scalar> = BTreeSet::new();
        for kernel in kernels {
            let writes = kernel.work.writes();
            for id in kernel.work.reads().union(&writes) {
                *touched.entry(self.buffers.places[id.0 as usize].arena).or_default() |= writes.contains(id);
                if self.buffers.swapped[id.0 as usize] {
                    scalars.insert(Scalar::Offset(*id));
                }
            }
            each_view(&kernel.work, &mut |view| {
                let around = view.loops.iter().filter(|(id, _)| self.around.contains_key(id));
                scalars.extend(around.map(|(id, _)| Scalar::Loop(*id)));
            });
            if let Work::Random(random) = &kernel.work {
                let draw = random.draw;
                scalars.extend([Scalar::Key { draw, half: 0 }, Scalar::Key { draw, half: 1 }, Scalar::Given { draw }]);
            }
        }
        if spills {
            touched.insert(Arena::Work, true);
        }
        (bindings(touched), scalars.into_iter().collect())
    }
}

/// The arenas that a launch touches, and whether it writes them. Weights are read four at a time.
fn bindings(touched: BTreeMap<Arena, bool>) -> Vec<Binding> {
    let vector = |arena: Arena| if arena == Arena::Weights { 4 } else { 1 };
    touched.into_iter().map(|(arena, writes)| Binding { arena, vector: vector(arena), writes }).collect()
}

/// The views of a kernel.
fn each_view(work: &Work, f: &mut dyn FnMut(&View)) {
    match work {
        Work::Tile(tile) => tile.each_stmt(&mut |stmt: &Stmt| stmt.accesses().iter().for_each(|a| f(a.view))),
        Work::Contract(contract) => contract.accesses().iter().for_each(|a| f(a.view)),
        Work::Pack(pack) => f(&pack.from),
        Work::Random(_) => {}
    }
}

/// A kernel's work with its buffers numbered as they appear, and which they are. Kernels that differ in nothing but their
/// buffers have one form.
pub(super) fn form(work: &Work) -> (Work, Vec<BufferId>) {
    let mut form = work.clone();
    let mut ids: Vec<BufferId> = Vec::new();
    form.each_buffer_mut(&mut |id| *id = BufferId(numbered(&mut ids, *id)));
    (form, ids)
}

/// The number of an entry of a list, which gets it if it does not have it.
pub(super) fn numbered(ids: &mut Vec<BufferId>, id: BufferId) -> u32 {
    let place = ids.iter().position(|known| *known == id).unwrap_or_else(|| {
        ids.push(id);
        ids.len() - 1
    });
    place as u32
}

/// A name that a device's language takes.
fn identifier(name: &str) -> String {
    let safe: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if safe.starts_with(|c: char| c.is_ascii_alphabetic()) { safe } else { format!("p{safe}") }
}
