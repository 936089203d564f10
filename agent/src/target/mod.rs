//! Receivers of alerts: one file for each kind. A target only says how a send ended; when to try again is the
//! delivery's business.

pub mod alertmanager;
mod build;
pub mod chat;
pub mod cloud_events;
pub mod dingtalk;
pub mod discord;
pub mod email;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod fake_smtp;
pub mod feishu;
mod fresh;
#[cfg(test)]
mod fuzz;
pub mod heartbeat;
pub mod http;
pub mod kubernetes_event;
mod mail_stream;
pub mod pagerduty;
pub mod preview;
pub mod resolver;
mod robot;
pub mod secret;
pub mod slack;
#[cfg(test)]
mod table_tests;
pub mod teams;
pub mod telegram;
pub mod text;
pub mod tls;
pub mod tunnel;
pub mod webhook;
pub mod wecom;

pub use self::build::{Builder, NotBuilt};

use std::future::Future;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::alert::Alert;

/// What a notice does to the alert that it carries, for receivers that keep alerts open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The alert is new.
    Raise,
    /// Members joined an alert that was told before.
    Update,
    /// What the alert told has ended.
    Resolve,
    /// Several notices in one, made by the delivery; for people to read, never to page anybody.
    Digest,
}

/// One message that is due to one or more targets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Identity of the message for receivers that drop repeats; the alert's id for its first message, the same in every
    /// retry. Letters, digits and dashes only.
    pub message_id: String,
    /// What it does to the alert.
    pub action: Action,
    /// The alert, text included.
    pub alert: Alert,
}

/// How a send ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver said, by its own rules, that it has the message; with what it answered, if it gives an id.
    Delivered {
        /// The receiver's own id of the message.
        receipt: Option<String>,
    },
    /// Not delivered, but may be later.
    Retry {
        /// The receiver's own wish for how long to wait.
        after: Option<Duration>,
        /// Why, without secrets.
        reason: String,
    },
    /// The receiver will never take it.
    Reject {
        /// Why, without secrets.
        reason: String,
    },
}

impl Outcome {
    /// Delivered, without an id.
    pub fn delivered() -> Outcome {
        Outcome::Delivered { receipt: None }
    }

    /// Not delivered, with no wish for when to try again.
    pub fn retry(reason: impl Into<String>) -> Outcome {
        Outcome::Retry { after: None, reason: reason.into() }
    }

    /// Refused for good.
    pub fn reject(reason: impl Into<String>) -> Outcome {
        Outcome::Reject { reason: reason.into() }
    }
}

/// The most messages that a receiver takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// So many messages,
    pub messages: NonZeroU32,
    /// in any span of this length.
    pub per: Duration,
}

impl Rate {
    /// So many messages in any span of this length; zero is taken as one.
    pub const fn new(messages: u32, per: Duration) -> Rate {
        let messages = match NonZeroU32::new(messages) {
            Some(messages) => messages,
            None => NonZeroU32::MIN,
        };
        Rate { messages, per }
    }
}

/// When several notices may go out as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digests {
    /// Never: the receiver is a machine that wants each one.
    Never,
    /// Only notices that are too old to page for.
    OfOld,
    /// Also a backlog.
    OfBacklog,
}

/// How a receiver must be told again of what is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Time between two sends of the same alert.
    pub every: Duration,
    /// How long an alert that is not resolved is repeated.
    pub open_for: Duration,
    /// How long the end of an alert is repeated.
    pub resolved_for: Duration,
}

/// What the delivery must know of a kind of receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    /// Its limit.
    pub rate: Option<Rate>,
    /// Whether several notices may go out as one.
    pub digests: Digests,
    /// Whether it forgets what is not repeated.
    pub repeat: Option<Repeat>,
    /// Whether a later notice of the same alert changes the earlier one in place, so that it may go at once.
    pub updates_in_place: bool,
    /// How often [`Target::beat`] is called, alerts or not.
    pub beat: Option<Duration>,
}

impl Manner {
    /// A machine without limits that wants each notice once.
    pub const MACHINE: Manner =
        Manner { rate: None, digests: Digests::Never, repeat: None, updates_in_place: false, beat: None };

    /// A place where people read, with its limit.
    pub const fn people(messages: u32, per: Duration) -> Manner {
        Manner { rate: Some(Rate::new(messages, per)), digests: Digests::OfBacklog, ..Manner::MACHINE }
    }
}

/// The future of a send.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A receiver.
pub trait Target: Send + Sync {
    /// The user's name for it.
    fn name(&self) -> &str;
    /// Kind of receiver, as in the configuration.
    fn kind(&self) -> &'static str;
    /// What the delivery must know of it.
    fn manner(&self) -> Manner {
        Manner::MACHINE
    }
    /// Whether it is for alerts; what is not is for beats only.
    fn takes_alerts(&self) -> bool {
        true
    }
    /// Says that the agent lives, where [`Manner::beat`] asks for it.
    fn beat(&self) -> Sending<'_> {
        Box::pin(std::future::ready(Outcome::delivered()))
    }
    /// Sends once, within the target's own time limit.
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a>;
}
