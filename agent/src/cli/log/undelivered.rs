//! Alerts that some target does not have. Only these are kept in memory.

use std::collections::{BTreeMap, HashMap};

use leaderwatch_agent::event::{Event, Record};
use leaderwatch_agent::journal::reader::Stamp;
use serde::Serialize;

use crate::cli::people::{count, short};

/// How many alerts that are done with are remembered, at least: a TaskManager that raises one late does not bring it
/// back, and a target that fails after another one succeeded does.
const REMEMBERED_DONE: usize = 32_768;

/// What the log says of each alert so far.
#[derive(Default)]
pub struct Undelivered {
    open: HashMap<String, Alert>,
    done: HashMap<String, Alert>,
    older_done: HashMap<String, Alert>,
}

/// An alert that some target does not have.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Its id.
    pub alert_id: String,
    /// When it was raised; absent where that is not in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised_at: Option<String>,
    /// Its title, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The last word on each target that does not have it.
    pub targets: BTreeMap<String, Try>,
}

/// The last word on a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Try {
    /// `retrying` or `failed`.
    pub state: &'static str,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it did not work.
    pub reason: String,
    /// When it was tried last.
    pub at: String,
}

impl Undelivered {
    /// Takes in a record.
    pub fn add(&mut self, stamp: Stamp, record: &Record) {
        let at = || stamp.as_str().to_owned();
        match &record.event {
            Event::AlertRaised { alert } => {
                if self.is_done(&alert.id) {
                    return;
                }
                let open = self.open_alert(&alert.id);
                if open.raised_at.is_none() {
                    open.raised_at = Some(at());
                    open.title = Some(alert.title.clone());
                }
            }
            Event::AlertDelivered { alert_id, target, .. } => {
                self.open_alert(alert_id).targets.remove(target);
                self.settle(alert_id);
            }
            Event::AlertSuppressed { alert_id, target, .. } => {
                if let Some(target) = target {
                    self.open_alert(alert_id).targets.remove(target);
                }
                self.settle(alert_id);
            }
            Event::AlertRetrying { alert_id, target, attempts, reason, .. } => {
                let last = Try { state: "retrying", attempts: *attempts, reason: reason.clone(), at: at() };
                self.open_alert(alert_id).targets.insert(target.clone(), last);
            }
            Event::AlertFailed { alert_id, target, attempts, reason } => {
                let last = Try { state: "failed", attempts: *attempts, reason: reason.clone(), at: at() };
                self.open_alert(alert_id).targets.insert(target.clone(), last);
            }
            _ => {}
        }
    }

    /// What is left, the oldest first.
    pub fn into_alerts(self) -> Vec<Alert> {
        let mut alerts: Vec<Alert> = self.open.into_values().collect();
        alerts.sort_by(|a, b| (&a.raised_at, &a.alert_id).cmp(&(&b.raised_at, &b.alert_id)));
        alerts
    }

    fn open_alert(&mut self, id: &str) -> &mut Alert {
        let (done, older_done) = (&mut self.done, &mut self.older_done);
        self.open.entry(id.to_owned()).or_insert_with(|| {
            let known = done.remove(id).or_else(|| older_done.remove(id));
            known.unwrap_or_else(|| Alert { alert_id: id.to_owned(), ..Alert::default() })
        })
    }

    fn is_done(&self, id: &str) -> bool {
        self.done.contains_key(id) || self.older_done.contains_key(id)
    }

    /// Sets an alert aside that every target has of which the log says anything.
    fn settle(&mut self, id: &str) {
        let alert = self.open_alert(id);
        if !alert.targets.is_empty() {
            return;
        }
        let Some(alert) = self.open.remove(id) else { return };
        if self.done.len() >= REMEMBERED_DONE {
            self.older_done = std::mem::take(&mut self.done);
        }
        self.done.insert(id.to_owned(), alert);
    }
}

impl Alert {
    /// The last word on each target, in words.
    pub fn in_words(&self) -> String {
        let title = self.title.as_deref().unwrap_or("(raised before this log begins)");
        let mut text = format!("[{}] {title}", short(&self.alert_id));
        for (target, last) in &self.targets {
            let attempts = count(u64::from(last.attempts), "attempt");
            text += &format!("; {target}: {} after {attempts}: {}", last.state, last.reason);
        }
        if self.targets.is_empty() {
            text += "; no word on any target";
        }
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn add(all: &mut Undelivered, event: &str) {
        let line = format!(r#"{{"ts":"2026-11-30T10:19:49.123Z",{event},"cluster":"c","host":"h","pid":1}}"#);
        let line = line.as_bytes();
        all.add(Stamp::of_line(line).unwrap(), &serde_json::from_slice(line).unwrap());
    }

    fn about(event: &str, rest: &str) -> String {
        format!(r#""event":"alert.{event}","alert_id":"a"{rest}"#)
    }

    const BAD: &str = r#","target":"mail","attempts":3,"reason":"refused""#;

    #[test]
    fn an_alert_is_open_until_each_target_that_is_spoken_of_has_it() {
        let mut all = Undelivered::default();
        add(&mut all, r#""event":"alert.suppressed","alert_id":"a","by":"a pause""#);
        add(&mut all, &about("retrying", &format!(r#"{BAD},"next_ms":5"#)));
        add(&mut all, &about("delivered", r#","target":"chat","attempts":1,"latency_ms":5"#));
        assert_eq!(all.open["a"].targets["mail"].state, "retrying");
        add(&mut all, &about("delivered", r#","target":"mail","attempts":4,"latency_ms":5"#));
        assert!(all.open.is_empty());
        add(&mut all, &about("failed", BAD));
        assert_eq!(all.into_alerts()[0].targets["mail"].state, "failed");
    }

    #[test]
    fn what_another_sender_has_is_done() {
        let mut all = Undelivered::default();
        add(&mut all, &about("suppressed", r#","by":"tm-2""#));
        assert!(all.into_alerts().is_empty());
    }
}
