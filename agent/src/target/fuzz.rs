//! Fuzzing of what receivers answer, see `crate::fuzz`.

use bolero::check;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::fake::http_client;
use super::http::{Reply, by_status};
use super::robot;
use super::secret::{Secret, SecretUrl};
use super::telegram::Telegram;
use super::{Outcome, alertmanager, dingtalk, discord, feishu, kubernetes_event, pagerduty, slack, teams, wecom};

/// A reply of these bytes: two of status, one of whether it is whole, a line of headers, and the body.
fn reply(bytes: &[u8]) -> Option<Reply> {
    let (head, rest) = bytes.split_at_checked(3)?;
    let status = 100 + u16::from_be_bytes([head[0], head[1]]) % 500;
    let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
    let (line, body) = rest.split_at(end);
    let mut headers = HeaderMap::new();
    for name in ["retry-after", "x-ratelimit-reset-after", "date"] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_bytes(line).ok()?);
    }
    Some(Reply { status, headers, body: body.get(1..).unwrap_or_default().to_vec(), is_whole: head[2] % 2 == 0 })
}

/// No answer makes anything panic, and none but a success, whole where its body is what says so, means delivered.
#[test]
fn fuzz_reply() {
    let url = SecretUrl::parse("https://api.telegram.org/").unwrap();
    check!(name = "reply").with_iterations(500).for_each(move |bytes: &[u8]| {
        let Some(reply) = reply(bytes) else { return };
        let telegram = Telegram::new("t".into(), &url, &Secret::new("1:A"), "1", http_client());
        let robots = |fields: &[&str], verdict: fn(i64, &str) -> robot::Verdict| {
            robot::judge(&reply, fields, &["errmsg", "msg"], verdict)
        };
        let by_body = [
            ("slack", slack::judge(&reply)),
            ("telegram", telegram.judge(&reply)),
            ("dingtalk", robots(&["errcode"], dingtalk::verdict)),
            ("feishu", robots(&["code", "StatusCode"], feishu::verdict)),
            ("wecom", robots(&["errcode"], wecom::verdict)),
        ];
        for (kind, outcome) in by_body {
            let may_be_delivered = reply.is_whole && (200..300).contains(&reply.status);
            assert!(
                may_be_delivered || !matches!(outcome, Outcome::Delivered { .. }),
                "{kind}: {reply:?}: {outcome:?}"
            );
            assert_told(kind, &outcome);
        }
        let by_status = [
            ("webhook", by_status(&reply)),
            ("discord", discord::judge(&reply)),
            ("teams", teams::judge(&reply)),
            ("pagerduty", pagerduty::judge(&reply)),
            ("alertmanager", alertmanager::judge(&reply)),
            ("kubernetes_event", kubernetes_event::judge(&reply)),
        ];
        for (kind, outcome) in by_status {
            // 409: the Event is there already.
            let may_be_delivered =
                (200..300).contains(&reply.status) || (kind == "kubernetes_event" && reply.status == 409);
            assert!(
                may_be_delivered || !matches!(outcome, Outcome::Delivered { .. }),
                "{kind}: {reply:?}: {outcome:?}"
            );
            assert_told(kind, &outcome);
        }
    });
}

/// What is not delivered says why, on one line that is no page.
fn assert_told(kind: &str, outcome: &Outcome) {
    let (Outcome::Retry { reason, .. } | Outcome::Reject { reason }) = outcome else { return };
    assert!(!reason.is_empty() && !reason.contains('\n') && reason.chars().count() < 5000, "{kind}: {reason:?}");
}
