//! Workers that take the items of a task from one counter.
//!
//! The caller works too and waits for items that are being worked on, never for a worker to wake up: when the other
//! cores are busy with something else, it does everything itself. Nobody spins for longer than a few microseconds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// What the workers work on.
pub(super) trait Task: Send + Sync + 'static {
    /// Does one item; `worker` says who, so that everyone can have memory of his own.
    fn work(&self, worker: usize, item: usize);
}

/// How long to look for news before going to sleep: about what waking up takes.
const PATIENCE: Duration = Duration::from_micros(5);

#[derive(Debug)]
pub(super) struct Pool<T: Task> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared<T> {
    task: T,
    /// The round in the upper half, how many of its items nobody has taken yet in the lower half. Taking an item is one
    /// exchange, which fails when the round is over: a worker that comes late cannot take from the wrong round.
    left: AtomicU64,
    total: AtomicU32,
    done: AtomicU32,
    caller: Mutex<Option<Thread>>,
    panicked: AtomicBool,
    stop: AtomicBool,
}

impl<T: Task> Pool<T> {
    /// `workers` with the caller, at least one.
    pub(super) fn new(task: T, workers: usize) -> Pool<T> {
        let shared = Arc::new(Shared {
            task,
            left: AtomicU64::new(0),
            total: AtomicU32::new(0),
            done: AtomicU32::new(0),
            caller: Mutex::new(None),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        });
        let threads = (1..workers)
            .map(|worker| {
                let shared = shared.clone();
                thread::spawn(move || shared.serve(worker))
            })
            .collect();
        Pool { shared, threads }
    }

    pub(super) fn task(&self) -> &T {
        &self.shared.task
    }

    /// Does the items `0..items`, in any order, at the same time; returns when all are done.
    pub(super) fn run(&mut self, items: usize) {
        let shared = &*self.shared;
        if items <= 1 || self.threads.is_empty() {
            (0..items).for_each(|item| shared.task.work(0, item));
            return;
        }
        *shared.caller.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        let items = u32::try_from(items).expect("fewer items than numbers of 32 bits");
        shared.total.store(items, Ordering::Relaxed);
        shared.done.store(0, Ordering::Relaxed);
        let round = (shared.left.load(Ordering::Relaxed) >> 32).wrapping_add(1) << 32;
        shared.left.store(round | u64::from(items), Ordering::Release);
        self.threads.iter().take(items as usize - 1).for_each(|t| t.thread().unpark());
        shared.take_all(0);
        wait(|| shared.done.load(Ordering::Acquire) == items);
        if shared.panicked.load(Ordering::Relaxed) {
            panic!("a worker panicked");
        }
    }
}

impl<T: Task> Drop for Pool<T> {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A worker's panic has been told by `run`.
            let _ = thread.join();
        }
    }
}

impl<T: Task> Shared<T> {
    fn serve(&self, worker: usize) {
        while !self.stop.load(Ordering::Acquire) {
            self.take_all(worker);
            wait(|| self.left.load(Ordering::Relaxed) as u32 != 0 || self.stop.load(Ordering::Relaxed));
        }
    }

    fn take_all(&self, worker: usize) {
        while let Some((item, total)) = self.take() {
            // An item counts as done even then: the caller must not wait for ever.
            if catch_unwind(AssertUnwindSafe(|| self.task.work(worker, item as usize))).is_err() {
                self.panicked.store(true, Ordering::Relaxed);
            }
            if self.done.fetch_add(1, Ordering::AcqRel) + 1 == total
                && let Some(caller) = &*self.caller.lock().unwrap_or_else(PoisonError::into_inner)
            {
                caller.unpark();
            }
        }
    }

    /// An item that nobody has, and how many the round has.
    fn take(&self) -> Option<(u32, u32)> {
        let mut left = self.left.load(Ordering::Acquire);
        loop {
            if left as u32 == 0 {
                return None;
            }
            // Belongs to this round if the exchange succeeds: until all its items are taken, nobody writes another.
            let total = self.total.load(Ordering::Relaxed);
            match self.left.compare_exchange_weak(left, left - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some((total - left as u32, total)),
                Err(now) => left = now,
            }
        }
    }
}

/// Returns when `ready`; sleeps after a while. Who makes it ready must unpark the waiting thread.
fn wait(ready: impl Fn() -> bool) {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        for _ in 0..16 {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
    }
    while !ready() {
        thread::park();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Count(Vec<AtomicUsize>);

    impl Task for Count {
        fn work(&self, _: usize, item: usize) {
            self.0[item].fetch_add(1, Ordering::Relaxed);
            assert_ne!(item, 999);
        }
    }

    #[test]
    fn every_item_once() {
        for workers in [1, 2, 3, 8] {
            let mut pool = Pool::new(Count((0..200).map(|_| AtomicUsize::new(0)).collect()), workers);
            for round in 0..2000 {
                let items = (round * 7) % 200;
                pool.run(items);
                for (i, count) in pool.task().0.iter().enumerate() {
                    assert_eq!(count.swap(0, Ordering::Relaxed), usize::from(i < items), "item {i} of {items}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a worker panicked")]
    fn a_panic_is_told() {
        Pool::new(Count((0..1000).map(|_| AtomicUsize::new(0)).collect()), 2).run(1000);
    }
}
