//! Adds one JVM option to one key of Flink's configuration, and takes it back: nothing else of the file changes, so that
//! comments, order and blanks stay as the user wrote them.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::flink_version::major;
use super::yaml::{key_and_value, without_comment};

/// How a configuration file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfFormat {
    /// `flink-conf.yaml`: a key and a value a line.
    Legacy,
    /// `config.yaml`: YAML, nested or flat.
    Standard,
}

impl ConfFormat {
    /// Name of the file.
    pub const fn file_name(self) -> &'static str {
        match self {
            ConfFormat::Legacy => "flink-conf.yaml",
            ConfFormat::Standard => "config.yaml",
        }
    }

    /// The files that this version of Flink reads, the one that wins first: `config.yaml` from 2.0, `flink-conf.yaml` to
    /// 1.18, and in 1.19 and 1.20 the latter where it is there. Source: `GlobalConfiguration.loadConfiguration`.
    pub fn candidates(flink_version: &str) -> &'static [(ConfFormat, &'static str)] {
        const LEGACY: (ConfFormat, &str) = (ConfFormat::Legacy, ConfFormat::Legacy.file_name());
        const STANDARD: (ConfFormat, &str) = (ConfFormat::Standard, ConfFormat::Standard.file_name());
        let minor = flink_version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
        match (major(flink_version), minor) {
            (Some(0 | 1), Some(0..=18)) => &[LEGACY],
            (Some(0 | 1), _) => &[LEGACY, STANDARD],
            _ => &[STANDARD],
        }
    }
}

/// What was put into a file. Taking it away gives the file back byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insertion {
    /// The key whose value grew.
    pub key: String,
    /// The text that was inserted.
    pub text: String,
}

/// Why a file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditError {
    /// The value is written in a way that a word cannot simply be put behind.
    Unknown {
        /// The key.
        key: String,
        /// How it is written.
        how: &'static str,
    },
    /// What was inserted is not there any more, or not just once.
    Changed {
        /// The key.
        key: String,
    },
}

impl fmt::Display for EditError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, how } => write!(out, "the value of `{key}` {how}; add the option to it by hand"),
            Self::Changed { key } => write!(out, "`{key}` was changed since; take the option out of it by hand"),
        }
    }
}

impl std::error::Error for EditError {}

/// The value of a key, as far as it stands on one line; none where the key is not there.
///
/// # Errors
/// Where the value is written in another way.
pub fn value_of<'a>(text: &'a str, format: ConfFormat, key: &str) -> Result<Option<&'a str>, EditError> {
    match locate(text, format, key)? {
        Place::Value(range) => Ok(Some(text[range].trim())),
        Place::NewLine { .. } => Ok(None),
    }
}

/// The text with `option` as one more word of the key's value, and what was inserted for it.
///
/// # Errors
/// Where the value is written in a way that no word can be put behind.
pub fn add(text: &str, format: ConfFormat, key: &str, option: &str) -> Result<(String, Insertion), EditError> {
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let (at, inserted) = match locate(text, format, key)? {
        Place::Value(range) => (range.end, format!(" {option}")),
        Place::NewLine { at, indent, name } => {
            let before = if at == 0 || text[..at].ends_with('\n') { "" } else { newline };
            (at, format!("{before}{}{name}: {option}{newline}", " ".repeat(indent)))
        }
    };
    let edited = [&text[..at], &inserted, &text[at..]].concat();
    Ok((edited, Insertion { key: key.to_owned(), text: inserted }))
}

/// The text without what was inserted.
///
/// # Errors
/// Where that is not there any more, or cannot be told from other text.
pub fn take_back(text: &str, format: ConfFormat, insertion: &Insertion) -> Result<String, EditError> {
    let changed = || EditError::Changed { key: insertion.key.clone() };
    let mut places = text.match_indices(&insertion.text).map(|(at, _)| at);
    let first = places.next().ok_or_else(changed)?;
    let at = match places.next() {
        None => first,
        // The same option stands under several keys.
        Some(_) => match locate(text, format, &insertion.key) {
            Ok(Place::Value(range)) => range.start + text[range].rfind(&insertion.text).ok_or_else(changed)?,
            _ => return Err(changed()),
        },
    };
    Ok([&text[..at], &text[at + insertion.text.len()..]].concat())
}

