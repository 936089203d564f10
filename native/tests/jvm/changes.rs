//! What changes from outside while the agent runs: its configuration file, and a pause.

use jiff::{Timestamp, ToSpan};
use leaderwatch_agent::pause::Pause;

use crate::attach::Waiting;
use crate::support::*;

/// A TaskManager with more options, which waits for a line between its steps.
fn waiting(jdk: &std::path::Path, scratch: &Scratch, more: &str, steps: &[&str]) -> Waiting {
    let option = format!("{},{more}", scratch.agent_option(&agent()));
    Waiting::start_with(java(jdk).arg(option), &fakes(), TASK_MANAGER, steps)
}

fn has(scratch: &Scratch, event: &str) -> bool {
    scratch.records().iter().any(|record| record["event"] == event)
}

#[test]
fn a_changed_file_takes_effect_without_a_restart() {
    let jdk = &jdks()[0];
    let scratch = Scratch::new("changed_file", jdk);
    let (file, other) = (scratch.path().join("lw.toml"), scratch.path().join("lw.toml.new"));
    std::fs::write(&file, "").unwrap();
    let waiting = waiting(jdk, &scratch, &format!("config={}", file.display()), &["await-line", "leader"]);
    wait_until("the status", || scratch.has_status());
    std::fs::write(&other, "[[target]]\nname = \"hook\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\n").unwrap();
    std::fs::rename(&other, &file).unwrap();
    wait_until("the change to be taken", || has(&scratch, "agent.reconfigured"));
    waiting.go_on().assert_sound();
    let records = scratch.records();
    let change = records.iter().find(|record| record["event"] == "agent.reconfigured").unwrap();
    assert!(change["targets"].to_string().contains("hook"), "{change}");
}

#[test]
fn a_pause_that_is_there_holds() {
    let jdk = &jdks()[0];
    let scratch = Scratch::new("pause", jdk);
    let now = Timestamp::now();
    let pause = Pause { schema: 1, from: now, until: now + 20.minutes(), reason: "upgrade".to_owned() };
    let user = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap());
    let state = scratch.path().join(format!("state/{user}..test"));
    std::fs::create_dir_all(&state).unwrap();
    pause.write(&state).unwrap();
    let more = "group_wait=0s,webhook=http://127.0.0.1:9/";
    let waiting = waiting(jdk, &scratch, more, &["leader", "await-line", "leader", "await-line"]);
    wait_until("the status", || scratch.has_status());
    let waiting = waiting.next();
    wait_until("the alert to be kept back", || has(&scratch, "alert.suppressed"));
    waiting.go_on().assert_sound();
    let records = scratch.records();
    let of = |event: &str| records.iter().filter(|record| record["event"] == event).collect::<Vec<_>>();
    assert_eq!(of("alert.raised").len(), 1, "{records:#?}");
    assert_eq!(of("alert.suppressed")[0]["by"], "pause: upgrade");
    assert!(of("alert.delivered").is_empty() && of("alert.retrying").is_empty(), "{records:#?}");
}
