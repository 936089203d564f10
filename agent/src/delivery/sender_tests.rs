//! The sender over targets that answer as a test tells them, in paused time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::gate::Asking;
use super::outbox::notice;
use super::report::Progress;
use super::sender::{CHANNEL_COMMANDS, Command, Route, Routes, SenderSettings, Submission, run};
use super::{Gate, Permit};
use crate::clock::{Clock, Moment};
use crate::target::{Action, Digests, Manner, Notice, Outcome, Rate, Repeat, Sending, Target};

/// Both clocks follow the runtime's paused time; the wall clock starts at the epoch, when the test's alerts occur.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Moment {
        let monotonic = self.0.elapsed();
        Moment { wall: Timestamp::UNIX_EPOCH.checked_add(monotonic).unwrap(), monotonic }
    }
}

type Answer = Box<dyn Fn(usize, &Notice) -> Outcome + Send + Sync>;

/// A target that notes what it gets and when.
struct Fake {
    name: &'static str,
    manner: Manner,
    takes: Duration,
    answer: Answer,
    origin: Instant,
    got: Mutex<Vec<(u64, Notice)>>,
}

impl Fake {
    fn new(
        name: &'static str,
        manner: Manner,
        answer: impl Fn(usize, &Notice) -> Outcome + Send + Sync + 'static,
    ) -> Arc<Fake> {
        Fake::slow(name, manner, Duration::ZERO, answer)
    }

    fn slow(
        name: &'static str,
        manner: Manner,
        takes: Duration,
        answer: impl Fn(usize, &Notice) -> Outcome + Send + Sync + 'static,
    ) -> Arc<Fake> {
        let (origin, got) = (Instant::now(), Mutex::default());
        Arc::new(Fake { name, manner, takes, answer: Box::new(answer), origin, got })
    }

    /// Second and message id of each send.
    fn sends(&self) -> Vec<(u64, String)> {
        self.got.lock().iter().map(|(ms, notice)| (ms / 1000, notice.message_id.clone())).collect()
    }

    fn ids(&self) -> Vec<String> {
        self.sends().into_iter().map(|(_, id)| id).collect()
    }
}

impl Target for Fake {
    fn name(&self) -> &str {
        self.name
    }
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn manner(&self) -> Manner {
        self.manner
    }
    fn beat(&self) -> Sending<'_> {
        self.got.lock().push((0, notice("beat", "")));
        Box::pin(std::future::ready((self.answer)(self.got.lock().len(), &notice("beat", ""))))
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        let ms = u64::try_from(self.origin.elapsed().as_millis()).unwrap();
        let number = {
            let mut got = self.got.lock();
            got.push((ms, notice.clone()));
            got.len()
        };
        Box::pin(async move {
            sleep(self.takes).await;
            (self.answer)(number, notice)
        })
    }
}

struct Rig {
    commands: mpsc::Sender<Command>,
    progress: Arc<Mutex<Vec<Progress>>>,
    task: JoinHandle<usize>,
}

impl Rig {
    fn start(routes: impl Into<Routes>, change: impl FnOnce(&mut SenderSettings)) -> Rig {
        let mut settings = SenderSettings::new(Arc::new(PausedClock(Instant::now())));
        settings.random = Arc::new(|| 1.0);
        change(&mut settings);
        let progress: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let seen = Arc::clone(&progress);
        let report = Arc::new(move |step: Progress| seen.lock().push(step));
        let (commands, receiver) = mpsc::channel(CHANNEL_COMMANDS);
        let task = tokio::spawn(run(routes.into(), settings, report, receiver));
        Rig { commands, progress, task }
    }

    fn send(&self, id: &str, targets: &[&str]) {
        self.submit(notice(id, "text"), targets, None);
    }

    fn submit(&self, notice: Notice, targets: &[&str], persisted: Option<oneshot::Receiver<()>>) {
        let targets = targets.iter().map(|target| (*target).to_owned()).collect();
        self.commands.try_send(Command::Send(Submission::new(Arc::new(notice), targets, persisted))).unwrap();
    }

    /// Stops and returns the number of notices left over and what was reported, a line each.
    async fn stop(self, within: Duration) -> (usize, Vec<String>) {
        self.commands.send(Command::Stop { within }).await.unwrap();
        let left = self.task.await.unwrap();
        let lines = self.progress.lock().iter().map(line).collect();
        (left, lines)
    }
}

