//! The classes of real Flinks: those that `$LEADERWATCH_TEST_FLINKS` names (versions joined by `:`), else whichever
//! `scripts/flink` has fetched.

use std::path::{Path, PathBuf};

use crate::corpus;
use crate::support::*;

const PACKAGE: &str = "org.apache.flink.runtime.";

/// The `lib` folders of the Flinks in the cache.
fn flinks() -> Vec<PathBuf> {
    let cache = cache();
    let named = std::env::var("LEADERWATCH_TEST_FLINKS").ok();
    let is_named = |folder: &Path| {
        // What else lies there is no whole Flink.
        let Some(version) = folder.file_name().and_then(|name| name.to_str()?.strip_prefix("flink-")) else {
            return false;
        };
        named.as_deref().is_none_or(|named| named.split(':').any(|one| one == version))
    };
    let folders = std::fs::read_dir(&cache).into_iter().flatten().flatten().map(|entry| entry.path());
    let libs = folders.filter(|folder| is_named(folder)).map(|folder| folder.join("lib"));
    let mut flinks: Vec<PathBuf> = libs.filter(|lib| distribution(lib).is_some()).collect();
    flinks.sort();
    assert!(!flinks.is_empty(), "no Flink in {}: run `scripts/flink fetch 2.3.0`", cache.display());
    flinks
}

fn distribution(lib: &Path) -> Option<PathBuf> {
    let jars = std::fs::read_dir(lib).ok()?.flatten().map(|entry| entry.path());
    jars.into_iter().find(|jar| jar.file_name().is_some_and(|name| name.to_string_lossy().starts_with("flink-dist")))
}

/// Calls these methods of the real classes in a JVM whose main class gives it a role, and compares what was said.
fn assert_told(main_class: &str, methods_and_words: &[(&str, &str)]) {
    let (methods, expected): (Vec<_>, Vec<_>) = methods_and_words.iter().copied().unzip();
    for lib in flinks() {
        for jdk in jdks() {
            let scratch = Scratch::new(main_class, jdk);
            let class_path = format!("{}:{}/*", tools().display(), lib.display());
            let mut command = java(jdk);
            command.arg(scratch.agent_option(&agent())).arg("-cp").arg(class_path);
            command.arg(format!("org.apache.flink.driver.{main_class}"));
            command.args(methods.iter().map(|method| in_package(method)));
            let run = Run::of(command.output().unwrap());
            assert!(run.stdout.contains("main ends"), "{run:?}");
            // What the listeners throw is what they lack here, never what the agent brought.
            for word in ["NoClassDefFoundError", "VerifyError", "ClassFormatError", "FATAL ERROR"] {
                assert!(!run.stdout.contains(word) && !run.stderr.contains(word), "{run:?}");
            }
            let is_there = |method: &str| !run.stdout.contains(&format!("absent {}\n", in_package(method)));
            let told = methods.iter().zip(&expected).filter(|(method, _)| is_there(method));
            let told: Vec<_> = told.map(|(_, words)| words.replace("JOB", JOB).replace("ID", &id(1))).collect();
            assert_eq!(scratch.leaders(), told, "{} {}: {run:?}", lib.display(), jdk.display());
            assert_eq!(scratch.problems(), [""; 0]);
            // Each of them is told by some class of this Flink, whatever its name there.
            let is_told =
                |words: &str| methods.iter().zip(&expected).any(|(method, it)| *it == words && is_there(method));
            for words in &expected {
                assert!(is_told(words), "{} has nothing to tell `{words}`: {run:?}", lib.display());
            }
        }
    }
}

/// A class and its method as the driver takes them, with the package that all have in common.
fn in_package(method: &str) -> String {
    format!("{PACKAGE}{}", method.replace('%', &format!("%{PACKAGE}")))
}

