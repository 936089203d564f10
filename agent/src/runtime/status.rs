//! What the agent says of itself: follows each record on its way to the alert log, and writes `status.json` and the metrics.
//!
//! Used by the disk thread. A file is written soon after something changed, and every ten seconds.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use jiff::Timestamp;

use super::hook_states::HookStates;
use super::metrics::{Gauges, Metrics, MetricsFile};
use crate::alert::Alert;
use crate::clock::Moment;
use crate::delivery::Problem;
use crate::event::{Event, SeatFields};
use crate::leadership::{SeatKey, SessionId};
use crate::process::Observer;
use crate::status::{AGENTS_FOLDER, FILE_NAME, OpenAlertStatus, SeatStatus, Status, TargetStatus};

/// A file is written at least this often.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// And after a change no sooner than this after the last write, so that a storm costs two writes a second.
const WRITE_SOON: Duration = Duration::from_millis(500);
/// Seats that are listed; beyond that, those that changed last.
const MOST_SEATS: usize = 1000;
/// Alerts that are listed as open, the latest.
const MOST_OPEN_ALERTS: usize = 100;
/// What a dead process left is cleared away when it is this old: until then `leaderwatch status` tells of its death.
const DEAD_AFTER: Duration = Duration::from_secs(24 * 3600);
const FOLDER_MODE: u32 = 0o750;

/// What is lost, counted where it is lost.
#[derive(Debug, Default)]
pub struct Losses {
    observations: AtomicU64,
    records: AtomicU64,
}

impl Losses {
    /// So many observations were not followed one by one.
    pub fn add_observations(&self, count: u64) {
        self.observations.fetch_add(count, Ordering::Relaxed);
    }

    /// A record did not fit into the queue of the disk thread.
    pub fn add_record(&self) {
        self.records.fetch_add(1, Ordering::Relaxed);
    }
}

/// The status as it was written last, for whoever asks in between.
pub type LatestStatus = Arc<ArcSwapOption<Status>>;

/// What the status is about.
pub struct StatusSettings {
    /// Folder of this user, namespace and cluster.
    pub state: PathBuf,
    /// File for Prometheus; none: no metrics are written.
    pub metrics_file: Option<PathBuf>,
    /// Name of the Flink cluster.
    pub cluster: String,
    /// This process.
    pub observer: Observer,
    /// What became of the hooks.
    pub hooks: Arc<HookStates>,
    /// What is lost.
    pub losses: Arc<Losses>,
    /// What is wrong with the configuration.
    pub problems: Vec<String>,
    /// Where the status is left for others.
    pub latest: LatestStatus,
}

/// What the disk thread knows at the moment of a write.
pub struct DiskFacts {
    /// The alert log; none: standard error.
    pub log: Option<PathBuf>,
    /// Records that could not be written since the disk last took one.
    pub missing_records: u64,
    /// Alerts in the outbox.
    pub pending: u64,
    /// When the oldest of them was queued.
    pub oldest_at: Option<Timestamp>,
}

/// Follows what happens, and tells.
pub struct Account {
    settings: StatusSettings,
    folder: PathBuf,
    started_at: Timestamp,
    seats: BTreeMap<SeatKey, SeatStatus>,
    targets: Vec<TargetStatus>,
    open_alerts: Vec<OpenAlertStatus>,
    metrics: Metrics,
    metrics_file: Option<MetricsFile>,
    missing: Missing,
    written_at: Duration,
    has_changed: bool,
    /// What could not be written when it was tried last; said once.
    failing: Vec<String>,
}

impl Account {
    /// Nothing has happened yet.
    pub fn new(settings: StatusSettings, now: Moment) -> Account {
        let Observer { host, pid, .. } = &settings.observer;
        let agents = settings.state.join(AGENTS_FOLDER);
        clear_away_dead(&agents);
        let folder = agents.join(format!("{}-{pid}", host.replace('/', "_")));
        let metrics_file = settings.metrics_file.clone().map(MetricsFile::new);
        Account {
            settings,
            folder,
            started_at: now.wall,
            seats: BTreeMap::new(),
            targets: Vec::new(),
            open_alerts: Vec::new(),
            metrics: Metrics::default(),
            metrics_file,
            missing: Missing::default(),
            written_at: now.monotonic,
            has_changed: true,
            failing: Vec::new(),
        }
    }

