//! The gate of the delivery by claims: puts a claimer's questions to the store, keeps held claims alive, and notes in them
//! how the send ended.
//!
//! A claim is renewed by a task of its own, on the sender's runtime. A store that fails is left alone for a while, in
//! which every agent sends what nobody else is known to be on; that is said once for each outage.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::body::{CLAIM_PREFIX, Claim, Holder, State, beat_name, claim_name};
use super::claimer::{Answer, Claimer, MOST_REFUSALS, Question, Step};
use super::store::{Answering, Store, StoreError, Version, Written};
use crate::clock::Clock;
use crate::delivery::gate::{Asking, End, Gate, Permit};
use crate::delivery::{Problem, Progress, Report};
use crate::target::Notice;

/// How long the store may take for one answer, where it is not said otherwise.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a send may take, where it is not said otherwise.
const SEND: Duration = Duration::from_secs(30);
/// How long a store that failed is left alone.
const OUTAGE: Duration = Duration::from_secs(20);
/// Questions that one call puts before it gives way.
const MOST_QUESTIONS: usize = 8;
/// The least time by which a lease is longer than a send may take.
const LEASE_MARGIN: Duration = Duration::from_secs(5);
/// How often a waiting agent looks, beginning with the first.
const LOOKS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// Time between two clearings.
const CLEARING: Duration = Duration::from_secs(3600);
/// A claim that was seen unchanged for so long is cleared away.
const OLD: Duration = Duration::from_secs(24 * 3600);
/// So is one that is older by its writer's clock: enough for any clock that people can live with.
const OLD_BY_ITS_WRITER: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Claims that one clearing looks at.
const CLEARED: usize = 500;

/// How the gate works.
#[derive(Debug, Clone)]
pub struct GateSettings {
    /// This process.
    pub me: Holder,
    /// How long a claim may stay unrenewed.
    pub lease: Duration,
    /// How long a send to a target may take, by the target's name.
    pub takes: HashMap<String, Duration>,
    /// The same for targets that are not listed.
    pub takes_else: Duration,
    /// How long the store may take for one answer.
    pub patience: Duration,
}

impl GateSettings {
    /// Settings without targets: 30 s for a send, 3 s for the store.
    pub fn new(me: Holder, lease: Duration) -> GateSettings {
        GateSettings { me, lease, takes: HashMap::new(), takes_else: SEND, patience: PATIENCE }
    }
}

/// The gate. Clones share everything. Its calls must come from inside a tokio runtime.
#[derive(Clone)]
pub struct ClaimGate {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    settings: GateSettings,
    clock: Arc<dyn Clock>,
    report: Arc<dyn Report>,
    claims: Mutex<HashMap<String, Arc<Ours>>>,
    outage: Mutex<Outage>,
    clearing: Mutex<Clearing>,
}

/// What this agent knows and does about one claim.
struct Ours {
    name: String,
    target: String,
    lease: Duration,
    takes: Duration,
    /// What is to be delivered; none where it is a sign of life.
    notice: Option<Arc<Notice>>,
    claimer: tokio::sync::Mutex<Claimer>,
    looks: Mutex<u32>,
    renewing: Mutex<Option<AbortHandle>>,
    /// Whether the notice waits for the target to work again.
    is_pausing: AtomicBool,
}

#[derive(Default)]
struct Outage {
    until: Option<Duration>,
    was_told: bool,
}

#[derive(Default)]
struct Clearing {
    last: Option<Duration>,
    seen: HashMap<String, (Version, Duration)>,
}

impl ClaimGate {
    /// A gate by the claims in a store. Problems go to `report`.
    pub fn new(
        store: Arc<dyn Store>,
        settings: GateSettings,
        clock: Arc<dyn Clock>,
        report: Arc<dyn Report>,
    ) -> ClaimGate {
        let shared = Shared {
            store,
            settings,
            clock,
            report,
            claims: Mutex::default(),
            outage: Mutex::default(),
            clearing: Mutex::default(),
        };
        ClaimGate { shared: Arc::new(shared) }
    }

    /// Notices that somebody has claimed and not delivered, with the names of their targets. An agent that starts submits
    /// those whose target it knows to its own sender, as if it had seen the election itself.
    pub async fn unfinished(&self) -> Vec<(Arc<Notice>, String)> {
        let shared = &self.shared;
        let Some(names) = shared.ask(shared.store.list()).await else { return Vec::new() };
        let mut found = Vec::new();
        for name in names.iter().filter(|name| name.starts_with(CLAIM_PREFIX)).take(CLEARED) {
            let Some(entry) = shared.ask(shared.store.read(name)).await else { break };
            let claim = entry.and_then(|entry| Claim::parse(&entry.body));
            let Some(Claim { state: State::Sending | State::Free, notice: Some(notice), target, .. }) = claim else {
                continue;
            };
            found.push((notice, target));
        }
        found
    }
}

