//! The table for people: columns as wide as their content, long text wrapped under itself, colour for what matters.

use std::io::{self, Write};

use jiff::tz::TimeZone;
use leaderwatch_agent::journal::reader::{Entry, Head, Stamp};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::cli::people::printable;
use crate::cli::when::Clock;
use crate::cli::words::{Mood, words};

/// Rows that are held back at first, to see how wide the columns are.
const LOOK_AHEAD_ROWS: usize = 200;

/// No column but the last is wider than this, in characters.
const MAX_COLUMN: usize = 40;

/// The last column is never narrower than this, in characters; a narrower terminal wraps by itself.
const MIN_TEXT: usize = 20;

/// Below this width, in characters, process and cluster are left out.
const NARROW: usize = 110;

const HEADERS: [&str; COLUMNS] = ["TIME", "CLUSTER", "PROCESS", "EVENT", "SEAT", "WHAT"];
const COLUMNS: usize = 6;
const EVENT: usize = 3;
const TEXT: usize = 5;

/// How the table is drawn.
pub struct Style {
    /// Whether to colour.
    pub colour: bool,
    /// Characters in a line; none for as many as it takes.
    pub width: Option<usize>,
    /// Zone of the times.
    pub zone: TimeZone,
}

/// A table that is written row by row.
pub struct Table {
    style: Style,
    clock: Clock,
    held_back: Vec<Row>,
    widths: [usize; COLUMNS],
    begun: bool,
}

struct Row {
    cells: [String; COLUMNS],
    mood: Mood,
}

impl Table {
    /// An empty table.
    pub fn new(style: Style) -> Self {
        let clock = Clock::new(style.zone.clone());
        Self { style, clock, held_back: Vec::new(), widths: [0; COLUMNS], begun: false }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of the output.
    pub fn add(&mut self, out: &mut dyn Write, stamp: Stamp, head: &Head<'_>, entry: &Entry) -> io::Result<()> {
        let row = self.row(stamp, head, entry);
        for (width, cell) in self.widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(columns(cell).min(MAX_COLUMN));
        }
        self.held_back.push(row);
        if self.begun || self.held_back.len() >= LOOK_AHEAD_ROWS { self.write_out(out) } else { Ok(()) }
    }

    /// Writes what was held back.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write_out(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let rows = std::mem::take(&mut self.held_back);
        if rows.is_empty() {
            return Ok(());
        }
        if !self.begun {
            self.begun = true;
            for (width, header) in self.widths.iter_mut().zip(HEADERS) {
                *width = (*width).max(header.len());
            }
            let header = Row { cells: HEADERS.map(str::to_owned), mood: Mood::Plain };
            self.write_row(out, &header, true)?;
        }
        rows.iter().try_for_each(|row| self.write_row(out, row, false))
    }

    fn row(&mut self, stamp: Stamp, head: &Head<'_>, entry: &Entry) -> Row {
        let told = words(entry);
        let cells = [
            self.clock.shown(stamp),
            printable(&head.cluster).into_owned(),
            format!("{}:{}", printable(&head.host), head.pid),
            printable(&head.event).into_owned(),
            told.seat,
            printable(&told.text).into_owned(),
        ];
        Row { cells, mood: told.mood }
    }

    fn shows(&self, column: usize) -> bool {
        !(matches!(column, 1 | 2) && self.style.width.is_some_and(|width| width < NARROW))
    }

    fn write_row(&self, out: &mut dyn Write, row: &Row, bold: bool) -> io::Result<()> {
        let mut indent = 0;
        for column in (0..TEXT).filter(|column| self.shows(*column)) {
            let cell = &row.cells[column];
            let width = columns(cell);
            let padding = self.widths[column].saturating_sub(width);
            let colour = if bold {
                "1"
            } else if column == EVENT {
                colour_of(row.mood)
            } else {
                ""
            };
            if self.style.colour && !colour.is_empty() {
                write!(out, "\x1b[{colour}m{cell}\x1b[0m")?;
            } else {
                out.write_all(cell.as_bytes())?;
            }
            blanks(out, padding + 2)?;
            indent += width + padding + 2;
        }
        let room = self.style.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(MIN_TEXT));
        for (number, part) in wrap(&row.cells[TEXT], room).into_iter().enumerate() {
            if number > 0 {
                blanks(out, indent)?;
            }
            if bold && self.style.colour {
                writeln!(out, "\x1b[1m{part}\x1b[0m")?;
            } else {
                writeln!(out, "{part}")?;
            }
        }
        Ok(())
    }
}

