//! The agent in a JVM that checks everything, beside another agent that was there first, and in JVMs that are none of its
//! business.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;

use leaderwatch_tests::installation::{Installation, before_agent, byte_buddy_agent};
use leaderwatch_tests::mail::{MailReceiver, Security};
use leaderwatch_tests::watched::LIMIT;
use leaderwatch_tests::webhook::WebhookReceiver;
use leaderwatch_tests::{agent, alert_log, cluster::Cluster, wait};

/// TaskManagers: strict without the agent, strict with it, another agent before ours (by Byte Buddy), and one that loaded the
/// hooked classes before ours was told that the VM is there (by ASM).
const STRICT_ALONE: usize = 0;
const STRICT: usize = 1;
const AFTER_OTHER: usize = 2;
const AFTER_EARLY: usize = 3;

fn checked_jvms_and_other_agents(version: &str) {
    let installation = Installation::fetch(version).unwrap();
    let webhook = WebhookReceiver::start().unwrap();
    let mail = MailReceiver::start(Security::Plain).unwrap();
    let ours = agent::telling(&webhook, &mail, &[]).unwrap();
    let strict = "-Xverify:all -Xcheck:jni";
    let by_asm = format!("-javaagent:{}=early", before_agent().unwrap().display());
    let by_byte_buddy = format!("-javaagent:{}", byte_buddy_agent().unwrap().display());
    let mut cluster = Cluster::builder(&installation)
        .task_managers(4)
        .setting("taskmanager.numberOfTaskSlots", "1")
        .java_options_of(STRICT_ALONE, strict)
        .java_options_of(STRICT, &format!("{strict} {ours}"))
        .java_options_of(AFTER_OTHER, &format!("{by_byte_buddy} {ours}"))
        .java_options_of(AFTER_EARLY, &format!("{by_asm} {ours}"))
        .start()
        .unwrap();
    // One slot each: a job on every TaskManager.
    for name in ["a", "b", "c", "d"] {
        cluster.submit(name, 200).unwrap();
    }
    cluster.start_standby(1).unwrap();
    let leading = cluster.leader().unwrap();
    cluster.job_managers[leading].kill().unwrap();
    for index in [STRICT, AFTER_OTHER, AFTER_EARLY] {
        let records = || cluster.task_managers[index].alert_log();
        let moved = || Ok((alert_log::of(&records()?, "leader.moved").len() >= 2).then_some(()));
        wait::until(&format!("TaskManager {index} to see the job and the ResourceManager move"), LIMIT, moved).unwrap();
    }

    let complaints = |index: usize| -> BTreeSet<String> {
        let text = cluster.task_managers[index].words();
        text.lines().filter(|line| is_complaint(line)).map(|line| without_numbers(&without_file(line))).collect()
    };
    let more: Vec<String> = complaints(STRICT).difference(&complaints(STRICT_ALONE)).cloned().collect();
    assert_eq!(more, Vec::<String>::new(), "-Xverify:all -Xcheck:jni says more with the agent");
    for (index, name) in [(AFTER_OTHER, "ByteBuddyAgent"), (AFTER_EARLY, "BeforeAgent")] {
        let console = cluster.task_managers[index].console();
        assert!(console.contains(&format!("{name}: notifyLeaderAddress was called")), "the other agent's hook works");
        assert!(
            !console.contains("NoClassDefFoundError")
                && !cluster.task_managers[index].log().contains("NoClassDefFoundError")
        );
    }
    cluster.finish();
}

/// What the JVM or the agent complains of on the console. The agent's own words begin with its name.
fn is_complaint(line: &str) -> bool {
    ["WARNING", "Warning", "FATAL", "VerifyError", "ClassFormatError", "NoClassDefFoundError", "leaderwatch: "]
        .iter()
        .any(|word| line.contains(word))
}

/// Without the file that a class comes from: Flink unpacks some under names made at random.
fn without_file(line: &str) -> String {
    match (line.find("(file:"), line.find(')')) {
        (Some(begin), Some(end)) if begin < end => format!("{}{}", &line[..begin], &line[end + 1..]),
        _ => line.to_owned(),
    }
}

fn without_numbers(line: &str) -> String {
    line.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

#[test]
fn checked_jvms_and_other_agents_1_14() {
    checked_jvms_and_other_agents("1.14.6");
}

#[test]
fn checked_jvms_and_other_agents_2_3() {
    checked_jvms_and_other_agents("2.3.0");
}

/// The same JVM options reach `bin/flink` and other short-lived JVMs: there the agent is not to be noticed.
fn throw_away_jvms_are_left_alone(version: &str) {
    let installation = Installation::fetch(version).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let scratch = folder.path().join("tmp");
    std::fs::create_dir(&scratch).unwrap();
    let ours = agent::java_option(&agent::library().unwrap(), &[("webhook", "http://127.0.0.1:9/"), ("bad", "option")]);
    let run = |program: &str, arguments: &[&str], options: &str| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&scratch).env("JAVA_HOME", &installation.java_home);
        command.env("FLINK_LOG_DIR", &scratch).env("FLINK_CONF_DIR", installation.flink_home.join("conf"));
        command.env("JVM_ARGS", format!("-Djava.io.tmpdir={} {options}", scratch.display()));
        command.env_remove("JAVA_TOOL_OPTIONS");
        let told = command.output().unwrap();
        assert!(told.status.success(), "{program}: {told:?}");
        (String::from_utf8(told.stdout).unwrap(), String::from_utf8(told.stderr).unwrap())
    };
    let java = installation.java_home.join("bin/java").display().to_string();
    let flink = installation.flink_home.join("bin/flink").display().to_string();
    assert_eq!(run(&java, &[&ours, "-version"], ""), run(&java, &["-version"], ""));
    assert_eq!(run(&flink, &["--version"], &ours), run(&flink, &["--version"], ""));
    let left: Vec<_> = walk(folder.path())
        .into_iter()
        .filter(|path| path.contains("leaderwatch.") || path.ends_with("leaderwatch"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        paths.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            paths.extend(walk(&entry.path()));
        }
    }
    paths
}

#[test]
fn throw_away_jvms_are_left_alone_1_14() {
    throw_away_jvms_are_left_alone("1.14.6");
}

#[test]
fn throw_away_jvms_are_left_alone_2_3() {
    throw_away_jvms_are_left_alone("2.3.0");
}
