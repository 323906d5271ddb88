//! Plans with a compiled model and a checkpoint; the model's text is not needed.
//!
//! ```text
//! wmc train examples/small.wm --out runs/small
//! wmc compile examples/small.wm --task pendulum_swingup -o build
//! cargo run --release --example load_and_plan -- build/small-pendulum_swingup.wmx runs/small/checkpoints/best
//! ```

use std::path::Path;

use wmc::{Device, Policy};

pub(crate) fn run(artefact: &Path, checkpoint: &Path) -> Result<Vec<f64>, wmc::Error> {
    let mut policy = Policy::load(artefact, checkpoint, Device::Cpu)?;
    // A pendulum that hangs down: cosine and sine of its angle, and its speed.
    let action = policy.act(&[-1.0, 0.0, 0.0])?;
    println!("{action:?}");
    // The next decision starts from what was planned for this one. A new episode forgets it.
    policy.reset()?;
    Ok(action)
}

fn main() -> Result<(), wmc::Error> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or_else(|| wmc::Error::own("name an artefact and a checkpoint"));
    let (artefact, checkpoint) = (next()?, next()?);
    run(Path::new(&artefact), Path::new(&checkpoint)).map(drop)
}
