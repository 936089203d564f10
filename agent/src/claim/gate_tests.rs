//! Whole agents, each with a sender of its own, that see one election: in paused time over a store in memory.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::body::{Claim, Holder, State, claim_name};
use super::gate::{ClaimGate, GateSettings};
use super::memory::{Fault, MemoryStore};
use super::store::Store;
use crate::clock::{Clock, Moment};
use crate::delivery::gate::{Gate, Permit};
use crate::delivery::sender::{CHANNEL_COMMANDS, SenderSettings, run};
use crate::delivery::{Command, Progress, Route, Submission, test_notice};
use crate::target::{Manner, Notice, Outcome, Sending, Target};

const LEASE: Duration = Duration::from_secs(30);

/// Follows the runtime's paused time.
struct PausedClock(Instant);

impl Clock for PausedClock {
    fn now(&self) -> Moment {
        let monotonic = self.0.elapsed();
        Moment { wall: Timestamp::UNIX_EPOCH.checked_add(monotonic).unwrap(), monotonic }
    }
}

type Answering = dyn Fn(usize) -> Outcome + Send + Sync;

/// One receiver, as each agent reaches it.
struct Receiver {
    takes: Duration,
    answer: Box<Answering>,
    /// When each message came, in seconds, and from which agent.
    got: Mutex<Vec<(u64, usize)>>,
    origin: Instant,
}

impl Receiver {
    fn new(takes: Duration, answer: impl Fn(usize) -> Outcome + Send + Sync + 'static) -> Arc<Receiver> {
        Arc::new(Receiver { takes, answer: Box::new(answer), got: Mutex::default(), origin: Instant::now() })
    }

    fn got(&self) -> Vec<(u64, usize)> {
        self.got.lock().clone()
    }
}

struct Path {
    name: &'static str,
    agent: usize,
    receiver: Arc<Receiver>,
    beats: Option<Duration>,
}

impl Target for Path {
    fn name(&self) -> &str {
        self.name
    }
    fn manner(&self) -> Manner {
        Manner { beat: self.beats, ..Manner::MACHINE }
    }
    fn beat(&self) -> Sending<'_> {
        self.receiver.got.lock().push((self.receiver.origin.elapsed().as_secs(), self.agent));
        Box::pin(std::future::ready((self.receiver.answer)(self.agent)))
    }
    fn kind(&self) -> &'static str {
        "fake"
    }
    fn send<'a>(&'a self, _notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            self.receiver.got.lock().push((self.receiver.origin.elapsed().as_secs(), self.agent));
            sleep(self.receiver.takes).await;
            (self.receiver.answer)(self.agent)
        })
    }
}

struct Agent {
    commands: mpsc::Sender<Command>,
    progress: Arc<Mutex<Vec<Progress>>>,
    task: JoinHandle<usize>,
    gate: ClaimGate,
    store: MemoryStore,
}

impl Agent {
    fn start(number: usize, store: &MemoryStore, routes: Vec<Route>) -> Agent {
        let clock: Arc<dyn Clock> = Arc::new(PausedClock(Instant::now()));
        let progress: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let seen = Arc::clone(&progress);
        let report = Arc::new(move |step: Progress| seen.lock().push(step));
        let store = store.another();
        let settings = GateSettings {
            takes_else: Duration::from_secs(10),
            ..GateSettings::new(Holder { host: format!("tm-{number}"), pid: 7, token: number.to_string() }, LEASE)
        };
        let gate = ClaimGate::new(Arc::new(store.clone()), settings, Arc::clone(&clock), report.clone());
        let mut settings = SenderSettings::new(clock);
        settings.random = Arc::new(|| 1.0);
        settings.gate = Arc::new(gate.clone());
        let (commands, receiver) = mpsc::channel(CHANNEL_COMMANDS);
        let task = tokio::spawn(run(routes, settings, report, receiver));
        Agent { commands, progress, task, gate, store }
    }

    fn sees(&self, id: &str) {
        self.submit(Arc::new(test_notice(id, "text")), &["ops"]);
    }

