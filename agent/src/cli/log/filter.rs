//! Which records are wanted. Most are turned down by a look at the raw line.

use std::collections::HashSet;

use leaderwatch_agent::journal::reader::{Head, Stamp};
use memchr::memmem::Finder;

/// How many alerts of the wanted job are remembered, at least.
const REMEMBERED_ALERTS: usize = 16_384;

/// What is wanted; nothing given means everything.
pub struct Filter {
    pub since: Option<Stamp>,
    /// Names of events, or beginnings that end in a dot or a star: `leader.moved`, `alert.`, `alert.*`.
    pub events: Vec<String>,
    pub component: Option<String>,
    pub job: Option<Job>,
}

/// A job, by the first digits of its id or all of them.
pub struct Job {
    digits: String,
    finder: Finder<'static>,
    /// Alerts that have it as a member; their deliveries belong to it too.
    alerts: HashSet<String>,
    older_alerts: HashSet<String>,
}

impl Job {
    /// From digits in either case, with or without dashes.
    ///
    /// # Errors
    /// Where it has no digits, too many or others.
    pub fn new(text: &str) -> Result<Job, String> {
        let digits: String = text.chars().filter(|c| *c != '-').map(|c| c.to_ascii_lowercase()).collect();
        let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digits.is_empty() || digits.len() > 32 || !hexadecimal {
            return Err(format!("--job: `{text}` is no job id: give its 32 hexadecimal digits or the first of them"));
        }
        let finder = Finder::new(&format!("\"job_id\":\"{digits}")).into_owned();
        Ok(Job { digits, finder, alerts: HashSet::new(), older_alerts: HashSet::new() })
    }

    fn wants(&mut self, head: &Head<'_>, line: &[u8]) -> bool {
        if let Some(job) = &head.job_id {
            return job.starts_with(&self.digits);
        }
        let Some(alert_id) = head.told_alert_id() else { return false };
        let member = (head.alert.is_some() || head.members.is_some()) && self.finder.find(line).is_some();
        if !member {
            return self.alerts.contains(&*alert_id) || self.older_alerts.contains(&*alert_id);
        }
        if self.alerts.len() >= REMEMBERED_ALERTS {
            self.older_alerts = std::mem::take(&mut self.alerts);
        }
        self.alerts.insert(alert_id.0.into_owned());
        true
    }
}

impl Filter {
    /// Whether a look at the raw line suffices to turn it down.
    pub fn surely_unwanted(&self, stamp: Stamp, line: &[u8]) -> bool {
        // An alert of before may be one of the job, and be delivered since.
        if self.job.is_none() && self.is_too_old(stamp) {
            return true;
        }
        if self.events.is_empty() {
            return false;
        }
        quick_event(line).is_some_and(|event| !self.wants_event(event))
    }

    fn is_too_old(&self, stamp: Stamp) -> bool {
        self.since.is_some_and(|since| stamp < since)
    }

    /// Whether the record is wanted.
    pub fn wants(&mut self, stamp: Stamp, head: &Head<'_>, line: &[u8]) -> bool {
        let of_component = |wanted: &String| head.component.as_ref().is_some_and(|it| **it == **wanted);
        (self.events.is_empty() || self.wants_event(head.event.as_bytes()))
            && self.component.as_ref().is_none_or(of_component)
            && self.job.as_mut().is_none_or(|job| job.wants(head, line))
            && !self.is_too_old(stamp)
    }

    fn wants_event(&self, event: &[u8]) -> bool {
        self.events.iter().any(|wanted| {
            let beginning = wanted.strip_suffix('*').unwrap_or(wanted);
            let is_whole = beginning.len() == wanted.len() && !wanted.ends_with('.');
            if is_whole { event == wanted.as_bytes() } else { event.starts_with(beginning.as_bytes()) }
        })
    }
}

