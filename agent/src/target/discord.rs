//! Discord webhooks.
//!
//! With `wait=true` the reply is the message as it was saved (200); without it, 204 comes even where nothing was saved
//! (discord-api-docs, "Execute Webhook"). Nobody is pinged: `allowed_mentions` is empty.

use std::time::Duration;

use serde_json::{Value, json};

use super::chat::{Chat, Service};
use super::http::{HttpClient, Reply};
use super::secret::SecretUrl;
use super::text::{cut_characters, escape, one_line, printable};
use super::{Manner, Outcome};
use crate::alert::{Alert, Class, Severity};

/// Characters of an embed's title.
const TITLE_CHARACTERS: usize = 256;
/// Characters of an embed's description.
const DESCRIPTION_CHARACTERS: usize = 4096;
/// Characters that Discord takes as markup.
const MARKUP: &str = "\\*_~`|>#[]()<:@-";

static SERVICE: Service = Service {
    kind: "discord",
    // Discord tells its limits in each reply and asks not to rely on figures; a modest one keeps clear of them.
    manner: Manner::people(5, Duration::from_secs(5)),
    message,
    judge,
};

/// A channel by its webhook's address.
pub fn discord(name: String, url: SecretUrl, http: HttpClient) -> Chat {
    Chat::new(&SERVICE, name, url.with_query(&[("wait", "true")]), http)
}

fn message(alert: &Alert) -> Value {
    let color = match (alert.class, alert.severity) {
        (Class::Resolved, _) => 0x2E_B8_86,
        (_, Severity::Critical) => 0xD0_02_1B,
        (_, Severity::Warning) => 0xF5_A6_23,
        (_, Severity::Info) => 0x80_80_80,
    };
    // A cut right behind a backslash escapes the ellipsis, which then looks the same.
    let clean = |text: &str| escape(text, MARKUP, '\\');
    json!({
        "embeds": [{
            "title": cut_characters(&clean(&one_line(&alert.title)), TITLE_CHARACTERS),
            "description": cut_characters(&clean(&printable(&alert.text)), DESCRIPTION_CHARACTERS),
            "color": color,
            "timestamp": format!("{:.3}", alert.occurred_at),
        }],
        "allowed_mentions": {"parse": []},
    })
}

pub(super) fn judge(reply: &Reply) -> Outcome {
    let json = reply.json();
    match (reply.status, &json) {
        (200, Some(json)) if json["id"].is_string() => {
            Outcome::Delivered { receipt: json["id"].as_str().map(str::to_owned) }
        }
        (204, _) => Outcome::delivered(),
        _ => reply.unclear(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::test_notice;

    #[test]
    fn markup_is_escaped_and_nobody_is_pinged() {
        let mut alert = test_notice("1", "@everyone **x** [a](b)").alert;
        alert.title = "job_1".into();
        let message = message(&alert);
        assert_eq!(message["embeds"][0]["description"], "\\@everyone \\*\\*x\\*\\* \\[a\\]\\(b\\)");
        assert_eq!(message["embeds"][0]["title"], "job\\_1");
        assert_eq!(message["allowed_mentions"], json!({"parse": []}));
    }

    #[test]
    fn texts_keep_to_the_limits() {
        let mut alert = test_notice("1", &"*".repeat(10_000)).alert;
        alert.title = "_".repeat(1000);
        let message = message(&alert);
        let length = |field: &str| message["embeds"][0][field].as_str().unwrap().chars().count();
        assert_eq!((length("title"), length("description")), (256, 4096));
    }
}
