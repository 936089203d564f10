//! The event of a record, of what its head already holds. serde reads an event whose name stands within it several times
//! over; the common ones, of which a log is full, are put together here instead.

use crate::event::{Event, SeatFields};
use crate::leadership::{Component, JobId, SessionId};

use super::reader::{Head, Text};

/// The event; none where it is of another kind, or lacks something: then the line has to be read in full.
pub(super) fn event(head: &Head<'_>) -> Option<Event> {
    Some(match &*head.event {
        "leader.elected" => {
            Event::LeaderElected { seat: seat(head)?, leader_id: leader_id(head)?, address: owned(&head.address) }
        }
        "leader.lost" => {
            Event::LeaderLost { seat: seat(head)?, leader_id: leader_id(head)?, address: owned(&head.address) }
        }
        "leader.returned" => Event::LeaderReturned {
            seat: seat(head)?,
            leader_id: leader_id(head)?,
            address: owned(&head.address),
            leaderless_ms: head.leaderless_ms,
        },
        "leader.moved" => Event::LeaderMoved {
            seat: seat(head)?,
            leader_id: leader_id(head)?,
            address: owned(&head.address),
            old_leader_id: head.old_leader_id.as_ref()?.parse().ok()?,
            old_address: owned(&head.old_address),
            leaderless_ms: head.leaderless_ms,
        },
        "alert.raised" => Event::AlertRaised {
            alert: serde_json::from_str(head.alert?.get()).ok()?,
            targets: match head.targets {
                Some(targets) => serde_json::from_str(targets.get()).ok()?,
                None => Vec::new(),
            },
        },
        "alert.delivered" => Event::AlertDelivered {
            alert_id: owned(&head.alert_id)?,
            target: owned(&head.target)?,
            attempts: head.attempts?,
            latency_ms: head.latency_ms?,
            receipt: owned(&head.receipt),
        },
        "alert.retrying" => Event::AlertRetrying {
            alert_id: owned(&head.alert_id)?,
            target: owned(&head.target)?,
            attempts: head.attempts?,
            reason: owned(&head.reason)?,
            next_ms: head.next_ms?,
        },
        "alert.suppressed" => Event::AlertSuppressed {
            alert_id: owned(&head.alert_id)?,
            target: owned(&head.target),
            by: owned(&head.by)?,
        },
        _ => return None,
    })
}

fn seat(head: &Head<'_>) -> Option<SeatFields> {
    let component = Component::of_name(head.component.as_ref()?)?;
    let job_id: Option<JobId> = match &head.job_id {
        Some(digits) => Some(digits.parse().ok()?),
        None => None,
    };
    Some(SeatFields { component, job_id })
}

fn leader_id(head: &Head<'_>) -> Option<SessionId> {
    head.leader_id.as_ref()?.parse().ok()
}

fn owned(text: &Option<Text<'_>>) -> Option<String> {
    text.as_ref().map(|text| text.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::event::Record;

    const ID: &str = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    const JOB: &str = "00112233445566778899aabbccddeeff";

    fn line(event: &str, fields: &str) -> String {
        format!(r#"{{"ts":"2026-11-30T10:19:49.123Z","event":"{event}",{fields}"cluster":"c","host":"h","pid":1}}"#)
    }

    /// Whatever is put together here is what serde reads.
    #[test]
    fn it_is_the_same_event_as_read_in_full() {
        let seat = format!(r#""component":"jobmanager","job_id":"{JOB}","leader_id":"{ID}","#);
        let resource_manager = format!(r#""component":"resourcemanager","leader_id":"{ID}","address":"a\"b","#);
        let moved = format!(r#"{resource_manager}"old_leader_id":"{ID}","old_address":"x","leaderless_ms":7,"#);
        let alert = format!(
            r#""alert":{{"schema":1,"id":"7","class":"failover","severity":"critical","cluster":"c","occurred_at":"2026-11-30T10:19:49.123Z",
            "title":"t","text":"x","members":[{{"component":"jobmanager","job_id":"{JOB}","job_name":"n"}}],
            "observer":{{"host":"h","pid":1,"role":"taskmanager"}}}},"#
        )
        .replace('\n', "");
        let delivery = r#""alert_id":"7","target":"mail","attempts":2,"#;
        let cases = [
            ("leader.elected", seat.clone()),
            ("leader.elected", resource_manager.clone()),
            ("leader.lost", seat.clone()),
            ("leader.returned", format!(r#"{seat}"leaderless_ms":412,"#)),
            ("leader.returned", seat.clone()),
            ("leader.moved", moved),
            ("alert.raised", alert),
            ("alert.delivered", format!(r#"{delivery}"latency_ms":9,"receipt":"r","#)),
            ("alert.retrying", format!(r#"{delivery}"reason":"no","next_ms":9,"#)),
            ("alert.suppressed", r#""alert_id":"7","by":"pause: x","#.to_owned()),
            ("alert.suppressed", r#""alert_id":"7","target":"chat","by":"another sender","#.to_owned()),
            ("alert.suppressed", r#""alert_id":"7","target":"mail","by":"class","#.to_owned()),
        ];
        for (name, fields) in cases {
            let line = line(name, &fields);
            let in_full: Record = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(event(&Head::of(line.as_bytes()).unwrap()), Some(in_full.event), "{line}");
        }
    }

    #[test]
    fn what_lacks_something_is_left_to_the_full_reader() {
        let seat = format!(r#""component":"jobmanager","job_id":"{JOB}","leader_id":"{ID}","#);
        for (name, fields) in [
            ("leader.lost", seat.replace("jobmanager", "janitor")),
            ("leader.lost", seat.replace(JOB, "0")),
            ("leader.lost", seat.replace(ID, "0")),
            ("leader.moved", seat.clone()),
            ("alert.raised", r#""alert":{},"#.to_owned()),
            ("alert.delivered", r#""alert_id":"7","target":"mail","#.to_owned()),
            ("leader.crowned", seat),
        ] {
            assert_eq!(event(&Head::of(line(name, &fields).as_bytes()).unwrap()), None, "{name} {fields}");
        }
    }
}
