//! The daily life of a cluster raises no alert.
#![allow(clippy::unwrap_used)]

use leaderwatch_tests::alert_log;
use leaderwatch_tests::cluster::HighAvailability;
use leaderwatch_tests::wait;
use leaderwatch_tests::watched::{LIMIT, Watched};

fn jobs_come_and_go(version: &str) {
    let mut watched = Watched::start(version, |builder| builder).unwrap();
    let first = watched.cluster.submit("first", 100).unwrap();
    let second = watched.cluster.submit("second", 100).unwrap();
    watched.cluster.start_standby(1).unwrap();
    watched.cluster.job_managers[1].kill().unwrap();
    watched.cluster.start_standby(1).unwrap();
    watched.cluster.cancel(&first).unwrap();
    let third = watched.cluster.submit("third", 100).unwrap();

    let records = watched.stop_task_manager(0).unwrap();
    let elected = alert_log::of(&records, "leader.elected");
    let mut seats: Vec<&str> = elected.iter().map(|record| record["job_id"].as_str().unwrap_or("cluster")).collect();
    let mut expected = vec!["cluster", &first, &second, &third];
    seats.sort_unstable();
    expected.sort_unstable();
    assert_eq!(seats, expected);
    for event in ["leader.moved", "alert.raised", "agent.problem"] {
        assert_eq!(alert_log::of(&records, event), Vec::<&serde_json::Value>::new());
    }
    assert_eq!(watched.webhook.received().len() + watched.mail.mails().len(), 0);
    watched.cluster.finish();
}

/// Without high availability the leader's id never changes, so a failover cannot be seen; the agent says so, once.
fn without_high_availability(version: &str) {
    let mut watched = Watched::start(version, |builder| builder.high_availability(HighAvailability::None)).unwrap();
    watched.cluster.submit("first", 100).unwrap();
    watched.cluster.job_managers[0].kill().unwrap();
    watched.cluster.job_managers[0].start().unwrap();
    // The new JobManager knows nothing of the old one's jobs.
    wait::until("the TaskManager to register again", LIMIT, || {
        Ok((watched.cluster.rest()?.task_managers()? == 1).then_some(()))
    })
    .unwrap();
    watched.cluster.submit("second", 100).unwrap();

    let records = watched.stop_task_manager(0).unwrap();
    let said = alert_log::of(&records, "agent.problem");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].to_string().contains("high availability"), "{said:?}");
    assert_eq!(alert_log::of(&records, "alert.raised").len(), 0);
    assert_eq!(watched.webhook.received().len() + watched.mail.mails().len(), 0);
    watched.cluster.finish();
}

#[test]
fn jobs_come_and_go_1_14() {
    jobs_come_and_go("1.14.6");
}

#[test]
fn jobs_come_and_go_2_3() {
    jobs_come_and_go("2.3.0");
}

#[test]
fn without_high_availability_1_14() {
    without_high_availability("1.14.6");
}

#[test]
fn without_high_availability_2_3() {
    without_high_availability("2.3.0");
}
