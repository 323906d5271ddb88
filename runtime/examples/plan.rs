//! Plans with a trained model: `cargo run --release -p wmc-runtime --example plan -- runs/RUN 0 -1 0 0 0`.

use std::path::Path;

use wmc_runtime::run::Run;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name the folder of a run, then the numbers of an observation")?;
    let observation: Vec<f64> = arguments.map(|a| a.parse()).collect::<Result<_, _>>()?;
    let mut policy = Run::open(Path::new(&folder))?.policy()?;
    println!("{:?}", policy.plan(&observation)?);
    Ok(())
}
