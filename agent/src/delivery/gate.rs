//! The gate before the lanes: whether this agent is the one that sends a notice, where several saw the same election.
//!
//! The sender asks when a notice comes in and the lane asks again right before each send. How agents agree is not
//! known here; see [`crate::claim`].

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::target::Notice;

/// What the gate answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Permit {
    /// Send now.
    Go,
    /// Another agent is on it: ask again after this time.
    Wait(Duration),
    /// The target has it, or will never take it, and this agent's copy may be forgotten.
    Elsewhere {
        /// Whose word that is, for people.
        by: String,
    },
}

/// How the sending of a notice to a target ended for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The target has it.
    Delivered,
    /// The target will not take it from this agent.
    Refused,
}

/// The future of a question.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides who sends. Every answer comes within seconds, whatever the network does. What has a body here is the answer of one
/// that agrees with nobody.
pub trait Gate: Send + Sync {
    /// Whether every answer is [`Permit::Go`], so that nobody has to ask.
    fn is_open(&self) -> bool {
        false
    }

    /// Whether this agent may send a notice to a target now.
    fn may_send<'a>(&'a self, notice: &'a Notice, target: &'a str) -> Asking<'a, Permit>;

    /// Takes note of how it ended.
    fn ended<'a>(&'a self, notice: &'a Notice, target: &'a str, end: End) -> Asking<'a, ()> {
        let _ = (notice, target, end);
        Box::pin(std::future::ready(()))
    }

    /// Whether this agent is the one that says that the cluster's agents live, to a target that is told so each `every`.
    fn may_beat<'a>(&'a self, target: &'a str, every: Duration) -> Asking<'a, Permit> {
        let _ = (target, every);
        Box::pin(std::future::ready(Permit::Go))
    }

    /// Takes note that this agent said so and was not heard: others may try.
    fn beat_failed<'a>(&'a self, target: &'a str) -> Asking<'a, ()> {
        let _ = target;
        Box::pin(std::future::ready(()))
    }

    /// Takes note that this agent does not send to the target for so long, since it failed.
    fn pauses(&self, target: &str, pause: Duration) {
        let _ = (target, pause);
    }

    /// Leaves what this agent was to send, and did not, to others: the process ends.
    fn leave(&self) -> Asking<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Every agent sends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Open;

impl Gate for Open {
    fn is_open(&self) -> bool {
        true
    }

    fn may_send<'a>(&'a self, _notice: &'a Notice, _target: &'a str) -> Asking<'a, Permit> {
        Box::pin(std::future::ready(Permit::Go))
    }
}
