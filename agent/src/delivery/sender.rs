//! The sender: takes notices from a channel and gives each to the lanes of its targets. Runs on one current-thread
//! runtime; each lane is a task of its own, so that a slow or stuck target never holds up another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Problem;
use super::backoff::{Backoff, Random, system_random};
use super::digest::Wording;
use super::gate::{Gate, Open};
use super::lane::{Item, Lane, QUEUE_ITEMS};
use super::report::{Progress, Report};
use crate::clock::Clock;
use crate::target::{Notice, Target};

/// Commands that may wait for the sender; whoever finds the channel full keeps the notice in the outbox.
pub const CHANNEL_COMMANDS: usize = 1024;

/// A notice that is to be sent.
#[derive(Debug)]
pub struct Submission {
    /// The notice.
    pub notice: Arc<Notice>,
    /// Names of the targets.
    pub targets: Vec<String>,
    /// Resolves as soon as the notice is in the outbox; none where it is there already. Dropping the other end says that
    /// it will not be.
    pub persisted: Option<oneshot::Receiver<()>>,
    /// When it was handed over; latencies and the wait for the disk count from here.
    pub submitted: Instant,
}

impl Submission {
    /// A notice that is handed over now.
    pub fn new(notice: Arc<Notice>, targets: Vec<String>, persisted: Option<oneshot::Receiver<()>>) -> Self {
        Self { notice, targets, persisted, submitted: Instant::now() }
    }
}

/// What the sender is told.
#[derive(Debug)]
pub enum Command {
    /// Send this.
    Send(Submission),
    /// From now on these are the targets. What waits for one that is still there goes on waiting for it; what waits for one
    /// that is gone has failed, unless the configuration is faulty.
    Replace(Routes),
    /// End. What can be sent within this time is sent; the rest stays in the outbox.
    Stop {
        /// Time to send what waits.
        within: Duration,
    },
}

/// A target and what is done when it refuses.
#[derive(Clone)]
pub struct Route {
    /// The target.
    pub target: Arc<dyn Target>,
    /// Name of the target that is told when this one refuses for good.
    pub fallback: Option<String>,
    /// Whether the user has changed the target since it was used last. Then it is tried at once, whatever came of the
    /// attempts before.
    pub is_changed: bool,
}

impl Route {
    /// To a target that is as it was.
    pub fn new(target: Arc<dyn Target>, fallback: Option<String>) -> Route {
        Route { target, fallback, is_changed: false }
    }

    /// The same, where the user has changed the target.
    pub fn changed(self, is_changed: bool) -> Route {
        Route { is_changed, ..self }
    }
}

impl std::fmt::Debug for Route {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Route").field("target", &self.target.name()).field("fallback", &self.fallback).finish()
    }
}

/// How people are told.
#[derive(Debug, Clone)]
pub struct ForPeople {
    /// The sentences that the delivery itself tells them.
    pub wording: Wording,
    /// Older alerts go out as a digest to targets that take one.
    pub max_age: Duration,
}

impl Default for ForPeople {
    /// English, UTC, an hour.
    fn default() -> Self {
        Self { wording: Wording::default(), max_age: Duration::from_secs(3600) }
    }
}

/// The targets of a configuration, and how people are told.
#[derive(Debug)]
pub struct Routes {
    list: Vec<Route>,
    is_whole: bool,
    for_people: ForPeople,
}

impl Routes {
    /// Those of a configuration that has a fault: a target that is missing here may be back when the fault is mended, so
    /// what is due to it waits.
    pub fn of_faulty(list: Vec<Route>) -> Self {
        Self { is_whole: false, ..Self::from(list) }
    }

    /// The same, with people told so.
    pub fn telling(self, for_people: ForPeople) -> Self {
        Self { for_people, ..self }
    }

    /// The targets.
    pub fn list(&self) -> &[Route] {
        &self.list
    }
}

