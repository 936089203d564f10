//! Ten restarts by Flink's own `taskmanager.sh`: no record of the alert log is lost.
#![allow(clippy::unwrap_used)]

use leaderwatch_tests::alert_log;
use leaderwatch_tests::wait;
use leaderwatch_tests::watched::{LIMIT, Watched};

const RESTARTS: usize = 10;

fn no_record_is_lost(version: &str) {
    let mut watched = Watched::start(version, |builder| builder.task_managers(1)).unwrap();
    // From here on it is a daemon, as on a user's host.
    watched.stop_task_manager(0).unwrap();
    for restart in 1..=RESTARTS {
        watched.cluster.task_managers[0].start_daemon().unwrap();
        watched.wait_for_records(0, "leader.elected", restart + 1).unwrap();
        let took = watched.cluster.task_managers[0].stop_daemon().unwrap();
        println!("stop {restart} took {took:?}");
        let count = |event: &str| anyhow::Ok(alert_log::of(&watched.records(0)?, event).len());
        wait::until("the last record", LIMIT, || Ok((count("agent.stopped")? == restart + 1).then_some(()))).unwrap();
    }
    let records = watched.records(0).unwrap();
    for event in ["agent.started", "leader.elected", "agent.stopped"] {
        assert_eq!(alert_log::of(&records, event).len(), RESTARTS + 1, "{event}");
    }
    assert_eq!(watched.webhook.received().len() + watched.mail.mails().len(), 0);
    watched.cluster.finish();
}

#[test]
fn no_record_is_lost_1_14() {
    no_record_is_lost("1.14.6");
}

#[test]
fn no_record_is_lost_2_3() {
    no_record_is_lost("2.3.0");
}
