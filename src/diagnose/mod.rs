//! `wmc diagnose`: what a model with an energy does with it.
//!
//! | file | subject |
//! |---|---|
//! | [`energy`] | drifts of the model's energy and of the simulator's, and what pushes change about it |
//! | [`stability`] | what a step of the model changes the energy by, term by term |
//! | [`slices`] | the energy over two coordinates |
//! | [`embed`] | points of many coordinates in two |
//! | [`drawn`] | the other figures |

pub(crate) mod drawn;
pub(crate) mod embed;
pub(crate) mod energy;
pub(crate) mod slices;
pub(crate) mod stability;

use runtime::diagnose::Trace;

/// A value of one number along an episode.
pub(crate) fn single(trace: &Trace, name: &str) -> Option<Vec<f64>> {
    trace.values.get(name)?.iter().map(|x| if let [x] = x[..] { Some(f64::from(x)) } else { None }).collect()
}
