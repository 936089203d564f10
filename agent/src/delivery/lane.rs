//! The lane of one target: its notices in order, one attempt at a time, at the target's rate.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::Problem;
use super::digest::{Why, merge};
use super::gate::{End, Permit};
use super::rate::Limiter;
use super::report::Progress;
use super::sender::{Context, Route};
use crate::alert::{Alert, Class};
use crate::target::{Action, Digests, Manner, Notice, Outcome, Repeat, Sending, Target};

/// Notices that may wait in one lane: more than the outbox holds of the smallest ones, so that its bound is the one that
/// counts. A waiting notice takes some 100 bytes here, as the notice itself is shared with the outbox.
pub(super) const QUEUE_ITEMS: usize = if cfg!(test) { 1000 } else { 100_000 };
/// So many waiting notices make a digest even where the rate would let each out.
const CROWD: usize = 5;
/// A send that takes longer is a fault of the target, whose own limit is shorter.
const LONGEST_SEND: Duration = Duration::from_secs(120);
/// Open alerts that are repeated to one receiver.
const REPEATED_ALERTS: usize = 200;

/// A notice in a lane.
#[derive(Debug, Clone)]
pub(super) struct Item {
    notice: Arc<Notice>,
    /// All targets that the notice was due to.
    targets: Arc<[String]>,
    /// Targets that refused it before it came here.
    refused_by: Vec<String>,
    submitted: Instant,
    attempts: u32,
}

impl Item {
    pub(super) fn new(notice: Arc<Notice>, targets: Arc<[String]>, submitted: Instant) -> Self {
        Self { notice, targets, refused_by: Vec::new(), submitted, attempts: 0 }
    }

    pub(super) fn message_id(&self) -> String {
        self.notice.message_id.clone()
    }

    /// Its end where no target of that name takes it.
    pub(super) fn failed_without_a_lane(self, target: &str, reason: String) -> Progress {
        let target = target.to_owned();
        Progress::Failed { notice: self.notice, target, attempts: self.attempts, reason, instead: None }
    }

    fn is_of_the_alert_of(&self, other: &Item) -> bool {
        self.notice.alert.id == other.notice.alert.id
    }

    fn is(&self, other: &Item) -> bool {
        Arc::ptr_eq(&self.notice, &other.notice)
    }
}

/// How long a notice waits at the gate before it is seen again whether what came before it of the same alert is told.
const BEHIND_ITS_ALERT: Duration = Duration::from_secs(1);

/// The lane of one target.
pub(super) struct Lane {
    route: Mutex<Route>,
    queue: Mutex<Queue>,
    /// Items that wait at the gate, for another agent is on them.
    at_gate: Mutex<Vec<Item>>,
    /// What another agent told the target. A receiver that forgets what is not repeated is reminded of it by this one, too:
    /// the other one may be gone.
    told_elsewhere: Mutex<Vec<Arc<Notice>>>,
    /// Whose turn it is to ask the gate first, so that what may go at once goes in order.
    turn: tokio::sync::Mutex<()>,
    /// Items whose first answer of the gate is not there yet.
    asking: AtomicUsize,
    wake: Notify,
    /// Tells a lane that waits after a failure that the user has changed its target.
    replaced: Notify,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Items at the head that are being sent.
    in_flight: usize,
}

/// What one send is about: so many items from the head of the queue, as one notice.
struct Parcel {
    count: usize,
    notice: Arc<Notice>,
}

/// When the lane may send.
struct Pace {
    limiter: Limiter,
    /// Failures in a row.
    failures: u32,
    not_before: Option<Instant>,
    /// Whether the receiver itself asked for the wait.
    is_wish: bool,
}

impl Lane {
    pub(super) fn new(route: Route) -> Self {
        Self {
            route: Mutex::new(route),
            queue: Mutex::default(),
            at_gate: Mutex::default(),
            told_elsewhere: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            asking: AtomicUsize::new(0),
            wake: Notify::new(),
            replaced: Notify::new(),
        }
    }

    /// Sends to another target of the same name from now on.
    pub(super) fn replace(&self, route: Route) {
        let is_changed = route.is_changed;
        *self.route.lock() = route;
        self.wake.notify_one();
        if is_changed {
            self.replaced.notify_waiters();
        }
    }