    /// Takes a record in.
    pub fn take(&mut self, at: Moment, event: &Event) {
        self.has_changed = true;
        self.metrics.take(event);
        match event {
            Event::AgentStarted { targets, .. } | Event::AgentReconfigured { targets } => {
                self.targets.retain(|known| targets.iter().any(|target| target.name == known.name));
                for target in targets {
                    self.target(&target.name).kind.clone_from(&target.kind);
                }
            }
            Event::AlertRaised { alert, .. } => {
                let Alert { id, class, title, occurred_at, .. } = &**alert;
                let (id, title) = (id.clone(), title.clone());
                self.open_alerts.push(OpenAlertStatus { id, class: *class, title, occurred_at: *occurred_at });
                if self.open_alerts.len() > MOST_OPEN_ALERTS {
                    self.open_alerts.remove(0);
                }
            }
            Event::AlertResolved { alert_id, .. } => self.open_alerts.retain(|open| open.id != *alert_id),
            Event::LeaderElected { seat, leader_id, address }
            | Event::LeaderReturned { seat, leader_id, address, .. }
            | Event::LeaderMoved { seat, leader_id, address, .. } => {
                self.seat(seat, Some(*leader_id), address.clone(), at.wall);
            }
            Event::LeaderLost { seat, .. } => self.seat(seat, None, None, at.wall),
            Event::AlertDelivered { target, .. } => self.target(target).last_success_at = Some(at.wall),
            Event::AlertRetrying { target, reason, .. } | Event::AlertFailed { target, reason, .. } => {
                let target = self.target(target);
                target.last_error_at = Some(at.wall);
                target.last_error = Some(reason.clone());
            }
            _ => {}
        }
    }

    /// Another configuration is at work, and this is wrong with it.
    pub fn reconfigured(&mut self, problems: Vec<String>) {
        self.settings.problems = problems;
        self.has_changed = true;
    }

    /// When the next write is due, by the monotonic clock.
    pub fn next_write(&self) -> Duration {
        self.written_at + if self.has_changed { WRITE_SOON } else { WRITE_EVERY }
    }

    /// Writes the files. What cannot be written is told once.
    pub fn write(&mut self, disk: &DiskFacts, now: Moment) -> Vec<Problem> {
        (self.written_at, self.has_changed) = (now.monotonic, false);
        let status = self.status(disk, now.wall);
        let mut failed = Vec::new();
        let written = create_folder(&self.folder).and_then(|()| status.write(&self.folder));
        failed.extend(written.err().map(|error| problem("status", &self.folder.join(FILE_NAME), &error)));
        if let Some(file) = &mut self.metrics_file {
            let text = self.metrics.text(&status, &Gauges::of(&status, now.wall));
            failed.extend(file.write(&text).err().map(|error| problem("metrics_file", file.path(), &error)));
        }
        self.settings.latest.store(Some(Arc::new(status)));
        let known = std::mem::replace(&mut self.failing, failed.iter().map(|problem| problem.what.clone()).collect());
        failed.retain(|problem| !known.contains(&problem.what));
        failed
    }

    /// The process ends in order: nothing is left that could be taken for a process that hangs.
    pub fn clear_away(self) {
        // What cannot be removed tells of its age.
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(file) = self.metrics_file {
            file.remove();
        }
    }

    fn status(&mut self, disk: &DiskFacts, now: Timestamp) -> Status {
        let (losses, observer) = (&self.settings.losses, &self.settings.observer);
        let hooks = self.settings.hooks.snapshot().into_iter().map(|(class, state)| (class, state.text()));
        Status {
            schema: 1,
            written_at: now,
            started_at: self.started_at,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            role: observer.role,
            cluster: self.settings.cluster.clone(),
            host: observer.host.clone(),
            pid: observer.pid,
            flink_version: observer.flink_version.clone(),
            log: disk.log.as_ref().map(|log| log.display().to_string()),
            hooks: hooks.collect(),
            seats: self.seats.values().cloned().collect(),
            outbox_pending: disk.pending,
            outbox_oldest_at: disk.oldest_at,
            targets: self.targets.clone(),
            problems: self.settings.problems.clone(),
            open_alerts: self.open_alerts.clone(),
            dropped_observations: losses.observations.load(Ordering::Relaxed),
            lost_records: losses.records.load(Ordering::Relaxed) + self.missing.total(disk.missing_records),
        }
    }