impl From<Vec<Route>> for Routes {
    /// Those of a sound configuration: a target that is missing here is not wanted any more.
    fn from(list: Vec<Route>) -> Self {
        Self { list, is_whole: true, for_people: ForPeople::default() }
    }
}

/// How the sender works.
#[derive(Clone)]
pub struct SenderSettings {
    /// Waits between attempts.
    pub backoff: Backoff,
    /// How long a notice waits for the disk before it is sent all the same.
    pub disk_wait: Duration,
    /// A notice that could not be delivered for so long is given up.
    pub give_up_after: Duration,
    /// Random numbers for the waits.
    pub random: Random,
    /// Tells the age of an alert.
    pub clock: Arc<dyn Clock>,
    /// Whether this agent is the one that sends.
    pub gate: Arc<dyn Gate>,
}

impl SenderSettings {
    /// The defaults: a second for the disk, seven days until a notice is given up.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            backoff: Backoff::default(),
            disk_wait: Duration::from_secs(1),
            give_up_after: Duration::from_secs(7 * 24 * 3600),
            random: system_random(),
            clock,
            gate: Arc::new(Open),
        }
    }
}

/// What the lanes share.
pub(super) struct Context {
    pub(super) settings: SenderSettings,
    pub(super) report: Arc<dyn Report>,
    /// The moment until which what waits is sent, once the sender is to end.
    pub(super) stop: watch::Receiver<Option<Instant>>,
    for_people: Mutex<Arc<ForPeople>>,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
}

impl Context {
    pub(super) fn lane(&self, name: &str) -> Option<Arc<Lane>> {
        self.lanes.lock().get(name).cloned()
    }

    pub(super) fn for_people(&self) -> Arc<ForPeople> {
        Arc::clone(&self.for_people.lock())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.borrow().is_some()
    }
}

/// Sends until it is told to stop or the channel is closed. Returns the number of notices that still wait.
///
/// Must run inside a tokio runtime with time and network enabled.
pub async fn run(
    routes: impl Into<Routes>,
    settings: SenderSettings,
    report: Arc<dyn Report>,
    mut commands: mpsc::Receiver<Command>,
) -> usize {
    let (stop, stopped) = watch::channel(None);
    let (for_people, lanes) = (Mutex::default(), Mutex::default());
    let context = Arc::new(Context { settings, report, stop: stopped, for_people, lanes });
    let mut sender = Sender {
        context,
        tasks: JoinSet::new(),
        handles: BTreeMap::new(),
        is_disk_silent: false,
        are_routes_whole: true,
        held: BTreeMap::new(),
    };
    sender.replace(routes.into());
    let mut within = Duration::ZERO;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Send(submission) => sender.take(submission).await,
            Command::Replace(routes) => sender.replace(routes),
            Command::Stop { within: time } => {
                within = time;
                break;
            }
        }
    }
    let deadline = Instant::now() + within;
    // The receiver lives in the context.
    let _ = stop.send(Some(deadline));
    sender.drain(deadline).await
}

struct Sender {
    context: Arc<Context>,
    tasks: JoinSet<()>,
    handles: BTreeMap<String, AbortHandle>,
    /// Whether the disk did not answer in time when it was asked last; said once.
    is_disk_silent: bool,
    /// Whether a target that is missing is not wanted, rather than missing by a fault.
    are_routes_whole: bool,
    /// What is due to targets that are missing by a fault, by their names.
    held: BTreeMap<String, VecDeque<Item>>,
}

impl Sender {
    async fn take(&mut self, submission: Submission) {
        let Submission { notice, targets, persisted, submitted } = submission;
        if let Some(persisted) = persisted {
            self.wait_for_disk(persisted, submitted).await;
        }
        let targets: Arc<[String]> = targets.into();
        for name in targets.iter() {
            self.hand_over(name, Item::new(Arc::clone(&notice), Arc::clone(&targets), submitted));
        }
    }