/// Where a value stands, or where its key can be put.
enum Place {
    /// The value, without quotes; empty where there is none behind the colon.
    Value(Range<usize>),
    /// There is no such key; here is a place for a line of its own.
    NewLine {
        /// At the beginning of a line, or at the end of the text.
        at: usize,
        /// Blanks before the key.
        indent: usize,
        /// The key as it is to be written there.
        name: String,
    },
}

fn locate(text: &str, format: ConfFormat, key: &str) -> Result<Place, EditError> {
    match format {
        ConfFormat::Legacy => Ok(locate_legacy(text, key)),
        ConfFormat::Standard => locate_standard(text, key),
    }
}

/// As Flink's `config.sh` finds it: `^[ ]*KEY[ ]*: \([^#]*\)`, the last line that fits.
fn locate_legacy(text: &str, key: &str) -> Place {
    let mut found = None;
    for line in text.split_inclusive('\n') {
        let Some(rest) = line.trim_start_matches(' ').strip_prefix(key) else { continue };
        let Some(rest) = rest.trim_start_matches(' ').strip_prefix(": ") else { continue };
        let value = rest.split('#').next().unwrap_or_default().trim();
        if !value.is_empty() {
            found = Some(range_in(text, without_outer_quotes(value, &['"'])));
        }
    }
    found.map_or(Place::NewLine { at: text.len(), indent: 0, name: key.to_owned() }, Place::Value)
}

fn locate_standard(text: &str, key: &str) -> Result<Place, EditError> {
    let unknown = |how| EditError::Unknown { key: key.to_owned(), how };
    let (parent, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut lines = significant_lines(text).peekable();
    let mut parents: Vec<(usize, String)> = Vec::new();
    let mut root_indent = None;
    let mut place = None;
    while let Some(line) = lines.next() {
        let next_indent = lines.peek().map_or(0, |next| next.indent);
        if line.content == "..." || line.content.starts_with(['{', '[']) {
            return Err(unknown("stands in a kind of YAML that is not known here"));
        }
        if line.content.starts_with("- ") {
            continue;
        }
        let Some((written, value)) = key_and_value(line.content) else { continue };
        root_indent.get_or_insert(line.indent);
        parents.retain(|(indent, _)| *indent < line.indent);
        let path = parents.last().map_or(written.clone(), |(_, parent)| format!("{parent}.{written}"));
        let is_map = value.is_empty() && next_indent > line.indent;
        if path == key {
            if next_indent > line.indent {
                return Err(unknown("takes several lines"));
            }
            return value_range(text, &line, value).map(Place::Value).ok_or_else(|| unknown("is no plain text"));
        }
        if value.starts_with('{') && key.starts_with(&format!("{path}.")) {
            return Err(unknown("stands in braces"));
        }
        if is_map {
            if path == parent {
                place = Some(Place::NewLine { at: line.end, indent: next_indent, name: name.to_owned() });
            }
            parents.push((line.indent, path));
        } else {
            // What is indented deeper goes on with this text.
            while lines.next_if(|next| next.indent > line.indent).is_some() {}
        }
    }
    let flat = Place::NewLine { at: text.len(), indent: root_indent.unwrap_or(0), name: key.to_owned() };
    Ok(place.unwrap_or(flat))
}

struct Line<'a> {
    indent: usize,
    /// Without comment and blanks around it.
    content: &'a str,
    /// Where the next line begins.
    end: usize,
}

/// The lines of a YAML text that hold more than a comment.
fn significant_lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut end = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        end += line.len();
        let content = without_comment(line);
        let indent = content.len() - content.trim_start().len();
        let content = content.trim();
        (!content.is_empty() && content != "---").then_some(Line { indent, content, end })
    })
}

