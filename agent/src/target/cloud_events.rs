//! CloudEvents 1.0, structured mode: an envelope around the generic webhook's JSON.
//!
//! `source` and `id` together name the event; a repeat has the same (cloudevents/spec, `cloudevents/spec.md`).

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::{Action, Notice};

/// The media type of an event.
pub const CONTENT_TYPE: &str = "application/cloudevents+json; charset=UTF-8";

/// The event of a notice.
pub fn event(notice: &Notice) -> Value {
    let alert = &notice.alert;
    let part = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let namespace = alert.namespace.as_deref().unwrap_or_default();
    let action = match notice.action {
        Action::Raise => "raised",
        Action::Update => "updated",
        Action::Resolve => "resolved",
        Action::Digest => "digest",
    };
    json!({
        "specversion": "1.0",
        "id": notice.message_id,
        // A URI reference; an empty namespace is an empty segment.
        "source": format!("/leaderwatch/{}/{}", part(namespace), part(&alert.cluster)),
        "type": format!("org.apache.flink.leadership.alert.{action}"),
        "subject": alert.id,
        "time": format!("{:.3}", alert.occurred_at),
        "datacontenttype": "application/json",
        "data": alert,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    #[test]
    fn the_envelope_holds_what_the_specification_requires() {
        let mut notice = test_notice("abc", "text");
        notice.alert.cluster = "orders prod/1".into();
        let event = event(&notice);
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(event["id"], "abc");
        assert_eq!(event["source"], "/leaderwatch//orders%20prod%2F1");
        assert_eq!(event["type"], "org.apache.flink.leadership.alert.raised");
        assert_eq!(event["time"], "1970-01-01T00:00:00.000Z");
        assert_eq!(event["data"]["id"], "abc");
    }
}
