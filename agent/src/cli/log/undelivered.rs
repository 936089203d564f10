//! Alerts that some target does not have. Only these are kept in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};

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
    /// By cluster and host: an agent ended with alerts in its outbox, and none has begun since to send them.
    stopped: BTreeMap<(String, String), Stopped>,
}

/// An agent that ended with alerts in its outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Its cluster.
    pub cluster: String,
    /// Its host.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// When it ended.
    pub at: String,
    /// Alerts in its outbox.
    pub pending: u64,
}

/// Host and process id of an agent.
type Process = (String, u32);

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
    /// The targets that it goes to and of which there is no word, and the agents that said so.
    #[serde(skip)]
    waiting: BTreeMap<String, BTreeSet<Process>>,
    /// The targets that have it.
    #[serde(skip)]
    told: BTreeSet<String>,
}

/// The last word on a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Try {
    /// `waiting`, `retrying` or `failed`.
    pub state: &'static str,
    /// How often it was tried.
    pub attempts: u32,
    /// Why it did not work; empty where it was not tried.
    pub reason: String,
    /// When it was tried last; when it was raised where it was not tried.
    pub at: String,
}

impl Undelivered {
    /// Takes in a record. True: it tells of an alert.
    pub fn add(&mut self, stamp: Stamp, record: &Record) -> bool {
        let at = || stamp.as_str().to_owned();
        let process = || (record.host.clone(), record.pid);
        match &record.event {
            Event::AlertRaised { alert, targets } => {
                if self.is_done(&alert.id) {
                    return true;
                }
                let open = self.open_alert(&alert.id);
                if open.raised_at.is_none() {
                    open.raised_at = Some(at());
                    open.title = Some(alert.title.clone());
                }
                for target in targets {
                    if !open.told.contains(target) {
                        open.waiting.entry(target.clone()).or_default().insert(process());
                    }
                }
            }
            Event::AlertDelivered { alert_id, target, .. } => {
                let open = self.open_alert(alert_id);
                open.waiting.remove(target);
                open.targets.remove(target);
                open.told.insert(target.clone());
                self.settle(alert_id);
            }
            Event::AlertSuppressed { alert_id, target, .. } => {
                let open = self.open_alert(alert_id);
                if let Some(target) = target {
                    open.targets.remove(target);
                }
                let is_meant = |waiting: &str| target.as_deref().is_none_or(|target| target == waiting);
                open.waiting.retain(|waiting, agents| {
                    if is_meant(waiting) {
                        agents.remove(&process());
                    }
                    !agents.is_empty()
                });
                self.settle(alert_id);
            }
            Event::AlertRetrying { alert_id, target, attempts, reason, .. } => {
                let last = Try { state: "retrying", attempts: *attempts, reason: reason.clone(), at: at() };
                self.open_alert(alert_id).failed_at(target, last);
            }
            Event::AlertFailed { alert_id, target, attempts, reason } => {
                let last = Try { state: "failed", attempts: *attempts, reason: reason.clone(), at: at() };
                self.open_alert(alert_id).failed_at(target, last);
            }
            Event::AgentStopped { pending } if *pending > 0 => {
                let (cluster, host, pid) = (record.cluster.clone(), record.host.clone(), record.pid);
                let stopped = Stopped { cluster, host, pid, at: at(), pending: *pending };
                self.stopped.insert((record.cluster.clone(), record.host.clone()), stopped);
            }
            Event::AgentStarted { .. } => {
                self.stopped.remove(&(record.cluster.clone(), record.host.clone()));
            }
            _ => {}
        }
        !matches!(record.event, Event::AgentStarted { .. } | Event::AgentStopped { .. })
    }

    /// Agents that ended with alerts in their outbox, after which none began on the same host.
    pub fn stopped(&self) -> impl Iterator<Item = &Stopped> {
        self.stopped.values()
    }