fn line(progress: &Progress) -> String {
    match progress {
        Progress::Delivered { notice, target, attempts, latency_ms, receipt } => {
            let receipt = receipt.as_deref().unwrap_or("-");
            format!("delivered {} {target} {attempts} {latency_ms} {receipt}", notice.message_id)
        }
        Progress::Retrying { notice, target, attempts, reason, next_ms } => {
            format!("retrying {} {target} {attempts} {next_ms} {reason}", notice.message_id)
        }
        Progress::Failed { notice, target, attempts, reason, instead } => {
            let instead = instead.as_deref().unwrap_or("-");
            format!("failed {} {target} {attempts} {instead} {reason}", notice.message_id)
        }
        Progress::Suppressed { notice, target, by } => format!("suppressed {} {target} {by}", notice.message_id),
        Progress::Problem(problem) => format!("problem {}", problem.what),
    }
}

fn route(target: &Arc<Fake>) -> Route {
    Route::new(Arc::clone(target) as Arc<dyn Target>, None)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const CHAT: Manner = Manner::people(20, Duration::from_secs(60));

#[tokio::test(start_paused = true)]
async fn a_notice_goes_to_each_of_its_targets_and_the_receipt_is_told() {
    let mail = Fake::new("mail", CHAT, |_, _| Outcome::Delivered { receipt: Some("250 queued".into()) });
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&mail), route(&hook)], |_| {});
    rig.send("1", &["mail", "hook"]);
    rig.send("2", &["hook"]);
    let (left, mut lines) = rig.stop(seconds(1)).await;
    lines.sort();
    assert_eq!(lines, ["delivered 1 hook 1 0 -", "delivered 1 mail 1 0 250 queued", "delivered 2 hook 1 0 -"]);
    assert_eq!(left, 0);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_with_growing_waits_and_order_is_kept() {
    let hook = Fake::new("hook", Manner::MACHINE, |number, _| match number {
        1..=4 => Outcome::retry("answered 500"),
        _ => Outcome::delivered(),
    });
    let rig = Rig::start(vec![route(&hook)], |_| {});
    rig.send("1", &["hook"]);
    rig.send("2", &["hook"]);
    sleep(seconds(60)).await;
    let sends: Vec<_> = hook.sends();
    let at: Vec<_> = sends.iter().map(|(second, id)| (*second, id.as_str())).collect();
    assert_eq!(at, [(0, "1"), (1, "1"), (3, "1"), (7, "1"), (15, "1"), (15, "2")]);
    let (_, lines) = rig.stop(seconds(1)).await;
    assert_eq!(lines[0], "retrying 1 hook 1 1000 answered 500");
    assert_eq!(lines[4..], ["delivered 1 hook 5 15000 -", "delivered 2 hook 1 15000 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_down_for_long_gets_everything_in_order_when_it_is_back() {
    let origin = Instant::now();
    let hook = Fake::new("hook", Manner::MACHINE, move |_, _| {
        if origin.elapsed() < seconds(3600) { Outcome::retry("connection refused") } else { Outcome::delivered() }
    });
    let rig = Rig::start(vec![route(&hook)], |_| {});
    for id in 0..50 {
        rig.send(&format!("{id:02x}"), &["hook"]);
    }
    sleep(seconds(3600 + 301)).await;
    let ids = hook.ids();
    let expected: Vec<_> = (0..50).map(|id| format!("{id:02x}")).collect();
    assert_eq!(ids[ids.len() - 50..], expected);
    // At most one attempt in five minutes once the ceiling is reached.
    assert!(ids.len() < 50 + 25, "{}", ids.len());
    assert_eq!(rig.stop(seconds(1)).await.0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_receivers_wish_is_obeyed() {
    let chat = Fake::new("chat", CHAT, |number, _| match number {
        1 => Outcome::Retry { after: Some(seconds(34)), reason: "answered 429".into() },
        _ => Outcome::delivered(),
    });
    let rig = Rig::start(vec![route(&chat)], |_| {});
    rig.send("1", &["chat"]);
    sleep(seconds(60)).await;
    assert_eq!(chat.sends().last().unwrap().0, 35);
    drop(rig);
}

#[tokio::test(start_paused = true)]
async fn a_stuck_target_does_not_hold_up_another() {
    let stuck = Fake::slow("stuck", Manner::MACHINE, seconds(1_000_000), |_, _| Outcome::delivered());
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&stuck), route(&hook)], |_| {});
    for id in ["1", "2", "3"] {
        rig.send(id, &["stuck", "hook"]);
    }
    sleep(seconds(1)).await;
    assert_eq!(hook.ids(), ["1", "2", "3"]);
    let before = Instant::now();
    let (left, _) = rig.stop(seconds(3)).await;
    assert_eq!((left, before.elapsed()), (3, seconds(3)));
}

#[tokio::test(start_paused = true)]
async fn a_send_without_end_is_cut_off_and_retried() {
    let stuck = Fake::slow("stuck", Manner::MACHINE, seconds(1_000_000), |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&stuck)], |_| {});
    rig.send("1", &["stuck"]);
    sleep(seconds(125)).await;
    assert_eq!(stuck.ids().len(), 2);
    assert_eq!(line(&rig.progress.lock()[0]), "retrying 1 stuck 1 1000 the send did not end within 120 s");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_retried_and_the_fallback_is_told_once() {
    let chat = Fake::new("chat", CHAT, |_, _| Outcome::reject("bad token"));
    let mail = Fake::new("mail", CHAT, |_, _| Outcome::delivered());
    let to_mail = Route { fallback: Some("mail".into()), ..route(&chat) };
    let to_chat = Route { fallback: Some("chat".into()), ..route(&mail) };
    let rig = Rig::start(vec![to_mail, to_chat], |_| {});
    rig.send("1", &["chat"]);
    rig.send("2", &["chat", "mail"]);
    sleep(seconds(600)).await;
    assert_eq!(chat.ids(), ["1", "2"]);
    let mut told = mail.ids();
    told.sort();
    assert_eq!(told, ["1", "2"]);
    let texts: Vec<_> = mail.got.lock().iter().map(|(_, notice)| notice.alert.text.clone()).collect();
    assert!(
        texts.contains(&"text\n\nYou are told because `chat` refused this alert: bad token".to_owned()),
        "{texts:?}"
    );
    let (_, lines) = rig.stop(seconds(1)).await;
    assert!(lines.contains(&"failed 1 chat 1 mail bad token".to_owned()), "{lines:?}");
    assert!(lines.contains(&"failed 2 chat 1 - bad token".to_owned()), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn two_targets_that_are_each_others_fallback_end() {
    let one = Fake::new("one", Manner::MACHINE, |_, _| Outcome::reject("no"));
    let two = Fake::new("two", Manner::MACHINE, |_, _| Outcome::reject("no"));
    let rig = Rig::start(
        vec![
            Route { fallback: Some("two".into()), ..route(&one) },
            Route { fallback: Some("one".into()), ..route(&two) },
        ],
        |_| {},
    );
    rig.send("1", &["one"]);
    sleep(seconds(60)).await;
    assert_eq!((one.ids().len(), two.ids().len()), (1, 1));
    assert_eq!(rig.stop(seconds(1)).await.1, ["failed 1 one 1 two no", "failed 1 two 1 - no"]);
}

#[tokio::test(start_paused = true)]
async fn a_notice_waits_for_the_disk_at_most_a_second() {
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&hook)], |_| {});
    let (written, quick) = oneshot::channel();
    rig.submit(notice("1", ""), &["hook"], Some(quick));
    sleep(Duration::from_millis(300)).await;
    assert!(hook.ids().is_empty());
    written.send(()).unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(hook.ids(), ["1"]);

    let (_never_2, hung) = oneshot::channel();
    let (_never_3, hung_too) = oneshot::channel();
    rig.submit(notice("2", ""), &["hook"], Some(hung));
    rig.submit(notice("3", ""), &["hook"], Some(hung_too));
    sleep(Duration::from_millis(999)).await;
    assert_eq!(hook.ids(), ["1"]);
    sleep(Duration::from_millis(2)).await;
    // A burst waits one second in all.
    assert_eq!(hook.ids(), ["1", "2", "3"]);
    let (_, lines) = rig.stop(seconds(1)).await;
    assert_eq!(lines.iter().filter(|line| *line == "problem outbox").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_beyond_the_rate_goes_out_as_one_digest() {
    let manner = Manner { rate: Some(Rate::new(2, seconds(60))), ..CHAT };
    let chat = Fake::new("chat", manner, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&chat)], |_| {});
    for id in ["1", "2", "3", "4"] {
        rig.send(id, &["chat"]);
    }
    sleep(seconds(59)).await;
    assert_eq!(chat.ids(), ["1", "2"]);
    sleep(seconds(2)).await;
    {
        let got = chat.got.lock();
        assert_eq!((got.len(), got[2].0 / 1000), (3, 60));
        assert_eq!(got[2].1.action, Action::Digest);
        assert_eq!(got[2].1.alert.title, "2 alerts in one message");
    }
    let (_, lines) = rig.stop(seconds(1)).await;
    assert_eq!(lines[2..], ["delivered 3 chat 1 60000 -", "delivered 4 chat 1 60000 -"]);
}

