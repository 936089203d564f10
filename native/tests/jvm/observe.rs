//! What arrives when Flink's listeners are called.

use std::path::Path;

use crate::support::*;

const ADDRESS: &str = "pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2";
const STRANGE_LISTENER: &str = "org/apache/flink/runtime/taskexecutor/JobLeaderService$JobManagerLeaderListener";

fn job(event: &str, id: &str, address: &str) -> String {
    format!("leader.{event} jobmanager {JOB} {id} {address}")
}

#[test]
fn every_announcement_arrives_with_its_values_and_in_order() {
    let steps = [
        ("leader", Some(job("elected", &id(1), ADDRESS))),
        ("same-leader", None),
        ("none", Some(job("lost", &id(1), ADDRESS))),
        ("none-with-address", None),
        ("same-leader", Some(job("returned", &id(1), ADDRESS))),
        ("leader", Some(job("moved", &id(2), ADDRESS))),
        ("none-with-address", Some(job("lost", &id(2), ADDRESS))),
        ("no-address", Some(job("moved", &id(3), "-"))),
        ("empty-address", Some(job("moved", &id(4), ""))),
        ("long-address", Some(job("moved", &id(5), &"x".repeat(256)))),
        ("wide-address", Some(job("moved", &id(6), "jöb-マネ-🦀-\u{fffd}!"))),
        ("cut-pair", Some(job("moved", &id(7), &"マ".repeat(255)))),
        (
            "resource-manager",
            Some(format!(
                "leader.elected resourcemanager - {} pekko.tcp://flink@jm-0:6123/user/rpc/resourcemanager_0",
                id(8)
            )),
        ),
        (
            "heartbeat-timeout",
            Some(format!(
                "leader.unreachable resourcemanager - {} pekko.tcp://flink@jm-0:6123/user/rpc/resourcemanager_0",
                id(8)
            )),
        ),
    ];
    let (steps, expected): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    let expected: Vec<String> = expected.into_iter().flatten().collect();
    for jdk in jdks() {
        let scratch = Scratch::new("announcements", jdk);
        task_manager(jdk, &scratch, &steps).assert_sound();
        assert_eq!(scratch.leaders(), expected, "{}", jdk.display());
    }
}

#[test]
fn each_verdict_of_flink_is_told_apart() {
    for jdk in jdks() {
        for (step, verdict) in [("heartbeat-timeout", "heartbeat_timeout"), ("unreachable", "target_unreachable")] {
            let scratch = Scratch::new("verdicts", jdk);
            task_manager(jdk, &scratch, &["resource-manager", step]).assert_sound();
            let records = scratch.records();
            let verdicts: Vec<_> = records.iter().filter_map(|record| record.get("verdict")).collect();
            assert_eq!(verdicts, [verdict]);
        }
    }
}

/// One listener class serves several components, and only the address tells which one a call is about.
#[test]
fn the_address_tells_the_component_to_a_job_manager() {
    const RETRIEVER: &str = "org.apache.flink.runtime.webmonitor.retriever.LeaderRetriever#notifyLeaderAddress#";
    let leader = |component: &str, address: &str| format!("leader.elected {component} - {} {address}", id(1));
    let (dispatcher, resource_manager) =
        ("pekko.tcp://flink@jm-0:6123/user/rpc/dispatcher_1", "akka.tcp://flink@jm-0:6123/user/resourcemanager");
    let calls = [
        "none",
        dispatcher,
        "none",
        "pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2",
        resource_manager,
        "http://jm-0:8081",
    ];
    for jdk in jdks() {
        let scratch = Scratch::new("by_address", jdk);
        let class_path = format!("{}:{}", tools().display(), fakes().display());
        let mut command = java(jdk);
        command.arg(scratch.agent_option(&agent())).arg("-cp").arg(class_path);
        command.arg("org.apache.flink.driver.DriverClusterEntrypoint");
        command.args(calls.map(|address| format!("{RETRIEVER}{address}")));
        Run::of(command.output().unwrap()).assert_sound();
        assert_eq!(
            scratch.leaders(),
            [
                leader("dispatcher", dispatcher),
                leader("resourcemanager", resource_manager),
                leader("rest_server", "http://jm-0:8081")
            ]
        );
        assert_eq!(scratch.problems(), [""; 0]);
    }
}

