//! Finds the axes that become the rows of kernels, for the passes that follow.

use crate::ir::{Op, Program, ValueId};
use crate::kernel::fuse::dims::{Dims, ROOT};
use crate::pass::Pass;

/// The pass as it stands in its list.
pub(crate) const PASS: Pass = Pass {
    name: "find_rows",
    about: "Analysis: finds the axes that become the rows of kernels. The program stays as it is.",
    run: |program, cx| cx.rows = Dims::new(program).row_axes(program),
};

/// The loops of the program's graph whose steps exchange numbers between rows.
pub(crate) fn crossing(program: &Program) -> Vec<ValueId> {
    let dims = Dims::new(program);
    let crosses = |v: &ValueId| matches!(program.graph.node(*v).op, Op::Scan(_)) && dims.rows(&program.graph, ROOT, *v).1;
    program.graph.ids().filter(crosses).collect()
}
