//! What an agent says of itself: `agents/HOST-PID/status.json` in the state folder of its user, namespace and cluster,
//! replaced soon after each change and every ten seconds, and read by `leaderwatch status`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::alert::Class;
use crate::leadership::{Component, JobId, SessionId};
use crate::process::Role;

/// Name of the file.
pub const FILE_NAME: &str = "status.json";
/// Name of the folder, in the state folder, that holds one folder for each process.
pub const AGENTS_FOLDER: &str = "agents";

/// The state of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Version of this form: 1.
    pub schema: u32,
    /// When it was written.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub written_at: Timestamp,
    /// When the agent started.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub started_at: Timestamp,
    /// Version of the agent.
    pub version: String,
    /// What the process is.
    pub role: Role,
    /// Name of the Flink cluster.
    pub cluster: String,
    /// Host name.
    pub host: String,
    /// Process id, as seen inside its container.
    pub pid: u32,
    /// Flink's version, where it could be told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flink_version: Option<String>,
    /// The alert log; absent where records go to standard error.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<String>,
    /// Class name -> `installed`, `not seen yet`, or why not.
    pub hooks: BTreeMap<String, String>,
    /// Who leads what.
    pub seats: Vec<SeatStatus>,
    /// Alerts that wait to be delivered.
    pub outbox_pending: u64,
    /// When the oldest of them was raised.
    #[serde(skip_serializing_if = "Option::is_none", default, serialize_with = "optional_time")]
    pub outbox_oldest_at: Option<Timestamp>,
    /// Receivers.
    pub targets: Vec<TargetStatus>,
    /// What is wrong with the configuration that is at work: `what: reason`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub problems: Vec<String>,
    /// Alerts that this agent raised and that are not over.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub open_alerts: Vec<OpenAlertStatus>,
    /// Observations that could not be followed one by one because too many came at once.
    pub dropped_observations: u64,
    /// Records that could not be written to the alert log.
    pub lost_records: u64,
}

/// A seat and its leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatStatus {
    /// The component.
    pub component: Component,
    /// The job, where the component is one a job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_id: Option<JobId>,
    /// Its leader; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub leader_id: Option<SessionId>,
    /// Where the leader can be reached.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// Since when it is so.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub since: Timestamp,
}

/// An alert that is not over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAlertStatus {
    /// Its id.
    pub id: String,
    /// What it is about.
    pub class: Class,
    /// Its line for people.
    pub title: String,
    /// When it happened.
    #[serde(serialize_with = "crate::event::with_milliseconds")]
    pub occurred_at: Timestamp,
}

/// A receiver, and how it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetStatus {
    /// The user's name for it.
    pub name: String,
    /// Kind of receiver.
    pub kind: String,
    /// When it took an alert last.
    #[serde(skip_serializing_if = "Option::is_none", default, serialize_with = "optional_time")]
    pub last_success_at: Option<Timestamp>,
    /// When it refused one last, or could not be reached.
    #[serde(skip_serializing_if = "Option::is_none", default, serialize_with = "optional_time")]
    pub last_error_at: Option<Timestamp>,
    /// Why, without secrets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_error: Option<String>,
}

impl TargetStatus {
    /// A receiver of which nothing is known yet.
    pub fn new(name: impl Into<String>) -> TargetStatus {
        let (name, kind) = (name.into(), String::new());
        TargetStatus { name, kind, last_success_at: None, last_error_at: None, last_error: None }
    }
}

fn optional_time<S: serde::Serializer>(at: &Option<Timestamp>, out: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => crate::event::with_milliseconds(at, out),
        None => out.serialize_none(),
    }
}

impl Status {
    /// Replaces the file in `folder` in one step: a reader sees the old one or the new one, whole.
    ///
    /// # Errors
    /// Those of the system.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(format!("{FILE_NAME}.new"));
        fs::write(&new, serde_json::to_vec_pretty(self)?)?;
        fs::rename(new, folder.join(FILE_NAME))
    }
}
