//! How far a reading is that takes longer than a second: one line on standard error, where a person looks at it.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use leaderwatch_agent::journal::sources::Source;

use super::people::duration;

/// Work that is done sooner needs no word.
const BEGINS_AFTER: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(500);
/// The time is looked at after so many lines.
const LINES_BETWEEN: u32 = 1024;
/// Beginning of the line, and nothing behind the cursor.
const CLEAR: &str = "\r\x1b[K";

/// Follows a reading of alert logs.
pub struct Progress {
    /// None: nobody looks.
    begun: Option<Instant>,
    meter: Meter,
    lines: u32,
    is_shown: bool,
}

impl Progress {
    /// Shown where standard error is a terminal, and standard output is not one on which it would get into the way.
    pub fn of(sources: &[Source], prints_while_reading: bool) -> Progress {
        let is_watched = io::stderr().is_terminal() && !(prints_while_reading && io::stdout().is_terminal());
        Progress {
            begun: is_watched.then(Instant::now),
            meter: Meter::new(total_bytes(sources)),
            lines: 0,
            is_shown: false,
        }
    }

    /// A line was read.
    pub fn add(&mut self, line: &[u8]) {
        let Some(begun) = self.begun else { return };
        self.meter.read_bytes += line.len() as u64 + 1;
        self.lines += 1;
        if self.lines < LINES_BETWEEN {
            return;
        }
        self.lines = 0;
        if let Some(text) = self.meter.due(begun.elapsed()) {
            self.is_shown = true;
            // Nobody is worse off without it.
            let _ = write!(io::stderr(), "{CLEAR}{text}");
        }
    }

    /// The reading is over: the line goes.
    pub fn end(self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "{CLEAR}");
        }
    }
}

/// Bytes of all lines, where that can be told beforehand: neither of standard input nor of packed files.
fn total_bytes(sources: &[Source]) -> Option<u64> {
    let bytes = |source: &Source| match source {
        Source::File(path) if path.extension().is_none_or(|it| it != "gz") => Some(fs::metadata(path).ok()?.len()),
        _ => None,
    };
    sources.iter().map(bytes).sum()
}

/// What is said, and when.
struct Meter {
    read_bytes: u64,
    total_bytes: Option<u64>,
    next: Duration,
}

impl Meter {
    fn new(total_bytes: Option<u64>) -> Meter {
        Meter { read_bytes: 0, total_bytes, next: BEGINS_AFTER }
    }

    /// What to say after so long a time, if it is time to say something.
    fn due(&mut self, elapsed: Duration) -> Option<String> {
        if elapsed < self.next {
            return None;
        }
        self.next = elapsed + EVERY;
        let megabytes = |bytes: u64| bytes / 1_000_000;
        let Some(total) = self.total_bytes.filter(|total| *total >= self.read_bytes && self.read_bytes > 0) else {
            return Some(format!("leaderwatch: {} MB read", megabytes(self.read_bytes)));
        };
        let percent = self.read_bytes * 100 / total;
        let left_ms = elapsed.as_millis() * u128::from(total - self.read_bytes) / u128::from(self.read_bytes);
        let left = duration(u64::try_from(left_ms).unwrap_or(u64::MAX));
        Some(format!(
            "leaderwatch: {} of {} MB read ({percent} %), {left} to go",
            megabytes(self.read_bytes),
            megabytes(total)
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_speaks_after_a_second_and_then_twice_a_second() {
        let mut meter = Meter::new(Some(400_000_000));
        meter.read_bytes = 100_000_000;
        let mut said = |ms: u64| meter.due(Duration::from_millis(ms));
        assert_eq!(said(999), None);
        assert_eq!(said(2000).unwrap(), "leaderwatch: 100 of 400 MB read (25 %), 6.0 s to go");
        assert_eq!(said(2499), None);
        assert!(said(2500).is_some());
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("a.jsonl");
        fs::write(&plain, "12345").unwrap();
        let plain = Source::File(plain);
        assert_eq!(total_bytes(&[plain.clone(), plain.clone()]), Some(10));
        assert_eq!(total_bytes(&[plain.clone(), Source::StandardInput]), None);
        assert_eq!(total_bytes(&[plain, Source::File(folder.path().join("a.jsonl.gz"))]), None);
        let mut meter = Meter::new(None);
        meter.read_bytes = 5_000_000;
        assert_eq!(meter.due(BEGINS_AFTER).unwrap(), "leaderwatch: 5 MB read");
        // A log that has grown since.
        let mut meter = Meter::new(Some(1));
        meter.read_bytes = 5_000_000;
        assert_eq!(meter.due(BEGINS_AFTER).unwrap(), "leaderwatch: 5 MB read");
    }
}
