//! What the alert code is told, and what it has done: settings in, effects out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::model::{Alert, Class, Member, Severity};
use super::text::Texts;
use crate::event::Event;
use crate::job_names::JobNames;
use crate::process::Observer;
use crate::target::Notice;

/// What alerts need to know of cluster, user and process.
#[derive(Debug, Clone)]
pub struct AlertSettings {
    /// Name of the Flink cluster.
    pub cluster: String,
    /// Kubernetes namespace, where there is one.
    pub namespace: Option<String>,
    /// The user's own labels.
    pub labels: BTreeMap<String, String>,
    /// The classes that people are told of at all.
    pub classes: Vec<Class>,
    /// How long an election gathers its members.
    pub group_wait: Duration,
    /// How long after an alert the members that came late are told.
    pub group_interval: Duration,
    /// How long the ResourceManager's seat stays empty before people are told.
    pub no_leader_after: Duration,
    /// How long after a failover it counts as resolved.
    pub resolve_after: Duration,
    /// Whether one election gives all components of a JobManager one session id: from Flink 1.15 on.
    pub one_id_for_all: bool,
    /// This process.
    pub observer: Observer,
    /// Writes what people read.
    pub texts: Arc<Texts>,
    /// What jobs are called.
    pub job_names: Arc<JobNames>,
}

impl AlertSettings {
    /// Gives members the names of their jobs, as far as those are known by now.
    pub(super) fn name_jobs(&self, members: &mut [Member]) {
        for member in members.iter_mut().filter(|member| member.job_name.is_none()) {
            member.job_name = member.job_id.and_then(|job| self.job_names.of(job));
        }
    }

    /// Whether people are told of this class at all.
    pub(super) fn wants(&self, class: Class) -> bool {
        self.classes.contains(&class)
    }

    /// An alert with what all alerts of this process have in common; its texts are still to be written.
    pub(super) fn alert(&self, class: Class, id: String, occurred_at: Timestamp) -> Alert {
        Alert {
            schema: 1,
            id,
            class,
            resolves: None,
            drill: false,
            severity: Severity::Critical,
            cluster: self.cluster.clone(),
            namespace: self.namespace.clone(),
            occurred_at,
            title: String::new(),
            text: String::new(),
            leaderless_ms: None,
            same_address: None,
            cause: None,
            old_leader: None,
            new_leader: None,
            members: Vec::new(),
            members_left_out: 0,
            elections: None,
            observer: self.observer.clone(),
            labels: self.labels.clone(),
        }
    }
}

/// Which targets a notice goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// All that want its class.
    All,
    /// Those, and all that want one of these.
    AllAndOf(Vec<Class>),
    /// Those that update an open alert in place.
    InPlace,
    /// Those that do not.
    NotInPlace,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Write something down that must outlive the process, and answer with [`super::Alerts::written`].
    Save {
        /// Its name.
        key: String,
        /// Its content, which [`super::Alerts::recover`] understands.
        body: Value,
    },
    /// A new alert: record it, and forget what was saved once it is in the outbox.
    Raise {
        /// The alert.
        alert: Box<Alert>,
        /// Names of what was saved and is not needed any more.
        saved: Vec<String>,
    },
    /// A message under an alert that was raised before.
    Notify {
        /// The message.
        notice: Box<Notice>,
        /// Which targets it is for.
        audience: Audience,
    },
    /// A line for the alert log.
    Record(Event),
    /// Forget what was saved.
    Forget {
        /// Names of what is not needed any more.
        saved: Vec<String>,
    },
}

#[cfg(test)]
impl AlertSettings {
    pub(crate) fn for_tests() -> AlertSettings {
        use crate::process::Role;
        AlertSettings {
            cluster: "orders".into(),
            namespace: None,
            labels: BTreeMap::new(),
            classes: vec![Class::Failover, Class::NoLeader, Class::Flapping, Class::Resolved],
            group_wait: Duration::from_secs(2),
            group_interval: Duration::from_secs(300),
            no_leader_after: Duration::from_secs(30),
            resolve_after: Duration::from_secs(900),
            one_id_for_all: true,
            observer: Observer { host: "tm1".into(), pid: 1, pod: None, role: Role::TaskManager, flink_version: None },
            texts: Arc::new(Texts::default()),
            job_names: Arc::default(),
        }
    }
}
