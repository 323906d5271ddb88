//! The processor, for the passes for kernels and the fuser.

use crate::kernel::{self, Target};

/// Processors with vectors and two levels of cache for each core.
pub const TARGET: Target = Target {
    name: "cpu",
    lanes: micro::LANES,
    odd_pitch: true,
    carried: SECOND_LEVEL / (micro::LANES * size_of::<f32>()),
    large: FIRST_LEVEL / (micro::LANES * size_of::<f32>()),
};

/// Bytes of the first-level cache that an array must exceed to be beyond it.
const FIRST_LEVEL: usize = 128 << 10;

/// Bytes that a second-level cache holds beside what else a step needs.
const SECOND_LEVEL: usize = 256 << 10;

// The micro-kernels compute what kernel programs say.
const _: () = assert!(micro::LANES == kernel::LANES && micro::PANEL == kernel::PANEL);
