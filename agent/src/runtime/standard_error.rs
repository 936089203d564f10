//! The agent's few lines on standard error, through the `log` facade: one line each, named, never a panic where standard
//! error is closed. Libraries log through the same facade; their lines stay out of Flink's `.out`.

use std::io::Write as _;

use log::{Level, LevelFilter, Log, Metadata, Record};

struct StandardError;

static STANDARD_ERROR: StandardError = StandardError;

impl Log for StandardError {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Warn && metadata.target().starts_with("leaderwatch")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!("leaderwatch: {}\n", record.args()).replace(['\r', '\0'], " ");
            // There is nowhere left to complain to.
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Sends the agent's log lines to standard error. The facade belongs to this library alone; a second call is harmless.
pub fn install() {
    if log::set_logger(&STANDARD_ERROR).is_ok() {
        log::set_max_level(LevelFilter::Warn);
    }
}
