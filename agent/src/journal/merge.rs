//! Merges many alert logs by time, as a stream: one line of each in memory, and only those open whose time has come.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};

use super::reader::{LineReader, Skipped, Stamp};
use super::sources::{Inode, Source};

/// Many logs as one.
pub struct Merge {
    sources: Vec<Opened>,
    /// Those that have a line, by its time.
    waiting: BinaryHeap<Reverse<(Stamp, usize)>>,
    /// The one whose line was handed out last and is to be moved on.
    handed_out: Option<usize>,
    growing: bool,
    skipped: Skipped,
    failed: Vec<(Source, io::Error)>,
    copies: Copies,
}

/// Finds lines that another source holds, too, such as a gzipped copy beside the log. Two processes never write the same
/// line, and one that writes a line twice within a millisecond does so in one file.
#[derive(Default)]
struct Copies {
    hasher: RandomState,
    stamp: Option<Stamp>,
    /// Lines of that time: how often each source held it, by hash and source.
    seen: HashMap<(u64, usize), u64>,
    /// How often a line was handed out, by hash.
    handed_out: HashMap<u64, u64>,
    count: u64,
}

impl Copies {
    /// More lines of one millisecond than these are not compared.
    const MAX_LINES: usize = 65_536;

    fn is_one(&mut self, stamp: Stamp, source: usize, line: &[u8]) -> bool {
        if self.stamp != Some(stamp) {
            self.stamp = Some(stamp);
            self.seen.clear();
            self.handed_out.clear();
        }
        if self.seen.len() >= Self::MAX_LINES {
            return false;
        }
        let hash = self.hasher.hash_one(line);
        let held = self.seen.entry((hash, source)).or_default();
        *held += 1;
        let handed_out = self.handed_out.entry(hash).or_default();
        if *held <= *handed_out {
            self.count += 1;
            return true;
        }
        *handed_out += 1;
        false
    }
}

/// A source, and how far it is read.
pub struct Opened {
    /// Where the lines come from.
    pub source: Source,
    /// The file behind the name when it was opened.
    pub inode: Option<Inode>,
    /// None where it is not open now.
    pub reader: Option<LineReader<Box<dyn Read + Send>>>,
}

impl Opened {
    /// Opens a source at its beginning; `growing` as in [`LineReader::set_growing`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(source: Source, growing: bool) -> io::Result<Opened> {
        let (input, inode) = source.open()?;
        let mut reader = LineReader::new(input);
        if growing {
            reader.set_growing();
        }
        Ok(Opened { source, inode, reader: Some(reader) })
    }

    /// Moves on to the next line whose time can be told.
    ///
    /// # Errors
    /// Those of the input.
    pub fn advance(&mut self, skipped: &mut Skipped) -> io::Result<Option<Stamp>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        while let Some(line) = reader.next_line()? {
            if let Some(stamp) = Stamp::of_line(line.bytes) {
                return Ok(Some(stamp));
            }
            match line.bytes {
                b"" => {}
                _ if line.ended => skipped.foreign += 1,
                _ => skipped.torn += 1,
            }
        }
        Ok(None)
    }

    /// The line that [`Opened::advance`] moved on to.
    pub fn line(&self) -> &[u8] {
        self.reader.as_ref().map_or(b"", LineReader::current)
    }
}

impl Merge {
    /// Looks at the first line of each source. A file is then closed again until its time comes, so that hundreds of
    /// closed logs need no more open files than were written at the same time. With `growing` all stay open, for
    /// [`Merge::into_opened`].
    pub fn new(sources: Vec<Source>, growing: bool) -> Self {
        let mut merge = Merge {
            sources: Vec::with_capacity(sources.len()),
            waiting: BinaryHeap::new(),
            handed_out: None,
            growing,
            skipped: Skipped::default(),
            failed: Vec::new(),
            copies: Copies::default(),
        };
        for source in sources {
            let mut opened = match Opened::open(source.clone(), growing) {
                Ok(opened) => opened,
                Err(error) => {
                    merge.failed.push((source, error));
                    continue;
                }
            };
            let stays_open = growing || opened.source == Source::StandardInput;
            let mut skipped = Skipped::default();
            match opened.advance(&mut skipped) {
                Ok(Some(stamp)) => {
                    merge.waiting.push(Reverse((stamp, merge.sources.len())));
                    if stays_open {
                        merge.skipped += skipped;
                    } else {
                        opened.reader = None;
                    }
                }
                Ok(None) => {
                    merge.skipped += skipped;
                    merge.skipped.too_long += opened.reader.as_ref().map_or(0, LineReader::too_long);
                }
                Err(error) => merge.failed.push((source, error)),
            }
            merge.sources.push(opened);
        }
        merge
    }

    /// The next line in time, and its time. None at the end of all.
    ///
    /// A line is handed out as soon as its time can be told; where the caller finds that it is no record, it says so by
    /// [`Merge::count_foreign`].
    pub fn next_line(&mut self) -> Option<(Stamp, &[u8])> {
        loop {
            let (stamp, index) = self.move_on()?;
            let is_alone = self.sources.len() == 1;
            if is_alone || !self.copies.is_one(stamp, index, self.sources[index].line()) {
                return Some((stamp, self.sources[index].line()));
            }
        }
    }

