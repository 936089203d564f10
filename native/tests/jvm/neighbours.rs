//! Living with others: other agents, the JVM's own instruments, another copy of this agent, and surroundings with little in
//! them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::attach::Waiting;
use crate::support::*;

/// Told twice: a leader and then none.
const STEPS: [&str; 3] = [TASK_MANAGER, "leader", "none"];

/// A Java agent that puts code into the methods that are ours, too: its name in what it prints, and its jar.
fn java_agents() -> [(&'static str, PathBuf); 2] {
    [("BeforeAgent", "before-agent"), ("ByteBuddyAgent", "byte-buddy-agent")].map(|(name, command)| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/flink");
        let told = run_to_end(Command::new("python3").arg(script).arg(command));
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
        (name, PathBuf::from(told["jar"].as_str().unwrap()))
    })
}

/// Without the JNI checker, which finds fault with the JVM's own agents.
fn verifying_java(jdk: &Path) -> Command {
    let mut command = plain_java(jdk);
    command.arg("-Xverify:all");
    command
}

/// What the other agent put into a method and what ours did are both called, whoever comes first.
#[test]
fn java_agents_that_rewrite_the_same_methods_work_before_and_after() {
    let agents = java_agents();
    for jdk in jdks() {
        for (name, jar) in &agents {
            for (place, argument) in [("before", ""), ("before", "=early"), ("after", "")] {
                let scratch = Scratch::new("java_agent", jdk);
                let theirs = format!("-javaagent:{}{argument}", jar.display());
                let ours = scratch.agent_option(&agent());
                let mut command = verifying_java(jdk);
                // Debian's Byte Buddy knows Java up to 20; the classes are of Java 8.
                command.arg("-Dnet.bytebuddy.experimental=true");
                command.args(if place == "before" { [theirs, ours] } else { [ours, theirs] });
                let run = Run::of(command.arg("-cp").arg(fakes()).args(STEPS).output().unwrap());
                let which = format!("{name}{argument} {place} ours, {}", jdk.display());
                assert_eq!(scratch.leaders().len(), 2, "{which}: {run:?}");
                assert_eq!(scratch.problems(), [""; 0], "{which}");
                let calls = run.stdout.matches(&format!("{name}: notifyLeaderAddress was called")).count();
                assert_eq!(calls, 2, "{which}: {run:?}");
                run.assert_sound();
            }
        }
    }
}

/// Options of the JVM that other things hang on, with the release of Java from which on they are there.
#[test]
fn options_that_people_run_flink_with_change_nothing() {
    let recording = folder("recordings").join("recording.jfr");
    for jdk in jdks() {
        let release = java_release(jdk);
        let recorder = format!("-XX:StartFlightRecording=filename={},settings=profile", recording.display());
        let options: [(u32, &[&str]); 7] = [
            (11, &[&recorder]),
            (11, &["-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=127.0.0.1:0"]),
            (11, &["-Xrs"]),
            (11, &["-XX:+ExitOnOutOfMemoryError"]),
            (11, &["-XX:+UnlockExperimentalVMOptions", "-XX:+UseZGC"]),
            (15, &["-XX:+UseZGC"]),
            (24, &["--illegal-native-access=deny"]),
        ];
        for (_, options) in options.iter().filter(|(since, _)| *since <= release) {
            if options[0].contains("jdwp") && !jdk.join("lib/libjdwp.so").is_file() {
                continue;
            }
            let scratch = Scratch::new("options", jdk);
            let mut command = verifying_java(jdk);
            command.args(*options).arg(scratch.agent_option(&agent())).arg("-cp").arg(fakes()).args(STEPS);
            let run = Run::of(command.output().unwrap());
            assert_eq!(scratch.leaders().len(), 2, "{options:?}: {run:?}");
            assert_eq!(scratch.problems(), [""; 0], "{options:?}");
            assert!(!run.stderr.contains("leaderwatch"), "{options:?}: {run:?}");
            run.assert_sound();
        }
    }
    assert!(recording.metadata().unwrap().len() > 0, "a recording was made");
}

/// The JVM ends without a word to its agents: what was told before is in the log by then.
#[test]
fn an_end_for_want_of_memory_is_as_the_option_says() {
    for jdk in jdks() {
        let scratch = Scratch::new("out_of_memory", jdk);
        let mut command = java(jdk);
        command.args(["-Xmx32m", "-XX:+ExitOnOutOfMemoryError"]).arg(scratch.agent_option(&agent()));
        let waiting =
            Waiting::start_with(&mut command, &fakes(), TASK_MANAGER, &["leader", "await-line", "out-of-memory"]);
        wait_until("the leader to be in the log", || scratch.leaders().len() == 1);
        let run = waiting.go_on();
        assert_eq!(run.code, Some(3), "{run:?}");
        assert_eq!(scratch.leaders().len(), 1, "{run:?}");
    }
}

/// Early class hooks would turn class-data sharing off: then `-Xshare:on` fails, and each start takes longer.
#[test]
fn class_data_sharing_stays_on() {
    let with_archive = || jdks().iter().filter(|jdk| jdk.join("lib/server/classes.jsa").is_file());
    assert!(with_archive().next().is_some(), "no Java here has an archive: make one by `java -Xshare:dump`");
    for jdk in with_archive() {
        let scratch = Scratch::new("sharing", jdk);
        let list = folder("shared_classes").join("list");
        let shared_with = |more: &[String]| {
            let mut command = plain_java(jdk);
            command.args(more).arg("-Xshare:on").arg(format!("-Xlog:class+load:file={}", list.display()));
            run_to_end(command.arg("-cp").arg(fakes()).args(STEPS));
            std::fs::read_to_string(&list).unwrap().matches("shared objects file").count()
        };
        let (without, with) = (shared_with(&[]), shared_with(&[scratch.agent_option(&agent())]));
        assert!(without > 300 && with >= without - 5, "{without} classes without the agent, {with} with it");
        assert_eq!(scratch.leaders().len(), 2);
    }
}

