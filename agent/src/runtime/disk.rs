//! The disk thread: the only one that touches the disk. It writes the alert log and keeps the outbox.
//!
//! Everything that must be on disk comes as a [`Task`] through one queue, in the order in which it happened. A disk that
//! does not answer holds up this thread and no other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::configuration::{Configuration, Configured, Reloaded};
use super::dispatcher::Wanting;
use super::status::{Account, DiskFacts, Losses, StatusSettings};
use crate::alert::AlertSettings;
use crate::clock::{Clock, Moment};
use crate::delivery::{Bounds, Command, Entry, Outbox, Problem, Progress, Submission};
use crate::event::{Event, Record};
use crate::journal::{self, Writer};
use crate::leadership::{Leader, SeatKey, SessionId};
use crate::pause::{self, Pause};
use crate::target::Notice;

/// Name of the folder of the outboxes, in the state folder.
const OUTBOX_FOLDER: &str = "outbox";
/// How many tasks may wait. Beyond it records are left out and counted; alerts are sent all the same.
const MOST_WAITING: usize = 250_000;
/// How often what dead processes left is looked for, what could not be written is tried again, and the configuration is
/// looked at.
const ROUND: Duration = Duration::from_secs(10);
/// How often the pause file is looked at.
const PAUSE_EVERY: Duration = Duration::from_secs(3);

/// Work for the disk thread.
pub enum Task {
    /// A line for the alert log.
    Record {
        /// When it happened.
        at: Moment,
        /// What happened.
        event: Event,
    },
    /// A part of an open election; answered by [`Answer::Saved`].
    Save {
        /// Name of the part.
        key: String,
        /// Its content.
        body: Value,
    },
    /// A notice that is due to targets.
    Due {
        /// The notice.
        notice: Arc<Notice>,
        /// Names of the targets.
        targets: Vec<String>,
        /// Parts of the election that it stands for, which may be forgotten with it.
        saved: Vec<String>,
        /// Resolves once it is on disk; dropped where it cannot be.
        persisted: oneshot::Sender<()>,
    },
    /// Parts of elections that need no alert.
    Forget {
        /// Names of the parts.
        saved: Vec<String>,
    },
    /// What the sender reports.
    Progress(Progress),
    /// A submission that did not fit into the sender's channel.
    Submit(Submission),
    /// The process ends: write what waits, say how many alerts are pending, and answer.
    Stop {
        /// Answered when all is written.
        done: Sender<()>,
    },
}

/// What the disk thread tells the dispatcher.
pub enum Answer {
    /// A part of an election is on disk.
    Saved(String),
    /// What a dead process had saved and not finished.
    Recovered(Vec<(String, Value)>),
    /// What a dead process told, and could not deliver.
    Inherited(Arc<Notice>),
    /// The configuration has changed.
    Reconfigured {
        /// The targets.
        wanting: Vec<Wanting>,
        /// What alerts need to know.
        alerts: Box<AlertSettings>,
    },
    /// The pause file has changed; none: it is gone.
    Pause(Option<Pause>),
    /// A seat's first leader came after another, which this process never saw.
    MovedBefore {
        /// The seat.
        seat: SeatKey,
        /// The leader before.
        old: Leader,
        /// The leader.
        new: Leader,
        /// When it was announced.
        at: Moment,
    },
    /// The process of this leader ended in order.
    EndedInOrder(SessionId),
}

/// The way to the disk thread.
#[derive(Clone)]
pub struct DiskQueue {
    tasks: Sender<Task>,
    waiting: Arc<AtomicUsize>,
    losses: Arc<Losses>,
}

impl DiskQueue {
    /// The queue and the disk thread's end of it.
    pub fn new() -> (DiskQueue, DiskTasks) {
        let (sender, receiver) = unbounded();
        let waiting = Arc::new(AtomicUsize::new(0));
        let losses = Arc::default();
        (DiskQueue { tasks: sender, waiting: waiting.clone(), losses }, DiskTasks { tasks: receiver, waiting })
    }

    /// What is lost on the way to the disk.
    pub fn losses(&self) -> &Arc<Losses> {
        &self.losses
    }

    /// Queues a task, without ever waiting; false where too many wait, and the task is dropped.
    pub fn push(&self, task: Task) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if matches!(task, Task::Record { .. } | Task::Progress(_)) {
                self.losses.add_record();
            }
            return false;
        }
        self.tasks.send(task).is_ok()
    }
}

/// The disk thread's end of the queue.
pub struct DiskTasks {
    tasks: Receiver<Task>,
    waiting: Arc<AtomicUsize>,
}

impl DiskTasks {
    fn next(&self, timeout: Duration) -> Result<Task, RecvTimeoutError> {
        let task = self.tasks.recv_timeout(timeout)?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Ok(task)
    }
}

/// What each record says of the process that wrote it.
#[derive(Debug, Clone)]
pub struct Writing {
    /// Name of the Flink cluster.
    pub cluster: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
}

