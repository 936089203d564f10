//! Every kind of receiver over HTTP against the answers that its provider gives, and against those that none should.

use std::sync::Arc;
use std::time::Duration;

use super::alertmanager::{Alertmanager, AlertmanagerSettings};
use super::dingtalk::{DingTalk, DingTalkSettings};
use super::discord::discord;
use super::fake::{Behaviour, FakeHttp, http_client};
use super::feishu::{Feishu, FeishuSettings};
use super::kubernetes_event::{KubernetesEvent, KubernetesEventSettings, Token};
use super::pagerduty::PagerDuty;
use super::secret::{Secret, SecretUrl};
use super::slack::slack;
use super::teams::teams;
use super::telegram::Telegram;
use super::webhook::{Format, Webhook, WebhookSettings};
use super::wecom::wecom;
use super::{Action, Notice, Outcome, Target};
use crate::alert::{AlertSettings, Alerts, Effect};
use crate::clock::{Clock, ManualClock};
use crate::delivery::test_notice;
use crate::leadership::{Change, Component, JobId, Leader, SeatChange, SeatKey, SessionId};

const SECRET: &str = "5ecret-token";

fn target(kind: &str, url: SecretUrl) -> Box<dyn Target> {
    let (name, http, clock) = ("name".to_owned(), http_client(), Arc::new(ManualClock::default()));
    match kind {
        "webhook" => {
            let (keys, authorization, headers, format) = (Vec::new(), None, Vec::new(), Format::Plain);
            let settings = WebhookSettings { name, url, keys, authorization, headers, format };
            Box::new(Webhook::new(settings, http, clock).unwrap())
        }
        "slack" => Box::new(slack(name, url, http)),
        "teams" => Box::new(teams(name, url, http)),
        "discord" => Box::new(discord(name, url, http)),
        "wecom" => Box::new(wecom(name, url, http)),
        "dingtalk" => {
            let settings = DingTalkSettings {
                name,
                url,
                secret: Some(Secret::new(SECRET)),
                keywords: Vec::new(),
                at_mobiles: Vec::new(),
                at_user_ids: Vec::new(),
                at_all: false,
            };
            Box::new(DingTalk::new(settings, http, clock))
        }
        "feishu" => {
            let settings = FeishuSettings { name, url, secret: Some(Secret::new(SECRET)), keywords: Vec::new() };
            Box::new(Feishu::new(settings, http, clock))
        }
        "telegram" => Box::new(Telegram::new(name, &url, &Secret::new(SECRET), "-5", http)),
        "pagerduty" => Box::new(PagerDuty::new(name, url, Secret::new(SECRET), http)),
        "alertmanager" => {
            let settings = AlertmanagerSettings { name, urls: vec![url], authorization: None, watchdog: None };
            Box::new(Alertmanager::new(settings, http, clock).unwrap())
        }
        "kubernetes_event" => {
            let token = Token::Given(Secret::new(SECRET));
            let settings = KubernetesEventSettings { name, api: url, token, namespace: Some("flink".into()) };
            Box::new(KubernetesEvent::new(settings, http, clock))
        }
        other => panic!("{other}"),
    }
}

const KINDS: [&str; 11] = [
    "webhook",
    "slack",
    "teams",
    "discord",
    "dingtalk",
    "feishu",
    "wecom",
    "telegram",
    "pagerduty",
    "alertmanager",
    "kubernetes_event",
];

/// `delivered RECEIPT`, `retry`, `retry SECONDS` or `reject`.
async fn outcome(kind: &str, behaviour: Behaviour) -> (String, String) {
    let server = FakeHttp::start(vec![behaviour]).await;
    let url = server.url(&format!("/hook/{SECRET}?key={SECRET}"));
    let notice = test_notice("abc", "text");
    match target(kind, url).send(&notice).await {
        Outcome::Delivered { receipt } => (format!("delivered {}", receipt.unwrap_or_default()), String::new()),
        Outcome::Retry { after: None, reason } => ("retry".into(), reason),
        Outcome::Retry { after: Some(after), reason } => (format!("retry {}", after.as_secs()), reason),
        Outcome::Reject { reason } => ("reject".into(), reason),
    }
}

