//! The alert log: one JSON object a line, written by the one disk thread and read by the command.

pub mod alike;
mod lines;
pub mod merge;
mod name;
mod quick;
pub mod reader;
pub mod sources;
mod writer;

pub use name::candidate_paths;
pub use writer::{JournalProblem, Settings, Writer};
