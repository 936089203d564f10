//! A cluster whose TaskManagers carry the agent, both receivers, and what must be true of what they got.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use leaderwatch_agent::leadership::Component;
use serde_json::Value;

use crate::alert_log::{self, Record};
use crate::cluster::{Builder, Cluster};
use crate::installation::Installation;
use crate::mail::{MailReceiver, Security};
use crate::oracle::{self, Leader, Move};
use crate::webhook::WebhookReceiver;
use crate::{agent, wait};

/// Longest time from an event to what follows from it: Flink's default timeouts take a minute, a busy machine more.
pub const LIMIT: Duration = Duration::from_secs(180);

/// A cluster with the agent in every TaskManager, and the receivers that it tells.
pub struct Watched {
    /// The cluster.
    pub cluster: Cluster,
    /// Gets each alert as JSON.
    pub webhook: WebhookReceiver,
    /// Gets each alert as a mail.
    pub mail: MailReceiver,
}

impl Watched {
    /// Starts both receivers and the cluster that `describe` makes of the plain one.
    ///
    /// # Errors
    /// Where anything does not start.
    pub fn start(version: &str, describe: impl FnOnce(Builder) -> Builder) -> Result<Self> {
        let installation = Installation::fetch(version)?;
        let webhook = WebhookReceiver::start()?;
        let mail = MailReceiver::start(Security::Plain)?;
        let option = agent::telling(&webhook, &mail, &[])?;
        let cluster = describe(Cluster::builder(&installation).java_options(&option)).start()?;
        Ok(Self { cluster, webhook, mail })
    }

    /// Records of a TaskManager's alert log.
    ///
    /// # Errors
    /// Where the log cannot be read.
    pub fn records(&self, task_manager: usize) -> Result<Vec<Record>> {
        self.cluster.task_managers[task_manager].alert_log()
    }

    /// The moves that Flink announced to a TaskManager, by its own log.
    pub fn moves(&self, task_manager: usize) -> Vec<Move> {
        oracle::moves(&oracle::announcements(&self.cluster.task_managers[task_manager].log()))
    }

    /// `kill -9` of the leading JobManager; returns which one it was.
    ///
    /// # Errors
    /// Where it is not known or does not run.
    pub fn kill_leader(&mut self) -> Result<usize> {
        let leading = self.cluster.leader()?;
        self.cluster.job_managers[leading].kill()?;
        Ok(leading)
    }

    /// Waits until a TaskManager's alert log holds `count` records of an event.
    ///
    /// # Errors
    /// Where it does not within [`LIMIT`].
    pub fn wait_for_records(&self, task_manager: usize, event: &str, count: usize) -> Result<Vec<Record>> {
        wait::until(&format!("{count} records of {event}"), LIMIT, || {
            let records = self.records(task_manager)?;
            Ok((alert_log::of(&records, event).len() >= count).then_some(records))
        })
    }

    /// Waits for `count` failover alerts by webhook and by mail, and returns the webhooks' JSON. Mail and webhook must
    /// tell of the same alerts.
    ///
    /// # Errors
    /// Where they do not come within [`LIMIT`].
    pub fn wait_for_alerts(&self, count: usize) -> Result<Vec<Value>> {
        let alerts = self.webhook.wait_for(count, LIMIT)?;
        let mails = self.mail.wait_for(count, LIMIT)?;
        for (alert, mail) in alerts.iter().zip(&mails) {
            let text =
                mail["message"].as_str().unwrap_or_default().to_owned() + mail["text"].as_str().unwrap_or_default();
            for id in [&alert["old_leader"]["id"], &alert["new_leader"]["id"]].into_iter().filter_map(Value::as_str) {
                ensure!(text.contains(id), "the mail does not name the leader {id}: {text}");
            }
        }
        Ok(alerts)
    }

    /// Waits until each alert of a TaskManager is delivered to each of its targets, by its own agent or by another.
    ///
    /// # Errors
    /// Where it is not within [`LIMIT`].
    pub fn wait_until_told(&self, task_manager: usize) -> Result<()> {
        wait::until("each alert to be with its targets", LIMIT, || {
            let records = self.records(task_manager)?;
            let is_told = |raised: &&Record| {
                let targets = raised["targets"].as_array().into_iter().flatten();
                let id = &raised["alert"]["id"];
                targets.into_iter().all(|target| {
                    records.iter().any(|word| {
                        let is_end = word["event"] == "alert.delivered" || word["event"] == "alert.suppressed";
                        is_end && word["alert_id"] == *id && (word["target"].is_null() || word["target"] == *target)
                    })
                })
            };
            Ok(alert_log::of(&records, "alert.raised").iter().all(is_told).then_some(()))
        })
    }

