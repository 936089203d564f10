//! The job comes back on a TaskManager that never saw the old leader, so no job listener anywhere need see a move: every
//! TaskManager still raises the same alert, through the ResourceManager's seat.
#![allow(clippy::unwrap_used)]

use leaderwatch_agent::leadership::Component;
use leaderwatch_tests::alert_log::{self, Record};
use leaderwatch_tests::cluster::Timeouts;
use leaderwatch_tests::oracle;
use leaderwatch_tests::watched::{LIMIT, Watched, joined_later, log_tells};

#[test]
fn each_raises_the_same_alert_default_timeouts_2_3() {
    const COUNT: usize = 3;
    let mut watched =
        Watched::start("2.3.0", |builder| builder.task_managers(COUNT).timeouts(Timeouts::Default)).unwrap();
    let job = watched.cluster.submit("orders-to-invoices", 100).unwrap();
    watched.cluster.start_standby(1).unwrap();

    watched.kill_leader().unwrap();
    for index in 0..COUNT {
        watched.wait_for_records(index, "alert.raised", 1).unwrap();
    }
    watched.cluster.wait_for_job(&job, LIMIT).unwrap();
    watched.wait_for_alerts(1).unwrap();
    // The one that runs the job now was told a leader of it last.
    let told = |index: usize| {
        let log = watched.cluster.task_managers[index].log();
        let of_jobs =
            oracle::announcements(&log).into_iter().filter(|told| told.seat.component == Component::JobManager);
        of_jobs.filter_map(|told| told.leader).next_back()
    };
    let moved = oracle::moves(&oracle::announcements(&watched.cluster.task_managers[0].log()))
        .into_iter()
        .find(|a_move| a_move.seat.component == Component::ResourceManager)
        .expect("the ResourceManager moved");
    let (old_leader, new_leader) = (moved.old.id, moved.new.id);
    // From Flink 1.15 on one election gives all components the same id.
    let holder =
        (0..COUNT).find(|index| told(*index).is_some_and(|leader| leader.id == new_leader)).expect("one runs the job");

    let mut ids = Vec::new();
    for index in 0..COUNT {
        let records = watched.stop_task_manager(index).unwrap();
        let seen = watched.moves(index);
        let (of_job, of_others): (Vec<Record>, Vec<Record>) =
            records.iter().cloned().partition(|record| record["job_id"] == job.as_str());
        let saw_job_move = seen.iter().any(|a_move| a_move.seat.job_id.is_some());
        if saw_job_move {
            log_tells(&records, &seen).unwrap();
        } else {
            log_tells(&of_others, &seen).unwrap();
        }
        // Whoever got the job never saw its old leader, but the agents remember it together.
        for record in alert_log::of(&of_job, "leader.moved") {
            assert_eq!(record["old_leader_id"], old_leader.to_string().as_str());
            assert_eq!(record["leader_id"], new_leader.to_string().as_str());
        }
        let raised = alert_log::of(&records, "alert.raised");
        assert_eq!(raised.len(), 1, "TaskManager {index}: {raised:?}");
        let alert = &raised[0]["alert"];
        ids.push(alert["id"].as_str().unwrap().to_owned());
        let mut members = alert["members"].as_array().unwrap().clone();
        members.extend(joined_later(&records, alert));
        assert!(members.iter().any(|member| member["component"] == "resourcemanager"), "{members:?}");
        let names_job = members.iter().any(|member| member["job_id"] == job.as_str());
        assert!(names_job || index != holder, "TaskManager {index} got the job and does not name it: {members:?}");
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "one election has one id: {ids:?}");
    assert!(watched.webhook.delivered().iter().all(|alert| alert["id"] == ids[0].as_str()));
    watched.cluster.finish();
}