/// What the disk thread works with.
pub struct DiskSettings {
    /// Where the alert log may be, best first.
    pub log: Vec<PathBuf>,
    /// Folder of this user, namespace and cluster.
    pub state: PathBuf,
    /// Who writes.
    pub writing: Writing,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What the agent says of itself.
    pub status: StatusSettings,
}

/// The disk thread's state.
pub struct Disk {
    account: Account,
    pause: PauseWatch,
    journal: Writer,
    outbox: Outbox,
    writing: Writing,
    clock: Arc<dyn Clock>,
    configuration: Configuration,
    answers: Sender<Answer>,
    sender: mpsc::Sender<Command>,
}

impl Disk {
    /// Opens the alert log and the outbox.
    pub fn open(
        settings: DiskSettings,
        configuration: Configuration,
        answers: Sender<Answer>,
        sender: mpsc::Sender<Command>,
    ) -> Disk {
        let (journal, log_problem) = Writer::open(journal::Settings::new(settings.log));
        let (state, outbox, outbox_problems) = open_outbox(settings.state, &journal);
        let DiskSettings { writing, clock, mut status, .. } = settings;
        status.state.clone_from(&state);
        let pause = PauseWatch { folder: state, known: None, failing: false };
        let account = Account::new(status, clock.now());
        let mut disk = Disk { account, pause, journal, outbox, writing, clock, configuration, answers, sender };
        if let Some(problem) = log_problem {
            disk.complain(problem.to_event());
        }
        disk.report(outbox_problems);
        disk
    }