    fn submit(&self, notice: Arc<Notice>, targets: &[&str]) {
        let targets = targets.iter().map(|target| (*target).to_owned()).collect();
        self.commands.try_send(Command::Send(Submission::new(notice, targets, None))).unwrap();
    }

    /// As by `kill -9`: nothing that it does goes on, and nothing is left in order.
    fn kill(&self) {
        self.store.break_by(Fault::Hangs);
        self.task.abort();
    }

    fn lines(&self) -> Vec<String> {
        self.progress.lock().iter().map(line).collect()
    }
}

fn line(progress: &Progress) -> String {
    match progress {
        Progress::Delivered { .. } => "delivered".to_owned(),
        Progress::Retrying { reason, .. } => format!("retrying {reason}"),
        Progress::Failed { reason, instead, .. } => format!("failed {reason} {instead:?}"),
        Progress::Suppressed { by, .. } => format!("suppressed {by}"),
        Progress::Problem(problem) => format!("problem {}", problem.reason),
    }
}

fn route(agent: usize, name: &'static str, receiver: &Arc<Receiver>, fallback: Option<&str>) -> Route {
    let target = Arc::new(Path { name, agent, receiver: Arc::clone(receiver), beats: None });
    Route::new(target, fallback.map(str::to_owned))
}

fn agents(count: usize, receiver: &Arc<Receiver>) -> (Vec<Agent>, MemoryStore) {
    let store = MemoryStore::default();
    let agents = (0..count).map(|n| Agent::start(n, &store, vec![route(n, "ops", receiver, None)])).collect();
    (agents, store)
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

fn takes(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn claim(store: &MemoryStore, id: &str, target: &str) -> Claim {
    Claim::parse(&store.body(&claim_name(id, target)).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_of_two_hundred_sends_and_the_others_say_who() {
    let receiver = Receiver::new(takes(2), |_| Outcome::delivered());
    let (agents, store) = agents(200, &receiver);
    for agent in &agents {
        agent.sees("a1");
    }
    seconds(10).await;
    let got = receiver.got();
    assert_eq!(got.len(), 1, "{got:?}");
    let sender = got[0].1;
    for (number, agent) in agents.iter().enumerate() {
        let by_claim = format!("suppressed tm-{sender} (process 7) delivered it");
        let expected = if number == sender { "delivered" } else { by_claim.as_str() };
        assert_eq!(agent.lines(), [expected]);
    }
    let claim = claim(&store, "a1", "ops");
    assert_eq!((claim.state, claim.notice), (State::Delivered, None));
    // Whoever comes later is told so, too.
    let late = Agent::start(200, &store, vec![route(200, "ops", &receiver, None)]);
    late.sees("a1");
    seconds(1).await;
    assert_eq!(late.lines().len(), 1);
    assert_eq!(receiver.got().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_send_keeps_its_claim() {
    // A fault of its own: the receiver takes far longer than the target's time limit.
    let receiver = Receiver::new(takes(100), |_| Outcome::delivered());
    let (agents, _) = agents(5, &receiver);
    for agent in &agents {
        agent.sees("a1");
    }
    seconds(300).await;
    assert_eq!(receiver.got().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claimer_killed_before_during_or_after_its_send_is_succeeded_within_the_lease() {
    let lease = LEASE.as_secs();
    // Seconds from the election to the kill; a send takes 4 s and begins at once.
    for (moment, killed_at_ms, sends) in [("before", 0, 1), ("during", 2000, 2), ("after", 3990, 2)] {
        let receiver = Receiver::new(takes(4), |_| Outcome::delivered());
        let (mut agents, store) = agents(20, &receiver);
        let first = agents.remove(0);
        if moment == "before" {
            // It has claimed, and not yet heard so.
            first.store.break_by(Fault::Mute);
        }
        first.sees("a1");
        if moment == "before" {
            while store.names().is_empty() {
                tokio::task::yield_now().await;
            }
            first.kill();
        } else {
            sleep(Duration::from_millis(1)).await;
        }
        for agent in &agents {
            agent.sees("a1");
        }
        sleep(Duration::from_millis(killed_at_ms)).await;
        if moment == "after" {
            // The answer is on its way, and the agent dies before it notes it.
            first.store.break_by(Fault::Hangs);
            while !first.lines().contains(&"delivered".to_owned()) {
                sleep(Duration::from_millis(1)).await;
            }
        }
        first.kill();
        seconds(3 * lease).await;
        let got = receiver.got();
        assert_eq!(got.len(), sends, "{moment}: {got:?}");
        let last = got.last().unwrap();
        assert_ne!(last.1, 0, "{moment}");
        // Renewed at a third of the lease at the latest before the kill; looked at every five seconds and a little.
        assert!(last.0 <= killed_at_ms / 1000 + lease + 7, "{moment}: {got:?}");
        for agent in &agents {
            assert_eq!(agent.lines().len(), 1, "{moment}: {:?}", agent.lines());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_store_stops_nobody_and_is_said_once() {
    for fault in [Fault::Refuses, Fault::Hangs] {
        let receiver = Receiver::new(takes(1), |_| Outcome::delivered());
        let (agents, store) = agents(20, &receiver);
        for agent in &agents {
            agent.store.break_by(fault);
            agent.sees("a1");
            agent.sees("a2");
        }
        seconds(6).await;
        assert_eq!(receiver.got().len(), 40, "{fault:?}");
        for agent in &agents {
            let lines = agent.lines();
            assert_eq!(lines.iter().filter(|line| line.starts_with("problem")).count(), 1, "{lines:?}");
        }
        // When it works again, one sends for all.
        for agent in &agents {
            agent.store.break_by(Fault::None);
        }
        seconds(60).await;
        for agent in &agents {
            agent.sees("a3");
        }
        seconds(10).await;
        assert_eq!(receiver.got().len(), 41, "{fault:?}");
        assert!(agents[3].lines().contains(&"problem works again; one agent sends for all".to_owned()));
        // What was sent without a claim was noted as soon as that was possible.
        assert_eq!(claim(&store, "a1", "ops").state, State::Delivered);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_was_lost_is_found_again() {
    let receiver = Receiver::new(takes(1), |_| Outcome::delivered());
    let (agents, store) = agents(1, &receiver);
    agents[0].store.break_by(Fault::Mute);
    agents[0].sees("a1");
    seconds(2).await;
    agents[0].store.break_by(Fault::None);
    seconds(60).await;
    assert_eq!(receiver.got().len(), 1);
    assert_eq!(claim(&store, "a1", "ops").state, State::Delivered);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_reach_the_receiver_gives_others_their_turn() {
    let receiver = Receiver::new(takes(1), |agent| match agent {
        0 => Outcome::retry("no route to host"),
        _ => Outcome::delivered(),
    });
    let (agents, _) = agents(2, &receiver);
    agents[0].sees("a1");
    seconds(1).await;
    agents[1].sees("a1");
    seconds(600).await;
    let got = receiver.got();
    assert_eq!(got.iter().filter(|(_, agent)| *agent == 1).count(), 1, "{got:?}");
    let (at, _) = got.iter().find(|(_, agent)| *agent == 1).unwrap();
    assert!(*at < 200, "{got:?}");
    assert_eq!(agents[0].lines().last().unwrap(), "suppressed tm-1 (process 7) delivered it");
}

#[tokio::test(start_paused = true)]
async fn refusals_end_after_three_and_the_fallback_is_told_once() {
    let chat = Receiver::new(takes(1), |_| Outcome::reject("bad token"));
    let mail = Receiver::new(takes(1), |_| Outcome::delivered());
    let store = MemoryStore::default();
    let agents: Vec<Agent> = (0..20)
        .map(|n| Agent::start(n, &store, vec![route(n, "ops", &chat, Some("mail")), route(n, "mail", &mail, None)]))
        .collect();
    for agent in &agents {
        agent.sees("a1");
    }
    seconds(120).await;
    assert_eq!((chat.got().len(), mail.got().len()), (3, 1));
    let failed = |agent: &&Agent| agent.lines().iter().any(|line| line.starts_with("failed bad token"));
    assert_eq!(agents.iter().filter(failed).count(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_ends_in_order_leaves_its_claims_to_others_at_once() {
    let receiver = Receiver::new(takes(1), |agent| match agent {
        0 => Outcome::retry("down"),
        _ => Outcome::delivered(),
    });
    let (agents, _) = agents(2, &receiver);
    agents[0].sees("a1");
    seconds(1).await;
    agents[1].sees("a1");
    seconds(1).await;
    agents[0].commands.try_send(Command::Stop { within: takes(2) }).unwrap();
    seconds(9).await;
    let got = receiver.got();
    assert!(got.last().unwrap().1 == 1 && got.last().unwrap().0 <= 10, "{got:?}");
    let [first, second] = <[Agent; 2]>::try_from(agents).ok().unwrap();
    assert_eq!(first.task.await.unwrap(), 1, "its own copy stays in the outbox");
    second.commands.try_send(Command::Stop { within: takes(2) }).unwrap();
    assert_eq!(second.task.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_notice_holds_up_neither_the_end_nor_what_comes_behind_it() {
    let receiver = Receiver::new(takes(1), |_| Outcome::delivered());
    let slow = Receiver::new(takes(60), |_| Outcome::delivered());
    let store = MemoryStore::default();
    let first = Agent::start(0, &store, vec![route(0, "ops", &slow, None)]);
    first.sees("a1");
    seconds(1).await;
    let second = Agent::start(1, &store, vec![route(1, "ops", &receiver, None)]);
    second.sees("a1");
    second.sees("a2");
    seconds(2).await;
    assert_eq!(second.lines(), ["delivered"], "a2 goes past a1");
    let before = Instant::now();
    second.commands.try_send(Command::Stop { within: takes(5) }).unwrap();
    assert_eq!(second.task.await.unwrap(), 1);
    assert!(before.elapsed() < takes(1));
}

#[tokio::test(start_paused = true)]
async fn what_all_agents_left_undone_a_later_one_finishes() {
    let receiver = Receiver::new(takes(5), |_| Outcome::delivered());
    let (agents, store) = agents(2, &receiver);
    for agent in &agents {
        agent.sees("a1");
    }
    seconds(1).await;
    for agent in &agents {
        agent.kill();
    }
    let late = Agent::start(9, &store, vec![route(9, "ops", &receiver, None)]);
    let unfinished = late.gate.unfinished().await;
    assert_eq!(unfinished.len(), 1);
    let (notice, target) = unfinished[0].clone();
    assert_eq!((notice.message_id.as_str(), notice.alert.text.as_str(), target.as_str()), ("a1", "text", "ops"));
    late.submit(notice, &[&target]);
    seconds(120).await;
    assert_eq!(late.lines(), ["delivered"]);
    assert_eq!(late.gate.unfinished().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_target_that_goes_fails_and_is_forgotten() {
    let slow = Receiver::new(takes(60), |_| Outcome::delivered());
    let (agents, _) = agents(2, &slow);
    agents[0].sees("a1");
    seconds(1).await;
    agents[1].sees("a1");
    seconds(1).await;
    agents[1].commands.try_send(Command::Replace(Vec::new().into())).unwrap();
    seconds(100).await;
    assert_eq!(agents[1].lines(), ["failed the target is no longer configured None"]);
}

#[tokio::test(start_paused = true)]
async fn old_claims_are_cleared_away() {
    let receiver = Receiver::new(takes(1), |_| Outcome::delivered());
    let (agents, store) = agents(1, &receiver);
    store.create("remembered", b"{}").await.unwrap();
    for day in 0..5 {
        agents[0].sees(&format!("a{day}"));
        seconds(25 * 3600).await;
    }
    // The one of the day before was seen by the last clearing for the first time.
    let left = ["a3", "a4"].map(|id| claim_name(id, "ops"));
    let mut names = store.names();
    names.retain(|name| !left.contains(name));
    assert_eq!(names, ["remembered"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_of_the_store_while_nothing_happens() {
    let receiver = Receiver::new(takes(1), |_| Outcome::delivered());
    let (agents, store) = agents(3, &receiver);
    for agent in &agents {
        agent.sees("a1");
    }
    seconds(60).await;
    let before = store.calls.load(std::sync::atomic::Ordering::SeqCst);
    seconds(24 * 3600).await;
    assert_eq!(store.calls.load(std::sync::atomic::Ordering::SeqCst), before);
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_slept_through_its_lease_does_not_send() {
    let receiver = Receiver::new(takes(1), |_| Outcome::delivered());
    let (agents, _) = agents(2, &receiver);
    let notice = test_notice("a1", "text");
    assert_eq!(agents[0].gate.may_send(&notice, "ops").await, Permit::Go);
    // Its renewals do not get through.
    agents[0].gate.pauses("ops", takes(60));
    let waits = agents[1].gate.may_send(&notice, "ops").await;
    assert!(matches!(waits, Permit::Wait(_)), "{waits:?}");
    seconds(31).await;
    assert_eq!(agents[1].gate.may_send(&notice, "ops").await, Permit::Go);
    let late = agents[0].gate.may_send(&notice, "ops").await;
    assert!(matches!(late, Permit::Wait(_)), "{late:?}");
}

/// Several agents with one heartbeat.
fn hearts(count: usize, store: &MemoryStore, receiver: &Arc<Receiver>, every: Duration) -> Vec<Agent> {
    let heart = |agent| {
        let path = Path { name: "heart", agent, receiver: Arc::clone(receiver), beats: Some(every) };
        vec![Route::new(Arc::new(path), None)]
    };
    (0..count).map(|agent| Agent::start(agent, store, heart(agent))).collect()
}

#[tokio::test(start_paused = true)]
async fn one_agent_of_a_cluster_says_that_it_lives_and_another_goes_on_where_it_dies() {
    let (store, every) = (MemoryStore::default(), Duration::from_secs(60));
    let receiver = Receiver::new(takes(0), |_| Outcome::delivered());
    let agents = hearts(20, &store, &receiver, every);
    sleep(every * 10 - takes(1)).await;
    let got = receiver.got();
    assert_eq!(got.len(), 10, "{got:?}");
    let first = got[0].1;
    assert!(got.iter().all(|(_, agent)| *agent == first), "{got:?}");

    agents[first].kill();
    sleep(every * 10).await;
    let after: Vec<(u64, usize)> = receiver.got()[10..].to_vec();
    let next = after[0].1;
    assert!(next != first && after.iter().all(|(_, agent)| *agent == next), "{after:?}");
    let silence = after[0].0 - got[9].0;
    assert!(silence <= 60 + 60 + 10 + 5 + 1, "silent for {silence} s");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_not_heard_leaves_saying_that_it_lives_to_others() {
    let (store, every) = (MemoryStore::default(), Duration::from_secs(60));
    let receiver = Receiver::new(takes(0), |agent| match agent {
        0 => Outcome::retry("no route to host"),
        _ => Outcome::delivered(),
    });
    let deaf = hearts(1, &store, &receiver, every);
    sleep(takes(1)).await;
    let others: Vec<Agent> = hearts(3, &store, &receiver, every).into_iter().skip(1).collect();
    sleep(every * 5).await;
    let heard = receiver.got().into_iter().filter(|(_, agent)| *agent != 0).count();
    assert!(heard >= 3, "{:?}", receiver.got());
    drop((deaf, others));
}

#[tokio::test(start_paused = true)]
async fn without_the_store_every_agent_says_that_it_lives() {
    let (store, every) = (MemoryStore::default(), Duration::from_secs(60));
    let receiver = Receiver::new(takes(0), |_| Outcome::delivered());
    let agents = hearts(3, &store, &receiver, every);
    agents.iter().for_each(|agent| agent.store.break_by(Fault::Refuses));
    sleep(takes(1)).await;
    assert_eq!(receiver.got().len(), 3);
}
