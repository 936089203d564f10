//! Loading: where the agent does nothing, loads that come twice, classes that are there before it, and the end.

use crate::support::*;

/// The same JVM options reach `bin/flink`, BashJavaUtils and other tools, whose output scripts read.
#[test]
fn in_other_programs_nothing_is_to_be_seen() {
    let classes = tools();
    for jdk in jdks() {
        for arguments in [vec!["-version"], vec!["-cp", classes.to_str().unwrap(), "Other"]] {
            let scratch = Scratch::new("other_programs", jdk);
            let without = java(jdk).args(&arguments).output().unwrap();
            let with = java(jdk).arg(scratch.agent_option(&agent())).args(&arguments).output().unwrap();
            assert_eq!(with, without, "{}", jdk.display());
            assert!(scratch.is_empty());
        }
    }
}

#[test]
fn a_second_load_of_the_same_file_changes_nothing() {
    for jdk in jdks() {
        let (first, second) = (Scratch::new("first_load", jdk), Scratch::new("second_load", jdk));
        let options = [first.agent_option(&agent()), second.agent_option(&agent())];
        let output = java(jdk).args(options).arg("-cp").arg(fakes()).args([TASK_MANAGER, "leader"]).output();
        let run = Run::of(output.unwrap());
        run.assert_sound();
        assert_eq!(first.leaders().len(), 1);
        assert!(second.is_empty());
        assert_eq!(run.stderr, "leaderwatch: this agent is loaded already; the second load changes nothing\n");
    }
}

/// Two copies would each define a bridge and take each other's native method.
#[test]
fn a_second_copy_stands_down() {
    let copy = folder("second_copy_library").join("libleaderwatch-copy.so");
    std::fs::copy(agent(), &copy).unwrap();
    for jdk in jdks() {
        let (first, second) = (Scratch::new("first_copy", jdk), Scratch::new("second_copy", jdk));
        let options = [first.agent_option(&agent()), second.agent_option(&copy)];
        let output = java(jdk).args(options).arg("-cp").arg(fakes()).args([TASK_MANAGER, "leader", "none"]).output();
        let run = Run::of(output.unwrap());
        run.assert_sound();
        assert_eq!(first.leaders().len(), 2);
        assert!(second.is_empty());
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
    let folder = folder("java_agent_before");
    let manifest = folder.join("manifest");
    std::fs::write(&manifest, "Premain-Class: early.Agent\n").unwrap();
    for jdk in jdks() {
        let jar = folder.join("agent.jar");
        let mut make = jdk_tool(jdk, "jar");
        run_to_end(make.arg("cfm").args([&jar, &manifest]).arg("-C").arg(tools()).arg("early"));
        let class = "org.apache.flink.runtime.taskexecutor.DefaultJobLeaderService$JobManagerLeaderListener";
        let scratch = Scratch::new("java_agent_before", jdk);
        let output = java(jdk)
            .arg(format!("-javaagent:{}={class}", jar.display()))
            .arg(scratch.agent_option(&agent()))
            .arg("-cp")
            .arg(fakes())
            .args([TASK_MANAGER, "leader", "none"])
            .output();
        Run::of(output.unwrap()).assert_sound();
        assert_eq!(scratch.leaders().len(), 2);
        assert_eq!(scratch.problems(), [""; 0]);
    }
}

#[test]
fn the_end_of_the_jvm_stops_the_agent() {
    for jdk in jdks() {
        for (steps, code) in [(&["exit"][..], 7), (&[][..], 0)] {
            let scratch = Scratch::new("the_end", jdk);
            let run = task_manager(jdk, &scratch, steps);
            assert_eq!(run.code, Some(code), "{run:?}");
            let records = scratch.records();
            let mut events: Vec<_> = records.iter().map(|record| record["event"].as_str().unwrap()).collect();
            // How far Flink's classes are loaded by then is left to chance.
            events.retain(|event| *event != "agent.hooked");
            assert_eq!(events, ["agent.started", "agent.stopped"]);
        }
    }
}

/// Bad options disable themselves, never the JVM nor the hooks.
#[test]
fn options_that_make_no_sense_stop_nothing() {
    for jdk in jdks() {
        let scratch = Scratch::new("bad_options", jdk);
        let option = format!("{},webhook=nonsense,=,what=ever,config=/nowhere", scratch.agent_option(&agent()));
        let output = java(jdk).arg(option).arg("-cp").arg(fakes()).args([TASK_MANAGER, "leader"]).output();
        let run = Run::of(output.unwrap());
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains("main ends"), "{run:?}");
        assert_eq!(scratch.leaders().len(), 1, "{run:?}");
    }
}