#[tokio::test(start_paused = true)]
async fn what_gathered_during_an_outage_goes_out_as_one_digest_to_people_and_singly_to_machines() {
    let origin = Instant::now();
    let answer = move |_: usize, _: &Notice| {
        if origin.elapsed() < seconds(10) { Outcome::retry("down") } else { Outcome::delivered() }
    };
    let (chat, hook) = (Fake::new("chat", CHAT, answer), Fake::new("hook", Manner::MACHINE, answer));
    let rig = Rig::start(vec![route(&chat), route(&hook)], |_| {});
    rig.send("1", &["chat", "hook"]);
    sleep(seconds(2)).await;
    rig.send("2", &["chat", "hook"]);
    rig.send("3", &["chat", "hook"]);
    sleep(seconds(20)).await;
    assert_eq!(chat.got.lock().last().unwrap().1.alert.title, "3 alerts in one message");
    let ids = hook.ids();
    assert_eq!(ids[ids.len() - 3..], ["1", "2", "3"]);
    let (left, lines) = rig.stop(seconds(1)).await;
    assert_eq!(left, 0);
    assert_eq!(lines.iter().filter(|line| line.starts_with("delivered")).count(), 6);
}

#[tokio::test(start_paused = true)]
async fn an_old_alert_is_a_digest_without_severity_for_people_and_itself_for_machines() {
    let pager = Manner { digests: Digests::OfOld, ..Manner::MACHINE };
    let pager = Fake::new("pager", pager, |_, _| Outcome::delivered());
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&pager), route(&hook)], |_| {});
    sleep(seconds(3601)).await;
    rig.send("1", &["pager", "hook"]);
    sleep(seconds(1)).await;
    let (_, notice) = pager.got.lock()[0].clone();
    assert_eq!((notice.action, notice.alert.severity), (Action::Digest, crate::alert::Severity::Info));
    assert_eq!(notice.alert.title, "1 alert from earlier, delivered late");
    assert_eq!(hook.got.lock()[0].1.action, Action::Raise);
}

