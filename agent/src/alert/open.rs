//! Alerts that are told and not resolved. They are on disk, so that what one process told the next one ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::effect::{AlertSettings, Audience, Effect};
use super::model::{Alert, Class, Severity};
use crate::clock::Moment;
use crate::event::Event;
use crate::target::{Action, Notice};

/// What names of open alerts on disk begin with.
const KEY: &str = "open.";
/// How many alerts may be open; the oldest are resolved early beyond that.
const MOST_OPEN: usize = 256;

/// The open alerts, by id.
#[derive(Debug)]
pub struct OpenAlerts {
    pub(super) settings: Arc<AlertSettings>,
    open: BTreeMap<String, OpenAlert>,
}

#[derive(Debug)]
struct OpenAlert {
    alert: Alert,
    /// When it counts as resolved by itself, by the monotonic clock; none: only by what ends it.
    resolves_at: Option<Duration>,
}

impl OpenAlerts {
    /// None open.
    pub fn new(settings: Arc<AlertSettings>) -> Self {
        Self { settings, open: BTreeMap::new() }
    }

    /// An alert is told: it is open from now on.
    pub fn opened(&mut self, alert: &Alert, now: Moment, effects: &mut Vec<Effect>) {
        if self.open.len() >= MOST_OPEN
            && let Some(oldest) = self.open.values().min_by_key(|open| open.alert.occurred_at)
        {
            let id = oldest.alert.id.clone();
            self.resolve(&id, now, effects);
        }
        let resolves_at = (alert.class == Class::Failover).then(|| now.monotonic + self.settings.resolve_after);
        self.open.insert(alert.id.clone(), OpenAlert { alert: alert.clone(), resolves_at });
        // What is made of strings and numbers always has a JSON form.
        if let Ok(body) = serde_json::to_value(alert) {
            effects.push(Effect::Save { key: key(&alert.id), body });
        }
    }

    /// Whether the alert of this id was told and is not over.
    pub fn has(&self, id: &str) -> bool {
        self.open.contains_key(id)
    }

    /// What the alert told has ended.
    pub fn resolve(&mut self, id: &str, now: Moment, effects: &mut Vec<Effect>) {
        let Some(OpenAlert { alert, .. }) = self.open.remove(id) else { return };
        effects.push(Effect::Record(Event::AlertResolved { alert_id: id.to_owned(), resolves: alert.class }));
        if !self.settings.wants(Class::Resolved) {
            effects.push(Effect::Record(unwanted(id, Class::Resolved)));
            effects.push(Effect::Forget { saved: vec![key(id)] });
            return;
        }
        let resolves = Some(alert.class);
        let (class, severity) = (Class::Resolved, Severity::Info);
        let mut resolved = Alert { class, resolves, severity, occurred_at: now.wall, ..alert };
        self.settings.texts.write(&mut resolved);
        let message_id = format!("{id}-resolved");
        let notice = Notice { message_id, action: Action::Resolve, alert: resolved };
        effects.push(Effect::Notify { notice: Box::new(notice), audience: Audience::All });
        effects.push(Effect::Forget { saved: vec![key(id)] });
    }

    /// Resolves what counts as resolved by now.
    pub fn due(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let is_due = |open: &&OpenAlert| open.resolves_at.is_some_and(|at| at <= now.monotonic);
        let due: Vec<String> = self.open.values().filter(is_due).map(|open| open.alert.id.clone()).collect();
        for id in due {
            self.resolve(&id, now, effects);
        }
    }

    /// When [`OpenAlerts::due`] has something to do, by the monotonic clock.
    pub fn next_due(&self) -> Option<Duration> {
        self.open.values().filter_map(|open| open.resolves_at).min()
    }

    /// Takes over an alert that a dead process had open. Returns it; none where `key` names something else.
    pub fn adopt(&mut self, key: &str, body: &Value, now: Moment) -> Option<Alert> {
        key.strip_prefix(KEY)?;
        let alert: Alert = serde_json::from_value(body.clone()).ok()?;
        let age = now.wall.duration_since(alert.occurred_at).unsigned_abs();
        let left = self.settings.resolve_after.saturating_sub(age);
        let resolves_at = (alert.class == Class::Failover).then(|| now.monotonic + left);
        self.open.entry(alert.id.clone()).or_insert(OpenAlert { alert: alert.clone(), resolves_at });
        Some(alert)
    }
}

/// The line of the alert log for an alert of a class that people are not told of.
pub(super) fn unwanted(id: &str, class: Class) -> Event {
    let by = format!("`alert.classes`, which is without {}", class.name());
    Event::AlertSuppressed { alert_id: id.to_owned(), target: None, by }
}

fn key(id: &str) -> String {
    format!("{KEY}{id}")
}
