//! The message at the end of a pause, in the reader's language.

use std::fmt::Write;

use super::{Texts, one_line};
use crate::config::Language;

/// What the message says.
pub(in crate::alert) struct PauseEnded<'a> {
    /// Name of the Flink cluster.
    pub cluster: &'a str,
    /// When it began, as the reader writes it.
    pub from: String,
    /// When it ended.
    pub until: String,
    /// What for.
    pub reason: &'a str,
    /// Time and title of the alerts that were not sent; the first of them where there were many.
    pub lines: Vec<(String, &'a str)>,
    /// How many there were.
    pub count: usize,
}

impl Texts {
    /// Title and text.
    pub(in crate::alert) fn pause_ended(&self, pause: &PauseEnded<'_>) -> (String, String) {
        let PauseEnded { cluster, from, until, reason, lines, count } = pause;
        let (title, head) = match self.language {
            Language::English => (
                format!(
                    "Flink {cluster}: alerts are no longer paused, {count} {} not sent",
                    if *count == 1 { "alert was" } else { "alerts were" }
                ),
                format!(
                    "Alerts of Flink cluster {cluster} were paused from {from} to {until}: {reason}\nThese were not sent:"
                ),
            ),
            Language::SimplifiedChinese => (
                format!("Flink {cluster}:告警暂停已结束,{count} 条告警未发送"),
                format!("Flink 集群 {cluster} 的告警从 {from} 至 {until} 暂停:{reason}\n以下告警未发送:"),
            ),
            Language::TraditionalChinese => (
                format!("Flink {cluster}:警示暫停已結束,{count} 則警示未傳送"),
                format!("Flink 叢集 {cluster} 的警示從 {from} 至 {until} 暫停:{reason}\n以下警示未傳送:"),
            ),
            Language::Korean => (
                format!("Flink {cluster}: 알림 일시 중지가 끝남, 보내지 않은 알림 {count}건"),
                format!(
                    "Flink 클러스터 {cluster}의 알림이 {from}부터 {until}까지 일시 중지되었습니다: {reason}\n보내지 않은 알림:"
                ),
            ),
        };
        let mut text = head;
        for (time, title) in lines {
            // Writing to a text does not fail.
            let _ = write!(text, "\n{time} {title}");
        }
        let more = count.saturating_sub(lines.len());
        if more > 0 {
            let _ = match self.language {
                Language::English => write!(text, "\nand {more} more, which are in the alert log"),
                Language::SimplifiedChinese => write!(text, "\n另有 {more} 条,见告警日志"),
                Language::TraditionalChinese => write!(text, "\n另有 {more} 則,見警示日誌"),
                Language::Korean => write!(text, "\n그 외 {more}건은 알림 로그에 있습니다"),
            };
        }
        (one_line(title), text + "\n")
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::alert::OwnTexts;

    #[test]
    fn every_language_says_when_why_and_what() {
        let languages =
            [Language::English, Language::SimplifiedChinese, Language::TraditionalChinese, Language::Korean];
        let mut titles = std::collections::BTreeSet::new();
        for language in languages {
            let (texts, _) = Texts::new(language, TimeZone::UTC, OwnTexts::default());
            let (title, text) = texts.pause_ended(&PauseEnded {
                cluster: "orders",
                from: "FROM".into(),
                until: "UNTIL".into(),
                reason: "REASON",
                lines: vec![("10:00".into(), "moved")],
                count: 3,
            });
            for part in ["orders", "FROM", "UNTIL", "REASON", "10:00 moved", "2"] {
                assert!(text.contains(part), "{text}");
            }
            assert!(title.contains("orders") && title.contains('3'), "{title}");
            titles.insert(title);
        }
        assert_eq!(titles.len(), languages.len());
    }
}
