//! What the sender tells of its work.

use std::sync::Arc;

use super::Problem;
use super::outbox::Entry;
use crate::event::Event;
use crate::target::Notice;

/// One step of the delivery of one notice to one target, or a problem.
#[derive(Debug, Clone)]
pub enum Progress {
    /// The target has it.
    Delivered {
        /// What was delivered.
        notice: Arc<Notice>,
        /// Name of the target.
        target: String,
        /// Sends, this one included.
        attempts: u32,
        /// From the moment it was handed to the sender to the receiver's answer.
        latency_ms: u64,
        /// The receiver's own id of it.
        receipt: Option<String>,
    },
    /// It will be tried again.
    Retrying {
        /// What was not delivered.
        notice: Arc<Notice>,
        /// Name of the target.
        target: String,
        /// Sends, this one included.
        attempts: u32,
        /// Why it was not delivered.
        reason: String,
        /// Time to the next attempt.
        next_ms: u64,
    },
    /// It was given up.
    Failed {
        /// What was not delivered.
        notice: Arc<Notice>,
        /// Name of the target.
        target: String,
        /// Sends, this one included.
        attempts: u32,
        /// Why it was given up.
        reason: String,
        /// Name of the target that gets it instead.
        instead: Option<String>,
    },
    /// Another agent has dealt with it.
    Suppressed {
        /// What this agent need not deliver.
        notice: Arc<Notice>,
        /// Name of the target.
        target: String,
        /// Whose word that is.
        by: String,
    },
    /// Something else is not as it should be.
    Problem(Problem),
}

impl Progress {
    /// The line of the alert log for it.
    pub fn to_event(&self) -> Event {
        match self.clone() {
            Progress::Delivered { notice, target, attempts, latency_ms, receipt } => {
                Event::AlertDelivered { alert_id: notice.alert.id.clone(), target, attempts, latency_ms, receipt }
            }
            Progress::Retrying { notice, target, attempts, reason, next_ms } => {
                Event::AlertRetrying { alert_id: notice.alert.id.clone(), target, attempts, reason, next_ms }
            }
            Progress::Failed { notice, target, attempts, reason, instead } => {
                let reason = match instead {
                    Some(instead) => format!("{reason}; `{instead}` is told instead"),
                    None => reason,
                };
                Event::AlertFailed { alert_id: notice.alert.id.clone(), target, attempts, reason }
            }
            Progress::Suppressed { notice, target, by } => {
                Event::AlertSuppressed { alert_id: notice.alert.id.clone(), target: Some(target), by }
            }
            Progress::Problem(problem) => problem.into(),
        }
    }

    /// The record of the outbox for it, if it ends something.
    pub fn to_entry(&self) -> Option<Entry> {
        let (notice, target, instead) = match self {
            Progress::Delivered { notice, target, .. } | Progress::Suppressed { notice, target, .. } => {
                (notice, target, None)
            }
            Progress::Failed { notice, target, instead, .. } => (notice, target, instead.clone()),
            Progress::Retrying { .. } | Progress::Problem(_) => return None,
        };
        Some(Entry::Done { message_id: notice.message_id.clone(), target: target.clone(), instead })
    }
}

/// Who hears of the sender's work. Called on the sender's thread, so it must not block.
pub trait Report: Send + Sync {
    /// Takes one step.
    fn report(&self, progress: Progress);
}

impl<F: Fn(Progress) + Send + Sync> Report for F {
    fn report(&self, progress: Progress) {
        self(progress);
    }
}
