//! PagerDuty, by Events API v2.
//!
//! Delivered is status 202. The alert's id is the `dedup_key`: repeats and updates join the open incident, `resolve` ends
//! it. What is too old to page for goes out as a change event, which pages nobody. (PagerDuty/developer-docs,
//! `docs/events-API-v2`.)

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::http::{HttpClient, Reply};
use super::secret::{Secret, SecretUrl};
use super::text::{cut_bytes, cut_characters, one_line, printable};
use super::{Action, Digests, Manner, Notice, Outcome, Rate, Sending, Target};
use crate::alert::{Alert, Severity};

/// Characters of a summary.
const SUMMARY_CHARACTERS: usize = 1024;
/// Bytes of a whole event: 512 KB, less a margin.
const EVENT_BYTES: usize = 500_000;
/// Bytes of the text within.
const TEXT_BYTES: usize = 16_000;
/// Shortest wait after "too many": the limit counts in spans of a minute.
const SPAN: Duration = Duration::from_secs(60);

/// A PagerDuty service.
pub struct PagerDuty {
    name: String,
    alerts: SecretUrl,
    changes: SecretUrl,
    routing_key: Secret,
    http: HttpClient,
}

impl PagerDuty {
    /// A service by the address that alerts are posted to (it ends in `/enqueue`) and its integration key.
    pub fn new(name: String, enqueue: SecretUrl, routing_key: Secret, http: HttpClient) -> PagerDuty {
        let changes = enqueue.with_last_segment("change/enqueue");
        PagerDuty { name, alerts: enqueue, changes, routing_key, http }
    }

    fn event(&self, notice: &Notice) -> Value {
        let alert = &notice.alert;
        let event = |action, payload| {
            json!({
                "routing_key": self.routing_key.expose(),
                "event_action": action,
                "dedup_key": alert.id,
                "client": "Leaderwatch",
                "payload": payload,
            })
        };
        let payload = |details| {
            json!({
                "summary": cut_characters(&one_line(&alert.title), SUMMARY_CHARACTERS),
                "source": alert.cluster,
                "severity": severity(alert.severity),
                "timestamp": format!("{:.3}", alert.occurred_at),
                "component": "JobManager",
                "group": alert.cluster,
                "class": alert.class,
                "custom_details": details,
            })
        };
        match notice.action {
            Action::Digest => json!({
                "routing_key": self.routing_key.expose(),
                "payload": {
                    "summary": cut_characters(&one_line(&alert.title), SUMMARY_CHARACTERS),
                    "source": alert.cluster,
                    "timestamp": format!("{:.3}", alert.occurred_at),
                    "custom_details": {"text": cut_bytes(&printable(&alert.text), TEXT_BYTES)},
                },
            }),
            Action::Resolve => event("resolve", payload(details(alert, false))),
            Action::Raise | Action::Update => {
                let whole = event("trigger", payload(details(alert, true)));
                if whole.to_string().len() <= EVENT_BYTES {
                    return whole;
                }
                event("trigger", payload(details(alert, false)))
            }
        }
    }
}

impl Target for PagerDuty {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &'static str {
        "pagerduty"
    }
    fn manner(&self) -> Manner {
        Manner {
            // About 120 a minute.
            rate: Some(Rate::new(100, Duration::from_secs(60))),
            digests: Digests::OfOld,
            updates_in_place: true,
            ..Manner::MACHINE
        }
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            let url = if notice.action == Action::Digest { &self.changes } else { &self.alerts };
            self.http.deliver(url, HeaderMap::new(), &self.event(notice), judge).await
        })
    }
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "critical",
        Severity::Warning => "warning",
        Severity::Info => "info",
    }
}

/// The text, and all that is known where that is not too much.
fn details(alert: &Alert, is_whole: bool) -> Value {
    let text = cut_bytes(&printable(&alert.text), TEXT_BYTES);
    if is_whole { json!({"text": text, "alert": alert}) } else { json!({"text": text, "alert_id": alert.id}) }
}

pub(super) fn judge(reply: &Reply) -> Outcome {
    match reply.status {
        202 => {
            Outcome::Delivered { receipt: reply.json().and_then(|json| json["dedup_key"].as_str().map(str::to_owned)) }
        }
        429 => Outcome::Retry {
            after: Some(reply.retry_after().unwrap_or(SPAN)),
            reason: format!("answered 429{}", reply.excerpt()),
        },
        _ => reply.unclear(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::http_client;
    use super::*;
    use crate::delivery::test_notice;

    fn pager() -> PagerDuty {
        let url = SecretUrl::parse("https://events.pagerduty.com/v2/enqueue").unwrap();
        PagerDuty::new("pager".into(), url, Secret::new("R0UTE"), http_client())
    }

    #[test]
    fn raise_update_and_resolve_are_one_incident() {
        let notice = |action| Notice { action, ..test_notice("abc", "text") };
        let events = [Action::Raise, Action::Update, Action::Resolve].map(|action| pager().event(&notice(action)));
        let actions: Vec<_> = events.iter().map(|event| event["event_action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["trigger", "trigger", "resolve"]);
        assert!(events.iter().all(|event| event["dedup_key"] == "abc" && event["routing_key"] == "R0UTE"));
        let payload = &events[0]["payload"];
        assert_eq!((&payload["severity"], &payload["source"]), (&"critical".into(), &"orders".into()));
        assert_eq!(payload["custom_details"]["alert"]["id"], "abc");
    }

    #[test]
    fn a_digest_is_a_change_event() {
        let pager = pager();
        let event = pager.event(&Notice { action: Action::Digest, ..test_notice("abc", "text") });
        assert_eq!((&event["event_action"], &event["dedup_key"]), (&Value::Null, &Value::Null));
        assert_eq!(pager.changes.expose().as_str(), "https://events.pagerduty.com/v2/change/enqueue");
    }

    #[test]
    fn an_event_keeps_to_the_limits() {
        let mut notice = test_notice("abc", &"长".repeat(300_000));
        notice.alert.title = "t".repeat(5000);
        let event = pager().event(&notice);
        assert!(event.to_string().len() <= EVENT_BYTES);
        assert_eq!(event["payload"]["summary"].as_str().unwrap().chars().count(), SUMMARY_CHARACTERS);
    }
}
