//! Several notices as one: what is too old to page for, or a backlog that a receiver's limit would hold up.

use std::fmt::Write;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use crate::alert::Severity;
use crate::target::{Action, Notice};

/// Why notices go out as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They are older than `max_age`.
    Old,
    /// More wait than the receiver takes one by one.
    Backlog,
}

/// The sentences that the delivery itself tells people, so that they can be in the reader's language.
pub trait Wording: Send + Sync {
    /// Title and text of a digest.
    fn digest(&self, notices: &[Arc<Notice>], why: Why) -> (String, String);
    /// A line below the text of an alert that `refused_by` refused for good.
    fn instead(&self, refused_by: &str, reason: &str) -> String;
}

/// The sentences in English.
#[derive(Debug, Clone, Copy, Default)]
pub struct English;

/// Up to so many characters of text, a digest holds each alert's text; beyond, only titles.
const FULL_TEXT_CHARACTERS: usize = 2500;
/// Titles in a digest.
const TITLES: usize = 30;

impl Wording for English {
    fn digest(&self, notices: &[Arc<Notice>], why: Why) -> (String, String) {
        let plural = if notices.len() == 1 { "alert" } else { "alerts" };
        let title = match why {
            Why::Old => format!("{} {plural} from earlier, delivered late", notices.len()),
            Why::Backlog => format!("{} {plural} in one message", notices.len()),
        };
        (title, list(notices, |rest| format!("and {rest} more, which are in the alert log")))
    }

    fn instead(&self, refused_by: &str, reason: &str) -> String {
        format!("You are told because `{refused_by}` refused this alert: {reason}")
    }
}

/// Time and title of each notice, with its text where all of it is short.
pub fn list(notices: &[Arc<Notice>], more: impl FnOnce(usize) -> String) -> String {
    let characters: usize = notices.iter().map(|notice| notice.alert.text.chars().count()).sum();
    let mut list = String::new();
    for notice in notices.iter().take(TITLES) {
        let alert = &notice.alert;
        let _ = writeln!(list, "{:.0} {}", alert.occurred_at, alert.title);
        if characters <= FULL_TEXT_CHARACTERS {
            let _ = writeln!(list, "{}\n", alert.text.trim_end());
        }
    }
    if let Some(rest) = notices.len().checked_sub(TITLES).filter(|rest| *rest > 0) {
        list.push_str(&more(rest));
    }
    list.truncate(list.trim_end().len());
    list
}

/// One notice for several, of which there must be at least one.
pub(super) fn merge(notices: &[Arc<Notice>], why: Why, wording: &dyn Wording) -> Arc<Notice> {
    let (title, text) = wording.digest(notices, why);
    let worst = notices
        .iter()
        .max_by_key(|notice| notice.alert.severity)
        .expect("a digest is made of the notices at the head of a queue that is not empty");
    let mut alert = worst.alert.clone();
    let id = id(notices);
    (alert.title, alert.text) = (title, text);
    alert.id.clone_from(&id);
    alert.occurred_at = notices.iter().map(|notice| notice.alert.occurred_at).max().unwrap_or(alert.occurred_at);
    alert.members.clear();
    alert.members_left_out = 0;
    (alert.old_leader, alert.new_leader, alert.cause) = (None, None, None);
    (alert.leaderless_ms, alert.same_address, alert.elections, alert.resolves) = (None, None, None, None);
    if why == Why::Old {
        alert.severity = Severity::Info;
    }
    Arc::new(Notice { message_id: id, action: Action::Digest, alert })
}

/// The same for the same notices, in every attempt and in every process.
fn id(notices: &[Arc<Notice>]) -> String {
    let mut ids = String::new();
    for notice in notices {
        ids.push_str(&notice.message_id);
        ids.push(' ');
    }
    digest(&SHA256, ids.as_bytes()).as_ref()[..16].iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
