//! What is read has been written, in the order in which steps run.

use std::collections::BTreeSet;

use super::super::{BufferId, BufferKind, Kernel, Program, Step, Stmt, Work};
use super::{Checked, VerifyError, ensure, show};

pub(super) fn check(program: &Program) -> Result<(), VerifyError> {
    let lasting = |kind: &BufferKind| matches!(kind, BufferKind::Input | BufferKind::Const(_));
    let of_kind = |wanted: &dyn Fn(&BufferKind) -> bool| -> BTreeSet<BufferId> {
        let buffers = program.buffers.iter().enumerate();
        buffers.filter(|(_, b)| wanted(&b.kind)).map(|(i, _)| BufferId(i as u32)).collect()
    };
    let mut flow = Flow { written: of_kind(&lasting), rounds: 0 };
    flow.steps(&program.prepare)?;
    let kept = of_kind(&|kind| lasting(kind) || *kind == BufferKind::Kept);
    flow.written.retain(|id| kept.contains(id));
    flow.steps(&program.steps)?;
    for id in &program.outputs {
        ensure!(flow.written.contains(id), "nothing writes the output {}", show(*id));
    }
    Ok(())
}

/// Buffers that are kept in mind for all rounds of loops together. Swaps of hundreds of buffers could go on for longer than
/// anyone waits.
const ROUNDS: usize = 1 << 21;

struct Flow {
    written: BTreeSet<BufferId>,
    rounds: usize,
}

impl Flow {
    fn steps(&mut self, steps: &[Step]) -> Result<(), VerifyError> {
        for step in steps {
            match step {
                Step::Launch(kernels) => {
                    for kernel in kernels {
                        self.kernel(kernel).map_err(|message| VerifyError { kernel: Some(kernel.name.clone()), message })?;
                    }
                }
                Step::Loop { count, body, .. } => {
                    // Swaps make a later round start otherwise than the first: go on until a round starts as one before.
                    let mut seen = BTreeSet::new();
                    for _ in 0..*count {
                        if !seen.insert(self.written.clone()) {
                            break;
                        }
                        self.rounds += 1 + self.written.len();
                        ensure!(self.rounds <= ROUNDS, "its swaps take too many rounds to repeat");
                        self.steps(body)?;
                    }
                }
                Step::Swap(a, b) => {
                    let had = [*a, *b].map(|id| self.written.remove(&id));
                    for (id, had) in [(*b, had[0]), (*a, had[1])] {
                        if had {
                            self.written.insert(id);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn kernel(&mut self, kernel: &Kernel) -> Checked {
        match &kernel.work {
            Work::Tile(tile) => self.body(&tile.body)?,
            Work::Contract(contract) => self.accesses(&contract.accesses())?,
            Work::Pack(pack) => self.accesses(&[pack.from_access()])?,
            Work::Random(_) => {}
        }
        self.written.extend(kernel.work.fills());
        Ok(())
    }

    fn body(&mut self, body: &[Stmt]) -> Checked {
        for stmt in body {
            match stmt {
                Stmt::Loop { count, body, .. } if *count > 0 => self.body(body)?,
                Stmt::Loop { .. } => {}
                stmt => self.accesses(&stmt.accesses()).map_err(|message| format!("{}: {message}", stmt.name()))?,
            }
        }
        Ok(())
    }

    fn accesses(&mut self, accesses: &[super::Access<'_>]) -> Checked {
        for access in accesses {
            let Some(id) = access.buffer() else { continue };
            let nothing = access.dims.contains(&0);
            let known = nothing || !access.role.reads() || self.written.contains(&id);
            ensure!(known, "{}: {} is read before it is written", access.name, show(id));
        }
        self.written.extend(accesses.iter().filter(|a| a.role.writes()).filter_map(|a| a.buffer()));
        Ok(())
    }
}