#[tokio::test(start_paused = true)]
async fn on_stop_a_waiting_retry_gets_one_last_attempt_unless_the_receiver_asked_for_the_wait() {
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::retry("down"));
    let busy = Fake::new("busy", Manner::MACHINE, |_, _| Outcome::Retry {
        after: Some(seconds(600)),
        reason: "answered 429".into(),
    });
    let rig = Rig::start(vec![route(&hook), route(&busy)], |settings| settings.backoff.start = seconds(100));
    rig.send("1", &["hook", "busy"]);
    sleep(seconds(1)).await;
    let before = Instant::now();
    let (left, _) = rig.stop(seconds(5)).await;
    assert_eq!((left, before.elapsed()), (1, seconds(5)));
    assert_eq!((hook.ids().len(), busy.ids().len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_target_fails_the_notice_only() {
    let hook = Fake::new("hook", Manner::MACHINE, |number, _| match number {
        1 => panic!("a fault"),
        _ => Outcome::delivered(),
    });
    let rig = Rig::start(vec![route(&hook)], |_| {});
    rig.send("1", &["hook"]);
    rig.send("2", &["hook"]);
    let (left, lines) = rig.stop(seconds(1)).await;
    assert_eq!(left, 0);
    assert!(lines[0].starts_with("failed 1 hook 1 - a fault in Leaderwatch"), "{lines:?}");
    assert_eq!(lines[1], "delivered 2 hook 1 0 -");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_forgets_is_told_again_until_the_end_was_told_for_long_enough() {
    let repeat = Repeat { every: seconds(60), open_for: seconds(600), resolved_for: seconds(300) };
    let manner = Manner { repeat: Some(repeat), ..Manner::MACHINE };
    let hook = Fake::new("hook", manner, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&hook)], |_| {});
    rig.send("1", &["hook"]);
    sleep(seconds(130)).await;
    assert_eq!(hook.sends().iter().map(|(second, _)| *second).collect::<Vec<_>>(), [0, 60, 120]);
    let resolved = Notice { message_id: "1-resolved".into(), action: Action::Resolve, ..notice("1", "") };
    rig.submit(resolved, &["hook"], None);
    sleep(seconds(1200)).await;
    let ends: Vec<_> =
        hook.sends().into_iter().filter(|(_, id)| id == "1-resolved").map(|(second, _)| second).collect();
    assert_eq!(ends, [130, 190, 250, 310, 370]);
    // Repeats are no deliveries.
    assert_eq!(rig.stop(seconds(1)).await.1, ["delivered 1 hook 1 0 -", "delivered 1-resolved hook 1 0 -"]);
}

#[tokio::test(start_paused = true)]
async fn a_drill_is_not_repeated() {
    let repeat = Repeat { every: seconds(60), open_for: seconds(600), resolved_for: seconds(300) };
    let hook = Fake::new("hook", Manner { repeat: Some(repeat), ..Manner::MACHINE }, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&hook)], |_| {});
    let mut drill = notice("1", "");
    drill.alert.drill = true;
    rig.submit(drill, &["hook"], None);
    sleep(seconds(300)).await;
    assert_eq!(hook.ids(), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_too_long_is_given_up_and_reported() {
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::retry("down"));
    let rig = Rig::start(vec![route(&hook)], |settings| settings.give_up_after = seconds(10));
    rig.send("1", &["hook"]);
    sleep(seconds(60)).await;
    let (left, lines) = rig.stop(seconds(1)).await;
    assert_eq!(left, 0);
    assert_eq!(lines.last().unwrap(), "failed 1 hook 5 - given up after 10 s: down");
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_bounded_and_what_made_room_is_reported() {
    let hook = Fake::slow("hook", Manner::MACHINE, seconds(10), |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&hook)], |_| {});
    for id in 0..1002 {
        rig.send(&format!("{id}"), &["hook"]);
        tokio::task::yield_now().await;
    }
    sleep(seconds(1)).await;
    let failed: Vec<_> = rig.progress.lock().iter().map(line).collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    // The one that is being sent stays.
    assert!(failed[0].starts_with("failed 1 hook 0 -") && failed[1].starts_with("failed 2 hook 0 -"), "{failed:?}");
}

