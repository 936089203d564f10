//! Delivery: what is raised reaches every target at least once, in order for each target, over crashes and outages.
//!
//! # How it is wired
//! Three threads of the runtime take part; none of the types here starts one.
//!
//! ```text
//! dispatcher ──Entry──▶ disk thread: outbox::Outbox      (synchronous; the only one that touches the disk)
//!      │                     │ persisted (oneshot)
//!      │                     ▼
//!      └──Command::Send──▶ sender thread: sender::run    (one current-thread tokio runtime)
//!                            │ Progress (Report)
//!                            └────────▶ disk thread: Progress::to_event for the alert log,
//!                                                    Progress::to_entry for the outbox
//! ```
//!
//! - **Start** (disk thread): [`Outbox::open`], then [`Outbox::take_orphans`], also every minute or so later and on
//!   demand; call [`Outbox::heal`] then, too. Each of the adopted notices becomes a [`Command::Send`] with
//!   `persisted: None`; the adopted elections go to the alert code, which later closes them.
//! - **A move**: append [`Entry::OpenElection`] before `group_wait` starts, and again as members join.
//! - **An alert**: append `[Due, CloseElection]` in **one** call, in this order, and submit it to the sender at the same
//!   time, with a oneshot that the disk thread resolves after the append. The sender waits for it one second.
//! - **The channel** is `tokio::sync::mpsc` with [`CHANNEL_COMMANDS`](sender::CHANNEL_COMMANDS) places: use `try_send`;
//!   what finds it full stays in the outbox and can be submitted again from [`Outbox::pending`].
//! - **Reports** come on the sender's thread: hand them to the disk thread by a channel and return. A [`Progress`] that
//!   ends something becomes an entry, to be appended after its line was written to the alert log.
//! - **End**: [`Command::Stop`], wait for [`sender::run`] no longer than its `within` and a little, append what it still
//!   reported, [`Outbox::close`]. Never drop the tokio runtime while the JVM waits: a name look-up that hangs would be
//!   waited for. Use `Runtime::shutdown_background`, or leave it to the end of the process.
//!
//! The runtime is built with `enable_all()` and `max_blocking_threads(2)`; those threads are for name look-ups only, see
//! `crate::target::resolver`.
//!
//! # Who decides what
//! A [`Target`](crate::target::Target) says how one send ended and, by its [`Manner`](crate::target::Manner), what the
//! receiver's limits are. Everything about time is decided here: order, retries, rate, digests, fallback, repeats. Whether
//! this agent sends at all, where others saw the same election, a [`Gate`] says.

pub mod backoff;
pub mod digest;
pub mod gate;
mod lane;
pub mod outbox;
mod rate;
pub mod report;
pub mod sender;
#[cfg(test)]
mod sender_tests;

pub use self::digest::Wording;
pub use self::gate::{End, Gate, Permit};
#[cfg(test)]
pub(crate) use self::outbox::notice as test_notice;
pub use self::outbox::{Adopted, Bounds, Entry, Outbox, Pending};
pub use self::report::{Progress, Report};
pub use self::sender::{Command, ForPeople, Route, Routes, SenderSettings, Submission};

use crate::event::Event;

/// Something that is not as it should be: the two parts of `agent.problem`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What does not work.
    pub what: String,
    /// Why, and the cure.
    pub reason: String,
}

impl Problem {
    /// A problem.
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { what: what.into(), reason: reason.into() }
    }
}

impl From<Problem> for Event {
    fn from(problem: Problem) -> Event {
        Event::problem(problem.what, problem.reason)
    }
}
