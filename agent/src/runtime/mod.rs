//! Wires the parts on threads of their own; the only place that starts threads.
//!
//! | thread | does | may wait for |
//! |---|---|---|
//! | `lw-dispatch` | reads the configuration, then: board -> elections -> what is due | nothing |
//! | `lw-disk` | alert log, outbox, status and metrics | the disk |
//! | `lw-send` | one current-thread tokio runtime: HTTP, SMTP, the claim store | the network |
//!
//! Two more threads of tokio's look names up. None is attached to the JVM; all are native, named, have small stacks, and
//! inherit a signal mask that blocks asynchronous signals from whoever calls [`start`].

mod claims;
mod configuration;
mod disk;
mod dispatcher;
mod hook_states;
mod metrics;
mod remembering;
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

use self::configuration::{Configuration, NewOptions};
use self::disk::{Answer, Disk, DiskQueue, DiskSettings, DiskTasks, Task, Writing, complain};
use self::dispatcher::{Dispatcher, LONGEST_STOP, ReportToDisk, Said, Stop};
use self::remembering::{MOST_ASKS, Remembering};
use self::status::{LatestStatus, Losses, StatusSettings};
use crate::alert::{Alerts, Pauses};
use crate::claim::ClaimGate;
use crate::clock::{Clock, SystemClock};
use crate::config::{Settings, SystemEnvironment};
use crate::delivery::sender::CHANNEL_COMMANDS;
use crate::delivery::{Command, Report, Routes, SenderSettings, sender};
use crate::event::{Event, TargetFields};
use crate::job_names::JobNames;
use crate::journal;
use crate::leadership::{Announcement, Board, Changes, JobId, Leader, Observation, SeatKey, SessionId, Verdict};
use crate::process::{JvmFacts, Role};

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
    stop: Sender<Stop>,
    stopped: AtomicBool,
    status: LatestStatus,
    new_options: NewOptions,
    job_names: Arc<JobNames>,
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
    let (new_options, job_names) = (NewOptions::default(), Arc::<JobNames>::default());
    let setup = Setup {
        facts,
        role,
        options,
        new_options: Arc::clone(&new_options),
        job_names: Arc::clone(&job_names),
        hooks,
        board: Arc::clone(&board),
        changes,
        clock: Arc::clone(&clock),
        status: Arc::clone(&status),
    };
    spawn("lw-dispatch", move || setup.run(&stop_asked));
    Agent { board, clock, stop, stopped: AtomicBool::new(false), status, new_options, job_names }
}

impl Agent {
    /// Takes an announcement of a leader in: none where its id was null. On Flink's thread: a few microseconds, no lock,
    /// no input or output.
    pub fn observe(&self, seat: SeatKey, leader: Option<(SessionId, Option<&str>)>) {
        let leader = leader.map(|(id, address)| Leader { id, address: address.map(Arc::from) });
        self.announce(seat, Announcement::Leader(leader));
    }

