//! The load of other programs during a round. A round under load does not count.

use std::fs;

/// Processor time in seconds: of the whole machine, and of some processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    machine: f64,
    ours: f64,
}

/// The kernel counts in hundredths of a second, on every machine.
const TICKS: f64 = 100.0;

impl Used {
    /// Up to now, by this process and by `peers`; none where the system does not say.
    pub(crate) fn now(peers: impl IntoIterator<Item = u32>) -> Option<Used> {
        let machine = machine(&fs::read_to_string("/proc/stat").ok()?)?;
        let all = peers.into_iter().map(|pid| pid.to_string()).chain(["self".to_string()]);
        let ours = all.filter_map(|pid| process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).sum();
        Some(Used { machine, ours })
    }

    /// How many processors others kept busy from `start` to here, which are `seconds`.
    pub(crate) fn others_since(self, start: Used, seconds: f64) -> f64 {
        let others = (self.machine - start.machine) - (self.ours - start.ours);
        // Shorter than a few ticks, nothing can be said.
        others.max(0.0) / seconds.max(5.0 / TICKS)
    }
}

/// `cpu user nice system idle iowait irq softirq steal ..`
fn machine(stat: &str) -> Option<f64> {
    let fields: Vec<f64> = stat.lines().next()?.split_whitespace().skip(1).map_while(|f| f.parse().ok()).take(8).collect();
    let busy = fields.iter().enumerate().filter(|(i, _)| ![3, 4].contains(i)).map(|(_, ticks)| ticks).sum::<f64>();
    (fields.len() >= 4).then_some(busy / TICKS)
}

/// The name is in parentheses and may have spaces; user and system time are the twelfth and thirteenth after it.
fn process(stat: &str) -> Option<f64> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says() {
        assert_eq!(machine("cpu  100 20 30 9000 800 1 2 3 7 0\ncpu0 1 2\n"), Some(1.56));
        assert_eq!(machine("intr 5\n"), None);
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(process(stat), Some(3.0));
    }

    #[test]
    fn what_is_left_is_of_others() {
        let (start, end) = (Used { machine: 10.0, ours: 4.0 }, Used { machine: 13.0, ours: 6.0 });
        assert_eq!(end.others_since(start, 2.0), 0.5);
    }
}
