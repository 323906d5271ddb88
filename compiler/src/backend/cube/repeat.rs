//! Launches that differ in nothing but their buffers, as those of an iteration that was written out: they have one code, which is
//! told where its buffers are. The host lets buffers change places before such a launch, and back after it.

use std::collections::{BTreeMap, HashMap};

use crate::kernel::{BufferId, Kernel, Program, Step, Work};

use super::launch::{form, numbered};
use super::plan::{BufferHome, Buffers};

/// So many launches are worth a code that has to be told where its buffers are.
const WORTH: usize = 4;

/// A launch with another's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Repeat {
    /// The launch that it repeats, counted as a program has them.
    pub(super) of: usize,
    /// Exchanges of places, in order, after which the other's buffers are where its own are.
    pub(super) swaps: Vec<(BufferId, BufferId)>,
}

/// The launches of a program that repeat earlier ones, by their number, those of `prepare` first.
pub(super) fn repeats(program: &Program, buffers: &Buffers) -> BTreeMap<usize, Repeat> {
    let mut groups: HashMap<Form, Vec<(usize, Vec<BufferId>)>> = HashMap::new();
    let mut number = 0;
    for steps in [&program.prepare, &program.steps] {
        each_launch(steps, &mut |kernels| {
            if let Some((form, ids)) = whole(kernels, buffers) {
                groups.entry(form).or_default().push((number, ids));
            }
            number += 1;
        });
    }
    let mut found = BTreeMap::new();
    for group in groups.into_values().filter(|group| group.len() >= WORTH) {
        let (of, first) = &group[0];
        for (launch, ids) in &group[1..] {
            found.insert(*launch, Repeat { of: *of, swaps: exchanges(first, ids) });
        }
    }
    found
}

fn each_launch(steps: &[Step], f: &mut dyn FnMut(&[Kernel])) {
    for step in steps {
        match step {
            Step::Launch(kernels) => f(kernels),
            Step::Loop { body, .. } => each_launch(body, f),
            Step::Swap(..) => {}
        }
    }
}

/// What the code of a launch depends on: of each kernel the form, and of each of its buffers the number in the launch and
/// the home.
type Form = Vec<(Work, Vec<(u32, BufferHome)>)>;

/// What the code of a launch depends on, and its buffers in the order in which they appear. None where places change anyway, or
/// a draw has a name of its own.
fn whole(kernels: &[Kernel], buffers: &Buffers) -> Option<(Form, Vec<BufferId>)> {
    let mut all: Vec<BufferId> = Vec::new();
    let mut forms = Form::new();
    for kernel in kernels {
        if matches!(kernel.work, Work::Random(_)) {
            return None;
        }
        let (form, ids) = form(&kernel.work);
        if ids.iter().any(|id| buffers.swapped[id.0 as usize]) {
            return None;
        }
        forms.push((form, ids.iter().map(|id| (numbered(&mut all, *id), buffers.home(*id))).collect()));
    }
    Some((forms, all))
}

/// Exchanges after which each of `names` has the place that the one of `places` had.
fn exchanges(names: &[BufferId], places: &[BufferId]) -> Vec<(BufferId, BufferId)> {
    // Who has a buffer's own place.
    let mut holder: BTreeMap<BufferId, BufferId> = names.iter().chain(places).map(|id| (*id, *id)).collect();
    let mut swaps = Vec::new();
    for (name, place) in names.iter().zip(places) {
        let other = holder[place];
        if other == *name {
            continue;
        }
        swaps.push((*name, other));
        let own = holder.iter().find(|(_, by)| *by == name).map(|(own, _)| *own).expect("every buffer has a place");
        holder.insert(own, other);
        holder.insert(*place, *name);
    }
    swaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_after_exchanges() {
        let ids = |list: &[u32]| list.iter().map(|id| BufferId(*id)).collect::<Vec<_>>();
        for (names, places) in [
            (ids(&[0, 1, 2]), ids(&[1, 2, 3])),
            (ids(&[0, 1]), ids(&[1, 0])),
            (ids(&[3, 1, 2, 0]), ids(&[3, 2, 5, 4])),
            (ids(&[0, 1, 2]), ids(&[2, 0, 1])),
        ] {
            let mut at: BTreeMap<BufferId, BufferId> = (0..6).map(|id| (BufferId(id), BufferId(id))).collect();
            let mut swap = |(a, b): (BufferId, BufferId)| {
                let (x, y) = (at[&a], at[&b]);
                at.insert(a, y);
                at.insert(b, x);
                names.iter().map(|name| at[name]).collect::<Vec<_>>()
            };
            let swaps = exchanges(&names, &places);
            let now = swaps.iter().map(|pair| swap(*pair)).last().unwrap_or_else(|| names.clone());
            assert_eq!(now, places, "{names:?}: {swaps:?}");
            let back = swaps.iter().rev().map(|pair| swap(*pair)).last().unwrap_or_else(|| names.clone());
            assert_eq!(back, names);
        }
    }
}