    /// Takes an item in: it is queued as soon as the gate lets it pass.
    pub(super) fn take_in(self: &Arc<Self>, item: Item, context: &Arc<Context>) {
        if context.settings.gate.is_open() {
            return self.push(item, context);
        }
        // It may come from an outbox and from a claim as well.
        if self.waiting_message_ids().contains(&item.notice.message_id) {
            return;
        }
        let overflow = {
            let mut at_gate = self.at_gate.lock();
            at_gate.push(item.clone());
            (at_gate.len() > QUEUE_ITEMS).then(|| at_gate.remove(0))
        };
        if let Some(oldest) = overflow {
            self.fail(oldest, format!("{QUEUE_ITEMS} notices wait for other agents; the oldest made room"), context);
        }
        self.asking.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(Arc::clone(self).admit(item, Arc::clone(context)));
    }

    /// Waits at the gate. The first questions are asked one after another, so that what may go at once goes in order.
    async fn admit(self: Arc<Self>, item: Item, context: Arc<Context>) {
        let (name, gate) = (self.name(), &context.settings.gate);
        let first = {
            let _turn = self.turn.lock().await;
            let permit = gate.may_send(&item.notice, &name).await;
            let wait = self.obey(permit, &item, &context);
            self.asking.fetch_sub(1, Ordering::Relaxed);
            self.wake.notify_one();
            wait
        };
        let mut next = first;
        let mut stop = context.stop.clone();
        while let Some(wait) = next {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // It stays in the outbox.
                _ = stop.wait_for(Option::is_some) => return,
            }
            let permit = gate.may_send(&item.notice, &name).await;
            next = self.obey(permit, &item, &context);
        }
    }

    /// Does what the gate says with an item that waits there; returns how long it goes on waiting.
    fn obey(&self, permit: Permit, item: &Item, context: &Context) -> Option<Duration> {
        let mut at_gate = self.at_gate.lock();
        // It is gone where the target is, or where it made room.
        let place = at_gate.iter().position(|other| other.is(item))?;
        if let Permit::Wait(wait) = permit {
            return Some(wait);
        }
        // The end of an alert never overtakes what another agent has still to tell of it: nothing would end what is told
        // afterwards. The claim is renewed by asking again.
        if permit == Permit::Go && at_gate[..place].iter().any(|earlier| earlier.is_of_the_alert_of(item)) {
            return Some(BEHIND_ITS_ALERT);
        }
        let item = at_gate.remove(place);
        drop(at_gate);
        match permit {
            Permit::Elsewhere { by } => {
                if self.manner().repeat.is_some() {
                    self.told_elsewhere.lock().push(Arc::clone(&item.notice));
                    self.wake.notify_one();
                }
                context.report.report(Progress::Suppressed { notice: item.notice, target: self.name(), by });
            }
            Permit::Go | Permit::Wait(_) => self.push(item, context),
        }
        None
    }

    /// Asks the gate once more for what is sent next, and sends back to it what another agent has taken meanwhile.
    async fn send_back(self: &Arc<Self>, context: &Arc<Context>) {
        let gate = &context.settings.gate;
        if gate.is_open() {
            return;
        }
        let sends_one = self.manner().digests == Digests::Never;
        let items: Vec<Item> = self.queue.lock().items.iter().cloned().collect();
        for item in items {
            let is_behind = self.at_gate.lock().iter().any(|other| other.is_of_the_alert_of(&item));
            let may_go = !is_behind && gate.may_send(&item.notice, &self.name()).await == Permit::Go;
            if may_go && sends_one {
                return;
            }
            if !may_go && self.remove(&item) {
                self.take_in(item, context);
            }
        }
    }

    fn remove(&self, item: &Item) -> bool {
        let mut queue = self.queue.lock();
        let place = queue.items.iter().position(|other| other.is(item));
        place.and_then(|place| queue.items.remove(place)).is_some()
    }

    /// Queues an item. Where too many wait, the oldest has failed.
    fn push(&self, item: Item, context: &Context) {
        let overflow = {
            let mut queue = self.queue.lock();
            queue.items.push_back(item);
            let oldest_at_rest = queue.in_flight;
            if queue.items.len() > QUEUE_ITEMS { queue.items.remove(oldest_at_rest) } else { None }
        };
        if let Some(oldest) = overflow {
            self.fail(oldest, format!("{QUEUE_ITEMS} notices wait for the target; the oldest made room"), context);
        }
        self.wake.notify_one();
    }

    /// Gives up all that waits.
    pub(super) fn fail_all(&self, reason: &str, context: &Context) {
        for item in self.take_all() {
            self.fail(item, reason.to_owned(), context);
        }
    }

    /// Takes all that waits out of the lane.
    pub(super) fn take_all(&self) -> Vec<Item> {
        let items = std::mem::take(&mut self.queue.lock().items);
        let at_gate = std::mem::take(&mut *self.at_gate.lock());
        items.into_iter().chain(at_gate).collect()
    }

    pub(super) fn waiting_message_ids(&self) -> Vec<String> {
        let (queue, at_gate) = (self.queue.lock(), self.at_gate.lock());
        queue.items.iter().chain(&*at_gate).map(Item::message_id).collect()
    }

    /// Sends what comes in, until the sender stops.
    pub(super) async fn run(self: Arc<Self>, context: Arc<Context>) {
        let mut pace =
            Pace { limiter: Limiter::new(self.manner().rate), failures: 0, not_before: None, is_wish: false };
        let mut told = Told::default();
        let mut heart = Heart::default();
        let mut stop = context.stop.clone();
        loop {
            for notice in std::mem::take(&mut *self.told_elsewhere.lock()) {
                told.remember(notice, self.manner().repeat);
            }
            if self.queue.lock().items.is_empty() {
                if context.is_stopping() && self.asking.load(Ordering::Relaxed) == 0 {
                    return;
                }
                tokio::select! {
                    () = self.wake.notified() => {}
                    _ = stop.changed() => {}
                    () = told.due() => told.repeat(&self.target(), &context).await,
                    () = heart.due(self.manner().beat) => heart.turn(&self.target(), &context).await,
                }
                continue;
            }
            if let Some(at) = pace.not_before.take() {
                // A last attempt before the end needs no pause, unless the receiver asked for it.
                let hurry = async {
                    if pace.is_wish || stop.wait_for(Option::is_some).await.is_err() {
                        std::future::pending::<()>().await;
                    }
                };
                tokio::select! {
                    () = sleep_until(at) => {}
                    () = hurry => {}
                    // What failed may be what was mended.
                    () = self.replaced.notified() => pace.failures = 0,
                }
            }
            pace.limiter.set_rate(self.manner().rate);
            let free_at = pace.limiter.free_at(Instant::now());
            if let Some(at) = free_at {
                sleep_until(at).await;
            }
            let is_crowded = free_at.is_some() || pace.failures > 0;
            self.send_back(&context).await;
            let Some(parcel) = self.next_parcel(is_crowded, &context) else { continue };
            pace.limiter.count(Instant::now());
            let outcome = send(&self.target(), &parcel.notice).await;
            if let Outcome::Delivered { .. } = outcome {
                let sent: Vec<_> =
                    self.queue.lock().items.iter().take(parcel.count).map(|item| Arc::clone(&item.notice)).collect();
                sent.into_iter().for_each(|notice| told.remember(notice, self.manner().repeat));
            }
            let is_retry = matches!(outcome, Outcome::Retry { .. });
            for (notice, end) in self.settle(&parcel, outcome, &mut pace, &context) {
                context.settings.gate.ended(&notice, &self.name(), end).await;
            }
            if is_retry && context.is_stopping() {
                return;
            }
        }
    }

    fn target(&self) -> Arc<dyn Target> {
        Arc::clone(&self.route.lock().target)
    }

    fn manner(&self) -> Manner {
        self.target().manner()
    }

    /// What goes out next; none where the queue was emptied.
    fn next_parcel(&self, is_crowded: bool, context: &Context) -> Option<Parcel> {
        let digests = self.manner().digests;
        let mut queue = self.queue.lock();
        let first = queue.items.front()?;
        let is_old = |item: &Item| is_old(&item.notice.alert, context);
        let (count, why) = if digests == Digests::Never {
            (1, None)
        } else if is_old(first) {
            (queue.items.iter().take_while(|item| is_old(item)).count(), Some(Why::Old))
        } else if digests == Digests::OfBacklog && (is_crowded || queue.items.len() >= CROWD) {
            let count = queue.items.iter().take_while(|item| !is_old(item)).count();
            (count, (count > 1).then_some(Why::Backlog))
        } else {
            (1, None)
        };
        let notices: Vec<_> = queue.items.iter().take(count).map(|item| Arc::clone(&item.notice)).collect();
        let notice = match why {
            Some(why) => merge(&notices, why, &context.for_people().wording),
            None => Arc::clone(&first.notice),
        };
        queue.in_flight = count;
        for item in queue.items.iter_mut().take(count) {
            item.attempts += 1;
        }
        Some(Parcel { count, notice })
    }

    /// Returns what came to its end, for the gate.
    fn settle(
        &self,
        parcel: &Parcel,
        outcome: Outcome,
        pace: &mut Pace,
        context: &Arc<Context>,
    ) -> Vec<(Arc<Notice>, End)> {
        let mut ended = Vec::new();
        match outcome {
            Outcome::Delivered { receipt } => {
                pace.failures = 0;
                for item in self.take(parcel.count) {
                    ended.push((Arc::clone(&item.notice), End::Delivered));
                    context.report.report(Progress::Delivered {
                        notice: item.notice,
                        target: self.name(),
                        attempts: item.attempts,
                        latency_ms: millis(item.submitted.elapsed()),
                        receipt: receipt.clone(),
                    });
                }
            }
            Outcome::Reject { reason } => {
                pace.failures = 0;
                for item in self.take(parcel.count) {
                    ended.push((Arc::clone(&item.notice), End::Refused));
                    self.refuse(item, &reason, context);
                }
            }
            Outcome::Retry { after, reason } => {
                pace.failures = pace.failures.saturating_add(1);
                pace.is_wish = after.is_some();
                let wait = context.settings.backoff.wait(pace.failures, after, &context.settings.random);
                pace.not_before = Some(Instant::now() + wait);
                context.settings.gate.pauses(&self.name(), wait);
                self.keep_or_give_up(parcel.count, &reason, wait, context);
            }
        }
        ended
    }

    /// After a failure: gives up what has waited too long and leaves the rest at the head of the queue.
    fn keep_or_give_up(&self, count: usize, reason: &str, wait: Duration, context: &Context) {
        let give_up_after = context.settings.give_up_after;
        let (given_up, first) = {
            let mut queue = self.queue.lock();
            queue.in_flight = 0;
            let old =
                queue.items.iter().take(count).take_while(|item| item.submitted.elapsed() >= give_up_after).count();
            let given_up: Vec<_> = queue.items.drain(..old).collect();
            (given_up, queue.items.front().filter(|_| old < count).cloned())
        };
        for item in given_up {
            self.fail(item, format!("given up after {} s: {reason}", give_up_after.as_secs()), context);
        }
        // One line an attempt, also for a digest: it is the lane that waits.
        if let Some(first) = first {
            context.report.report(Progress::Retrying {
                notice: first.notice,
                target: self.name(),
                attempts: first.attempts,
                reason: reason.to_owned(),
                next_ms: millis(wait),
            });
        }
    }

    /// After a refusal for good: tells so, and hands the notice to the fallback.
    fn refuse(&self, mut item: Item, reason: &str, context: &Arc<Context>) {
        let name = self.name();
        item.refused_by.push(name.clone());
        let fallback = self
            .route
            .lock()
            .fallback
            .clone()
            // Who gets it anyway, or has refused it, is not told again.
            .filter(|fallback| !item.targets.contains(fallback) && !item.refused_by.contains(fallback));
        let lane = fallback.as_deref().and_then(|fallback| context.lane(fallback));
        context.report.report(Progress::Failed {
            notice: Arc::clone(&item.notice),
            target: name.clone(),
            attempts: item.attempts,
            reason: reason.to_owned(),
            instead: fallback.filter(|_| lane.is_some()),
        });
        let Some(lane) = lane else { return };
        let mut notice = (*item.notice).clone();
        notice.alert.text = format!("{}\n\n{}", notice.alert.text, context.for_people().wording.instead(&name, reason));
        lane.take_in(Item { notice: Arc::new(notice), attempts: 0, ..item }, context);
    }

    fn fail(&self, item: Item, reason: String, context: &Context) {
        context.report.report(Progress::Failed {
            notice: item.notice,
            target: self.name(),
            attempts: item.attempts,
            reason,
            instead: None,
        });
    }

    fn take(&self, count: usize) -> Vec<Item> {
        let mut queue = self.queue.lock();
        queue.in_flight = 0;
        let count = count.min(queue.items.len());
        queue.items.drain(..count).collect()
    }

    fn name(&self) -> String {
        self.target().name().to_owned()
    }
}

