//! Forms for people: durations, addresses, ids, and text that cannot play tricks on a terminal.

use std::borrow::Cow;
use std::fmt;

/// Digits of an id that are shown: enough to tell ids apart at a glance; `--json` has them all.
const ID_DIGITS: usize = 8;

/// `412 ms`, `3.2 s`, `2 min 5 s`, `3 h 2 min`.
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..=9 => format!("{}.{} s", seconds, milliseconds % 1000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The first digits of an id.
pub fn short(id: &str) -> &str {
    id.get(..ID_DIGITS).unwrap_or(id)
}

/// Shows the first digits of an id that is a number of 128 bits.
#[derive(Debug, Clone, Copy)]
pub struct ShortId(pub u128);

impl fmt::Display for ShortId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:0ID_DIGITS$x}", (self.0 >> (128 - 4 * ID_DIGITS)) as u64)
    }
}

/// Host and port of an RPC or HTTP address; the whole text where it has another form.
pub fn host_port(address: &str) -> &str {
    let Some((_, rest)) = address.split_once("://") else { return address };
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host_port)| host_port)
}

/// The text with each control character shown as an escape: what comes from a log never moves the cursor, changes a
/// title or begins a new line.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte);
    if text.bytes().all(is_plain) || !text.chars().any(is_tricky) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push(' '),
            tricky if is_tricky(tricky) => safe.extend(tricky.escape_unicode()),
            plain => safe.push(plain),
        }
    }
    Cow::Owned(safe)
}

/// Control characters and those that turn the direction of writing.
fn is_tricky(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `1 alert`, `2 alerts`.
pub fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let cases = [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_050, "1.0 s"),
            (9_999, "9.9 s"),
            (59_999, "59 s"),
            (125_000, "2 min 5 s"),
            (10_920_000, "3 h 2 min"),
            (180_000_000, "2 d 2 h"),
        ];
        for (milliseconds, expected) in cases {
            assert_eq!(duration(milliseconds), expected);
        }
    }

    #[test]
    fn a_short_id_is_the_beginning_of_the_whole() {
        let job = leaderwatch_agent::leadership::JobId(0x000a_bcde << 96 | 7);
        assert_eq!(ShortId(job.0).to_string(), short(&job.to_string()));
        assert_eq!(ShortId(u128::MAX).to_string(), "ffffffff");
    }

    #[test]
    fn addresses_are_cut_to_host_and_port() {
        assert_eq!(host_port("akka.tcp://flink@10.0.0.1:6123/user/rpc/jobmanager_2"), "10.0.0.1:6123");
        assert_eq!(host_port("https://[fd00::1]:8081"), "[fd00::1]:8081");
        assert_eq!(host_port("somewhere"), "somewhere");
    }

    #[test]
    fn a_log_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}d"), "a\\u{1b}[2Jb\\nc\\u{202e}d");
        assert!(matches!(printable("作业 a"), Cow::Borrowed(_)));
    }
}