    fn seat(&mut self, seat: &SeatFields, leader_id: Option<SessionId>, address: Option<String>, since: Timestamp) {
        let (component, job_id) = (seat.component, seat.job_id);
        let status = SeatStatus { component, job_id, leader_id, address, since };
        self.seats.insert(SeatKey { component, job_id }, status);
        if self.seats.len() > MOST_SEATS
            && let Some(oldest) = self.seats.iter().min_by_key(|(_, seat)| seat.since).map(|(key, _)| *key)
        {
            self.seats.remove(&oldest);
        }
    }

    fn target(&mut self, name: &str) -> &mut TargetStatus {
        let at = self.targets.iter().position(|target| target.name == name).unwrap_or_else(|| {
            self.targets.push(TargetStatus::new(name));
            self.targets.len() - 1
        });
        &mut self.targets[at]
    }
}

/// Adds up a count that begins anew whenever the disk takes a record again.
#[derive(Debug, Default)]
struct Missing {
    before: u64,
    present: u64,
}

impl Missing {
    fn total(&mut self, present: u64) -> u64 {
        if present < self.present {
            self.before += self.present;
        }
        self.present = present;
        self.before + present
    }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

fn problem(what: &str, path: &Path, error: &io::Error) -> Problem {
    Problem::new(
        what,
        format!("{} cannot be written: {error}; Flink's user must be able to write there", path.display()),
    )
}

fn clear_away_dead(agents: &Path) {
    let Ok(folders) = fs::read_dir(agents) else { return };
    let is_old = |path: &Path| {
        let written = fs::metadata(path.join(FILE_NAME)).and_then(|file| file.modified());
        written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > DEAD_AFTER))
    };
    for folder in folders.filter_map(|folder| Some(folder.ok()?.path())).filter(|folder| is_old(folder)) {
        // Another process may have been faster.
        let _ = fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::event::TargetFields;
    use crate::leadership::Component;
    use crate::process::Role;

    const NOTHING_WAITS: DiskFacts = DiskFacts { log: None, missing_records: 0, pending: 0, oldest_at: None };

    struct Play {
        folder: tempfile::TempDir,
        clock: ManualClock,
        account: Account,
        losses: Arc<Losses>,
    }

    impl Play {
        fn new() -> Play {
            let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::default());
            let (hooks, losses) = (Arc::new(HookStates::new(&["org.apache.flink.A"])), Arc::<Losses>::default());
            let observer =
                Observer { host: "tm-1".into(), pid: 7, pod: None, role: Role::TaskManager, flink_version: None };
            let settings = StatusSettings {
                state: folder.path().to_owned(),
                metrics_file: Some(folder.path().join("leaderwatch.prom")),
                cluster: "orders".into(),
                observer,
                hooks,
                losses: Arc::clone(&losses),
                problems: Vec::new(),
                latest: LatestStatus::default(),
            };
            let account = Account::new(settings, clock.now());
            Play { folder, clock, account, losses }
        }

        fn take(&mut self, event: Event) {
            self.account.take(self.clock.now(), &event);
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("agents/tm-1-7").join(FILE_NAME)
        }

        fn written(&mut self, disk: &DiskFacts) -> Status {
            assert_eq!(self.account.write(disk, self.clock.now()), []);
            let status = serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap();
            assert_eq!(self.account.settings.latest.load().as_deref(), Some(&status));
            status
        }
    }

    fn resource_manager() -> SeatFields {
        SeatFields { component: Component::ResourceManager, job_id: None }
    }

    fn moved() -> Event {
        Event::LeaderMoved {
            seat: resource_manager(),
            leader_id: SessionId(2),
            address: Some("pekko.tcp://flink@jm2:6123/user".into()),
            old_leader_id: SessionId(1),
            old_address: None,
            leaderless_ms: Some(412),
        }
    }

    #[test]
    fn the_status_says_who_leads_since_when_and_how_targets_do() {
        let mut play = Play::new();
        let targets = vec![TargetFields { name: "chat".into(), kind: "slack".into() }];
        play.take(Event::AgentStarted {
            version: "1".into(),
            role: Role::TaskManager,
            java_version: None,
            flink_version: None,
            hooks: BTreeMap::new(),
            targets,
        });
        play.clock.advance(Duration::from_secs(5));
        let at = play.clock.now().wall;
        play.take(moved());
        let (alert_id, target) = ("a1".to_owned(), "chat".to_owned());
        play.take(Event::AlertRetrying { alert_id, target, attempts: 1, reason: "answered 500".into(), next_ms: 9 });
        play.losses.add_observations(3);
        let status = play.written(&DiskFacts { pending: 1, oldest_at: Some(at), missing_records: 2, log: None });
        assert_eq!(status.hooks["org.apache.flink.A"], "not seen yet");
        assert_eq!((status.seats[0].leader_id, status.seats[0].since), (Some(SessionId(2)), at));
        assert_eq!((status.outbox_pending, status.outbox_oldest_at), (1, Some(at)));
        let chat = &status.targets[0];
        assert_eq!((chat.kind.as_str(), chat.last_error.as_deref()), ("slack", Some("answered 500")));
        assert_eq!((chat.last_success_at, chat.last_error_at), (None, Some(at)));
        assert_eq!((status.dropped_observations, status.lost_records), (3, 2));
        play.take(Event::LeaderLost { seat: resource_manager(), leader_id: SessionId(2), address: None });
        assert_eq!(play.written(&NOTHING_WAITS).seats[0].leader_id, None);
    }

    #[test]
    fn it_is_written_soon_after_a_change_and_every_ten_seconds() {
        let mut play = Play::new();
        play.written(&NOTHING_WAITS);
        let now = play.clock.now().monotonic;
        assert_eq!(play.account.next_write(), now + WRITE_EVERY);
        play.take(moved());
        assert_eq!(play.account.next_write(), now + WRITE_SOON);
    }

    #[test]
    fn records_that_were_lost_stay_counted_when_the_disk_works_again() {
        let mut missing = Missing::default();
        assert_eq!([3, 5, 0, 0, 2].map(|present| missing.total(present)), [3, 5, 5, 5, 7]);
    }

    #[test]
    fn what_cannot_be_written_is_told_once_and_again_after_it_worked() {
        let mut play = Play::new();
        let agents = play.folder.path().join(AGENTS_FOLDER);
        fs::write(&agents, "in the way").unwrap();
        let now = play.clock.now();
        assert_eq!(play.account.write(&NOTHING_WAITS, now).len(), 1);
        assert_eq!(play.account.write(&NOTHING_WAITS, now), []);
        fs::remove_file(&agents).unwrap();
        play.written(&NOTHING_WAITS);
        fs::remove_dir_all(&agents).unwrap();
        fs::write(&agents, "in the way").unwrap();
        assert_eq!(play.account.write(&NOTHING_WAITS, now).len(), 1);
    }

    #[test]
    fn an_orderly_end_leaves_nothing_and_a_day_clears_the_dead_away() {
        let mut play = Play::new();
        play.written(&NOTHING_WAITS);
        let (file, dead) = (play.file(), play.folder.path().join("agents/tm-0-1"));
        fs::create_dir(&dead).unwrap();
        let old = fs::File::create(dead.join(FILE_NAME)).unwrap();
        old.set_modified(SystemTime::now() - 2 * DEAD_AFTER).unwrap();
        clear_away_dead(&play.folder.path().join(AGENTS_FOLDER));
        assert!(file.exists() && !dead.exists());
        play.account.clear_away();
        assert!(!file.exists() && !play.folder.path().join("leaderwatch.prom").exists());
    }

    #[test]
    fn a_storm_of_jobs_is_bounded() {
        let mut play = Play::new();
        for job in 0..MOST_SEATS as u128 + 5 {
            let seat = SeatFields { component: Component::JobManager, job_id: Some(crate::leadership::JobId(job)) };
            play.take(Event::LeaderElected { seat, leader_id: SessionId(1), address: None });
            play.clock.advance(Duration::from_millis(1));
        }
        assert_eq!(play.account.seats.len(), MOST_SEATS);
        assert!(!play.account.seats.contains_key(&SeatKey::job(crate::leadership::JobId(0))));
    }
}
