//! The terms of the stability analysis: what a step of the model changes the energy by. With `s` for q and p, `d` the step,
//!
//! ```text
//! H(s + d) - H(s)  =  push  +  leak  +  curvature  +  rest
//! push       dH/dp . G a                    the work of the action
//! leak       dH/ds . (1 - alpha) delta      that of the network's branch where it leaves the Hamiltonian field
//! curvature  d' H'' d / 2                   of a step of finite size
//! ```

use std::collections::BTreeMap;

use runtime::diagnose::{Expansion, Trace};
use serde::Serialize;

use super::energy::mean;

/// In the order of the equation.
pub(crate) const TERMS: [&str; 5] = ["change", "push", "leak", "curvature", "rest"];

/// What is told of the episodes of a kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Stability {
    /// The mean size of each term.
    pub(crate) terms: BTreeMap<String, f64>,
    /// Of one episode.
    pub(crate) expansion: Option<Stretch>,
}

/// How far steps of the model pull states apart.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Stretch {
    /// Means over decisions: the largest singular value of the step's derivative; the geometric mean of what a difference that is
    /// carried along the episode grows by.
    pub(crate) largest: f64,
    pub(crate) along: f64,
    /// The largest of the largest.
    pub(crate) most: f64,
    /// Of the central differences.
    pub(crate) step: f64,
}

/// The terms of each decision. None where the model does not name them.
pub(crate) fn terms(trace: &Trace) -> Option<[Vec<f64>; 5]> {
    let [change, push, leak, curvature] = ["change", "push", "leak", "curvature"].map(|name| super::single(trace, name));
    let (change, push, leak, curvature) = (change?, push?, leak?, curvature?);
    let rest = (0..change.len()).map(|t| change[t] - push[t] - leak[t] - curvature[t]).collect();
    Some([change, push, leak, curvature, rest])
}

pub(crate) fn stability(traces: &[Trace], expansion: Option<&Expansion>) -> Option<Stability> {
    let all: Vec<[Vec<f64>; 5]> = traces.iter().filter_map(terms).collect();
    let size = |(i, name): (usize, &&str)| Some((name.to_string(), mean(all.iter().flat_map(|t| &t[i]).map(|x| x.abs()))?));
    let terms: BTreeMap<String, f64> = TERMS.iter().enumerate().filter_map(size).collect();
    let expansion = expansion.and_then(|found| {
        Some(Stretch {
            largest: mean(found.largest.iter().copied())?,
            along: mean(found.along.iter().map(|x| x.max(f64::MIN_POSITIVE).ln()))?.exp(),
            most: found.largest.iter().copied().max_by(f64::total_cmp)?,
            step: found.step,
        })
    });
    (!terms.is_empty() || expansion.is_some()).then_some(Stability { terms, expansion })
}
