//! The facts that are recorded: one variant for each kind of line in the alert log.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::alert::{Alert, Class, Member};
use crate::leadership::{Component, JobId, SessionId};
use crate::process::Role;

/// A line of the alert log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When: RFC 3339 in UTC with milliseconds.
    #[serde(serialize_with = "with_milliseconds")]
    pub ts: Timestamp,
    /// What.
    #[serde(flatten)]
    pub event: Event,
    /// Name of the Flink cluster.
    pub cluster: String,
    /// Host that wrote the line.
    pub host: String,
    /// Process that wrote the line.
    pub pid: u32,
}

/// Writes a time as RFC 3339 in UTC with exactly three digits of a second.
pub fn with_milliseconds<S: Serializer>(at: &Timestamp, out: S) -> Result<S::Ok, S::Error> {
    out.collect_str(&format_args!("{at:.3}"))
}

/// A seat, as it stands in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatFields {
    /// The component.
    pub component: Component,
    /// The job, where the component is one a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_id: Option<JobId>,
}

/// A target, as it stands in a record: no secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFields {
    /// The user's name for it.
    pub name: String,
    /// Kind of receiver.
    pub kind: String,
}

/// What happened. The names are those of the contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
#[allow(missing_docs)] // Each field is named and explained in the contract's table of the alert log.
pub enum Event {
    #[serde(rename = "agent.started")]
    AgentStarted {
        version: String,
        role: Role,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        java_version: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        flink_version: Option<String>,
        /// Class name -> `installed`, `not seen yet`, or why not.
        hooks: BTreeMap<String, String>,
        targets: Vec<TargetFields>,
    },
    #[serde(rename = "agent.hooked")]
    AgentHooked {
        /// Class whose methods are hooked from now on.
        hook: String,
    },
    #[serde(rename = "agent.reconfigured")]
    AgentReconfigured {
        /// From now on, in place of those before.
        targets: Vec<TargetFields>,
    },
    #[serde(rename = "leader.elected")]
    LeaderElected {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
    },
    #[serde(rename = "leader.lost")]
    LeaderLost {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
    },
    #[serde(rename = "leader.unreachable")]
    LeaderUnreachable {
        #[serde(flatten)]
        seat: SeatFields,
        /// `heartbeat_timeout` or `target_unreachable`: the verdict as Flink gave it.
        verdict: String,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leader_id: Option<SessionId>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
    },
    #[serde(rename = "leader.reachable")]
    LeaderReachable {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
    },
    #[serde(rename = "leader.returned")]
    LeaderReturned {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leaderless_ms: Option<u64>,
    },
    #[serde(rename = "leader.moved")]
    LeaderMoved {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
        old_leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        old_address: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        leaderless_ms: Option<u64>,
    },
    #[serde(rename = "leader.stale")]
    LeaderStale {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<String>,
    },
    #[serde(rename = "leader.granted")]
    LeaderGranted {
        #[serde(flatten)]
        seat: SeatFields,
        leader_id: SessionId,
    },
    #[serde(rename = "leader.revoked")]
    LeaderRevoked {
        #[serde(flatten)]
        seat: SeatFields,
    },
    #[serde(rename = "alert.raised")]
    AlertRaised {
        alert: Box<Alert>,
        /// The targets that it goes to.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        targets: Vec<String>,
    },
    #[serde(rename = "alert.updated")]
    AlertUpdated { alert_id: String, members: Vec<Member> },
    #[serde(rename = "alert.delivered")]
    AlertDelivered {
        alert_id: String,
        target: String,
        attempts: u32,
        latency_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        receipt: Option<String>,
    },
    #[serde(rename = "alert.retrying")]
    AlertRetrying { alert_id: String, target: String, attempts: u32, reason: String, next_ms: u64 },
    #[serde(rename = "alert.failed")]
    AlertFailed { alert_id: String, target: String, attempts: u32, reason: String },
    #[serde(rename = "alert.suppressed")]
    AlertSuppressed {
        alert_id: String,
        /// The target; absent where it holds for all.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        target: Option<String>,
        by: String,
    },
    #[serde(rename = "alert.resolved")]
    AlertResolved { alert_id: String, resolves: Class },
    #[serde(rename = "agent.problem")]
    AgentProblem { what: String, reason: String },
    #[serde(rename = "agent.stopped")]
    AgentStopped { pending: u64 },
}

impl Event {
    /// The names of all kinds, as the alert log has them.
    pub const NAMES: [&str; 21] = [
        "agent.started",
        "agent.hooked",
        "agent.reconfigured",
        "leader.elected",
        "leader.lost",
        "leader.unreachable",
        "leader.reachable",
        "leader.returned",
        "leader.moved",
        "leader.stale",
        "leader.granted",
        "leader.revoked",
        "alert.raised",
        "alert.updated",
        "alert.delivered",
        "alert.retrying",
        "alert.failed",
        "alert.suppressed",
        "alert.resolved",
        "agent.problem",
        "agent.stopped",
    ];

    /// An alert that goes to no target.
    pub fn raised(alert: &Alert) -> Event {
        Event::AlertRaised { alert: Box::new(alert.clone()), targets: Vec::new() }
    }

    /// A problem, in two parts: what does not work, and why together with the cure.
    pub fn problem(what: impl Into<String>, reason: impl Into<String>) -> Event {
        Event::AgentProblem { what: what.into(), reason: reason.into() }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_variants() {
        let error = serde_json::from_str::<Event>(r#"{"event":"none"}"#).unwrap_err().to_string();
        let expected: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
        assert_eq!(Event::NAMES[..], expected, "{error}");
    }
}