/// Holds a fault: who mended the target's address waited for the end of a pause that belonged to the old one.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_mended_is_tried_at_once() {
    let wish = |_: usize, _: &Notice| Outcome::Retry { after: Some(seconds(3000)), reason: "answered 429".into() };
    let (old, new) = (Fake::new("hook", CHAT, wish), Fake::new("hook", CHAT, |_, _| Outcome::delivered()));
    let rig = Rig::start(vec![route(&old)], |_| {});
    rig.send("1", &["hook"]);
    sleep(seconds(10)).await;
    // Something else was changed: the receiver's wish holds.
    rig.commands.send(Command::Replace(vec![route(&old)].into())).await.unwrap();
    sleep(seconds(100)).await;
    assert_eq!(old.ids(), ["1"]);
    rig.commands.send(Command::Replace(vec![route(&new).changed(true)].into())).await.unwrap();
    sleep(seconds(1)).await;
    assert_eq!((old.ids(), new.ids()), (vec!["1".to_owned()], vec!["1".to_owned()]));
    assert_eq!(rig.stop(seconds(1)).await.0, 0);
}

/// What waits for a target that is disabled is bounded as what waits for one that is down.
#[tokio::test(start_paused = true)]
async fn too_many_notices_for_a_disabled_target_lose_the_oldest_and_it_is_told() {
    let rig = Rig::start(Routes::of_faulty(Vec::new()), |_| {});
    for number in 0..1001 {
        let (notice, targets) = (Arc::new(notice(&number.to_string(), "text")), vec!["hook".to_owned()]);
        rig.commands.send(Command::Send(Submission::new(notice, targets, None))).await.unwrap();
    }
    let (left, lines) = rig.stop(seconds(1)).await;
    let told = "failed 0 hook 0 - 1000 notices wait for it while it is disabled; the oldest made room";
    assert_eq!((left, lines), (1000, vec!["problem target hook".to_owned(), told.to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn targets_can_be_replaced_while_notices_wait() {
    let old = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::retry("bad address"));
    let gone = Fake::new("gone", Manner::MACHINE, |_, _| Outcome::retry("down"));
    let new = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&old), route(&gone)], |_| {});
    rig.send("1", &["hook", "gone"]);
    sleep(Duration::from_millis(500)).await;
    rig.commands.send(Command::Replace(vec![route(&new)].into())).await.unwrap();
    sleep(seconds(5)).await;
    assert_eq!(new.ids(), ["1"]);
    rig.send("2", &["gone"]);
    let (_, lines) = rig.stop(seconds(1)).await;
    assert!(lines.contains(&"failed 1 gone 1 - the target is no longer configured".to_owned()), "{lines:?}");
    assert!(lines.contains(&"failed 2 gone 0 - no target of this name is configured".to_owned()), "{lines:?}");
}

