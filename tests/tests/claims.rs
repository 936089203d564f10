//! Who sends for the cluster: of three TaskManagers that see one election, one tells it where they share a store, and each
//! does where they share none, under one id. And one election after another, with three JobManagers.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use leaderwatch_tests::alert_log;
use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::watched::{LIMIT, Watched, alert_tells, joined_later};
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, wait};
use serde_json::Value;

const TASK_MANAGERS: usize = 3;

/// What `store` comes to: how many TaskManagers deliver, and how many leave it to another.
fn configure(file: &Path, store: &str, webhook: &WebhookReceiver) {
    let text = format!(
        "[claim]\nstore = \"{store}\"\n[[target]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\n",
        webhook.url()
    );
    std::fs::write(file, text).unwrap();
}

/// The failover's only message or messages, and how many TaskManagers said that another has told it.
fn fail_over(cluster: &mut Cluster, webhook: &WebhookReceiver, messages: usize) -> Value {
    let count = |cluster: &Cluster, event: &str| -> anyhow::Result<usize> {
        let records = (0..TASK_MANAGERS).map(|index| cluster.task_managers[index].alert_log());
        Ok(records.collect::<anyhow::Result<Vec<_>>>()?.iter().map(|records| alert_log::of(records, event).len()).sum())
    };
    let before = ["alert.raised", "alert.delivered", "alert.suppressed"].map(|event| count(cluster, event).unwrap());
    let got = webhook.delivered().len();
    let leading = cluster.leader().unwrap();
    cluster.job_managers[leading].kill().unwrap();
    wait::until("each TaskManager to raise the alert and to be done with it", LIMIT, || {
        let raised = count(cluster, "alert.raised")? - before[0];
        let done = count(cluster, "alert.delivered")? + count(cluster, "alert.suppressed")? - before[1] - before[2];
        Ok((raised == TASK_MANAGERS && done == TASK_MANAGERS).then_some(()))
    })
    .unwrap();
    assert_eq!(count(cluster, "alert.delivered").unwrap() - before[1], messages);
    let alerts = webhook.delivered().split_off(got);
    assert_eq!(alerts.len(), messages);
    assert!(alerts.iter().all(|alert| alert["id"] == alerts[0]["id"]), "one election has one id: {alerts:#?}");
    cluster.start_standby(leading).unwrap();
    alerts[0]["id"].clone()
}

#[test]
fn one_of_three_tells_where_they_share_a_store_2_3() {
    let installation = Installation::fetch("2.3.0").unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leaderwatch.toml");
    configure(&file, "auto", &webhook);
    let option =
        agent::java_option(&agent::library().unwrap(), &[("config", file.to_str().expect("the path is plain"))]);
    let builder = Cluster::builder(&installation).task_managers(TASK_MANAGERS).java_options(&option);
    let mut cluster = builder.start().unwrap();
    cluster.start_standby(1).unwrap();
    let first = fail_over(&mut cluster, &webhook, 1);

    // Who sends is settled when a process starts.
    configure(&file, "none", &webhook);
    for index in 0..TASK_MANAGERS {
        cluster.task_managers[index].terminate(LIMIT).unwrap();
        let known = cluster.task_managers[index].alert_log().unwrap();
        cluster.task_managers[index].start().unwrap();
        wait::until("the TaskManager to be told who leads", LIMIT, || {
            let records = cluster.task_managers[index].alert_log()?.split_off(known.len());
            Ok((!alert_log::of(&records, "leader.elected").is_empty()).then_some(()))
        })
        .unwrap();
    }
    let second = fail_over(&mut cluster, &webhook, TASK_MANAGERS);
    assert_ne!(first, second);
    cluster.finish();
}

#[test]
fn two_elections_among_three_job_managers_1_14() {
    let mut watched = Watched::start("1.14.6", |builder| builder.job_managers(3)).unwrap();
    let job = watched.cluster.submit("orders-to-invoices", 100).unwrap();
    watched.cluster.start_standby(1).unwrap();
    watched.cluster.start_standby(2).unwrap();
    for election in 1..=2 {
        let moves_before = watched.moves(0).len();
        watched.kill_leader().unwrap();
        let alerts = watched.wait_for_alerts(election).unwrap();
        watched.cluster.wait_for_job(&job, LIMIT).unwrap();
        let moves = watched.moves(0).split_off(moves_before);
        let alert = &alerts[election - 1];
        alert_tells(alert, &joined_later(&watched.records(0).unwrap(), alert), &moves).unwrap();
    }
    let records = watched.stop_task_manager(0).unwrap();
    assert_eq!(alert_log::of(&records, "alert.raised").len(), 2);
    assert_eq!(watched.webhook.received().len(), 2);
    watched.cluster.finish();
}
