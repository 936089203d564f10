//! Alerts about nothing: for `leaderwatch test`, for previews, and for trying templates.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::id::alert_id;
use super::model::{Alert, Cause, Class, Member, Severity};
use crate::leadership::{Component, JobId, Leader, SessionId};
use crate::process::{Observer, Role};

/// An alert of that class as it would be, marked as a drill. Its texts are still to be written.
pub fn alert(class: Class, cluster: &str) -> Alert {
    let leader = |id: u128, host: &str, component: &str| {
        let address = format!("pekko.tcp://flink@{host}:6123/user/rpc/{component}_0");
        Some(Leader { id: SessionId(id), address: Some(address.into()) })
    };
    let (old_id, new_id) = (0x3a62_5335_787d_424d_a8d3_f4aa_6dfb_28d8, 0x1200_ef14_3ecc_45b5_b44b_3d52_4a60_8327);
    let has_leader = class != Class::NoLeader;
    let member = |component: Component, job_id: Option<JobId>, job_name: Option<&str>, path: &str| Member {
        component,
        job_id,
        job_name: job_name.map(str::to_owned),
        old_leader: leader(old_id, "jobmanager-1.example.org", path),
        new_leader: leader(new_id, "jobmanager-2.example.org", path).filter(|_| has_leader),
        joined: false,
    };
    let job = JobId(0xd08a_6840_506c_f237_38c9_826f_b52c_a78d);
    let members = vec![
        member(Component::ResourceManager, None, None, "resourcemanager"),
        member(Component::JobManager, Some(job), Some("example-job"), "jobmanager"),
    ];
    Alert {
        schema: 1,
        id: alert_id("drill", None, cluster, SessionId(new_id)),
        class,
        resolves: (class == Class::Resolved).then_some(Class::Failover),
        drill: true,
        severity: if class == Class::Failover { Severity::Critical } else { Severity::Info },
        cluster: cluster.to_owned(),
        namespace: None,
        occurred_at: Timestamp::UNIX_EPOCH,
        title: String::new(),
        text: String::new(),
        leaderless_ms: has_leader.then_some(585),
        same_address: has_leader.then_some(false),
        cause: Some(Cause::Revoked),
        old_leader: members[0].old_leader.clone(),
        new_leader: members[0].new_leader.clone(),
        members,
        members_left_out: 0,
        elections: (class == Class::Flapping).then_some(3),
        observer: Observer {
            host: "drill".to_owned(),
            pid: std::process::id(),
            pod: None,
            role: Role::TaskManager,
            flink_version: None,
        },
        labels: BTreeMap::new(),
    }
}