    /// Stops a TaskManager in order when its alerts are with their targets, and returns all of its records.
    ///
    /// # Errors
    /// Where it does not stop, or its alert log does not say that nothing is left to send.
    pub fn stop_task_manager(&mut self, task_manager: usize) -> Result<Vec<Record>> {
        self.wait_until_told(task_manager)?;
        self.cluster.task_managers[task_manager].terminate(Duration::from_secs(30))?;
        let records = self.records(task_manager)?;
        let stopped = records.last().context("the alert log is empty")?;
        ensure!(stopped["event"] == "agent.stopped", "the last record is {stopped}");
        ensure!(stopped["pending"] == 0, "something is left to send: {stopped}");
        Ok(records)
    }
}

/// The alert log tells the same moves as Flink's own log, seat by seat and in order.
///
/// # Errors
/// Where it does not.
pub fn log_tells(records: &[Record], moves: &[Move]) -> Result<()> {
    let told = alert_log::of(records, "leader.moved");
    ensure!(told.len() == moves.len(), "Flink's log has {moves:#?}\nthe alert log has {told:#?}");
    for component in [Component::JobManager, Component::ResourceManager] {
        let told = told.iter().filter(|record| record["component"] == component.name());
        for (record, of_flink) in told.zip(moves.iter().filter(|a_move| a_move.seat.component == component)) {
            let seat_job = of_flink.seat.job_id.map(|job| job.to_string());
            ensure!(record["job_id"].as_str() == seat_job.as_deref(), "{record} is not {of_flink:?}");
            ensure!(record["old_leader_id"] == of_flink.old.id.to_string(), "{record} is not {of_flink:?}");
            ensure!(record["leader_id"] == of_flink.new.id.to_string(), "{record} is not {of_flink:?}");
            ensure!(record["old_address"] == of_flink.old.address.as_str(), "{record} is not {of_flink:?}");
            ensure!(record["address"] == of_flink.new.address.as_str(), "{record} is not {of_flink:?}");
        }
    }
    Ok(())
}

/// The alert tells just these moves as its members (with those that joined it later), and leads with the ResourceManager's.
///
/// # Errors
/// Where it does not.
pub fn alert_tells(alert: &Value, joined_later: &[Value], moves: &[Move]) -> Result<()> {
    ensure!(alert["schema"] == 1 && alert["class"] == "failover" && alert["cluster"] == "orders", "{alert:#}");
    let members: Vec<&Value> = alert["members"].as_array().into_iter().flatten().chain(joined_later).collect();
    ensure!(members.len() == moves.len(), "Flink's log has {moves:#?}\nthe members are {members:#?}");
    for a_move in moves {
        let job = a_move.seat.job_id.map(|job| job.to_string());
        let is_seat = |member: &&&Value| {
            member["component"] == a_move.seat.component.name() && member["job_id"].as_str() == job.as_deref()
        };
        let member = members.iter().find(is_seat).with_context(|| format!("no member for {a_move:?} in {alert:#}"))?;
        ensure!(is_leader(&member["old_leader"], &a_move.old), "{member} is not {a_move:?}");
        ensure!(is_leader(&member["new_leader"], &a_move.new), "{member} is not {a_move:?}");
    }
    let first = moves.iter().find(|a_move| a_move.seat.component == Component::ResourceManager).or(moves.first());
    let first = first.context("Flink's log has no move")?;
    ensure!(is_leader(&alert["old_leader"], &first.old), "{alert:#} does not lead with {first:?}");
    ensure!(is_leader(&alert["new_leader"], &first.new), "{alert:#} does not lead with {first:?}");
    Ok(())
}

/// The members that joined an alert after it was sent, by the alert log.
pub fn joined_later(records: &[Record], alert: &Value) -> Vec<Value> {
    let updates =
        alert_log::of(records, "alert.updated").into_iter().filter(|record| record["alert_id"] == alert["id"]);
    updates.flat_map(|record| record["members"].as_array().cloned().unwrap_or_default()).collect()
}

fn is_leader(told: &Value, leader: &Leader) -> bool {
    told["id"] == leader.id.to_string() && told["address"] == leader.address.as_str()
}
