//! Who leads: what an observation means, and the lock-free board that follows every seat.

mod ids;
mod observation;

pub use ids::{Component, JobId, NotAnId, SeatKey, SessionId};
pub use observation::{Leader, Observation};
