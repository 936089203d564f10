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
use crate::alert::{Alert, AlertSettings};
use crate::clock::{Clock, Moment};
use crate::delivery::{Bounds, Command, Entry, Outbox, Problem, Progress, Submission};
use crate::event::{Event, Record};
use crate::journal::{self, Writer};
use crate::target::Notice;

/// How many tasks may wait. Beyond it records are left out and counted; alerts are sent all the same.
const MOST_WAITING: usize = 250_000;
/// How often what dead processes left is looked for, what could not be written is tried again, and the configuration is
/// looked at.
const ROUND: Duration = Duration::from_secs(10);

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
    /// The configuration has changed.
    Reconfigured {
        /// The targets.
        wanting: Vec<Wanting>,
        /// What alerts need to know.
        alerts: Box<AlertSettings>,
    },
}

/// The way to the disk thread.
#[derive(Clone)]
pub struct DiskQueue {
    tasks: Sender<Task>,
    waiting: Arc<AtomicUsize>,
}

impl DiskQueue {
    /// The queue and the disk thread's end of it.
    pub fn new() -> (DiskQueue, DiskTasks) {
        let (sender, receiver) = unbounded();
        let waiting = Arc::new(AtomicUsize::new(0));
        (DiskQueue { tasks: sender, waiting: waiting.clone() }, DiskTasks { tasks: receiver, waiting })
    }

    /// Queues a task, without ever waiting; false where too many wait, and the task is dropped.
    pub fn push(&self, task: Task) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
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
    /// Folder of the outboxes of this user, namespace and cluster.
    pub outbox: PathBuf,
    /// Who writes.
    pub writing: Writing,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// The disk thread's state.
pub struct Disk {
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
        let (outbox, outbox_problems) = open_outbox(&settings.outbox, &journal);
        let mut disk =
            Disk { journal, outbox, writing: settings.writing, clock: settings.clock, configuration, answers, sender };
        if let Some(problem) = log_problem {
            disk.complain(problem.to_event());
        }
        disk.report(outbox_problems);
        disk
    }

    /// Works until it is told to stop.
    pub fn run(mut self, tasks: DiskTasks) {
        self.take_orphans();
        let mut round_ends = self.clock.now().monotonic + ROUND;
        loop {
            let now = self.clock.now().monotonic;
            if now >= round_ends {
                self.round();
                round_ends = now + ROUND;
            }
            match tasks.next(round_ends.saturating_sub(now)) {
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
                let Configured { routes, wanting, alerts, problems } = *configured;
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

    fn record(&mut self, at: Moment, event: Event) {
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
        // Whoever waits may have given up.
        let _ = done.send(());
    }
}

/// Opens the outbox in its folder; where that cannot be written, beside the alert log that could be opened.
fn open_outbox(folder: &Path, journal: &Writer) -> (Outbox, Vec<Problem>) {
    let (outbox, problems) = Outbox::open(folder, Bounds::default());
    if outbox.is_durable() {
        return (outbox, problems);
    }
    let cluster = folder.parent().and_then(Path::file_name);
    let beside_log = journal.path().and_then(Path::parent).zip(cluster);
    let Some((log_folder, cluster)) = beside_log else { return (outbox, problems) };
    let other_folder = log_folder.join("leaderwatch").join(cluster).join("outbox");
    let (other, other_problems) = Outbox::open(&other_folder, Bounds::default());
    if !other.is_durable() {
        return (outbox, problems);
    }
    let reason = format!("{} is used instead of {}, which cannot be written", other_folder.display(), folder.display());
    (other, std::iter::once(Problem::new("state", reason)).chain(other_problems).collect())
}

/// Says a problem on standard error.
pub fn complain(problem: &Event) {
    if let Event::AgentProblem { what, reason } = problem {
        log::warn!("{what}: {reason}");
    }
}

/// The line of the alert log for an alert.
pub fn raised(alert: &Alert) -> Event {
    Event::AlertRaised { alert: Box::new(alert.clone()) }
}