/// An overload has the same name, and leads into the hooked method: one observation, not two.
#[test]
fn an_overload_is_not_hooked() {
    for jdk in jdks() {
        let scratch = Scratch::new("overload", jdk);
        task_manager(jdk, &scratch, &["leader", "overload"]).assert_sound();
        assert_eq!(scratch.leaders(), [job("elected", &id(1), ADDRESS)]);
    }
}

#[test]
fn a_listener_of_another_shape_is_reported_and_does_no_harm() {
    for jdk in jdks() {
        let scratch = Scratch::new("another_shape", jdk);
        let run = task_manager(jdk, &scratch, &["another-shape", "another-shape", "no-job", "leader"]);
        run.assert_sound();
        assert_eq!(scratch.leaders(), [job("elected", &id(4), ADDRESS)]);
        let problem = format!("hook {STRANGE_LISTENER}: notifyLeaderAddress: its arguments cannot be read");
        assert!(scratch.problems().contains(&problem), "{:?}", scratch.problems());
    }
}

/// A class of a known name that must have a method and has it not, or another one, is told with what differs; a class that
/// is no contender any more is none that must.
#[test]
fn a_method_that_is_missing_is_reported_where_it_must_be_there() {
    const RUNTIME: &str = "org.apache.flink.runtime";
    let run = |jdk: &Path, main: &str, calls: &[&str]| {
        let scratch = Scratch::new("missing_method", jdk);
        let mut command = java(jdk);
        command.arg(scratch.agent_option(&agent())).arg("-cp");
        command.arg(format!("{}:{}", tools().display(), fakes().display()));
        command.arg(format!("org.apache.flink.driver.{main}"));
        command.args(calls.iter().map(|call| format!("{RUNTIME}.{call}")));
        Run::of(command.output().unwrap()).assert_sound();
        scratch
    };
    for jdk in jdks() {
        let contenders = ["dispatcher.runner.DefaultDispatcherRunner#revokeLeadership", "dispatcher.Dispatcher#start"];
        let scratch = run(jdk, "DriverClusterEntrypoint", &contenders);
        let problem = "hook org/apache/flink/runtime/dispatcher/runner/DefaultDispatcherRunner: grantLeadership: the method \
                       has the descriptor `(Ljava/lang/String;)V` in this class";
        assert_eq!(scratch.problems(), [problem], "{}", jdk.display());
        // The other method of the same class works on.
        let events: Vec<_> = scratch.records().iter().filter_map(|record| record.get("event").cloned()).collect();
        assert!(events.contains(&"leader.revoked".into()), "{events:?}");

        let scratch = run(jdk, "YarnTaskExecutorRunner", &["metrics.groups.TaskManagerMetricGroup#addNothing"]);
        let problem = "hook org/apache/flink/runtime/metrics/groups/TaskManagerMetricGroup: addJob: the class has no such \
                       method";
        assert_eq!(scratch.problems(), [problem], "{}", jdk.display());
    }
}

#[test]
fn classes_of_another_loader_are_left_alone() {
    for jdk in jdks() {
        let scratch = Scratch::new("another_loader", jdk);
        task_manager(jdk, &scratch, &["another-loader", "leader"]).assert_sound();
        assert_eq!(scratch.leaders(), [job("elected", &id(2), ADDRESS)]);
        assert_eq!(scratch.problems(), [""; 0]);
    }
}

#[test]
fn calls_from_many_threads_all_arrive() {
    let mut expected = Vec::new();
    for thread in 0..4 {
        for call in 0..250 {
            let (job, id) =
                (format!("{thread:016x}{call:016x}"), format!("00000000-0000-{thread:04x}-0000-{call:012x}"));
            expected.push(format!("leader.elected jobmanager {job} {id} a"));
        }
    }
    expected.sort();
    for jdk in jdks() {
        let scratch = Scratch::new("many_threads", jdk);
        task_manager(jdk, &scratch, &["many-threads"]).assert_sound();
        let mut leaders = scratch.leaders();
        leaders.sort();
        assert_eq!(leaders, expected);
    }
}
