//! The agent in the JobManagers only: the standby sees the move after a kill of the leader, and raises one alert.
#![allow(clippy::unwrap_used)]

use leaderwatch_tests::alert_log::{self, Record};
use leaderwatch_tests::cluster::{Cluster, Timeouts};
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::mail::{MailReceiver, Security};
use leaderwatch_tests::oracle;
use leaderwatch_tests::watched::LIMIT;
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, wait};

/// The records of an event about a component.
fn about<'a>(records: &'a [Record], event: &str, component: &str) -> Vec<&'a Record> {
    alert_log::of(records, event).into_iter().filter(|record| record["component"] == component).collect()
}

fn the_standby_alerts(version: &str, timeouts: Timeouts) {
    let installation = Installation::fetch(version).unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let mail = MailReceiver::start(Security::Plain).unwrap();
    let option = agent::telling(&webhook, &mail, &[]).unwrap();
    let builder = Cluster::builder(&installation).timeouts(timeouts).job_manager_java_options(&option);
    let mut cluster = builder.start().unwrap();
    let job = cluster.submit("orders-to-invoices", 100).unwrap();
    cluster.start_standby(1).unwrap();
    assert_eq!(cluster.leader().unwrap(), 0);
    // The standby knows who leads.
    wait::until("the standby to be told the leaders", LIMIT, || {
        let records = cluster.job_managers[1].alert_log()?;
        let is_told = |component| !about(&records, "leader.elected", component).is_empty();
        Ok((is_told("dispatcher") && is_told("resourcemanager")).then_some(()))
    })
    .unwrap();
    let of_leader = cluster.job_managers[0].alert_log().unwrap();
    for component in ["dispatcher", "resourcemanager", "rest_server", "jobmanager"] {
        assert_eq!(about(&of_leader, "leader.granted", component).len(), 1, "{component}: {of_leader:#?}");
    }

    cluster.job_managers[0].kill().unwrap();
    let alerts = webhook.wait_for(1, LIMIT).unwrap();
    mail.wait_for(1, LIMIT).unwrap();
    cluster.wait_for_job(&job, LIMIT).unwrap();

    let moves = oracle::moves(&oracle::announcements(&cluster.task_managers[0].log()));
    let of_flink = moves.iter().find(|a_move| a_move.seat.job_id.is_none()).expect("the ResourceManager moved");
    let alert = &alerts[0];
    assert_eq!((&alert["class"], &alert["observer"]["role"]), (&"failover".into(), &"jobmanager".into()), "{alert:#}");
    for (told, leader) in [(&alert["old_leader"], &of_flink.old), (&alert["new_leader"], &of_flink.new)] {
        assert_eq!(told["id"], leader.id.to_string(), "{alert:#}");
        assert_eq!(told["address"], leader.address.as_str(), "{alert:#}");
    }
    let standby = cluster.job_managers[1].alert_log().unwrap();
    for component in ["dispatcher", "resourcemanager", "rest_server", "jobmanager"] {
        assert_eq!(about(&standby, "leader.granted", component).len(), 1, "{component}: {standby:#?}");
    }
    assert_eq!(about(&standby, "leader.moved", "dispatcher").len(), 1, "{standby:#?}");
    assert_eq!(about(&standby, "leader.moved", "resourcemanager").len(), 1, "{standby:#?}");

    // Without ZooKeeper nobody may lead.
    cluster.zookeeper.as_mut().unwrap().kill().unwrap();
    let standby = wait::until("the leadership to be revoked", LIMIT, || {
        let records = cluster.job_managers[1].alert_log()?;
        let is_revoked = |component| !about(&records, "leader.revoked", component).is_empty();
        Ok(["dispatcher", "resourcemanager", "jobmanager"].iter().all(|name| is_revoked(name)).then_some(records))
    })
    .unwrap();
    let raised: Vec<_> = alert_log::of(&standby, "alert.raised");
    let failovers = raised.iter().filter(|record| record["alert"]["class"] == "failover").count();
    assert_eq!(failovers, 1, "{raised:#?}");
    let failovers = webhook.delivered().iter().filter(|alert| alert["class"] == "failover").count();
    assert_eq!(failovers, 1);
    assert_eq!(alert_log::of(&standby, "agent.problem"), Vec::<&serde_json::Value>::new());
    cluster.finish();
}

#[test]
fn the_standby_alerts_1_14() {
    the_standby_alerts("1.14.6", Timeouts::Short);
}

#[test]
fn the_standby_alerts_2_3() {
    the_standby_alerts("2.3.0", Timeouts::Short);
}

/// The Flink that `$LEADERWATCH_TEST_FLINK` names.
#[test]
#[ignore = "scripts/versions names the Flink"]
fn the_standby_of_the_named_flink_alerts() {
    the_standby_alerts(&std::env::var("LEADERWATCH_TEST_FLINK").unwrap(), Timeouts::Moderate);
}
