//! The records of the outbox, and their form on disk: a line of checksum and JSON.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::target::Notice;

/// What the outbox remembers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum Entry {
    /// An election gathers its members. The body belongs to the alert code and means nothing here. Opening a key that is
    /// open replaces its body.
    OpenElection {
        /// Name of the election.
        key: String,
        /// What the alert code needs to go on with it.
        body: Value,
    },
    /// The election has been told, or there is nothing to tell. Append it **after** the notices that tell it.
    CloseElection {
        /// Name of the election.
        key: String,
    },
    /// A notice waits for targets.
    Due {
        /// The notice.
        notice: Arc<Notice>,
        /// Names of the targets that do not have it yet.
        targets: Vec<String>,
        /// When it was put into an outbox first; kept when another process takes it over.
        queued_at: Timestamp,
    },
    /// A target is finished with a notice: it acknowledged, or it was given up and reported.
    Done {
        /// The notice's id.
        message_id: String,
        /// Name of the target.
        target: String,
        /// The target that gets the notice instead, if any.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        instead: Option<String>,
    },
}

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadLine {
    /// Its checksum is missing or differs.
    Checksum,
    /// Its checksum is right, but this version cannot read it.
    Unknown(String),
}

impl fmt::Display for BadLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLine::Checksum => out.write_str("its checksum is wrong"),
            BadLine::Unknown(why) => write!(out, "this version of Leaderwatch cannot read it ({why})"),
        }
    }
}

/// Digits of a checksum and the blank behind it.
const PREFIX_BYTES: usize = 9;

/// Appends the line of `entries` to `out`. One line is one checksum, so that it is read back as a whole or not at all.
pub(crate) fn write_line(entries: &[Entry], out: &mut Vec<u8>) {
    let json = serde_json::to_vec(entries).expect("an entry has string keys only, so it is always JSON");
    out.extend_from_slice(format!("{:08x} ", crc32fast::hash(&json)).as_bytes());
    out.extend_from_slice(&json);
    out.push(b'\n');
}

/// Reads a line without its line feed.
pub(crate) fn read_line(line: &[u8]) -> Result<Vec<Entry>, BadLine> {
    let (prefix, json) = line.split_at_checked(PREFIX_BYTES).ok_or(BadLine::Checksum)?;
    let checksum = std::str::from_utf8(prefix)
        .ok()
        .and_then(|prefix| prefix.strip_suffix(' '))
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or(BadLine::Checksum)?;
    if checksum != crc32fast::hash(json) {
        return Err(BadLine::Checksum);
    }
    serde_json::from_slice(json).map_err(|error| BadLine::Unknown(error.to_string()))
}

/// Bytes of a line that holds `entry` alone.
pub(super) fn line_bytes(entry: &Entry) -> u64 {
    let mut line = Vec::new();
    write_line(std::slice::from_ref(entry), &mut line);
    line.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(entry: &Entry) -> Vec<u8> {
        let mut line = Vec::new();
        write_line(std::slice::from_ref(entry), &mut line);
        line
    }

    #[test]
    fn a_line_reads_back_and_holds_one_line_feed() {
        let entry = Entry::OpenElection { key: "k\n\"".into(), body: serde_json::json!({"text": "a\nb"}) };
        let line = line(&entry);
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_eq!(read_line(&line[..line.len() - 1]), Ok(vec![entry]));
    }

    #[test]
    fn every_single_flipped_bit_is_seen() {
        let entry = Entry::Done { message_id: "ab".into(), target: "mail".into(), instead: None };
        let line = line(&entry);
        for bit in 0..(line.len() - 1) * 8 {
            let mut bad = line[..line.len() - 1].to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            // The checksum's digits may change case without changing its value.
            assert!(read_line(&bad).is_err() || bad.eq_ignore_ascii_case(&line[..line.len() - 1]));
        }
    }

    #[test]
    fn a_record_of_a_later_version_is_told_from_a_broken_one() {
        let json = br#"[{"entry":"later"}]"#;
        let mut line = format!("{:08x} ", crc32fast::hash(json)).into_bytes();
        line.extend_from_slice(json);
        assert!(matches!(read_line(&line), Err(BadLine::Unknown(_))));
    }
}
