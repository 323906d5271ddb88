//! Several environments, stepped at once: in threads where their steps take long enough for it.

use std::time::{Duration, Instant};

use super::{Environment, Perturbation, TaskError, Transition};

/// Starting a thread takes about this long; steps that are shorter go one after the other.
const WORTH: Duration = Duration::from_micros(100);

#[derive(Debug)]
pub struct Environments {
    all: Vec<Environment>,
    threads: usize,
    /// How long the last step of one environment took. It decides where steps are computed, and nothing about them.
    step: Duration,
}

impl Environments {
    pub fn new(all: Vec<Environment>, threads: usize) -> Environments {
        Environments { all, threads: threads.max(1), step: Duration::ZERO }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Environment> {
        self.all.iter()
    }

    pub fn get_mut(&mut self, row: usize) -> Option<&mut Environment> {
        self.all.get_mut(row)
    }

    /// Changes all of them.
    pub fn perturb(&mut self, change: Perturbation) -> Result<(), TaskError> {
        self.all.iter_mut().try_for_each(|e| e.perturb(change))
    }

    /// One decision in each environment that has an action.
    pub fn step(&mut self, actions: Vec<Option<Vec<f64>>>) -> Result<Vec<Option<Transition>>, TaskError> {
        let moving = actions.iter().flatten().count().max(1);
        let apart = if self.step > WORTH { self.threads.min(moving) } else { 1 };
        let start = Instant::now();
        let mut work: Vec<(&mut Environment, Option<Vec<f64>>)> = self.all.iter_mut().zip(actions).collect();
        let outcomes = match apart {
            1 => decide(&mut work),
            _ => {
                let share = work.len().div_ceil(apart);
                std::thread::scope(|scope| {
                    let shares: Vec<_> = work.chunks_mut(share).map(|own| scope.spawn(|| decide(own))).collect();
                    let join = |thread: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
                        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                    };
                    shares.into_iter().flat_map(join).collect()
                })
            }
        };
        self.step = start.elapsed() * apart as u32 / moving as u32;
        outcomes.into_iter().collect()
    }
}

type Outcome = Result<Option<Transition>, TaskError>;

fn decide(work: &mut [(&mut Environment, Option<Vec<f64>>)]) -> Vec<Outcome> {
    work.iter_mut().map(|(environment, action)| action.take().map(|a| environment.step(a)).transpose()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::pendulum::Pendulum;
    use super::*;
    use crate::tasks::Settings;

    fn five(step: Duration) -> Environments {
        let one = |seed| Environment::new(Box::new(Pendulum::default()), Settings::default(), seed).unwrap();
        Environments { step, ..Environments::new((0..5).map(one).collect(), 2) }
    }

    #[test]
    fn threads_change_nothing() {
        let (mut alone, mut apart) = (five(Duration::ZERO), five(Duration::ZERO));
        for i in 0..40 {
            // The third one rests now and then.
            let actions = || (0..5).map(|row| (row != 2 || i % 3 > 0).then(|| vec![0.1 * f64::from(row)])).collect();
            (alone.step, apart.step) = (Duration::ZERO, Duration::from_secs(1));
            let outcomes = alone.step(actions()).unwrap();
            assert_eq!(outcomes, apart.step(actions()).unwrap());
            assert_eq!(outcomes.iter().filter(|o| o.is_none()).count(), usize::from(i % 3 == 0));
            assert!(alone.iter().zip(apart.iter()).all(|(a, b)| a.observation() == b.observation()));
        }
    }

    #[test]
    fn an_error_in_a_thread_is_an_error() {
        let mut apart = five(Duration::from_secs(1));
        let actions = (0..5).map(|row| Some(vec![0.0; if row == 3 { 2 } else { 1 }])).collect();
        assert!(matches!(apart.step(actions), Err(TaskError::Size { found: 1, wanted: 2, .. })));
    }
}
