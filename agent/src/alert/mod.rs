//! From facts to alerts.

mod model;

pub use model::{Alert, Cause, Class, Member, Severity};
