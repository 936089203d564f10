//! Times as people give and read them.

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ZonedDateTime};
use leaderwatch_agent::journal::reader::Stamp;

use super::people::printable;

/// The zone of that name, or the machine's.
///
/// # Errors
/// A name that the zone database does not know.
pub fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name else { return Ok(of_machine()) };
    TimeZone::get(name).map_err(|_| format!("--time-zone: `{name}` is not known; `UTC` and `Asia/Shanghai` are"))
}

/// The machine's zone. jiff falls back without a word where `TZ` names no zone.
fn of_machine() -> TimeZone {
    let named = std::env::var("TZ").unwrap_or_default();
    TimeZone::try_system().unwrap_or_else(|_| {
        // A machine that knows no zone of its own, as many containers, is in UTC.
        if !named.is_empty() {
            eprintln!("leaderwatch: TZ: `{}` is no time zone that is known; times are in UTC", printable(&named));
        }
        TimeZone::UTC
    })
}

/// A time: `2h` and `1d 6h` are that long ago; `2026-11-30T10:00:00Z` is a time; `2026-11-30 10:00`, `2026-11-30` and
/// `10:00` are in the zone, the last one the latest such time.
///
/// # Errors
/// A text of no such form.
pub fn since(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let now = now.to_zoned_datetime(zone.clone());
    let text = text.trim();
    // `10:20:00` could be read as a span as well.
    let parsed = text.parse::<Timestamp>().ok().or_else(|| civil_time(text, &now)).or_else(|| span_ago(text, &now));
    parsed.ok_or_else(|| {
        format!("--since: `{text}` is no time; `2h`, `1d`, `10:30`, `2026-11-30 10:30` or `2026-11-30T10:30:00Z` are")
    })
}

fn span_ago(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let span: Span = text.parse().ok()?;
    Some(now.checked_sub(span.abs()).ok()?.timestamp())
}

fn civil_time(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let zone = now.time_zone();
    if let Ok(datetime) = text.parse::<civil::DateTime>() {
        return zone.to_timestamp(datetime).ok();
    }
    let today = now.date().to_datetime(text.parse::<civil::Time>().ok()?);
    let at = zone.to_timestamp(today).ok()?;
    if at <= now.timestamp() { Some(at) } else { zone.to_timestamp(today.yesterday().ok()?).ok() }
}

/// `2026-11-30 18:19:49.123`, in the zone.
pub fn shown(at: Timestamp, zone: &TimeZone) -> String {
    zone.to_datetime(at).strftime("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// Shows the times of records. Many fall into the same minute, which is put into the zone once.
pub struct Clock {
    zone: TimeZone,
    /// A minute in UTC, as in the log, and as it is shown.
    minute: Option<(String, String)>,
}

impl Clock {
    /// A clock of that zone.
    pub fn new(zone: TimeZone) -> Self {
        Self { zone, minute: None }
    }

    /// As [`shown`]; what is no date stays as it is.
    pub fn shown(&mut self, stamp: Stamp) -> String {
        const MINUTE_BYTES: usize = "2026-11-30T10:19".len();
        let (minute, seconds) = stamp.as_str().split_at(MINUTE_BYTES);
        let seconds = seconds.trim_end_matches('Z');
        if let Some((known, shown)) = &self.minute
            && known == minute
        {
            return format!("{shown}{seconds}");
        }
        let Some(at) = stamp.timestamp() else { return stamp.as_str().to_owned() };
        let shown = shown(at, &self.zone);
        // Until the twentieth century some zones were seconds away from whole minutes.
        if shown.ends_with(seconds) {
            self.minute = Some((minute.to_owned(), shown[..MINUTE_BYTES].to_owned()));
        }
        shown
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_in_every_form_that_the_help_names() {
        let zone = zone(Some("Asia/Shanghai")).unwrap();
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("2h", "2026-11-30T08:00:00Z"),
            ("90 min", "2026-11-30T08:30:00Z"),
            ("1d", "2026-11-29T10:00:00Z"),
            ("2026-11-30T09:00:00Z", "2026-11-30T09:00:00Z"),
            ("2026-11-30T09:00:00+08:00", "2026-11-30T01:00:00Z"),
            ("2026-11-30 09:00", "2026-11-30T01:00:00Z"),
            ("2026-11-30", "2026-11-29T16:00:00Z"),
            ("17:30", "2026-11-30T09:30:00Z"),
            ("17:30:15", "2026-11-30T09:30:15Z"),
            ("00:00:00", "2026-11-29T16:00:00Z"),
            ("23:00", "2026-11-29T15:00:00Z"),
        ] {
            assert_eq!(since(text, now, &zone), Ok(expected.parse().unwrap()), "{text}");
        }
        assert!(since("soon", now, &zone).unwrap_err().contains("`2h`"));
        assert_eq!(shown(now, &zone), "2026-11-30 18:00:00.000");
    }

    #[test]
    fn a_clock_shows_what_each_time_alone_would_show() {
        for zone in ["Asia/Shanghai", "Europe/Berlin", "Asia/Kathmandu"].map(|name| zone(Some(name)).unwrap()) {
            let mut clock = Clock::new(zone.clone());
            for text in [
                "2026-11-30T10:19:49.123Z",
                "2026-11-30T10:19:59.999Z",
                "2026-11-30T10:20:00.000Z",
                "2026-10-25T00:59:59.000Z",
                "2026-10-25T01:00:00.000Z",
                "1880-01-01T00:00:00.500Z",
                "1880-01-01T00:00:30.500Z",
                "2026-11-30T10:19:00.000Z",
            ] {
                assert_eq!(clock.shown(Stamp::parse(text).unwrap()), shown(text.parse().unwrap(), &zone), "{text}");
            }
            assert_eq!(clock.shown(Stamp::parse("2026-13-30T10:19:00.000Z").unwrap()), "2026-13-30T10:19:00.000Z");
        }
    }

    #[test]
    fn an_unknown_zone_is_named() {
        assert!(zone(Some("Mars/Base")).unwrap_err().contains("Mars/Base"));
    }
}
