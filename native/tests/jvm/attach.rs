//! Loading into a JVM that runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::*;

/// A JVM that waits for a line on its standard input.
struct Waiting {
    jvm: Child,
    stdout: BufReader<std::process::ChildStdout>,
    read: String,
}

impl Waiting {
    fn start(jdk: &Path, classes: &Path, main_class: &str, steps: &[&str]) -> Self {
        let mut jvm = java(jdk)
            .arg("-cp")
            .arg(classes)
            .arg(main_class)
            .args(steps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(jvm.stdout.take().unwrap());
        let mut waiting = Self { jvm, stdout, read: String::new() };
        while !waiting.read.ends_with("awaits a line\n") {
            assert_ne!(waiting.stdout.read_line(&mut waiting.read).unwrap(), 0, "{}", waiting.read);
        }
        waiting
    }

    /// What jcmd printed.
    fn attach(&self, jdk: &Path) -> String {
        let output = Command::new(jdk.join("bin/jcmd"))
            .arg(self.jvm.id().to_string())
            .arg("JVMTI.agent_load")
            .arg(agent())
            .arg(r#""cluster=test,group_wait=2s""#) // jcmd cuts at `=` what is not in quotes
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn go_on(mut self) -> Run {
        self.jvm.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.stdout.read_to_string(&mut self.read).unwrap();
        let mut run = Run::of(self.jvm.wait_with_output().unwrap());
        run.stdout = self.read;
        run
    }
}

/// The listener object is older than the agent; its class is rewritten by retransformation.
#[test]
fn listeners_that_are_there_already_are_hooked() {
    let classes = fakes();
    for jdk in jdks() {
        let waiting =
            Waiting::start(jdk, &classes, TASK_MANAGER, &["leader", "await-line", "other-leader", "unreachable"]);
        let answer = waiting.attach(jdk);
        assert!(answer.contains("return code: 0"), "{answer}");
        let run = waiting.go_on();
        run.assert_sound();
        let other = format!(r#"{OTHER_ID} Some("pekko.tcp://flink@jm-1:6123/user/rpc/jobmanager_2")"#);
        assert!(run.stdout.contains("options=cluster=test,group_wait=2s "), "{}", run.stdout);
        assert_eq!(run.observations(), [&format!("jobmanager {JOB} {other}"), "unreachable TargetUnreachable"]);
    }
}

#[test]
fn a_second_attach_changes_nothing() {
    let classes = fakes();
    for jdk in jdks() {
        let waiting = Waiting::start(jdk, &classes, TASK_MANAGER, &["await-line", "leader"]);
        for _ in 0..3 {
            let answer = waiting.attach(jdk);
            assert!(answer.contains("return code: 0"), "{answer}");
        }
        let run = waiting.go_on();
        run.assert_sound();
        assert_eq!(run.observations().len(), 1, "{}", run.stdout);
        assert_eq!(run.stderr.matches("is loaded already; the attach changes nothing").count(), 2, "{}", run.stderr);
    }
}
