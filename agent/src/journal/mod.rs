//! The alert log: one JSON object a line, written by the one disk thread and read by the command.

mod lines;
mod name;
pub mod reader;
mod writer;

pub use name::candidate_paths;
pub use writer::{JournalProblem, Settings, Writer};
