//! Trains a model in a world of your own: `cargo run --release --example train_own_world`.
//!
//! Interrupt it and start it again: it goes on from its last checkpoint.

use std::path::Path;

use wmc::{Model, Outcome, Spec, Trainer, World, WorldError};

/// A cart on a rail that should stand in the middle.
#[derive(Debug)]
struct Cart {
    spec: Spec,
    place: f64,
    speed: f64,
}

impl Cart {
    fn new() -> Cart {
        Cart { spec: Spec { name: "cart".into(), observation: 2, action: 1 }, place: 0.0, speed: 0.0 }
    }
}

impl World for Cart {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn reset(&mut self, seed: u64) -> Result<(), WorldError> {
        // The same seed gives the same episode.
        self.place = (seed % 201) as f64 / 100.0 - 1.0;
        self.speed = 0.0;
        Ok(())
    }

    fn step(&mut self, action: &[f64]) -> Result<Outcome, WorldError> {
        self.speed += 0.1 * action[0];
        self.place += 0.1 * self.speed;
        if !self.place.is_finite() {
            return Err(WorldError::own("the cart has left the world"));
        }
        Ok(Outcome { reward: 1.0 - self.place.abs(), terminal: self.place.abs() > 3.0 })
    }

    fn observe(&self, observation: &mut [f64]) {
        observation.copy_from_slice(&[self.place, self.speed]);
    }

    fn save(&self) -> Vec<f64> {
        vec![self.place, self.speed]
    }

    fn restore(&mut self, state: &[f64]) -> Result<(), WorldError> {
        let [place, speed] = state else { return Err(WorldError::own("a cart has two numbers")) };
        (self.place, self.speed) = (*place, *speed);
        Ok(())
    }
}

pub(crate) fn run(folder: &Path) -> Result<(), wmc::Error> {
    // The sizes of observation and action are the world's.
    let model = Model::options().world(Cart::new().spec()).open("examples/small.wm")?;
    let mut trainer = Trainer::options(&model).world(Cart::new).set("length", 40).seed(1).open(folder)?;
    while let Some(report) = trainer.advance()? {
        if let Some(evaluation) = report.evaluation {
            println!("step {}: return {:.1}", trainer.step(), evaluation.mean());
        }
    }
    let action = trainer.policy()?.act(&[0.5, 0.0])?;
    println!("half a metre to the right it pushes with {:.2}", action[0]);
    Ok(())
}

fn main() -> Result<(), wmc::Error> {
    run(Path::new("runs/cart"))
}