    /// Moves on to the next line, and says its time and source.
    fn move_on(&mut self) -> Option<(Stamp, usize)> {
        let mut next = self.handed_out.take().and_then(|index| Some((self.advance(index)?, index)));
        loop {
            let (stamp, index) = match (next.take(), self.waiting.peek()) {
                (Some(own), Some(Reverse(other))) if own > *other => {
                    let Reverse(other) = self.waiting.pop()?;
                    self.waiting.push(Reverse(own));
                    other
                }
                (Some(own), _) => own,
                (None, _) => self.waiting.pop()?.0,
            };
            if self.sources[index].reader.is_none() {
                next = self.reopen(index).map(|stamp| (stamp, index));
                if next.is_none() {
                    continue;
                }
            }
            self.handed_out = Some(index);
            return Some((next.map_or(stamp, |(stamp, _)| stamp), index));
        }
    }

    fn advance(&mut self, index: usize) -> Option<Stamp> {
        let opened = &mut self.sources[index];
        match opened.advance(&mut self.skipped) {
            Ok(Some(stamp)) => return Some(stamp),
            Ok(None) => {}
            Err(error) => self.failed.push((opened.source.clone(), error)),
        }
        if !self.growing {
            self.skipped.too_long += opened.reader.take().map_or(0, |reader| reader.too_long());
        }
        None
    }

    fn reopen(&mut self, index: usize) -> Option<Stamp> {
        match Opened::open(self.sources[index].source.clone(), false) {
            Ok(opened) => self.sources[index] = opened,
            Err(error) => {
                self.failed.push((self.sources[index].source.clone(), error));
                return None;
            }
        }
        self.advance(index)
    }

    /// Counts the line handed out last as foreign.
    pub fn count_foreign(&mut self) {
        self.skipped.foreign += 1;
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Lines left out since another source holds them, too.
    pub fn copies(&self) -> u64 {
        self.copies.count
    }

    /// Sources that could not be opened, or not be read to their end.
    pub fn failed(&self) -> &[(Source, io::Error)] {
        &self.failed
    }

    /// The sources, each at its present end.
    pub fn into_opened(self) -> Vec<Opened> {
        self.sources
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fs;

    fn line(second: u64, host: usize) -> String {
        format!(r#"{{"ts":"2026-11-30T10:00:{second:02}.000Z","event":"e","cluster":"c","host":"{host}","pid":1}}"#)
    }

    fn all_lines(merge: &mut Merge) -> Vec<(Stamp, String)> {
        let mut found = Vec::new();
        while let Some((stamp, line)) = merge.next_line() {
            found.push((stamp, String::from_utf8(line.to_vec()).unwrap()));
        }
        found
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Sorted logs come out as one sorted log, with every line once.
        #[test]
        fn sorted_logs_become_one(logs in proptest::collection::vec(proptest::collection::vec(0u64..60, 0..8), 0..5)) {
            let folder = tempfile::tempdir().unwrap();
            let mut expected = Vec::new();
            let mut sources = Vec::new();
            for (host, mut seconds) in logs.into_iter().enumerate() {
                seconds.sort_unstable();
                let lines: Vec<String> = seconds.iter().map(|second| line(*second, host)).collect();
                let path = folder.path().join(host.to_string());
                fs::write(&path, lines.join("\n")).unwrap();
                expected.extend(lines);
                sources.push(Source::File(path));
            }
            expected.sort();
            let mut merge = Merge::new(sources, false);
            let found = all_lines(&mut merge);
            prop_assert!(found.is_sorted_by_key(|(stamp, _)| *stamp));
            let mut lines: Vec<String> = found.into_iter().map(|(_, line)| line).collect();
            lines.sort();
            prop_assert_eq!(lines, expected);
        }
    }

    /// Regression: a log and its gzipped copy were counted as two.
    #[test]
    fn a_line_that_two_files_hold_counts_once_and_one_that_a_file_holds_twice_counts_twice() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{}\n{}\n{}\n{}\n", line(1, 0), line(2, 0), line(2, 0), line(3, 0));
        let (log, copy) = (folder.path().join("a.jsonl"), folder.path().join("b.jsonl"));
        fs::write(&log, &text).unwrap();
        fs::write(&copy, format!("{text}{}\n", line(4, 0))).unwrap();
        let mut merge = Merge::new(vec![Source::File(log), Source::File(copy)], false);
        let found: Vec<String> = all_lines(&mut merge).into_iter().map(|(_, line)| line).collect();
        assert_eq!(found, [line(1, 0), line(2, 0), line(2, 0), line(3, 0), line(4, 0)]);
        assert_eq!(merge.copies(), 4);
    }

    #[test]
    fn what_is_no_record_is_counted_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, format!("foreign\n{}\nforeign\n{{\"ts\":\"2026-1", line(1, 0))).unwrap();
        let sources = vec![Source::File(path), Source::File(folder.path().join("absent"))];
        let mut merge = Merge::new(sources, false);
        assert_eq!(all_lines(&mut merge).len(), 1);
        assert_eq!(merge.skipped(), Skipped { torn: 1, foreign: 2, too_long: 0 });
        assert_eq!(merge.failed().len(), 1);
    }
}