impl Gate for ClaimGate {
    fn may_send<'a>(&'a self, notice: &'a Notice, target: &'a str) -> Asking<'a, Permit> {
        Box::pin(self.shared.may_send(notice, target))
    }

    fn ended<'a>(&'a self, notice: &'a Notice, target: &'a str, end: End) -> Asking<'a, ()> {
        Box::pin(async move {
            self.shared.ended(notice, target, end).await;
            self.shared.start_clearing();
        })
    }

    fn may_beat<'a>(&'a self, target: &'a str, every: Duration) -> Asking<'a, Permit> {
        Box::pin(self.shared.may_beat(target, every))
    }

    fn beat_failed<'a>(&'a self, target: &'a str) -> Asking<'a, ()> {
        Box::pin(self.shared.beat_failed(target))
    }

    fn pauses(&self, target: &str, pause: Duration) {
        for ours in self.shared.claims.lock().values().filter(|ours| ours.target == target && pause >= ours.lease) {
            ours.is_pausing.store(true, Ordering::Relaxed);
            ours.stop_renewing();
        }
    }

    fn leave(&self) -> Asking<'_, ()> {
        Box::pin(self.shared.leave())
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.clock.now().monotonic
    }

    async fn may_send(self: &Arc<Self>, notice: &Notice, target: &str) -> Permit {
        let ours = self.ours(notice, target);
        ours.is_pausing.store(false, Ordering::Relaxed);
        let mut claimer = ours.claimer.lock().await;
        claimer.begin();
        for _ in 0..MOST_QUESTIONS {
            match claimer.next(self.now(), ours.takes) {
                Step::Ask(question) => self.put(&ours, &mut claimer, &question).await,
                Step::Go => {
                    ours.looks.lock().clone_from(&0);
                    self.keep_renewing(&ours, &claimer);
                    return Permit::Go;
                }
                Step::Wait(left) => return Permit::Wait(left.min(ours.next_look())),
                Step::Elsewhere { by } => {
                    drop(claimer);
                    self.forget(&ours);
                    return Permit::Elsewhere { by };
                }
            }
        }
        Permit::Wait(ours.next_look())
    }

    fn ours(&self, notice: &Notice, target: &str) -> Arc<Ours> {
        let name = claim_name(&notice.message_id, target);
        let mut claims = self.claims.lock();
        let ours = claims.entry(name.clone()).or_insert_with(|| {
            let takes = self.settings.takes.get(target).copied().unwrap_or(self.settings.takes_else);
            let lease = self.settings.lease.max(takes * 2 + LEASE_MARGIN);
            Arc::new(Ours {
                name,
                target: target.to_owned(),
                lease,
                takes,
                notice: Some(Arc::new(notice.clone())),
                claimer: tokio::sync::Mutex::new(Claimer::new(self.settings.me.clone(), lease)),
                looks: Mutex::new(0),
                renewing: Mutex::new(None),
                is_pausing: AtomicBool::new(false),
            })
        });
        Arc::clone(ours)
    }

    /// The claim on saying to a target that the agents live. It is renewed with each sign of life, by nothing else: the
    /// agent that gives none any more is relieved by another.
    fn beats(&self, target: &str, every: Duration) -> Arc<Ours> {
        let name = beat_name(target);
        let mut claims = self.claims.lock();
        let ours = claims.entry(name.clone()).or_insert_with(|| {
            let takes = every + self.settings.takes.get(target).copied().unwrap_or(self.settings.takes_else);
            let lease = takes + LEASE_MARGIN;
            Arc::new(Ours {
                name,
                target: target.to_owned(),
                lease,
                takes,
                notice: None,
                claimer: tokio::sync::Mutex::new(Claimer::new(self.settings.me.clone(), lease)),
                looks: Mutex::new(0),
                renewing: Mutex::new(None),
                is_pausing: AtomicBool::new(false),
            })
        });
        Arc::clone(ours)
    }

    async fn may_beat(&self, target: &str, every: Duration) -> Permit {
        let ours = self.beats(target, every);
        let mut claimer = ours.claimer.lock().await;
        claimer.begin();
        for _ in 0..MOST_QUESTIONS {
            match claimer.next(self.now(), ours.takes) {
                Step::Ask(question) => self.put(&ours, &mut claimer, &question).await,
                Step::Go => return Permit::Go,
                Step::Wait(left) => return Permit::Wait(left),
                // Somebody wrote something that is no sign of life under its name.
                Step::Elsewhere { by } => return Permit::Elsewhere { by },
            }
        }
        Permit::Wait(every)
    }

    async fn beat_failed(&self, target: &str) {
        let ours = self.claims.lock().remove(&beat_name(target));
        if let Some(ours) = ours {
            self.give_back(&ours).await;
        }
    }

    /// Leaves to others what this agent holds.
    async fn give_back(&self, ours: &Ours) {
        ours.stop_renewing();
        let mut claimer = ours.claimer.lock().await;
        let Some(version) = claimer.held().cloned() else { return };
        let body = self.body(ours, &mut claimer, State::Free);
        // Where it fails, the lease lapses.
        let _ = self.ask(self.store.swap(&ours.name, &version, &body)).await;
        claimer.closed();
    }

    /// Puts a question of a claimer to the store and tells it the answer.
    async fn put(&self, ours: &Ours, claimer: &mut Claimer, question: &Question) {
        let asked = self.now();
        let answer = match question {
            Question::Create => {
                let body = self.body(ours, claimer, State::Sending);
                self.ask(self.store.create(&ours.name, &body)).await.map(of_written)
            }
            Question::Read => self.ask(self.store.read(&ours.name)).await.map(Answer::Found),
            Question::Swap(version) => {
                let body = self.body(ours, claimer, State::Sending);
                self.ask(self.store.swap(&ours.name, version, &body)).await.map(of_written)
            }
        };
        claimer.answered(question, answer.unwrap_or(Answer::Nothing), asked, self.now());
    }

    fn body(&self, ours: &Ours, claimer: &mut Claimer, state: State) -> Vec<u8> {
        let is_open = matches!(state, State::Sending | State::Free);
        Claim {
            schema: 1,
            state,
            holder: self.settings.me.clone(),
            beat: claimer.next_beat(),
            lease_ms: u64::try_from(ours.lease.as_millis()).unwrap_or(u64::MAX),
            target: ours.target.clone(),
            refusals: claimer.refusals(),
            written_at: self.clock.now().wall,
            notice: ours.notice.clone().filter(|_| is_open),
        }
        .to_bytes()
    }

    /// What the store answers; none where it does not, or is left alone since it did not a while ago.
    async fn ask<T>(&self, answering: Answering<'_, T>) -> Option<T> {
        if self.outage.lock().until.is_some_and(|until| self.now() < until) {
            return None;
        }
        let patience = self.settings.patience;
        let answer = timeout(patience, answering)
            .await
            .unwrap_or_else(|_| Err(StoreError::Unreachable(format!("no answer within {} ms", patience.as_millis()))));
        match answer {
            Ok(answer) => {
                self.is_back();
                Some(answer)
            }
            Err(error) => {
                self.is_out(&error);
                None
            }
        }
    }

    fn is_out(&self, error: &StoreError) {
        let mut outage = self.outage.lock();
        outage.until = Some(self.now() + OUTAGE);
        if std::mem::replace(&mut outage.was_told, true) {
            return;
        }
        drop(outage);
        self.tell(format!(
            "{error}; until it works, every agent sends its own alerts, so one election may be told more than once"
        ));
    }

    fn is_back(&self) {
        let mut outage = self.outage.lock();
        outage.until = None;
        if std::mem::take(&mut outage.was_told) {
            drop(outage);
            self.tell("works again; one agent sends for all".to_owned());
        }
    }

    fn tell(&self, reason: String) {
        let what = format!("claim store {}", self.store.describe());
        self.report.report(Progress::Problem(Problem::new(what, reason)));
    }

    /// Starts the task that renews a claim, unless it runs or there is nothing to renew.
    fn keep_renewing(self: &Arc<Self>, ours: &Arc<Ours>, claimer: &Claimer) {
        let mut renewing = ours.renewing.lock();
        if claimer.held().is_none() || renewing.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (shared, ours) = (Arc::clone(self), Arc::clone(ours));
        let task = tokio::spawn(async move {
            loop {
                sleep(ours.lease / 3).await;
                let mut claimer = ours.claimer.lock().await;
                let Some(version) = claimer.held().cloned() else { return };
                if ours.is_pausing.load(Ordering::Relaxed) {
                    return;
                }
                shared.put(&ours, &mut claimer, &Question::Swap(version)).await;
                // An answer that did not come is no reason to give it up.
                if claimer.held().is_none() {
                    return;
                }
            }
        });
        *renewing = Some(task.abort_handle());
    }

    fn forget(&self, ours: &Ours) {
        ours.stop_renewing();
        self.claims.lock().remove(&ours.name);
    }

    async fn ended(self: &Arc<Self>, notice: &Notice, target: &str, end: End) {
        let ours = self.ours(notice, target);
        ours.stop_renewing();
        if !self.note_end(&ours, end).await && end == End::Delivered {
            self.note_later(Arc::clone(&ours));
        }
        self.claims.lock().remove(&ours.name);
    }

    /// Notes the end in the claim, whoever holds it by now; whether that was done.
    async fn note_end(&self, ours: &Ours, end: End) -> bool {
        let mut claimer = ours.claimer.lock().await;
        let mut known = claimer.held().cloned();
        for _ in 0..MOST_QUESTIONS {
            let version = match known.take() {
                Some(version) => Some(version),
                None => match self.ask(self.store.read(&ours.name)).await {
                    None => return false,
                    Some(None) => None,
                    Some(Some(entry)) => {
                        let version = entry.version.clone();
                        claimer.answered(&Question::Read, Answer::Found(Some(entry)), self.now(), self.now());
                        if claimer.is_settled() {
                            return true;
                        }
                        Some(version)
                    }
                },
            };
            let body = self.end_body(ours, &mut claimer, end);
            let written = match &version {
                Some(version) => self.ask(self.store.swap(&ours.name, version, &body)).await,
                None => self.ask(self.store.create(&ours.name, &body)).await,
            };
            match written {
                None => return false,
                Some(Written::Done(_)) => {
                    claimer.closed();
                    return true;
                }
                Some(Written::Refused) => {}
            }
        }
        false
    }

    fn end_body(&self, ours: &Ours, claimer: &mut Claimer, end: End) -> Vec<u8> {
        let refusals = claimer.refusals() + 1;
        match end {
            End::Delivered => self.body(ours, claimer, State::Delivered),
            End::Refused => {
                let state = if refusals < MOST_REFUSALS { State::Free } else { State::Refused };
                let body = self.body(ours, claimer, state);
                let claim = Claim::parse(&body).map(|claim| Claim { refusals, ..claim }.to_bytes());
                claim.unwrap_or(body)
            }
        }
    }

    /// Goes on trying to note a delivery, for as long as that can keep others from sending.
    fn note_later(self: &Arc<Self>, ours: Arc<Ours>) {
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let until = shared.now() + ours.lease + OUTAGE;
            while shared.now() < until && !shared.note_end(&ours, End::Delivered).await {
                sleep(LOOKS.1).await;
            }
        });
    }

    async fn leave(&self) {
        let all: Vec<Arc<Ours>> = self.claims.lock().drain().map(|(_, ours)| ours).collect();
        for ours in all {
            self.give_back(&ours).await;
        }
    }

    fn start_clearing(self: &Arc<Self>) {
        let now = self.now();
        {
            let mut clearing = self.clearing.lock();
            if clearing.last.is_some_and(|last| now.saturating_sub(last) < CLEARING) {
                return;
            }
            clearing.last = Some(now);
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move { shared.clear().await });
    }

    /// Deletes old claims.
    async fn clear(&self) {
        let Some(names) = self.ask(self.store.list()).await else { return };
        let names: Vec<String> = names.into_iter().filter(|name| name.starts_with(CLAIM_PREFIX)).collect();
        self.clearing.lock().seen.retain(|name, _| names.contains(name));
        for name in names.iter().take(CLEARED) {
            let Some(entry) = self.ask(self.store.read(name)).await else { return };
            let Some(entry) = entry else { continue };
            let is_old = self.is_old(name, &entry.version, &entry.body);
            if is_old && self.ask(self.store.delete(name, &entry.version)).await.is_none() {
                return;
            }
        }
    }

    fn is_old(&self, name: &str, version: &Version, body: &[u8]) -> bool {
        let now = self.clock.now();
        let mut clearing = self.clearing.lock();
        let (seen, since) = clearing.seen.entry(name.to_owned()).or_insert_with(|| (version.clone(), now.monotonic));
        if seen != version {
            (*seen, *since) = (version.clone(), now.monotonic);
        }
        let age_by_its_writer = Claim::parse(body).map(|claim| now.wall.duration_since(claim.written_at));
        now.monotonic.saturating_sub(*since) >= OLD || age_by_its_writer.is_some_and(|age| age > OLD_BY_ITS_WRITER)
    }
}

impl Ours {
    fn stop_renewing(&self) {
        if let Some(task) = self.renewing.lock().take() {
            task.abort();
        }
    }

    /// How long to wait until the next look: longer each time, and another time in each agent.
    fn next_look(&self) -> Duration {
        let mut looks = self.looks.lock();
        let wait = (LOOKS.0 * 2u32.saturating_pow(*looks)).min(LOOKS.1).min(self.lease / 3);
        *looks = (*looks + 1).min(16);
        wait.mul_f64(0.75 + fastrand::f64() / 2.0)
    }
}

fn of_written(written: Written) -> Answer {
    match written {
        Written::Done(version) => Answer::Written(version),
        Written::Refused => Answer::Refused,
    }
}
