//! Moments of an episode of the policy, as a task draws itself.

use compiler::random::key;

use crate::Error;
use crate::actor::{Actor, to_task};
use crate::program::{State, acting};
use crate::tasks::scene::Scene;
use crate::train::Config;

/// A moment of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Decisions before it.
    pub step: u64,
    /// The return so far.
    pub gained: f64,
    pub scene: Scene,
}

/// Moments of one episode of the policy, evenly from the first to the last. None where the task does not know what it looks like.
pub fn frames(config: &Config, learnt: &State, progress: f64, count: usize) -> Result<Option<Vec<Moment>>, Error> {
    let mut environment = config.environment(key("frames", config.seed, "episode", 0) >> 11)?;
    let mut actor = Actor::new(&config.model, false, 1, &acting(&config.model, learnt)?, config.compute)?;
    actor.progress(progress)?;
    let (mut all, mut gained) = (Vec::new(), 0.0);
    loop {
        let step = environment.elapsed();
        let Some(scene) = environment.scene() else { return Ok(None) };
        all.push(Moment { step, gained, scene });
        actor.show(0, environment.observation(), step == 0)?;
        actor.decide(config.seed, step)?;
        let outcome = environment.step(to_task(&config.model, actor.action(0)))?;
        actor.outcome(0, &outcome)?;
        gained += outcome.reward;
        if outcome.last {
            let step = environment.elapsed();
            all.extend(environment.scene().map(|scene| Moment { step, gained, scene }));
            break;
        }
    }
    let chosen = |i: usize| all[i * (all.len() - 1) / (count.max(2) - 1)].clone();
    Ok(Some((0..count.max(2)).map(chosen).collect()))
}
