//! Times as people give and read them.

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ZonedDateTime};

/// The zone of that name, or the machine's.
///
/// # Errors
/// A name that the zone database does not know.
pub fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name else { return Ok(TimeZone::system()) };
    TimeZone::get(name).map_err(|_| format!("--time-zone: `{name}` is not known; `UTC` and `Asia/Shanghai` are"))
}

/// A time: `2h` and `1d 6h` are that long ago; `2026-11-30T10:00:00Z` is a time; `2026-11-30 10:00`, `2026-11-30` and
/// `10:00` are in the zone, the last one the latest such time.
///
/// # Errors
/// A text of no such form.
pub fn since(text: &str, now: Timestamp, zone: &TimeZone) -> Result<Timestamp, String> {
    let now = now.to_zoned_datetime(zone.clone());
    let text = text.trim();
    let parsed = text.parse::<Timestamp>().ok().or_else(|| span_ago(text, &now)).or_else(|| civil_time(text, &now));
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
            ("23:00", "2026-11-29T15:00:00Z"),
        ] {
            assert_eq!(since(text, now, &zone), Ok(expected.parse().unwrap()), "{text}");
        }
        assert!(since("soon", now, &zone).unwrap_err().contains("`2h`"));
        assert_eq!(shown(now, &zone), "2026-11-30 18:00:00.000");
    }

    #[test]
    fn an_unknown_zone_is_named() {
        assert!(zone(Some("Mars/Base")).unwrap_err().contains("Mars/Base"));
    }
}
