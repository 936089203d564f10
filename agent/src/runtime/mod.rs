//! Wires the parts on threads of their own; the only place that starts threads.
//!
//! | thread | does | may wait for |
//! |---|---|---|
//! | `lw-dispatch` | reads the configuration, then: board -> elections -> what is due | nothing |
//! | `lw-disk` | alert log, outbox, status and metrics | the disk |
//! | `lw-send` | one current-thread tokio runtime: HTTP and SMTP | the network |
//!
//! Two more threads of tokio's look names up. None is attached to the JVM; all are native, named, have small stacks, and
//! inherit a signal mask that blocks asynchronous signals from whoever calls [`start`].

mod disk;
mod dispatcher;
mod hook_states;
mod metrics;
mod standard_error;
mod status;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use tokio::sync::mpsc;

pub use self::hook_states::{HookState, HookStates};

use self::disk::{Answer, Disk, DiskQueue, DiskSettings, DiskTasks, Task, Writing};
use self::dispatcher::{Dispatcher, LONGEST_STOP, ReportToDisk, Said, Wanting};
use self::status::{LatestStatus, Losses, StatusSettings};
use crate::alert::{AlertSettings, Alerts, OwnTexts, Pauses, Texts};
use crate::clock::{Clock, SystemClock};
use crate::config::{self, Settings, SystemEnvironment};
use crate::delivery::sender::CHANNEL_COMMANDS;
use crate::delivery::{Command, Route, SenderSettings, sender};
use crate::event::{Event, TargetFields};
use crate::journal;
use crate::leadership::{Announcement, Board, Changes, Leader, Observation, SeatKey, SessionId, Verdict};
use crate::process::{JvmFacts, Role};
use crate::target;

/// Enough for reading the configuration and for TLS; of it only what is used becomes resident.
const STACK_BYTES: usize = 512 * 1024;
/// Threads of tokio's that look names up.
const NAME_LOOKUP_THREADS: usize = 2;
/// How long an idle one of these lives.
const NAME_LOOKUP_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The running agent, as the JVM boundary knows it.
pub struct Agent {
    board: Arc<Board>,
    clock: Arc<dyn Clock>,
    stop: Sender<Sender<()>>,
    stopped: AtomicBool,
    status: LatestStatus,
}

/// Starts the agent: its threads read the configuration and do the rest. Never fails and never waits; where no thread can
/// be started it says so on standard error and observations come to nothing.
pub fn start(facts: JvmFacts, role: Role, options: String, hooks: Arc<HookStates>) -> Agent {
    standard_error::install();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (board, changes) = Board::new();
    let board = Arc::new(board);
    let (stop, stop_asked) = bounded(1);
    let status = LatestStatus::default();
    let setup = Setup {
        facts,
        role,
        options,
        hooks,
        board: Arc::clone(&board),
        changes,
        clock: Arc::clone(&clock),
        status: Arc::clone(&status),
    };
    spawn("lw-dispatch", move || setup.run(&stop_asked));
    Agent { board, clock, stop, stopped: AtomicBool::new(false), status }
}

impl Agent {
    /// Takes an announcement of a leader in: none where its id was null. On Flink's thread: a few microseconds, no lock,
    /// no input or output.
    pub fn observe(&self, seat: SeatKey, leader: Option<(SessionId, Option<&str>)>) {
        let leader = leader.map(|(id, address)| Leader { id, address: address.map(Arc::from) });
        self.announce(seat, Announcement::Leader(leader));
    }

    /// Takes Flink's verdict on the ResourceManager in.
    pub fn unreachable(&self, verdict: Verdict) {
        let seat = SeatKey::cluster(crate::leadership::Component::ResourceManager);
        self.announce(seat, Announcement::Unreachable(verdict));
    }

    /// This TaskManager has registered with the ResourceManager.
    pub fn reachable(&self) {
        let seat = SeatKey::cluster(crate::leadership::Component::ResourceManager);
        self.announce(seat, Announcement::Reachable);
    }

    /// A contender in this JobManager was elected.
    pub fn granted(&self, seat: SeatKey, id: SessionId) {
        self.announce(seat, Announcement::Granted(id));
    }

    /// A contender in this JobManager lost its leadership.
    pub fn revoked(&self, seat: SeatKey) {
        self.announce(seat, Announcement::Revoked);
    }

