//! What arrives when Flink's listeners are called.

use crate::support::*;

fn job(leader: &str) -> String {
    format!("jobmanager {JOB} {leader}")
}

#[test]
fn every_announcement_arrives_with_its_values_and_in_order() {
    let classes = fakes();
    let steps = [
        ("leader", job(&format!(r#"{ID} Some("pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2")"#))),
        ("other-leader", job(&format!(r#"{OTHER_ID} Some("pekko.tcp://flink@jm-1:6123/user/rpc/jobmanager_2")"#))),
        ("none", job("none")),
        ("none-with-address", job("none")),
        ("no-address", job(&format!("{ID} None"))),
        ("empty-address", job(&format!(r#"{ID} Some("")"#))),
        ("long-address", job(&format!(r#"{ID} Some("{}")"#, "x".repeat(256)))),
        ("wide-address", job(&format!(r#"{ID} Some("jöb-マネ-🦀-\0-{}!")"#, char::REPLACEMENT_CHARACTER))),
        ("cut-pair", job(&format!(r#"{ID} Some("{}")"#, "マ".repeat(255)))),
        (
            "resource-manager",
            format!(r#"resourcemanager - {ID} Some("pekko.tcp://flink@jm-0:6123/user/rpc/resourcemanager_0")"#),
        ),
        ("heartbeat-timeout", "unreachable HeartbeatTimeout".to_owned()),
        ("unreachable", "unreachable TargetUnreachable".to_owned()),
    ];
    let (steps, expected): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    for jdk in jdks() {
        let run = task_manager(jdk, &classes, &steps);
        run.assert_sound();
        assert_eq!(run.observations(), expected, "{}", jdk.display());
    }
}

/// An overload has the same name, and leads into the hooked method: one observation, not two.
#[test]
fn an_overload_is_not_hooked() {
    let classes = fakes();
    for jdk in jdks() {
        let run = task_manager(jdk, &classes, &["overload"]);
        run.assert_sound();
        assert_eq!(run.observations(), [job("none")]);
    }
}

#[test]
fn a_listener_of_another_shape_is_reported_and_does_no_harm() {
    let classes = fakes();
    for jdk in jdks() {
        let run = task_manager(jdk, &classes, &["another-shape", "another-shape", "no-job", "leader"]);
        run.assert_sound();
        assert_eq!(run.observations().len(), 1);
        let class = "org/apache/flink/runtime/taskexecutor/JobLeaderService$JobManagerLeaderListener";
        assert_eq!(run.hook_state(class), Some("its job id cannot be read"));
    }
}

#[test]
fn classes_of_another_loader_are_left_alone() {
    let classes = fakes();
    for jdk in jdks() {
        let run = task_manager(jdk, &classes, &["another-loader"]);
        run.assert_sound();
        let class = "org/apache/flink/runtime/taskexecutor/JobLeaderService$JobManagerLeaderListener";
        assert_eq!(run.hook_state(class), None);
    }
}

#[test]
fn calls_from_many_threads_all_arrive() {
    let classes = fakes();
    for jdk in jdks() {
        let run = task_manager(jdk, &classes, &["many-threads"]);
        run.assert_sound();
        let expected = job(&format!(r#"{ID} Some("pekko.tcp://flink@jm-0:6123/")"#));
        assert_eq!(run.observations(), vec![expected; 1000]);
    }
}