/// Holds a fault: an alert in the outbox whose target was disabled for one start, by a secret that was missing, was given up.
#[tokio::test(start_paused = true)]
async fn what_is_due_to_a_target_that_is_missing_by_a_fault_waits_for_it() {
    let hook = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(Routes::of_faulty(Vec::new()), |_| {});
    rig.send("1", &["hook"]);
    rig.send("2", &["hook", "removed"]);
    sleep(seconds(3600)).await;
    rig.commands.send(Command::Replace(Routes::of_faulty(Vec::new()))).await.unwrap();
    rig.commands.send(Command::Replace(vec![route(&hook)].into())).await.unwrap();
    sleep(seconds(5)).await;
    assert_eq!(hook.ids(), ["1", "2"]);
    let (left, lines) = rig.stop(seconds(1)).await;
    assert_eq!(left, 0);
    let failed: Vec<&String> = lines.iter().filter(|line| line.starts_with("failed")).collect();
    assert_eq!(failed, ["failed 2 removed 0 - no target of this name is configured"]);
    let told = lines.iter().filter(|line| line.starts_with("problem target hook")).count();
    assert_eq!(told, 1, "{lines:?}");
}

/// A secret file that is gone for a while takes its target out of the configuration, and what waits there stays.
#[tokio::test(start_paused = true)]
async fn what_waits_in_a_lane_outlives_a_fault_of_the_configuration() {
    let down = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::retry("down"));
    let up = Fake::new("hook", Manner::MACHINE, |_, _| Outcome::delivered());
    let rig = Rig::start(vec![route(&down)], |_| {});
    rig.send("1", &["hook"]);
    sleep(seconds(1)).await;
    rig.commands.send(Command::Replace(Routes::of_faulty(Vec::new()))).await.unwrap();
    sleep(seconds(1)).await;
    rig.commands.send(Command::Replace(vec![route(&up)].into())).await.unwrap();
    sleep(seconds(5)).await;
    assert_eq!(up.ids(), ["1"]);
    rig.commands.send(Command::Replace(Routes::of_faulty(Vec::new()))).await.unwrap();
    rig.send("2", &["hook"]);
    assert_eq!(rig.stop(seconds(1)).await.0, 1, "the outbox keeps it");
}

#[tokio::test(start_paused = true)]
async fn a_heart_beats_at_once_and_then_at_its_interval_and_its_trouble_is_reported_once() {
    let manner = Manner { beat: Some(seconds(60)), ..Manner::MACHINE };
    let heart = Fake::new("heart", manner, |number, _| match number {
        2..=4 => Outcome::retry("down"),
        _ => Outcome::delivered(),
    });
    let rig = Rig::start(vec![route(&heart)], |_| {});
    sleep(seconds(1)).await;
    assert_eq!(heart.ids(), ["beat"]);
    sleep(seconds(300)).await;
    assert_eq!(heart.ids().len(), 6);
    assert_eq!(rig.stop(seconds(1)).await.1, ["problem heartbeat `heart`"]);
}

/// A gate that answers as a test tells it.
struct Answering<F>(F);

