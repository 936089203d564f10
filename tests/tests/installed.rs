//! `leaderwatch install`, and nothing else done to Flink's configuration: the cluster alerts on a failover.
#![allow(clippy::unwrap_used)]

use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::oracle;
use leaderwatch_tests::watched::LIMIT;
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, alert_log, wait};

fn an_installed_cluster_alerts(version: &str) {
    let webhook = WebhookReceiver::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("leaderwatch.toml");
    let text = format!(
        "[[target]]\nname = \"hook\"\nkind = \"webhook\"\nclasses = [\"failover\"]\nurl = \"{}\"\n",
        webhook.url()
    );
    std::fs::write(&config, text).unwrap();
    let (command, library) = (agent::command().unwrap(), agent::library().unwrap());
    let installation = Installation::fetch(version).unwrap();
    let words = [&command, &library, &config].map(|path| path.to_str().unwrap());
    let builder = Cluster::builder(&installation);
    let builder = builder.installer(&[words[0], "install", "--library", words[1], "--config", words[2]]);
    let mut cluster = builder.start().unwrap();
    let job = cluster.submit("orders-to-invoices", 100).unwrap();
    cluster.start_standby(1).unwrap();
    let leading = cluster.leader().unwrap();
    cluster.job_managers[leading].kill().unwrap();
    let alert = webhook.wait_for(1, LIMIT).unwrap().remove(0);
    cluster.wait_for_job(&job, LIMIT).unwrap();

    let moves = oracle::moves(&oracle::announcements(&cluster.task_managers[0].log()));
    let of_flink = moves.iter().find(|a_move| a_move.seat.job_id.is_none()).expect("the ResourceManager moved");
    assert_eq!(alert["old_leader"]["id"], of_flink.old.id.to_string(), "{alert:#}");
    assert_eq!(alert["new_leader"]["id"], of_flink.new.id.to_string(), "{alert:#}");
    // Both sides carry the agent, and one of them tells.
    for server in [&cluster.task_managers[0], &cluster.job_managers[1 - leading]] {
        wait::until(&format!("{} to be done with the alert", server.name), LIMIT, || {
            let records = server.alert_log()?;
            let done = ["alert.delivered", "alert.suppressed"].map(|event| alert_log::of(&records, event).len());
            Ok((done.iter().sum::<usize>() >= 1).then_some(()))
        })
        .unwrap();
    }
    assert_eq!(webhook.received().len(), 1);
    cluster.finish();
}

#[test]
fn an_installed_cluster_alerts_2_3() {
    an_installed_cluster_alerts("2.3.0");
}
