//! The text form of a kernel program: what it prints as, it is read from, to the same bits.
//!
//! ```text
//! program plan
//!
//! buffer %0 x: input 1728
//! buffer %1 w: input 7776
//! buffer %2 w.packed: kept 7776
//! buffer %3 y: output 24576
//!
//! input %0, %1
//! output %3
//!
//! prepare {
//!   launch {
//!     pack w n 128 k [54]: %2 = %1[54, 1] splat
//!   }
//! }
//!
//! steps {
//!   launch {
//!     ; dot, tanh
//!     ; ends: the rows of `B` are summed
//!     tile head rows [32] arena 182 {
//!       local $0: 54 @ 0
//!       local $1: 128 @ 54
//!       copy [54]: $0[1] = %0[1] rows [54]
//!       for t0 in 6 {
//!         gemm n 128 k 54: $1[1] = $0[1] * %2[] splat
//!         map [128] {
//!           r0 = load $1[1]
//!           r1 = tanh r0
//!           store $1[1] = r1
//!         }
//!         copy [128]: %3[1]{t0: 4096} rows [128] = $1[1]
//!       }
//!     }
//!   }
//! }
//! ```
//!
//! - A view is its base, `@` its offset unless that is 0, its strides, in braces the distances of the loops that move it,
//!   and its lanes: side by side, `splat`, or `rows` with a stride for each axis of the rows.
//! - In a map, `r0 = load VIEW` loads from the next of the map's views and `r0 = load 2` from the third again; `load VIEW`
//!   without a register is a view that is not loaded there. `sum` and `max` in place of `store` reduce.
//! - `+=` in a gemm is `accumulate`; what has no dimension (`batch`, `m`, `i`) is left out, and so is a `last` of 0.
//! - `;` starts a comment. A kernel's [`Notes`](super::Notes) are printed as comments: `parse(print(p))` is `p` without them.
//! - Neither direction asks whether the program makes sense: that is [`verify`](super::verify)'s job.

mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use crate::ir::text::ParseError;
pub use parse::parse;
pub use print::print;
