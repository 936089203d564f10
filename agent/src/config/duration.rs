//! Lengths of time as people write them: `0s`, `500ms`, `2s`, `5m`, `1h`.

use std::fmt;
use std::time::Duration;

/// Units, largest first: suffix and milliseconds.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A text that is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DurationError {
    /// Not a whole number followed by a unit.
    Form,
    /// More milliseconds than 64 bits hold.
    TooLong,
}

impl fmt::Display for DurationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DurationError::Form => out.write_str("not a whole number followed by `ms`, `s`, `m` or `h`"),
            DurationError::TooLong => out.write_str("longer than can be counted"),
        }
    }
}

impl std::error::Error for DurationError {}

/// Reads a whole number with one of the units `ms`, `s`, `m`, `h`. Nothing else is taken: a bare number has no unit,
/// and to guess one is to be wrong by a factor of 1000 for somebody.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let (_, unit_ms) = UNITS.into_iter().find(|(unit, _)| *unit == suffix).ok_or(DurationError::Form)?;
    if number.is_empty() {
        return Err(DurationError::Form);
    }
    let count: u64 = number.parse().map_err(|_| DurationError::TooLong)?;
    count.checked_mul(unit_ms).map(Duration::from_millis).ok_or(DurationError::TooLong)
}

/// Writes a duration in the largest unit that divides it; what is finer than a millisecond is cut.
pub fn format_duration(duration: Duration) -> String {
    let total_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if total_ms == 0 {
        return "0s".to_owned();
    }
    let (unit, unit_ms) = UNITS.into_iter().find(|(_, unit_ms)| total_ms.is_multiple_of(*unit_ms)).unwrap_or(("ms", 1));
    format!("{}{unit}", total_ms / unit_ms)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_forms_of_the_contract_are_read() {
        let milliseconds = |text| parse_duration(text).map(|d| d.as_millis());
        assert_eq!(milliseconds("0s"), Ok(0));
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("2s"), Ok(2_000));
        assert_eq!(milliseconds("5m"), Ok(300_000));
        assert_eq!(milliseconds("1h"), Ok(3_600_000));
    }

    #[test]
    fn whatever_has_no_unit_or_no_number_is_refused() {
        for text in ["", "2", "s", "-2s", "2 s", "2S", "1.5s", "2d", "2ss", "２s", "2s "] {
            assert_eq!(parse_duration(text), Err(DurationError::Form), "{text:?}");
        }
        assert_eq!(parse_duration("99999999999999999999s"), Err(DurationError::TooLong));
        assert_eq!(parse_duration("18446744073709551615h"), Err(DurationError::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(milliseconds in 0u64..1u64 << 50) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_makes_it_panic(text in ".*") {
            let _ = parse_duration(&text);
        }
    }
}
