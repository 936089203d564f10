//! A record in words.

use leaderwatch_agent::event::{Event, Record, SeatFields, TargetFields};
use leaderwatch_agent::journal::reader::Entry;
use leaderwatch_agent::leadership::SessionId;

use super::people::{ShortId, count, duration, host_port, short};

/// What a record means to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// Good to know.
    Plain,
    /// As it should be, or again so.
    Good,
    /// Leadership moved, or is about to.
    Notable,
    /// Somebody has to look.
    Bad,
}

/// A record for a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// Component and job, where the record is about a seat.
    pub seat: String,
    /// What happened.
    pub text: String,
    /// What it means.
    pub mood: Mood,
}

/// Puts a record into words.
pub fn words(entry: &Entry) -> Words {
    match entry {
        Entry::Known(record) => known(record),
        Entry::Unknown(value) => unknown(value),
    }
}

fn known(record: &Record) -> Words {
    let seat = match &record.event {
        Event::LeaderElected { seat, .. }
        | Event::LeaderLost { seat, .. }
        | Event::LeaderUnreachable { seat, .. }
        | Event::LeaderReachable { seat, .. }
        | Event::LeaderReturned { seat, .. }
        | Event::LeaderMoved { seat, .. }
        | Event::LeaderStale { seat, .. }
        | Event::LeaderGranted { seat, .. }
        | Event::LeaderRevoked { seat } => seat_name(seat),
        _ => String::new(),
    };
    Words { seat, text: text(&record.event), mood: mood(&record.event) }
}

fn text(event: &Event) -> String {
    match event {
        Event::LeaderElected { leader_id, address, .. } => leader(leader_id, address.as_deref()),
        Event::LeaderLost { leader_id, address, .. } => {
            format!("{}: gone, no leader now", leader(leader_id, address.as_deref()))
        }
        Event::LeaderUnreachable { verdict, leader_id, address, .. } => {
            let verdict = match verdict.as_str() {
                "heartbeat_timeout" => "heartbeat timed out",
                "target_unreachable" => "cannot be reached",
                other => other,
            };
            match leader_id {
                Some(id) => format!("{}: {verdict}", leader(id, address.as_deref())),
                None => verdict.to_owned(),
            }
        }
        Event::LeaderReachable { leader_id, address, .. } => {
            format!("{}: can be reached again", leader(leader_id, address.as_deref()))
        }
        Event::LeaderReturned { leader_id, address, leaderless_ms, .. } => {
            format!("{} again{}", leader(leader_id, address.as_deref()), after(*leaderless_ms))
        }
        Event::LeaderMoved { leader_id, address, old_leader_id, old_address, leaderless_ms, .. } => format!(
            "{} -> {}{}",
            leader(old_leader_id, old_address.as_deref()),
            leader(leader_id, address.as_deref()),
            leaderless_ms.map(|ms| format!(", {} without leader", duration(ms))).unwrap_or_default(),
        ),
        Event::LeaderStale { leader_id, address, .. } => {
            format!("{}: an old leader announced once more", leader(leader_id, address.as_deref()))
        }
        Event::LeaderGranted { leader_id, .. } => format!("this process leads as {}", ShortId(leader_id.0)),
        Event::LeaderRevoked { .. } => "this process leads no longer".to_owned(),
        Event::AlertRaised { alert, .. } => format!("{} {}", alert_name(&alert.id), alert.title),
        Event::AlertUpdated { alert_id, members } => {
            format!("{} {} joined", alert_name(alert_id), count(members.len() as u64, "member"))
        }
        Event::AlertDelivered { alert_id, target, attempts, latency_ms, receipt } => format!(
            "{} to {target} in {}{}{}",
            alert_name(alert_id),
            duration(*latency_ms),
            if *attempts > 1 { format!(", attempt {attempts}") } else { String::new() },
            receipt.as_ref().map(|receipt| format!(", receipt {receipt}")).unwrap_or_default(),
        ),
        Event::AlertRetrying { alert_id, target, attempts, reason, next_ms } => format!(
            "{} to {target}: attempt {attempts} failed: {reason}; next in {}",
            alert_name(alert_id),
            duration(*next_ms)
        ),
        Event::AlertFailed { alert_id, target, attempts, reason } => format!(
            "{} to {target}: given up after {}: {reason}",
            alert_name(alert_id),
            count(u64::from(*attempts), "attempt")
        ),
        Event::AlertSuppressed { alert_id, target: None, by } => format!("{} by {by}", alert_name(alert_id)),
        Event::AlertSuppressed { alert_id, target: Some(target), by } => {
            format!("{} to {target} by {by}", alert_name(alert_id))
        }
        Event::AlertResolved { alert_id, .. } => format!("{} is over", alert_name(alert_id)),
        Event::AgentProblem { what, reason } => format!("{what}: {reason}"),
        Event::AgentStopped { pending: 0 } => "nothing pending".to_owned(),
        Event::AgentStopped { pending } => format!("{} for the next start to deliver", count(*pending, "alert")),
        Event::AgentHooked { hook } => hook.clone(),
        Event::AgentStarted { version, role, java_version, flink_version, hooks, targets } => {
            let role = match role {
                leaderwatch_agent::process::Role::JobManager => "JobManager",
                leaderwatch_agent::process::Role::TaskManager => "TaskManager",
            };
            let mut parts = vec![format!("{version} in a {role}")];
            parts.extend(flink_version.as_ref().map(|version| format!("Flink {version}")));
            parts.extend(java_version.as_ref().map(|version| format!("Java {version}")));
            let installed = hooks.values().filter(|state| *state == "installed").count();
            parts.push(format!("{installed} of {} installed", count(hooks.len() as u64, "hook")));
            parts.push(target_names(targets));
            parts.join(", ")
        }
        Event::AgentReconfigured { targets } => target_names(targets),
    }
}

