//! DingTalk custom robots.
//!
//! Delivered is `errcode` 0 in the body; the status is always 200. Signed as "Custom robot security settings" asks: the
//! key is the secret, the message `timestamp + "\n" + secret`, the time in milliseconds, both in the query. Text messages
//! hold no markup, and ping only whom `at` names.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::HeaderMap;
use ring::hmac;
use serde_json::{Value, json};

use super::http::HttpClient;
use super::robot::{Verdict, judge};
use super::secret::{Secret, SecretUrl};
use super::text::{cut_characters, fit_json, one_line, printable};
use super::{Manner, Notice, Sending, Target};
use crate::alert::Alert;
use crate::clock::Clock;

/// Bytes of a whole message.
const MESSAGE_BYTES: usize = 20_000;
/// Characters of the first line.
const TITLE_CHARACTERS: usize = 300;

/// A DingTalk robot.
#[derive(Debug, Clone)]
pub struct DingTalkSettings {
    /// The user's name for it.
    pub name: String,
    /// Address with `access_token`.
    pub url: SecretUrl,
    /// Signing secret.
    pub secret: Option<Secret>,
    /// Words of which the robot wants one in each message.
    pub keywords: Vec<String>,
    /// Phone numbers of people to ping.
    pub at_mobiles: Vec<String>,
    /// User ids of people to ping.
    pub at_user_ids: Vec<String>,
    /// Whether to ping everybody.
    pub at_all: bool,
}

/// The receiver.
pub struct DingTalk {
    settings: DingTalkSettings,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

impl DingTalk {
    /// Makes the receiver.
    pub fn new(settings: DingTalkSettings, http: HttpClient, clock: Arc<dyn Clock>) -> DingTalk {
        DingTalk { settings, http, clock }
    }

    fn signed_url(&self) -> SecretUrl {
        let Some(secret) = &self.settings.secret else { return self.settings.url.clone() };
        let timestamp = self.clock.now().wall.as_millisecond().to_string();
        let sign = sign(secret.expose(), &timestamp);
        self.settings.url.with_query(&[("timestamp", &timestamp), ("sign", &sign)])
    }

    fn message(&self, alert: &Alert) -> Value {
        let settings = &self.settings;
        // People are pinged only if they stand in the text, too.
        let people: Vec<String> =
            settings.at_mobiles.iter().chain(&settings.at_user_ids).map(|person| format!("@{person}")).collect();
        let title = cut_characters(&one_line(&alert.title), TITLE_CHARACTERS);
        fit_json(&printable(&alert.text), MESSAGE_BYTES, |text| {
            let words = people.iter().map(String::as_str).chain(missing_keyword(&settings.keywords, &title, text));
            let ending = words.collect::<Vec<_>>().join(" ");
            let content = format!("{title}\n\n{}\n{ending}", text.trim_end());
            json!({
                "msgtype": "text",
                "text": {"content": content.trim_end()},
                "at": {
                    "atMobiles": settings.at_mobiles,
                    "atUserIds": settings.at_user_ids,
                    "isAtAll": settings.at_all,
                },
            })
        })
    }
}

impl Target for DingTalk {
    fn name(&self) -> &str {
        &self.settings.name
    }
    fn kind(&self) -> &'static str {
        "dingtalk"
    }
    fn manner(&self) -> Manner {
        // The 21st message in a minute blocks the robot for ten.
        Manner::people(20, Duration::from_secs(60))
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            let (url, message) = (self.signed_url(), self.message(&notice.alert));
            self.http
                .deliver(&url, HeaderMap::new(), &message, |reply| judge(reply, &["errcode"], &["errmsg"], verdict))
                .await
        })
    }
}

/// The first of the robot's words, if what is sent holds none of them.
pub(super) fn missing_keyword<'a>(keywords: &'a [String], title: &str, text: &str) -> Option<&'a str> {
    let is_there = |keyword: &String| title.contains(keyword) || text.contains(keyword);
    if keywords.iter().any(is_there) { None } else { keywords.first().map(String::as_str) }
}

