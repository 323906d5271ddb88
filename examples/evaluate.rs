//! Evaluates an entry point on tensors of your own: `cargo run --release --example evaluate`.
//!
//! This is how you compare a model with another implementation of it: give both the same numbers.

use wmc::{Model, Tensor, Tensors};

pub(crate) fn run() -> Result<f64, wmc::Error> {
    let model = Model::open("examples/small.wm")?;
    let (batch, time) = (4, 3);
    let zeros = |shape: &[usize]| Tensor { shape: shape.to_vec(), data: vec![0.0; shape.iter().product()] };
    let mut given = Tensors::new();
    given.insert("data.obs".into(), zeros(&[batch, time, 3]));
    // Nothing follows from the last observation of a segment.
    given.insert("data.a".into(), zeros(&[batch, time - 1, 1]));
    given.insert("data.r".into(), Tensor { shape: vec![batch, time - 1], data: vec![0.5; batch * (time - 1)] });
    // A network without weights predicts a reward of 0, which is 0.5 too little.
    for (name, shape) in model.parameters() {
        given.insert(format!("param.{name}"), zeros(&shape));
    }
    let outputs = model.call("train_step", &given)?;
    let loss = outputs["loss.reward"].data[0];
    println!("the reward is wrong by {loss}, squared");
    Ok(loss)
}

fn main() -> Result<(), wmc::Error> {
    run().map(drop)
}
