//! Reads an alert log as a stream, in constant memory: whole lines of any text, and of each line as little as is asked
//! for.
//!
//! A log may end in a torn line (its process was killed), and other programs may have written into it: such lines are
//! skipped and counted, never fatal.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Read};
use std::ops::{AddAssign, Range};

use jiff::tz::Offset;
use jiff::{Timestamp, civil};
use serde::de::{Deserialize, Deserializer, Visitor};

use super::quick;
use crate::event::Record;

/// Longest line that is read, in bytes. A record of an election with thousands of jobs has less than one million.
pub const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

const CHUNK_BYTES: usize = 256 * 1024;

/// Lines that were passed over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Last lines that end before their record does.
    pub torn: u64,
    /// Lines that are no records.
    pub foreign: u64,
    /// Lines longer than [`MAX_LINE_BYTES`].
    pub too_long: u64,
}

impl Skipped {
    /// All together.
    pub fn total(&self) -> u64 {
        self.torn + self.foreign + self.too_long
    }
}

impl AddAssign for Skipped {
    fn add_assign(&mut self, more: Skipped) {
        self.torn += more.torn;
        self.foreign += more.foreign;
        self.too_long += more.too_long;
    }
}

/// Splits a stream into lines.
pub struct LineReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// What is not yet handed out: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Up to here there is no line end.
    searched: usize,
    /// The line handed out last.
    current: Range<usize>,
    at_end: bool,
    /// Whether the end is only the present end of a file that grows.
    growing: bool,
    max_line_bytes: usize,
    too_long: u64,
}

/// A line, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// False for the last line of a stream that lacks the line end.
    pub ended: bool,
}

impl<R: Read> LineReader<R> {
    /// A reader from the beginning of `input`, which needs no buffer of its own.
    pub fn new(input: R) -> Self {
        Self::with_max_line_bytes(input, MAX_LINE_BYTES)
    }

    fn with_max_line_bytes(input: R, max_line_bytes: usize) -> Self {
        let buffer = vec![0; CHUNK_BYTES.min(max_line_bytes)];
        Self {
            input,
            buffer,
            start: 0,
            end: 0,
            searched: 0,
            current: 0..0,
            at_end: false,
            growing: false,
            max_line_bytes,
            too_long: 0,
        }
    }

    /// From now on a last line without its end waits for the rest, and the end is only the end so far: each
    /// [`LineReader::next_line`] looks again.
    pub fn set_growing(&mut self) {
        self.growing = true;
    }

    /// The bytes of the line handed out last.
    pub fn current(&self) -> &[u8] {
        &self.buffer[self.current.clone()]
    }

    /// Number of lines that were too long.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    /// The next line that is not too long; none at the end.
    ///
    /// # Errors
    /// Those of the input.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut discarding = false;
        self.at_end &= !self.growing;
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[self.searched..self.end]) {
                let (from, to) = (self.start, self.searched + at);
                self.start = to + 1;
                self.searched = self.start;
                if discarding {
                    discarding = false;
                    continue;
                }
                self.current = from..to;
                return Ok(Some(Line { bytes: self.current(), ended: true }));
            }
            self.searched = self.end;
            if self.at_end && self.growing {
                return Ok(None);
            }
            if self.at_end {
                let from = std::mem::replace(&mut self.start, self.end);
                if from == self.end || discarding {
                    return Ok(None);
                }
                self.current = from..self.end;
                return Ok(Some(Line { bytes: self.current(), ended: false }));
            }
            if discarding || self.end - self.start >= self.max_line_bytes {
                self.too_long += u64::from(!discarding);
                discarding = true;
                self.start = self.end;
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> io::Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).min(self.max_line_bytes + 1).max(self.end + 1), 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}

/// A time in the form of the alert log, `2026-11-30T10:19:49.123Z`. Sorts as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp([u8; 24]);

impl Stamp {
    /// Before every other.
    pub const EARLIEST: Stamp = Stamp(*b"0000-01-01T00:00:00.000Z");

    /// Of a time; the digits after the milliseconds are cut.
    pub fn of(at: Timestamp) -> Stamp {
        let text = format!("{at:.3}");
        Stamp(text.as_bytes().try_into().unwrap_or(Self::EARLIEST.0))
    }

