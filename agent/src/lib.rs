//! Everything in Leaderwatch that needs no JVM: what an observation of a leader means, the alert log, the alerts,
//! and their delivery.
//!
//! Data goes one way: hook -> [`leadership::Observation`] -> board -> journal and alert -> outbox -> target.
//! Nothing on the right is known to what stands left of it.
#![forbid(unsafe_code)]

// Model checking needs the hand-over only; with the rest its build takes three times as long.
#[cfg(not(feature = "loom-model"))]
pub mod alert;
#[cfg(not(feature = "loom-model"))]
pub mod attach;
#[cfg(not(feature = "loom-model"))]
pub mod claim;
pub mod clock;
#[cfg(not(feature = "loom-model"))]
pub mod config;
#[cfg(not(feature = "loom-model"))]
pub mod delivery;
#[cfg(not(feature = "loom-model"))]
pub mod event;
#[cfg(all(test, not(feature = "loom-model")))]
mod fuzz;
#[cfg(not(feature = "loom-model"))]
pub mod job_names;
#[cfg(not(feature = "loom-model"))]
pub mod journal;
pub mod leadership;
#[cfg(not(feature = "loom-model"))]
pub mod pause;
#[cfg(not(feature = "loom-model"))]
pub mod process;
#[cfg(not(feature = "loom-model"))]
pub mod runtime;
#[cfg(not(feature = "loom-model"))]
pub mod status;
#[cfg(not(feature = "loom-model"))]
pub mod target;