/// Another build of the agent, which says other words.
fn other_build() -> PathBuf {
    let mut bytes = std::fs::read(agent()).unwrap();
    let words = b"another copy of the agent is at work";
    let place = bytes.windows(words.len()).position(|window| window == words).expect("the words are in the library");
    bytes[place..place + 7].copy_from_slice(b"ANOTHER");
    let library = folder("other_build").join("libleaderwatch-other.so");
    std::fs::write(&library, bytes).unwrap();
    library
}

/// Two builds agree on nothing but the name of the bridge, and by that the second one stands down.
#[test]
fn of_two_builds_the_second_stands_down() {
    let (ours, other) = (agent(), other_build());
    for jdk in jdks() {
        for (libraries, words) in [([&ours, &other], "ANOTHER copy"), ([&other, &ours], "another copy")] {
            let (first, second) = (Scratch::new("first_build", jdk), Scratch::new("second_build", jdk));
            let options = [first.agent_option(libraries[0]), second.agent_option(libraries[1])];
            let run = Run::of(java(jdk).args(options).arg("-cp").arg(fakes()).args(STEPS).output().unwrap());
            run.assert_sound();
            assert_eq!(first.leaders().len(), 2, "{run:?}");
            assert!(second.is_empty(), "{run:?}");
            let told = format!("leaderwatch: this agent stands down: {words} of the agent is at work in this JVM\n");
            assert_eq!(run.stderr, told);
        }
    }
}

#[test]
fn a_build_that_is_attached_over_another_stands_down() {
    let other = other_build();
    for jdk in jdks() {
        let (first, second) = (Scratch::new("started_build", jdk), Scratch::new("attached_build", jdk));
        let mut command = java(jdk);
        command.arg(first.agent_option(&agent()));
        let waiting = Waiting::start_with(&mut command, &fakes(), TASK_MANAGER, &["leader", "await-line", "none"]);
        let answer = waiting.attach(jdk, &other, &second.options());
        assert!(!answer.contains("return code: 0"), "{answer}");
        let run = waiting.go_on();
        run.assert_sound();
        assert!(run.stderr.contains("stands down: ANOTHER copy of the agent is at work in this JVM"), "{run:?}");
        assert_eq!(first.leaders().len(), 2, "{run:?}");
        assert!(second.is_empty(), "{run:?}");
    }
}

/// A user of some container platforms: no entry in /etc/passwd, no home.
const USER: u32 = 1_000_770_000;

/// What a hardened pod is: nothing writable but the folder given, no capability, no network, not even loopback.
const HARDENED: &str = r#"
set -e
mount -t tmpfs none /mnt
mkdir /mnt/java /mnt/classes /mnt/scratch
cp "$3" /mnt/agent.so
mount --bind "$1" /mnt/java
mount --bind "$2" /mnt/classes
mount --bind "$4" /mnt/scratch
mount -o remount,ro /mnt
awk '{print $2}' /proc/mounts | grep -v -e '^/mnt/scratch' -e '^/proc' -e '^/sys' -e '^/dev' |
    while read -r place; do mount -o remount,bind,ro "$place" 2>/dev/null || true; done
! touch /tmp/is-writable /var/tmp/is-writable "$HOME/is-writable" 2>/dev/null
user=$5
shift 5
unset HOME
exec setpriv --reuid "$user" --regid 0 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs "$@"
"#;

/// Neither user, nor disk, nor network are what a program may hope for; an alert that cannot be sent holds up nobody.
#[test]
fn in_a_hardened_container_it_does_what_it_can() {
    assert!(is_root(), "this test makes a container, which needs root");
    for jdk in jdks() {
        let scratch = Scratch::new("hardened", jdk);
        std::os::unix::fs::chown(scratch.path(), Some(USER), Some(0)).unwrap();
        let options = "cluster=test,log=/mnt/scratch/alert.log,state=/mnt/scratch/state,group_wait=0s,webhook=http://127.0.0.1:9/hook";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--ipc", "--uts", "sh", "-c", HARDENED, "sh"]);
        command.args([jdk.as_path(), &fakes(), &agent(), scratch.path()]).arg(USER.to_string());
        command
            .args(["/mnt/java/bin/java", "-Xverify:all", "-Xcheck:jni"])
            .arg(format!("-agentpath:/mnt/agent.so={options}"));
        command.args(["-cp", "/mnt/classes", TASK_MANAGER, "leader", "none", "leader"]);
        let begun = Instant::now();
        let run = Run::of(command.output().unwrap());
        assert!(begun.elapsed() < Duration::from_secs(60), "{run:?}");
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains("main ends"), "{run:?}");
        let leaders = scratch.leaders();
        let events: Vec<_> = leaders.iter().filter_map(|leader| leader.split(' ').next()).collect();
        assert_eq!(events, ["leader.elected", "leader.lost", "leader.moved"], "{run:?}");
        let records = scratch.records();
        assert!(records.iter().any(|record| record["event"] == "alert.raised"), "{records:#?}");
        let stopped = records.last().unwrap();
        assert_eq!((&stopped["event"], &stopped["pending"]), (&"agent.stopped".into(), &1.into()), "{records:#?}");
    }
}
