//! A kernel program as text for a device, with all that a host has to know to run it: plain data, whoever the host is
//! (the CUDA or Vulkan runtime, an artefact, the emulator of the tests).

use serde::{Deserialize, Serialize};

use crate::kernel::{BufferId, LoopId};

/// What the text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// CUDA C++ for devices of this compute capability (86 for sm_86).
    Cuda { arch: u32 },
    /// WGSL, for Vulkan by way of wgpu.
    Wgsl,
}

/// How products with weights are multiplied; all else is in single precision. Sums are, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Precision {
    #[default]
    F32,
    /// On tensor cores, where a cube has the rows for it: factors are rounded to 11 bits.
    Tf32,
    /// The same with 8 bits.
    Bf16,
}

impl Precision {
    pub const ALL: [Precision; 3] = [Precision::F32, Precision::Tf32, Precision::Bf16];

    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Tf32 => "tf32",
            Precision::Bf16 => "bf16",
        }
    }

    pub fn named(name: &str) -> Option<Precision> {
        Precision::ALL.into_iter().find(|precision| precision.name() == name)
    }
}

/// How numbers of many rows are added up: gradients of weights, losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum Sums {
    /// In an order that depends on shapes alone, so that a run can be repeated to the bit.
    #[default]
    Ordered,
    /// Long sums are shared out among cubes that add to one place in whichever order they get there.
    Atomic,
}

/// What a user chooses about numbers: all of it is exact and repeatable unless something else is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Numerics {
    pub precision: Precision,
    pub sums: Sums,
}

impl Numerics {
    const ATOMIC: &str = "atomic";

    /// `tf32`, `atomic`, `bf16:atomic`; each at most once.
    pub fn named(names: &str) -> Option<Numerics> {
        let (mut precision, mut sums) = (None, None);
        for name in names.split(':') {
            match name {
                Numerics::ATOMIC if sums.is_none() => sums = Some(Sums::Atomic),
                name if precision.is_none() => precision = Some(Precision::named(name)?),
                _ => return None,
            }
        }
        Some(Numerics { precision: precision.unwrap_or_default(), sums: sums.unwrap_or_default() })
    }

    /// What is put behind the name of a device or a target: `:tf32`, or nothing.
    pub fn suffix(self) -> String {
        let precision = (self.precision != Precision::F32).then(|| self.precision.name());
        let sums = (self.sums == Sums::Atomic).then_some(Numerics::ATOMIC);
        [precision, sums].into_iter().flatten().map(|name| format!(":{name}")).collect()
    }
}

/// The four arrays of numbers that all buffers of a program lie in, so that a kernel has few bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Arena {
    /// Inputs that stay on the device from call to call, constants, and what `prepare` makes of them.
    Parameters,
    /// Packed weights; read four at a time.
    Weights,
    /// What lives inside of a run; also locals that do not fit on chip.
    Work,
    /// Inputs and outputs of a call, and random draws, which may be given.
    Io,
}

impl Arena {
    pub const ALL: [Arena; 4] = [Arena::Parameters, Arena::Weights, Arena::Work, Arena::Io];

    pub fn name(self) -> &'static str {
        match self {
            Arena::Parameters => "parameters",
            Arena::Weights => "weights",
            Arena::Work => "work",
            Arena::Io => "io",
        }
    }
}

/// A program, ready to be handed to a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Emitted {
    pub program: String,
    pub target: Target,
    pub numerics: Numerics,
    /// Numbers (of 32 bits) that each arena has, in the order of [`Arena::ALL`].
    pub arenas: [usize; 4],
    /// Where each buffer of the program is when a run starts. Swaps exchange places.
    pub buffers: Vec<Place>,
    /// Buffers, in the order of the program's inputs and outputs.
    pub inputs: Vec<BufferId>,
    pub outputs: Vec<BufferId>,
    /// Numbers to be written before anything runs.
    pub constants: Vec<(BufferId, Vec<f32>)>,
    /// Names of random draws.
    pub draws: Vec<Draw>,
    pub kernels: Vec<EmittedKernel>,
    /// To be run when parameters have changed.
    pub prepare: Vec<Action>,
    pub steps: Vec<Action>,
    /// Launched when outputs are to become the inputs that they update.
    pub advance: Vec<Action>,
    /// What the plan decided and why, for `wmc explain`.
    pub notes: Vec<Note>,
}

/// Numbers `offset .. offset + len` of an arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub arena: Arena,
    pub offset: usize,
    pub len: usize,
}

/// A random draw: its name, and the buffer that its numbers are written to if a caller gives them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draw {
    pub name: String,
    pub to: Vec<BufferId>,
}

/// What the host does, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Of `kernels`, by index.
    Launch(usize),
    Loop {
        id: LoopId,
        count: usize,
        reverse: bool,
        body: Vec<Action>,
    },
    /// The two buffers exchange their places; kernels get to know it by [`Scalar::Offset`].
    Swap(BufferId, BufferId),
}

/// One launch. Its arguments are the bindings in order, then the scalars, all of 32 bits without sign.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EmittedKernel {
    /// The name of the function in the source.
    pub name: String,
    pub source: String,
    /// Units of a cube (threads of a block), along x.
    pub cube_dim: u32,
    /// Cubes, along x.
    pub cube_count: u32,
    pub shared_bytes: usize,
    pub bindings: Vec<Binding>,
    pub scalars: Vec<Scalar>,
    /// Kernels of the program that it does, by name.
    pub parts: Vec<String>,
}

/// An arena as a kernel sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    pub arena: Arena,
    /// Numbers of an element: 1 or 4.
    pub vector: u32,
    pub writes: bool,
}

/// A number that the host passes with a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scalar {
    /// The step at which a loop of the host is.
    Loop(LoopId),
    /// Where a buffer that is swapped is at the moment.
    Offset(BufferId),
    /// Half 0 or 1 of the key of a draw (`random::key`, the lower half first).
    Key { draw: u32, half: u32 },
    /// 1 if the caller has given the draw's numbers: nothing is generated.
    Given { draw: u32 },
}

/// A decision of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub kernel: String,
    pub text: String,
}

impl Emitted {
    /// Launches of one run of `actions`, loops multiplied out.
    pub fn launches(actions: &[Action]) -> usize {
        let of = |action: &Action| match action {
            Action::Launch(_) => 1,
            Action::Loop { count, body, .. } => count * Emitted::launches(body),
            Action::Swap(..) => 0,
        };
        actions.iter().map(of).sum()
    }
}
