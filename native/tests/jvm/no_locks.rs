//! A file system without locks, as some network file systems are: whether another process lives cannot be told there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::attach::Waiting;
use crate::support::*;

/// Every lock is refused, as by a file system that has none.
const WITHOUT_LOCKS: &str = "#include <errno.h>\nint flock(int fd, int operation) { errno = ENOLCK; return -1; }\n";

fn without_locks(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("flock.c"), folder.join("flock.so"));
    std::fs::write(&source, WITHOUT_LOCKS).unwrap();
    let output = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    library
}

#[test]
fn without_locks_alerts_are_sent_nothing_is_taken_over_and_both_are_said_once() {
    let jdk = &jdks()[0];
    let scratch = Scratch::new("no_locks", jdk);
    let library = without_locks(scratch.path());
    let start = |port: u16, has_locks: bool, steps: &[&str]| {
        let mut java = java(jdk);
        java.arg(format!("{},group_wait=0s,webhook=http://127.0.0.1:{port}/", scratch.agent_option(&agent())));
        if !has_locks {
            java.env("LD_PRELOAD", &library);
        }
        Waiting::start_with(&mut java, &fakes(), TASK_MANAGER, steps)
    };
    let count = |event: &str| scratch.events().iter().filter(|it| *it == event).count();

    // What this one cannot send stays in its outbox.
    let steps = ["leader", "leader", "await-line"];
    let first = start(9, true, &steps);
    wait_until("an attempt", || count("alert.retrying") > 0);
    first.go_on().assert_sound();

    let (port, seen) = receiver(|_| true);
    let second = start(port, false, &steps);
    wait_until("the second alert", || count("alert.delivered") > 0);
    second.go_on().assert_sound();
    assert_eq!(seen.lock().unwrap().len(), 1, "only its own");
    let problems = scratch.problems();
    let said = |word: &str| problems.iter().filter(|problem| problem.contains(word)).count();
    assert_eq!(said("has no locks"), 1, "{problems:#?}");
    assert_eq!(said("cannot be locked"), 1, "{problems:#?}");

    let third = start(port, true, &["await-line"]);
    wait_until("what the first one left", || seen.lock().unwrap().len() > 1);
    third.go_on().assert_sound();
    let ids: Vec<_> = scratch
        .records()
        .iter()
        .filter(|it| it["event"] == "alert.raised")
        .map(|it| it["alert"]["id"].clone())
        .collect();
    let seen = seen.lock().unwrap();
    assert_eq!((ids.len(), seen.len()), (2, 2));
    for id in ids {
        assert!(seen.iter().any(|body| body.contains(id.as_str().unwrap())), "{id}: {seen:#?}");
    }
}
