//! Receivers of alerts: one file for each kind. A target only says how a send ended; when to try again is the
//! delivery's business.

use std::future::Future;
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

/// The future of a send.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A receiver.
pub trait Target: Send + Sync {
    /// The user's name for it.
    fn name(&self) -> &str;
    /// Kind of receiver, as in the configuration.
    fn kind(&self) -> &'static str;
    /// Sends once, within the target's own time limit.
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a>;
}
