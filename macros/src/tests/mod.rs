//! Tests of what is inside the macros, outside of the compiler.

mod expand;
mod round_trip;
