//! Telegram, by a bot.
//!
//! Delivered is `ok` true in the body. Texts go without a parse mode, so that nothing in them is markup; the title is made
//! bold by an entity, which is counted in units of UTF-16 like the limit. A group that was upgraded has a new id, which the
//! reply tells.

use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::HeaderMap;
use serde_json::{Value, json};

use super::http::{HttpClient, Reply};
use super::secret::{Secret, SecretUrl};
use super::text::{cut_utf16, one_line, printable};
use super::{Manner, Notice, Outcome, Sending, Target};
use crate::alert::Alert;

/// Units of UTF-16 in a message.
const TEXT_UNITS: usize = 4096;
/// Units of UTF-16 in a title.
const TITLE_UNITS: usize = 500;
/// Keeps what follows an `@` from being the name of somebody to ping; shows as nothing.
const WORD_JOINER: char = '\u{2060}';

/// A Telegram chat.
pub struct Telegram {
    name: String,
    url: SecretUrl,
    /// The configured chat, or the one that took its place.
    chat_id: Mutex<Value>,
    http: HttpClient,
}

impl Telegram {
    /// A chat, by the address of the Bot API, the bot's token, and the chat's number or `@name`.
    pub fn new(name: String, api: &SecretUrl, token: &Secret, chat_id: &str, http: HttpClient) -> Telegram {
        let url = api.join(&format!("bot{}/sendMessage", token.expose()));
        let chat_id = chat_id.parse::<i64>().map_or_else(|_| chat_id.into(), Value::from);
        Telegram { name, url, chat_id: Mutex::new(chat_id), http }
    }

    pub(super) fn judge(&self, reply: &Reply) -> Outcome {
        let Some(json) = reply.json() else { return reply.unclear() };
        if json["ok"] == true && reply.failure().is_none() {
            return Outcome::Delivered { receipt: json["result"]["message_id"].as_i64().map(|id| id.to_string()) };
        }
        let parameters = &json["parameters"];
        let description = one_line(json["description"].as_str().unwrap_or_default());
        let reason = format!("answered {}: {description}", reply.status);
        if let Some(chat_id) = parameters["migrate_to_chat_id"].as_i64() {
            *self.chat_id.lock() = chat_id.into();
            return Outcome::retry(format!("{reason}; set `chat_id` to {chat_id}, which is used until then"));
        }
        match json["error_code"].as_i64() {
            Some(429) => {
                let after = parameters["retry_after"].as_u64().map(Duration::from_secs);
                Outcome::Retry { after: after.or_else(|| reply.retry_after()), reason }
            }
            Some(400..=499) => Outcome::Reject { reason },
            _ => Outcome::retry(reason),
        }
    }
}

impl Target for Telegram {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &'static str {
        "telegram"
    }
    fn manner(&self) -> Manner {
        // Twenty a minute to a group.
        Manner::people(20, Duration::from_secs(60))
    }
    fn send<'a>(&'a self, notice: &'a Notice) -> Sending<'a> {
        Box::pin(async move {
            let message = message(&notice.alert, self.chat_id.lock().clone());
            self.http.deliver(&self.url, HeaderMap::new(), &message, |reply| self.judge(reply)).await
        })
    }
}

fn message(alert: &Alert, chat_id: Value) -> Value {
    let title = cut_utf16(&defuse(&one_line(&alert.title)), TITLE_UNITS);
    let text = cut_utf16(&format!("{title}\n\n{}", defuse(printable(&alert.text).trim_end())), TEXT_UNITS);
    json!({
        "chat_id": chat_id,
        "text": text.trim_end(),
        "entities": [{"type": "bold", "offset": 0, "length": title.encode_utf16().count()}],
        "link_preview_options": {"is_disabled": true},
    })
}

/// Takes from each `@` and `/` that begins a word its power to ping somebody, or to look like a command.
fn defuse(text: &str) -> String {
    let mut defused = String::with_capacity(text.len());
    let mut is_inside_word = false;
    for character in text.chars() {
        defused.push(character);
        if matches!(character, '@' | '/') && !is_inside_word {
            defused.push(WORD_JOINER);
        }
        is_inside_word = character.is_alphanumeric() || matches!(character, '_' | '/' | ':');
    }
    defused
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    #[test]
    fn nothing_is_markup_and_nobody_is_pinged() {
        let mut alert = test_notice("1", "@admin <b>x</b> akka.tcp://flink@host:6123/user /stop").alert;
        alert.title = "👍 moved".into();
        let message = message(&alert, 5.into());
        let text = "👍 moved\n\n@\u{2060}admin <b>x</\u{2060}b> akka.tcp://flink@host:6123/user /\u{2060}stop";
        assert_eq!(message["text"], text);
        assert_eq!(message["entities"][0]["length"], 8);
        assert_eq!(message["parse_mode"], Value::Null);
    }

    #[test]
    fn a_text_keeps_to_the_limit_in_utf16() {
        let message = message(&test_notice("1", &"👍".repeat(5000)).alert, 5.into());
        assert_eq!(message["text"].as_str().unwrap().encode_utf16().count(), 4095);
    }
}
