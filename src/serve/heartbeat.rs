//! Whether the runtimes of the process still do their work: each must tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

/// Pause between two ticks.
const PERIOD: Duration = Duration::from_secs(1);
/// A runtime that has not ticked for this long is stuck; liveness fails within 30 s
/// (docs/behaviour/server.md#liveness).
const TIMEOUT: Duration = Duration::from_secs(20);

/// The pulse of one runtime.
#[derive(Clone)]
pub(crate) struct Heartbeat {
    name: &'static str,
    started: Instant,
    last: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Lets `runtime` tick from now on.
    pub(crate) fn start(name: &'static str, runtime: &Handle) -> Self {
        let heartbeat = Self { name, started: Instant::now(), last: Arc::default() };
        let ticking = heartbeat.clone();
        runtime.spawn(async move {
            loop {
                ticking.tick();
                tokio::time::sleep(PERIOD).await;
            }
        });
        heartbeat
    }

    /// Whether the runtime ticked lately.
    ///
    /// # Errors
    /// The sentence that `/healthz` shows.
    pub(crate) fn check(&self) -> Result<(), String> {
        let silent = Duration::from_millis(self.elapsed().saturating_sub(self.last.load(Ordering::Relaxed)));
        if silent < TIMEOUT {
            return Ok(());
        }
        Err(format!("the {} runtime has not ticked for {} s", self.name, silent.as_secs()))
    }

    fn tick(&self) {
        self.last.store(self.elapsed(), Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_does_not_tick_is_named() {
        let started = Instant::now() - TIMEOUT;
        let heartbeat = Heartbeat { name: "admission", started, last: Arc::default() };
        assert!(heartbeat.check().unwrap_err().contains("admission runtime"));
        heartbeat.tick();
        assert_eq!(heartbeat.check(), Ok(()));
    }

    /// docs/behaviour/server.md#liveness.
    #[test]
    fn a_runtime_whose_threads_are_all_blocked_is_found_out_within_30_seconds() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let heartbeat = Heartbeat::start("admission", runtime.handle());
        let (blocked, arrived) = std::sync::mpsc::channel();
        let mut releases = Vec::new();
        for _ in 0..2 {
            let (release, released) = std::sync::mpsc::channel::<()>();
            let blocked = blocked.clone();
            runtime.spawn(async move {
                blocked.send(()).unwrap();
                released.recv().unwrap_err();
            });
            arrived.recv().unwrap();
            releases.push(release);
        }
        let started = Instant::now();
        assert_eq!(heartbeat.check(), Ok(()));
        while heartbeat.check().is_ok() {
            assert!(started.elapsed() < Duration::from_secs(30), "it is not found out");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(releases);
        while heartbeat.check().is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "it works again");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn a_runtime_that_works_ticks() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let heartbeat = Heartbeat::start("admission", runtime.handle());
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(heartbeat.last.load(Ordering::Relaxed), 0, "it is not driven yet");
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        assert!(heartbeat.last.load(Ordering::Relaxed) >= 5);
    }
}
