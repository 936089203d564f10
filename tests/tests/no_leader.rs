//! The only JobManager is killed and not replaced: people are told that nobody leads, and that it is over when one comes.
#![allow(clippy::unwrap_used)]

use leaderwatch_tests::alert_log;
use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::watched::LIMIT;
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, wait};

#[test]
fn is_told_and_resolved_when_a_leader_comes_2_3() {
    let installation = Installation::fetch("2.3.0").unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leaderwatch.toml");
    let text = format!(
        "[alert]\nno_leader_after = \"3s\"\n[[target]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"{}\"\n",
        webhook.url()
    );
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().expect("the path is plain");
    let option = agent::java_option(&agent::library().unwrap(), &[("config", path)]);
    let mut cluster = Cluster::builder(&installation).java_options(&option).start().unwrap();
    wait::until("the TaskManager to be told who leads", LIMIT, || {
        Ok((!alert_log::of(&cluster.task_managers[0].alert_log()?, "leader.elected").is_empty()).then_some(()))
    })
    .unwrap();

    cluster.job_managers[0].kill().unwrap();
    let told = webhook.wait_for(1, LIMIT).unwrap();
    assert_eq!((&told[0]["class"], &told[0]["severity"]), (&"no_leader".into(), &"critical".into()), "{:#}", told[0]);
    assert!(told[0].get("new_leader").is_none(), "{:#}", told[0]);

    cluster.start_standby(1).unwrap();
    let told = webhook.wait_for(3, LIMIT).unwrap();
    let classes: Vec<&str> = told.iter().filter_map(|alert| alert["class"].as_str()).collect();
    assert_eq!(classes, ["no_leader", "failover", "resolved"]);
    assert!(told.iter().all(|alert| alert["id"] == told[0]["id"]), "all are of one alert: {told:#?}");
    assert_eq!(told[2]["resolves"], "no_leader");
    let records = cluster.task_managers[0].alert_log().unwrap();
    assert_eq!(alert_log::of(&records, "alert.raised").len(), 1);
    assert_eq!(alert_log::of(&records, "alert.resolved").len(), 1);
    cluster.finish();
}
