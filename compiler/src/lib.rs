//! From a checked model to graph programs: lowering, differentiation, simplification, and an interpreter that is the
//! oracle for everything faster.

pub mod artefact;
pub mod backend;
pub mod budget;
pub mod composite;
pub mod grad;
pub mod interp;
pub mod ir;
pub mod kernel;
pub mod lower;
pub mod memory;
pub mod random;
pub mod rules;
pub mod run;
pub mod simplify;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
