//! What the outbox's records amount to: the elections that are open and the notices that are not done.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::entry::{Entry, line_bytes};
use crate::target::Notice;

/// A notice that is not done.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The notice.
    pub notice: Arc<Notice>,
    /// Names of the targets that do not have it yet.
    pub targets: BTreeSet<String>,
    /// When it was put into an outbox first.
    pub queued_at: Timestamp,
    bytes: u64,
}

impl Pending {
    /// Bytes that it takes on disk, about.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// All that is not done.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Live {
    elections: BTreeMap<String, Value>,
    /// In the order of arrival.
    notices: BTreeMap<u64, Pending>,
    by_message_id: HashMap<String, u64>,
    next: u64,
    notice_bytes: u64,
}

impl Live {
    /// Takes a record in. Taking one twice changes nothing more.
    pub(super) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::OpenElection { key, body } => {
                self.elections.insert(key.clone(), body.clone());
            }
            Entry::CloseElection { key } => {
                self.elections.remove(key);
            }
            Entry::Due { notice, targets, queued_at } => self.add(notice, targets, *queued_at, entry),
            Entry::Done { message_id, target, instead } => self.finish(message_id, target, instead.as_deref()),
        }
    }

    fn add(&mut self, notice: &Arc<Notice>, targets: &[String], queued_at: Timestamp, entry: &Entry) {
        if let Some(pending) = self.by_message_id.get(&notice.message_id).and_then(|at| self.notices.get_mut(at)) {
            pending.targets.extend(targets.iter().cloned());
            return;
        }
        if targets.is_empty() {
            return;
        }
        let bytes = line_bytes(entry);
        let pending =
            Pending { notice: Arc::clone(notice), targets: targets.iter().cloned().collect(), queued_at, bytes };
        self.by_message_id.insert(notice.message_id.clone(), self.next);
        self.notices.insert(self.next, pending);
        self.next += 1;
        self.notice_bytes += bytes;
    }

    fn finish(&mut self, message_id: &str, target: &str, instead: Option<&str>) {
        let Some(&at) = self.by_message_id.get(message_id) else { return };
        let Some(pending) = self.notices.get_mut(&at) else { return };
        pending.targets.remove(target);
        pending.targets.extend(instead.map(str::to_owned));
        if pending.targets.is_empty() {
            self.notice_bytes -= pending.bytes;
            self.notices.remove(&at);
            self.by_message_id.remove(message_id);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.elections.is_empty() && self.notices.is_empty()
    }

    /// Bytes that the notices take on disk, about.
    pub(super) fn notice_bytes(&self) -> u64 {
        self.notice_bytes
    }

    /// The notices, oldest first.
    pub(super) fn notices(&self) -> impl Iterator<Item = &Pending> {
        self.notices.values()
    }

    /// The open elections.
    pub(super) fn elections(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.elections.iter()
    }

    /// The shortest row of records that amounts to the same.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let elections =
            self.elections.iter().map(|(key, body)| Entry::OpenElection { key: key.clone(), body: body.clone() });
        let notices = self.notices.values().map(|pending| Entry::Due {
            notice: Arc::clone(&pending.notice),
            targets: pending.targets.iter().cloned().collect(),
            queued_at: pending.queued_at,
        });
        elections.chain(notices).collect()
    }
}