#[test]
#[ignore = "scripts/test classes, scripts/versions"]
fn the_listeners_of_a_task_manager_are_hooked() {
    assert_told(
        "YarnTaskExecutorRunner",
        &[
            (
                "taskexecutor.JobLeaderService$JobManagerLeaderListener#notifyLeaderAddress",
                "leader.elected jobmanager JOB ID pekko.tcp://flink@jm-0:6123/",
            ),
            (
                "taskexecutor.DefaultJobLeaderService$JobManagerLeaderListener#notifyLeaderAddress",
                "leader.elected jobmanager JOB ID pekko.tcp://flink@jm-0:6123/",
            ),
            (
                "taskexecutor.TaskExecutor$ResourceManagerLeaderListener#notifyLeaderAddress",
                "leader.elected resourcemanager - ID pekko.tcp://flink@jm-0:6123/",
            ),
            (
                "taskexecutor.TaskExecutor$ResourceManagerHeartbeatListener#notifyHeartbeatTimeout",
                "leader.unreachable resourcemanager - ID pekko.tcp://flink@jm-0:6123/",
            ),
        ],
    );
}

#[test]
#[ignore = "scripts/test classes, scripts/versions"]
fn the_listeners_and_contenders_of_a_job_manager_are_hooked() {
    assert_told(
        "DriverClusterEntrypoint",
        &[
            (
                "resourcemanager.JobLeaderIdService$JobLeaderIdListener#notifyLeaderAddress",
                "leader.elected jobmanager JOB ID pekko.tcp://flink@jm-0:6123/",
            ),
            (
                "resourcemanager.DefaultJobLeaderIdService$JobLeaderIdListener#notifyLeaderAddress",
                "leader.elected jobmanager JOB ID pekko.tcp://flink@jm-0:6123/",
            ),
            (
                "jobmaster.JobMaster$ResourceManagerLeaderListener#notifyLeaderAddress",
                "leader.elected resourcemanager - ID pekko.tcp://flink@jm-0:6123/",
            ),
            (
                "webmonitor.retriever.LeaderRetriever#notifyLeaderAddress#pekko.tcp://flink@jm-0:6123/user/rpc/dispatcher_1",
                "leader.elected dispatcher - ID pekko.tcp://flink@jm-0:6123/user/rpc/dispatcher_1",
            ),
            (
                "webmonitor.retriever.LeaderRetriever#notifyLeaderAddress#http://jm-0:8081",
                "leader.elected rest_server - ID http://jm-0:8081",
            ),
            ("jobmaster.JobManagerRunner#grantLeadership", "leader.granted jobmanager JOB ID -"),
            ("jobmaster.JobManagerRunner#revokeLeadership", "leader.revoked jobmanager JOB - -"),
            ("jobmaster.JobManagerRunnerImpl#grantLeadership", "leader.granted jobmanager JOB ID -"),
            ("jobmaster.JobManagerRunnerImpl#revokeLeadership", "leader.revoked jobmanager JOB - -"),
            ("jobmaster.JobMasterServiceLeadershipRunner#grantLeadership", "leader.granted jobmanager JOB ID -"),
            ("jobmaster.JobMasterServiceLeadershipRunner#revokeLeadership", "leader.revoked jobmanager JOB - -"),
            (
                "dispatcher.Dispatcher%dispatcher.StandaloneDispatcher#grantLeadership",
                "leader.granted dispatcher - ID -",
            ),
            (
                "dispatcher.Dispatcher%dispatcher.StandaloneDispatcher#revokeLeadership",
                "leader.revoked dispatcher - - -",
            ),
            ("dispatcher.runner.DefaultDispatcherRunner#grantLeadership", "leader.granted dispatcher - ID -"),
            ("dispatcher.runner.DefaultDispatcherRunner#revokeLeadership", "leader.revoked dispatcher - - -"),
            (
                "resourcemanager.ResourceManager%resourcemanager.StandaloneResourceManager#grantLeadership",
                "leader.granted resourcemanager - ID -",
            ),
            (
                "resourcemanager.ResourceManager%resourcemanager.StandaloneResourceManager#revokeLeadership",
                "leader.revoked resourcemanager - - -",
            ),
            ("resourcemanager.ResourceManagerServiceImpl#grantLeadership", "leader.granted resourcemanager - ID -"),
            ("resourcemanager.ResourceManagerServiceImpl#revokeLeadership", "leader.revoked resourcemanager - - -"),
            ("webmonitor.WebMonitorEndpoint#grantLeadership", "leader.granted rest_server - ID -"),
            ("webmonitor.WebMonitorEndpoint#revokeLeadership", "leader.revoked rest_server - - -"),
        ],
    );
}

