//! From facts to alerts: which changes of leadership people are told of, once, and in what words.

mod alerts;
pub mod drill;
mod effect;
mod election;
mod flapping;
mod id;
mod model;
mod no_leader;
mod open;
mod pause;
mod text;

pub use alerts::Alerts;
pub use effect::{AlertSettings, Audience, Effect};
pub use id::alert_id;
pub use model::{Alert, Cause, Class, Member, Severity};
pub use no_leader::Ending;
pub use pause::Pauses;
pub use text::{BadTemplate, OwnTexts, Texts};
