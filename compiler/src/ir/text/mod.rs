//! The text form of a graph program: what it prints as, it is read from, to the same bits.
//!
//! ```text
//! program act
//!
//! axis B = 4
//! axis t = 3
//!
//! draw noise
//!
//! input x: data [t, B]
//! input h0: carry [B]
//!
//! %0: [t, B] = input x
//! %1: [B] = input h0
//! %2: [] = scan t forward init(%1) xs(%0) consts() {
//!   %0: [B] = param 0
//!   %1: [B] = param 1
//!   %2: [B] = add %0, %1  ; model.wm:12:7
//!   results %2
//! }
//! %3: [B] = out %2, 0
//!
//! output h = %3 updates h0
//! ```
//!
//! - One declaration or node a line; a node's number is its place in its graph; bodies of scans count anew.
//! - Axes, inputs and draws go by their names. Where a name occurs twice it is followed by its number (`one#7`), and
//!   `#7` alone is the number of something that is not declared. A name that is no word is quoted.
//! - `;` starts a comment. Places in the source are printed as comments, so reading a text gives nodes without a place;
//!   all else is kept: `parse(print(p))` is `p` without spans.
//! - Neither direction asks whether the program makes sense: that is [`verify`](crate::ir::verify)'s job.

mod lex;
mod names;
mod parse;
mod print;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use lex::Token;
pub(crate) use names::word;
pub use parse::parse;
pub use print::print;
pub use read::ParseError;
pub(crate) use read::{Cursor, Reader, Result};
