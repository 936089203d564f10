//! From facts to alerts: which changes of leadership people are told of, once, and in what words.

mod election;
mod id;
mod model;
mod text;

pub use election::{Audience, Effect, ElectionSettings, Elections};
pub use id::alert_id;
pub use model::{Alert, Cause, Class, Member, Severity};
