//! Texts that fit: cut to a receiver's limit in its own unit, and free of what would break its format.

use serde_json::Value;

/// What a text ends with that was cut.
const ELLIPSIS: char = '…';

/// At most `limit` bytes of UTF-8.
pub fn cut_bytes(text: &str, limit: usize) -> String {
    cut(text, limit, char::len_utf8)
}

/// At most `limit` characters (runes).
pub fn cut_characters(text: &str, limit: usize) -> String {
    cut(text, limit, |_| 1)
}

/// At most `limit` units of UTF-16.
pub fn cut_utf16(text: &str, limit: usize) -> String {
    cut(text, limit, char::len_utf16)
}

/// Cuts on a character boundary; the mark that says so counts, too.
fn cut(text: &str, limit: usize, size: impl Fn(char) -> usize) -> String {
    if text.chars().map(&size).sum::<usize>() <= limit {
        return text.to_owned();
    }
    let Some(mut room) = limit.checked_sub(size(ELLIPSIS)) else { return String::new() };
    let mut kept = String::new();
    for character in text.chars() {
        let Some(rest) = room.checked_sub(size(character)) else { break };
        room = rest;
        kept.push(character);
    }
    kept.push(ELLIPSIS);
    kept
}

/// The message with as much of `text` as keeps its JSON within `limit` bytes, which also counts what JSON escapes.
pub fn fit_json(text: &str, limit: usize, message: impl Fn(&str) -> Value) -> Value {
    let mut room = text.len();
    loop {
        let built = message(&cut_bytes(text, room));
        let size = built.to_string().len();
        if size <= limit || room == 0 {
            return built;
        }
        // Escapes and what is built around each line grow with the text, so the room shrinks by what the whole is too big.
        room = (room * limit / size).min(room - 1);
    }
}

/// The text with a mark before each character of `markup` that takes its meaning away.
pub fn escape(text: &str, markup: &str, mark: char) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if markup.contains(character) {
            escaped.push(mark);
        }
        escaped.push(character);
    }
    escaped
}

/// The text without what no receiver shows and some refuse; line feeds and tabs stay.
pub fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !disorders(*c)).collect()
}

/// The text on one line, without control characters.
pub fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if disorders(c) { ' ' } else { c }).collect();
    clean.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Control characters, and those that show what follows in another order (Unicode Standard Annex 9, 2.1 to 2.5).
fn disorders(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_fits_stays_as_it_is() {
        assert_eq!(cut_bytes("企业微信", 12), "企业微信");
        assert_eq!(cut_characters("企业微信", 4), "企业微信");
        assert_eq!(cut_utf16("👍👍", 4), "👍👍");
    }

    #[test]
    fn what_does_not_fit_is_cut_between_characters() {
        assert_eq!(cut_bytes("企业微信", 11), "企业…");
        assert_eq!(cut_characters("企业微信", 3), "企业…");
        assert_eq!(cut_utf16("👍👍", 3), "👍…");
        assert_eq!(cut_bytes("企业", 2), "");
    }

    #[test]
    fn one_line_holds_no_line_feed_and_no_control_character() {
        assert_eq!(one_line("a\r\nBcc: b@example.com\t\u{7}c "), "a Bcc: b@example.com c");
        assert_eq!((one_line("a\u{202e}b").as_str(), printable("a\u{2066}\tb\n").as_str()), ("a b", "a\tb\n"));
    }

    proptest! {
        #[test]
        fn no_message_is_over_its_limit(text in "(\\PC|[\u{0}-\u{1f}]|\\\\|\"){0,300}", limit in 20..400usize) {
            let message = fit_json(&text, limit, |text| serde_json::json!({"text": text}));
            prop_assert!(message.to_string().len() <= limit);
        }

        #[test]
        fn no_cut_is_over_its_limit(text in "\\PC{0,60}", limit in 0..80usize) {
            prop_assert!(cut_bytes(&text, limit).len() <= limit);
            prop_assert!(cut_characters(&text, limit).chars().count() <= limit);
            prop_assert!(cut_utf16(&text, limit).encode_utf16().count() <= limit);
        }
    }
}