    /// Any RFC 3339 time.
    pub fn parse(text: &str) -> Option<Stamp> {
        const FORM: [u8; 24] = *b"0000-00-00T00:00:00.000Z";
        if let Ok(bytes) = <[u8; 24]>::try_from(text.as_bytes()) {
            let fits = |(byte, form): (&u8, &u8)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form };
            if bytes.iter().zip(&FORM).all(fits) {
                return Some(Stamp(bytes));
            }
        }
        text.parse().ok().map(Stamp::of)
    }

    /// Of a line that begins as this project writes it, `{"ts":"...`, or else of any record.
    pub fn of_line(line: &[u8]) -> Option<Stamp> {
        const BEGIN: &[u8] = b"{\"ts\":\"";
        let quick = line.strip_prefix(BEGIN).and_then(|rest| rest.split_at_checked(24));
        if let Some((stamp, after)) = quick
            && after.first() == Some(&b'"')
        {
            return Stamp::parse(std::str::from_utf8(stamp).ok()?);
        }
        Stamp::parse(&Head::of(line)?.ts)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// As a time; none where the digits are no date.
    pub fn timestamp(&self) -> Option<Timestamp> {
        let digits = |from: usize, to: usize| {
            self.0[from..to]
                .iter()
                .try_fold(0_i16, |number, byte| Some(number * 10 + i16::from(byte.checked_sub(b'0')?)))
        };
        let small = |from: usize, to: usize| i8::try_from(digits(from, to)?).ok();
        let date = civil::Date::new(digits(0, 4)?, small(5, 7)?, small(8, 10)?).ok()?;
        let nanoseconds = i32::from(digits(20, 23)?) * 1_000_000;
        let time = civil::Time::new(small(11, 13)?, small(14, 16)?, small(17, 19)?, nanoseconds).ok()?;
        Offset::UTC.to_timestamp(date.to_datetime(time)).ok()
    }
}

/// A text of a record, borrowed from the line wherever it has no escapes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Text<'a>(pub Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a text")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        input.deserialize_str(Borrow)
    }
}

/// What a line tells at one glance: enough to sort, to filter, to find what several processes saw alike, and to show what
/// logs are full of. Also of events that this version does not know: a field keeps its form in all of them.
#[derive(Debug, Clone, serde::Deserialize)]
#[allow(missing_docs)] // The fields of the contract's table of the alert log.
pub struct Head<'a> {
    #[serde(borrow)]
    pub ts: Text<'a>,
    #[serde(borrow)]
    pub event: Text<'a>,
    #[serde(borrow)]
    pub cluster: Text<'a>,
    #[serde(borrow)]
    pub host: Text<'a>,
    pub pid: u32,
    #[serde(borrow, default)]
    pub component: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub job_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub leader_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub alert_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub target: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub by: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub address: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub old_leader_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub old_address: Option<Text<'a>>,
    #[serde(default)]
    pub leaderless_ms: Option<u64>,
    #[serde(default)]
    pub attempts: Option<u32>,
    #[serde(default)]
    pub latency_ms: Option<u64>,
    #[serde(default)]
    pub next_ms: Option<u64>,
    #[serde(borrow, default)]
    pub reason: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub receipt: Option<Text<'a>>,
    /// The whole alert of `alert.raised`.
    #[serde(borrow, default)]
    pub alert: Option<&'a serde_json::value::RawValue>,
    /// The targets of `alert.raised` and `agent.started`.
    #[serde(borrow, default)]
    pub targets: Option<&'a serde_json::value::RawValue>,
    /// The members of `alert.updated`.
    #[serde(borrow, default)]
    pub members: Option<&'a serde_json::value::RawValue>,
}

impl<'a> Head<'a> {
    /// Of a line; none where it is no record.
    pub fn of(line: &'a [u8]) -> Option<Head<'a>> {
        if line.first() != Some(&b'{') {
            return None;
        }
        serde_json::from_slice(line).ok()
    }

    /// The id of the alert that this record tells of.
    pub fn told_alert_id(&self) -> Option<Text<'a>> {
        self.alert_id.clone().or_else(|| self.raised_alert().map(|alert| alert.id))
    }

    /// The alert that is here in full.
    pub fn raised_alert(&self) -> Option<AlertHead<'a>> {
        serde_json::from_str(self.alert?.get()).ok()
    }
}

/// Which alert it is.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct AlertHead<'a> {
    /// Its id.
    #[serde(borrow)]
    pub id: Text<'a>,
    /// Its class.
    #[serde(borrow)]
    pub class: Text<'a>,
}

/// A line in full.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A record that this version knows.
    Known(Box<Record>),
    /// A record of another version, as it stands.
    Unknown(serde_json::Value),
}

impl Entry {
    /// Of a line; none where it is no record.
    pub fn of(line: &[u8]) -> Option<Entry> {
        Entry::with_head(&Head::of(line)?, line)
    }

    /// Of a line whose head is read already.
    pub fn with_head(head: &Head<'_>, line: &[u8]) -> Option<Entry> {
        let ts = Stamp::parse(&head.ts).and_then(|stamp| stamp.timestamp());
        let event = || quick::event(head).or_else(|| serde_json::from_slice(line).ok());
        let Some((ts, event)) = ts.and_then(|ts| Some((ts, event()?))) else {
            return serde_json::from_slice(line).ok().map(Entry::Unknown);
        };
        let (cluster, host) = (head.cluster.to_string(), head.host.to_string());
        Some(Entry::Known(Box::new(Record { ts, event, cluster, host, pid: head.pid })))
    }
}

