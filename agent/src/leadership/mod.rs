//! Who leads: what an announcement means, and the lock-free board that follows every seat.

mod board;
mod ids;
mod observation;
mod seat;
mod sync;
mod transition;

pub use board::{Board, Changes};
pub use ids::{Component, JobId, NotAnId, SeatKey, SessionId};
pub use observation::{Announcement, Leader, Observation, Verdict};
pub use seat::{Seat, SeatChange};
pub use transition::{Change, REMEMBERED_IDS, Standing};