    /// Somebody asks for a thread dump: says on standard output how the agent does, as of at most ten seconds ago.
    pub fn print_status(&self) {
        let status = self.status.load();
        let text = match status.as_deref().map(serde_json::to_string_pretty) {
            Some(Ok(text)) => text,
            Some(Err(_)) | None => "not known yet".to_owned(),
        };
        // Standard output may be closed.
        let _ = writeln!(std::io::stdout().lock(), "Leaderwatch status: {text}");
    }

    fn announce(&self, seat: SeatKey, announcement: Announcement) {
        if !self.stopped.load(Ordering::Acquire) {
            self.board.observe(&Observation { seat, announcement, at: self.clock.now() });
        }
    }

    /// The JVM ends: what waits is sent and written as far as that takes no longer than 2.5 s; the rest is on disk for
    /// the next start. A second call does nothing.
    pub fn stop(&self) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        let (done, ended) = bounded(1);
        if self.stop.try_send(done).is_ok() {
            // Beyond that time the threads are left to the end of the process.
            let _ = ended.recv_timeout(LONGEST_STOP + Duration::from_millis(200));
        }
    }
}

/// What the dispatcher's thread starts with.
struct Setup {
    facts: JvmFacts,
    role: Role,
    options: String,
    hooks: Arc<HookStates>,
    board: Arc<Board>,
    changes: Changes,
    clock: Arc<dyn Clock>,
    status: LatestStatus,
}

impl Setup {
    fn run(self, stop: &Receiver<Sender<()>>) {
        let (settings, problems) = config::load(&self.facts, self.role, &self.options, &SystemEnvironment);
        let (disk, tasks) = DiskQueue::new();
        for problem in problems {
            log::warn!("{problem}");
            self.record(&disk, Event::problem("configuration", problem.to_string()));
        }
        let (texts, bad) = Texts::new(settings.language, settings.time_zone.clone(), OwnTexts::default());
        for template in bad {
            log::warn!("{template}");
            self.record(&disk, Event::problem("configuration", template.to_string()));
        }
        let routes = self.routes(&settings, &disk);
        self.record(&disk, self.started(&settings, &routes));
        let (sender, commands) = mpsc::channel(CHANNEL_COMMANDS);
        let (answers_in, answers) = unbounded();
        let wanting = routes.iter().map(|route| wanting(route, &settings)).collect();
        self.start_disk(&settings, tasks, Arc::clone(disk.losses()), answers_in, sender.clone());
        let sender_ended = self.start_sender(&settings, routes, ReportToDisk(disk.clone()), commands);
        let alert_settings = alert_settings(&settings, Arc::new(texts));
        let dispatcher = Dispatcher {
            alerts: Alerts::new(alert_settings.clone()),
            pauses: Pauses::new(Arc::new(alert_settings)),
            board: self.board,
            changes: self.changes,
            clock: self.clock,
            hooks: self.hooks,
            targets: wanting,
            disk,
            answers,
            sender,
            sender_ended,
            said: Said::default(),
        };
        dispatcher.run(stop);
    }

    fn record(&self, disk: &DiskQueue, event: Event) {
        // The queue is new: there is room.
        disk.push(Task::Record { at: self.clock.now(), event });
    }

