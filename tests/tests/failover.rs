//! The leading JobManager is killed: exactly one alert by webhook and one by mail, and both say what Flink's own log says.
#![allow(clippy::unwrap_used)]

use leaderwatch_agent::leadership::Component;
use leaderwatch_tests::alert_log;
use leaderwatch_tests::cluster::Timeouts;
use leaderwatch_tests::watched::{LIMIT, Watched, alert_tells, joined_later, log_tells};
use serde_json::Value;

const JOB: &str = "orders-to-invoices";

fn one_alert_says_what_flink_says(version: &str, timeouts: Timeouts) {
    let mut watched = Watched::start(version, |builder| builder.timeouts(timeouts)).unwrap();
    let job = watched.cluster.submit(JOB, 100).unwrap();
    watched.cluster.start_standby(1).unwrap();
    let before = watched.wait_for_records(0, "leader.elected", 2).unwrap();
    assert_eq!(before[0]["event"], "agent.started");
    assert_eq!(before[0]["flink_version"], version);
    assert_eq!(before[0]["role"], "taskmanager");

    watched.kill_leader().unwrap();
    let alerts = watched.wait_for_alerts(1).unwrap();
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    let records = watched.stop_task_manager(0).unwrap();

    let moves = watched.moves(0);
    let seats: Vec<Component> = moves.iter().map(|a_move| a_move.seat.component).collect();
    assert_eq!(seats.len(), 2, "one job and the ResourceManager move: {moves:?}");
    log_tells(&records, &moves).unwrap();
    let joined = joined_later(&records, &alerts[0]);
    alert_tells(&alerts[0], &joined, &moves).unwrap();
    let members: Vec<&Value> = alerts[0]["members"].as_array().unwrap().iter().chain(&joined).collect();
    let of_job = members.iter().find(|member| member["component"] == "jobmanager").unwrap();
    assert_eq!(of_job["job_name"], JOB, "{members:#?}");
    assert_eq!(alert_log::of(&records, "alert.raised").len(), 1);
    assert_eq!(alert_log::of(&records, "alert.delivered").len(), 2);
    assert_eq!(watched.webhook.received().len(), 1);
    assert_eq!(watched.mail.mails().len(), 1);
    assert_eq!(alert_log::of(&records, "agent.problem"), Vec::<&Value>::new());
    watched.cluster.finish();
}

#[test]
fn short_timeouts_1_14() {
    one_alert_says_what_flink_says("1.14.6", Timeouts::Short);
}

#[test]
fn short_timeouts_2_3() {
    one_alert_says_what_flink_says("2.3.0", Timeouts::Short);
}

/// The old listener hears nothing and a new listener object is told the new leader: state kept by object would not alert.
#[test]
fn default_timeouts_1_14() {
    one_alert_says_what_flink_says("1.14.6", Timeouts::Default);
}

#[test]
fn default_timeouts_2_3() {
    one_alert_says_what_flink_says("2.3.0", Timeouts::Default);
}

/// The Flink that `$LEADERWATCH_TEST_FLINK` names.
#[test]
#[ignore = "scripts/versions names the Flink"]
fn moderate_timeouts_of_the_named_flink() {
    one_alert_says_what_flink_says(&std::env::var("LEADERWATCH_TEST_FLINK").unwrap(), Timeouts::Moderate);
}
