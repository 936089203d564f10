//! Feishu and Lark custom bots.
//!
//! Delivered is `code` 0, or `StatusCode` 0 where there is no `code`. Signed as "Custom bot usage guide" asks, which is
//! not as DingTalk does it: the key is `timestamp + "\n" + secret`, the message is empty, the time is in seconds, and both
//! stand in the body. Text goes as a rich text's plain elements, in which nothing is markup.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::HeaderMap;
use ring::hmac;
use serde_json::{Value, json};

use super::dingtalk::missing_keyword;
use super::http::HttpClient;
use super::robot::{Verdict, judge};
use super::secret::{Secret, SecretUrl};
use super::text::{cut_characters, fit_json, one_line, printable};
use super::{Manner, Notice, Sending, Target};
use crate::alert::Alert;
use crate::clock::Clock;

/// Bytes of a whole message: 20 KB, less a margin for the signature.
const MESSAGE_BYTES: usize = 19_000;
/// Characters of a title.
const TITLE_CHARACTERS: usize = 300;

/// A Feishu or Lark bot.
#[derive(Debug, Clone)]
pub struct FeishuSettings {
    /// The user's name for it.
    pub name: String,
    /// Address with the token.
    pub url: SecretUrl,
    /// Signing secret.
    pub secret: Option<Secret>,
    /// Words of which the bot wants one in each message.
    pub keywords: Vec<String>,
}

/// The receiver.
pub struct Feishu {
    settings: FeishuSettings,
    http: HttpClient,
    clock: Arc<dyn Clock>,
}

impl Feishu {
    /// Makes the receiver.
    pub fn new(settings: FeishuSettings, http: HttpClient, clock: Arc<dyn Clock>) -> Feishu {
        Feishu { settings, http, clock }
    }

    fn message(&self, alert: &Alert) -> Value {
        let title = cut_characters(&one_line(&alert.title), TITLE_CHARACTERS);
        let mut message = fit_json(&printable(&alert.text), MESSAGE_BYTES, |text| {
            let lines = text.trim_end().lines().chain(missing_keyword(&self.settings.keywords, &title, text));
            let content: Vec<Value> = lines.map(|line| json!([{"tag": "text", "text": line}])).collect();
            // Shown in every language of the client, as no other is given.
            json!({"msg_type": "post", "content": {"post": {"zh_cn": {"title": title, "content": content}}}})
        });
        if let Some(secret) = &self.settings.secret {
            let timestamp = self.clock.now().wall.as_second().to_string();
            message["sign"] = sign(secret.expose(), &timestamp).into();
            message["timestamp"] = timestamp.into();
        }
        message
    }
}

impl Target for Feishu {
    fn name(&self) -> &str {
        &self.settings.name
    }
    fn kind(&self) -> &'static str {
        "feishu"
    }
    fn manner(&self) -> Manner {
        // Five a second and a hundred a minute: this is within both.
        Manner::people(5, Duration::from_millis(3200))
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            let message = self.message(&notice.alert);
            let fields = (&["code", "StatusCode"], &["msg", "StatusMessage"]);
            self.http
                .deliver(&self.settings.url, HeaderMap::new(), &message, |reply| {
                    judge(reply, fields.0, fields.1, verdict)
                })
                .await
        })
    }
}

fn sign(secret: &str, timestamp_seconds: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, format!("{timestamp_seconds}\n{secret}").as_bytes());
    BASE64_STANDARD.encode(hmac::sign(&key, b""))
}

pub(super) fn verdict(code: i64, message: &str) -> Verdict {
    match code {
        11_232 => Verdict::TooMany,
        9_499 if message.to_lowercase().contains("too many") => Verdict::TooMany,
        19_021 => Verdict::Signature,
        // Malformed; no such bot; address not allowed; keyword missing.
        9_499 | 19_001 | 19_002 | 19_022 | 19_024 => Verdict::Never,
        _ => Verdict::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::http_client;
    use super::*;
    use crate::clock::ManualClock;
    use crate::delivery::test_notice;

    fn bot(secret: Option<&str>, keywords: &[&str]) -> Feishu {
        let settings = FeishuSettings {
            name: "feishu".into(),
            url: SecretUrl::parse("https://open.feishu.cn/open-apis/bot/v2/hook/T").unwrap(),
            secret: secret.map(Secret::new),
            keywords: keywords.iter().map(|keyword| (*keyword).to_owned()).collect(),
        };
        Feishu::new(settings, http_client(), Arc::new(ManualClock::default()))
    }

    #[test]
    fn the_signature_is_that_of_the_known_vector() {
        assert_eq!(sign("feishuSecretExample", "1700000000"), "ilKT5QI6xYsvhoNu6CV4aqTEuKKjJrXAfSl/IvR3h5c=");
    }

    #[test]
    fn time_and_signature_go_into_the_body() {
        let message = bot(Some("s"), &[]).message(&test_notice("1", "text").alert);
        assert_eq!((&message["timestamp"], &message["sign"]), (&"1767225600".into(), &sign("s", "1767225600").into()));
        assert_eq!(bot(None, &[]).message(&test_notice("1", "text").alert)["sign"], Value::Null);
    }

    #[test]
    fn each_line_is_a_plain_element() {
        let message = bot(None, &["告警"]).message(&test_notice("1", "<at user_id=\"all\">all</at>\nsecond").alert);
        let post = &message["content"]["post"]["zh_cn"];
        assert_eq!(post["title"], "leader moved");
        assert_eq!(post["content"][0], json!([{"tag": "text", "text": "<at user_id=\"all\">all</at>"}]));
        assert_eq!(post["content"][2][0]["text"], "告警");
    }

    #[test]
    fn a_message_keeps_to_the_limit() {
        let message = bot(Some("s"), &[]).message(&test_notice("1", &"长\n".repeat(20_000)).alert);
        assert!(message.to_string().len() <= 20 * 1024);
    }
}