    fn hand_over(&mut self, name: &str, item: Item) {
        match self.context.lane(name) {
            Some(lane) => lane.take_in(item, &self.context),
            None if self.are_routes_whole => {
                let reason = "no target of this name is configured".to_owned();
                self.context.report.report(item.failed_without_a_lane(name, reason));
            }
            None => self.hold(name, item),
        }
    }

    /// Nothing is lost by a secret that is missing at one start: it stays in the outbox, too.
    fn hold(&mut self, name: &str, item: Item) {
        let held = self.held.entry(name.to_owned()).or_default();
        held.push_back(item);
        if held.len() > QUEUE_ITEMS
            && let Some(oldest) = held.pop_front()
        {
            let reason = format!("{QUEUE_ITEMS} notices wait for it while it is disabled; the oldest made room");
            self.context.report.report(oldest.failed_without_a_lane(name, reason));
        }
        if held.len() == 1 {
            self.context.report.report(Progress::Problem(Problem::new(
                format!("target {name}"),
                "alerts wait for it, but it is disabled, or the configuration has an error and does not name it; they are \
                 sent as soon as it works",
            )));
        }
    }

    async fn wait_for_disk(&mut self, persisted: oneshot::Receiver<()>, submitted: Instant) {
        let wait = self.context.settings.disk_wait;
        match timeout_at(submitted + wait, persisted).await {
            Ok(Ok(())) => self.is_disk_silent = false,
            // The disk thread gave up, and has said why.
            Ok(Err(_)) => {}
            Err(_) if self.is_disk_silent => {}
            Err(_) => {
                self.is_disk_silent = true;
                self.context.report.report(Progress::Problem(Problem::new(
                    "outbox",
                    format!(
                        "the disk did not answer within {} ms; alerts are sent all the same, but are lost if this process \
                         ends before they are delivered",
                        wait.as_millis()
                    ),
                )));
            }
        }
    }

    fn replace(&mut self, routes: Routes) {
        *self.context.for_people.lock() = Arc::new(routes.for_people);
        let mut lanes = self.context.lanes.lock();
        let mut gone = std::mem::take(&mut *lanes);
        for route in routes.list {
            let name = route.target.name().to_owned();
            let lane = match gone.remove(&name) {
                Some(lane) => {
                    lane.replace(route);
                    lane
                }
                None => {
                    let lane = Arc::new(Lane::new(route));
                    let task = Arc::clone(&lane).run(Arc::clone(&self.context));
                    self.handles.insert(name.clone(), self.tasks.spawn(task));
                    lane
                }
            };
            lanes.insert(name, lane);
        }
        drop(lanes);
        self.are_routes_whole = routes.is_whole;
        for (name, items) in std::mem::take(&mut self.held) {
            if !routes.is_whole && self.context.lane(&name).is_none() {
                self.held.insert(name, items);
            } else {
                items.into_iter().for_each(|item| self.hand_over(&name, item));
            }
        }
        for (name, lane) in gone {
            if let Some(task) = self.handles.remove(&name) {
                task.abort();
            }
            if routes.is_whole {
                lane.fail_all("the target is no longer configured", &self.context);
            } else {
                lane.take_all().into_iter().for_each(|item| self.hold(&name, item));
            }
        }
    }

    async fn drain(mut self, deadline: Instant) -> usize {
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        // Lanes that are not at their end by then are dropped with the tasks.
        tokio::select! {
            () = ended => {}
            () = sleep_until(deadline) => {}
        }
        // What is not left now, others take once its lease has lapsed.
        let _ = timeout_at(deadline, self.context.settings.gate.leave()).await;
        let mut waiting: BTreeSet<String> =
            self.context.lanes.lock().values().flat_map(|lane| lane.waiting_message_ids()).collect();
        waiting.extend(self.held.values().flatten().map(Item::message_id));
        waiting.len()
    }
}