/// None where the value is not a plain or quoted text.
fn value_range(text: &str, line: &Line<'_>, value: &str) -> Option<Range<usize>> {
    if value.is_empty() {
        let end = range_in(text, line.content).end;
        return Some(end..end);
    }
    if value.starts_with(['|', '>', '{', '[', '&', '*', '!', '%', '@', '`']) {
        return None;
    }
    let inside = without_outer_quotes(value, &['"', '\'']);
    let is_open = inside.len() == value.len() && value.starts_with(['"', '\'']);
    (!is_open).then(|| range_in(text, inside))
}

fn without_outer_quotes<'a>(value: &'a str, quotes: &[char]) -> &'a str {
    let quoted = |quote: &char| value.strip_prefix(*quote)?.strip_suffix(*quote);
    quotes.iter().find_map(quoted).unwrap_or(value)
}

/// Where a part of a text stands in it.
fn range_in(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    start..start + part.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::yaml::{Flat, parse_legacy, parse_standard};
    use super::*;

    const KEY: &str = "env.java.opts.taskmanager";
    const OPTION: &str = "-agentpath:/opt/flink/leaderwatch/libleaderwatch.so=config=/etc/lw.toml";

    fn parse(format: ConfFormat, text: &str) -> Flat {
        match format {
            ConfFormat::Legacy => parse_legacy(text),
            ConfFormat::Standard => parse_standard(text),
        }
    }

    /// Adds it, and shows that Flink reads it, that all else stands as it stood, and that it can be taken back.
    fn added(format: ConfFormat, text: &str) -> String {
        let (edited, insertion) = add(text, format, KEY, OPTION).unwrap();
        let (mut before, mut after) = (parse(format, text), parse(format, &edited));
        let words = |value: Option<String>| value.unwrap_or_default().trim().to_owned();
        let (old, new) = (words(before.remove(KEY)), words(after.remove(KEY)));
        assert_eq!(new, format!("{old} {OPTION}").trim(), "{edited}");
        assert_eq!(after, before);
        assert_eq!(take_back(&edited, format, &insertion).unwrap(), text);
        edited
    }

    #[test]
    fn the_line_of_a_key_grows_by_a_word() {
        let cases = [
            ("a: b\nenv.java.opts.taskmanager: -Dx=y # why\n", "a: b\nenv.java.opts.taskmanager: -Dx=y OPTION # why\n"),
            ("env.java.opts.taskmanager: \"-Dx=y -Dz\"", "env.java.opts.taskmanager: \"-Dx=y -Dz OPTION\""),
            (" env.java.opts.taskmanager : x\r\na: b\r\n", " env.java.opts.taskmanager : x OPTION\r\na: b\r\n"),
        ];
        for (text, expected) in cases {
            let (edited, insertion) = add(text, ConfFormat::Legacy, KEY, OPTION).unwrap();
            assert_eq!(edited.replace(OPTION, "OPTION"), expected);
            assert_eq!(take_back(&edited, ConfFormat::Legacy, &insertion).unwrap(), text);
        }
    }

    #[test]
    fn a_key_that_is_not_there_gets_a_line_at_the_end() {
        for text in
            ["", "a: b", "a: b\n", "a: b\r\n", "#env.java.opts.taskmanager: x\n", "env.java.opts.taskmanager:\n"]
        {
            let edited = added(ConfFormat::Legacy, text);
            assert!(edited.trim_end().ends_with(&format!("{KEY}: {OPTION}")), "{edited}");
        }
        let edited = added(ConfFormat::Standard, "env.java.opts.all: -Dx=y\njobmanager:\n  rpc:\n    port: 6123");
        assert!(edited.ends_with(&format!("6123\n{KEY}: {OPTION}\n")), "{edited}");
    }

    #[test]
    fn the_last_of_equal_lines_is_the_one_that_flink_reads() {
        let edited = added(ConfFormat::Legacy, "env.java.opts.taskmanager: a\nenv.java.opts.taskmanager: b\n");
        assert!(edited.ends_with(&format!("b {OPTION}\n")));
    }

    #[test]
    fn a_nested_key_is_found_and_a_new_one_stands_beside_its_sisters() {
        let shipped = "# Java 17\nenv:\n  java:\n    opts:\n      all: --add-exports=a/b=ALL-UNNAMED\n#  # log\n\njobmanager:\n  rpc:\n    port: 6123\n";
        let edited = added(ConfFormat::Standard, shipped);
        assert!(edited.contains(&format!("    opts:\n      taskmanager: {OPTION}\n      all: --add")), "{edited}");
        for value in ["-Dx=y", "'-Dx=y'", "\"-Dx=y\"", "-Dx=y # why", "", "# none"] {
            let text = format!("env:\n  java:\n    opts:\n      taskmanager: {value}\n      all: c\nz: 1\n");
            assert_eq!(added(ConfFormat::Standard, &text).lines().count(), 6);
        }
        added(ConfFormat::Standard, "env.java:\n  opts:\n    taskmanager: a\n");
        added(ConfFormat::Standard, "text: |\n  env.java.opts.taskmanager: a\nz: 1\n");
        added(ConfFormat::Standard, "  a: b\n  c: d\n");
    }

    #[test]
    fn a_value_that_no_word_can_be_put_behind_is_left_alone() {
        for text in [
            "env.java.opts.taskmanager: >-\n  a\n  b\n",
            "env.java.opts.taskmanager: a\n  b\n",
            "env.java.opts.taskmanager: [a]\n",
            "env.java.opts.taskmanager: &x a\n",
            "env.java.opts.taskmanager: \"a\n",
            "env:\n  java: {opts: {taskmanager: a}}\n",
            "{env: b}\n",
            "a: b\n...\n",
        ] {
            assert!(matches!(add(text, ConfFormat::Standard, KEY, OPTION), Err(EditError::Unknown { .. })), "{text}");
        }
    }

    #[test]
    fn it_is_taken_back_from_a_file_that_changed_elsewhere_and_only_then() {
        let text = "env.java.opts.jobmanager: a\nenv.java.opts.taskmanager: a\n";
        let (once, job_manager) = add(text, ConfFormat::Legacy, "env.java.opts.jobmanager", OPTION).unwrap();
        let (twice, task_manager) = add(&once, ConfFormat::Legacy, KEY, OPTION).unwrap();
        let changed = twice.clone() + "new: 1\n";
        let less = take_back(&changed, ConfFormat::Legacy, &task_manager).unwrap();
        assert_eq!(less, once + "new: 1\n");
        assert_eq!(take_back(&less, ConfFormat::Legacy, &job_manager).unwrap(), text.to_owned() + "new: 1\n");
        let other = twice.replace("lw.toml", "other.toml");
        assert!(matches!(take_back(&other, ConfFormat::Legacy, &task_manager), Err(EditError::Changed { .. })));
    }

    #[test]
    fn each_version_reads_its_own_file() {
        let files = |version| ConfFormat::candidates(version).iter().map(|(_, name)| *name).collect::<Vec<_>>();
        for version in ["1.9.3", "1.14.6", "1.18.1"] {
            assert_eq!(files(version), ["flink-conf.yaml"]);
        }
        for version in ["1.19.3", "1.20.5"] {
            assert_eq!(files(version), ["flink-conf.yaml", "config.yaml"]);
        }
        for version in ["2.0.2", "2.3.0", "3.0.0"] {
            assert_eq!(files(version), ["config.yaml"]);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_added_can_be_taken_back(
            lines in prop::collection::vec("( {0,6})(env|java|opts|taskmanager|env.java.opts.taskmanager|a|- b|#)(:|: |: x|: 'x'| # y|)", 0..12),
            end in "\\n?",
        ) {
            let text = lines.join("\n") + &end;
            for format in [ConfFormat::Legacy, ConfFormat::Standard] {
                if let Ok((edited, insertion)) = add(&text, format, KEY, OPTION) {
                    prop_assert!(edited.contains(OPTION));
                    prop_assert_eq!(take_back(&edited, format, &insertion).unwrap(), text.clone());
                }
            }
        }
    }
}
