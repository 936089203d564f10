//! Class `flapping`: several elections in a window. One summary takes the place of each further one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::effect::AlertSettings;
use super::id::alert_id;
use super::model::{Alert, Class};
use crate::clock::Moment;
use crate::leadership::SessionId;

/// So many elections
const ELECTIONS: usize = 3;
/// in so long are flapping. The window slides.
const WINDOW: Duration = Duration::from_secs(600);

/// What an election means for flapping.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// It is told by itself.
    Single,
    /// It makes it flapping: this is told in its place.
    Begins(Box<Alert>),
    /// It goes on flapping: nothing new is told but in place.
    GoesOn(Box<Alert>),
}

/// Counts elections.
#[derive(Debug)]
pub struct Flapping {
    pub(super) settings: Arc<AlertSettings>,
    recent: VecDeque<(Moment, SessionId)>,
    told: Option<Alert>,
    elections: u64,
}

impl Flapping {
    /// No elections yet.
    pub fn new(settings: Arc<AlertSettings>) -> Self {
        Self { settings, recent: VecDeque::new(), told: None, elections: 0 }
    }

    /// Takes an election in, by the alert that it would be told with.
    pub fn take(&mut self, election: &Alert, now: Moment) -> Verdict {
        self.slide(now);
        let won_by = election.new_leader.as_ref().map_or(SessionId::NO_HIGH_AVAILABILITY, |leader| leader.id);
        self.recent.push_back((now, won_by));
        if self.told.is_none() && self.recent.len() < ELECTIONS {
            return Verdict::Single;
        }
        let begins = self.told.is_none();
        self.elections = if begins { self.recent.len() as u64 } else { self.elections + 1 };
        let alert = self.alert(election);
        self.told = Some(alert.clone());
        if begins { Verdict::Begins(Box::new(alert)) } else { Verdict::GoesOn(Box::new(alert)) }
    }

    /// The alert that has ended, once it is quiet for the length of the window.
    pub fn ended(&mut self, now: Moment) -> Option<Alert> {
        self.slide(now);
        if !self.recent.is_empty() {
            return None;
        }
        self.told.take()
    }

    /// When [`Flapping::ended`] may have something to do, by the monotonic clock.
    pub fn next_due(&self) -> Option<Duration> {
        self.told.as_ref()?;
        self.recent.back().map(|(at, _)| at.monotonic + WINDOW)
    }

    fn slide(&mut self, now: Moment) {
        while self.recent.front().is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            self.recent.pop_front();
        }
    }

    fn alert(&self, newest: &Alert) -> Alert {
        let settings = &self.settings;
        let id = match (&self.told, self.recent.front()) {
            (Some(told), _) => told.id.clone(),
            (None, Some((_, first))) => alert_id("flapping", settings.namespace.as_deref(), &settings.cluster, *first),
            (None, None) => newest.id.clone(),
        };
        let began = self.told.as_ref().map_or(newest.occurred_at, |told| told.occurred_at);
        let mut alert = settings.alert(Class::Flapping, id, began);
        alert.old_leader = newest.old_leader.clone();
        alert.new_leader = newest.new_leader.clone();
        alert.members = newest.members.clone();
        alert.members_left_out = newest.members_left_out;
        alert.elections = Some(self.elections);
        settings.texts.write(&mut alert);
        alert
    }
}
