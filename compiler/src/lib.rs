//! From a checked model to graph programs: lowering, differentiation, simplification, and an interpreter that is the
//! oracle for everything faster.

pub mod grad;
pub mod ir;
pub mod lower;
pub mod simplify;
