//! Loading into a JVM that runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use leaderwatch_agent::attach::{Attached, Refusal, attach};

use crate::support::*;

/// A JVM that waits for a line on its standard input.
pub struct Waiting {
    jvm: Child,
    stdout: BufReader<std::process::ChildStdout>,
    read: String,
}

impl Waiting {
    fn start(jdk: &Path, classes: &Path, main_class: &str, steps: &[&str]) -> Self {
        Self::start_with(&mut java(jdk), classes, main_class, steps)
    }

    pub fn start_with(java: &mut Command, classes: &Path, main_class: &str, steps: &[&str]) -> Self {
        let mut jvm = java
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
        waiting.read_until_it_waits();
        waiting
    }

    fn read_until_it_waits(&mut self) {
        while !self.read.ends_with("awaits a line\n") {
            assert_ne!(self.stdout.read_line(&mut self.read).unwrap(), 0, "{}", self.read);
        }
    }

    /// Lets it go on until it waits again.
    pub fn next(mut self) -> Self {
        self.jvm.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.read.clear();
        self.read_until_it_waits();
        self
    }

    /// What jcmd printed.
    pub fn attach(&self, jdk: &Path, library: &Path, options: &str) -> String {
        let output = jdk_tool(jdk, "jcmd")
            .arg(self.jvm.id().to_string())
            .arg("JVMTI.agent_load")
            .arg(library)
            .arg(format!("\"{options}\"")) // jcmd cuts at `=` what is not in quotes
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn read_until(mut self, text: &str) -> Self {
        while !self.read.contains(text) {
            assert_ne!(self.stdout.read_line(&mut self.read).unwrap(), 0, "{}", self.read);
        }
        self
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.jvm.kill().unwrap();
        self.jvm.wait().unwrap();
    }

    pub fn go_on(mut self) -> Run {
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
        let answer = waiting.attach(jdk, &agent(), &scratch.options());
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
fn a_second_attach_gives_other_options_and_nothing_else() {
    for jdk in jdks() {
        let first = Scratch::new("first_attach", jdk);
        let waiting = Waiting::start(jdk, &fakes(), TASK_MANAGER, &["await-line", "leader"]);
        for options in [first.options(), String::new(), "colour=red".to_owned()] {
            let answer = waiting.attach(jdk, &agent(), &options);
            assert!(answer.contains("return code: 0"), "{answer}");
        }
        wait_until("the refusal", || first.problems().iter().any(|problem| problem.contains("colour")));
        // Our own client finds the library by itself.
        let more = format!("{},group_wait=1s", first.options());
        let given = attach(waiting.jvm.id(), Path::new("/absent.so"), &more).unwrap();
        assert_eq!(given, Attached::GivenOptions);
        wait_until("the new options to be taken", || first.events().iter().any(|event| event == "agent.reconfigured"));
        let run = waiting.go_on();
        run.assert_sound();
        assert_eq!(first.leaders().len(), 1);
        assert_eq!(first.events().iter().filter(|event| *event == "agent.started").count(), 1);
        assert!(run.stderr.contains("an attach without options changes nothing"), "{}", run.stderr);
    }
}

#[test]
fn an_attach_to_another_program_is_refused_and_changes_nothing() {
    for jdk in jdks() {
        let scratch = Scratch::new("attach_other", jdk);
        let waiting = Waiting::start(jdk, &tools(), "Other", &["await-line"]);
        let answer = waiting.attach(jdk, &agent(), &scratch.options());
        assert!(!answer.contains("return code: 0"), "{answer}");
        let run = waiting.go_on();
        run.assert_sound();
        assert!(run.stderr.contains("does nothing: this is no Flink JobManager or TaskManager"), "{}", run.stderr);
        assert!(scratch.is_empty());
    }
}

/// `leaderwatch attach`, which needs no JDK.
#[test]
fn our_own_client_loads_the_agent_once() {
    for jdk in jdks() {
        let first = Scratch::new("own_attach", jdk);
        let waiting = Waiting::start(jdk, &fakes(), TASK_MANAGER, &["leader", "await-line", "leader"]);
        assert_eq!(attach(waiting.jvm.id(), &agent(), &first.options()).unwrap(), Attached::Loaded);
        assert_eq!(attach(waiting.jvm.id(), &agent(), "").unwrap(), Attached::Already);
        wait_until("the status", || first.has_status());
        run_to_end(Command::new("kill").args(["-3", &waiting.jvm.id().to_string()]));
        let waiting = waiting.read_until("Leaderwatch status: {");
        let run = waiting.go_on();
        run.assert_sound();
        assert_eq!(first.leaders().len(), 1, "{run:?}");
        assert_eq!(run.stdout.matches("Full thread dump").count(), 1, "{run:?}");
        assert!(run.stdout.contains("\"cluster\": \"test\""), "{run:?}");
    }
}

/// A container as far as the attach protocol sees it: ids of processes and `/tmp` of its own. The tree stays where it is.
const CONTAINER: &str = r#"
set -e
mount --bind "$1" /mnt
mount -t tmpfs none /tmp
mkdir -p "$1"
mount --bind /mnt "$1"
shift
exec "$@"
"#;

#[test]
fn our_own_client_reaches_into_a_container() {
    assert!(is_root(), "this test makes a container, which needs root");
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    // A JDK in the folder that the container hides is not found there.
    for jdk in jdks().iter().filter(|jdk| !jdk.starts_with("/tmp")) {
        let scratch = Scratch::new("container_attach", jdk);
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c", CONTAINER, "sh"]);
        command.arg(tree).arg(jdk.join("bin/java")).args(["-Xverify:all", "-Xcheck:jni"]);
        let waiting = Waiting::start_with(&mut command, &fakes(), TASK_MANAGER, &["leader", "await-line", "leader"]);
        let outer = waiting.jvm.id();
        let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).unwrap();
        let pid: u32 = children.trim().parse().unwrap();
        let inside = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(inside.lines().any(|line| line.starts_with("NSpid:") && line.ends_with("\t1")), "{inside}");
        assert_eq!(attach(pid, &agent(), &scratch.options()).unwrap(), Attached::Loaded);
        wait_until("the status", || scratch.has_status());
        let run = waiting.go_on();
        run.assert_sound();
        assert_eq!(scratch.leaders().len(), 1, "{run:?}");
        assert!(!run.stdout.contains("Full thread dump"), "{run:?}");
    }
}

#[test]
fn our_own_client_leaves_alone_what_it_must_not_touch() {
    for jdk in jdks() {
        let scratch = Scratch::new("own_attach_refused", jdk);
        let steps: &[&str] = &["await-line", "leader"];
        let refused = |waiting: Waiting, library: &Path| {
            let refusal = attach(waiting.jvm.id(), library, &scratch.options()).unwrap_err();
            let run = waiting.go_on();
            run.assert_sound();
            assert!(!run.stdout.contains("Full thread dump") && scratch.is_empty(), "{run:?}");
            refusal
        };
        let other = Waiting::start(jdk, &tools(), "Other", &["await-line"]);
        assert!(matches!(refused(other, &agent()), Refusal::NoFlink));
        let deaf = Waiting::start_with(java(jdk).arg("-Xrs"), &fakes(), TASK_MANAGER, steps);
        assert!(matches!(refused(deaf, &agent()), Refusal::QuitNotCaught));
        let missing = Waiting::start(jdk, &fakes(), TASK_MANAGER, steps);
        assert!(matches!(refused(missing, Path::new("/absent/libleaderwatch.so")), Refusal::NoLibrary { .. }));
        // Where `/proc` does not show the option, the JVM itself refuses.
        let option = "-XX:-EnableDynamicAgentLoading";
        let closed = Waiting::start_with(java(jdk).env("JDK_JAVA_OPTIONS", option), &fakes(), TASK_MANAGER, steps);
        let refusal = refused(closed, &agent()).to_string();
        assert!(refusal.contains("ynamic agent loading"), "{refusal}");
    }
}
