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
    fn attach(&self, jdk: &Path, options: &str) -> String {
        let output = Command::new(jdk.join("bin/jcmd"))
            .arg(self.jvm.id().to_string())
            .arg("JVMTI.agent_load")
            .arg(agent())
            .arg(format!("\"{options}\"")) // jcmd cuts at `=` what is not in quotes
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
    for jdk in jdks() {
        let scratch = Scratch::new("attach", jdk);
        let waiting =
            Waiting::start(jdk, &fakes(), TASK_MANAGER, &["leader", "await-line", "leader", "resource-manager"]);
        let answer = waiting.attach(jdk, &scratch.options());
        assert!(answer.contains("return code: 0"), "{answer}");
        waiting.go_on().assert_sound();
        let leaders = scratch.leaders();
        let seen: Vec<_> = leaders.iter().map(|leader| leader.rsplit_once(' ').unwrap().0).collect();
        let expected = [
            format!("leader.elected jobmanager {JOB} {}", id(2)),
            format!("leader.elected resourcemanager - {}", id(3)),
        ];
        assert_eq!(seen, expected);
        assert_eq!(scratch.problems(), [""; 0]);
    }
}

#[test]
fn a_second_attach_changes_nothing() {
    for jdk in jdks() {
        let (first, second) = (Scratch::new("first_attach", jdk), Scratch::new("second_attach", jdk));
        let waiting = Waiting::start(jdk, &fakes(), TASK_MANAGER, &["await-line", "leader"]);
        for scratch in [&first, &second, &second] {
            let answer = waiting.attach(jdk, &scratch.options());
            assert!(answer.contains("return code: 0"), "{answer}");
        }
        let run = waiting.go_on();
        run.assert_sound();
        assert_eq!(first.leaders().len(), 1);
        assert!(second.is_empty());
        assert_eq!(run.stderr.matches("is loaded already; the attach changes nothing").count(), 2, "{}", run.stderr);
    }
}

#[test]
fn an_attach_to_another_program_is_refused_and_changes_nothing() {
    for jdk in jdks() {
        let scratch = Scratch::new("attach_other", jdk);
        let waiting = Waiting::start(jdk, &tools(), "Other", &["await-line"]);
        let answer = waiting.attach(jdk, &scratch.options());
        assert!(!answer.contains("return code: 0"), "{answer}");
        let run = waiting.go_on();
        run.assert_sound();
        assert!(run.stderr.contains("does nothing: this is no Flink JobManager or TaskManager"), "{}", run.stderr);
        assert!(scratch.is_empty());
    }
}
