//! The subcommands, one file or folder each, and what they share.

use std::process::ExitCode;

pub mod attach;
pub mod check;
pub mod install;
pub mod log;
pub mod pause;
mod people;
mod progress;
mod replace;
pub mod report;
pub mod shell;
pub mod status;
pub mod test;
mod when;
mod words;

/// What a subcommand ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Done, and nothing is wrong.
    Done,
    /// Done, and something is wrong with what was looked at.
    Wrong,
    /// Called wrongly, or it could not be done.
    Misuse,
}

impl From<Verdict> for ExitCode {
    fn from(verdict: Verdict) -> ExitCode {
        ExitCode::from(match verdict {
            Verdict::Done => 0,
            Verdict::Wrong => 1,
            Verdict::Misuse => 2,
        })
    }
}

/// Says on standard error why the command ends, and returns the verdict.
pub fn complain(verdict: Verdict, message: impl std::fmt::Display) -> Verdict {
    // A path may hold what a terminal obeys.
    let message = message.to_string();
    for (number, line) in message.lines().enumerate() {
        eprintln!("{}{}", if number == 0 { "leaderwatch: " } else { "" }, people::printable(line));
    }
    verdict
}
