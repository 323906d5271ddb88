//! Processor time, for benches and tests: `#[path = "../benches/processor.rs"] mod processor;`.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time that this thread has had of the processor, where the system tells; the clock elsewhere.
pub(crate) fn cpu_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    // The system brings its account up to date when a thread gives way, and otherwise some hundred times a second.
    std::thread::yield_now();
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    nanos.map_or_else(|| START.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}