    fn started(&self, settings: &Settings, routes: &[Route]) -> Event {
        let hooks = self.hooks.snapshot().into_iter().map(|(class, state)| (class, state.text())).collect();
        let fields =
            |route: &Route| TargetFields { name: route.target.name().to_owned(), kind: route.target.kind().to_owned() };
        Event::AgentStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: self.role,
            java_version: self.facts.java_version.clone(),
            flink_version: settings.observer.flink_version.clone(),
            hooks,
            targets: routes.iter().map(fields).collect(),
        }
    }

    fn routes(&self, settings: &Settings, disk: &DiskQueue) -> Vec<Route> {
        let mut routes = Vec::new();
        let builder = target::Builder::new(Arc::clone(&self.clock));
        for target in &settings.targets {
            match builder.build(target) {
                Ok(built) => routes.push(Route { target: built, fallback: target.fallback.clone() }),
                Err(reason) => {
                    log::warn!("target `{}` is disabled: {reason}", target.name);
                    let what = format!("target {}", target.name);
                    self.record(disk, Event::problem(what, format!("it is disabled: {reason}")));
                }
            }
        }
        routes
    }

    fn start_disk(
        &self,
        settings: &Settings,
        tasks: DiskTasks,
        losses: Arc<Losses>,
        answers: Sender<Answer>,
        sender: mpsc::Sender<Command>,
    ) {
        let state = settings.state.clone().unwrap_or_else(|| std::env::temp_dir().join("leaderwatch"));
        let disk_settings = DiskSettings {
            log: self.log_paths(settings),
            state: state.clone(),
            writing: Writing {
                cluster: settings.cluster.clone(),
                host: settings.observer.host.clone(),
                pid: settings.observer.pid,
            },
            clock: Arc::clone(&self.clock),
            status: StatusSettings {
                state,
                metrics_file: settings.metrics_file.clone(),
                cluster: settings.cluster.clone(),
                observer: settings.observer.clone(),
                hooks: Arc::clone(&self.hooks),
                losses,
                latest: Arc::clone(&self.status),
            },
        };
        spawn("lw-disk", move || Disk::open(disk_settings, answers, sender).run(tasks));
    }

    fn log_paths(&self, settings: &Settings) -> Vec<PathBuf> {
        let (log_file, tmpdir) = (self.facts.log_file.as_deref(), self.facts.tmpdir.as_deref());
        let mut paths = journal::candidate_paths(settings.log.as_deref(), log_file, tmpdir);
        paths.dedup();
        paths
    }

    /// Starts the sender; what is returned is told when it has ended.
    fn start_sender(
        &self,
        settings: &Settings,
        routes: Vec<Route>,
        report: ReportToDisk,
        commands: mpsc::Receiver<Command>,
    ) -> Receiver<()> {
        let (ended, has_ended) = bounded(1);
        let mut sender_settings = SenderSettings::new(Arc::clone(&self.clock));
        sender_settings.max_age = settings.alert.max_age;
        spawn("lw-send", move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(NAME_LOOKUP_THREADS)
                .thread_keep_alive(NAME_LOOKUP_KEEP_ALIVE)
                .thread_name("lw-names")
                .thread_stack_size(STACK_BYTES)
                .build();
            match runtime {
                Ok(runtime) => {
                    runtime.block_on(sender::run(routes, sender_settings, Arc::new(report), commands));
                    // Dropping it would wait for a name look-up that hangs.
                    runtime.shutdown_background();
                }
                Err(error) => log::error!("nothing can be sent: {error}"),
            }
            // The dispatcher may be gone already.
            let _ = ended.send(());
        });
        has_ended
    }
}

fn wanting(route: &Route, settings: &Settings) -> Wanting {
    let name = route.target.name();
    let classes = settings.targets.iter().find(|target| target.name == name).map(|target| target.classes.clone());
    Wanting {
        name: name.to_owned(),
        classes: classes.unwrap_or_default(),
        updates_in_place: route.target.manner().updates_in_place,
    }
}

fn alert_settings(settings: &Settings, texts: Arc<Texts>) -> AlertSettings {
    AlertSettings {
        cluster: settings.cluster.clone(),
        namespace: settings.namespace.clone(),
        labels: settings.labels.clone(),
        group_wait: settings.alert.group_wait,
        group_interval: settings.alert.group_interval,
        no_leader_after: settings.alert.no_leader_after,
        resolve_after: settings.alert.resolve_after,
        one_id_for_all: settings.observer.flink_version.as_deref().is_some_and(has_one_id_for_all),
        observer: settings.observer.clone(),
        texts,
    }
}

/// From Flink 1.15 on one election gives all components of a JobManager one session id (FLINK-24038).
fn has_one_id_for_all(flink_version: &str) -> bool {
    let mut numbers = flink_version.split('.').map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    (major, minor) >= (1, 15)
}

/// Starts a native thread. One that panics ends alone and says so.
fn spawn(name: &'static str, work: impl FnOnce() + Send + 'static) {
    let guarded = move || {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            log::error!("the thread {name} ended by a fault of the agent; Flink is not concerned");
        }
    };
    let spawned = thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES).spawn(guarded);
    if let Err(error) = spawned {
        log::error!("the thread {name} cannot be started: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_for_all_comes_with_flink_1_15() {
        for version in ["1.15.0", "1.20.5", "2.0.2", "2.3.0", "10.0"] {
            assert!(has_one_id_for_all(version), "{version}");
        }
        for version in ["1.9.3", "1.14.6", "1.14-SNAPSHOT", "unknown", ""] {
            assert!(!has_one_id_for_all(version), "{version}");
        }
    }
}
