//! How long decisions take.

use std::time::Duration;

/// The last decisions: the room is bounded, however long a run is.
const KEPT: usize = 4096;

#[derive(Debug, Clone, Default)]
pub struct Latencies {
    seconds: Vec<f32>,
    next: usize,
}

impl Latencies {
    pub(crate) fn add(&mut self, time: Duration) {
        match self.seconds.get_mut(self.next) {
            Some(place) => *place = time.as_secs_f32(),
            None => self.seconds.push(time.as_secs_f32()),
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// Decisions that are remembered.
    pub fn count(&self) -> usize {
        self.seconds.len()
    }

    /// The time that this part of them was done in: 0.5 is the median.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f32::total_cmp);
        let place = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(place.clamp(1, sorted.len().max(1)) - 1).map(|s| Duration::from_secs_f32(*s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_ones() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), None);
        (0..KEPT).for_each(|_| latencies.add(Duration::from_secs(9)));
        (1..=KEPT as u64).for_each(|ms| latencies.add(Duration::from_millis(ms)));
        let ms = |part| (latencies.quantile(part).unwrap().as_secs_f64() * 1e3).round();
        assert_eq!((latencies.count(), ms(0.5), ms(0.99), ms(1.0)), (KEPT, 2048.0, 4056.0, 4096.0));
    }
}
