//! An agent in a loop of your own: `cargo run --release --example own_loop`.
//!
//! For worlds that cannot be reset at will or that have a clock of their own: a robot, a plant, a game.

use wmc::{Agent, Model};

pub(crate) fn run(decisions: u64) -> Result<u64, wmc::Error> {
    let model = Model::options().size("O", 2).size("A", 1).open("examples/small.wm")?;
    let mut agent = Agent::new(&model, 1)?;
    let (mut place, mut speed) = (1.0, 0.0);
    agent.begin(&[place, speed])?;
    while agent.step() < decisions {
        let action = agent.act()?;
        speed += 0.1 * action[0];
        place += 0.1 * speed;
        let reward = 1.0 - f64::abs(place);
        agent.observe(reward, false, &[place, speed])?;
        // Updates take time. Make them when your world can wait.
        if agent.learn()? && agent.step().is_multiple_of(100) {
            let losses: Vec<String> = agent.losses().map(|(name, x)| format!("{name} {x:.3}")).collect();
            println!("step {}: reward {reward:.2}, {}", agent.step(), losses.join(", "));
        }
        if f64::abs(place) > 3.0 {
            (place, speed) = (1.0, 0.0);
            agent.begin(&[place, speed])?;
        }
    }
    Ok(agent.updates())
}

fn main() -> Result<(), wmc::Error> {
    run(400).map(drop)
}
