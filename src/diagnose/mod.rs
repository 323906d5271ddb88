//! `wmc diagnose`: what a model with an energy does with it.
//!
//! | file | subject |
//! |---|---|
//! | [`energy`] | drifts of the model's energy and of the simulator's, and what pushes change about it |
//! | [`embed`] | points of many coordinates in two |
//! | [`drawn`] | the figures |

pub(crate) mod drawn;
pub(crate) mod embed;
pub(crate) mod energy;
