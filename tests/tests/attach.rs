//! The agent is loaded into a TaskManager that runs, as `leaderwatch attach` does it; failovers after that are alerted.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::mail::{MailReceiver, Security};
use leaderwatch_tests::watched::{LIMIT, Watched, log_tells};
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, alert_log};

fn failovers_after_an_attach_are_alerted(version: &str, java_line: u32) {
    let installation = Installation::fetch(version).unwrap().on_java(java_line).unwrap();
    let (webhook, mail) = (WebhookReceiver::start().unwrap(), MailReceiver::start(Security::Plain).unwrap());
    let option = agent::telling(&webhook, &mail, &[]).unwrap();
    let options = option.split_once('=').unwrap().1;
    let cluster = Cluster::builder(&installation).start().unwrap();
    let mut watched = Watched { cluster, webhook, mail };
    let job = watched.cluster.submit("orders-to-invoices", 100).unwrap();
    watched.cluster.start_standby(1).unwrap();

    let pid = watched.cluster.task_managers[0].pid().unwrap().to_string();
    // The library beside the command, as it is installed.
    let attach = |options: &str, told: &str| {
        let output = Command::new(agent::command().unwrap()).args(["attach", &pid, options]).output().unwrap();
        let words = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && words.contains(told), "{told}: {output:?}");
    };
    attach(options, "The agent is loaded into process");
    let started = watched.wait_for_records(0, "agent.started", 1).unwrap();
    assert_eq!(started[0]["flink_version"], version);
    attach("", "nothing was changed");
    // Other options take the place of those before, and nothing else changes.
    attach(&format!("{options},group_wait=1s"), "it takes these options in place of those before");
    watched.wait_for_records(0, "agent.reconfigured", 1).unwrap();

    // Flink does not say once more who leads, so the first leader after an attach is one that is seen first.
    let first = watched.kill_leader().unwrap();
    let seen = watched.wait_for_records(0, "leader.elected", 2).unwrap();
    assert_eq!(alert_log::of(&seen, "alert.raised").len(), 0, "{seen:#?}");
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    let before = watched.moves(0).len();

    watched.cluster.start_standby(first).unwrap();
    watched.kill_leader().unwrap();
    let alerts = watched.wait_for_alerts(1).unwrap();
    assert_eq!((&alerts[0]["class"], &alerts[0]["cluster"]), (&"failover".into(), &"orders".into()));
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    let records = watched.stop_task_manager(0).unwrap();
    log_tells(&records, &watched.moves(0)[before..]).unwrap();
    assert_eq!(alert_log::of(&records, "agent.started").len(), 1);
    assert_eq!(alert_log::of(&records, "alert.raised").len(), 1);
    assert_eq!(alert_log::of(&records, "agent.problem"), Vec::<&serde_json::Value>::new());
    let words = watched.cluster.task_managers[0].words();
    assert!(!words.contains("Full thread dump"), "{words}");
    watched.cluster.finish();
}

#[test]
fn attach_1_14_java_11() {
    failovers_after_an_attach_are_alerted("1.14.6", 11);
}

#[test]
fn attach_2_3_java_17() {
    failovers_after_an_attach_are_alerted("2.3.0", 17);
}

#[test]
fn attach_2_3_java_21() {
    failovers_after_an_attach_are_alerted("2.3.0", 21);
}

#[test]
fn attach_2_3_java_25() {
    failovers_after_an_attach_are_alerted("2.3.0", 25);
}
