//! The alert, as people and machines receive it. Its JSON form is the contract of the generic webhook.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::leadership::{Component, JobId, Leader};
use crate::process::Observer;

/// What an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A seat's leader became a non-null id other than its last non-null id.
    Failover,
    /// The cluster's ResourceManager seat stays empty.
    NoLeader,
    /// Several elections in a window.
    Flapping,
    /// What an earlier alert told has ended.
    Resolved,
    /// A drill, sent by `leaderwatch test`.
    Test,
}

impl Class {
    /// The name in alerts, in the alert log and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Class::Failover => "failover",
            Class::NoLeader => "no_leader",
            Class::Flapping => "flapping",
            Class::Resolved => "resolved",
            Class::Test => "test",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// No job is concerned, as far as this process knows.
    Warning,
    /// Jobs are concerned.
    Critical,
}

/// Why leadership moved, only where it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The old leader's own agent said that it stopped in order.
    OrderlyStop,
    /// Flink reported a heartbeat timeout or an unreachable target.
    Unreachable,
    /// A null was announced before the new leader.
    Revoked,
}

/// A seat that takes part in an election.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The component.
    pub component: Component,
    /// The job, where the component is one a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_id: Option<JobId>,
    /// The job's name, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_name: Option<String>,
    /// The leader before; absent where this process never saw it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub old_leader: Option<Leader>,
    /// The leader now; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_leader: Option<Leader>,
    /// True for a job first seen under a leader that has just won.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub joined: bool,
}

/// An alert. Once raised it never changes; what comes later is told under the same [`Alert::id`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Version of this form: 1.
    pub schema: u32,
    /// The same in every JVM that saw the election. Hexadecimal digits only.
    pub id: String,
    /// What it is about.
    pub class: Class,
    /// What has ended, where the class is `resolved`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resolves: Option<Class>,
    /// True for a drill: nothing has happened.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub drill: bool,
    /// How bad it is.
    pub severity: Severity,
    /// Name of the Flink cluster.
    pub cluster: String,
    /// Kubernetes namespace, where there is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub namespace: Option<String>,
    /// When it happened: when the new leader was announced to this JVM.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub occurred_at: Timestamp,
    /// One line for people.
    pub title: String,
    /// The whole message for people.
    pub text: String,
    /// Milliseconds from the null that Flink announced in this JVM to the new id; absent without such a null.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leaderless_ms: Option<u64>,
    /// Whether old and new leader have the same host and port; absent where either is unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub same_address: Option<bool>,
    /// Why, only where seen.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<Cause>,
    /// The leader before; absent where this process never saw it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub old_leader: Option<Leader>,
    /// The leader now; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_leader: Option<Leader>,
    /// The seats that moved; the first hundred of a storm.
    pub members: Vec<Member>,
    /// How many more moved than `members` lists; the alert log has them all.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub members_left_out: u64,
    /// How many elections `flapping` sums up; absent in other classes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub elections: Option<u64>,
    /// Who saw it.
    pub observer: Observer,
    /// The user's own labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub labels: BTreeMap<String, String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
