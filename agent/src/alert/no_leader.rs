//! Class `no_leader`: the cluster's ResourceManager seat stays empty, or Flink holds its leader for dead and no leader
//! followed.
//!
//! On Kubernetes no null is ever announced, so that Flink's own verdict is the only word about a dead leader without a
//! successor. A verdict that Flink takes back (the TaskManager registers again) ends the watch.

use std::sync::Arc;
use std::time::Duration;

use super::effect::AlertSettings;
use super::id::alert_id;
use super::model::{Alert, Cause, Class, Member};
use crate::clock::Moment;
use crate::leadership::{Change, Component, Leader, SeatChange, SessionId};

/// Watches the ResourceManager's seat.
#[derive(Debug)]
pub struct NoLeader {
    pub(super) settings: Arc<AlertSettings>,
    gone: Option<Gone>,
    told: Option<Alert>,
    /// The last leadership that a contender in this process was granted, of whatever component: from Flink 1.15 on they
    /// share one id.
    own: Option<SessionId>,
}

/// Whether there is a later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The process goes on.
    No,
    /// The process ends, by a fatal error.
    Fatal,
    /// The process ends because somebody asked for it.
    InOrder,
}

/// A leader that is gone, and since when.
#[derive(Debug)]
struct Gone {
    leader: Leader,
    since: Moment,
    unreachable: bool,
}

impl NoLeader {
    /// A seat of which nothing is known.
    pub fn new(settings: Arc<AlertSettings>) -> Self {
        Self { settings, gone: None, told: None, own: None }
    }

    /// Takes a change in. Returns the alert that it ends, if one was told.
    pub fn take(&mut self, change: &SeatChange) -> Option<Alert> {
        if let Change::Granted { id } = change.change {
            self.own = Some(id);
        }
        if change.seat.component != Component::ResourceManager {
            return None;
        }
        match &change.change {
            Change::Lost { leader } => self.lose(leader, change.at, false),
            Change::Unreachable { leader: Some(leader), .. } => self.lose(leader, change.at, true),
            Change::Elected { .. } | Change::Returned { .. } | Change::Moved { .. } | Change::Reachable { .. } => {
                self.gone = None;
                return self.told.take();
            }
            _ => {}
        }
        None
    }

    fn lose(&mut self, leader: &Leader, since: Moment, unreachable: bool) {
        let gone = self.gone.get_or_insert_with(|| Gone { leader: leader.clone(), since, unreachable });
        gone.unreachable |= unreachable;
    }

    /// The alert, once it is due: at once where the process ends. Not where somebody stops the very JobManager that led:
    /// whoever stops it knows, and the TaskManagers tell where no other follows.
    pub fn due(&mut self, now: Moment, ending: Ending) -> Option<Alert> {
        let gone = self.gone.as_ref()?;
        let is_expected = ending == Ending::InOrder && self.own == Some(gone.leader.id);
        let is_late = now.since(gone.since) >= self.settings.no_leader_after;
        if self.told.is_some() || !(is_late || (ending != Ending::No && !is_expected)) {
            return None;
        }
        let alert = self.alert(gone);
        self.told = Some(alert.clone());
        Some(alert)
    }

    /// When [`NoLeader::due`] has something to do, by the monotonic clock.
    pub fn next_due(&self) -> Option<Duration> {
        let gone = self.gone.as_ref().filter(|_| self.told.is_none())?;
        Some(gone.since.monotonic + self.settings.no_leader_after)
    }

    /// An alert that a dead process had told and nobody has ended.
    pub fn adopt(&mut self, alert: Alert) {
        self.told.get_or_insert(alert);
    }

    fn alert(&self, gone: &Gone) -> Alert {
        let settings = &self.settings;
        let id = alert_id("no_leader", settings.namespace.as_deref(), &settings.cluster, gone.leader.id);
        let mut alert = settings.alert(Class::NoLeader, id, gone.since.wall);
        alert.cause = gone.unreachable.then_some(Cause::Unreachable).or(Some(Cause::Revoked));
        alert.old_leader = Some(gone.leader.clone());
        alert.members = vec![Member {
            component: Component::ResourceManager,
            job_id: None,
            job_name: None,
            old_leader: Some(gone.leader.clone()),
            new_leader: None,
            joined: false,
        }];
        settings.texts.write(&mut alert);
        alert
    }
}
