//! Two processes that agree on who sends, one of which is killed: at least one message comes, and no second one where the
//! first was taken.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::attach::Waiting;
use crate::support::*;

struct Two {
    jdk: &'static Path,
    scratches: [Scratch; 2],
    config: String,
}

impl Two {
    fn new(test: &str, port: u16) -> Two {
        let jdk = jdks()[0].as_path();
        let scratches = ["a", "b"].map(|name| Scratch::new(&format!("{test}_{name}"), jdk));
        let folder = scratches[0].path();
        let config = folder.join("lw.toml");
        let claim = format!("[claim]\nstore = \"file://{}/claims\"\nlease = \"5s\"\n", folder.display());
        let target = format!("[[target]]\nkind = \"webhook\"\nurl = \"http://127.0.0.1:{port}/\"\ntimeout = \"1s\"\n");
        std::fs::write(&config, format!("[alert]\ngroup_wait = \"0s\"\n{claim}{target}")).unwrap();
        Two { jdk, scratches, config: config.display().to_string() }
    }

    /// A process that has seen the first leader.
    fn start(&self, number: usize) -> Waiting {
        let option = format!("{},config={}", self.scratches[number].agent_option(&agent()), self.config);
        let steps = ["resource-manager", "await-line", "resource-manager", "await-line"];
        Waiting::start_with(java(self.jdk).arg(option), &fakes(), TASK_MANAGER, &steps)
    }

    fn wait_for(&self, number: usize, event: &str) {
        wait_until(&format!("{event} of {number}"), || self.scratches[number].events().iter().any(|it| it == event));
    }
}

/// The id of each alert that was told.
fn ids(told: &Told) -> Vec<String> {
    let id =
        |body: &String| serde_json::from_str::<serde_json::Value>(body).unwrap()["id"].as_str().unwrap().to_owned();
    told.lock().unwrap().iter().map(id).collect()
}

#[test]
fn a_claimer_that_is_killed_while_it_sends_is_succeeded() {
    let works = Arc::new(AtomicBool::new(false));
    let answers = Arc::clone(&works);
    let (port, told) = receiver(move |_| answers.load(Ordering::Relaxed));
    let two = Two::new("claims_during", port);
    let (first, second) = (two.start(0), two.start(1));
    let first = first.next();
    wait_until("the first send", || !told.lock().unwrap().is_empty());
    let second = second.next();
    two.wait_for(1, "alert.raised");
    first.kill();
    let unanswered = told.lock().unwrap().len();
    works.store(true, Ordering::Relaxed);
    two.wait_for(1, "alert.delivered");
    second.go_on().assert_sound();
    let ids = ids(&told);
    assert_eq!(ids.len(), unanswered + 1, "one message by the one that lives");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn what_a_claimer_sent_before_it_was_killed_is_not_sent_again() {
    let (port, told) = receiver(|_| true);
    let two = Two::new("claims_after", port);
    let (first, second) = (two.start(0), two.start(1));
    let first = first.next();
    two.wait_for(0, "alert.delivered");
    first.kill();
    let second = second.next();
    two.wait_for(1, "alert.suppressed");
    second.go_on().assert_sound();
    assert_eq!(ids(&told).len(), 1);
    assert_eq!(two.scratches[1].events().iter().filter(|it| *it == "alert.delivered").count(), 0);
}