/// The real job leader service, its own listeners and a new one each time that a job comes back: what is told of each
/// job is what happened to it, whichever listener heard it.
#[test]
#[ignore = "scripts/test classes, scripts/versions"]
fn the_job_leader_service_tells_every_story() {
    const STORIES: [(&str, &[&str]); 9] = [
        ("A,B", &["elected A", "moved B"]),
        ("A,none,B", &["elected A", "lost A", "moved B"]),
        ("A,none,A", &["elected A", "lost A", "returned A"]),
        ("A,none,A,B", &["elected A", "lost A", "returned A", "moved B"]),
        ("A,B,A,B", &["elected A", "moved B", "stale A"]),
        ("A,+,B", &["elected A", "moved B"]),
        ("A,none,+,B", &["elected A", "lost A", "moved B"]),
        ("A,none,+,A,+,B", &["elected A", "lost A", "returned A", "moved B"]),
        ("A,+,B,+,A,+,B", &["elected A", "moved B", "stale A"]),
    ];
    let told = |(number, (_, events)): (usize, &(&str, &[&str]))| {
        let line = move |event: &&str| {
            let (event, leader) = event.split_once(' ').unwrap();
            let (number, leader) = (number + 1, leader.as_bytes()[0]);
            format!(
                "leader.{event} jobmanager {number:016x}{:016x} 00000000-0000-{number:04x}-0000-{leader:012x} \
                 pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2",
                0
            )
        };
        events.iter().map(line).collect::<Vec<_>>()
    };
    let expected: Vec<String> = STORIES.iter().enumerate().flat_map(told).collect();
    for lib in flinks() {
        for jdk in jdks() {
            let scratch = Scratch::new("stories", jdk);
            let class_path = format!("{}:{}/*", tools().display(), lib.display());
            let mut command = java(jdk);
            command.arg(scratch.agent_option(&agent())).arg("-cp").arg(class_path);
            command.arg("org.apache.flink.driver.KubernetesTaskExecutorRunner");
            command.args(STORIES.map(|(story, _)| story));
            let run = Run::of(command.output().unwrap());
            assert_eq!(run.code, Some(0), "{} {}: {run:?}", lib.display(), jdk.display());
            assert!(run.stdout.contains("main ends"), "{run:?}");
            assert_eq!(scratch.leaders(), expected, "{} {}: {run:?}", lib.display(), jdk.display());
            assert_eq!(scratch.problems(), [""; 0]);
        }
    }
}

#[test]
#[ignore = "scripts/test classes"]
fn flinks_classes_verify_with_a_call_in_every_method() {
    for lib in flinks() {
        let jar = distribution(&lib).unwrap();
        let folder = folder("flink");
        let (original, rewritten) = (folder.join("original"), folder.join("rewritten"));
        corpus::unpack(&jar, &original);
        let tally = corpus::rewrite_folder(&original, &rewritten);
        tally.assert_whole();
        let list = folder.join("list");
        std::fs::write(&list, corpus::class_names(&original)).unwrap();
        for jdk in jdks() {
            let [before, after] = [&original, &rewritten].map(|classes| corpus::link(jdk, &[], classes, &list));
            println!("{} {}: {tally:?}", jdk.display(), jar.display());
            assert_eq!(after, before);
        }
    }
}
