//! The ground that the other tests stand on: real Flink without the agent fails over, and its own log tells so.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use leaderwatch_agent::leadership::Component;
use leaderwatch_tests::cluster::Cluster;
use leaderwatch_tests::installation::Installation;
use leaderwatch_tests::{oracle, wait};

fn a_killed_leader_is_followed_by_the_other(version: &str) {
    let installation = Installation::fetch(version).unwrap();
    let mut cluster = Cluster::builder(&installation).start().unwrap();
    let job = cluster.submit("heartbeat", 100).unwrap();
    cluster.start_standby(1).unwrap();
    assert_eq!(cluster.leader().unwrap(), 0);

    cluster.job_managers[0].kill().unwrap();
    wait::until("the standby to lead", Duration::from_secs(60), || Ok((cluster.leader()? == 1).then_some(()))).unwrap();
    cluster.wait_for_job(&job, Duration::from_secs(60)).unwrap();

    let moves = oracle::moves(&oracle::announcements(&cluster.task_managers[0].log()));
    let seats: Vec<Component> = moves.iter().map(|a_move| a_move.seat.component).collect();
    assert!(seats.contains(&Component::JobManager) && seats.contains(&Component::ResourceManager), "{moves:?}");
    assert!(cluster.task_managers[0].console().contains("heartbeat"), "the job prints");
    cluster.finish();
}

#[test]
fn a_killed_leader_is_followed_by_the_other_1_14() {
    a_killed_leader_is_followed_by_the_other("1.14.6");
}

#[test]
fn a_killed_leader_is_followed_by_the_other_2_3() {
    a_killed_leader_is_followed_by_the_other("2.3.0");
}