    /// What is left, the oldest first.
    pub fn into_alerts(self) -> Vec<Alert> {
        let mut alerts: Vec<Alert> = self.open.into_values().map(Alert::with_waiting).collect();
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

    /// Sets an alert aside that every target has to which it goes or of which the log says anything.
    fn settle(&mut self, id: &str) {
        let alert = self.open_alert(id);
        if !alert.targets.is_empty() || !alert.waiting.is_empty() {
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
    fn failed_at(&mut self, target: &str, last: Try) {
        self.waiting.remove(target);
        self.targets.insert(target.to_owned(), last);
    }

    /// With each target of which there is no word among its targets.
    fn with_waiting(mut self) -> Alert {
        let at = self.raised_at.clone().unwrap_or_default();
        for target in std::mem::take(&mut self.waiting).into_keys() {
            let none = Try { state: "waiting", attempts: 0, reason: String::new(), at: at.clone() };
            self.targets.insert(target, none);
        }
        self
    }

    /// When there was a word on it last.
    pub fn last_at(&self) -> Option<&str> {
        let tried = self.targets.values().map(|last| last.at.as_str());
        tried.chain(self.raised_at.as_deref()).max()
    }

    /// The last word on each target, in words.
    pub fn in_words(&self) -> String {
        let title = self.title.as_deref().unwrap_or("(raised before this log begins)");
        let mut text = format!("[{}] {title}", short(&self.alert_id));
        for (target, last) in &self.targets {
            if last.attempts == 0 {
                text += &format!("; {target}: no word yet");
                continue;
            }
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
    use leaderwatch_agent::alert::{Alert, Class, drill};

    use super::Undelivered;
    use super::*;

    fn add(all: &mut Undelivered, event: &str) {
        add_of(all, 1, event);
    }

    fn add_of(all: &mut Undelivered, pid: u32, event: &str) {
        let line = format!(r#"{{"ts":"2026-11-30T10:19:49.123Z",{event},"cluster":"c","host":"h","pid":{pid}}}"#);
        let line = line.as_bytes();
        all.add(Stamp::of_line(line).unwrap(), &serde_json::from_slice(line).unwrap());
    }

    fn raised(targets: &str) -> String {
        let alert = drill::alert(Class::Failover, "c");
        let alert = serde_json::to_string(&Alert { id: "a".to_owned(), ..alert }).unwrap();
        format!(r#""event":"alert.raised","alert":{alert},"targets":{targets}"#)
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

    /// Regression: one target's success hid that there was no word on another.
    #[test]
    fn an_alert_is_open_until_each_target_that_it_goes_to_has_it() {
        let mut all = Undelivered::default();
        add(&mut all, &raised(r#"["chat","mail"]"#));
        add(&mut all, &about("delivered", r#","target":"chat","attempts":1,"latency_ms":5"#));
        let open = all.open["a"].clone().with_waiting();
        assert_eq!(open.targets.keys().collect::<Vec<_>>(), ["mail"]);
        assert!(open.in_words().ends_with("; mail: no word yet"), "{}", open.in_words());
        // Another process sees the same election late.
        add_of(&mut all, 2, &raised(r#"["chat","mail"]"#));
        add_of(&mut all, 2, &about("suppressed", r#","by":"tm-1""#));
        assert_eq!(all.open["a"].clone().with_waiting(), open);
        add(&mut all, &about("delivered", r#","target":"mail","attempts":1,"latency_ms":5"#));
        add_of(&mut all, 3, &raised(r#"["chat","mail"]"#));
        assert!(all.into_alerts().is_empty());
    }

    #[test]
    fn an_agent_that_ended_with_alerts_is_told_until_another_begins_in_its_place() {
        let mut all = Undelivered::default();
        add(&mut all, r#""event":"agent.stopped","pending":2"#);
        assert_eq!(all.stopped().map(|stopped| stopped.pending).collect::<Vec<_>>(), [2]);
        let started = r#""event":"agent.started","version":"1","role":"taskmanager","hooks":{},"targets":[]"#;
        add_of(&mut all, 2, started);
        assert_eq!(all.stopped().count(), 0);
        add_of(&mut all, 2, r#""event":"agent.stopped","pending":0"#);
        assert_eq!(all.stopped().count(), 0);
    }

    #[test]
    fn what_another_sender_has_is_done() {
        let mut all = Undelivered::default();
        add(&mut all, &about("suppressed", r#","by":"tm-2""#));
        assert!(all.into_alerts().is_empty());
    }
}
