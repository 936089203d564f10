//! Keeps to a receiver's limit: never more than so many messages in any span of so long.
//!
//! Receivers count in spans (DingTalk blocks a robot for ten minutes that sent 21 messages in a minute), and a bucket that
//! refills steadily lets twice its size through in the first span. So the times of the last sends are kept instead.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::target::Rate;

/// The last sends to one receiver.
#[derive(Debug)]
pub(super) struct Limiter {
    rate: Option<Rate>,
    sent: VecDeque<Instant>,
}

impl Limiter {
    pub(super) fn new(rate: Option<Rate>) -> Self {
        Self { rate, sent: VecDeque::new() }
    }

    /// From now on another limit holds, for what was sent before, too.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        self.rate = rate;
    }

    /// When the next message may go out, if not now.
    pub(super) fn free_at(&mut self, now: Instant) -> Option<Instant> {
        let rate = self.rate?;
        while self.sent.front().is_some_and(|sent| *sent + rate.per <= now) {
            self.sent.pop_front();
        }
        let messages = usize::try_from(rate.messages.get()).unwrap_or(usize::MAX);
        let oldest_that_counts = self.sent.len().checked_sub(messages)?;
        Some(self.sent[oldest_that_counts] + rate.per)
    }

    /// Counts a message that goes out now.
    pub(super) fn count(&mut self, now: Instant) {
        if self.rate.is_some() {
            self.sent.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn without_a_limit_nothing_waits() {
        let mut limiter = Limiter::new(None);
        let now = Instant::now();
        for _ in 0..1000 {
            assert_eq!(limiter.free_at(now), None);
            limiter.count(now);
        }
        assert!(limiter.sent.is_empty());
    }

    #[test]
    fn another_limit_counts_what_was_sent_before() {
        let mut limiter = Limiter::new(Some(Rate::new(20, Duration::from_secs(60))));
        let now = Instant::now();
        limiter.count(now);
        limiter.set_rate(Some(Rate::new(1, Duration::from_secs(10))));
        assert_eq!(limiter.free_at(now), Some(now + Duration::from_secs(10)));
        limiter.set_rate(None);
        assert_eq!(limiter.free_at(now), None);
    }

    proptest! {
        #[test]
        fn no_span_holds_more_than_the_limit(gaps_ms in prop::collection::vec(0..20_000u64, 1..200)) {
            let rate = Rate::new(20, Duration::from_secs(60));
            let mut limiter = Limiter::new(Some(rate));
            let mut now = Instant::now();
            let mut sent = Vec::new();
            for gap in gaps_ms {
                now += Duration::from_millis(gap);
                if let Some(free_at) = limiter.free_at(now) {
                    now = free_at;
                    prop_assert_eq!(limiter.free_at(now), None);
                }
                limiter.count(now);
                sent.push(now);
            }
            for window in sent.windows(21) {
                prop_assert!(window[20] - window[0] >= rate.per);
            }
        }
    }
}
