//! Time, injected: one trait, the system's clock and one for tests.
//!
//! A [`Moment`] carries both readings, because they answer different questions: the wall clock tells people when, the
//! monotonic clock tells how long. A duration is never computed from wall clocks, which may be stepped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// One instant, read on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Wall clock, UTC.
    pub wall: Timestamp,
    /// Monotonic clock: time since a fixed but arbitrary point of this process.
    pub monotonic: Duration,
}

impl Moment {
    /// Time from `earlier` to `self` by the monotonic clock; zero where `earlier` is the later one.
    pub fn since(self, earlier: Moment) -> Duration {
        self.monotonic.saturating_sub(earlier.monotonic)
    }
}

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// The present instant.
    fn now(&self) -> Moment;
}

/// The clocks of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic reading starts at zero now.
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment { wall: Timestamp::now(), monotonic: self.origin.elapsed() }
    }
}

/// A clock that stands still until a test moves it. Clones share one time.
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    elapsed_ns: Arc<AtomicU64>,
}

impl ManualClock {
    /// Wall time at which every manual clock starts: 2026-01-01T00:00:00Z, in seconds since the epoch.
    const START_EPOCH_SECONDS: i64 = 1_767_225_600;

    /// Moves both readings on by `step`.
    pub fn advance(&self, step: Duration) {
        let step_ns = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        self.elapsed_ns.fetch_add(step_ns, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        let monotonic = Duration::from_nanos(self.elapsed_ns.load(Ordering::SeqCst));
        let start = Timestamp::from_second(Self::START_EPOCH_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH);
        let wall = start.checked_add(monotonic).unwrap_or(start);
        Moment { wall, monotonic }
    }
}
