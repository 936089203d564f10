//! Delivery.

pub mod outbox;

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