/// The event of a line in the order of fields in which this project writes it.
fn quick_event(line: &[u8]) -> Option<&[u8]> {
    const TIME_BYTES: usize = r#"{"ts":"2026-11-30T10:19:49.123Z""#.len();
    let rest = line.get(TIME_BYTES..)?.strip_prefix(b",\"event\":\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    (rest[end] == b'"').then(|| &rest[..end])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn line(event: &str, rest: &str) -> String {
        format!(r#"{{"ts":"2026-11-30T10:19:49.123Z","event":"{event}",{rest}"cluster":"c","host":"h","pid":1}}"#)
    }

    fn everything() -> Filter {
        Filter { since: None, events: Vec::new(), component: None, job: None }
    }

    fn wants(filter: &mut Filter, line: &str) -> bool {
        let bytes = line.as_bytes();
        let stamp = Stamp::of_line(bytes).unwrap();
        let wanted = filter.wants(stamp, &Head::of(bytes).unwrap(), bytes);
        assert!(!(wanted && filter.surely_unwanted(stamp, bytes)), "the quick look turned down {line}");
        wanted
    }

    #[test]
    fn events_are_wanted_by_name_or_beginning() {
        for (wanted, event, expected) in [
            ("leader.moved", "leader.moved", true),
            ("leader.moved", "leader.moved.on", false),
            ("leader.", "leader.moved", true),
            ("alert.*", "alert.raised", true),
            ("alert.*", "agent.started", false),
        ] {
            let mut filter = Filter { events: vec![wanted.to_owned()], ..everything() };
            assert_eq!(wants(&mut filter, &line(event, "")), expected, "{wanted} {event}");
            let quick = filter.surely_unwanted(Stamp::EARLIEST, line(event, "").as_bytes());
            assert_eq!(quick, !expected, "{wanted} {event}");
        }
    }

    #[test]
    fn a_job_brings_its_alerts_and_their_deliveries() {
        let job = "00112233445566778899aabbccddeeff";
        let mut filter = Filter { job: Some(Job::new("00112233-4455").unwrap()), ..everything() };
        let alert = |id: &str, job: &str| {
            line(
                "alert.raised",
                &format!(r#""alert":{{"id":"{id}","class":"failover","members":[{{"job_id":"{job}"}}]}},"#),
            )
        };
        assert!(wants(&mut filter, &line("leader.moved", &format!(r#""job_id":"{job}","#))));
        assert!(!wants(&mut filter, &line("leader.moved", r#""component":"resourcemanager","#)));
        assert!(wants(&mut filter, &alert("a", job)));
        assert!(!wants(&mut filter, &alert("b", "ff112233445566778899aabbccddeeff")));
        assert!(wants(&mut filter, &line("alert.delivered", r#""alert_id":"a","target":"t","#)));
        assert!(!wants(&mut filter, &line("alert.delivered", r#""alert_id":"b","target":"t","#)));
        assert!(!wants(&mut filter, &line("agent.problem", r#""what":"w","#)));
    }

    /// Regression: of an alert raised before, the deliveries since were left out.
    #[test]
    fn a_job_brings_what_became_since_of_its_earlier_alerts() {
        let since = Stamp::parse("2026-11-30T10:19:50.000Z");
        let mut filter = Filter { since, job: Some(Job::new("0011").unwrap()), ..everything() };
        let raised =
            r#""alert":{"id":"a","class":"failover","members":[{"job_id":"00112233445566778899aabbccddeeff"}]},"#;
        let delivered = line("alert.delivered", r#""alert_id":"a","target":"t","#).replace("49.123", "51.000");
        assert!(!wants(&mut filter, &line("alert.raised", raised)));
        assert!(wants(&mut filter, &delivered));
    }

    #[test]
    fn a_job_is_hexadecimal_digits() {
        for wrong in ["", "-", "job", "00112233445566778899aabbccddeeff0"] {
            assert!(Job::new(wrong).is_err(), "{wrong}");
        }
    }
}