    /// Whether to announce that leader would change nothing. On Flink's thread: less than a microsecond, no lock.
    pub fn is_led_by(&self, seat: SeatKey, id: SessionId) -> bool {
        self.board.is_led_by(seat, id)
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

    /// Flink tells what a job is called. On Flink's thread, without a lock.
    pub fn job_named(&self, job: JobId, name: &str) {
        self.job_names.note(job, name);
    }

    /// Somebody gives other options: within ten seconds they take effect as a whole, or are refused and the log says why.
    pub fn set_options(&self, options: String) {
        *self.new_options.lock() = Some(options);
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
    /// the next start. A second call does nothing. `in_order` says that somebody asked for it, so that whoever takes the
    /// leadership over from this process is expected.
    pub fn stop(&self, in_order: bool) {
        if self.stopped.swap(true, Ordering::AcqRel) {
            return;
        }
        let (done, ended) = bounded(1);
        if self.stop.try_send(Stop { in_order, done }).is_ok() {
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
    new_options: NewOptions,
    job_names: Arc<JobNames>,
    hooks: Arc<HookStates>,
    board: Arc<Board>,
    changes: Changes,
    clock: Arc<dyn Clock>,
    status: LatestStatus,
}

impl Setup {
    fn run(self, stop: &Receiver<Stop>) {
        let Setup { facts, role, options, new_options, job_names, hooks, board, changes, clock, status } = self;
        let (configuration, configured) =
            Configuration::read(facts, role, options, new_options, job_names, Arc::clone(&clock));
        let (disk, tasks) = DiskQueue::new();
        let record = |event: Event| {
            // The queue is new: there is room.
            disk.push(Task::Record { at: clock.now(), event });
        };
        record(started(&configuration, role, &hooks, configured.targets()));
        let problems = configured.problem_texts();
        for problem in configured.problems {
            complain(&problem);
            record(problem);
        }
        let (sender, commands) = mpsc::channel(CHANNEL_COMMANDS);
        let (answers_in, answers) = unbounded();
        let report: Arc<dyn Report> = Arc::new(ReportToDisk(disk.clone()));
        let sender_settings = SenderSettings::new(Arc::clone(&clock));
        let store = claims::store(configuration.settings(), &SystemEnvironment, &report);
        let gate = store.clone().map(|store| claims::gate(store, configuration.settings(), &clock, &report));
        let remembering = Remembering {
            memory: claims::memory(store, configuration.settings()),
            remember_for: configuration.settings().alert.remember_for,
            board: Arc::clone(&board),
            answers: answers_in.clone(),
            report: Arc::clone(&report),
        };
        let (memory, asks) = mpsc::channel(MOST_ASKS);
        let status = status_settings(configuration.settings(), &hooks, disk.losses(), status, problems);
        start_disk(configuration, tasks, status, answers_in, sender.clone(), Arc::clone(&clock));
        let (routes, way_in) = (configured.routes, sender.clone());
        let remember = remembering.run(asks);
        let sender_ended = start_sender(routes, sender_settings, gate, report, (way_in, commands), remember);
        let dispatcher = Dispatcher {
            alerts: Alerts::new(configured.alerts.clone()),
            pauses: Pauses::new(Arc::new(configured.alerts)),
            board,
            changes,
            clock,
            hooks,
            targets: configured.wanting,
            disk,
            answers,
            sender,
            sender_ended,
            memory,
            said: Said::default(),
        };
        dispatcher.run(stop);
    }
}

fn started(configuration: &Configuration, role: Role, hooks: &HookStates, targets: Vec<TargetFields>) -> Event {
    let hooks = hooks.snapshot().into_iter().map(|(class, state)| (class, state.text())).collect();
    Event::AgentStarted {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        role,
        java_version: configuration.facts().java_version.clone(),
        flink_version: configuration.settings().observer.flink_version.clone(),
        hooks,
        targets,
    }
}

fn start_disk(
    configuration: Configuration,
    tasks: DiskTasks,
    status: StatusSettings,
    answers: Sender<Answer>,
    sender: mpsc::Sender<Command>,
    clock: Arc<dyn Clock>,
) {
    let settings = configuration.settings();
    let disk_settings = DiskSettings {
        log: log_paths(settings, configuration.facts()),
        state: state_folder(settings),
        writing: Writing {
            cluster: settings.cluster.clone(),
            host: settings.observer.host.clone(),
            pid: settings.observer.pid,
        },
        clock,
        status,
    };
    spawn("lw-disk", move || Disk::open(disk_settings, configuration, answers, sender).run(tasks));
}

fn status_settings(
    settings: &Settings,
    hooks: &Arc<HookStates>,
    losses: &Arc<Losses>,
    latest: LatestStatus,
    problems: Vec<String>,
) -> StatusSettings {
    StatusSettings {
        state: state_folder(settings),
        metrics_file: settings.metrics_file.clone(),
        cluster: settings.cluster.clone(),
        observer: settings.observer.clone(),
        hooks: Arc::clone(hooks),
        losses: Arc::clone(losses),
        problems,
        latest,
    }
}

fn state_folder(settings: &Settings) -> PathBuf {
    settings.state.clone().unwrap_or_else(|| std::env::temp_dir().join("leaderwatch"))
}

fn log_paths(settings: &Settings, facts: &JvmFacts) -> Vec<PathBuf> {
    let (log_file, tmpdir) = (facts.log_file.as_deref(), facts.tmpdir.as_deref());
    let mut paths = journal::candidate_paths(settings.log.as_deref(), log_file, tmpdir);
    paths.dedup();
    paths
}

/// Starts the sender; what is returned is told when it has ended.
fn start_sender(
    routes: Routes,
    mut settings: SenderSettings,
    gate: Option<ClaimGate>,
    report: Arc<dyn Report>,
    (way_in, commands): (mpsc::Sender<Command>, mpsc::Receiver<Command>),
    remember: impl Future<Output = ()> + Send + 'static,
) -> Receiver<()> {
    let (ended, has_ended) = bounded(1);
    if let Some(gate) = &gate {
        settings.gate = Arc::new(gate.clone());
    }
    let targets = routes.list().iter().map(|route| route.target.name().to_owned()).collect();
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
                if let Some(gate) = gate {
                    runtime.spawn(claims::take_unfinished(gate, targets, way_in));
                }
                runtime.block_on(async {
                    let remembering = tokio::spawn(remember);
                    sender::run(routes, settings, report, commands).await;
                    // It ends with the sender; a fault in it is its own.
                    let _ = remembering.await;
                });
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
