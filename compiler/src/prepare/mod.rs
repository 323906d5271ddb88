//! Preparation for kernels: passes that bring a simplified program into the form that the fuser makes good kernels of.
//!
//! [`kernel_passes`] is the list for a target and a level; `docs/internals/passes.md` is made of it. At
//! [`Level::Mega`] a loop over time is inside of its kernel, and most passes see to it that what a step works on is near.

mod accumulate_in_loop;
mod expand_composites;
pub(crate) mod find_rows;
mod fuse_consumer;
mod fuse_epilogue;
mod horizontal_fusion;
mod interchange;
mod remat;
mod remove_empty;

use crate::ir::Program;
use crate::kernel::Target;
use crate::kernel::fuse::Level;
use crate::pass::{self, Broken, Context, Pass};
use crate::simplify::shared::{CSE, DCE, REWRITE, SINK_ROW_SUMS, STRIP_STOPS};
use crate::simplify::{SIMPLIFY, simplify};
use crate::stage::{KernelReady, Lowered, Simplified};

/// Sums leave loops one after the other, and enter them so.
const ROUNDS: usize = 2;

/// The passes between simplification and fusion, in order.
pub fn kernel_passes(target: &Target, level: Level) -> Vec<Pass> {
    let mut list = vec![STRIP_STOPS, expand_composites::PASS, remove_empty::PASS, find_rows::PASS];
    list.extend([SINK_ROW_SUMS, REWRITE, CSE, DCE].repeat(ROUNDS));
    if level != Level::Eager {
        list.extend([horizontal_fusion::PASS, CSE]);
    }
    if level == Level::Mega {
        list.extend([fuse_epilogue::PASS, fuse_consumer::PASS, remat::PASS, DCE]);
        if target.carried < usize::MAX {
            list.extend([interchange::PASS, REWRITE]);
        }
        list.extend([accumulate_in_loop::PASS, DCE].repeat(ROUNDS));
    }
    list.push(STRIP_STOPS);
    list
}

/// Runs the passes of a target and a level.
pub fn prepare(program: &Simplified, target: &Target, level: Level) -> Result<KernelReady, Broken> {
    let mut program = Program::clone(program);
    pass::run(&kernel_passes(target, level), &mut program, &mut Context::new(*target))?;
    Ok(KernelReady(program))
}

/// The names of all passes of a target and a level, each once, in the order in which they first run.
pub fn names(target: &Target, level: Level) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for pass in SIMPLIFY.iter().chain(&kernel_passes(target, level)) {
        if !names.contains(&pass.name) {
            names.push(pass.name);
        }
    }
    names
}

/// The program as a pass leaves it: one of [`SIMPLIFY`] when it runs for the first time, one for kernels when it runs for
/// the last time. None if no pass has that name.
pub fn until(program: Lowered, name: &str, target: &Target, level: Level) -> Result<Option<Program>, Broken> {
    let mut context = Context::new(*target);
    if let Some(last) = SIMPLIFY.iter().position(|pass| pass.name == name) {
        let mut program = program.into_program();
        pass::run(&SIMPLIFY[..=last], &mut program, &mut context)?;
        return Ok(Some(program));
    }
    let list = kernel_passes(target, level);
    let Some(last) = list.iter().rposition(|pass| pass.name == name) else { return Ok(None) };
    let mut program = simplify(program).into_program();
    pass::run(&list[..=last], &mut program, &mut context)?;
    Ok(Some(program))
}
