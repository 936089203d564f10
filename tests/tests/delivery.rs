//! An alert is delivered once to each receiver, though the receiver is down or the TaskManager itself is killed.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use leaderwatch_tests::alert_log;
use leaderwatch_tests::wait;
use leaderwatch_tests::watched::{LIMIT, Watched, alert_tells};
use serde_json::Value;

/// How long the webhook receiver is down, as required.
const DOWN: Duration = Duration::from_secs(60);

fn each_alert_comes_once(version: &str) {
    let mut watched = Watched::start(version, |builder| builder).unwrap();
    let job = watched.cluster.submit("orders-to-invoices", 100).unwrap();
    watched.cluster.start_standby(1).unwrap();

    // The webhook receiver is down during the failover and for a minute more.
    watched.webhook.go_down();
    let went_down = Instant::now();
    let killed = watched.kill_leader().unwrap();
    watched.mail.wait_for(1, LIMIT).unwrap();
    let records = watched.wait_for_records(0, "alert.retrying", 1).unwrap();
    assert_eq!(alert_log::of(&records, "alert.retrying")[0]["target"], "webhook");
    watched.cluster.start_standby(killed).unwrap();
    std::thread::sleep(DOWN.saturating_sub(went_down.elapsed()));
    watched.webhook.come_up().unwrap();
    let alerts = watched.wait_for_alerts(1).unwrap();
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    alert_tells(&alerts[0], &[], &watched.moves(0)).unwrap();
    let mut ids = vec![alerts[0]["id"].clone()];

    // The TaskManager is killed as soon as it is told the new leader, before the alert is raised.
    ids.push(kill_task_manager_after(&mut watched, "leader.moved", |_| {}));
    // And once more right after the alert was raised, with nobody there to take it.
    ids.push(kill_task_manager_after(&mut watched, "alert.raised", |watched| {
        watched.webhook.go_down();
        watched.mail.go_down();
    }));

    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    let records = watched.stop_task_manager(0).unwrap();
    let delivered: Vec<Value> = watched.webhook.delivered().iter().map(|alert| alert["id"].clone()).collect();
    assert_eq!(delivered, ids, "each alert once by webhook");
    assert_eq!(watched.mail.mails().len(), ids.len(), "each alert once by mail");
    let mut distinct = ids.clone();
    distinct.dedup();
    assert_eq!(distinct, ids, "three elections have three ids");
    assert_eq!(alert_log::of(&records, "alert.delivered").len(), 2 * ids.len());
    watched.cluster.finish();
}

/// Kills the leader, and the TaskManager at the first new record of `event`; starts both again and returns the id of the
/// alert that came then.
fn kill_task_manager_after(watched: &mut Watched, event: &str, before: impl FnOnce(&mut Watched)) -> Value {
    let alerts_before = watched.webhook.delivered().len();
    let count = |watched: &Watched, event: &str| alert_log::of(&watched.records(0).unwrap(), event).len();
    let (seen, elected) = (count(watched, event), count(watched, "leader.elected"));
    let raised_before = count(watched, "alert.raised");
    before(watched);
    let leader = watched.kill_leader().unwrap();
    let deadline = Instant::now() + LIMIT;
    // Without a pause, as every millisecond counts.
    let record = loop {
        let records = watched.records(0).unwrap();
        if let Some(record) = alert_log::of(&records, event).get(seen) {
            break (*record).clone();
        }
        assert!(Instant::now() < deadline, "no {event} came");
    };
    watched.cluster.task_managers[0].kill().unwrap();
    if event == "leader.moved" {
        let raised = count(watched, "alert.raised");
        assert_eq!(raised, raised_before, "the kill came too late to show anything: the alert was raised already");
    }
    let at: jiff::Timestamp = record["ts"].as_str().unwrap().parse().unwrap();
    let late_ms = jiff::Timestamp::now().as_millisecond() - at.as_millisecond();
    println!("killed {late_ms} ms after {event}, the end of the process included");

    watched.webhook.come_up().unwrap();
    watched.mail.come_up().unwrap();
    watched.cluster.start_standby(leader).unwrap();
    watched.cluster.task_managers[0].start().unwrap();
    let alerts = watched.wait_for_alerts(alerts_before + 1).unwrap();
    // The alert comes before the new TaskManager knows any leader, and one that it does not know cannot be seen to move.
    watched.wait_for_records(0, "leader.elected", elected + 2).unwrap();
    wait::until("the other JobManager to lead", LIMIT, || Ok((watched.cluster.leader()? != leader).then_some(())))
        .unwrap();
    alerts[alerts_before]["id"].clone()
}

#[test]
fn each_alert_comes_once_1_14() {
    each_alert_comes_once("1.14.6");
}

#[test]
fn each_alert_comes_once_2_3() {
    each_alert_comes_once("2.3.0");
}
