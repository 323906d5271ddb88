//! Launches: kernels that can be called for together. One whose kernels can all be run earlier, with kernels that are launched
//! anyway, goes away.

use std::collections::BTreeSet;

use crate::kernel::{BufferId, Kernel, Step};

/// What a piece of work reads and writes.
#[derive(Default)]
struct Touched {
    reads: BTreeSet<BufferId>,
    writes: BTreeSet<BufferId>,
}

impl Touched {
    fn kernel(kernel: &Kernel) -> Touched {
        Touched { reads: kernel.work.reads(), writes: kernel.work.writes() }
    }

    fn step(step: &Step) -> Touched {
        let mut all = Touched::default();
        match step {
            Step::Launch(kernels) => kernels.iter().for_each(|kernel| all.add(Touched::kernel(kernel))),
            Step::Loop { body, .. } => body.iter().for_each(|step| all.add(Touched::step(step))),
            Step::Swap(a, b) => all.writes.extend([*a, *b]),
        }
        all
    }

    fn add(&mut self, other: Touched) {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
    }

    /// Whether the two may change places.
    fn apart(&self, other: &Touched) -> bool {
        self.writes.is_disjoint(&other.writes) && self.writes.is_disjoint(&other.reads) && self.reads.is_disjoint(&other.writes)
    }
}

/// Launches kernels in order, together as far as none reads what another writes.
pub(super) fn launch(kernels: Vec<Kernel>, out: &mut Vec<Step>) {
    let mut together: Vec<Kernel> = Vec::new();
    let mut written: BTreeSet<BufferId> = BTreeSet::new();
    for kernel in kernels {
        if kernel.work.reads().iter().any(|id| written.contains(id)) {
            out.push(Step::Launch(std::mem::take(&mut together)));
            written.clear();
        }
        written.extend(kernel.work.writes());
        together.push(kernel);
    }
    if !together.is_empty() {
        out.push(Step::Launch(together));
    }
}

/// The same work, in fewer launches where that can be.
pub(super) fn gather(steps: Vec<Step>) -> Vec<Step> {
    let mut out: Vec<(Step, Touched)> = Vec::new();
    for step in steps {
        match step {
            Step::Launch(kernels) => add(kernels, &mut out),
            step => {
                let touched = Touched::step(&step);
                out.push((step, touched));
            }
        }
    }
    out.into_iter().map(|(step, _)| step).collect()
}

fn add(kernels: Vec<Kernel>, out: &mut Vec<(Step, Touched)>) {
    let touched: Vec<Touched> = kernels.iter().map(Touched::kernel).collect();
    let earlier: Option<Vec<usize>> = touched.iter().map(|kernel| place(kernel, out)).collect();
    let Some(earlier) = earlier else {
        let step = Step::Launch(kernels);
        let touched = Touched::step(&step);
        out.push((step, touched));
        return;
    };
    for ((at, kernel), touched) in earlier.into_iter().zip(kernels).zip(touched) {
        if let (Step::Launch(together), all) = &mut out[at] {
            together.push(kernel);
            all.add(touched);
        }
    }
}

/// The last launch that a kernel may join.
fn place(kernel: &Touched, out: &[(Step, Touched)]) -> Option<usize> {
    let free = out.iter().rev().take_while(|(_, touched)| kernel.apart(touched)).count();
    let first = out.len() - free;
    (first..out.len()).rev().find(|at| matches!(out[*at].0, Step::Launch(_)))
}
