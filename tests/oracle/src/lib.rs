//! Random `.wm` models against an evaluator of the language definition.
//!
//! [`generate`] writes a small model from a seed. [`eval::Oracle`] evaluates it point by point, as docs/guide/language.md
//! says: families are functions of sample and indices, gradients are dual numbers. It shares the parser with the
//! compiler and nothing else. [`compare`] runs both and reports the first difference; [`shrink`] makes it small.

#![allow(missing_debug_implementations, reason = "an evaluator's state is of no use in a message")]

pub mod array;
pub mod builtins;
pub mod call;
pub mod compare;
pub mod constructs;
pub mod eval;
pub mod family;
pub mod generate;
pub mod gradient;
pub mod number;
pub mod planner;
pub mod run;
pub mod sequence;
pub mod shrink;
mod statistics;
pub mod value;