/// Reads every record of a stream.
pub struct Reader<R> {
    lines: LineReader<R>,
    skipped: Skipped,
}

impl<R: Read> Reader<R> {
    /// A reader from the beginning of `input`.
    pub fn new(input: R) -> Self {
        Self { lines: LineReader::new(input), skipped: Skipped::default() }
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        Skipped { too_long: self.lines.too_long(), ..self.skipped }
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        loop {
            match self.lines.next_line() {
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
                Ok(Some(line)) => match Entry::of(line.bytes) {
                    Some(entry) => return Some(Ok(entry)),
                    None if line.bytes.is_empty() => {}
                    None if line.ended => self.skipped.foreign += 1,
                    None => self.skipped.torn += 1,
                },
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::event::Event;
    use proptest::prelude::*;

    const STOPPED: &str =
        r#"{"ts":"2026-11-30T10:19:49.123Z","event":"agent.stopped","pending":2,"cluster":"c","host":"h","pid":1}"#;

    /// Gives its bytes in pieces of the given sizes, over and over.
    struct Pieces<'a>(&'a [u8], std::iter::Cycle<std::vec::IntoIter<usize>>);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.next().unwrap().min(into.len());
            self.0.read(&mut into[..count])
        }
    }

    proptest! {
        /// However the input comes in pieces, the lines are those of the text, without the ones that are too long.
        #[test]
        fn lines_are_those_of_the_text(
            text in "([a-c]{0,12}\n?){0,20}",
            pieces in proptest::collection::vec(1usize..9, 1..5),
            max in 1usize..16,
        ) {
            let mut reader = LineReader::with_max_line_bytes(
                Pieces(text.as_bytes(), pieces.into_iter().cycle()), max);
            let mut found = Vec::new();
            while let Some(line) = reader.next_line().unwrap() {
                found.push(String::from_utf8(line.bytes.to_vec()).unwrap());
            }
            let expected: Vec<&str> = text.lines().filter(|line| line.len() < max).collect();
            let must_have: Vec<&String> = found.iter().filter(|line| line.len() < max).collect();
            prop_assert_eq!(must_have, expected);
            prop_assert!(found.iter().all(|line| line.len() <= max));
            prop_assert_eq!(found.len() as u64 + reader.too_long(), text.lines().count() as u64);
        }
    }

    #[test]
    fn torn_and_foreign_lines_are_counted_and_unknown_events_passed_through() {
        let unknown = STOPPED.replace("agent.stopped", "leader.crowned");
        let text = format!("{STOPPED}\nException in thread\n\n{{\"a\":1}}\n{unknown}\n{}", &STOPPED[..40]);
        let mut reader = Reader::new(text.as_bytes());
        let entries: Vec<Entry> = reader.by_ref().map(Result::unwrap).collect();
        assert_eq!(entries.len(), 2);
        let Entry::Known(record) = &entries[0] else { panic!("{entries:?}") };
        assert_eq!(record.event, Event::AgentStopped { pending: 2 });
        let Entry::Unknown(value) = &entries[1] else { panic!("{entries:?}") };
        assert_eq!(value["event"], "leader.crowned");
        assert_eq!(reader.skipped(), Skipped { torn: 1, foreign: 2, too_long: 0 });
    }

    #[test]
    fn a_whole_last_line_without_line_end_counts() {
        assert_eq!(Reader::new(STOPPED.as_bytes()).count(), 1);
    }

    #[test]
    fn texts_with_escapes_are_read() {
        let line = STOPPED.replace("\"c\"", r#""a\"b""#);
        assert_eq!(&*Head::of(line.as_bytes()).unwrap().cluster, "a\"b");
    }

    #[test]
    fn times_of_any_zone_sort_as_text() {
        let utc = Stamp::parse("2026-11-30T10:19:49.123Z").unwrap();
        assert_eq!(Stamp::parse("2026-11-30T18:19:49.123456+08:00"), Some(utc));
        assert!(Stamp::parse("2026-11-30T10:19:49.124Z").unwrap() > utc);
        assert_eq!(Stamp::parse("yesterday, perhaps, late"), None);
        assert_eq!(Stamp::of(utc.timestamp().unwrap()), utc);
        assert_eq!(Stamp::parse("2026-02-30T10:19:49.123Z").unwrap().timestamp(), None);
        assert_eq!(Stamp::EARLIEST.timestamp(), "0000-01-01T00:00:00Z".parse().ok());
    }
}