/// Writes a text in lines no wider than `width`, those after the first one indented.
///
/// # Errors
/// Those of the output.
pub fn write_wrapped(out: &mut dyn Write, text: &str, width: Option<usize>) -> io::Result<()> {
    const INDENT: usize = 4;
    let Some(width) = width else { return writeln!(out, "{text}") };
    let room = width.saturating_sub(INDENT).max(MIN_TEXT);
    for (number, part) in wrap(text, room).into_iter().enumerate() {
        blanks(out, if number > 0 { INDENT } else { 0 })?;
        writeln!(out, "{part}")?;
    }
    Ok(())
}

/// Width on a terminal, in characters.
fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

fn blanks(out: &mut dyn Write, mut count: usize) -> io::Result<()> {
    const BLANKS: &[u8] = &[b' '; 64];
    while count > 0 {
        let some = count.min(BLANKS.len());
        out.write_all(&BLANKS[..some])?;
        count -= some;
    }
    Ok(())
}

fn colour_of(mood: Mood) -> &'static str {
    match mood {
        Mood::Plain => "",
        Mood::Good => "32",
        Mood::Notable => "33",
        Mood::Bad => "1;31",
    }
}

/// Cuts a text into lines of at most `room` characters' width, at blanks where there are some.
fn wrap(text: &str, room: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while columns(rest) > room {
        let mut used = 0;
        let mut fits = 0;
        let mut blank = None;
        for (at, character) in rest.char_indices() {
            used += character.width().unwrap_or(0);
            if used > room && fits > 0 {
                break;
            }
            fits = at + character.len_utf8();
            if character == ' ' {
                blank = Some(at);
            }
        }
        let cut = blank.filter(|at| *at > 0).unwrap_or(fits);
        parts.push(&rest[..cut]);
        rest = rest[cut..].trim_start_matches(' ');
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(rest);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_cut_at_blanks() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("作业作业", 4), ["作业", "作业"]);
        assert_eq!(wrap("", 4), [""]);
    }

    #[test]
    fn what_is_bad_stands_out_where_there_is_colour() {
        let line = include_bytes!("../../__fuzz__/alert_log/corpus/leader.lost").trim_ascii_end();
        let shown = |colour: bool| {
            let mut table = Table::new(Style { colour, width: None, zone: jiff::tz::TimeZone::UTC });
            let (mut out, head) = (Vec::new(), Head::of(line).unwrap());
            let entry = Entry::with_head(&head, line).unwrap();
            table.add(&mut out, Stamp::of_line(line).unwrap(), &head, &entry).unwrap();
            table.write_out(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let coloured = shown(true);
        assert!(coloured.contains("\x1b[1;31mleader.lost"), "{coloured:?}");
        let plain = shown(false);
        assert!(!plain.contains('\x1b') && plain.contains("leader.lost"), "{plain:?}");
    }

    proptest! {
        /// Nothing but blanks gets lost, and no line is too wide that could be narrower.
        #[test]
        fn wrapping_keeps_the_text(text in "[a-c 作]{0,30}", room in 2usize..12) {
            let parts = wrap(&text, room);
            let without_blanks = |text: &str| text.replace(' ', "");
            prop_assert_eq!(without_blanks(&parts.concat()), without_blanks(&text));
            prop_assert!(parts.iter().all(|part| part.width() <= room));
        }
    }
}
