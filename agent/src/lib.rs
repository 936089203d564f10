//! Everything in Leaderwatch that needs no JVM: what an observation of a leader means, the alert log, the alerts,
//! and their delivery.
//!
//! Data goes one way: hook -> [`leadership::Observation`] -> board -> journal and alert -> outbox -> target.
//! Nothing on the right is known to what stands left of it.
#![forbid(unsafe_code)]

pub mod alert;
pub mod attach;
#[cfg(not(feature = "loom-model"))]
pub mod claim;
pub mod clock;
pub mod config;
pub mod delivery;
pub mod event;
pub mod job_names;
pub mod journal;
pub mod leadership;
pub mod pause;
pub mod process;
#[cfg(not(feature = "loom-model"))]
pub mod runtime;
pub mod status;
pub mod target;
