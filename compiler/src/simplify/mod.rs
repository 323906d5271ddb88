//! Simplification: passes from graph program to graph program that keep its numbers.
//!
//! [`SIMPLIFY`] is the list of passes; [`simplify`] runs it until the program does not change any more. Passes neither
//! depend on the order of nodes that do not depend on each other nor on any hash, so equal programs give equal programs.
//! Gradients of a simplified program are the gradients of the program; [`strip_stops`] is for when there are none left to
//! take. `docs/internals/passes.md` is made of the list.

mod coalesce;
mod cse;
mod dce;
mod fold;
mod licm;
pub mod rewrite;
mod sink;
mod stops;
mod unroll;

pub use coalesce::coalesce;
pub(crate) use cse::Shared;
pub use cse::cse;
pub use dce::dce;
pub use fold::fold;
pub use licm::licm;
pub use rewrite::rewrite;
pub use sink::{sink, sink_row_sums};
pub use stops::strip_stops;
pub(crate) use unroll::draws;
pub use unroll::unroll;

use crate::pass::{self, Context, Pass};
use crate::stage::{Lowered, Simplified};

/// The passes that every program goes through, in order.
pub const SIMPLIFY: &[Pass] =
    &[unroll::PASS, coalesce::PASS, fold::PASS, rewrite::PASS, cse::PASS, licm::PASS, sink::PASS, dce::PASS];

/// Passes that have a place in the list for kernels as well.
pub(crate) mod shared {
    pub(crate) use super::{cse::PASS as CSE, dce::PASS as DCE, rewrite::PASS as REWRITE};
    pub(crate) use super::{sink::ROWS as SINK_ROW_SUMS, stops::PASS as STRIP_STOPS};
}

/// Rounds of all passes; programs come to rest long before.
const ROUNDS: usize = 16;

/// Runs the passes until the program does not change any more.
///
/// # Panics
/// Where the verifier runs and a pass breaks the program: a fault of the compiler.
pub fn simplify(program: Lowered) -> Simplified {
    let Lowered(mut program) = program;
    let mut context = Context::default();
    for _ in 0..ROUNDS {
        let before = program.clone();
        pass::run(SIMPLIFY, &mut program, &mut context).unwrap_or_else(|broken| panic!("{broken}"));
        if program == before {
            break;
        }
    }
    Simplified(program)
}
