//! Loading: where the agent does nothing, loads that come twice, classes that are there before it, and the end.

use std::process::Command;

use crate::support::*;

/// The same JVM options reach `bin/flink`, BashJavaUtils and other tools, whose output scripts read.
#[test]
fn in_other_programs_nothing_is_to_be_seen() {
    let classes = tools();
    for jdk in jdks() {
        for arguments in [vec!["-version"], vec!["-cp", classes.to_str().unwrap(), "Other"]] {
            let without = java(jdk).args(&arguments).output().unwrap();
            let with = java(jdk).arg(agent_option(&agent())).args(&arguments).output().unwrap();
            assert_eq!(with, without, "{}", jdk.display());
        }
    }
}

#[test]
fn a_second_load_of_the_same_file_changes_nothing() {
    let classes = fakes();
    for jdk in jdks() {
        let option = agent_option(&agent());
        let output =
            java(jdk).args([&option, &option]).arg("-cp").arg(&classes).args([TASK_MANAGER, "leader"]).output();
        let run = Run::of(output.unwrap());
        run.assert_sound();
        assert_eq!(run.observations().len(), 1);
        assert_eq!(run.stderr, "leaderwatch: this agent is loaded already; the second load changes nothing\n");
    }
}

/// Two copies would each define a bridge and take each other's native method.
#[test]
fn a_second_copy_stands_down() {
    let classes = fakes();
    let copy = folder("second_copy_library").join("libleaderwatch-copy.so");
    std::fs::copy(agent(), &copy).unwrap();
    for jdk in jdks() {
        let output = java(jdk)
            .args([agent_option(&agent()), agent_option(&copy)])
            .arg("-cp")
            .arg(&classes)
            .args([TASK_MANAGER, "leader", "none"])
            .output();
        let run = Run::of(output.unwrap());
        run.assert_sound();
        assert_eq!(run.observations().len(), 2, "{}", run.stdout);
        assert_eq!(
            run.stderr,
            "leaderwatch: this agent stands down: another copy of the agent is at work in this JVM\n"
        );
    }
}

/// A Java agent that stands before ours loads classes before our VMInit. Were they rewritten then, every call would
/// throw NoClassDefFoundError for good.
#[test]
fn classes_that_a_java_agent_loaded_before_are_hooked_all_the_same() {
    let classes = fakes();
    let folder = folder("java_agent_before");
    let manifest = folder.join("manifest");
    std::fs::write(&manifest, "Premain-Class: early.Agent\n").unwrap();
    for jdk in jdks() {
        let jar = folder.join("agent.jar");
        let mut make = Command::new(jdk.join("bin/jar"));
        run_to_end(make.arg("cfm").args([&jar, &manifest]).arg("-C").arg(tools()).arg("early"));
        let class =
            format!("{}.DefaultJobLeaderService$JobManagerLeaderListener", TASK_MANAGER.rsplit_once('.').unwrap().0);
        let output = java(jdk)
            .arg(format!("-javaagent:{}={class}", jar.display()))
            .arg(agent_option(&agent()))
            .arg("-cp")
            .arg(&classes)
            .args([TASK_MANAGER, "leader", "none"])
            .output();
        let run = Run::of(output.unwrap());
        run.assert_sound();
        assert_eq!(run.observations().len(), 2, "{}", run.stdout);
        assert_eq!(run.hook_state(&class.replace('.', "/")), Some("installed"));
    }
}

#[test]
fn the_end_of_the_jvm_stops_the_agent() {
    let classes = fakes();
    for jdk in jdks() {
        let run = task_manager(jdk, &classes, &["exit"]);
        assert_eq!(run.code, Some(7), "{}{}", run.stdout, run.stderr);
        assert!(run.stdout.ends_with("agent.stopped\n"), "{}", run.stdout);
        let run = task_manager(jdk, &classes, &[]);
        run.assert_sound();
        assert!(run.stdout.ends_with("agent.stopped\n"), "{}", run.stdout);
    }
}
