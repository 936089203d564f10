//! How long to wait before the next attempt: exponential with full jitter and a ceiling, never shorter than the receiver
//! asked for.
//!
//! Full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog, 2015) spreads the attempts of many processes that
//! failed at the same moment best.

use std::sync::Arc;
use std::time::Duration;

/// A source of numbers from 0 up to, not including, 1.
pub type Random = Arc<dyn Fn() -> f64 + Send + Sync>;

/// The random source to use outside of tests.
pub fn system_random() -> Random {
    Arc::new(fastrand::f64)
}

/// The bounds of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Longest wait after the first failure; doubles with each one.
    pub start: Duration,
    /// Longest wait ever.
    pub ceiling: Duration,
}

/// Shortest wait: full jitter may draw zero, and a receiver in trouble is not to be hit twice at once.
const FLOOR: Duration = Duration::from_millis(100);
/// Longest wait that a receiver may ask for; what asks for more is broken or hostile.
const LONGEST_WISH: Duration = Duration::from_secs(3600);
/// Longest time added to a receiver's wish, so that not all who were told the same time come at once.
const WISH_JITTER: Duration = Duration::from_secs(1);

impl Default for Backoff {
    /// From one second to five minutes.
    fn default() -> Self {
        Self { start: Duration::from_secs(1), ceiling: Duration::from_secs(300) }
    }
}

impl Backoff {
    /// The wait after the `failures`th failure in a row, counted from one, where the receiver asked for `wish`.
    pub fn wait(&self, failures: u32, wish: Option<Duration>, random: &Random) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let longest = self.start.saturating_mul(1 << doublings).min(self.ceiling);
        let own = longest.mul_f64(random()).max(FLOOR);
        match wish {
            Some(wish) => own.max(wish.min(LONGEST_WISH) + WISH_JITTER.mul_f64(random())),
            None => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always(number: f64) -> Random {
        Arc::new(move || number)
    }

    #[test]
    fn the_longest_wait_doubles_up_to_the_ceiling() {
        let backoff = Backoff::default();
        let longest: Vec<u64> = (1..=11).map(|failures| backoff.wait(failures, None, &always(1.0)).as_secs()).collect();
        assert_eq!(longest, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(backoff.wait(u32::MAX, None, &always(1.0)), backoff.ceiling);
    }

    #[test]
    fn the_wait_is_drawn_from_the_whole_span() {
        let backoff = Backoff::default();
        assert_eq!(backoff.wait(9, None, &always(0.0)), FLOOR);
        assert_eq!(backoff.wait(9, None, &always(0.5)), Duration::from_secs(128));
    }

    #[test]
    fn the_receivers_wish_is_the_shortest_wait() {
        let backoff = Backoff::default();
        let wish = Some(Duration::from_secs(34));
        assert_eq!(backoff.wait(1, wish, &always(0.0)), Duration::from_secs(34));
        assert_eq!(backoff.wait(1, wish, &always(0.5)), Duration::from_millis(34_500));
        assert_eq!(backoff.wait(10, wish, &always(1.0)), Duration::from_secs(300));
    }

    #[test]
    fn a_receiver_cannot_ask_for_a_wait_without_end() {
        let wish = Some(Duration::from_secs(u64::MAX));
        assert_eq!(Backoff::default().wait(1, wish, &always(0.0)), Duration::from_secs(3600));
    }
}