/// Alerts that the receiver forgets if they are not repeated.
#[derive(Default)]
struct Told {
    by_alert_id: BTreeMap<String, Repeated>,
    is_failing: bool,
}

struct Repeated {
    notice: Arc<Notice>,
    every: Duration,
    next: Instant,
    until: Instant,
}

impl Told {
    /// Remembers what was delivered just now.
    fn remember(&mut self, notice: Arc<Notice>, repeat: Option<Repeat>) {
        let Some(repeat) = repeat else { return };
        let now = Instant::now();
        let keep_for = match notice.action {
            Action::Raise | Action::Update if !is_drill(&notice.alert) => repeat.open_for,
            Action::Resolve => repeat.resolved_for,
            Action::Raise | Action::Update | Action::Digest => return,
        };
        let repeated = Repeated { every: repeat.every, next: now + repeat.every, until: now + keep_for, notice };
        self.by_alert_id.insert(repeated.notice.alert.id.clone(), repeated);
        while self.by_alert_id.len() > REPEATED_ALERTS {
            let soonest_over = self.by_alert_id.iter().min_by_key(|(_, told)| told.until).map(|(id, _)| id.clone());
            soonest_over.and_then(|id| self.by_alert_id.remove(&id));
        }
    }

    /// Waits until something is to be repeated; for ever where nothing is.
    async fn due(&self) {
        match self.by_alert_id.values().map(|told| told.next).min() {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Repeats what is due.
    async fn repeat(&mut self, target: &Arc<dyn Target>, context: &Context) {
        let now = Instant::now();
        self.by_alert_id.retain(|_, told| told.until > now);
        for told in self.by_alert_id.values_mut().filter(|told| told.next <= now) {
            let outcome = send(target, &told.notice).await;
            told.next = Instant::now() + told.every;
            match outcome {
                Outcome::Delivered { .. } => self.is_failing = false,
                Outcome::Retry { reason, .. } | Outcome::Reject { reason } if !self.is_failing => {
                    self.is_failing = true;
                    let what = format!("repeating alert {} to `{}`", told.notice.alert.id, target.name());
                    context.report.report(Progress::Problem(Problem::new(what, reason)));
                }
                Outcome::Retry { .. } | Outcome::Reject { .. } => {}
            }
        }
    }
}

/// The signs of life that a receiver wants.
#[derive(Default)]
struct Heart {
    /// When it is looked at next; none before the first time.
    next: Option<Instant>,
    is_failing: bool,
}

impl Heart {
    /// Waits until the next beat; the first one is due at once. For ever where none is wanted.
    async fn due(&self, every: Option<Duration>) {
        match (every, self.next) {
            (None, _) => std::future::pending().await,
            (Some(_), None) => {}
            // A shorter interval may have been configured meanwhile.
            (Some(every), Some(next)) => sleep_until(next.min(Instant::now() + every)).await,
        }
    }

    /// Beats, if this agent is the one to do so.
    async fn turn(&mut self, target: &Arc<dyn Target>, context: &Context) {
        let Some(every) = target.manner().beat else { return };
        let gate = &context.settings.gate;
        self.next = Some(Instant::now() + every);
        match gate.may_beat(target.name(), every).await {
            Permit::Go => {}
            Permit::Wait(wait) => {
                self.next = Some(Instant::now() + wait.min(every));
                return;
            }
            Permit::Elsewhere { .. } => return,
        }
        self.beat(target, context).await;
        if self.is_failing {
            gate.beat_failed(target.name()).await;
        }
    }

    async fn beat(&mut self, target: &Arc<dyn Target>, context: &Context) {
        match guard(|| target.beat()).await {
            Outcome::Delivered { .. } => self.is_failing = false,
            Outcome::Retry { reason, .. } | Outcome::Reject { reason } if !self.is_failing => {
                self.is_failing = true;
                let problem = Problem::new(format!("heartbeat `{}`", target.name()), reason);
                context.report.report(Progress::Problem(problem));
            }
            Outcome::Retry { .. } | Outcome::Reject { .. } => {}
        }
    }
}

fn is_drill(alert: &Alert) -> bool {
    alert.drill || alert.class == Class::Test
}

fn is_old(alert: &Alert, context: &Context) -> bool {
    let age = context.settings.clock.now().wall.duration_since(alert.occurred_at);
    SignedDuration::try_from(context.for_people().max_age).is_ok_and(|max_age| age > max_age)
}

/// Sends, and turns a panic or a send without end into an outcome.
async fn send(target: &Arc<dyn Target>, notice: &Notice) -> Outcome {
    guard(|| target.send(notice)).await
}

async fn guard<'a>(start: impl FnOnce() -> Sending<'a>) -> Outcome {
    let Ok(mut sending) = catch_unwind(AssertUnwindSafe(start)) else { return fault() };
    let guarded = poll_fn(|context| {
        catch_unwind(AssertUnwindSafe(|| sending.as_mut().poll(context))).unwrap_or_else(|_| Poll::Ready(fault()))
    });
    match timeout(LONGEST_SEND, guarded).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::retry(format!("the send did not end within {} s", LONGEST_SEND.as_secs())),
    }
}

fn fault() -> Outcome {
    Outcome::reject("a fault in Leaderwatch: this kind of target panicked; please report it")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