impl<F: Fn(&Notice) -> Permit + Send + Sync> Gate for Answering<F> {
    fn may_send<'a>(&'a self, notice: &'a Notice, _target: &'a str) -> Asking<'a, Permit> {
        Box::pin(std::future::ready((self.0)(notice)))
    }
}

/// Holds a fault: where the agent that had claimed an alert died, its end was told first, and an incident stayed open for
/// ever. Another alert waits for neither.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_alert_waits_for_its_beginning() {
    let pager = Fake::new("pager", Manner::MACHINE, |_, _| Outcome::delivered());
    // Another agent holds the first message for a while, and then is gone.
    let until = Instant::now() + Duration::from_secs(30);
    let gate = Answering(move |notice: &Notice| match notice.message_id.as_str() {
        "1" if Instant::now() < until => Permit::Wait(Duration::from_secs(20)),
        _ => Permit::Go,
    });
    let rig = Rig::start(vec![Route::new(pager.clone(), None)], |settings| settings.gate = Arc::new(gate));
    let raise = notice("1", "text");
    let mut end = notice("1-resolved", "text");
    end.alert.id.clone_from(&raise.alert.id);
    end.action = Action::Resolve;
    for notice in [raise, end, notice("2", "text")] {
        let submission = Submission::new(Arc::new(notice), vec!["pager".into()], None);
        rig.commands.send(Command::Send(submission)).await.unwrap();
    }
    sleep(Duration::from_secs(60)).await;
    assert_eq!(pager.ids(), ["2", "1", "1-resolved"]);
    rig.stop(Duration::ZERO).await;
}

/// Holds a fault: the agent that had told Alertmanager died, nobody repeated the alert, and it ended after five minutes
/// though nothing was over.
#[tokio::test(start_paused = true)]
async fn what_another_agent_told_is_repeated_where_it_would_be_forgotten() {
    let (every, open_for, resolved_for) = (Duration::from_secs(60), Duration::from_secs(600), Duration::from_secs(300));
    let repeat = Some(Repeat { every, open_for, resolved_for });
    let alertmanager = Fake::new("am", Manner { repeat, ..Manner::MACHINE }, |_, _| Outcome::delivered());
    let chat = Fake::new("chat", Manner::MACHINE, |_, _| Outcome::delivered());
    // The other one is still at it when it is asked for first.
    let told_at = Instant::now() + Duration::from_secs(2);
    let gate = Answering(move |_: &Notice| match Instant::now() < told_at {
        true => Permit::Wait(Duration::from_secs(3)),
        false => Permit::Elsewhere { by: "tm-2".into() },
    });
    let route = |target: &Arc<Fake>| Route::new(target.clone(), None);
    let rig = Rig::start(vec![route(&alertmanager), route(&chat)], |settings| settings.gate = Arc::new(gate));
    let raise = notice("1", "text");
    let submission = Submission::new(Arc::new(raise), vec!["am".into(), "chat".into()], None);
    rig.commands.send(Command::Send(submission)).await.unwrap();
    sleep(Duration::from_secs(130)).await;
    assert_eq!(alertmanager.ids(), ["1", "1"]);
    assert_eq!(chat.ids(), Vec::<String>::new());
    rig.stop(Duration::ZERO).await;
}

#[tokio::test(start_paused = true)]
async fn several_old_alerts_are_one_digest() {
    let mail = Fake::new("mail", CHAT, |number, _| match number {
        1 => Outcome::retry("answered 500"),
        _ => Outcome::delivered(),
    });
    // The first attempt fails, and the next one comes when all of them are old.
    let rig = Rig::start(vec![route(&mail)], |settings| {
        (settings.backoff.start, settings.backoff.ceiling) = (seconds(7200), seconds(7200));
    });
    for id in ["1", "2", "3"] {
        rig.send(id, &["mail"]);
    }
    sleep(seconds(8000)).await;
    let (_, lines) = rig.stop(seconds(1)).await;
    let got = mail.got.lock().iter().map(|(_, notice)| notice.alert.title.clone()).collect::<Vec<_>>();
    assert_eq!(got.len(), 2, "{got:?}");
    assert_eq!(got[1], "3 alerts from earlier, delivered late");
    assert_eq!(lines.iter().filter(|line| line.starts_with("delivered")).count(), 3, "{lines:?}");
}
