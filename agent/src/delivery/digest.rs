//! Several notices as one: what is too old to page for, or a backlog that a receiver's limit would hold up.

use std::fmt::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};

use crate::alert::Severity;
use crate::config::Language;
use crate::target::{Action, Notice};

/// Why notices go out as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They are older than `max_age`.
    Old,
    /// More wait than the receiver takes one by one.
    Backlog,
}

/// The sentences that the delivery itself tells people, in their language and time zone.
#[derive(Debug, Clone)]
pub struct Wording {
    language: Language,
    time_zone: TimeZone,
}

impl Default for Wording {
    /// English, UTC.
    fn default() -> Self {
        Self::new(Language::English, TimeZone::UTC)
    }
}

/// Up to so many characters of text, a digest holds each alert's text; beyond, only titles.
const FULL_TEXT_CHARACTERS: usize = 2500;
/// Titles in a digest.
const TITLES: usize = 30;

impl Wording {
    /// The sentences of a language, with times in a zone.
    pub fn new(language: Language, time_zone: TimeZone) -> Self {
        Self { language, time_zone }
    }

    /// Title and text of a digest: time and title of each notice, with its text where all of it is short.
    pub fn digest(&self, notices: &[Arc<Notice>], why: Why) -> (String, String) {
        let characters: usize = notices.iter().map(|notice| notice.alert.text.chars().count()).sum();
        let mut list = String::new();
        for notice in notices.iter().take(TITLES) {
            let alert = &notice.alert;
            let at = alert.occurred_at.to_zoned_datetime(self.time_zone.clone());
            let _ = writeln!(list, "{} {}", at.strftime("%Y-%m-%d %H:%M:%S %:z"), alert.title);
            if characters <= FULL_TEXT_CHARACTERS {
                let _ = writeln!(list, "{}\n", alert.text.trim_end());
            }
        }
        if let Some(rest) = notices.len().checked_sub(TITLES).filter(|rest| *rest > 0) {
            list.push_str(&self.more(rest));
        }
        list.truncate(list.trim_end().len());
        (self.title(notices.len(), why), list)
    }

    fn title(&self, count: usize, why: Why) -> String {
        let alerts = if count == 1 { "alert" } else { "alerts" };
        match (self.language, why) {
            (Language::English, Why::Old) => format!("{count} {alerts} from earlier, delivered late"),
            (Language::English, Why::Backlog) => format!("{count} {alerts} in one message"),
            (Language::SimplifiedChinese, Why::Old) => format!("{count} 条较早的告警，延迟送达"),
            (Language::SimplifiedChinese, Why::Backlog) => format!("{count} 条告警合并为一条消息"),
            (Language::TraditionalChinese, Why::Old) => format!("{count} 則較早的警示，延遲送達"),
            (Language::TraditionalChinese, Why::Backlog) => format!("{count} 則警示合併為一則訊息"),
            (Language::Korean, Why::Old) => format!("이전 알림 {count}건, 늦게 전달됨"),
            (Language::Korean, Why::Backlog) => format!("알림 {count}건을 메시지 하나로 보냄"),
        }
    }

    fn more(&self, rest: usize) -> String {
        match self.language {
            Language::English => format!("and {rest} more, which are in the alert log"),
            Language::SimplifiedChinese => format!("另有 {rest} 条，见告警日志"),
            Language::TraditionalChinese => format!("另有 {rest} 則，見警示日誌"),
            Language::Korean => format!("그 외 {rest}건은 알림 로그에 있습니다"),
        }
    }

    /// A line below the text of an alert that `refused_by` refused for good.
    pub fn instead(&self, refused_by: &str, reason: &str) -> String {
        match self.language {
            Language::English => format!("You are told because `{refused_by}` refused this alert: {reason}"),
            Language::SimplifiedChinese => format!("因 `{refused_by}` 拒收此告警，改为通知您：{reason}"),
            Language::TraditionalChinese => format!("因 `{refused_by}` 拒收此警示，改為通知您：{reason}"),
            Language::Korean => format!("`{refused_by}`에서 이 알림을 거부하여 대신 알려 드립니다: {reason}"),
        }
    }
}

/// One notice for several, of which there must be at least one.
pub(super) fn merge(notices: &[Arc<Notice>], why: Why, wording: &Wording) -> Arc<Notice> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    /// Holds a fault: whatever the reader's language, a digest was in English and its times in UTC.
    #[test]
    fn a_digest_speaks_the_readers_language_in_the_readers_zone() {
        let seoul = TimeZone::get("Asia/Seoul").expect("the zones are built in");
        let mut notice = test_notice("1", "text");
        notice.alert.occurred_at = "2026-11-30T10:19:49Z".parse().expect("a time");
        let notices: Vec<_> = (0..TITLES + 2).map(|_| Arc::new(notice.clone())).collect();
        for (language, title, more, instead) in [
            (Language::English, "32 alerts in one message", "and 2 more", "refused this alert"),
            (Language::SimplifiedChinese, "32 条告警合并", "另有 2 条", "拒收此告警"),
            (Language::TraditionalChinese, "32 則警示合併", "另有 2 則", "拒收此警示"),
            (Language::Korean, "알림 32건", "그 외 2건", "거부하여"),
        ] {
            let wording = Wording::new(language, seoul.clone());
            let (of_digest, text) = wording.digest(&notices, Why::Backlog);
            assert!(of_digest.starts_with(title), "{of_digest}");
            assert!(text.starts_with("2026-11-30 19:19:49 +09:00 ") && text.contains(more), "{text}");
            assert_ne!(wording.digest(&notices, Why::Old).0, of_digest);
            assert!(wording.instead("chat", "answered 404").contains(instead));
        }
    }
}
