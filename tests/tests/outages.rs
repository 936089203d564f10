//! What is not a move raises no alert, and what is raises one: ZooKeeper away for this TaskManager alone, a leader frozen
//! and thawed, ZooKeeper stopped for all.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use leaderwatch_tests::alert_log;
use leaderwatch_tests::listener;
use leaderwatch_tests::oracle;
use leaderwatch_tests::wait;
use leaderwatch_tests::watched::{LIMIT, Watched, alert_tells, joined_later, log_tells};

/// The outage itself, as in the requirement; nothing is proven by its length.
const FROZEN: Duration = Duration::from_secs(8);
const STOPPED: Duration = Duration::from_secs(10);
const CUT: Duration = Duration::from_secs(3);

fn only_moves_alert(version: &str) {
    // The TaskManager reaches ZooKeeper by a way of its own, which can be cut while the JobManagers keep theirs.
    let mut way = None;
    let mut watched = Watched::start(version, |builder| {
        let proxy = listener::proxy_to(builder.zookeeper_port()).unwrap();
        let quorum = format!("127.0.0.1:{}", proxy.port());
        way = Some(proxy);
        builder.task_manager_setting("high-availability.zookeeper.quorum", &quorum)
    })
    .unwrap();
    let mut way = way.unwrap();
    let job = watched.cluster.submit("orders-to-invoices", 100).unwrap();
    watched.cluster.start_standby(1).unwrap();

    // The same leaders return.
    way.go_down();
    watched.wait_for_records(0, "leader.lost", 2).unwrap();
    std::thread::sleep(CUT);
    way.come_up().unwrap();
    let records = watched.wait_for_records(0, "leader.returned", 2).unwrap();
    assert!(
        alert_log::of(&records, "leader.returned").iter().all(|record| record["leaderless_ms"].as_u64() >= Some(2900))
    );
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    assert_eq!(watched.moves(0), []);
    assert_eq!(alert_log::of(&records, "alert.raised").len(), 0);

    // A leader that stands still for longer than its session.
    let leading = watched.cluster.leader().unwrap();
    watched.cluster.job_managers[leading].freeze().unwrap();
    std::thread::sleep(FROZEN);
    watched.cluster.job_managers[leading].thaw().unwrap();
    let alerts = watched.wait_for_alerts(1).unwrap();
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    let moves = watched.moves(0);
    assert_eq!(moves.len(), 2, "{moves:?}");
    alert_tells(&alerts[0], &joined_later(&watched.records(0).unwrap(), &alerts[0]), &moves).unwrap();
    if !watched.cluster.job_managers[leading].runs() {
        // Flink ends a JobManager that lost its session on some ways; a user's supervisor starts it again.
        watched.cluster.start_standby(leading).unwrap();
    }

    // Without ZooKeeper nobody leads; who leads after it is whoever Flink says.
    let zookeeper = watched.cluster.zookeeper.as_mut().unwrap();
    zookeeper.kill().unwrap();
    std::thread::sleep(STOPPED);
    zookeeper.start().unwrap();
    let told = || {
        let seen = oracle::announcements(&watched.cluster.task_managers[0].log());
        seen.last().is_some_and(|last| last.leader.is_some())
            && alert_log::of(&watched.records(0).unwrap_or_default(), "leader.lost").len() >= 4
    };
    wait::until("Flink to tell a leader again", LIMIT, || Ok(told().then_some(()))).unwrap();
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    let later = watched.moves(0).split_off(moves.len());
    if !later.is_empty() {
        watched.webhook.wait_for(2, LIMIT).unwrap();
    }
    let records = watched.stop_task_manager(0).unwrap();
    let moves = watched.moves(0);
    log_tells(&records, &moves).unwrap();
    let elections = 1 + usize::from(!later.is_empty());
    assert_eq!(alert_log::of(&records, "alert.raised").len(), elections, "{later:?}");
    assert_eq!(watched.webhook.received().len(), elections);
    assert_eq!(watched.mail.mails().len(), elections);
    watched.cluster.finish();
}

#[test]
fn only_moves_alert_1_14() {
    only_moves_alert("1.14.6");
}

#[test]
fn only_moves_alert_2_3() {
    only_moves_alert("2.3.0");
}
