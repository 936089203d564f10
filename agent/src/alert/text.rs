//! What people read: title and text of an alert.

use std::fmt::Write;

use super::model::{Alert, Class, Member};
use crate::leadership::{Component, Leader};

/// How many jobs a text lists by name; the rest is counted.
const LISTED_JOBS: usize = 10;

/// Writes what people read.
#[derive(Debug, Clone, Default)]
pub struct Texts {}

impl Texts {
    /// Fills [`Alert::title`] and [`Alert::text`] from what else the alert says.
    pub fn write(&self, alert: &mut Alert) {
        alert.title = title(alert);
        alert.text = text(alert);
    }
}

fn title(alert: &Alert) -> String {
    let cluster = &alert.cluster;
    let jobs = match count_jobs(alert) {
        0 => String::new(),
        1 => ", 1 job".to_owned(),
        n => format!(", {n} jobs"),
    };
    match alert.class {
        Class::Failover => {
            format!("Flink {cluster}: JobManager leadership moved to {}{jobs}", place(&alert.new_leader))
        }
        Class::NoLeader => format!("Flink {cluster}: no JobManager leads"),
        Class::Flapping => format!("Flink {cluster}: JobManager leadership keeps moving"),
        Class::Resolved => format!("Flink {cluster}: resolved"),
        Class::Test => format!("Flink {cluster}: drill, nothing happened"),
    }
}

fn text(alert: &Alert) -> String {
    let mut text = String::new();
    // Writing into a String cannot fail.
    let mut line = |line: &str| {
        let _ = writeln!(text, "{line}");
    };
    line(&format!("Old leader: {}", described(&alert.old_leader)));
    line(&format!("New leader: {}", described(&alert.new_leader)));
    if alert.same_address == Some(true) {
        line("It has the same address as before: the same JobManager, or its replacement, was elected anew.");
    }
    if let Some(leaderless_ms) = alert.leaderless_ms {
        line(&format!("Without a leader, as told to this process: {}", seconds(leaderless_ms)));
    }
    for member in job_members(alert).take(LISTED_JOBS) {
        line(&job_line(member));
    }
    let more = count_jobs(alert).saturating_sub(LISTED_JOBS as u64);
    if more > 0 {
        line(&format!("and {more} more jobs"));
    }
    line("Jobs restart from their last checkpoint. Look at why the old JobManager ended: its log, its host, its pod.");
    text
}

fn job_members(alert: &Alert) -> impl Iterator<Item = &Member> {
    alert.members.iter().filter(|member| member.component == Component::JobManager)
}

fn count_jobs(alert: &Alert) -> u64 {
    job_members(alert).count() as u64 + alert.members_left_out
}

fn job_line(member: &Member) -> String {
    let id = member.job_id.map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    let name = member.job_name.as_deref().map_or(String::new(), |name| format!(" ({name})"));
    let joined = if member.joined { ", seen here first under the new leader" } else { "" };
    format!("Job: {id}{name}{joined}")
}

fn place(leader: &Option<Leader>) -> &str {
    leader.as_ref().and_then(Leader::host_and_port).unwrap_or("an unknown address")
}

fn described(leader: &Option<Leader>) -> String {
    match leader {
        Some(leader) => {
            let address = leader.address.as_deref().unwrap_or("address unknown");
            format!("{address} (leader session id {})", leader.id)
        }
        None => "unknown to this process".to_owned(),
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03} s", milliseconds / 1000, milliseconds % 1000)
}
