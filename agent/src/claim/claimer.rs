//! What one agent may conclude about one claim: a state machine without input, output or clock of its own.
//!
//! Whoever drives it begins a round, asks [`Claimer::next`] what to do, puts a [`Question`] to the store and hands the answer to
//! [`Claimer::answered`], and so on until a conclusion comes. Times are readings of one monotonic clock.
//!
//! Why there is at most one holder at a time, as long as the store keeps its promise and monotonic clocks run equally fast:
//! the holder's lease counts from before its write began, the observer's from after it read that write; the observer takes
//! over by compare-and-set on what it read; so the holder's lease ended before the observer's write began.

use std::time::Duration;

use super::body::{Claim, Holder, State};
use super::store::{Entry, Version};

/// So many agents may be refused by a target before the others no longer try.
pub(super) const MOST_REFUSALS: u32 = 3;

/// What is to be asked of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Create the claim.
    Create,
    /// Read it.
    Read,
    /// Write it anew if it still has this version: to renew our own, or to take over.
    Swap(Version),
}

/// What the store answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Written, to this version.
    Written(Version),
    /// Not written.
    Refused,
    /// What was read.
    Found(Option<Entry>),
    /// Nothing, or an error.
    Nothing,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Put this to the store.
    Ask(Question),
    /// Send.
    Go,
    /// Another agent is on it; look again after this time at the latest.
    Wait(Duration),
    /// It is dealt with, by this agent's word.
    Elsewhere {
        /// Who, and how.
        by: String,
    },
}

/// One agent's view of one claim.
#[derive(Debug)]
pub struct Claimer {
    me: Holder,
    /// Our own lease.
    lease: Duration,
    view: View,
    /// Refusals that the claim told of.
    refusals: u32,
    beat: u64,
    /// Whether the view is from this very round of questions.
    is_fresh: bool,
    /// Whether the store failed in this round.
    is_cut_off: bool,
}

#[derive(Debug)]
enum View {
    /// Nothing is known.
    Unknown,
    /// It was there when we wanted to create it, or is no longer as we knew it.
    Changed,
    /// Another agent holds it.
    Theirs { version: Version, lease: Duration, seen_since: Duration, is_free: bool },
    /// We hold it, until this moment unless it is renewed.
    Ours { version: Version, until: Duration },
    /// It is dealt with.
    Settled { by: String },
}

impl Claimer {
    /// A claimer that knows nothing yet.
    pub fn new(me: Holder, lease: Duration) -> Claimer {
        Claimer { me, lease, view: View::Unknown, refusals: 0, beat: 0, is_fresh: false, is_cut_off: false }
    }

    /// Begins a round of questions: what was read before is no longer fresh, and a store that failed may work again.
    pub fn begin(&mut self) {
        (self.is_fresh, self.is_cut_off) = (false, false);
    }

    /// What to do next to send now, in a send that takes no longer than `takes`.
    pub fn next(&self, now: Duration, takes: Duration) -> Step {
        match &self.view {
            View::Settled { by } => Step::Elsewhere { by: by.clone() },
            // More of the lease is left than the send takes.
            View::Ours { until, .. } if until.saturating_sub(now) > takes => Step::Go,
            View::Theirs { lease, seen_since, .. } if self.is_cut_off => {
                // Whoever holds it may be alive; beyond its lease nobody can tell, and everybody sends.
                match (*seen_since + *lease).saturating_sub(now) {
                    Duration::ZERO => Step::Go,
                    left => Step::Wait(left),
                }
            }
            View::Unknown | View::Changed | View::Ours { .. } if self.is_cut_off => Step::Go,
            View::Unknown => Step::Ask(Question::Create),
            View::Changed => Step::Ask(Question::Read),
            View::Ours { version, .. } => Step::Ask(Question::Swap(version.clone())),
            View::Theirs { .. } if !self.is_fresh => Step::Ask(Question::Read),
            View::Theirs { version, lease, seen_since, is_free } => match (*seen_since + *lease).saturating_sub(now) {
                left if left > Duration::ZERO && !is_free => Step::Wait(left),
                _ => Step::Ask(Question::Swap(version.clone())),
            },
        }
    }

    /// Takes the answer to a question in that was put at `asked` and answered at `now`.
    pub fn answered(&mut self, question: &Question, answer: Answer, asked: Duration, now: Duration) {
        match (question, answer) {
            (_, Answer::Nothing) => self.is_cut_off = true,
            (_, Answer::Written(version)) => self.view = View::Ours { version, until: asked + self.lease },
            (_, Answer::Refused) => self.view = View::Changed,
            (_, Answer::Found(None)) => self.view = View::Unknown,
            (_, Answer::Found(Some(entry))) => self.found(entry, now),
        }
    }

    fn found(&mut self, entry: Entry, now: Duration) {
        self.is_fresh = true;
        let Some(claim) = Claim::parse(&entry.body) else {
            // Half a write, or of a later version of Leaderwatch: it lapses like any other.
            return self.found_theirs(entry.version, self.lease, now, false);
        };
        self.refusals = claim.refusals;
        match claim.state {
            State::Delivered => self.view = View::Settled { by: format!("{} delivered it", claim.holder) },
            State::Refused => {
                let by = format!("{} other agents were refused, the last one {}", claim.refusals, claim.holder);
                self.view = View::Settled { by };
            }
            // We wrote it and never heard so.
            State::Sending if claim.holder == self.me => {
                self.view = View::Ours { version: entry.version, until: Duration::ZERO };
            }
            State::Sending => self.found_theirs(entry.version, claim.lease(), now, false),
            State::Free => self.found_theirs(entry.version, claim.lease(), now, true),
        }
    }

    fn found_theirs(&mut self, found: Version, lease: Duration, now: Duration, is_free: bool) {
        let seen_since = match &self.view {
            View::Theirs { version, seen_since, .. } if *version == found => *seen_since,
            _ => now,
        };
        self.view = View::Theirs { version: found, lease, seen_since, is_free };
    }

    /// The version that we hold, by what we know.
    pub fn held(&self) -> Option<&Version> {
        match &self.view {
            View::Ours { version, .. } => Some(version),
            _ => None,
        }
    }

    /// How long we hold it, unless it is renewed.
    pub fn holds_for(&self, now: Duration) -> Duration {
        match &self.view {
            View::Ours { until, .. } => until.saturating_sub(now),
            _ => Duration::ZERO,
        }
    }

    /// Whether it is dealt with.
    pub fn is_settled(&self) -> bool {
        matches!(self.view, View::Settled { .. })
    }

    /// Takes note that we wrote that it is dealt with, or left it to others.
    pub fn closed(&mut self) {
        self.view = View::Settled { by: format!("{} dealt with it", self.me) };
    }

    /// Refusals that the claim told of when it was read last.
    pub fn refusals(&self) -> u32 {
        self.refusals
    }

    /// A number that no write of ours had.
    pub fn next_beat(&mut self) -> u64 {
        self.beat += 1;
        self.beat
    }
}