    /// Works until it is told to stop.
    pub fn run(mut self, tasks: DiskTasks) {
        self.look_at_pause();
        self.take_orphans();
        let mut pause_due = self.clock.now().monotonic + PAUSE_EVERY;
        let mut round_ends = self.clock.now().monotonic + ROUND;
        loop {
            let now = self.clock.now().monotonic;
            if now >= round_ends {
                self.round();
                round_ends = now + ROUND;
            }
            if now >= self.account.next_write() {
                self.write_status();
            }
            if now >= pause_due {
                self.look_at_pause();
                if self.configuration.has_new_options() {
                    self.look_at_configuration();
                }
                pause_due = now + PAUSE_EVERY;
            }
            let next = round_ends.min(pause_due).min(self.account.next_write());
            match tasks.next(next.saturating_sub(now)) {
                Ok(Task::Stop { done }) => return self.stop(&tasks, &done),
                Ok(task) => self.work(task),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn round(&mut self) {
        let problems = self.outbox.heal();
        self.report(problems);
        self.take_orphans();
        self.look_at_configuration();
    }

    fn look_at_configuration(&mut self) {
        let problems = match self.configuration.look() {
            None => return,
            Some(Reloaded::Refused(problems)) => problems,
            Some(Reloaded::Taken(configured)) => {
                self.record_event(Event::AgentReconfigured { targets: configured.targets() });
                self.account.reconfigured(configured.problem_texts());
                let Configured { routes, wanting, alerts, problems, standing: _ } = *configured;
                // A sender or a dispatcher that has ended needs no targets.
                let _ = self.sender.blocking_send(Command::Replace(routes));
                let _ = self.answers.send(Answer::Reconfigured { wanting, alerts: Box::new(alerts) });
                problems
            }
        };
        for problem in problems {
            self.complain(problem);
        }
    }

    fn work(&mut self, task: Task) {
        match task {
            Task::Record { at, event } => self.record(at, event),
            Task::Save { key, body } => {
                let entry = Entry::OpenElection { key: key.clone(), body };
                if self.append(&[entry]) {
                    // The dispatcher lives as long as this thread; where it does not, nobody waits.
                    let _ = self.answers.send(Answer::Saved(key));
                }
            }
            Task::Due { notice, targets, saved, persisted } => self.due(notice, targets, saved, persisted),
            Task::Forget { saved } => {
                let entries: Vec<Entry> = saved.into_iter().map(|key| Entry::CloseElection { key }).collect();
                self.append(&entries);
            }
            Task::Progress(progress) => self.progress(&progress),
            Task::Submit(submission) => self.submit(submission),
            Task::Stop { .. } => {}
        }
    }

    fn due(&mut self, notice: Arc<Notice>, targets: Vec<String>, saved: Vec<String>, persisted: oneshot::Sender<()>) {
        let closed = saved.into_iter().map(|key| Entry::CloseElection { key });
        let due = (!targets.is_empty()).then(|| Entry::Due { notice, targets, queued_at: self.clock.now().wall });
        let entries: Vec<Entry> = due.into_iter().chain(closed).collect();
        if self.append(&entries) {
            // The sender may have stopped waiting.
            let _ = persisted.send(());
        }
    }

    fn progress(&mut self, progress: &Progress) {
        if let Progress::Problem(problem) = progress {
            return self.complain(problem.clone().into());
        }
        self.record_event(progress.to_event());
        if let Some(entry) = progress.to_entry() {
            self.append(&[entry]);
        }
    }

    fn take_orphans(&mut self) {
        let adopted = self.outbox.take_orphans(self.clock.now().wall);
        self.report(adopted.problems);
        for pending in adopted.notices {
            // The dispatcher lives as long as this thread; where it does not, nobody waits.
            let _ = self.answers.send(Answer::Inherited(Arc::clone(&pending.notice)));
            self.submit(Submission::new(pending.notice, pending.targets.into_iter().collect(), None));
        }
        if !adopted.elections.is_empty() {
            // As above.
            let _ = self.answers.send(Answer::Recovered(adopted.elections));
        }
    }

    /// Waits for a place in the sender's channel: the sender takes what comes at once, and a second later at the most.
    fn submit(&mut self, submission: Submission) {
        // A sender that has stopped leaves it in the outbox.
        let _ = self.sender.blocking_send(Command::Send(submission));
    }

    fn append(&mut self, entries: &[Entry]) -> bool {
        if entries.is_empty() {
            return true;
        }
        let (durable, problems) = self.outbox.append(entries, self.clock.now().wall);
        self.report(problems);
        durable
    }

    fn report(&mut self, problems: Vec<Problem>) {
        for problem in problems {
            self.complain(problem.into());
        }
    }

    /// Says a problem on standard error and in the alert log.
    fn complain(&mut self, problem: Event) {
        complain(&problem);
        self.record_event(problem);
    }

    fn record_event(&mut self, event: Event) {
        self.record(self.clock.now(), event);
    }

    fn look_at_pause(&mut self) {
        match self.pause.changed() {
            // As above.
            Ok(Some(pause)) => drop(self.answers.send(Answer::Pause(pause))),
            Ok(None) => {}
            Err(problem) => self.report(vec![problem]),
        }
    }

    fn write_status(&mut self) {
        let disk = DiskFacts {
            log: self.journal.path().map(Path::to_owned),
            missing_records: self.journal.missing(),
            pending: self.outbox.pending().count() as u64,
            oldest_at: self.outbox.pending().map(|pending| pending.queued_at).min(),
        };
        let problems = self.account.write(&disk, self.clock.now());
        self.report(problems);
    }

    fn record(&mut self, at: Moment, event: Event) {
        self.account.take(at, &event);
        let Writing { cluster, host, pid } = self.writing.clone();
        let written = self.journal.append(&Record { ts: at.wall, event, cluster, host, pid });
        if let Err(problem) = written {
            complain(&problem.to_event());
        }
    }

    fn stop(mut self, tasks: &DiskTasks, done: &Sender<()>) {
        while let Ok(task) = tasks.next(Duration::ZERO) {
            self.work(task);
        }
        let pending = self.outbox.pending().count() as u64;
        self.record_event(Event::AgentStopped { pending });
        self.outbox.close();
        self.account.clear_away();
        // Whoever waits may have given up.
        let _ = done.send(());
    }
}

/// Opens the outbox in the state folder; where that cannot be written, beside the alert log that could be opened. Returns
/// the folder, too.
fn open_outbox(state: PathBuf, journal: &Writer) -> (PathBuf, Outbox, Vec<Problem>) {
    let (outbox, problems) = Outbox::open(&state.join(OUTBOX_FOLDER), Bounds::default());
    if outbox.is_durable() {
        return (state, outbox, problems);
    }
    let beside_log = journal.path().and_then(Path::parent).zip(state.file_name());
    let Some((log_folder, cluster)) = beside_log else { return (state, outbox, problems) };
    let other_state = log_folder.join("leaderwatch").join(cluster);
    let (other, other_problems) = Outbox::open(&other_state.join(OUTBOX_FOLDER), Bounds::default());
    if !other.is_durable() {
        return (state, outbox, problems);
    }
    let reason = format!("{} is used instead of {}, which cannot be written", other_state.display(), state.display());
    (other_state, other, std::iter::once(Problem::new("state", reason)).chain(other_problems).collect())
}

/// Says a problem on standard error.
pub fn complain(problem: &Event) {
    if let Event::AgentProblem { what, reason } = problem {
        log::warn!("{what}: {reason}");
    }
}

/// Looks whether somebody has written another pause.
struct PauseWatch {
    folder: PathBuf,
    known: Option<Pause>,
    /// Whether it could not be read when it was tried last; said once.
    failing: bool,
}

impl PauseWatch {
    /// What it is now, if that is something else than before. A file that cannot be read changes nothing.
    fn changed(&mut self) -> Result<Option<Option<Pause>>, Problem> {
        let read = Pause::read(&self.folder);
        let was_failing = std::mem::replace(&mut self.failing, read.is_err());
        match read {
            Ok(pause) if pause == self.known => Ok(None),
            Ok(pause) => {
                self.known.clone_from(&pause);
                Ok(Some(pause))
            }
            Err(_) if was_failing => Ok(None),
            Err(error) => {
                let file = self.folder.join(pause::FILE_NAME);
                let reason =
                    format!("{} cannot be read: {error}; alerts are sent; use `leaderwatch pause`", file.display());
                Err(Problem::new("pause", reason))
            }
        }
    }
}