fn target_names(targets: &[TargetFields]) -> String {
    let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
    if names.is_empty() { "no targets".to_owned() } else { format!("targets: {}", names.join(" ")) }
}

fn mood(event: &Event) -> Mood {
    match event {
        Event::LeaderElected { .. }
        | Event::LeaderReachable { .. }
        | Event::LeaderReturned { .. }
        | Event::LeaderGranted { .. }
        | Event::AlertResolved { .. }
        | Event::AlertDelivered { .. } => Mood::Good,
        Event::LeaderMoved { .. }
        | Event::LeaderStale { .. }
        | Event::LeaderRevoked { .. }
        | Event::AlertUpdated { .. }
        | Event::AlertRetrying { .. } => Mood::Notable,
        Event::LeaderLost { .. }
        | Event::LeaderUnreachable { .. }
        | Event::AlertFailed { .. }
        | Event::AgentProblem { .. } => Mood::Bad,
        Event::AlertRaised { alert, .. } if alert.severity == leaderwatch_agent::alert::Severity::Critical => Mood::Bad,
        Event::AgentStopped { pending } if *pending > 0 => Mood::Notable,
        Event::AlertRaised { .. }
        | Event::AlertSuppressed { .. }
        | Event::AgentHooked { .. }
        | Event::AgentStarted { .. }
        | Event::AgentReconfigured { .. }
        | Event::AgentStopped { .. } => Mood::Plain,
    }
}

/// What this version does not know is shown as it stands.
fn unknown(value: &serde_json::Value) -> Words {
    let mut rest = value.clone();
    if let Some(fields) = rest.as_object_mut() {
        for shown_elsewhere in ["ts", "event", "cluster", "host", "pid"] {
            fields.remove(shown_elsewhere);
        }
    }
    Words { seat: String::new(), text: rest.to_string(), mood: Mood::Plain }
}

fn seat_name(seat: &SeatFields) -> String {
    match &seat.job_id {
        Some(job) => format!("{} {}", seat.component.name(), ShortId(job.0)),
        None => seat.component.name().to_owned(),
    }
}

fn leader(id: &SessionId, address: Option<&str>) -> String {
    let id = ShortId(id.0);
    match address {
        Some(address) => format!("{id} at {}", host_port(address)),
        None => id.to_string(),
    }
}

fn after(leaderless_ms: Option<u64>) -> String {
    leaderless_ms.map(|ms| format!(" after {}", duration(ms))).unwrap_or_default()
}

fn alert_name(id: &str) -> String {
    format!("[{}]", short(id))
}
