//! Saves what is sound of a file that is not TOML throughout.
//!
//! The parser's own recovery lets keys stray from one table into another: after a broken `[[target]` the token of one
//! receiver may end up with another. So the text is cut into tables and, before the first table, into keys; what does
//! not parse by itself is blanked out, with lines and offsets kept.

use std::ops::Range;

use toml::de::{DeTable, Error};

/// Rounds in which tables that clash with each other are blanked out, one a round, before all is given up.
const MOST_ROUNDS: usize = 100;

/// Something that is not TOML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// Where, as an offset in bytes.
    pub(super) offset: usize,
    /// What the parser says; holds nothing of the text.
    pub(super) message: String,
    /// What is blanked out for it, in bytes.
    pub(super) ignored: Range<usize>,
}

/// The text with all that is not sound blanked out, so that it parses, and why.
pub(super) fn salvage(text: &str) -> (String, Vec<SyntaxError>) {
    let mut sound = text.to_owned();
    let mut errors = Vec::new();
    if DeTable::parse(text).is_ok() {
        return (sound, errors);
    }
    let pieces = pieces(text);
    for piece in &pieces {
        let (_, found) = DeTable::parse_recoverable(&text[piece.clone()]);
        if !found.is_empty() {
            blank(&mut sound, piece);
            errors.extend(one_a_line(text, piece, &found));
        }
    }
    for _ in 0..MOST_ROUNDS {
        let Err(error) = DeTable::parse(&sound) else { return (sound, errors) };
        let offset = error.span().map_or(0, |span| span.start);
        let piece = pieces.iter().rfind(|piece| piece.start <= offset).cloned().unwrap_or(0..text.len());
        blank(&mut sound, &piece);
        errors.push(SyntaxError { offset, message: error.message().to_owned(), ignored: piece });
    }
    let all = 0..text.len();
    errors.push(SyntaxError { offset: 0, message: "too many errors".to_owned(), ignored: all.clone() });
    blank(&mut sound, &all);
    (sound, errors)
}

/// Cuts a text before each line that looks like the header of a table and, before the first of these, before each
/// line that looks like a key.
fn pieces(text: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    let mut in_table = false;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let is_header = looks_like_header(line);
        in_table |= is_header;
        if is_header || (!in_table && looks_like_key(line)) {
            starts.push(offset);
        }
        offset += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

fn looks_like_header(line: &str) -> bool {
    let name = line.trim_start().strip_prefix('[').map(|rest| rest.strip_prefix('[').unwrap_or(rest).trim_start());
    name.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

fn looks_like_key(line: &str) -> bool {
    let key = line.split_once('=').map(|(key, _)| key.trim_end()).unwrap_or_default();
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

/// Puts a blank in place of every byte but line ends. The range is one of whole lines.
fn blank(text: &mut String, range: &Range<usize>) {
    let blanked: String = text[range.clone()].bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(range.clone(), &blanked);
}

/// One slip often makes several errors in its line; the first one tells it.
fn one_a_line(text: &str, piece: &Range<usize>, errors: &[Error]) -> Vec<SyntaxError> {
    let mut told: Vec<SyntaxError> = Vec::new();
    for error in errors {
        let offset = piece.start + error.span().map_or(0, |span| span.start);
        let is_new =
            told.last().is_none_or(|last| text[last.offset.min(offset)..offset.max(last.offset)].contains('\n'));
        if is_new {
            told.push(SyntaxError { offset, message: error.message().to_owned(), ignored: piece.clone() });
        }
    }
    told
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(text: &str) -> String {
        let (sound, _) = salvage(text);
        sound.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn sound_text_is_kept_as_it_is() {
        let text = "a = 1\n[alert]\nb = '''\n[x]\n'''\n";
        assert_eq!(salvage(text), (text.to_owned(), vec![]));
    }

    #[test]
    fn a_broken_table_costs_itself_only() {
        assert_eq!(kept("a = 1\n[[t]]\nb = 'x\n[[t]]\nc = 2\n"), "a = 1|[[t]]|c = 2");
        assert_eq!(kept("[[t]]\na = 1\n[[t]\nb = 2\n[[t]]\nc = 3\n"), "[[t]]|a = 1|[[t]]|c = 3");
        assert_eq!(kept("[[t]]\na = 1\n[t]]\nb = 2\n[[t]]\nc = 3\n"), "[[t]]|a = 1|[[t]]|c = 3");
    }

    #[test]
    fn a_broken_key_before_the_tables_costs_itself_only() {
        assert_eq!(kept("a = 'x\nb = {\nc = [1,\n  2]\nd = 4\n[e]\nf = 5\n"), "c = [1,|  2]|d = 4|[e]|f = 5");
    }

    #[test]
    fn tables_that_clash_cost_the_later_one() {
        assert_eq!(kept("[a]\nb = 1\n[a]\nb = 2\n[c]\nd = 3\n"), "[a]|b = 1|[c]|d = 3");
        assert_eq!(kept("a = 1\na = 2\n"), "a = 1");
    }

    #[test]
    fn each_line_is_told_once() {
        let (_, errors) = salvage("a = = = 1\nb = 2\n[c]\nd\ne\n");
        let offsets: Vec<usize> = errors.iter().map(|error| error.offset).collect();
        assert_eq!(offsets.len(), 3, "{errors:?}");
    }

    proptest! {
        #[test]
        fn what_is_kept_parses_and_has_all_lines(text in "(\\[\\[?[at]\\]?\\]?\n|[ab] = |1|'|\"|\n|#|é|\\{|,)*") {
            let (sound, errors) = salvage(&text);
            prop_assert!(DeTable::parse(&sound).is_ok());
            prop_assert_eq!(sound.len(), text.len());
            prop_assert_eq!(errors.is_empty(), DeTable::parse(&text).is_ok());
            let ends = |text: &str| text.match_indices('\n').map(|(at, _)| at).collect::<Vec<_>>();
            prop_assert_eq!(ends(&sound), ends(&text));
        }
    }
}