#[tokio::test]
async fn the_providers_own_answers() {
    let teams = "delivered accepted; Teams does not confirm that it is shown";
    let table = [
        ("webhook", 200, "", "delivered "),
        ("webhook", 410, "", "reject"),
        ("slack", 200, "ok", "delivered "),
        ("slack", 200, "no_text", "retry"),
        ("slack", 400, "invalid_payload", "reject"),
        ("slack", 403, "action_prohibited", "reject"),
        ("slack", 404, "channel_not_found", "reject"),
        ("slack", 410, "channel_is_archived", "reject"),
        ("slack", 429, r#"{"retry_after":1,"ok":false,"error":"rate_limited"}"#, "retry 1"),
        ("slack", 500, "rollup_error", "retry"),
        ("teams", 200, "", teams),
        ("teams", 202, "", teams),
        ("teams", 400, "Bad payload", "reject"),
        ("teams", 429, "", "retry"),
        ("discord", 200, r#"{"id":"1234","channel_id":"5"}"#, "delivered 1234"),
        ("discord", 204, "", "delivered "),
        ("discord", 401, r#"{"message":"Invalid Webhook Token","code":50027}"#, "reject"),
        ("discord", 404, r#"{"message":"Unknown Webhook","code":10015}"#, "reject"),
        ("discord", 429, r#"{"message":"You are being rate limited.","retry_after":2.5,"global":false}"#, "retry 2"),
        ("dingtalk", 200, r#"{"errcode":0,"errmsg":"ok"}"#, "delivered "),
        ("dingtalk", 200, r#"{"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}"#, "retry 60"),
        ("dingtalk", 200, r#"{"errcode":410100,"errmsg":"too fast"}"#, "retry 60"),
        ("dingtalk", 200, r#"{"errcode":310000,"errmsg":"sign not match"}"#, "reject"),
        ("dingtalk", 200, r#"{"errcode":310000,"errmsg":"keywords not in content"}"#, "reject"),
        ("dingtalk", 200, r#"{"errcode":300001,"errmsg":"token is not exist"}"#, "reject"),
        ("dingtalk", 200, r#"{"errcode":-1,"errmsg":"system busy"}"#, "retry"),
        (
            "feishu",
            200,
            r#"{"code":0,"msg":"success","data":{},"StatusCode":0,"StatusMessage":"success"}"#,
            "delivered ",
        ),
        ("feishu", 200, r#"{"StatusCode":0,"StatusMessage":"success"}"#, "delivered "),
        ("feishu", 200, r#"{"code":19021,"msg":"sign match fail or timestamp is not within one hour"}"#, "reject"),
        ("feishu", 200, r#"{"code":19024,"msg":"Key Words Not Found"}"#, "reject"),
        ("feishu", 400, r#"{"code":9499,"msg":"too many request"}"#, "retry 60"),
        ("feishu", 400, r#"{"code":9499,"msg":"Bad Request"}"#, "reject"),
        ("feishu", 200, r#"{"code":11232,"msg":"frequency limited"}"#, "retry 60"),
        ("wecom", 200, r#"{"errcode":0,"errmsg":"ok"}"#, "delivered "),
        ("wecom", 200, r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#, "reject"),
        ("wecom", 200, r#"{"errcode":45009,"errmsg":"api freq out of limit"}"#, "retry 60"),
        ("telegram", 200, r#"{"ok":true,"result":{"message_id":77}}"#, "delivered 77"),
        (
            "telegram",
            429,
            r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 34","parameters":{"retry_after":34}}"#,
            "retry 34",
        ),
        ("telegram", 401, r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#, "reject"),
        ("telegram", 400, r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#, "reject"),
        (
            "telegram",
            400,
            r#"{"ok":false,"error_code":400,"description":"group upgraded","parameters":{"migrate_to_chat_id":-100}}"#,
            "retry",
        ),
        ("telegram", 502, r#"{"ok":false,"error_code":502,"description":"Bad Gateway"}"#, "retry"),
        ("pagerduty", 202, r#"{"status":"success","message":"Event processed","dedup_key":"abc"}"#, "delivered abc"),
        ("pagerduty", 200, "", "retry"),
        ("pagerduty", 400, r#"{"status":"invalid event","errors":["Length of 'routing_key'"]}"#, "reject"),
        ("pagerduty", 429, "", "retry 60"),
        ("alertmanager", 200, "", "delivered 1 of 1 members"),
        ("alertmanager", 400, "start time must be before end time", "reject"),
        ("kubernetes_event", 201, r#"{"metadata":{"name":"leaderwatch.abc"}}"#, "delivered leaderwatch.abc"),
        ("kubernetes_event", 422, r#"{"reason":"Invalid"}"#, "reject"),
    ];
    for (kind, status, body, expected) in table {
        let (seen, reason) = outcome(kind, Behaviour::reply(status, body)).await;
        assert_eq!(seen, expected, "{kind} {status} {body}: {reason}");
        assert!(!reason.contains(SECRET), "{reason}");
    }
}

#[tokio::test]
async fn what_no_receiver_should_answer() {
    for kind in KINDS {
        let by_status = kind == "webhook" || kind == "alertmanager" || kind == "teams";
        // Whose success stands in the body is not believed without it.
        let on_half = if by_status { "delivered" } else { "retry" };
        let table = [
            ("an HTML page", Behaviour::reply(200, "<html>Log in</html>"), on_half),
            ("an empty body", Behaviour::reply(200, ""), on_half),
            ("half a reply", Behaviour::HalfReply("ok"), on_half),
            ("a body without end", Behaviour::Endless, on_half),
            ("silence", Behaviour::Silent, "retry"),
            ("a reset", Behaviour::Reset, "retry"),
            ("a closed connection", Behaviour::Close, "retry"),
            ("no HTTP", Behaviour::reply(0, "SSH-2.0-OpenSSH"), "retry"),
            ("trouble", Behaviour::reply(503, "<html>Service Unavailable</html>"), "retry"),
            ("trouble with a wish", Behaviour::reply(503, "").with_header("retry-after", "120"), "retry 120"),
            ("too many with a wish", Behaviour::reply(429, "").with_header("retry-after", "120"), "retry 120"),
            ("not found", Behaviour::reply(404, "<html>Not Found</html>"), "reject"),
            ("a redirect", Behaviour::reply(302, "").with_header("location", "http://127.0.0.1:1/"), "reject"),
        ];
        for (what, behaviour, expected) in table {
            let (seen, reason) = outcome(kind, behaviour).await;
            let is_right = seen == expected || (expected == "delivered" && seen.starts_with("delivered"));
            assert!(is_right, "{kind}, {what}: {seen} ({reason})");
            assert!(!reason.contains(SECRET), "{kind}, {what}: {reason}");
        }
    }
}

#[tokio::test]
async fn a_receiver_with_a_wrong_certificate_gets_nothing() {
    for kind in KINDS {
        let server = FakeHttp::start_tls("localhost", vec![Behaviour::reply(200, "ok")]).await;
        // From a CA that is not trusted.
        let outcome = target(kind, server.url(&format!("/{SECRET}"))).send(&test_notice("abc", "text")).await;
        let Outcome::Retry { after: None, reason } = outcome else { panic!("{kind}: {outcome:?}") };
        assert!(reason.contains("certificate") && !reason.contains(SECRET), "{kind}: {reason}");
        assert!(server.requests().is_empty(), "{kind}");
    }
}

/// One election that moves ten thousand jobs is one message within each receiver's limit.
#[tokio::test]
async fn a_storm_is_one_message_within_limits() {
    const JOBS: u128 = 10_000;
    let clock = ManualClock::default();
    let mut alerts = Alerts::new(AlertSettings::for_tests());
    let leader = |id: u128| Leader { id: SessionId(id), address: Some("pekko.tcp://flink@jm:6123/user/rpc/x".into()) };
    let seats = std::iter::once(SeatKey::cluster(Component::ResourceManager));
    for seat in seats.chain((0..JOBS).map(|job| SeatKey::job(JobId(job)))) {
        let change = Change::Moved { old: leader(1), new: leader(2), leaderless: None };
        alerts.take(&SeatChange { seat, change, at: clock.now(), left_out: 0 });
    }
    let mut raised = Vec::new();
    for _ in 0..200 {
        for effect in alerts.due(clock.now()) {
            match effect {
                Effect::Raise { alert, .. } => raised.push(*alert),
                Effect::Save { key, .. } => alerts.written(&key, clock.now()),
                other => drop(other),
            }
        }
        clock.advance(Duration::from_millis(100));
    }
    let [alert] = &raised[..] else { panic!("{} alerts", raised.len()) };
    assert_eq!(alert.members.len() as u64 + alert.members_left_out, 10_001);
    let notice = Notice { message_id: alert.id.clone(), action: Action::Raise, alert: alert.clone() };
    // The whole request, of which the receiver's own limit is a part.
    let limits = [
        ("webhook", 128 * 1024),
        ("slack", 48 * 1024),
        ("teams", 28 * 1024),
        ("discord", 24 * 1024),
        ("dingtalk", 20_000),
        ("feishu", 20 * 1024),
        ("wecom", 4 * 1024),
        ("telegram", 16 * 1024),
        ("pagerduty", 512 * 1024),
        ("alertmanager", 128 * 1024),
        ("kubernetes_event", 4 * 1024),
    ];
    assert_eq!(limits.map(|(kind, _)| kind).len(), KINDS.len());
    for (kind, limit) in limits {
        let server = FakeHttp::start(vec![Behaviour::reply(200, "ok")]).await;
        target(kind, server.url("/")).send(&notice).await;
        let request = server.requests().remove(0);
        assert!(request.body.len() <= limit, "{kind}: {} bytes", request.body.len());
        let json = request.json();
        assert!(json.is_object() || json.is_array(), "{kind}");
    }
}

#[tokio::test]
async fn a_telegram_group_that_was_upgraded_gets_the_next_attempt_under_its_new_id() {
    let moved =
        r#"{"ok":false,"error_code":400,"description":"group upgraded","parameters":{"migrate_to_chat_id":-100}}"#;
    let server = FakeHttp::start(vec![Behaviour::reply(400, moved), Behaviour::reply(200, r#"{"ok":true}"#)]).await;
    let chat = target("telegram", server.url(""));
    let notice = test_notice("abc", "text");
    assert!(matches!(chat.send(&notice).await, Outcome::Retry { .. }));
    assert_eq!(chat.send(&notice).await, Outcome::delivered());
    let ids: Vec<_> = server.requests().iter().map(|request| request.json()["chat_id"].clone()).collect();
    assert_eq!(ids, [-5, -100]);
    assert_eq!(server.requests()[0].target, format!("/bot{SECRET}/sendMessage"));
}

#[tokio::test]
async fn a_wrong_clock_is_named_where_a_signature_is_refused() {
    let refused = Behaviour::reply(200, r#"{"errcode":310000,"errmsg":"sign not match"}"#)
        .with_header("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let (_, reason) = outcome("dingtalk", refused).await;
    assert!(reason.contains("this host's clock is ") && reason.ends_with("ahead of the receiver's: set it right"));
}

/// The size of a text, in a receiver's own unit.
type Size = fn(&str) -> usize;

/// Each text of a message and the most that the receiver takes.
const LIMITS: [(&str, &str, Size, usize); 15] = [
    ("webhook", "/title", str::len, 64 * 1024),
    ("slack", "/blocks/0/text/text", characters, 150),
    ("slack", "/blocks/1/text/text", characters, 3000),
    ("teams", "/attachments/0/content/body/0/inlines/0/text", characters, 300),
    ("discord", "/embeds/0/title", characters, 256),
    ("discord", "/embeds/0/description", characters, 4096),
    ("dingtalk", "/text/content", str::len, 20_000),
    ("feishu", "/content/post/zh_cn/title", characters, 300),
    ("wecom", "/text/content", str::len, 2048),
    ("telegram", "/text", units, 4096),
    ("pagerduty", "/payload/summary", characters, 1024),
    ("pagerduty", "/payload/source", characters, 255),
    ("alertmanager", "/0/annotations/summary", str::len, 64 * 1024),
    ("alertmanager", "/0/annotations/description", str::len, 8000),
    ("kubernetes_event", "/message", str::len, 1024),
];

fn characters(text: &str) -> usize {
    text.chars().count()
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

/// What would ping, link or hide, were it taken as markup: `None` where the receiver takes the text as it is.
fn live_markup(kind: &str, message: &serde_json::Value) -> Option<String> {
    let whole = message.to_string();
    let is_live = match kind {
        // What notifications show is markup; the blocks are plain text.
        "slack" => message["text"].as_str().is_none_or(|text| text.contains(['<', '>'])),
        "discord" => {
            let description = message["embeds"][0]["description"].as_str().unwrap_or_default();
            message["allowed_mentions"]["parse"] != serde_json::json!([]) || description.contains("|||")
        }
        "dingtalk" => message["at"]["isAtAll"] != false || message["msgtype"] != "text",
        "wecom" => message["msgtype"] != "text" || whole.contains("mentioned_list"),
        "telegram" => !message["parse_mode"].is_null(),
        "teams" => whole.contains(r#""type":"TextBlock""#),
        "feishu" => message["content"]["post"]["zh_cn"]["content"].as_array().is_none_or(|lines| {
            lines.iter().flat_map(|line| line.as_array().unwrap()).any(|part| part["tag"] != "text")
        }),
        _ => false,
    };
    is_live.then_some(whole)
}

/// Job names, labels and texts full of what breaks formats: messages stay valid, within each limit, and ping nobody.
#[tokio::test]
async fn hostile_texts_stay_valid_for_each_receiver() {
    let hostile = "\u{0}\u{7}\u{1b}[31m\"\\</script>{{7*7}}<!channel>@everyone<at user_id=\"all\">\r\n.\r\n\
                   [x](http://y)👩‍👩‍👧‍👦\u{202e}]]>"
        .repeat(200);
    assert!(hostile.len() > 10_000);
    for kind in KINDS {
        let server = FakeHttp::start(vec![Behaviour::reply(200, "ok")]).await;
        let mut notice = test_notice("abc", &hostile);
        notice.alert.title.clone_from(&hostile);
        notice.alert.labels.insert("x\"y".into(), hostile.clone());
        target(kind, server.url("/")).send(&notice).await;
        let request = server.requests().remove(0);
        let json = request.json();
        assert_eq!(live_markup(kind, &json), None, "{kind}");
        let texts = LIMITS.iter().filter(|(of, ..)| *of == kind);
        let mut count = 0;
        for (_, at, size, limit) in texts {
            let text = json.pointer(at).and_then(serde_json::Value::as_str);
            let text = text.unwrap_or_else(|| panic!("{kind} has no text at {at}: {json:.500}"));
            assert!(size(text) <= *limit && !text.is_empty(), "{kind} {at}: {}", size(text));
            let allowed =
                |c: char| (!c.is_control() && c != '\u{202e}') || matches!(c, '\n' | '\t') || kind == "webhook";
            assert!(text.chars().all(allowed), "{kind} {at}: {text:.200}");
            count += 1;
        }
        assert!(count > 0, "{kind} has no limit in the table");
    }
}

#[test]
fn every_place_where_people_read_has_a_limit_and_takes_digests() {
    // Messages in milliseconds, as each receiver's page tells them, or below.
    for (kind, messages, per_ms) in [
        ("slack", 20, 20_000),
        ("teams", 4, 2000),
        ("discord", 5, 5000),
        ("dingtalk", 20, 60_000),
        ("feishu", 5, 3200),
        ("wecom", 20, 60_000),
        ("telegram", 20, 60_000),
    ] {
        let manner = target(kind, SecretUrl::parse("http://h/").unwrap()).manner();
        assert_eq!(manner.digests, super::Digests::OfBacklog, "{kind}");
        assert_eq!(manner.rate, Some(super::Rate::new(messages, Duration::from_millis(per_ms))), "{kind}");
    }
}

/// Alertmanager ends an alert that is not repeated within five minutes, and takes a later word for the same alert, as
/// PagerDuty does.
#[test]
fn what_keeps_alerts_open_is_told_as_it_wants_to_be() {
    let manner = |kind: &str| target(kind, SecretUrl::parse("http://h/").unwrap()).manner();
    let repeat = manner("alertmanager").repeat.unwrap();
    assert!(repeat.every < Duration::from_secs(300));
    assert_eq!(repeat.resolved_for, Duration::from_secs(300));
    for (kind, updates) in [("alertmanager", true), ("pagerduty", true), ("slack", false), ("webhook", false)] {
        assert_eq!(manner(kind).updates_in_place, updates, "{kind}");
    }
}

/// Without it Discord answers before it has saved the message, and also where it does not save it.
#[tokio::test]
async fn discord_is_asked_to_answer_when_the_message_is_saved() {
    let server = FakeHttp::start(vec![Behaviour::reply(200, r#"{"id":"1"}"#)]).await;
    let outcome = target("discord", server.url("/api/webhooks/1/abc")).send(&test_notice("1", "text")).await;
    assert_eq!(outcome, Outcome::Delivered { receipt: Some("1".into()) });
    assert_eq!(server.requests()[0].target, "/api/webhooks/1/abc?wait=true");
}
