//! The log of one folder: appends records to a segment, carries what is not done to the next, and reads it back.

use std::io;

use super::entry::{self, BadLine, Entry};
use super::folder::Folder;
use super::live::Live;

/// Ending of a segment's name; before it stands its number in ten digits.
const SEGMENT: &str = ".segment";
/// Ending of a segment that is being written.
const UNFINISHED: &str = ".unfinished";

/// A segment that is longer than this, and longer than twice what was not done when it began, is left behind.
pub(super) const SEGMENT_BYTES: u64 = 256 * 1024;

/// More records than these are not put on one line, so that a fault of the disk does not take them all.
const LINE_ENTRIES: usize = 16;

/// The log of one folder.
#[derive(Debug)]
pub(super) struct Log<F> {
    folder: F,
    live: Live,
    /// Number of the present segment; zero where there is none yet.
    segment: u64,
    segment_bytes: u64,
    /// What was not done when the present segment began: so much was written to begin it, and as much may be before the next.
    begun_bytes: u64,
    segment_limit_bytes: u64,
    /// Whether the present segment may be appended to. False before the first and after any error: what a failed write
    /// or `fsync` left of the file is unknown, so it is never appended to again.
    sound: bool,
}

/// What was found in a folder.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) live: Live,
    /// Lines that are no records, with the reason for each.
    pub(super) corrupt: Vec<(Vec<u8>, BadLine)>,
}

impl<F: Folder> Log<F> {
    /// An empty log, which writes nothing before the first append or [`Log::heal`].
    pub(super) fn new(folder: F) -> Self {
        Self::with_segment_limit(folder, SEGMENT_BYTES)
    }

    /// As [`Log::new`], with another size at which a segment is left behind.
    pub(super) fn with_segment_limit(folder: F, segment_limit_bytes: u64) -> Self {
        let (live, segment, segment_bytes, begun_bytes) = (Live::default(), 0, 0, 0);
        Self { folder, live, segment, segment_bytes, begun_bytes, segment_limit_bytes, sound: false }
    }

    pub(super) fn live(&self) -> &Live {
        &self.live
    }

    pub(super) fn folder(&mut self) -> &mut F {
        &mut self.folder
    }

    pub(super) fn into_folder(self) -> F {
        self.folder
    }

    /// Takes records in: with one write and one `fsync`. On an error they are taken in all the same, are not on disk,
    /// and the next append or [`Log::heal`] tries to write them again.
    pub(super) fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        for entry in entries {
            self.live.apply(entry);
        }
        if !self.sound || self.is_worn() || entries.len() > LINE_ENTRIES {
            return self.roll();
        }
        let mut line = Vec::new();
        entry::write_line(entries, &mut line);
        self.sound = false;
        self.folder.append(&segment_name(self.segment), &line)?;
        self.sound = true;
        self.segment_bytes += line.len() as u64;
        Ok(())
    }

    /// Writes what an earlier error kept from the disk. Says whether there was anything to do.
    pub(super) fn heal(&mut self) -> io::Result<bool> {
        if self.sound {
            return Ok(false);
        }
        self.roll().map(|()| true)
    }

    /// Deletes all segments.
    pub(super) fn remove_all(&mut self) -> io::Result<()> {
        for name in self.folder.names()? {
            if is_ours(&name) {
                self.folder.remove(&name)?;
            }
        }
        self.sound = false;
        Ok(())
    }

    fn is_worn(&self) -> bool {
        self.segment_bytes > self.segment_limit_bytes.max(2 * self.begun_bytes)
    }

    /// Writes what is not done to the next segment and deletes those before it.
    fn roll(&mut self) -> io::Result<()> {
        self.sound = false;
        self.folder.prepare()?;
        let mut lines = Vec::new();
        for entry in self.live.entries() {
            entry::write_line(&[entry], &mut lines);
        }
        let old = self.folder.names()?;
        let newest = old.iter().filter_map(|name| segment_number(name)).max().unwrap_or(0);
        let number = newest.max(self.segment) + 1;
        let unfinished = format!("{number:010}{UNFINISHED}");
        if let Err(error) = self.folder.create(&unfinished, &lines) {
            // Leave the little room that a full disk has to others; the error that counts is the first one.
            let _ = self.folder.remove(&unfinished);
            return Err(error);
        }
        self.folder.rename(&unfinished, &segment_name(number))?;
        self.segment = number;
        self.segment_bytes = lines.len() as u64;
        self.begun_bytes = self.segment_bytes;
        self.sound = true;
        for name in old.iter().filter(|name| is_ours(name)) {
            // What stays is not read, since a later segment is there.
            let _ = self.folder.remove(name);
        }
        Ok(())
    }
}

/// Reads the log in `folder`.
pub(super) fn read(folder: &impl Folder) -> io::Result<Found> {
    let newest = folder.names()?.into_iter().filter(|name| segment_number(name).is_some()).max();
    let Some(newest) = newest else { return Ok(Found::default()) };
    Ok(parse(&folder.read(&newest)?))
}

fn parse(content: &[u8]) -> Found {
    let mut found = Found::default();
    let mut lines = content.split(|byte| *byte == b'\n');
    // Behind the last line feed stands nothing, or the torn tail of a write that a crash cut short.
    lines.next_back();
    for line in lines {
        match entry::read_line(line) {
            Ok(entries) => entries.iter().for_each(|entry| found.live.apply(entry)),
            Err(why) => found.corrupt.push((line.to_vec(), why)),
        }
    }
    found
}

fn segment_name(number: u64) -> String {
    format!("{number:010}{SEGMENT}")
}

fn segment_number(name: &str) -> Option<u64> {
    name.strip_suffix(SEGMENT)?.parse().ok()
}

fn is_ours(name: &str) -> bool {
    name.ends_with(SEGMENT) || name.ends_with(UNFINISHED)
}
