//! The classes of real Flinks, whichever `scripts/flink` has fetched.

use std::path::{Path, PathBuf};

use crate::corpus;
use crate::support::*;

const LISTENER: &str = "notifyLeaderAddress";

/// The `lib` folders of the Flinks in the cache.
fn flinks() -> Vec<PathBuf> {
    let cache = std::env::var_os("LEADERWATCH_CACHE").map(PathBuf::from).unwrap_or_else(|| {
        PathBuf::from(std::env::var_os("HOME").expect("$HOME or $LEADERWATCH_CACHE is set")).join(".cache/leaderwatch")
    });
    let folders = std::fs::read_dir(&cache).into_iter().flatten().flatten().map(|entry| entry.path().join("lib"));
    let mut flinks: Vec<PathBuf> = folders.filter(|lib| distribution(lib).is_some()).collect();
    flinks.sort();
    assert!(!flinks.is_empty(), "no Flink in {}: run `scripts/flink fetch 2.3.0`", cache.display());
    flinks
}

fn distribution(lib: &Path) -> Option<PathBuf> {
    let jars = std::fs::read_dir(lib).ok()?.flatten().map(|entry| entry.path());
    jars.into_iter().find(|jar| jar.file_name().is_some_and(|name| name.to_string_lossy().starts_with("flink-dist")))
}

/// Calls these methods of the real classes in a JVM whose main class gives it a role.
fn call(jdk: &Path, lib: &Path, main_class: &str, methods: &[(&str, &str)]) -> Run {
    let class_path = format!("{}:{}/*", tools().display(), lib.display());
    let mut command = java(jdk);
    command.arg(agent_option(&agent())).arg("-cp").arg(class_path).arg(format!("org.apache.flink.driver.{main_class}"));
    for (class, method) in methods {
        command.arg(format!("org.apache.flink.runtime.{class}#{method}"));
    }
    Run::of(command.output().unwrap())
}

fn told(seat: &str) -> [String; 2] {
    let leader = format!(r#"{seat} {ID} Some("pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2")"#);
    [leader, format!("{seat} none")]
}

fn assert_observed(run: &Run, expected: &[String]) {
    assert_eq!(run.observations(), expected, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("main ends"), "{}{}", run.stdout, run.stderr);
    // What the listeners throw is what they lack here, never what the agent brought.
    for word in ["NoClassDefFoundError", "VerifyError", "ClassFormatError", "FATAL ERROR"] {
        assert!(!run.stdout.contains(word) && !run.stderr.contains(word), "{}{}", run.stdout, run.stderr);
    }
}

#[test]
#[ignore = "needs a Flink from scripts/flink"]
fn the_listeners_of_a_task_manager_are_hooked() {
    let methods = [
        ("taskexecutor.JobLeaderService$JobManagerLeaderListener", LISTENER),
        ("taskexecutor.DefaultJobLeaderService$JobManagerLeaderListener", LISTENER),
        ("taskexecutor.TaskExecutor$ResourceManagerLeaderListener", LISTENER),
        ("taskexecutor.TaskExecutor$ResourceManagerHeartbeatListener", "notifyHeartbeatTimeout"),
        ("taskexecutor.TaskExecutor$ResourceManagerHeartbeatListener", "notifyTargetUnreachable"),
    ];
    let job = told(&format!("jobmanager {JOB}"));
    let verdicts = ["unreachable HeartbeatTimeout".to_owned(), "unreachable TargetUnreachable".to_owned()];
    let expected = [&job[..], &told("resourcemanager -"), &verdicts].concat();
    for lib in flinks() {
        for jdk in jdks() {
            assert_observed(&call(jdk, &lib, "YarnTaskExecutorRunner", &methods), &expected);
        }
    }
}

#[test]
#[ignore = "needs a Flink from scripts/flink"]
fn the_listeners_of_a_job_manager_are_hooked() {
    let methods = [
        ("resourcemanager.JobLeaderIdService$JobLeaderIdListener", LISTENER),
        ("resourcemanager.DefaultJobLeaderIdService$JobLeaderIdListener", LISTENER),
        ("jobmaster.JobMaster$ResourceManagerLeaderListener", LISTENER),
    ];
    let expected = [told(&format!("jobmanager {JOB}")), told("resourcemanager -")].concat();
    for lib in flinks() {
        for jdk in jdks() {
            assert_observed(&call(jdk, &lib, "DriverClusterEntrypoint", &methods), &expected);
        }
    }
}

/// Minutes.
#[test]
#[ignore = "needs a Flink from scripts/flink"]
fn flinks_classes_verify_with_a_call_in_every_method() {
    for lib in flinks() {
        let jar = distribution(&lib).unwrap();
        let folder = folder("flink");
        let (original, rewritten) = (folder.join("original"), folder.join("rewritten"));
        corpus::unpack(&jar, &original);
        let tally = corpus::rewrite_folder(&original, &rewritten);
        for jdk in jdks() {
            let [before, after] = [&original, &rewritten].map(|classes| corpus::link(jdk, &[], classes, &original));
            println!("{} {}: {tally:?}", jdk.display(), jar.display());
            assert_eq!(after, before);
        }
    }
}