fn sign(secret: &str, timestamp_ms: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    BASE64_STANDARD.encode(hmac::sign(&key, format!("{timestamp_ms}\n{secret}").as_bytes()))
}

pub(super) fn verdict(code: i64, message: &str) -> Verdict {
    match code {
        130_101 | 410_100 | 90_018 => Verdict::TooMany,
        310_000 if message.contains("sign") || message.contains("timestamp") => Verdict::Signature,
        // Keyword, address; token missing, unknown; robot stopped; group gone; parameter; content type; robot at its end.
        310_000 | 300_001 | 300_005 | 400_101 | 400_102 | 400_013 | 40_035 | 43_004 | 90_030 => Verdict::Never,
        _ => Verdict::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::http_client;
    use super::*;
    use crate::clock::ManualClock;
    use crate::delivery::test_notice;

    fn robot(change: impl FnOnce(&mut DingTalkSettings)) -> DingTalk {
        let mut settings = DingTalkSettings {
            name: "ding".into(),
            url: SecretUrl::parse("https://oapi.dingtalk.com/robot/send?access_token=T").unwrap(),
            secret: None,
            keywords: Vec::new(),
            at_mobiles: Vec::new(),
            at_user_ids: Vec::new(),
            at_all: false,
        };
        change(&mut settings);
        DingTalk::new(settings, http_client(), Arc::new(ManualClock::default()))
    }

    #[test]
    fn the_signature_is_that_of_the_known_vector() {
        let sign = sign("SECexample0123456789", "1700000000000");
        assert_eq!(sign, "figG6qqCA/lRh0hsGCW2zNtNV5znkAFut5BI0zKhqnQ=");
        let url = SecretUrl::parse("https://h/robot/send?access_token=T").unwrap().with_query(&[("sign", &sign)]);
        assert!(url.expose().as_str().ends_with("&sign=figG6qqCA%2FlRh0hsGCW2zNtNV5znkAFut5BI0zKhqnQ%3D"));
    }

    #[test]
    fn time_and_signature_go_into_the_query() {
        let url = robot(|settings| settings.secret = Some(Secret::new("SEC1"))).signed_url();
        let query: Vec<_> = url.expose().query_pairs().map(|(key, _)| key.into_owned()).collect();
        assert_eq!(query, ["access_token", "timestamp", "sign"]);
        assert!(url.expose().as_str().contains("&timestamp=1767225600000&"));
    }

    #[test]
    fn only_those_who_are_named_are_pinged_and_a_missing_keyword_is_added() {
        let robot = robot(|settings| {
            settings.at_mobiles = vec!["13800000000".into()];
            settings.keywords = vec!["告警".into(), "alert".into()];
        });
        let message = robot.message(&test_notice("1", "@all <b>").alert);
        assert_eq!(message["text"]["content"], "leader moved\n\n@all <b>\n@13800000000 告警");
        assert_eq!(message["at"], json!({"atMobiles": ["13800000000"], "atUserIds": [], "isAtAll": false}));
        let message = robot.message(&test_notice("1", "an alert").alert);
        assert_eq!(message["text"]["content"], "leader moved\n\nan alert\n@13800000000");
    }

    #[test]
    fn a_message_keeps_to_the_limit() {
        let message = robot(|_| {}).message(&test_notice("1", &"长\"".repeat(20_000)).alert);
        assert!(message.to_string().len() <= MESSAGE_BYTES);
        // Fault: a title alone could be over it.
        let mut alert = test_notice("1", "text").alert;
        alert.title = "长".repeat(20_000);
        assert!(robot(|_| {}).message(&alert).to_string().len() <= MESSAGE_BYTES);
    }

    /// Holds a fault: the robot refused a message whose word stood where it was cut off.
    #[test]
    fn a_word_in_what_is_cut_off_is_no_word() {
        let robot = robot(|settings| settings.keywords = vec!["告警".into()]);
        let message = robot.message(&test_notice("1", &format!("{}告警", "x".repeat(30_000))).alert);
        assert!(message["text"]["content"].as_str().unwrap().ends_with("…\n告警"));
    }
}
